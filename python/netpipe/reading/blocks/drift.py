# SPDX-License-Identifier: Apache-2.0
"""Do the times of a curve go one way while they are measured?

Sizes are visited in random order over the whole run. So each third of each launch gets one number, how slow it was,
freed of which sizes were visited in it. Visits of one launch wander together, and launches differ whatever happens, so
in both tests each launch counts once:

* Over the run: the order of the launches by how slow they were, and in how many of them the last third is slower than
  the first one (M. G. Kendall, "A new measure of rank correlation", Biometrika 30 (1938), in two levels). Where nothing
  goes one way, each order of the launches is as likely as any other, and each launch goes up as likely as down. So the
  chance is counted: of four launches two of 384 cases are as clear as it can be, of three two of 48.
* Within the launches: by how much the last third is slower than the first one, Student's t over the launches. This is
  what a library does that warms up anew in each launch.

Curves are measured in the same blocks, so what the machine does shows in many of them. Of the drifts that are said of a
run, over all curves and both tests, at most 5 % are chance (Y. Benjamini and Y. Hochberg, "Controlling the false
discovery rate", Journal of the Royal Statistical Society B 57 (1995); that this holds for tests that depend on each
other in this way: Y. Benjamini and D. Yekutieli, Annals of Statistics 29 (2001)). With Bonferroni's correction four
launches could say nothing of more than four curves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from netpipe.reading.blocks.visits import FEWEST_LAUNCHES, Seen, student_t
from netpipe.reading.estimate import Estimate, unsure
from netpipe.reading.explained.decision import paces_of, student_tail

if TYPE_CHECKING:
    from netpipe.reading.estimate import Reals

PARTS = 3  # of a launch
FEWEST_VISITS = 4  # of a part
# As much as a step has to be. What is less does no harm: intervals of several launches contain it.
LEAST_TIMES = 1.05
MOST_CHANCE = 0.05  # of what is said
NOTHING = 1e-9  # on logarithms: equal numbers differ by so much after arithmetic


@dataclass(frozen=True, slots=True)
class Drift:
    """A curve whose times go one way."""

    variant: str
    pattern: str
    within: bool  # the same in each launch; False: over the run
    # How many times as long it takes in the last third of a launch as in the first one, or at the end of the run as at
    # its beginning (without an interval).
    times: Estimate
    launches: int
    chance: float  # that a curve without a drift is as clear


def drifts(curves: Mapping[tuple[str, str], Seen]) -> tuple[Drift, ...]:
    """Of each curve at most one, the one over the run before the one within launches. Curves of fewer than three
    launches, each with twelve visits or more, are not judged.
    """
    found = [
        drift
        for (variant, pattern), of in curves.items()
        if (slow := course(of)) is not None
        for drift in (_over(variant, pattern, slow), _within(variant, pattern, slow))
    ]
    ordered = sorted(one.chance for one in found)
    limits = [MOST_CHANCE * place / len(found) for place in range(1, len(found) + 1)]
    most = max((one for one, limit in zip(ordered, limits, strict=True) if one <= limit), default=-1.0)
    least = math.log(LEAST_TIMES)
    told: dict[tuple[str, str], Drift] = {}
    for one in found:
        if one.chance <= most and abs(math.log(one.times.value)) >= least:
            told.setdefault((one.variant, one.pattern), one)
    return tuple(told.values())


def course(of: Seen) -> Reals | None:
    """How slow each third of each launch was, on logarithms: a row for each launch that has twelve visits or more. None
    if there are fewer than three such launches.
    """
    fewest = PARTS * FEWEST_VISITS
    if len(of.log) < FEWEST_LAUNCHES * fewest:
        return None
    order = np.lexsort((of.block, of.launch))
    _, first, count = np.unique(of.launch[order], return_index=True, return_counts=True)
    if np.count_nonzero(count >= fewest) < FEWEST_LAUNCHES:
        return None
    number, whole = np.repeat(np.arange(len(count)), count), np.repeat(count, count)
    part = (np.arange(len(order)) - first[number]) * PARTS // whole
    kept = whole >= fewest
    _, size = np.unique(of.size[order][kept], return_inverse=True)
    _, number = np.unique(number[kept], return_inverse=True)
    slow, _ = paces_of(size, PARTS * number + part[kept], of.log[order][kept])
    return np.asarray(slow.reshape(-1, PARTS))


def _over(variant: str, pattern: str, slow: Reals) -> Drift:
    means = slow.mean(axis=1)
    launches = len(slow)
    early, late = np.triu_indices(launches, 1)
    score = abs(int(_signs(means[late] - means[early]).sum() + _signs(slow[:, -1] - slow[:, 0]).sum()))
    chances = _chances(launches)
    scores = 2 * np.arange(len(chances)) - (len(chances) - 1)
    chance = min(1.0, 2 * float(chances[scores >= score].sum()))
    ordered = slow.ravel()
    early, late = np.triu_indices(len(ordered), 1)
    # The median of the slopes between all pairs (H. Theil, 1950), from the first part to the last.
    change = float(np.median((ordered[late] - ordered[early]) / (late - early))) * (len(ordered) - 1)
    return Drift(variant, pattern, False, unsure(_exp(change)), launches, chance)


def _within(variant: str, pattern: str, slow: Reals) -> Drift:
    rises = slow[:, -1] - slow[:, 0]
    launches = len(rises)
    middle, error = float(rises.mean()), float(rises.std(ddof=1)) / math.sqrt(launches)
    if error > NOTHING:
        chance = max(0.0, 2 * student_tail(abs(middle) / error, launches - 1))
    else:
        chance = 0.0 if abs(middle) > NOTHING else 1.0
    reach = student_t(launches - 1) * error
    times = Estimate(_exp(middle), _exp(middle - reach), _exp(middle + reach))
    return Drift(variant, pattern, True, times, launches, chance)


def _signs(values: Reals) -> Reals:
    return np.asarray(np.where(np.abs(values) > NOTHING, np.sign(values), 0.0))


def _exp(log: float) -> float:
    return math.exp(min(max(log, -700.0), 700.0))


@cache
def _chances(launches: int) -> Reals:
    """The chance of each score where nothing goes one way, from the lowest score to the highest, in steps of two: how
    many pairs of launches are in order, by random order of the launches, and how many launches go up.
    """
    chances = np.ones(1)
    for ahead in range(launches):
        # The next launch is slower than so many of those before it, and goes up or down.
        chances = np.convolve(chances, np.full(ahead + 1, 1 / (ahead + 1)))
        chances = np.convolve(chances, np.full(2, 0.5))
    return chances
