# SPDX-License-Identifier: Apache-2.0
"""Clock sources that change during a launch: the kernel leaves one that it finds unstable (tsc for hpet), and each
reading of the clock may then take fifty times as long. The rounds of a sample were chosen for the cost at the start of
the launch, so samples may have become too short for the clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from netpipe.records import Point, Run, Yardstick

SMALLEST_FACTOR = 20  # a sample lasts at least so many readings of the clock (docs/method.md)


@dataclass(frozen=True, slots=True)
class ClockChange:
    """Between two yardsticks of a launch. Costs are of one reading, as these measured them."""

    launch: int
    at_s: float  # of the later one
    before: str
    after: str
    cost_before_ns: float | None
    cost_ns: float | None
    # variant -> sizes with samples after it that are too short for its cost
    short: Mapping[str, tuple[int, ...]]


def clock_changes(run: Run) -> tuple[ClockChange, ...]:
    """By launch and time."""
    by_launch: dict[int, list[Yardstick]] = {}
    for yardstick in run.yardsticks:
        if yardstick.clock_source and yardstick.at_s is not None:
            by_launch.setdefault(yardstick.launch, []).append(yardstick)
    return tuple(
        change for launch in sorted(by_launch) for change in _changes(run, launch, by_launch[launch])
    )


def _changes(run: Run, launch: int, yardsticks: list[Yardstick]) -> Iterator[ClockChange]:
    for old, new in pairwise(yardsticks):
        if old.clock_source == new.clock_source:
            continue
        since_s = old.at_s or 0.0  # the kernel changed it somewhere between the two
        yield ClockChange(
            launch=launch,
            at_s=new.at_s or 0.0,
            before=old.clock_source or "",
            after=new.clock_source or "",
            cost_before_ns=old.clock_ns,
            cost_ns=new.clock_ns,
            short=_short(run, launch, since_s, new.clock_ns or 0.0),
        )


def _short(run: Run, launch: int, since_s: float, cost_ns: float) -> dict[str, tuple[int, ...]]:
    found: dict[str, set[int]] = {}
    for point in run.points:
        if point.launch == launch and _has_short_visit(point, since_s, SMALLEST_FACTOR * cost_ns):
            found.setdefault(point.variant, set()).add(point.size_bytes)
    return {variant: tuple(sorted(sizes)) for variant, sizes in found.items()}


def _has_short_visit(point: Point, since_s: float, least_ns: float) -> bool:
    visits = point.whole_visits()
    if visits is None or not point.ops:
        return False
    return any(
        at_s > since_s and median_ns * point.ops < least_ns
        for at_s, median_ns in zip(visits.at_s, visits.median_ns, strict=True)
    )
