# SPDX-License-Identifier: Apache-2.0
"""Several launches of the same plan: what differs between them, apart from what varies inside one (docs/method.md).

Two starts of a program can differ more than two hours inside one. At each size the number is the median of the
launches' medians; `spread` is the largest over the smallest, `inside` the relative half width that the launches
themselves gave. Launches in different states of the machine are never mixed: `curves` keeps those of one state.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from netpipe.reading.curves import Curve

    OneState = Mapping[int, Mapping[int, float]]  # size -> launch -> the median in the state of the curve


class SizeSpread(msgspec.Struct, frozen=True, gc=False):  # as Estimate: there may be hundreds of thousands
    size_bytes: int
    launches: tuple[int, ...]  # their numbers
    median_ns: float  # median of the launches' medians, per operation
    spread: float  # largest over smallest of these medians: 1 is no spread
    inside: float | None  # median of the launches' relative half widths


@dataclass(frozen=True, slots=True)
class LaunchSpread:
    variant: str
    pattern: str
    launches: int
    sizes: tuple[SizeSpread, ...]  # with two launches or more in one state of the machine
    typical_spread: float  # median over the sizes
    worst: SizeSpread
    typical_inside: float | None
    left_out: int  # point records in another state of the machine than the ones merged


def launch_spreads(
    curves: Iterable[Curve], in_states: Mapping[tuple[str, str], OneState]
) -> tuple[LaunchSpread, ...]:
    """One for each curve that was launched more than once (`in_states` has the medians of those that come in states: in
    the records of their points the states are mixed).
    """
    spreads = (_spread(curve, in_states.get((curve.variant, curve.pattern))) for curve in curves)
    return tuple(spread for spread in spreads if spread is not None)


def _spread(curve: Curve, one_state: OneState | None) -> LaunchSpread | None:
    sizes: list[SizeSpread] = []
    if max(map(len, curve.points.by_launch), default=0) < 2:
        return None
    for at in curve.joined:
        if len(at.by_launch) < 2:
            continue
        times = {point.launch: point.median_ns for point in at.by_launch}
        inside = [point.half_width for point in at.by_launch]
        if one_state is not None:
            times, inside = dict(one_state[at.size_bytes]), []
        medians = list(times.values())
        if len(medians) < 2 or min(medians) <= 0:
            continue
        sizes.append(
            SizeSpread(
                size_bytes=at.size_bytes,
                launches=tuple(times),
                median_ns=median(medians),
                spread=max(medians) / min(medians),
                inside=_median_known(inside),
            )
        )
    if not sizes:
        return None
    return LaunchSpread(
        variant=curve.variant,
        pattern=curve.pattern,
        launches=len({launch for size in sizes for launch in size.launches}),
        sizes=tuple(sizes),
        typical_spread=median(size.spread for size in sizes),
        worst=max(sizes, key=lambda size: size.spread),
        typical_inside=_median_known([size.inside for size in sizes]),
        left_out=curve.left_out,
    )


def _median_known(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
