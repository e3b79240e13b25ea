# SPDX-License-Identifier: Apache-2.0
"""Does a yardstick explain the times of a curve? Only then are its visits set apart (docs/decisions/0018).

Of a curve and a yardstick that comes in levels (`levels`), the one that it was at most and each other one:

1. The sizes: between the medians of the visits at the slow and at the fast level lies a factor of at least 1.10, over a
   contiguous range of sizes.
2. The evidence: each stretch of time in one level gets one number, how slow it was, freed of which sizes were visited
   in it (log time = size + stretch). Within launches, the stretches at the slow level must be slower than those at the
   fast one: Student's t over stretches, so that a drift, a burst or a launch is not counted as many visits.
3. The size of it: the difference is at least three times what remains between visits, and four of five visits lie
   nearer to the level that the yardstick showed (at the last sizes of the range the difference is smaller).

False splits are the worse error, so all limits are strict. tests/python/test_in_states.py holds them against made-up
machines.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from netpipe.reading.blocks.visits import Seen, groups, medians
from netpipe.reading.explained.levels import NEITHER, SLOW_IF_HIGH, Levels, levels

if TYPE_CHECKING:
    from netpipe.reading.columns.by_curve import ByCurve, CurveRecords
    from netpipe.reading.estimate import Ints, Reals
    from netpipe.records import Point, Run, Yardstick

FAST, SLOW = 0, 1  # of two levels that are compared

LEAST_TIMES = 1.10  # the factor between the states that is worth two curves
WINDOW = 5  # sizes over which the factor is smoothed
FEWEST_VISITS = 4  # of a stretch of time
CHANCE = 1e-3  # of a false split in a run whose stretches of time vary as a normal distribution
ABOVE_SPREAD = 3.0  # times the spread that remains between visits
NEARER = 0.8  # of the visits of each level are nearer to it than to the other
MOST_EMPTY = 0.25  # of the sizes of a curve have no visit in the state that the machine was in most


@dataclass(frozen=True, slots=True)
class OtherState:
    """What tells another state of a curve from its own."""

    level: float  # of the yardstick
    share: float  # of the time
    times: float  # the time of an operation over that in the state of the curve, over these sizes:
    first_bytes: int  # those whose times the yardstick explains
    last_bytes: int


@dataclass(frozen=True, slots=True)
class InStates:
    """A curve whose times come in states, told by one yardstick. The curve itself is of the state that the machine was
    in most.
    """

    variant: str
    pattern: str
    yardstick: str  # bounce_ns, copy_bytes_per_s or wakeup_ns
    level: float  # of the yardstick, while the machine was in the state of the curve
    share: float  # of the time
    others: tuple[OtherState, ...]
    missing: tuple[int, ...]  # sizes that were not visited in the state of the curve: they keep all visits


class Split(NamedTuple):
    """The visits of a curve in states."""

    said: InStates
    own: Seen  # of the curve itself
    kept: Seen  # the same, and all of the sizes that are missing there
    others: tuple[Seen, ...]


Name = tuple[str, str]  # variant and pattern


def splits(run: Run, curves: ByCurve, visits: Mapping[Name, Seen]) -> dict[Name, Split]:
    """The curves that come in states (`visits` is `seen` of each curve)."""
    everywhere = {one.launch for one in run.yardsticks}
    known: dict[frozenset[int], list[Levels]] = {}
    # Launches of several runs are not of one machine: a curve has the levels of its own launches.
    for of in visits.values():
        known.setdefault(_launches(of, everywhere), [])
    taken: dict[int, list[Yardstick]] = {launch: [] for launch in everywhere}
    for yardstick in run.yardsticks:
        taken[yardstick.launch].append(yardstick)
    for launches in known:
        known[launches] = levels([one for launch in launches for one in taken[launch]])
    if not any(known.values()):
        return {}
    clock, found = _Clock(), {}
    last: Reals | None = None
    placed: list[tuple[Levels, Ints, Ints]] = []
    for name, of in visits.items():
        there = known[_launches(of, everywhere)]
        if there and len(of.log):
            at_s = clock.times(curves[name], of)
            if at_s is not last:
                last, placed = at_s, [(one, *one.at(of.launch, at_s)) for one in there]
            tests = len(SLOW_IF_HIGH) * len(visits)
            made = [split for one in placed if (split := _split(name, of, *one, tests)) is not None]
            if made:
                found[name] = max(made, key=lambda one: one[0])[1]
    return found


def _launches(of: Seen, everywhere: set[int]) -> frozenset[int]:
    if len(everywhere) <= 1:
        return frozenset(everywhere)
    return frozenset(everywhere.intersection(np.unique(of.launch).tolist()))


class _Clock:
    """When each block was measured. The visits of a block are back to back, and no yardstick is taken inside it, so
    the time of any of them will do.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Ints, Reals]] = {}  # launch -> blocks, and when
        self._last: tuple[Seen, Reals] | None = None

    def times(self, curve: CurveRecords, of: Seen) -> Reals:
        """Of each visit, in seconds since the start of its launch; nan where that is not known."""
        if self._last is not None:
            same, at_s = self._last
            if np.array_equal(same.block, of.block) and np.array_equal(same.launch, of.launch):
                return at_s
        at_s = np.full(len(of.log), np.nan)
        for launch in np.unique(of.launch).tolist():
            here = np.flatnonzero(of.launch == launch)
            found = self._look(launch, of.block[here])
            if np.isnan(found).any():
                asked = np.isin(curve.size, of.size[here][np.isnan(found)]) & (curve.launch == launch)
                self._learn(launch, [curve.points[place] for place in np.flatnonzero(asked).tolist()])
                found = self._look(launch, of.block[here])
            at_s[here] = found
        self._last = of, at_s
        return at_s

    def _look(self, launch: int, blocks: Ints) -> Reals:
        if launch not in self._known:
            return np.full(len(blocks), np.nan)
        known, at_s = self._known[launch]
        place = np.minimum(np.searchsorted(known, blocks), len(known) - 1)
        return np.where(known[place] == blocks, at_s[place], np.nan)

    def _learn(self, launch: int, points: Sequence[Point]) -> None:
        block, at_s = self._known.get(launch, (np.array([], np.int64), np.array([])))
        taken = [found for point in points if (found := point.visit_moments()) is not None]
        blocks = np.concatenate((block, *(np.array(one.block, np.int64) for one in taken)))
        times = np.concatenate((at_s, *(np.array(one.at_s, np.float64) for one in taken)))
        if len(blocks):
            blocks, first = np.unique(blocks, return_index=True)
            self._known[launch] = blocks, times[first]


def _split(
    name: Name, of: Seen, told: Levels, level: Ints, stretch: Ints, tests: int
) -> tuple[float, Split] | None:
    """How much of the spread between the visits the states explain, and the visits in them."""
    main, compared = told.main, told.others()
    differ: dict[int, OtherState] = {}
    most = 0.0
    for other in range(len(told.values)):
        fast, slow = min(main, other), max(main, other)
        two = np.where(level == fast, FAST, np.where(level == slow, SLOW, NEITHER))
        sizes = _sizes(of, two) if other != main else None
        if sizes is None:
            continue
        first, last, factor = sizes
        if other in compared:
            here = np.flatnonzero((two != NEITHER) & (of.size >= first) & (of.size <= last))
            evidence = _evidence(of, here, two[here], stretch[here], tests * len(compared))
            if evidence is not None:
                explained, factor = evidence
                most = max(most, explained)
        factor = math.exp(min(factor, 700.0) if other == slow else -min(factor, 700.0))
        differ[other] = OtherState(told.values[other], told.shares[other], factor, first, last)
    if not most:
        return None
    # One level is beyond doubt, so the yardstick explains these times: any other level at which they differ is a state
    # as well. A level at which they do not is none, and its visits count.
    own = (level != NEITHER) & ~np.isin(level, list(differ))
    all_sizes = np.unique(of.size)
    missing = np.setdiff1d(all_sizes, of.size[own])
    if len(missing) > MOST_EMPTY * len(all_sizes):
        return None
    said = InStates(
        variant=name[0],
        pattern=name[1],
        yardstick=told.yardstick,
        level=told.values[main],
        share=told.shares[main],
        others=tuple(differ.values()),
        missing=tuple(missing.tolist()),
    )
    kept = own | np.isin(of.size, missing)
    return most, Split(
        said, _some(of, own), _some(of, kept), tuple(_some(of, level == other) for other in differ)
    )


def _some(of: Seen, which: Ints) -> Seen:
    return Seen(of.size[which], of.launch[which], of.block[which], of.log[which])


def _sizes(of: Seen, level: Ints) -> tuple[int, int, float] | None:
    """The first and the last size of the longest range over which the slow level is slower by the factor that is worth
    it, and the logarithm of that factor; None: nowhere.
    """
    both = []
    for which in (FAST, SLOW):
        some = _some(of, level == which)
        if not len(some.log):
            return None
        by_size = groups(some.size)
        both.append((some.size[by_size.first], medians(by_size, some.log)))
    (fast, fast_log), (slow, slow_log) = both
    sizes, at_fast, at_slow = np.intersect1d(fast, slow, assume_unique=True, return_indices=True)
    if not len(sizes):
        return None
    slower = slow_log[at_slow] - fast_log[at_fast]
    padded = np.pad(slower, WINDOW // 2, mode="edge")
    smooth = np.sort(np.lib.stride_tricks.sliding_window_view(padded, WINDOW), axis=1)[:, WINDOW // 2]
    there = np.concatenate(([False], smooth >= math.log(LEAST_TIMES), [False]))
    begins = np.flatnonzero(there[1:] & ~there[:-1])
    ends = np.flatnonzero(~there[1:] & there[:-1])
    if not len(begins):
        return None
    longest = int((ends - begins).argmax())
    first, last = int(begins[longest]), int(ends[longest])
    return int(sizes[first]), int(sizes[last - 1]), float(np.median(smooth[first:last]))


def _evidence(of: Seen, here: Ints, level: Ints, stretch: Ints, tests: int) -> tuple[float, float] | None:
    """The difference between the levels in spreads of what remains between visits, and as a logarithm; None if there is
    any doubt.
    """
    _, size = np.unique(of.size[here], return_inverse=True)
    numbers, stretch = np.unique(stretch, return_inverse=True)
    paces, rest = paces_of(size, stretch, of.log[here])
    many = np.bincount(stretch) >= FEWEST_VISITS
    launch, slow = np.zeros(len(numbers), np.int64), np.zeros(len(numbers))
    launch[stretch], slow[stretch] = of.launch[here], level
    _, launch = np.unique(launch[many], return_inverse=True)
    if not len(launch):
        return None
    x, z = _within(paces[many], launch), _within(slow[many], launch)
    squares = float((z**2).sum())
    degrees = len(x) - (int(launch.max()) + 1) - 1
    if degrees < 1 or squares <= 0:
        return None
    factor = float((x * z).sum()) / squares
    if factor < math.log(LEAST_TIMES):
        return None
    error = math.sqrt(float(((x - factor * z) ** 2).sum()) / degrees / squares)
    if error > 0 and student_tail(factor / error, degrees) > CHANCE / tests:
        return None
    spread = 1.4826 * float(np.median(np.abs(rest)))
    if factor < ABOVE_SPREAD * spread:
        return None
    # Each visit beside its size and launch alone: is it where the yardstick says?
    whole = rest + paces[stretch]
    own = np.zeros(len(whole))
    for which in np.unique(of.launch[here]).tolist():
        those = of.launch[here] == which
        own[those] = np.median(whole[those] - factor * level[those])
    nearer = (whole - own > factor / 2) == (level == SLOW)
    for which in (FAST, SLOW):
        if nearer[level == which].mean() < NEARER:
            return None
    return factor / max(spread, 1e-9), factor


def paces_of(size: Ints, stretch: Ints, logs: Reals) -> tuple[Reals, Reals]:
    """How slow each stretch of time was, and what remains of each visit: log = size + stretch, by least squares, where
    a visit that is far away counts as one four spreads away.
    """
    of_size, of_stretch = np.bincount(size), np.bincount(stretch)
    values = logs
    for _ in range(2):
        paces = np.zeros(len(of_stretch))
        for _ in range(12):
            own = np.bincount(size, values - paces[stretch]) / of_size
            paces = np.bincount(stretch, values - own[size]) / of_stretch
        fit = own[size] + paces[stretch]
        reach = 4 * 1.4826 * float(np.median(np.abs(logs - fit)))
        values = fit + np.clip(logs - fit, -reach, reach)
    return paces, logs - fit


def _within(values: Reals, group: Ints) -> Reals:
    return values - (np.bincount(group, values) / np.bincount(group))[group]


def student_tail(t: float, degrees: int) -> float:
    """The chance that Student's t exceeds this (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    term, total = (1.0, 0.0) if degrees % 2 == 0 else (cosine, 0.0)
    for step in range(degrees // 2):
        total += term
        term *= cosine**2 * (
            (2 * step + 1) / (2 * step + 2) if degrees % 2 == 0 else (2 * step + 2) / (2 * step + 3)
        )
    inside = sine * total if degrees % 2 == 0 else (angle + sine * total) * 2 / math.pi
    return (1 - inside) / 2
