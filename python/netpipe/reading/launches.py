# SPDX-License-Identifier: Apache-2.0
"""Several launches of the same plan: what differs between them, apart from what varies inside one (docs/method.md).

Two starts of a program can differ more than two hours inside one. At each size `spread` is the largest over the
smallest of the launches' medians, and `inside` the relative half width that the launches themselves gave. Launches in
different states of the machine are never mixed: `curves` keeps those of one state.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from netpipe.reading.blocks.visits import groups, medians

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from netpipe.reading.curves import Curve
    from netpipe.reading.estimate import Ints, Reals


@dataclass(frozen=True, slots=True)
class SizeSpread:
    """One size that was launched twice or more in one state of the machine."""

    size_bytes: int
    median_ns: float  # median of the launches' medians, per operation
    spread: float  # largest over smallest of these medians: 1 is no spread
    inside: float | None  # median of the launches' relative half widths


@dataclass(frozen=True, slots=True)
class LaunchSpread:
    variant: str
    pattern: str
    launches: int
    typical_spread: float  # median over the sizes
    worst: SizeSpread
    typical_inside: float | None
    left_out: int  # point records in another state of the machine than the ones merged


@dataclass(frozen=True, slots=True)
class LaunchMedians:
    """An entry for each launch of each size, by rising size."""

    size: Ints
    launch: Ints
    median_ns: Reals
    half_width: Reals  # of the median inside the launch; nan: not known


def launch_spreads(
    curves: Iterable[Curve], in_states: Mapping[tuple[str, str], LaunchMedians]
) -> tuple[LaunchSpread, ...]:
    """One for each curve that was launched more than once (`in_states` has the medians of those that come in states: in
    the records of their points the states are mixed).
    """
    spreads = (_spread(curve, in_states.get((curve.variant, curve.pattern))) for curve in curves)
    return tuple(spread for spread in spreads if spread is not None)


def _recorded(curve: Curve) -> LaunchMedians:
    counts = list(map(len, curve.points.by_launch))
    records = list(chain.from_iterable(curve.points.by_launch))
    # A half width that is not known is None, and becomes not a number.
    times, widths = (
        np.array(list(map(attrgetter(field), records)), np.float64) for field in ("median_ns", "half_width")
    )
    launch = np.array([record.launch for record in records], np.int64)
    return LaunchMedians(np.repeat(curve.points.size, counts), launch, times, widths)


def _spread(curve: Curve, one_state: LaunchMedians | None) -> LaunchSpread | None:
    if max(map(len, curve.points.by_launch), default=0) < 2:
        return None
    of = one_state or _recorded(curve)
    sizes = groups(of.size)
    least, most = (at.reduceat(of.median_ns, sizes.first) for at in (np.minimum, np.maximum))
    compared = np.flatnonzero((sizes.entries > 1) & (least > 0))
    if not len(compared):
        return None
    spreads = most[compared] / least[compared]
    worst = int(spreads.argmax())
    place = compared[worst]
    known = ~np.isnan(of.half_width) & np.isin(sizes.number, compared)
    by_size = groups(of.size[known])
    inside = medians(by_size, of.half_width[known]) if known.any() else of.half_width[:0]
    size = int(of.size[sizes.first[place]])
    there = inside[of.size[known][by_size.first] == size]
    return LaunchSpread(
        variant=curve.variant,
        pattern=curve.pattern,
        launches=len(np.unique(of.launch[np.isin(sizes.number, compared)])),
        typical_spread=float(np.median(spreads)),
        worst=SizeSpread(
            size,
            float(medians(sizes, of.median_ns)[place]),
            float(spreads[worst]),
            float(there[0]) if len(there) else None,
        ),
        typical_inside=float(np.median(inside)) if len(inside) else None,
        left_out=curve.left_out,
    )
