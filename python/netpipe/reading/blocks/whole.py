# SPDX-License-Identifier: Apache-2.0
"""What all sizes of a curve have in common: the mean of ratios over the sizes, and how far whole launches lie apart.

Much of how far launches lie apart is common to all sizes: one of two variants had better places in memory, say. The
sizes around a size say nothing of that part (visits.py), so it has a variance of its own, from the means of whole
launches over the sizes, of which there are as few as launches. The rest of each size is moderated by the sizes around
it. Both may be at the ends of their intervals at once, as some of many sizes always are, so their reaches add up.
Without this division 17 % of the verdicts of made-up runs told two equal variants apart, whose launches differ by as
much as their visits do; with the root of the sum of squares 8 % did, and so 2 % do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from netpipe.reading.blocks.visits import (
    FEWEST_LAUNCHES,
    PRIOR_DEGREES,
    TRUTH,
    Seen,
    estimates,
    groups,
    medians,
    parts_of,
    student_t,
)
from netpipe.reading.estimate import Estimate, Reals, unsure

FEWEST_CURVES = 3  # whose spreads tell what is usual
TRIMMED = 0.2  # of the launches, at either end
FAMILIES = 2  # of intervals that hold together: the rests of the sizes, and the means


def ratios(pairs: Sequence[Seen]) -> list[tuple[dict[int, Estimate], Estimate]]:
    """Of the ratios within the blocks of pairs of curves: the ratio of each size, and the mean of all sizes. The
    intervals of all sizes and all means of all pairs hold together with 95 %.
    """
    tests = FAMILIES * sum(len(np.unique(both.size)) for both in pairs)
    of = [estimates(both, TRUTH, tests=tests) for both in pairs]
    spreads = [
        Spread.of([both], {size: one.value for size, one in times.items()})
        for both, times in zip(pairs, of, strict=True)
    ]
    found = []
    for both, times, spread in zip(pairs, of, spreads, strict=True):
        (whole,) = overall([spread], 1.0, tests=FAMILIES * len(pairs))
        rests = estimates(without_common(both), TRUTH, tests=tests)
        sizes = {
            size: farther(one.value, rests[size], whole) if rests[size].known and whole.known else one
            for size, one in times.items()
        }
        found.append((sizes, whole))
    return found


@dataclass(frozen=True, slots=True)
class Spread:
    """The mean of the logarithms of all ratios of a curve, and how far launches lie apart in it: in both runs, or in
    the ratios of one.
    """

    mean: float
    variance: float  # of a launch; nan: unknown
    degrees: int
    weight: float  # 1 / launches, summed over the runs

    @classmethod
    def of(cls, visits: Sequence[Seen | None], times: Mapping[int, float]) -> Spread:
        """`times`: the ratio of each size."""
        mean = math.fsum(map(math.log, times.values())) / len(times)
        chosen = np.array(list(times))
        both = [means for one in visits if (means := _means(one, chosen)) is not None]
        if len(both) < len(visits) or min(map(len, both)) < FEWEST_LAUNCHES:
            return cls(mean, math.nan, 0, 0.0)
        known = [trimmed(means) for means in both]
        degrees = sum(of for _, of in known)
        variance = math.fsum(of * one for one, of in known) / degrees
        return cls(mean, variance, degrees, sum(1 / len(means) for means in both))


def trimmed(means: Reals) -> tuple[float, int]:
    """The variance of launches, and its degrees of freedom, as it counts for a number that few wild launches do not
    move: that of each size is a median. A fifth of the launches at either end counts as far off as the next one (Yuen's
    variance of a trimmed mean); of four launches none.
    """
    count = len(means)
    cut = int(TRIMMED * count)
    rest = count - 2 * cut
    ordered = np.sort(means)
    near = np.clip(ordered, ordered[cut], ordered[count - 1 - cut])
    return float(((near - near.mean()) ** 2).sum()) * count / (rest * (rest - 1)), rest - 1


def overall(spreads: Sequence[Spread], apart: float, tests: int = 0) -> list[Estimate]:
    """The geometric mean of the ratios of each curve, with its interval, made `apart` times as wide. Of `tests` such
    intervals all hold together with 95 %; 0: of these.
    """
    known = [one.variance for one in spreads if one.degrees]
    prior = PRIOR_DEGREES if len(known) >= FEWEST_CURVES else 0
    usual = median(known) if known else 0.0
    found = []
    for one in spreads:
        value = math.exp(one.mean)
        variance = (prior * usual + one.degrees * one.variance) / max(1, prior + one.degrees)
        if not one.degrees or variance <= 0:
            found.append(unsure(value))
            continue
        reach = (
            apart * student_t(prior + one.degrees, tests or len(spreads)) * math.sqrt(variance * one.weight)
        )
        found.append(Estimate(value, value * math.exp(-reach), value * math.exp(reach)))
    return found


def without_common(both: Seen) -> Seen:
    """The same without what is common to all sizes of a launch, or of a stretch of a run with few launches."""
    of_size = groups(both.size)
    parts = parts_of(both.launch, of_size)
    owner = of_size.number[parts.first]
    number = np.arange(len(owner)) - np.searchsorted(owner, owner)  # of the part within its size
    values = medians(parts, both.log)
    apart = values - (np.bincount(owner, values) / np.bincount(owner))[owner]
    common = np.bincount(number, apart) / np.bincount(number)
    return replace(both, log=both.log - common[number][parts.number])


def farther(value: float, rest: Estimate, whole: Estimate) -> Estimate:
    """The ratio of a size, as far off as the rest and what is common to all sizes may be together. Both are known."""
    reach = math.log(rest.high / rest.value) + math.log(whole.high / whole.value)
    return Estimate(value, value * math.exp(-reach), value * math.exp(reach))


def _means(of: Seen | None, sizes: np.ndarray) -> Reals | None:
    """The mean over these sizes of the logarithm of the time, for each launch that has all of them, or for each stretch
    of a run with few launches.
    """
    if of is None:
        return None
    chosen = np.isin(of.size, sizes)
    size, launch, log = of.size[chosen], of.launch[chosen], of.log[chosen]
    if not len(size):
        return None
    of_size = groups(size)
    parts = parts_of(launch, of_size)
    owner = of_size.number[parts.first]
    number = np.arange(len(owner)) - np.searchsorted(owner, owner)  # of the part within its size
    values = medians(parts, log)
    whole = [number == one for one in range(int(number.max()) + 1)]
    return np.array([values[one].mean() for one in whole if np.count_nonzero(one) == len(of_size.first)])
