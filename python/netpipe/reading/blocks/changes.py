# SPDX-License-Identifier: Apache-2.0
"""How a measure of a pattern changes from one variant of a run to another, as both were measured in the same blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING, NamedTuple

from netpipe.reading.blocks.visits import FEWEST_LAUNCHES, student_t
from netpipe.reading.estimate import Estimate, across, difference
from netpipe.reading.measures import estimate_of

if TYPE_CHECKING:
    from netpipe.records import Point, Run, Skipped


class Change(NamedTuple):
    """A measure of two variants of one run, which is a share, of 1. The first two are means over the launches, each
    with the envelope of their intervals.
    """

    before: Estimate
    after: Estimate
    # Of what the first lacks to the best share, how much the other one gets: 1 is all, below 0 it is worse. None: the
    # first lacks nothing.
    got_back: Estimate | None


def change(
    run: Run, variants: tuple[str, str], pattern: str, name: str, size_bytes: int, best: float, rises: bool
) -> Change | None:
    """What a measure is of another variant; None if no launch has it of both. `rises`: a larger share is better.

    Each block of a launch has both variants, so they are compared within each launch. What is got back is a part of
    what is lacking there, because losses of launches may differ by a factor of ten. Its interval is Student's for the
    mean (with the quantile of `student_t`, which for three launches is 3 % too low). Fewer launches that lack something
    give none, and then it comes from the intervals of the two, which are taken as independent. Records of points have
    no measures of single visits, and those of samples are not read by findings.
    """
    ours, theirs = (_by_launch(run, one, pattern, name, size_bytes) for one in variants)
    both = sorted(ours.keys() & theirs.keys())
    if not both:
        return None
    way = 1 if rises else -1
    before, after = (_mean([of[launch] for launch in both]) for of in (ours, theirs))
    parts = [
        way * (theirs[launch].value - ours[launch].value) / lacking
        for launch in both
        if (lacking := way * (best - ours[launch].value)) > 0
    ]
    if len(parts) >= FEWEST_LAUNCHES:
        middle, reach = fmean(parts), student_t(len(parts) - 1) * stdev(parts) / math.sqrt(len(parts))
        return Change(before, after, Estimate(middle, middle - reach, middle + reach))
    lacking = way * (best - before.value)
    better = difference(after, before) if rises else difference(before, after)
    return Change(before, after, better.scaled(1 / lacking) if lacking > 0 else None)


def _mean(of: Sequence[Estimate]) -> Estimate:
    """The mean over launches, and the envelope of their intervals."""
    whole = across(of)
    return Estimate(fmean(one.value for one in of), whole.low, whole.high, whole.known)


def _by_launch(run: Run, variant: str, pattern: str, name: str, size_bytes: int) -> dict[int, Estimate]:
    """By launch what a measure is at one size, which may have no time there."""
    records: tuple[Point | Skipped, ...] = (*run.points, *run.skipped)
    return {
        one.launch: estimate
        for one in records
        if (one.variant, one.pattern, one.size_bytes) == (variant, pattern, size_bytes)
        for measure in one.measures
        if measure.name == name and (estimate := estimate_of(measure)) is not None
    }
