# SPDX-License-Identifier: Apache-2.0
"""Where a curve steps: two sizes that lie close together and take different times. Below and above such a threshold a
library does something else: it changes its protocol, its way of copying, or the cache no longer holds the message.

An adaptive schedule halves the sizes around a step until it is known to a sixteenth of an octave. Other schedules show
a step only where two of their sizes are that close.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from netpipe.reading.blocks.visits import FEWEST_LAUNCHES, TRUTH, Seen, estimates, groups
from netpipe.reading.estimate import Bools, Estimate, Reals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netpipe.reading.curves import Curve

CLOSE = 2 ** (1.1 / 16)  # sizes within this factor are close: a sixteenth of an octave, rounded to bytes
SMALLEST_BYTES = 64  # below, the next size is more than that away
LEAST = 0.05  # a smaller step is not worth a word
FEWEST_VISITS = 4  # of a launch that counts


@dataclass(frozen=True, slots=True)
class Step:
    variant: str
    pattern: str
    below_bytes: int
    above_bytes: int  # the step is between these two
    times: Estimate  # the time above over that below


def steps(curve: Curve, visits: Seen) -> tuple[Step, ...]:
    """All steps of a curve, by rising size. Together they are certain to 95 %."""
    if not len(visits.log):
        return ()
    size, time = curve.joined.size, curve.joined.times.value
    close = np.flatnonzero((size[:-1] >= SMALLEST_BYTES) & (size[1:] <= CLOSE * size[:-1]))
    pairs = list(zip(size[close].tolist(), size[close + 1].tolist(), strict=True))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        longer = time[close + 1] / time[close]
    if not _may_step(longer, size[close + 1] / size[close]).any():
        return ()
    # All neighbours, close or not: they wander alike, and a pair says little of how far launches lie apart.
    there = np.unique(visits.size).tolist()
    of = _in_turn(visits, list(pairwise(there)))
    tests = max(1, len(pairs))
    made = {**estimates(of, TRUTH, tests), **_of_few_launches(of, tests)}
    return tuple(
        Step(curve.variant, curve.pattern, a, b, times)
        for a, b in pairs
        if (times := made.get(b)) is not None
        and times.known
        and (times.low > (1 + LEAST) * b / a or times.high < 1 - LEAST)
    )


def _may_step(times: Reals, sizes: Reals) -> Bools:
    """By the numbers of two sizes alone, three quarters of a step. Most curves need no more than this look."""
    return (times > (1 + 0.75 * LEAST) * sizes) | (times < 1 - 0.75 * LEAST)


def _in_turn(of: Seen, pairs: Sequence[tuple[int, int]]) -> Seen:
    """The first visits of a launch against each other, the second ones, and so on: each is of the same pass. The ratio
    stands at the larger size.
    """
    of_size, of_launch = groups(of.size), groups(of.size, of.launch)
    launches, launch = np.unique(of.launch, return_inverse=True)
    turn = np.arange(len(of.log)) - of_launch.first[of_launch.number]
    most = int(of_launch.entries.max())
    sizes, size = of.size[of_size.first], of_size.number
    lows, highs = np.searchsorted(sizes, np.array(pairs, np.int64).reshape(-1, 2).T)
    below = np.full(len(sizes), -1)
    below[highs] = lows
    group = size * len(launches) + launch
    upper = np.flatnonzero(below[size] >= 0)
    partner = (below[size[upper]] * len(launches) + launch[upper]) * most + turn[upper]
    _, lower, which = np.intersect1d(group * most + turn, partner, assume_unique=True, return_indices=True)
    upper = upper[which]
    of_pair = groups(of.size[upper], of.launch[upper])
    upper, lower = (one[of_pair.entries[of_pair.number] >= FEWEST_VISITS] for one in (upper, lower))
    return Seen(of.size[upper], of.launch[upper], of.block[upper], of.log[upper] - of.log[lower])


def _of_few_launches(of: Seen, tests: int) -> dict[int, Estimate]:
    """Of pairs that fewer than three launches have measured. Two say nothing of how far launches lie apart, and
    stretches of a few visits are torn apart by one that was disturbed; so the interval is that of the median of the
    visits, by order statistics (Conover, Practical Nonparametric Statistics, 3rd ed., section 3.2).
    """
    found: dict[int, Estimate] = {}
    for size in np.unique(of.size).tolist():
        here = of.size == size
        if len(np.unique(of.launch[here])) >= FEWEST_LAUNCHES:
            continue
        logs = np.sort(of.log[here])
        outside = _outside(len(logs), 0.025 / tests)
        limits = (0, -1) if outside is None else (outside, -1 - outside)
        low, value, high = np.exp((logs[limits[0]], np.median(logs), logs[limits[1]])).tolist()
        found[size] = (
            Estimate(value, low, high) if outside is not None else Estimate(value, value, value, False)
        )
    return found


def _outside(count: int, chance: float) -> int | None:
    """How many of so many values may lie outside on each side, for an interval that the median is below, or above, with
    at most this chance; None: there are too few values.
    """
    below = 0.0
    for number in range(count // 2 + 1):
        combinations = math.lgamma(count + 1) - math.lgamma(number + 1) - math.lgamma(count - number + 1)
        below += math.exp(combinations - count * math.log(2))
        if below > chance:
            return number - 1 if number else None
    return None


def nearest_power(step: Step) -> int | None:
    """The power of two between the two sizes, which is what thresholds usually are; None: there is none."""
    power = 2 ** math.floor(math.log2(step.above_bytes))
    return power if step.below_bytes <= power else None
