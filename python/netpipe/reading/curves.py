# SPDX-License-Identifier: Apache-2.0
"""The points of a run as curves, and each point as an estimate. All other analyses and all figures start here.

A curve is the points of one variant under one pattern, by rising size. In a run of several launches each launch has its
own points, and their visits are estimated together (blocks/visits.py). Points of older runs, which did not record
visits, are merged by the rule of `estimate.across`, never across states of the machine.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from netpipe.reading.estimate import Estimate, across, unsure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from netpipe.reading.explained.decision import InStates
    from netpipe.reading.machine.states import States
    from netpipe.records import Point, Run


Groups = dict[tuple[str, str], dict[int, list["Point"]]]
WIDE = 0.2  # half an interval over its value: a point of which less is known is drawn as a ring


class CurvePoint(msgspec.Struct, frozen=True, gc=False):  # as Estimate: there may be hundreds of thousands
    """One size of a curve as it is shown: its launches merged."""

    size_bytes: int
    time_ns: Estimate  # the median, per operation
    rate_bytes_per_s: Estimate | None  # None: a size of 0 bytes moves nothing
    converged: (
        bool | None
    )  # is it within the target? In older runs: in every launch; None: not recorded (imported)
    state: int | None  # of the machine: run-wide number (machine/states.py)
    by_launch: tuple[Point, ...]  # the records merged here, one for each launch
    apart: bool = False  # of a curve in states: not visited in the state of the curve, so no line joins it

    @property
    def loose(self) -> bool:
        """Is little known of it? Its interval is wide, or there is none. A point of an older run did not settle."""
        if any(point.visits is None for point in self.by_launch):
            return self.converged is False
        return self.time_ns.half_width > WIDE

    @property
    def mean_ns(self) -> float | None:
        """The mean time of an operation: of all that were timed, so a launch counts by its operations. What OSU and IMB
        print; the number is the median.
        """
        known = [(point.mean_ns, (point.samples or 1) * (point.ops or 1)) for point in self.by_launch]
        if any(mean is None for mean, _ in known):
            return None
        return sum((mean or 0.0) * count for mean, count in known) / sum(count for _, count in known)

    @property
    def shown(self) -> Point:
        """The launch whose median is nearest to the number shown: distributions, ranks and pairs of different launches
        are not mixed.
        """
        if len(self.by_launch) == 1:
            return self.by_launch[0]
        return min(self.by_launch, key=lambda point: abs(point.median_ns - self.time_ns.value))


@dataclass(frozen=True, slots=True)
class Curve:
    variant: str
    pattern: str
    points: tuple[CurvePoint, ...]  # by rising size, each size once
    left_out: int = 0  # point records in another state of the machine than the ones merged
    one_state: bool = False  # of the visits of the points, those in one state (reading/explained)

    @property
    def joined(self) -> tuple[CurvePoint, ...]:
        """The points that a line may join."""
        return tuple(point for point in self.points if not point.apart) if self.one_state else self.points


def time_of(point: Point) -> Estimate:
    """The median time of one operation, in ns. Without a half width (imported, or too few samples, where the limits in
    the record are minimum and maximum) there is no interval.
    """
    if point.half_width is None or point.low_ns is None or point.high_ns is None:
        return unsure(point.median_ns)
    value, low, high = point.median_ns, point.low_ns, point.high_ns
    return Estimate(value, min(value, low), max(value, high))


def rate_of(point: Point, time: Estimate | None = None) -> Estimate | None:
    """Bytes per second at this time of an operation, else at the point's own. The pattern decides which bytes count
    (`bytes_per_s`).
    """
    time = time or time_of(point)
    moved = (point.bytes_per_s or 0.0) * point.median_ns
    if moved <= 0 or time.low <= 0:
        return None
    return Estimate(moved / time.value, moved / time.high, moved / time.low, time.known)


def all_converged(points: Iterable[Point]) -> bool | None:
    """False as soon as one point did not settle, None if that is not recorded."""
    known = {point.converged for point in points}
    return False if False in known else None if None in known else True


def curve_point(
    points: Sequence[Point], state: int | None, time: Estimate | None = None, target: float | None = None
) -> CurvePoint:
    """Merges the points of one size, one for each launch, all in one state of the machine (its run-wide number). `time`
    is what their visits say, and what the target is held against; None: they recorded none, and each launch has
    judged its own.
    """
    if len(points) == 1 or time is not None:
        point = points[0]
        within = all_converged(points) if time is None or target is None else time.half_width <= target
        time = time or time_of(point)
        rate = rate_of(point, time)
        return CurvePoint(point.size_bytes, time, rate, within, state, tuple(points))
    times = [time_of(point) for point in points]
    both = zip(points, times, strict=True)
    rates = [rate for point, time in both if (rate := rate_of(point, time)) is not None]
    return CurvePoint(
        size_bytes=points[0].size_bytes,
        time_ns=across(times),
        rate_bytes_per_s=across(rates) if rates else None,
        converged=all_converged(points),
        state=state,
        by_launch=tuple(points),
    )


def grouped(points: Iterable[Point]) -> Groups:
    """(variant, pattern) -> size -> points by launch; variants in the order of their first point. A point that was
    measured again in the same launch (the machine had changed state) replaces the earlier one.
    """
    found: Groups = {}
    for point in points:
        key = (point.variant, point.pattern)
        curve = found.get(key)
        if curve is None:
            curve = found[key] = {}
        here = curve.get(point.size_bytes)
        if here is None:
            curve[point.size_bytes] = [point]
            continue
        place = bisect_left(here, point.launch, key=_LAUNCH)
        again = place < len(here) and here[place].launch == point.launch
        here[place : place + again] = [point]
    return {key: dict(sorted(curve.items())) for key, curve in found.items()}


_LAUNCH = attrgetter("launch")


def curves(
    run: Run,
    states: States,
    groups: Groups,
    by_visits: Mapping[tuple[str, str], Mapping[int, Estimate]],
    in_states: Mapping[tuple[str, str], InStates],
) -> tuple[Curve, ...]:
    """Every curve of the run (`groups` is `grouped(run.points)`, `by_visits` the times of each curve's sizes as far as
    its visits know them), its launches merged, in the order of the plan, else of the first point.

    Where the launches of a size are in different states of the machine, only those in the most frequent state are
    merged (the earlier one of two that are as frequent); `left_out` counts the others.
    """
    made = []
    target = target_of(run)
    number_of = states.number_of
    for (variant, pattern), sizes in groups.items():
        merged = []
        left_out = 0
        times = by_visits[variant, pattern]
        for size, points in sizes.items():
            if size in times:
                merged.append(curve_point(points, None, times[size], target))
                continue
            if len(points) == 1:
                merged.append(curve_point(points, number_of(points[0].launch, points[0].state)))
                continue
            by_state: dict[int | None, list[Point]] = {}
            for point in points:
                by_state.setdefault(number_of(point.launch, point.state), []).append(point)
            state, kept = max(by_state.items(), key=lambda item: len(item[1]))
            merged.append(curve_point(kept, state))
            left_out += len(points) - len(kept)
        split = in_states.get((variant, pattern))
        if split:
            merged = [msgspec.structs.replace(at, apart=at.size_bytes in split.missing) for at in merged]
        made.append(Curve(variant, pattern, tuple(merged), left_out, split is not None))
    place = place_in_plan(run)
    return tuple(sorted(made, key=lambda curve: place(curve.variant, curve.pattern)))


def target_of(run: Run) -> float | None:
    """Half an interval over its value, at which a point is precise enough; None: the run does not say."""
    return next((plan.target for plan in run.plans if plan.target), None)


def place_in_plan(run: Run) -> Callable[[str, str], tuple[int, int]]:
    """Sort key of a variant under a pattern: pattern by pattern, both in the order in which the user gave them."""
    variants = {variant: place for place, variant in enumerate(planned(run))}
    patterns = {pattern: place for plan in run.plans for place, pattern in enumerate(plan.patterns)}
    return lambda variant, pattern: (
        patterns.get(pattern, len(patterns)),
        variants.get(variant, len(variants)),
    )


def planned(run: Run) -> tuple[str, ...]:
    """The variants in the order in which the user gave them."""
    return tuple(dict.fromkeys(variant.variant for plan in run.plans for variant in plan.variants))
