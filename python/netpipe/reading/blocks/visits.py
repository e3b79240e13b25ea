# SPDX-License-Identifier: Apache-2.0
"""What the visits of a curve say of the next run, and of the ratio of two curves.

The machine wanders: visits seconds apart differ more than samples within one, and launches differ again. So the number
of a size is the median of its visits' medians, and its interval comes from how far whole launches lie apart, or, with
fewer than three launches, six stretches of time. Call that spread s, over k launches or stretches, all in logarithms.

* The number of this run is off by s / sqrt(k), and so is that of the next run: a 95 % interval for what the next run
  finds is t * s * sqrt(2 / k).
* The true ratio of two curves is asked for as such: t * s / sqrt(k), with the spread of the ratios within the blocks.

A handful of launches says little of s at one size, and one visit says nothing; but the sizes around it wander alike.
So the variance is the mean of a size's own and of the usual one around it, which counts as eight degrees of freedom
(the moderated t of G. K. Smyth, "Linear models and empirical Bayes methods for assessing differential expression in
microarray experiments", Statistical Applications in Genetics and Molecular Biology 3 (2004), section 4).
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from itertools import pairwise
from statistics import NormalDist, fmean, median
from typing import TYPE_CHECKING, NamedTuple

from netpipe.reading.estimate import Estimate, unsure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from netpipe.records import Point

FEWEST_LAUNCHES = 3  # with fewer, stretches of time stand for launches
STRETCHES = 6
NEIGHBOURHOOD = 4.0  # sizes within this factor wander alike
PRIOR_DEGREES = 8.0  # how much the neighbours' spread counts beside a size's own

NEXT_RUN = 2.0  # variances that an interval spans: this run's and the next one's
TRUTH = 1.0


class Seen(NamedTuple):
    """One visit of a size."""

    launch: int
    block: int  # within the launch
    at_s: float
    log: float  # of the time of an operation in ns, or of a ratio of two


def seen(points: Iterable[Point]) -> list[Seen] | None:
    """The visits of one size, of all launches, by time; None if a point did not record them."""
    found: list[Seen] = []
    for point in points:
        if point.visits is None:
            return None
        of = point.visits
        found += [
            Seen(point.launch, block, at_s, math.log(ns))
            for block, at_s, ns in zip(of.block, of.at_s, of.median_ns, strict=True)
            if ns > 0
        ]
    return sorted(found)


def paired(upper: Iterable[Seen], lower: Iterable[Seen]) -> list[Seen]:
    """The logarithm of the ratio within each block that both have."""
    below = {(one.launch, one.block): one.log for one in lower}
    return [
        one._replace(log=one.log - below[one.launch, one.block])
        for one in upper
        if (one.launch, one.block) in below
    ]


def estimates(by_size: Mapping[int, Sequence[Seen]], spans: float, tests: int = 1) -> dict[int, Estimate]:
    """The number of each size (a time in ns, or a ratio) with its interval; without one where there are too few visits.

    `spans` is NEXT_RUN or TRUTH. Of `tests` such intervals all together hold with 95 % (Bonferroni).
    """
    sizes = sorted(size for size, visits in by_size.items() if visits)
    groups = {size: _groups(by_size[size]) for size in sizes}
    spreads = {size: _variance(groups[size]) for size in sizes}
    # Each as the variance that has it as its median.
    usual = [
        (size, spread / _median_of_variance(len(groups[size]) - 1))
        for size, spread in spreads.items()
        if spread is not None
    ]
    places = [size for size, _ in usual]
    made = {}
    for size in sizes:
        middle = median(one.log for one in by_size[size])
        near = usual[bisect_left(places, size / NEIGHBOURHOOD) : bisect_right(places, size * NEIGHBOURHOOD)]
        if not near:
            made[size] = unsure(math.exp(middle))
            continue
        prior, own = median(variance for _, variance in near), spreads[size]
        degrees = 0 if own is None else len(groups[size]) - 1
        variance = (PRIOR_DEGREES * prior + degrees * (own or 0)) / (PRIOR_DEGREES + degrees)
        reach = student_t(PRIOR_DEGREES + degrees, tests) * math.sqrt(spans * variance / len(groups[size]))
        made[size] = Estimate(math.exp(middle), math.exp(middle - reach), math.exp(middle + reach))
    return made


def _groups(visits: Sequence[Seen]) -> list[float]:
    """The median of each launch, or of each stretch of time."""
    by_launch: dict[int, list[float]] = {}
    for one in sorted(visits):
        by_launch.setdefault(one.launch, []).append(one.log)
    if len(by_launch) >= FEWEST_LAUNCHES:
        return [median(logs) for logs in by_launch.values()]
    each = STRETCHES // len(by_launch) if by_launch else 0
    found = []
    for logs in by_launch.values():
        parts = min(each, len(logs))
        edges = [len(logs) * part // parts for part in range(parts + 1)]
        found += [median(logs[a:b]) for a, b in pairwise(edges)]
    return found


def _variance(values: Sequence[float]) -> float | None:
    """Of a handful of values; None with fewer than three."""
    if len(values) < FEWEST_LAUNCHES:
        return None
    mean = fmean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def _median_of_variance(degrees: int) -> float:
    """The median of a variance with so many degrees of freedom over its mean (Wilson and Hilferty's approximation)."""
    return (1 - 2 / (9 * degrees)) ** 3


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
