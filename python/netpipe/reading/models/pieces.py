# SPDX-License-Identifier: Apache-2.0
"""A curve as latency and rate, piece by piece: t(n) = a + n / r, and the sizes at which a and r change.

One piece is the model of R. W. Hockney ("The communication challenge for MPP", Parallel Computing 20, 1994, 389-398).
Libraries change their protocol with the size, and caches end, so a curve has several. Where it steps between two sizes
that lie close together (`blocks/steps.py`) there is a break. Between those the breaks are found from the times: of all
ways to cut the sizes the one with the smallest sum of squared relative errors, plus a price for each further piece
(`ranges.py`). An error counts in units of what is not known of the point: its interval, PRECISION, or how far points of
this curve usually lie from the line between their neighbours, whichever is largest. Beyond OUTLIER units it counts no
more.

Times may not fall with the size within a piece, but `a` may be below 0: behind the end of a cache the line is steeper
than before, and where it would meet 0 bytes is no latency. Intervals of a and r are those of a parametric bootstrap, as
in `loggp.py`. A break that no step locates has all cuts that the times do not exclude (B. E. Hansen, "Sample splitting
and threshold estimation", Econometrica 68, 2000, 575-603: those whose likelihood ratio is at most 7.35).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from netpipe.reading.estimate import Estimate, unsure
from netpipe.reading.models.ranges import cuts

if TYPE_CHECKING:
    from netpipe.reading.blocks.steps import Step
    from netpipe.reading.curves import Curve
    from netpipe.reading.estimate import Ints, Reals

PRECISION = 0.02  # of the time: nearer than this no real layer keeps to a line
OUTLIER = 5.0  # in units of its uncertainty: a point farther off is no reason for a piece of its own
PRICE = 5.0  # log(sizes) for each further piece: a, r, where it begins, and that this was looked for
DRAWS = 1_000
NOT_EXCLUDED = 7.35  # of twice the logarithm of the likelihood ratio, for 95 %
MOST_SIZES = 160  # of a curve with more some are left out, spread evenly; those at steps stay
NORMAL_MAD = 1.4826  # standard deviation over median absolute deviation


@dataclass(frozen=True, slots=True)
class Piece:
    """t(n) = fixed + n ns_per_byte between two sizes."""

    from_bytes: int
    to_bytes: int
    sizes: int
    fixed_ns: Estimate  # a; of a piece that does not begin with small messages it is no latency
    ns_per_byte: Estimate | None  # 1 / r; None: a single size does not tell it
    # r; None: the time cannot be told from one that is the same at all its sizes
    bytes_per_s: Estimate | None
    misfit: float  # the largest distance of a measured time from it, relative

    def at(self, size_bytes: float) -> float:
        return self.fixed_ns.value + size_bytes * (self.ns_per_byte.value if self.ns_per_byte else 0.0)


@dataclass(frozen=True, slots=True)
class Break:
    """Between two measured sizes."""

    below_bytes: int
    above_bytes: int
    from_bytes: int  # between these two for certain (95 %)
    to_bytes: int
    located: bool  # a step was seen here, in paired visits
    # the line above over that below, in the middle between the two sizes (of their logarithms)
    times: float | None


@dataclass(frozen=True, slots=True)
class Fit:
    variant: str
    pattern: str
    pieces: tuple[Piece, ...]  # by rising size; never empty
    breaks: tuple[Break, ...]  # one fewer


def fit(curve: Curve, steps: Sequence[Step] = ()) -> Fit | None:
    """None for a curve with fewer than two sizes. `steps` are those of this curve."""
    points = curve.joined
    sound = (points.size > 0) & (points.times.value > 0) & np.isfinite(points.times.high)
    size, times = points.size[sound], points.times.at(sound)
    if len(size) < 2:
        return None
    at_steps = {(step.below_bytes, step.above_bytes) for step in steps}
    own = np.where(times.known, (times.high - times.low) / 2 / 1.96, 0.0)
    kept = _few(size, {end for pair in at_steps for end in pair})
    pieces, breaks = pieces_of(size[kept], times.value[kept], own[kept], at_steps)
    return Fit(curve.variant, curve.pattern, pieces, breaks)


def pieces_of(
    size: Ints,
    time: Reals,
    own: Reals,
    at_steps: set[tuple[int, int]] | frozenset[tuple[int, int]] = frozenset(),
) -> tuple[tuple[Piece, ...], tuple[Break, ...]]:
    """The pieces and breaks of times above 0 at rising sizes; `own` is one standard deviation of each time, as far as
    it is known.
    """
    sigma = np.maximum(own, max(PRECISION, _usual_distance(size, time)) * time)
    price = PRICE * math.log(len(size))
    at = [0]  # where pieces begin
    reach: dict[
        int, tuple[int, int]
    ] = {}  # place of a break that no step locates -> the cuts that are not excluded
    for begin, end in pairwise([0, *_stepping(size, at_steps), len(size)]):
        costs = _costs(size[begin:end].astype(float), time[begin:end], sigma[begin:end])
        found = cuts(end - begin, price, lambda first, last, _, costs=costs: float(costs[first, last - 1]))  # type: ignore[misc]
        for before, cut, after in zip(found, found[1:], found[2:], strict=False):
            low, high = _not_excluded(costs, before, cut, after)
            reach[begin + cut] = (begin + low, begin + high)
        at += [begin + cut for cut in found[1:]]
    bounds = list(pairwise(at))
    pieces = tuple(_piece(size[a:b], time[a:b], own[a:b], sigma[a:b]) for a, b in bounds)
    breaks = []
    for number, (_, cut) in enumerate(bounds[:-1]):
        low, high = reach.get(cut, (cut, cut))
        below, above = int(size[cut - 1]), int(size[cut])
        middle = math.sqrt(below * above)
        lower, upper = pieces[number].at(middle), pieces[number + 1].at(middle)
        times = upper / lower if lower > 0 else None
        breaks.append(
            Break(below, above, int(size[low - 1]), int(size[high]), (below, above) in at_steps, times)
        )
    return pieces, tuple(breaks)


def _few(size: Ints, wanted: set[int]) -> Ints:
    """Places of the sizes that are fitted."""
    if len(size) <= MOST_SIZES:
        return np.arange(len(size))
    even = np.linspace(0, len(size) - 1, MOST_SIZES).round().astype(np.int64)
    return np.union1d(even, np.flatnonzero(np.isin(size, list(wanted))))


def _stepping(size: Ints, at_steps: set[tuple[int, int]] | frozenset[tuple[int, int]]) -> list[int]:
    pairs = zip(size[:-1].tolist(), size[1:].tolist(), strict=True)
    return [place for place, pair in enumerate(pairs, start=1) if pair in at_steps]


def _usual_distance(size: Ints, time: Reals) -> float:
    """How far a point lies from the line between its neighbours, relative to its time, as one standard deviation of a
    point: the median over the curve, which a few breaks do not move.
    """
    if len(size) < 5:
        return 0.0
    part = (size[1:-1] - size[:-2]) / (size[2:] - size[:-2])
    between = time[:-2] + part * (time[2:] - time[:-2])
    spread = np.sqrt(1 + part**2 + (1 - part) ** 2)  # of the distance, where all three are as uncertain
    return NORMAL_MAD * float(np.median(np.abs(time[1:-1] - between) / spread / time[1:-1]))


def _costs(size: Reals, time: Reals, sigma: Reals) -> Reals:
    """[first, last] -> the sum of squares of the line through the points from first to last."""
    count = len(size)
    made = np.zeros((count, count))
    for first in range(count):
        x, y, unit = size[first:] - size[first], time[first:], sigma[first:]
        fixed, slope = _lines(x, y, unit**-2, np.cumsum)  # of the first point alone, of the first two, ...
        off = (y / unit)[None, :] - fixed[:, None] / unit - slope[:, None] * (x / unit)
        made[first, first:] = np.tril(np.minimum(off**2, OUTLIER**2)).sum(axis=1)
    return made


def _lines(
    size: Reals, time: Reals, weight: Reals, add: Callable[..., Reals] = np.sum
) -> tuple[Reals, Reals]:
    """Fixed part and part per byte of the line nearest to the times (or to each row of them) that does not fall."""
    total = add(weight, axis=-1)
    middle, mean = add(weight * size, axis=-1) / total, add(weight * time, axis=-1) / total
    square = add(weight * size**2, axis=-1) / total - middle**2
    product = add(weight * size * time, axis=-1) / total - middle * mean
    wide = square > 1e-12 * middle**2
    slope = np.where(wide, np.maximum(product, 0.0) / np.where(wide, square, 1.0), 0.0)
    return mean - slope * middle, slope


def _not_excluded(costs: Reals, before: int, cut: int, after: int) -> tuple[int, int]:
    """The first and the last place where the second of two pieces may begin."""
    places = range(before + 1, after)
    total = {place: costs[before, place - 1] + costs[place, after - 1] for place in places}
    least = total[cut]
    fine = [place for place, cost in total.items() if cost <= least + NOT_EXCLUDED]
    return min([cut, *fine]), max([cut, *fine])


def _piece(size: Ints, time: Reals, own: Reals, sigma: Reals) -> Piece:
    ends = int(size[0]), int(size[-1]), len(size)
    if len(size) == 1:
        reach = 1.96 * float(own[0])
        value = float(time[0])
        alone = Estimate(value, value - reach, value + reach) if reach else unsure(value)
        return Piece(*ends, alone, None, None, 0.0)
    x = size.astype(float)
    weight = sigma**-2
    first = float(x[0])
    # from the first size on, for precision
    fixed, slope = (float(one) for one in _lines(x - first, time, weight))
    fixed -= slope * first
    fitted = fixed + slope * x
    # As far as the points lie from the line, relative to their uncertainty (Birge, 1932).
    freedom = len(x) - 2
    birge = math.sqrt(float((((time - fitted) / sigma) ** 2).sum()) / freedom) if freedom > 0 else 1.0
    wide = np.maximum(own, birge * sigma)
    drawn = fitted + np.random.default_rng(1).standard_normal((DRAWS, len(x))) * wide
    estimates = []
    at_first, slopes = _lines(x - first, drawn, weight)
    for value, values in ((fixed, at_first - slopes * first), (slope, slopes)):
        low, high = (float(limit) for limit in np.quantile(values, (0.025, 0.975)))
        estimates.append(Estimate(value, min(low, value), max(high, value)))
    per_byte = estimates[1]
    rate = None
    if per_byte.low > 0:
        rate = Estimate(1e9 / per_byte.value, 1e9 / per_byte.high, 1e9 / per_byte.low)
    misfit = float((np.abs(time - fitted) / time).max())
    return Piece(*ends, estimates[0], per_byte, rate, misfit)
