# SPDX-License-Identifier: Apache-2.0
"""The points of a run as curves, and what a point says as estimates. All other analyses and all pictures
start here.

A curve is the points of one variant under one pattern, by rising size. Where a run was launched several times
each launch has its own; `curves` makes them one, by the rule of `estimate.across`, and never across different
states of the machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from netpipe.reading.estimate import Estimate, across, unsure
from netpipe.reading.states import states

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from netpipe.records import Point, Run


@dataclass(frozen=True, slots=True)
class Spot:
    """One size of a curve as it is shown: what several launches said about it, or the only one."""

    size_bytes: int
    time_ns: Estimate  # per operation, the median
    rate_bytes_per_s: Estimate | None  # None: a size of 0 bytes moves nothing
    converged: bool | None  # in every launch; None: imported, nobody knows
    state: int | None  # run-wide number (states.py)
    points: tuple[Point, ...]  # one per launch, what the numbers above come from


@dataclass(frozen=True, slots=True)
class Curve:
    variant: str
    pattern: str
    spots: tuple[Spot, ...]  # by rising size, each size once
    left_out: int = 0  # points of launches that stood in another state of the machine than the ones merged


def time_of(point: Point) -> Estimate:
    """The median time of one operation, in ns. Without a half width (imported, or too few samples: the limits in the
    record are then minimum and maximum) there is no interval.
    """
    if point.half_width is None or point.low_ns is None or point.high_ns is None:
        return unsure(point.median_ns)
    return Estimate(point.median_ns, min(point.low_ns, point.median_ns), max(point.high_ns, point.median_ns))


def rate_of(point: Point) -> Estimate | None:
    """Bytes per second. The pattern decided which bytes count (`bytes_per_s`), the interval is that of the
    time.
    """
    time = time_of(point)
    if not point.bytes_per_s or time.low <= 0:
        return None
    return time.inverse().scaled(point.bytes_per_s * time.value)


def all_converged(points: Iterable[Point]) -> bool | None:
    """False as soon as one is not, None where nobody knows."""
    known = [point.converged for point in points]
    return None if any(word is None for word in known) and False not in known else all(known)


def spot(points: Sequence[Point], state: int | None) -> Spot:
    """Points of one size, one per launch, all of one state of the machine (its run-wide number)."""
    rates = [rate for rate in map(rate_of, points) if rate is not None]
    return Spot(
        size_bytes=points[0].size_bytes,
        time_ns=across([time_of(point) for point in points]),
        rate_bytes_per_s=across(rates) if rates else None,
        converged=all_converged(points),
        state=state,
        points=tuple(points),
    )


def shown_point(spot: Spot) -> Point:
    """Of several launches the one whose median is the number shown, or is nearest to it: distributions, ranks and pairs
    of different launches are not mixed.
    """
    return min(spot.points, key=lambda point: abs(point.median_ns - spot.time_ns.value))


def grouped(points: Iterable[Point]) -> dict[tuple[str, str], dict[int, list[Point]]]:
    """(variant, pattern) -> size -> points by launch; variants in the order of their first point. A point
    that was written again for the same launch and size (a machine that changed state) replaces the earlier
    one.
    """
    latest: dict[tuple[str, str], dict[int, dict[int, Point]]] = {}
    for point in points:
        curve = latest.setdefault((point.variant, point.pattern), {})
        curve.setdefault(point.size_bytes, {})[point.launch] = point
    return {
        key: {
            size: [by_launch[launch] for launch in sorted(by_launch)]
            for size, by_launch in sorted(curve.items())
        }
        for key, curve in latest.items()
    }


def curves(run: Run) -> tuple[Curve, ...]:
    """Every curve of the run, launches merged, in the order of the plan or, without one, of the first point.

    At a size whose launches stand in different states of the machine only those of the state that most of the
    size's points stand in are merged (the earlier state where there are as many); the others are counted in
    `left_out`.
    """
    seen = states(run)
    made = []
    for (variant, pattern), sizes in grouped(run.points).items():
        spots = []
        left_out = 0
        for points in sizes.values():
            by_state: dict[int | None, list[Point]] = {}
            for point in points:
                by_state.setdefault(seen.number_of(point.launch, point.state), []).append(point)
            state, kept = max(by_state.items(), key=lambda item: len(item[1]))
            spots.append(spot(kept, state))
            left_out += len(points) - len(kept)
        made.append(Curve(variant, pattern, tuple(spots), left_out))
    place = place_in_plan(run)
    return tuple(sorted(made, key=lambda curve: place(curve.variant, curve.pattern)))


def place_in_plan(run: Run) -> Callable[[str, str], tuple[int, int]]:
    """Where a variant under a pattern stands: pattern by pattern, both in the order in which the user gave them."""
    variants = {variant: place for place, variant in enumerate(planned(run))}
    patterns = {pattern: place for plan in run.plans for place, pattern in enumerate(plan.patterns)}
    return lambda variant, pattern: (
        patterns.get(pattern, len(patterns)),
        variants.get(variant, len(variants)),
    )


def planned(run: Run) -> tuple[str, ...]:
    """The variants in the order in which the user gave them."""
    return tuple(dict.fromkeys(variant.variant for plan in run.plans for variant in plan.variants))
