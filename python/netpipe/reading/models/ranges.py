# SPDX-License-Identifier: Apache-2.0
"""Where to cut a row of sizes into ranges that each have a line of their own.

Of all ways to cut it the one with the smallest sum of the costs of its ranges, plus a price for each (Schwarz,
"Estimating the dimension of a model", Annals of Statistics 6, 1978, 461-464), by dynamic programming (Bellman and Roth,
"Curve fitting by segmented straight lines", Journal of the American Statistical Association 64, 1969, 1079-1084).
"""

from __future__ import annotations

import math
from collections.abc import Callable

FEWEST_SIZES = 3  # of a range of its own: two points are always on a line

# of the sizes from the first place to before the second; may stop at the third
Cost = Callable[[int, int, float], float]


def cuts(count: int, price: float, cost: Cost, fewest: int = FEWEST_SIZES) -> list[int]:
    """Where ranges begin, and the end of the last one."""
    best = [0.0] + [math.inf] * count  # of the sizes before this one
    came_from = [0] * (count + 1)
    for end in range(1, count + 1):
        for begin in range(end):
            whole = begin == 0 and end == count
            if (end - begin < fewest and not whole) or best[begin] == math.inf:
                continue
            before = best[begin] + price
            total = before + cost(begin, end, best[end] - before)
            if total < best[end]:
                best[end], came_from[end] = total, begin
    found = [count]
    while found[-1] > 0:
        found.append(came_from[found[-1]])
    return found[::-1]
