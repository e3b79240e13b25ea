# SPDX-License-Identifier: Apache-2.0
"""The states of the machine, from the yardsticks: when it changed, and which points that affected (docs/method.md).

The worker numbers the states of each launch from 0. Here they get numbers that hold for the whole run: states of two
launches are the same by the worker's own rule, if cache-line bounce and memory copy rate are alike. Wake-up latency
takes no part: it varies too much within one state.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import attrgetter
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from netpipe.records import Run, Yardstick

# Files from before the plan recorded them: the factors within which two yardsticks are one state.
BOUNCE_TOLERANCE = 1.4
COPY_TOLERANCE = 1.8


@dataclass(frozen=True, slots=True)
class Tolerances:
    """Two yardsticks within these factors are one state."""

    bounce: float
    copy: float


@dataclass(frozen=True, slots=True)
class MachineState:
    """One state of the machine. Yardsticks are medians over the state, None if none was recorded."""

    number: int  # over the whole run, from 0 in order of appearance
    members: tuple[tuple[int, int], ...]  # (launch, the worker's number in that launch)
    bounce_ns: float | None
    copy_bytes_per_s: float | None
    wakeup_ns: float | None
    points: int  # measured in this state


@dataclass(frozen=True, slots=True)
class Change:
    """The machine went from one state to another, between two yardsticks."""

    launch: int
    at_s: float | None  # of the first yardstick in the new state
    before: MachineState
    after: MachineState


@dataclass(frozen=True)
class States:
    states: tuple[MachineState, ...]
    changes: tuple[Change, ...]  # in the order of time
    mixed_points: int  # points that had samples in more than one state
    left_out_samples: int  # samples of those points that were taken in another state and left out
    split: bool  # older runs: each point is of one state
    tolerances: Tolerances

    @cached_property
    def _numbers(self) -> dict[tuple[int, int | None], int]:
        return {member: state.number for state in self.states for member in state.members}

    def number_of(self, launch: int, state: int | None) -> int | None:
        """The run-wide number of a worker's state; None if no yardstick was taken in it."""
        return self._numbers.get((launch, state))


def _tolerances(run: Run) -> Tolerances:
    """As the worker recorded them in the first plan that has them."""
    recorded = next((plan.state_tolerances for plan in run.plans if plan.state_tolerances), {})
    return Tolerances(recorded.get("bounce", BOUNCE_TOLERANCE), recorded.get("copy", COPY_TOLERANCE))


def states(run: Run) -> States:
    """The states of the machine over a whole run; none without yardsticks (an imported run)."""
    tolerances = _tolerances(run)
    by_member: dict[tuple[int, int], list[Yardstick]] = {}
    yardsticks = [yardstick for yardstick in run.yardsticks if yardstick.state is not None]
    for yardstick in yardsticks:
        by_member.setdefault(_member(yardstick), []).append(yardstick)

    alike_so_far: list[_Group] = []
    for member, there in by_member.items():
        home = next((group for group in alike_so_far if group.holds(member, there, tolerances)), None)
        if home is None:
            alike_so_far.append(home := _Group())
        home.add(member, there)
    groups = [group.members for group in alike_so_far]

    numbers: dict[tuple[int, int | None], int] = {
        member: number for number, group in enumerate(groups) for member in group
    }
    points: Counter[int | None] = Counter()
    for member, count in Counter(map(attrgetter("launch", "state"), run.points)).items():
        points[numbers.get(member)] += count
    found = tuple(
        MachineState(
            number=number,
            members=tuple(group),
            bounce_ns=_median(y.bounce_ns for member in group for y in by_member[member]),
            copy_bytes_per_s=_median(y.copy_bytes_per_s for member in group for y in by_member[member]),
            wakeup_ns=_median(y.wakeup_ns for member in group for y in by_member[member]),
            points=points[number],
        )
        for number, group in enumerate(groups)
    )
    home_of = {member: state for state in found for member in state.members}
    changes = []
    for before, after in pairwise(yardsticks):
        old, new = home_of[_member(before)], home_of[_member(after)]
        if before.launch == after.launch and old is not new:
            changes.append(Change(after.launch, after.at_s, old, new))
    mixed = [point.other_states for point in run.points if point.other_states]
    split = any(point.state is not None for point in run.points)
    return States(found, tuple(changes), len(mixed), sum(mixed), split, tolerances)


class _Group:
    """States of several launches that are one. The values are kept sorted: with many launches their medians are asked
    for many times.
    """

    def __init__(self) -> None:
        self.members: list[tuple[int, int]] = []
        self._launches: set[int] = set()
        self._bounces: list[float] = []
        self._copies: list[float] = []

    def add(self, member: tuple[int, int], yardsticks: Iterable[Yardstick]) -> None:
        self.members.append(member)
        self._launches.add(member[0])
        for yardstick in yardsticks:
            if yardstick.bounce_ns is not None:
                insort(self._bounces, yardstick.bounce_ns)
            if yardstick.copy_bytes_per_s is not None:
                insort(self._copies, yardstick.copy_bytes_per_s)

    def holds(self, member: tuple[int, int], yardsticks: Sequence[Yardstick], tolerances: Tolerances) -> bool:
        """Is this the state that other launches were in? Within one launch the worker's numbers decide."""
        return (
            member[0] not in self._launches
            and alike(_median(y.bounce_ns for y in yardsticks), _middle(self._bounces), tolerances.bounce)
            and alike(_median(y.copy_bytes_per_s for y in yardsticks), _middle(self._copies), tolerances.copy)
        )


def _middle(ordered: Sequence[float]) -> float | None:
    """The median of sorted values."""
    half = len(ordered) // 2
    return median(ordered[half - (len(ordered) % 2 == 0) : half + 1]) if ordered else None


def _member(yardstick: Yardstick) -> tuple[int, int]:
    assert yardstick.state is not None
    return yardstick.launch, yardstick.state


def alike(a: float | None, b: float | None, tolerance: float) -> bool:
    """Are both within the factor of each other? A value that is not known is alike to any."""
    return a is None or b is None or max(a, b) < tolerance * min(a, b)


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
