# SPDX-License-Identifier: Apache-2.0
"""Yardsticks that come in two levels: with a gap between them, and going from one to the other several times.

A yardstick that wanders has no gap. One that changed once, or from launch to launch, or always after the start of a
launch, explains nothing: anything else that changed then would explain the times as well. So levels count only if the
yardstick went at least twice from the fast level to the slow one inside launches, and twice back.

Yardsticks are taken between blocks, so a block lies between two of them. It is of a level if both are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from netpipe.reading.blocks.visits import Ints, Reals
    from netpipe.records import Yardstick

SLOW_IF_HIGH = {"bounce_ns": True, "copy_bytes_per_s": False, "wakeup_ns": True}  # of each yardstick
APART = 1.25  # the least factor between the levels
FEWEST = 8  # yardsticks
LEAST_SHARE = 0.08  # of the yardsticks in each level
MOST_BETWEEN = (
    0.05  # of the yardsticks in the middle third between the levels; of one that wanders there are 17 %
)
LEAST_CHANGES = 2  # in each direction, inside launches

FAST, SLOW, NEITHER = 0, 1, -1


class Stretches(NamedTuple):
    """The time between the yardsticks of a launch: one entry for each yardstick but the last."""

    begin_s: Reals
    level: Ints  # FAST, SLOW or NEITHER
    number: Ints  # of the stretch of time in one level, over all launches; NEITHER outside
    end_s: float


@dataclass(frozen=True, slots=True)
class Levels:
    """One yardstick over some launches, in its own unit."""

    yardstick: str  # of SLOW_IF_HIGH
    fast: float
    slow: float
    fast_share: float  # of the time that is of a level
    launches: Mapping[int, Stretches]

    def at(self, launch: Ints, at_s: Reals) -> tuple[Ints, Ints]:
        """The level and the stretch of what was measured then; NEITHER where that is not known."""
        level, number = np.full(len(launch), NEITHER), np.full(len(launch), NEITHER)
        for which, of in self.launches.items():
            here = np.flatnonzero((launch == which) & (at_s < of.end_s))
            place = np.searchsorted(of.begin_s, at_s[here], side="right") - 1
            here, place = here[place >= 0], place[place >= 0]
            level[here], number[here] = of.level[place], of.number[place]
        return level, number


def levels(yardsticks: Sequence[Yardstick]) -> list[Levels]:
    """Those that come in two levels."""
    taken = [one for one in yardsticks if one.at_s is not None]
    return [found for name in SLOW_IF_HIGH if (found := _levels(taken, name)) is not None]


def _levels(taken: Sequence[Yardstick], name: str) -> Levels | None:
    value = attrgetter(name)
    known = [one for one in taken if (value(one) or 0) > 0]
    if len(known) < FEWEST:
        return None
    values = np.array([value(one) for one in known])
    if values.max() < APART * values.min():
        return None
    limits = _gap(np.log(values))
    if limits is None:
        return None
    low, high, below, above = limits
    level = np.where(values <= np.exp(below), FAST, np.where(values >= np.exp(above), SLOW, NEITHER))
    if not SLOW_IF_HIGH[name]:
        low, high = high, low
        level = np.where(level == NEITHER, NEITHER, 1 - level)
    return _over_time(known, level, name, float(np.exp(low)), float(np.exp(high)))


def _gap(logs: Reals) -> tuple[float, float, float, float] | None:
    """The two levels, and the middle third between them, in which almost no value lies; None: there is no gap."""
    ordered = np.sort(logs)
    count = np.arange(1, len(ordered))
    sums = np.cumsum(ordered)
    # The cut between the classes whose means are farthest apart (N. Otsu, 1979).
    far = (sums[-1] * count / len(ordered) - sums[:-1]) ** 2 / (count * (len(ordered) - count))
    cut = int(far.argmax()) + 1
    low, high = float(np.median(ordered[:cut])), float(np.median(ordered[cut:]))
    third = (high - low) / 3
    between = np.count_nonzero((ordered > low + third) & (ordered < high - third))
    if min(cut, len(ordered) - cut) < LEAST_SHARE * len(ordered) or high - low < np.log(APART):
        return None
    return (low, high, low + third, high - third) if between <= MOST_BETWEEN * len(ordered) else None


def _over_time(known: Sequence[Yardstick], level: Ints, name: str, fast: float, slow: float) -> Levels | None:
    by_launch: dict[int, list[int]] = {}
    for place, yardstick in enumerate(known):
        by_launch.setdefault(yardstick.launch, []).append(place)
    found: dict[int, Stretches] = {}
    spent, number, changes = [0.0, 0.0], -1, [0, 0]
    for launch, places in by_launch.items():
        places.sort(key=lambda place: known[place].at_s or 0.0)
        begins = [known[place].at_s or 0.0 for place in places]
        last = NEITHER
        between, stretch = [], []
        for (one, following), (begin, end) in zip(pairwise(places), pairwise(begins), strict=True):
            here = int(level[one]) if level[one] == level[following] else NEITHER
            if here != NEITHER:
                spent[here] += end - begin
                number += here != last
                changes[here] += last != NEITHER and here != last
                last = here
            between.append(here)
            stretch.append(NEITHER if here == NEITHER else number)
        found[launch] = Stretches(np.array(begins[:-1]), np.array(between), np.array(stretch), begins[-1])
    if min(changes) < LEAST_CHANGES:
        return None
    return Levels(name, fast, slow, spent[FAST] / sum(spent), found)
