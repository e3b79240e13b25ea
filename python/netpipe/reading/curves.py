# SPDX-License-Identifier: Apache-2.0
"""The points of a run as curves, and each point as an estimate. All other analyses and all figures start here.

A curve is the points of one variant under one pattern, by rising size. In a run of several launches each launch has its
own points, and their visits are estimated together (blocks/visits.py). Points of older runs, which did not record
visits, are merged by the rule of `estimate.across`, never across states of the machine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from netpipe.reading.columns.by_curve import SETTLED
from netpipe.reading.columns.rows import Rows, together
from netpipe.reading.estimate import Bools, Estimate, Estimates, Ints, Reals, across, unsure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from netpipe.reading.blocks.visits import Sized
    from netpipe.reading.columns.by_curve import ByCurve, CurveRecords
    from netpipe.reading.explained.decision import InStates
    from netpipe.reading.machine.states import States
    from netpipe.records import Point, Run

    NumberOf = Callable[[int, int | None], int | None]  # of a launch and a state: States.number_of

WIDE = 0.2  # half an interval over its value: a point of which less is known is drawn pale
MUTE = 1.0  # and one of which less is known says nothing, so no line goes through it


class CurvePoint(msgspec.Struct, frozen=True, gc=False):  # as Estimate: there may be hundreds of thousands
    """One size of a curve as it is shown: its launches merged."""

    size_bytes: int
    time_ns: Estimate  # the median, per operation
    rate_bytes_per_s: Estimate | None  # None: a size of 0 bytes moves nothing
    # is it within the target? In older runs: in every launch; None: not recorded (imported)
    converged: bool | None
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
    def mute(self) -> bool:
        """Does it say nothing? Its interval is wider than ±100 %, or it has none and is none of an imported curve."""
        return self.loose and self.time_ns.half_width > MUTE

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


@dataclass(frozen=True, eq=False)
class CurvePoints(Rows[CurvePoint]):
    """The points of a curve."""

    times: Estimates  # ns
    rates: Estimates  # bytes/s
    moves: Bools  # is there a rate?
    converged: list[bool | None]
    state: list[int | None]
    by_launch: list[tuple[Point, ...]]
    verified: Bools  # did every launch check what arrived?
    apart: Bools

    def made(self) -> Iterable[CurvePoint]:
        rates = [
            rate if has else None for rate, has in zip(self.rates.each(), self.moves.tolist(), strict=True)
        ]
        columns = self.size.tolist(), self.times.each(), rates, self.converged, self.state, self.by_launch
        return map(CurvePoint, *columns, self.apart.tolist())

    @property
    def records(self) -> int:
        """How many there are in all launches."""
        return sum(map(len, self.by_launch))


@dataclass(frozen=True, slots=True)
class Curve:
    variant: str
    pattern: str
    points: CurvePoints
    left_out: int = 0  # point records in another state of the machine than the ones merged
    one_state: bool = False  # of the visits of the points, those in one state (reading/explained)

    @property
    def joined(self) -> CurvePoints:
        """The points that a line may join."""
        return self.points.at(~self.points.apart) if self.one_state else self.points


def all_converged(points: Iterable[Point]) -> bool | None:
    """False as soon as one point did not settle, None if that is not recorded."""
    known = {point.converged for point in points}
    return False if False in known else None if None in known else True


def visited_points(of: CurveRecords, times: Sized, target: float | None = None) -> CurvePoints:
    """The points of sizes whose visits say the time, one record for each launch. The time is held against the target;
    without one each launch has judged its own.
    """
    bounds = np.append(of.first, len(of.points))
    place = np.searchsorted(of.size[of.first], times.size)
    begin, end = bounds[place], bounds[place + 1]
    records = [tuple(of.points[a:b]) for a, b in zip(begin.tolist(), end.tolist(), strict=True)]
    return _points(
        times.size,
        times.each,
        of.moved[begin],
        list(map(all_converged, records)) if target is None else (times.each.half_width <= target).tolist(),
        [None] * len(records),
        records,
        np.logical_and.reduceat(of.verified, of.first)[place] if len(place) else of.verified[:0],
    )


def _single_points(of: CurveRecords, place: Ints, number_of: NumberOf) -> CurvePoints:
    """Of records without visits that are the only ones of their size."""
    return _points(
        of.size[place],
        of.times.at(place),
        of.moved[place],
        [SETTLED[one] for one in of.converged[place].tolist()],
        list(map(number_of, of.launch[place].tolist(), of.state[place].tolist())),
        [(of.points[one],) for one in place.tolist()],
        of.verified[place],
    )


def _points_of_launches(
    of: CurveRecords, spans: Sequence[tuple[int, int]], number_of: NumberOf
) -> CurvePoints:
    """Of sizes with several records without visits, which stand in these spans: those in the most frequent state of the
    machine are merged, the earlier one of two that are as frequent.
    """
    found = []
    for begin, end in spans:
        by_state: dict[int | None, list[int]] = {}
        for place in range(begin, end):
            by_state.setdefault(number_of(int(of.launch[place]), int(of.state[place])), []).append(place)
        found.append(max(by_state.items(), key=lambda item: len(item[1])))
    records = [tuple(of.points[place] for place in places) for _, places in found]
    kept = [np.array(places) for _, places in found]
    rates = [_rates(of.moved[places], of.times.at(places)) for places in kept]
    moving = [rate.at(np.flatnonzero(moves)).each() for rate, moves in rates]
    made = _points(
        of.size[[begin for begin, _ in spans]],
        Estimates.of(*(across(of.times.at(places).each()) for places in kept)),
        np.zeros(len(kept)),
        list(map(all_converged, records)),
        [state for state, _ in found],
        records,
        np.array([of.verified[places].all() for places in kept]),
    )
    merged = [across(some) if some else unsure(0.0) for some in moving]
    return replace(made, rates=Estimates.of(*merged), moves=np.array(list(map(bool, moving))))


def _points(
    size: Ints,
    times: Estimates,
    moved: Reals,
    converged: list[bool | None],
    state: list[int | None],
    by_launch: list[tuple[Point, ...]],
    verified: Bools,
) -> CurvePoints:
    rates, moves = _rates(moved, times)
    apart = np.zeros(len(size), np.bool_)
    return CurvePoints(size, times, rates, moves, converged, state, by_launch, verified, apart)


def _rates(moved: Reals, times: Estimates) -> tuple[Estimates, Bools]:
    """Bytes per second at these times of an operation that moves so many bytes, and where there are any."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        rates = Estimates(moved / times.value, moved / times.high, moved / times.low, times.known)
    return rates, (moved > 0) & (times.low > 0)


def curves(
    run: Run,
    states: States,
    records: ByCurve,
    by_visits: Mapping[tuple[str, str], Sized],
    in_states: Mapping[tuple[str, str], InStates],
) -> tuple[Curve, ...]:
    """Every curve of the run (`records` is `by_curve(run.points)`, `by_visits` the times of each curve's sizes as far
    as its visits know them), its launches merged, in the order of the plan, else of the first point.

    Where the launches of a size are in different states of the machine, `left_out` counts the points that were not
    merged.
    """
    made = []
    target = target_of(run)
    for (variant, pattern), of in records.items():
        times = by_visits[variant, pattern]
        parts = [visited_points(of, times, target)] if len(times.size) else []
        first = of.first
        if len(times.size) < len(first):
            number = np.diff(first, append=len(of.points))
            older = ~np.isin(of.size[first], times.size) if parts else np.ones(len(first), np.bool_)
            parts.append(_single_points(of, first[older & (number == 1)], states.number_of))
            several = older & (number > 1)
            if several.any():
                spans = list(zip(first[several].tolist(), (first + number)[several].tolist(), strict=True))
                parts.append(_points_of_launches(of, spans, states.number_of))
        points = together(parts)
        split = in_states.get((variant, pattern))
        if split:
            points = replace(points, apart=np.isin(points.size, split.missing))
        made.append(Curve(variant, pattern, points, len(of.points) - points.records, split is not None))
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
