# SPDX-License-Identifier: Apache-2.0
"""Yardsticks that come in levels: with gaps between them, and going from one to another and back several times.

A yardstick that wanders has no gap. One that changed once, or from launch to launch, or always after the start of a
launch, explains nothing: anything else that changed then would explain the times as well. So two levels are compared
only if the yardstick went at least twice from one to the other inside launches, and twice back.

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
    from netpipe.reading.estimate import Ints, Reals
    from netpipe.records import Yardstick

SLOW_IF_HIGH = {"bounce_ns": True, "copy_bytes_per_s": False, "wakeup_ns": True}  # of each yardstick
GAP = 1.2  # the least factor between the nearest values of two levels, without 5 % of each,
OF_ALL = 0.25  # and the least part that it is of the whole range, on logarithms
EDGE = 0.05
FEWEST = 8  # yardsticks
LEAST_SHARE = 0.08  # of the yardsticks in each level
LEAST_CHANGES = 2  # between two levels in each direction, inside launches

NEITHER = -1


class Stretches(NamedTuple):
    """The time between the yardsticks of a launch: one entry for each yardstick but the last."""

    begin_s: Reals
    level: Ints  # place in `Levels.values`, or NEITHER
    number: Ints  # of the stretch of time in one level, over all launches; NEITHER outside
    end_s: float


@dataclass(frozen=True, slots=True)
class Levels:
    """One yardstick over some launches, in its own unit."""

    yardstick: str  # of SLOW_IF_HIGH
    values: tuple[float, ...]  # from the fastest to the slowest
    shares: tuple[float, ...]  # of the time that is of a level
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

    @property
    def main(self) -> int:
        """The level that the yardstick was at most."""
        return max(range(len(self.shares)), key=self.shares.__getitem__)

    def others(self) -> list[int]:
        """The levels that can be compared with that one."""
        return [level for level in range(len(self.values)) if level != self.main and self._alternate(level)]

    def _alternate(self, other: int) -> bool:
        there = back = 0
        for of in self.launches.values():
            some = of.level[(of.level == self.main) | (of.level == other)]
            there += int(np.count_nonzero((some[:-1] == self.main) & (some[1:] == other)))
            back += int(np.count_nonzero((some[:-1] == other) & (some[1:] == self.main)))
        return min(there, back) >= LEAST_CHANGES


def levels(yardsticks: Sequence[Yardstick]) -> list[Levels]:
    """Those that come in levels of which two can be compared."""
    taken = [one for one in yardsticks if one.at_s is not None]
    found = [_levels(taken, name) for name in SLOW_IF_HIGH]
    return [one for one in found if one is not None and one.others()]


def _levels(taken: Sequence[Yardstick], name: str) -> Levels | None:
    value = attrgetter(name)
    known = [one for one in taken if (value(one) or 0) > 0]
    if len(known) < FEWEST:
        return None
    logs = np.log(np.array([value(one) for one in known]))
    gaps = _gaps(np.sort(logs), max(2, LEAST_SHARE * len(logs)))
    if not gaps:
        return None
    # The level of each: how many gaps lie below it; what lies in a gap is of none.
    level = sum(logs > end for _, end in gaps)
    level = np.where(sum((logs > begin) & (logs < end) for begin, end in gaps) > 0, NEITHER, level)
    if not SLOW_IF_HIGH[name]:
        level = np.where(level == NEITHER, NEITHER, len(gaps) - level)
    if not set(level.tolist()) >= set(range(len(gaps) + 1)):
        return None  # of a level nothing is left between two gaps
    values = tuple(float(np.exp(np.median(logs[level == one]))) for one in range(len(gaps) + 1))
    return _over_time(known, level, name, values)


def _gaps(ordered: Reals, fewest: float) -> list[tuple[float, float]]:
    """The gaps between the levels of rising values, without a third of each on both sides."""
    if len(ordered) < 2 * fewest:
        return []
    count = np.arange(1, len(ordered))
    sums = np.cumsum(ordered)
    # The cut between the classes whose means are farthest apart (N. Otsu, 1979).
    far = (sums[-1] * count / len(ordered) - sums[:-1]) ** 2 / (count * (len(ordered) - count))
    cut = int(far.argmax()) + 1
    low, high = ordered[:cut], ordered[cut:]
    if min(len(low), len(high)) < fewest:
        return []
    begin, end = low[int((1 - EDGE) * (len(low) - 1))], high[-1 - int((1 - EDGE) * (len(high) - 1))]
    if end - begin < max(
        np.log(GAP), OF_ALL * (ordered[-1 - int(EDGE * len(ordered))] - ordered[int(EDGE * len(ordered))])
    ):
        return []
    third = (end - begin) / 3
    return [*_gaps(low, fewest), (float(begin + third), float(end - third)), *_gaps(high, fewest)]


def _over_time(known: Sequence[Yardstick], level: Ints, name: str, values: tuple[float, ...]) -> Levels:
    by_launch: dict[int, list[int]] = {}
    for place, yardstick in enumerate(known):
        by_launch.setdefault(yardstick.launch, []).append(place)
    found: dict[int, Stretches] = {}
    spent, number = [0.0] * len(values), -1
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
                last = here
            between.append(here)
            stretch.append(NEITHER if here == NEITHER else number)
        found[launch] = Stretches(
            np.array(begins[:-1]), np.array(between, np.int64), np.array(stretch, np.int64), begins[-1]
        )
    whole = sum(spent) or 1.0
    return Levels(name, values, tuple(one / whole for one in spent), found)
