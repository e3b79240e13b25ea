# SPDX-License-Identifier: Apache-2.0
"""What the yardsticks say: which states the machine was in, when it changed, and what that did to the points
(METHOD rule 17).

The worker numbers the states that it told apart from 0 in every launch. Here they get numbers that hold for
the whole run: two states of different launches are one by the worker's own rule, a cache-line bounce and a
memory copy rate that are alike. The wake-up latency takes no part: it varies too much within one state.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from netpipe.records import Run, Yardstick

# The factors within which the worker takes two yardsticks for one state (src/core/yardstick.h).
BOUNCE_TOLERANCE = 1.4
COPY_TOLERANCE = 1.8


@dataclass(frozen=True, slots=True)
class MachineState:
    """One state of the machine. Yardsticks are medians over all that were taken in it, None where none was
    known.
    """

    number: int  # over the whole run, from 0 in the order of their first sight
    members: tuple[tuple[int, int], ...]  # (launch, the worker's number in that launch)
    bounce_ns: float | None
    copy_bytes_per_s: float | None
    wakeup_ns: float | None
    points: int  # how many points stand in this state


@dataclass(frozen=True, slots=True)
class Change:
    """The machine went from one state to another: between the yardstick before and this one."""

    launch: int
    at_s: float | None  # of the first yardstick in the new state
    before: MachineState
    after: MachineState


@dataclass(frozen=True, slots=True)
class States:
    states: tuple[MachineState, ...]
    changes: tuple[Change, ...]  # in the order of time
    mixed_points: int  # points that had samples in more than one state
    left_out_samples: int  # samples of those that were taken in another state and left out

    def number_of(self, launch: int, state: int | None) -> int | None:
        """The run-wide number of a worker's state; None where no yardstick belongs to it."""
        return next((known.number for known in self.states if (launch, state) in known.members), None)


def states(run: Run) -> States:
    """The states of the machine over a whole run. Without yardsticks (an imported run) there are none, and no
    change.
    """
    by_member: dict[tuple[int, int], list[Yardstick]] = {}
    yardsticks = [yardstick for yardstick in run.yardsticks if yardstick.state is not None]
    for yardstick in yardsticks:
        by_member.setdefault(_member(yardstick), []).append(yardstick)

    groups: list[list[tuple[int, int]]] = []
    for member in by_member:
        home = next((group for group in groups if _same(member, group, by_member)), None)
        if home is None:
            groups.append([member])
        else:
            home.append(member)

    found = tuple(
        MachineState(
            number=number,
            members=tuple(group),
            bounce_ns=_median(y.bounce_ns for member in group for y in by_member[member]),
            copy_bytes_per_s=_median(y.copy_bytes_per_s for member in group for y in by_member[member]),
            wakeup_ns=_median(y.wakeup_ns for member in group for y in by_member[member]),
            points=sum((point.launch, point.state) in group for point in run.points),
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
    return States(found, tuple(changes), len(mixed), sum(mixed))


def _same(
    member: tuple[int, int], group: list[tuple[int, int]], by_member: dict[tuple[int, int], list[Yardstick]]
) -> bool:
    """Is this state of one launch the one that other launches are in? The worker's word holds within a
    launch.
    """
    if any(launch == member[0] for launch, _ in group):
        return False
    there = [yardstick for other in group for yardstick in by_member[other]]
    here = by_member[member]
    return alike(
        _median(y.bounce_ns for y in here), _median(y.bounce_ns for y in there), BOUNCE_TOLERANCE
    ) and alike(
        _median(y.copy_bytes_per_s for y in here), _median(y.copy_bytes_per_s for y in there), COPY_TOLERANCE
    )


def _member(yardstick: Yardstick) -> tuple[int, int]:
    assert yardstick.state is not None
    return yardstick.launch, yardstick.state


def alike(a: float | None, b: float | None, tolerance: float) -> bool:
    """Within the factor of each other; what is not known differs from nothing."""
    return a is None or b is None or max(a, b) < tolerance * min(a, b)


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
