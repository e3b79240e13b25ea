# SPDX-License-Identifier: Apache-2.0
"""How many more launches a narrower interval takes.

The reach of an interval is proportional to the root of the sum of 1 / launches over the runs that it spans (visits.py,
whole.py). Student's t shrinks with more launches too. That is not counted on, so the numbers are rather too large.
"""

from __future__ import annotations

import math


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
