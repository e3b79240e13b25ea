# SPDX-License-Identifier: Apache-2.0
"""How many more launches a narrower interval takes.

The reach of an interval is proportional to the root of the sum of 1 / launches over the runs that it spans (visits.py,
whole.py). Student's t shrinks with more launches too. That is not counted on, so the numbers are rather too large.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from netpipe.reading.blocks.visits import FEWEST_LAUNCHES
from netpipe.reading.curves import target_of
from netpipe.records import Run

MOST_NARROWER = 2.0  # further than that the launches of a run do not tell how far later ones will lie apart
LEAST_WORTH = 0.5  # as half a width over its number: what is still wider then is no offer


class Offer(NamedTuple):
    """What more launches of a run come to."""

    launches: int
    seconds: float
    width: float  # half of the intervals are then within it: half a width over its number


def offer(run: Run, half_widths: Sequence[float]) -> Offer | None:
    """What narrower intervals would take, down to the target or half the width: they shrink with the square root of the
    number of launches. Of fewer than three launches nobody knows: how far launches lie apart is not in their intervals.
    `half_widths`: of the run.
    """
    launches = len({point.launch for point in run.points})
    target = target_of(run)
    if launches < FEWEST_LAUNCHES or not half_widths or not target or run.end is None or not run.end.seconds:
        return None
    typical = median(half_widths)
    if not target < typical < math.inf:
        return None
    width = max(target, typical / MOST_NARROWER)
    more = more_launches(launches, typical / width)
    return Offer(more, more * run.end.seconds / launches, width) if width <= LEAST_WORTH else None


def no_offer(run: Run, half_widths: Sequence[float]) -> str | None:
    """Why nobody can say what more launches of a run would bring whose intervals say nothing; None for other runs."""
    if not half_widths or median(half_widths) <= MOST_NARROWER * LEAST_WORTH:
        return None
    few = len({point.launch for point in run.points}) < FEWEST_LAUNCHES
    return "there are too few" if few else "these lie too far apart"


def more_launches(launches: int, narrower: float) -> int:
    """How many launches a run that has so many needs beside them for intervals that are `narrower` times as narrow."""
    return math.ceil(launches * (narrower**2 - 1))


def more_of_two(ours: int, theirs: int, narrower: float, alone: bool = False) -> tuple[int, int] | None:
    """The same for the ratio of two runs: how many launches more this run needs, and how many the other one. The other
    one gets none where that takes fewer launches altogether, or where this one has to do it `alone`. None: the launches
    of the other one keep the interval wider than that, whatever this one has.
    """
    rest = (1 / ours + 1 / theirs) / narrower**2  # what is left for 1 / launches of both
    both = math.ceil(2 / rest)
    shared = max(0, both - ours), max(0, both - theirs)
    own = rest - 1 / theirs
    if own > 0 and (alone or math.ceil(1 / own) - ours <= sum(shared)):
        return max(0, math.ceil(1 / own) - ours), 0
    return None if alone else shared
