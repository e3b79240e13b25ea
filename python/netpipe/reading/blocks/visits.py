# SPDX-License-Identifier: Apache-2.0
"""What the visits of a curve say of the next run, and of the ratio of two curves.

The machine wanders: visits seconds apart differ more than samples within one, and launches differ again. So the number
of a size is the median of its visits' medians, and its interval comes from how far whole launches lie apart, or, with
fewer than three launches, six stretches of time. Call that spread s, over k launches or stretches, all in logarithms.

* The number of this run is off by s / sqrt(k), and so is that of the next run with as many launches: a 95 % interval
  for what that finds is t * s * sqrt(2 / k). A run that was continued has more launches than its command; for a next
  run of only c launches the interval is wider, t * s * sqrt(1 / k + 1 / c) (`width_for`).
* The true ratio of two curves is asked for as such: t * s / sqrt(k), with the spread of the ratios within the blocks.

A handful of launches says little of s at one size, and one visit says nothing; but the sizes around it wander alike.
So the variance is the mean of a size's own and of the usual one around it, which counts as eight degrees of freedom
(the moderated t of G. K. Smyth, "Linear models and empirical Bayes methods for assessing differential expression in
microarray experiments", Statistical Applications in Genetics and Molecular Biology 3 (2004), section 4).

A large run has millions of visits, so all sizes of a curve are computed at once, in arrays.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import chain, pairwise
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from netpipe.reading.estimate import Estimate, Estimates, Ints, Reals
from netpipe.records import VisitTimes

if TYPE_CHECKING:
    from netpipe.reading.columns.by_curve import CurveRecords
    from netpipe.records import Point, Visits

FEWEST_LAUNCHES = 3  # with fewer, stretches of time stand for launches
STRETCHES = 6
NEIGHBOURHOOD = 4.0  # sizes within this factor wander alike,
NEIGHBOURS = 12  # of them the nearest so many on each side
PRIOR_DEGREES = 8  # how much the neighbours' spread counts beside a size's own
TOGETHER = 1 << 14  # visits of several curves that are computed at once

NEXT_RUN = 2.0  # variances that an interval spans: this run's and that of the next one with as many launches
TRUTH = 1.0

_decoder = msgspec.json.Decoder(list[VisitTimes])


@dataclass(frozen=True, slots=True)
class Seen:
    """The visits of a curve, one entry each in every array, in the order of size, launch and block."""

    size: Ints
    launch: Ints
    block: Ints  # within the launch
    log: Reals  # of the time of an operation in ns, or of a ratio of two


_NO_INTS: Ints = np.array([], np.int64)
_NOTHING = Seen(_NO_INTS, _NO_INTS, _NO_INTS, np.array([], np.float64))


def seen(curve: CurveRecords) -> Seen:
    """The visits of a curve. Sizes of which a point recorded no visits are left out."""
    if not curve.visited.any():
        return _NOTHING
    whole = np.repeat(
        np.logical_and.reduceat(curve.visited, curve.first), np.diff(curve.first, append=len(curve.points))
    )
    found = [curve.points[place] for place in np.flatnonzero(whole).tolist()]
    if not found:
        return _NOTHING
    times = _times(found)
    counts = [len(of.block) for of in times]
    total = sum(counts)
    time = np.fromiter(chain.from_iterable(of.median_ns for of in times), np.float64, total)
    real = time > 0
    return Seen(
        np.repeat(curve.size[whole], counts)[real],
        np.repeat(curve.launch[whole], counts)[real],
        np.fromiter(chain.from_iterable(of.block for of in times), np.int64, total)[real],
        np.log(time[real]),
    )


def _times(points: Sequence[Point]) -> Sequence[VisitTimes | Visits]:
    """Of points that have visits. Those of a whole curve are decoded in less time than one by one."""
    packed: list[Any] = [point.visits for point in points]
    if all(isinstance(one, msgspec.Raw) for one in packed):
        with suppress(
            msgspec.DecodeError, ValueError, RecursionError
        ):  # which one is damaged is found out below
            return _decoder.decode(b"[" + b",".join(packed) + b"]")
    return [times for point in points if (times := point.visit_times()) is not None]


def paired(upper: Seen, lower: Seen) -> Seen:
    """The logarithm of the ratio within each block that both have."""
    if np.array_equal(upper.block, lower.block) and np.array_equal(upper.launch, lower.launch):
        return Seen(upper.size, upper.launch, upper.block, upper.log - lower.log)
    above, below = in_both((upper.block, upper.launch), (lower.block, lower.launch))
    return Seen(
        upper.size[above], upper.launch[above], upper.block[above], upper.log[above] - lower.log[below]
    )


def in_both(a: tuple[Ints, Ints], b: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """Where the entries stand that have the same two keys in a and in b, in the order of a."""
    first, second = (
        np.unique(np.concatenate(keys), return_inverse=True)[1] for keys in zip(a, b, strict=True)
    )
    key, many = first * (second.max(initial=0) + 1) + second, len(a[0])
    _, above, below = np.intersect1d(key[:many], key[many:], return_indices=True)
    order = np.argsort(above)
    return above[order], below[order]


def estimates(of: Seen, spans: float, tests: int = 1) -> dict[int, Estimate]:
    """The number of each size (a time in ns, or a ratio) with its interval; without one where there are too few visits.

    `spans` is NEXT_RUN or TRUTH. Of `tests` such intervals all together hold with 95 % (Bonferroni).
    """
    return next(estimates_of_each([of], spans, tests)).by_size()


@dataclass(frozen=True, slots=True)
class Sized:
    """An estimate for each size, by rising size."""

    size: Ints
    each: Estimates

    def by_size(self) -> dict[int, Estimate]:
        return dict(zip(self.size.tolist(), self.each.each(), strict=True))


_NO_SIZES = Sized(_NO_INTS, Estimates.of())


def estimates_of_each(curves: Iterable[Seen], spans: float, tests: int = 1) -> Iterator[Sized]:
    """`estimates` of each curve. Small curves are computed together, which takes a fraction of the time, but never all
    curves of a large run at once, which would take much memory.
    """
    together: list[Seen] = []
    visits = 0
    for of in curves:
        together.append(of)
        visits += len(of.log)
        if visits >= TOGETHER:
            yield from _estimates(together, spans, tests)
            together, visits = [], 0
    yield from _estimates(together, spans, tests)


def width_for(next_launches: int, launches: int) -> float:
    """How many times as wide as the interval of a run of so many launches is the one for a next run of another number
    of launches.
    """
    return math.sqrt((1 / launches + 1 / next_launches) / (NEXT_RUN / launches))


def _estimates(curves: Sequence[Seen], spans: float, tests: int) -> Iterator[Sized]:
    counts = [len(of.log) for of in curves]
    if not sum(counts):
        yield from (_NO_SIZES for _ in curves)
        return
    curve = np.repeat(np.arange(len(curves)), counts)
    size, launch = (np.concatenate([getattr(of, name) for of in curves]) for name in ("size", "launch"))
    log = np.concatenate([of.log for of in curves])
    of_size = groups(curve, size)
    middle = medians(of_size, log)
    parts = parts_of(launch, of_size)
    of_parts = medians(parts, log)
    owner = of_size.number[parts.first]
    count = np.bincount(owner)
    mean = np.bincount(owner, of_parts) / count
    squares = np.bincount(owner, (of_parts - mean[owner]) ** 2)
    degrees = np.where(count >= FEWEST_LAUNCHES, count - 1, 0)
    own = np.where(degrees > 0, squares / np.maximum(count - 1, 1), np.nan)
    # Each as the variance that has it as its median (Wilson and Hilferty's approximation).
    curve, size = curve[of_size.first], size[of_size.first]
    usual = _usual(curve, np.log(np.maximum(size, 1)), own / (1 - 2 / (9 * np.maximum(degrees, 1))) ** 3)
    variance = (PRIOR_DEGREES * usual + degrees * np.nan_to_num(own)) / (PRIOR_DEGREES + degrees)
    quantile = np.array([student_t(PRIOR_DEGREES + d, tests) for d in range(int(degrees.max()) + 1)])
    reach = quantile[degrees] * np.sqrt(spans * variance / count)
    value, low, high = np.exp(np.minimum((middle, middle - reach, middle + reach), 700))
    known = ~np.isnan(low)
    each = Estimates(value, np.where(known, low, value), np.where(known, high, value), known)
    for begin, end in pairwise(np.searchsorted(curve, np.arange(len(curves) + 1)).tolist()):
        yield Sized(size[begin:end], each.at(slice(begin, end)))


class Groups(NamedTuple):
    """Entries that lie together."""

    first: NDArray[Any]  # of each group
    entries: NDArray[Any]  # in each group
    number: NDArray[Any]  # of the group of each entry


def groups(*keys: NDArray[Any]) -> Groups:
    """Groups of entries with equal keys, where equal ones lie together."""
    begins = np.ones(len(keys[0]), bool)
    np.not_equal(keys[0][1:], keys[0][:-1], out=begins[1:])
    for key in keys[1:]:
        begins[1:] |= key[1:] != key[:-1]
    first = np.flatnonzero(begins)
    return Groups(first, np.diff(first, append=len(begins)), np.cumsum(begins) - 1)


def medians(of: Groups, values: Reals) -> Reals:
    """The median of the values of each group."""
    low, high = (of.entries - 1) // 2, of.entries // 2
    most = int(of.entries.max())
    if most * len(of.entries) <= 4 * len(values):  # a row for each group
        rows = np.full((len(of.entries), most), np.inf)
        rows[np.arange(most) < of.entries[:, None]] = values
        rows.sort(axis=1)
        row = np.arange(len(rows))
        return np.asarray((rows[row, low] + rows[row, high]) / 2)
    ordered = values[np.lexsort((values, of.number))]
    return np.asarray((ordered[of.first + low] + ordered[of.first + high]) / 2)


def parts_of(launch: Ints, of_size: Groups) -> Groups:
    """The visits of each launch of a size, or, with few launches, of each stretch of time."""
    of_launch = groups(of_size.number, launch)
    launches = np.bincount(of_size.number[of_launch.first])[of_size.number[of_launch.first]]
    if launches.min() >= FEWEST_LAUNCHES:
        return of_launch
    stretches = np.where(launches >= FEWEST_LAUNCHES, 1, np.minimum(STRETCHES // launches, of_launch.entries))
    place = np.arange(len(launch)) - of_launch.first[of_launch.number]
    return groups(
        of_launch.number, place * stretches[of_launch.number] // of_launch.entries[of_launch.number]
    )


def _usual(curve: Ints, logs: Reals, spreads: Reals) -> Reals:
    """The median of the spreads around each size of its curve; nan where none is known."""

    def around(values: NDArray[Any], beyond: float) -> NDArray[Any]:
        padded = np.pad(values, NEIGHBOURS, constant_values=beyond)
        return np.lib.stride_tricks.sliding_window_view(padded, 2 * NEIGHBOURS + 1)

    near = np.abs(around(logs, np.nan) - logs[:, None]) <= math.log(NEIGHBOURHOOD)
    near &= around(curve, -1) == curve[:, None]
    ordered = np.sort(np.where(near, around(spreads, np.nan), np.nan), axis=1)  # what is not known comes last
    count = np.count_nonzero(~np.isnan(ordered), axis=1)
    row = np.arange(len(logs))
    middle = (ordered[row, np.maximum(count - 1, 0) // 2] + ordered[row, count // 2]) / 2
    return np.where(count > 0, middle, np.nan)


@cache
def student_t(degrees: float, tests: int = 1) -> float:
    """The two-sided 95 % quantile of Student's t, for one of so many tests, from ten degrees of freedom on: within 1e-4
    for one test, and within 1 % for fifty (Cornish and Fisher).
    """
    z, v = NormalDist().inv_cdf(1 - 0.025 / tests), degrees
    return (
        z
        + (z**3 + z) / (4 * v)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
    )
