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

A large run has millions of visits, so all sizes of a curve are computed at once, in arrays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netpipe.reading.estimate import Estimate, unsure

if TYPE_CHECKING:
    from netpipe.records import Point

FEWEST_LAUNCHES = 3  # with fewer, stretches of time stand for launches
STRETCHES = 6
NEIGHBOURHOOD = 4.0  # sizes within this factor wander alike,
NEIGHBOURS = 12  # of them the nearest so many on each side
PRIOR_DEGREES = 8  # how much the neighbours' spread counts beside a size's own

NEXT_RUN = 2.0  # variances that an interval spans: this run's and the next one's
TRUTH = 1.0

Ints = NDArray[np.int64]
Reals = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Seen:
    """The visits of a curve, one entry each in every array."""

    size: Ints
    launch: Ints
    block: Ints  # within the launch
    log: Reals  # of the time of an operation in ns, or of a ratio of two


def seen(curve: Mapping[int, Sequence[Point]]) -> Seen:
    """The visits of a curve (size -> its points, one for each launch). Sizes of which a point recorded no visits are
    left out.
    """
    found = [
        (size, point.launch, point.visits)
        for size, points in curve.items()
        if all(point.visits is not None for point in points)
        for point in points
        if point.visits is not None
    ]
    counts = [len(of.block) for _, _, of in found]
    total = sum(counts)
    time = np.fromiter(chain.from_iterable(of.median_ns for _, _, of in found), np.float64, total)
    real = time > 0
    return Seen(
        np.repeat(np.array([size for size, _, _ in found], np.int64), counts)[real],
        np.repeat(np.array([launch for _, launch, _ in found], np.int64), counts)[real],
        np.fromiter(chain.from_iterable(of.block for _, _, of in found), np.int64, total)[real],
        np.log(time[real]),
    )


def paired(upper: Seen, lower: Seen) -> Seen:
    """The logarithm of the ratio within each block that both have."""
    if np.array_equal(upper.block, lower.block) and np.array_equal(upper.launch, lower.launch):
        return Seen(upper.size, upper.launch, upper.block, upper.log - lower.log)
    launches, which = np.unique(np.concatenate((upper.launch, lower.launch)), return_inverse=True)
    _, block = np.unique(np.concatenate((upper.block, lower.block)), return_inverse=True)
    key = block * len(launches) + which
    _, above, below = np.intersect1d(key[: len(upper.log)], key[len(upper.log) :], return_indices=True)
    return Seen(
        upper.size[above], upper.launch[above], upper.block[above], upper.log[above] - lower.log[below]
    )


def estimates(of: Seen, spans: float, tests: int = 1) -> dict[int, Estimate]:
    """The number of each size (a time in ns, or a ratio) with its interval; without one where there are too few visits.

    `spans` is NEXT_RUN or TRUTH. Of `tests` such intervals all together hold with 95 % (Bonferroni).
    """
    if not len(of.log):
        return {}
    sizes, index = np.unique(of.size, return_inverse=True)
    middle = _medians(index, of.log, len(sizes))
    group, owner = _groups(of, index, len(sizes))
    medians = _medians(group, of.log, len(owner))
    count = np.bincount(owner, minlength=len(sizes))
    mean = np.bincount(owner, medians, len(sizes)) / count
    squares = np.bincount(owner, (medians - mean[owner]) ** 2, len(sizes))
    degrees = np.where(count >= FEWEST_LAUNCHES, count - 1, 0)
    own = np.where(degrees > 0, squares / np.maximum(count - 1, 1), np.nan)
    # Each as the variance that has it as its median (Wilson and Hilferty's approximation).
    usual = _usual(np.log(np.maximum(sizes, 1)), own / (1 - 2 / (9 * np.maximum(degrees, 1))) ** 3)
    variance = (PRIOR_DEGREES * usual + degrees * np.nan_to_num(own)) / (PRIOR_DEGREES + degrees)
    quantile = {d: student_t(PRIOR_DEGREES + d, tests) for d in np.unique(degrees).tolist()}
    reach = np.array([quantile[d] for d in degrees.tolist()]) * np.sqrt(spans * variance / count)
    value, low, high = (np.exp(np.minimum(at, 700)) for at in (middle, middle - reach, middle + reach))
    return {
        size: Estimate(v, a, b) if a == a else unsure(v)
        for size, v, a, b in zip(sizes.tolist(), value.tolist(), low.tolist(), high.tolist(), strict=True)
    }


def _medians(group: NDArray[Any], values: Reals, groups: int) -> Reals:
    """The median of the values of each group; every group has one."""
    ordered = values[np.lexsort((values, group))]
    count = np.bincount(group, minlength=groups)
    first = np.cumsum(count) - count
    middle: Reals = (ordered[first + (count - 1) // 2] + ordered[first + count // 2]) / 2
    return middle


def _groups(of: Seen, index: NDArray[Any], sizes: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The launch, or the stretch of time, that each visit belongs to; and of each of these groups its size. `index`
    numbers the size of each visit.
    """
    numbers, launch = np.unique(of.launch, return_inverse=True)
    found, which, count = np.unique(index * len(numbers) + launch, return_inverse=True, return_counts=True)
    size_of = found // len(numbers)
    launches = np.bincount(size_of, minlength=sizes)[size_of]
    parts = np.where(launches >= FEWEST_LAUNCHES, 1, np.minimum(STRETCHES // launches, count))
    order = np.lexsort((of.block, which))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order)) - (np.cumsum(count) - count)[which[order]]
    stretch = place * parts[which] // count[which]
    groups, group = np.unique(which * STRETCHES + stretch, return_inverse=True)
    return group, size_of[groups // STRETCHES]


def _usual(logs: Reals, spreads: Reals) -> Reals:
    """The median of the spreads around each size; nan where none is known."""

    def around(values: Reals) -> Reals:
        padded = np.pad(values, NEIGHBOURS, constant_values=np.nan)
        return np.lib.stride_tricks.sliding_window_view(padded, 2 * NEIGHBOURS + 1)

    near = (np.abs(around(logs) - logs[:, None]) <= math.log(NEIGHBOURHOOD)) & ~np.isnan(around(spreads))
    ordered = np.sort(np.where(near, around(spreads), np.inf), axis=1)
    count = near.sum(axis=1)
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
