# SPDX-License-Identifier: Apache-2.0
"""Variants of one run against each other, of any layers: `netpipe compare RUN --variant A --variant B`.

The ratio of a size is that of the times within its blocks, so what the machine does to both cancels. What is left is
how far launches lie apart, and much of that is common to all sizes: one of the two had better places in memory, say. So
the variance has two parts. The common one comes from the means of whole launches over the sizes, of which there are as
few as launches. The rest of each size is moderated by the sizes around it (blocks/visits.py), which say nothing about
the common part. Without this division 16 of 100 made-up runs told two equal variants apart, whose launches differ by as
much as their visits do; with it 3 of them do.

The intervals of all sizes and of the means over all sizes, of all variants that are compared in one call, hold together
with 95 %.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from netpipe.reading.across.between import Between, Name, Spread, overall
from netpipe.reading.blocks.verdicts import SizeVerdict, word_of
from netpipe.reading.blocks.visits import TRUTH, Seen, estimates, groups, medians, paired, parts_of
from netpipe.reading.estimate import Estimate

FAMILIES = 2  # of intervals that hold together: the sizes, and the means over them


def within(
    variants: Sequence[str], patterns: Sequence[str], visits: Mapping[Name, Seen]
) -> tuple[Between, ...]:
    """Each variant but the first against the first, under each pattern under which the run measured both by turns."""
    base, *others = variants
    pairs = []
    for pattern in patterns:
        for variant in others:
            two = visits.get((variant, pattern)), visits.get((base, pattern))
            if two[0] is not None and two[1] is not None and len((both := paired(two[0], two[1])).log):
                pairs.append((variant, pattern, both))
    tests = FAMILIES * sum(len(np.unique(both.size)) for *_, both in pairs)
    ratios = [estimates(both, TRUTH, tests=tests) for *_, both in pairs]
    spreads = [Spread.of([both], [*_verdicts(of)]) for (*_, both), of in zip(pairs, ratios, strict=True)]
    found = []
    for (variant, pattern, both), of, spread in zip(pairs, ratios, spreads, strict=True):
        (whole,) = overall([spread], 1.0, tests=FAMILIES * len(pairs))
        rests = estimates(_without_common(both), TRUTH, tests=tests)
        sizes = {size: _wider(times, rests[size], whole) for size, times in of.items()}
        found.append(
            Between(
                variant,
                pattern,
                variant,
                base,
                tuple(_verdicts(sizes)),
                whole,
                word_of(whole),
                pattern,
                variants_differ=True,
            )
        )
    return tuple(found)


def _verdicts(sizes: Mapping[int, Estimate]) -> Iterator[SizeVerdict]:
    return (SizeVerdict(size, times, word_of(times)) for size, times in sizes.items())


def _without_common(both: Seen) -> Seen:
    """The same without what is common to all sizes of a launch, or of a stretch of a run with few launches."""
    of_size = groups(both.size)
    parts = parts_of(both.launch, of_size)
    owner = of_size.number[parts.first]
    number = np.arange(len(owner)) - np.searchsorted(owner, owner)  # of the part within its size
    values = medians(parts, both.log)
    apart = values - (np.bincount(owner, values) / np.bincount(owner))[owner]
    common = np.bincount(number, apart) / np.bincount(number)
    return replace(both, log=both.log - common[number][parts.number])


def _wider(times: Estimate, rest: Estimate, whole: Estimate) -> Estimate:
    """The ratio of a size, as far off as the rest and what is common to all sizes may be together."""
    if not (rest.known and whole.known):
        return times
    reach = math.hypot(math.log(rest.high / rest.value), math.log(whole.high / whole.value))
    return Estimate(times.value, times.value * math.exp(-reach), times.value * math.exp(reach))
