# SPDX-License-Identifier: Apache-2.0
"""The same variant in several runs: by how much one run differs from another.

Each run of a merged one (merge.py) is held against the first that has the variant. Nothing pairs their visits,
so the ratio of a size is that of the two numbers, and its interval is made of how far the launches of both lie apart.
The machine itself wanders between two runs more than within one: of ten runs of one command, a minute apart, intervals
made of the launches alone held the next run's number for 81 to 98 % of the points, by layer (docs/bench.md). So every
interval here is RUNS_APART times as wide, which makes 95 % of the 81. The intervals of all sizes of all curves that are
compared in one call hold together with 95 %, and so do those over all sizes.

`overall` is the mean over all sizes, from the means of whole launches: what shifts a curve as a whole shows there
first. Four launches say little of their own spread, so it is moderated by that of the other curves, as it is for a size
by its neighbours (blocks/visits.py).

Imported points have no visits, so their ratios have no interval, and nothing is decided about them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from netpipe.reading.across.merge import MARK, name_of
from netpipe.reading.blocks.verdicts import SizeVerdict, Word, word_of
from netpipe.reading.blocks.visits import (
    FEWEST_LAUNCHES,
    PRIOR_DEGREES,
    TRUTH,
    Seen,
    estimates,
    groups,
    medians,
    parts_of,
    student_t,
)
from netpipe.reading.estimate import Estimate, ratio, unsure

if TYPE_CHECKING:
    from netpipe.reading.curves import Curve
    from netpipe.reading.estimate import Reals

RUNS_APART = 1.5
FEWEST_CURVES = 3  # whose spreads tell what is usual


@dataclass(frozen=True, slots=True)
class Between:
    """One variant in one run, against the same in another."""

    variant: str  # without the label of a run
    pattern: str
    label: str  # of the run,
    against: str  # and of the one that it is held against
    sizes: tuple[SizeVerdict, ...]  # that both have, by rising size: time in this run over time in the other
    overall: Estimate  # the same over all these sizes
    word: Word  # what `overall` says

    def of(self, word: Word) -> tuple[SizeVerdict, ...]:
        return tuple(size for size in self.sizes if size.word is word)

    @property
    def differs(self) -> bool:
        """Is there a difference, over all or at any size?"""
        return any(one in (Word.FASTER, Word.SLOWER) for one in (self.word, *(at.word for at in self.sizes)))


def between(
    curves: Mapping[tuple[str, str], Curve], visits: Mapping[tuple[str, str], Seen]
) -> tuple[Between, ...]:
    """In the order of the first run's plan. A run that is no merged one has none. Two runs that have one variant each
    are compared whatever its name is: one program's result against another's.
    """
    pairs = []
    for (variant, pattern), names in _together(curves).items():
        base = curves[names[0], pattern]
        of = [(variant, curves[name, pattern], base) for name in names[1:]]
        pairs += [(*one, both) for one in of if (both := _in_both(one[1], base))]
    tests = sum(len(both) for *_, both in pairs)
    seen = [[visits.get((one.variant, one.pattern)) for one in (ours, base)] for _, ours, base, _ in pairs]
    sizes = [_sizes(both, two, tests) for two, (*_, both) in zip(seen, pairs, strict=True)]
    overall = _overall([_Spread.of(two, of) for two, of in zip(seen, sizes, strict=True)])
    found = []
    for (variant, ours, base, _), of_sizes, whole in zip(pairs, sizes, overall, strict=True):
        labels = (_label(ours.variant), _label(base.variant))
        if name_of(ours.variant) != name_of(base.variant):
            labels = (ours.variant, base.variant)
        found.append(Between(variant, ours.pattern, *labels, of_sizes, whole, word_of(whole)))
    return tuple(found)


def _label(name: str) -> str:
    return name.partition(MARK)[2]


def _together(curves: Mapping[tuple[str, str], Curve]) -> dict[tuple[str, str], list[str]]:
    """(variant without its run, pattern) -> its names in the runs, in their order; those in several runs."""
    of: dict[tuple[str, str], list[str]] = {}
    alone: dict[str, dict[str, list[str]]] = {}  # pattern -> run -> names
    for name, pattern in curves:
        if MARK in name:
            of.setdefault((name_of(name), pattern), []).append(name)
            alone.setdefault(pattern, {}).setdefault(_label(name), []).append(name)
    found = {key: names for key, names in of.items() if len(names) > 1}
    for pattern, runs in alone.items():
        if len(runs) > 1 and all(len(names) == 1 for names in runs.values()):
            names = [names[0] for names in runs.values()]
            found.setdefault((name_of(names[0]), pattern), names)
    return found


Common = list[tuple[int, "Estimate", "Estimate"]]  # size, and the time in this run and in the other


def _in_both(ours: Curve, theirs: Curve) -> Common:
    other = {at.size_bytes: at.time_ns for at in theirs.points}
    return [
        (at.size_bytes, at.time_ns, other[at.size_bytes])
        for at in ours.points
        if at.size_bytes in other and min(at.time_ns.value, other[at.size_bytes].value) > 0
    ]


def _sizes(both: Common, visits: Sequence[Seen | None], tests: int) -> tuple[SizeVerdict, ...]:
    known = [{} if of is None else estimates(of, TRUTH, tests=tests) for of in visits]
    found = []
    for size, *times in both:
        ours, theirs = (of.get(size, unsure(time.value)) for of, time in zip(known, times, strict=True))
        made = wider(ratio(ours, theirs))
        found.append(SizeVerdict(size, made, word_of(made)))
    return tuple(found)


def wider(times: Estimate) -> Estimate:
    """A ratio with what a run cannot know of the next one."""
    if not times.known:
        return times
    low, high = (times.value * (limit / times.value) ** RUNS_APART for limit in (times.low, times.high))
    return Estimate(times.value, low, high)


@dataclass(frozen=True, slots=True)
class _Spread:
    """The mean of the logarithms of all ratios of a curve, and how far launches lie apart in it."""

    mean: float
    variance: float  # of a launch, over both runs; nan: unknown
    degrees: int
    weight: float  # 1 / launches of the one run + 1 / launches of the other

    @classmethod
    def of(cls, visits: Sequence[Seen | None], sizes: Sequence[SizeVerdict]) -> _Spread:
        mean = math.fsum(math.log(at.times.value) for at in sizes) / len(sizes)
        chosen = np.array([at.size_bytes for at in sizes])
        both = [means for one in visits if (means := _means(one, chosen)) is not None]
        degrees = sum(len(means) - 1 for means in both)
        if len(both) < 2 or min(map(len, both)) < FEWEST_LAUNCHES:
            return cls(mean, math.nan, 0, 0.0)
        squares = math.fsum(float(((means - means.mean()) ** 2).sum()) for means in both)
        return cls(mean, squares / degrees, degrees, sum(1 / len(means) for means in both))


def _overall(spreads: Sequence[_Spread]) -> list[Estimate]:
    """The geometric mean of the ratios of each curve, with its interval."""
    known = [one.variance for one in spreads if one.degrees]
    prior = PRIOR_DEGREES if len(known) >= FEWEST_CURVES else 0
    usual = median(known) if known else 0.0
    found = []
    for one in spreads:
        value = math.exp(one.mean)
        variance = (prior * usual + one.degrees * one.variance) / max(1, prior + one.degrees)
        if not one.degrees or variance <= 0:
            found.append(unsure(value))
            continue
        reach = RUNS_APART * student_t(prior + one.degrees, len(spreads)) * math.sqrt(variance * one.weight)
        found.append(Estimate(value, value * math.exp(-reach), value * math.exp(reach)))
    return found


def _means(of: Seen | None, sizes: np.ndarray) -> Reals | None:
    """The mean over these sizes of the logarithm of the time, for each launch that has all of them, or for each stretch
    of a run with few launches.
    """
    if of is None:
        return None
    chosen = np.isin(of.size, sizes)
    size, launch, log = of.size[chosen], of.launch[chosen], of.log[chosen]
    if not len(size):
        return None
    of_size = groups(size)
    parts = parts_of(launch, of_size)
    owner = of_size.number[parts.first]
    number = np.arange(len(owner)) - np.searchsorted(owner, owner)  # of the part within its size
    values = medians(parts, log)
    whole = [number == one for one in range(int(number.max()) + 1)]
    return np.array([values[one].mean() for one in whole if np.count_nonzero(one) == len(of_size.first)])
