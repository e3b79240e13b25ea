# SPDX-License-Identifier: Apache-2.0
"""What whole launches say of a measure of a pattern, of which there are no single visits in the records.

From three launches on an interval comes from how far they lie apart, by Student's t with their degrees of freedom: of
one run as that of a time it is for what the next run of as many launches finds (visits.py), and of two runs for their
difference (across/measured.py). Launches that happen to agree are at least as far apart as their own intervals say.

The number is the median of the launches, because one of a few may be far off. The median of many values varies pi / 2
times as much as their mean, and that of three or four 1.35 or 1.19 times; pi / 2 is taken for all of them.

One or two launches do not tell how far launches lie apart: then the interval is the envelope of their own, which knows
nothing of another start of the program.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from statistics import fmean, median

from netpipe.reading.blocks.visits import FEWEST_LAUNCHES, NEXT_RUN, student_t
from netpipe.reading.estimate import Estimate, across, unsure

NORMAL = 1.96  # half an interval of 95 % over the standard error
OF_MEDIAN = math.pi / 2  # how many times as much a median varies as a mean


def of_launches(each: Sequence[Estimate]) -> Estimate:
    """One estimate from what each launch says. What no launch says may be below 0 is not below 0."""
    if len(each) < FEWEST_LAUNCHES:
        return across(each)
    value = median(one.value for one in each)
    if not all(one.known for one in each) and all(one.value == value for one in each):
        return unsure(value)
    far = reach([each]) * math.sqrt(NEXT_RUN * OF_MEDIAN / len(each))
    least = 0.0 if all(one.low >= 0 for one in each) else -math.inf
    return Estimate(value, max(value - far, least), value + far)


def reach(runs: Sequence[Sequence[Estimate]], tests: int = 1) -> float:
    """How far a launch may be off, one of so many, from the launches of each run. Of how far they lie apart a few
    launches say little; what is inside a launch is known from many samples.
    """
    degrees = sum(len(of) - 1 for of in runs)
    middles = [fmean(one.value for one in of) for of in runs]
    squares = math.fsum(
        (one.value - middle) ** 2 for of, middle in zip(runs, middles, strict=True) for one in of
    )
    inside = fmean(((one.high - one.low) / 2 / NORMAL) ** 2 for one in chain(*runs))  # 0: without an interval
    return max(
        student_t(degrees, tests) * math.sqrt(squares / degrees),
        student_t(math.inf, tests) * math.sqrt(inside),
    )
