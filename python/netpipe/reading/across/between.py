# SPDX-License-Identifier: Apache-2.0
"""The same variant in several runs: by how much one run differs from another.

Each run of a merged one (merge.py) is held against the first that has the variant. Nothing pairs their visits,
so the ratio of a size is that of the two numbers, and its interval is made of how far the launches of both lie apart.
The machine itself wanders between two runs more than within one: of ten runs of one command, a minute apart, intervals
made of the launches alone held the next run's number for 81 to 98 % of the points, by layer (docs/bench.md), and runs
some minutes apart differ more. So every interval here is RUNS_APART times as wide: so 4.4 % of 1035 pairs of 46 real
runs within five minutes report a difference, and 13 % with 1.5, which makes 95 % of the 81. The intervals of all sizes
of all curves that are compared in one call hold together with 95 %, and so do those over all sizes.

Patterns that differ in nothing but conventions (`buffers`, `places`, `statistic`) are compared too, where a run has no
curve of the very same one: results of other programs come with theirs. Both patterns are told.

`overall` is the mean over all sizes, from the means of whole launches: what shifts a curve as a whole shows there
first. Four launches say little of their own spread, so it is moderated by that of the other curves, as it is for a size
by its neighbours (blocks/visits.py).

Imported points have no visits, so their ratios have no interval, and nothing is decided about them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from netpipe.reading.across.merge import MARK, name_of
from netpipe.reading.blocks.verdicts import SizeVerdict, Word, word_of
from netpipe.reading.blocks.visits import TRUTH, Seen, estimates
from netpipe.reading.blocks.whole import Spread, farther, overall, without_common
from netpipe.reading.estimate import Estimate, ratio, unsure

if TYPE_CHECKING:
    from netpipe.reading.curves import Curve

RUNS_APART = 2.0
CONVENTIONS = frozenset({"buffers", "places", "statistic"})  # settings in which programs differ by habit


Name: TypeAlias = tuple[str, str]  # of a curve: variant and pattern


@dataclass(frozen=True, slots=True)
class Between:
    """One variant in one run, against the same in another; or against another variant (`variants_differ`)."""

    variant: str  # without the label of a run
    pattern: str
    label: str  # of the run,
    against: str  # and of the one that it is held against; the whole names where the variants differ
    sizes: tuple[SizeVerdict, ...]  # that both have, by rising size: time in this run over time in the other
    overall: Estimate  # the same over all these sizes
    word: Word  # what `overall` says
    against_pattern: str  # as `pattern`, unless they differ in conventions
    variants_differ: bool = False

    def of(self, word: Word) -> tuple[SizeVerdict, ...]:
        return tuple(size for size in self.sizes if size.word is word)

    @property
    def differs(self) -> bool:
        """Is there a difference, over all or at any size?"""
        return any(one in (Word.FASTER, Word.SLOWER) for one in (self.word, *(at.word for at in self.sizes)))


def between(
    curves: Mapping[Name, Curve], visits: Mapping[Name, Seen], conventions: bool = True
) -> tuple[Between, ...]:
    """In the order of `curves`, which begin with those of the first run. A run that was not merged has none. Two runs
    that have one variant each are compared whatever its name is: one program's result against another's.
    `conventions`: may these differ?
    """
    pairs = []
    for first, *others in _together(curves, conventions):
        of = [(name, first, _in_both(curves[name], curves[first])) for name in others]
        pairs += [one for one in of if one[2]]
    tests = sum(len(both) for *_, both in pairs)
    seen = [[visits.get(name) for name in (ours, base)] for ours, base, _ in pairs]
    spreads = [
        Spread.of(two, {size: a.value / b.value for size, a, b in both})
        for two, (*_, both) in zip(seen, pairs, strict=True)
    ]
    whole = overall(spreads, RUNS_APART)
    found = []
    for (ours, base, both), two, mean in zip(pairs, seen, whole, strict=True):
        of_sizes = _sizes(both, two, tests, mean)
        differ = name_of(ours[0]) != name_of(base[0])
        labels = (ours[0], base[0]) if differ else (_label(ours[0]), _label(base[0]))
        word = word_of(mean)
        found.append(Between(name_of(base[0]), ours[1], *labels, of_sizes, mean, word, base[1], differ))
    return tuple(found)


def _label(name: str) -> str:
    return name.partition(MARK)[2]


def without_conventions(pattern: str) -> str:
    """window:in_flight=64 of window:in_flight=64,places=one"""
    name, _, settings = pattern.partition(":")
    kept = [one for one in settings.split(",") if one and one.partition("=")[0] not in CONVENTIONS]
    return f"{name}:{','.join(kept)}" if kept else name


def _together(curves: Iterable[Name], conventions: bool) -> list[list[Name]]:
    """The curves that are the same one in several runs, that of the first run first."""
    there = [name for name in curves if MARK in name[0]]
    found: dict[Name, list[Name]] = {}  # by the first of each
    alike = without_conventions if conventions else str
    for base, *others in _by_run(there, name_of, alike):
        known = {name[1]: [name] for name in base}
        plainest = known[min(known, key=len)]
        for names in others:
            same = [name for name in names if name[1] in known]
            for name in same:
                known[name[1]].append(name)
            if not same:
                plainest.append(min(names, key=lambda name: len(name[1])))
        found |= {one[0]: one for one in known.values() if len(one) > 1}
    for of_variant, of_pattern in ((name_of, str), (_any, str), (_any, alike)):
        paired = set().union(*found.values())
        for runs in _by_run(there, of_variant, of_pattern):
            only = [names[0] for names in runs]
            if len(runs) > 1 and max(map(len, runs)) == 1 and paired.isdisjoint(only):
                found[only[0]] = only
    return [found[name] for name in there if name in found]


def _any(_: str) -> str:
    return ""


def _by_run(
    curves: Iterable[Name], of_variant: Callable[[str], str], of_pattern: Callable[[str], str]
) -> Iterable[list[list[Name]]]:
    """The curves that these make the same, apart for each run."""
    alike: dict[Name, dict[str, list[Name]]] = {}
    for variant, pattern in curves:
        runs = alike.setdefault((of_variant(variant), of_pattern(pattern)), {})
        runs.setdefault(_label(variant), []).append((variant, pattern))
    return [list(runs.values()) for runs in alike.values()]


Common = list[tuple[int, "Estimate", "Estimate"]]  # size, and the time in this run and in the other


def _in_both(ours: Curve, theirs: Curve) -> Common:
    other = {at.size_bytes: at.time_ns for at in theirs.points}
    return [
        (at.size_bytes, at.time_ns, other[at.size_bytes])
        for at in ours.points
        if at.size_bytes in other and min(at.time_ns.value, other[at.size_bytes].value) > 0
    ]


def _sizes(
    both: Common, visits: Sequence[Seen | None], tests: int, whole: Estimate
) -> tuple[SizeVerdict, ...]:
    """The reach of a size is that of the rest, which its neighbours moderate, and that of what is common to all."""
    rests = [
        {} if of is None else estimates(without_common(of), TRUTH, tests=tests) if len(of.log) else {}
        for of in visits
    ]
    found = []
    for size, ours, theirs in both:
        value = ours.value / theirs.value
        times = unsure(value)
        if whole.known and all(size in of and of[size].known for of in rests):
            rest = wider(ratio(*(of[size] for of in rests)))
            times = farther(value, rest, whole)
        found.append(SizeVerdict(size, times, word_of(times)))
    return tuple(found)


def wider(times: Estimate) -> Estimate:
    """A ratio with what a run cannot know of the next one."""
    if not times.known:
        return times
    low, high = (times.value * (limit / times.value) ** RUNS_APART for limit in (times.low, times.high))
    return Estimate(times.value, low, high)
