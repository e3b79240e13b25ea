# SPDX-License-Identifier: Apache-2.0
"""The search: told how fast settings are, it says what to measure next. It starts nothing and looks at no clock.

    screen    every value of every setting, one at a time, and sizes together, against the start
    halve     the better half of what may be faster, measured longer, until a few are left
    refine    values around the numbers that gained
    combine   the best value of each setting that gained, together and in part: settings interact
    build     what the other settings do on top of the best, where a proof costs much time (a library that is launched)
    climb     the same on top of what was proven (climb.py): a setting may be held back by another one

What was refused, crashed or did not end is told as Failed and is never part of a combination. Where something is much
faster than the start, later rounds compare with that, so that a slow start does not take all the time.

The search only chooses. What it has chosen is a gain when a fresh measurement says so (proof.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from netpipe.reading.estimate import Estimate, ratio, unsure
from netpipe.tuning.search.space import Space
from netpipe.tuning.search.variants import START, Changes

LEAST_GAIN = 1.02  # times as fast: what is less is not worth a setting
PROMISING = 1 / LEAST_GAIN  # a time ratio above this, as measured, is no gain
FEW = 4  # candidates that need no further halving
MUCH_FASTER = 3.0  # than the reference: it becomes the reference
WORTH = 1.2  # times as fast as what it was compared with: the other settings are tried on top of it
MOST_BUILDS = 2
ALIKE = 1.02  # times: a simpler setting within this of the best is chosen
MOST_COMBINED = 5  # settings
MOST_HALVINGS = 3
MOST_SCREENS = 2
SAME = Estimate(1.0, 1.0, 1.0)  # what something takes over itself


@dataclass(frozen=True)
class Failed:
    """A candidate that was not measured to the end."""

    kind: str  # refused, failed, slow
    why: str


@dataclass(frozen=True)
class Round:
    name: str  # screen, again, halve, refine, combine, climb
    reference: Changes  # what the candidates are compared with
    candidates: tuple[Changes, ...]
    weight: float  # how long it is measured, against one of weight 1


@dataclass(frozen=True)
class Known:
    """How a candidate compares with the start, by the last round that says enough of it."""

    times: Estimate  # its time over that of the start
    round: str
    rounds: int  # that measured it


@dataclass
class Search:
    space: Space
    avoid: frozenset[Changes] = frozenset()  # known to fail
    builds: bool = False  # on the best before it is proven
    known: dict[Changes, Known] = field(default_factory=dict)
    failed: dict[Changes, Failed] = field(default_factory=dict)
    base: Changes = START  # what candidates add to, and what they are compared with
    _stage: str = "screen"
    _screens: int = 0
    _halvings: int = 0
    _builds: int = 0
    _alive: list[Changes] = field(default_factory=list)  # single settings, on top of the base
    # What a candidate took over a reference, both in one round.
    _pairs: dict[tuple[Changes, Changes], Estimate] = field(default_factory=dict)

    def next(self) -> Round | None:
        """What to measure; None: the search has ended."""
        while self._stage != "done":
            made: Round | None = getattr(self, f"_{self._stage}")()
            if made is not None and made.candidates:
                return made
        return None

    def tell(self, asked: Round, told: Mapping[Changes, Estimate | Failed]) -> None:
        """What came of a round: the time of a candidate over that of the reference. A candidate that is not in it was
        not measured, for want of time, and stays as it was.
        """
        against = self.known[asked.reference].times if asked.reference in self.known else None
        for changes, one in told.items():
            if isinstance(one, Failed):
                if one.kind == "slow" and changes in self.known and self.known[changes].times.known:
                    continue  # it was measured to its end before, so other work took the time
                self.failed[changes] = one
                self.known.pop(changes, None)
                continue
            pair = (changes, asked.reference)
            if pair not in self._pairs or not _says_more(self._pairs[pair], one):
                self._pairs[pair] = one
            times = one if against is None else chained(one, against)
            before = self.known.get(changes)
            if before is not None and _says_more(before.times, times):
                continue
            self.known[changes] = Known(times, asked.name, 1 + (before.rounds if before else 0))
        best = self.best
        certain = best != START and self.known[best].times.known  # else both ends are the value
        if certain and self.base == START and self.known[best].times.high * MUCH_FASTER < 1:
            self.base, self._stage, self._halvings = best, "again", 0

    @property
    def best(self) -> Changes:
        """The settings that were fastest so far; the start, if nothing was faster."""
        return (*self.ranked, START)[0]

    @property
    def ranked(self) -> list[Changes]:
        """All that were faster than the start as measured, the fastest first; of those alike the simplest first."""
        found = [one for one, known in self.known.items() if known.times.value < PROMISING]
        found.sort(key=lambda one: self.known[one].times.value)
        if found:
            least = self.known[found[0]].times.value * ALIKE
            alike = [one for one in found if self.known[one].times.value <= least]
            alike.sort(key=lambda one: (len(one.items), self.known[one].times.value))
            found = alike + [one for one in found if one not in alike]
        return found

    # -------------------------------------------------------------------------------------------------------- climb

    def on_top(self, of: Changes) -> Round:
        """Every setting on top of `of`, and other values of those that it has: a buffer does nothing while another one
        is smaller. Those of the same kind come first, as what they limit is the same. Those that were no faster in an
        earlier round are left out.
        """
        self.base = of
        kinds = {self.space.knob(name).kind for name in of.names}
        over = {one: self._over(of.merged(one), of) for one in self.space.screened}
        some = [one for one, times in over.items() if not times.known or times.low < PROMISING]
        some.sort(key=lambda one: self.space.knob(one.names[0]).kind not in kinds)
        return self._round("climb", some, 2.0)

    def ahead(self, of: Changes) -> list[Changes]:
        """Those that were certainly faster than `of` in the rounds that measured both, the fastest first."""
        over = {one: self._over(one, of) for one in self.known if one != of}
        found = [one for one, times in over.items() if times.known and times.high < PROMISING]
        return sorted(found, key=lambda one: over[one].value)

    def _over(self, one: Changes, other: Changes) -> Estimate:
        """The time of one over that of another, by the round that tells it best: it compared both with the same, which
        may be one of them.
        """
        against = dict.fromkeys(reference for _, reference in self._pairs)
        both = [
            ratio(upper, lower)
            for of in against
            if (upper := self._pair(one, of)) is not None and (lower := self._pair(other, of)) is not None
        ]
        return min(both, key=lambda times: times.half_width, default=unsure(1.0))

    def _pair(self, one: Changes, reference: Changes) -> Estimate | None:
        return SAME if one == reference else self._pairs.get((one, reference))

    # ------------------------------------------------------------------------------------------------------- rounds

    def _screen(self) -> Round:
        """Those for which there was no time, as when one crashed and took the others with it, once more."""
        self._alive = list(self.space.screened)
        self._screens += 1
        if self._screens == MOST_SCREENS:
            self._stage = "halve"
        return self._round("screen", [one for one in self._alive if one not in self.known], 1.0)

    @property
    def untried(self) -> int:
        """Values of which nothing is known, for want of time."""
        there = {*self.known, *self.failed, *self.avoid}
        return sum(one not in there for one in self.space.candidates if self.space.applies(one))

    def _again(self) -> Round:
        """Something was much faster than the start: what does each setting do on top of it?"""
        self._stage = "halve"
        self._alive = list(self.space.screened)
        return self._round("again", self._alive, 1.0)

    def _halve(self) -> Round | None:
        there = [one for one in self._alive if self._promises(one)]
        there.sort(key=self._time)
        self._alive = there[: max(FEW, (len(there) + 1) // 2)]
        if len(there) <= FEW and self._halvings:  # measured longer already
            self._stage = "refine"
            return None
        self._halvings += 1
        if self._halvings >= MOST_HALVINGS or len(there) <= FEW:
            self._stage = "refine"
        return self._round("halve", self._alive, 2.0**self._halvings)

    def _refine(self) -> Round:
        """Around the best value of each number, once."""
        self._stage = "combine"
        tried = {self.base.merged(one) for one in self.space.candidates} | set(self.known)
        made = [
            near
            for one in self._winners()
            for name, value in one.items
            for text in self.space.knob(name).around(value)
            if self.base.merged(near := Changes.of({name: text})) not in tried
        ]
        self._alive += made
        # A setting that was refused alone may need another one: stripes need more than one stream.
        refused = [one for one, why in self.failed.items() if why.kind == "refused" and len(one.items) == 1]
        made += [
            one.merged(other) for one in self._winners()[:2] for other in refused if one.names != other.names
        ]
        return self._round("refine", made, 2.0)

    def _build(self) -> Round | None:
        """Only settings that the base has not got: those that it has were refined."""
        self._stage = "done"
        best = self.best
        if best == self.base or self._builds == MOST_BUILDS:
            return None
        of_base = self.known[self.base].times.value if self.base in self.known else 1.0
        if self.known[best].times.value * WORTH > of_base:
            return None
        self._builds += 1
        self.base, self._stage, self._halvings = best, "halve", 0
        self._alive = [one for one in self.space.candidates if not set(one.names) & set(best.names)]
        return self._round("again", self._alive, 1.0)

    def _combine(self) -> Round | None:
        self._stage = "build" if self.builds else "done"
        winners = self._winners()[:MOST_COMBINED]
        if len(winners) < 2:
            return None
        sets: list[Sequence[Changes]] = [winners[:count] for count in range(len(winners), 1, -1)]
        sets += list(combinations(winners[:3], 2))
        return self._round("combine", [winners[0], *(_together(one) for one in sets)], 4.0)

    def _round(self, name: str, some: Sequence[Changes], weight: float) -> Round:
        """Of settings on top of the base."""
        whole = dict.fromkeys(self.base.merged(one) for one in some)
        fit = (
            one for one in whole if one != self.base and not self._avoided(one) and self.space.applies(one)
        )
        return Round(name, self.base, tuple(fit), weight)

    def _avoided(self, one: Changes) -> bool:
        """Did it, or a part of it, crash or hang? What was refused may be taken beside other settings."""
        there = set(one.items)
        bad = [*self.avoid, *(changes for changes, why in self.failed.items() if why.kind == "failed")]
        return one in self.failed or any(there.issuperset(other.items) for other in bad)

    def _winners(self) -> list[Changes]:
        """The best value of each setting that is faster than the base as measured, the best setting first."""
        limit = PROMISING * (self.known[self.base].times.value if self.base in self.known else 1.0)
        best: dict[str, Changes] = {}
        for one in sorted((one for one in self._alive if self._is_known(one)), key=self._time):
            if self._time(one) < limit:
                best.setdefault(one.names[0], one)
        return sorted(best.values(), key=self._time)

    def _is_known(self, one: Changes) -> bool:
        return self.base.merged(one) in self.known

    def _time(self, one: Changes) -> float:
        return self.known[self.base.merged(one)].times.value

    def _promises(self, one: Changes) -> bool:
        """May it be faster than the base?"""
        if not self._is_known(one) or self.base.merged(one) == self.base:
            return False
        times = self.known[self.base.merged(one)].times
        limit = PROMISING * (self.known[self.base].times.value if self.base in self.known else 1.0)
        return not times.known or times.low < limit


def chained(upper: Estimate, lower: Estimate) -> Estimate:
    """The ratio of A to C from those of A to B and of B to C, taken in different runs."""
    return ratio(upper, lower.inverse())


def _says_more(before: Estimate, now: Estimate) -> bool:
    """A round that other work hit may say less than an earlier one, although it was to be longer."""
    if not before.known or not now.known:
        return before.known
    return before.high / before.low < math.sqrt(now.high / now.low)


def _together(some: Sequence[Changes]) -> Changes:
    whole = Changes()
    for one in some:
        whole = whole.merged(one)
    return whole
