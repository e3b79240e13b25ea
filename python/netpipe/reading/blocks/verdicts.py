# SPDX-License-Identifier: Apache-2.0
"""Which of two variants of a layer is faster, and where.

Compared are the variants of one module under one pattern, each with the plain one (named as its module), else with the
first; and libraries of one kind (mpi@mpich and mpi@openmpi), each with the first that has the same settings. Variants
with different numbers of ranks are not compared: what they do is not the same, so neither is faster at it. The ratio
of a size is that of the times within its blocks. The intervals of all sizes hold together with 95 %, so that among many
sizes without a difference none shows one by chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from netpipe.reading.blocks.beside import copies
from netpipe.reading.blocks.visits import Seen, paired
from netpipe.reading.blocks.whole import ratios
from netpipe.reading.curves import place_in_plan

if TYPE_CHECKING:
    from netpipe.reading.estimate import Estimate
    from netpipe.records import Run

MOST_VARIANTS = 50  # of one kind
ALIKE = 0.05  # a difference that is excluded is worth a word up to here


class Word(Enum):
    FASTER = "faster"
    SLOWER = "slower"
    SAME = "no difference"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class SizeVerdict:
    size_bytes: int
    times: Estimate  # time of the variant over that of the other: 2 is twice as long
    word: Word


@dataclass(frozen=True, slots=True)
class Verdict:
    """One variant against another."""

    variant: str
    against: str
    pattern: str
    sizes: tuple[SizeVerdict, ...]  # by rising size

    def of(self, word: Word) -> tuple[SizeVerdict, ...]:
        return tuple(size for size in self.sizes if size.word is word)


def verdicts(run: Run, visits: Mapping[tuple[str, str], Seen]) -> tuple[Verdict, ...]:
    """In the order of the plan. Runs without blocks have none, and neither have sweeps of many variants."""
    modules = {one.variant: one.module for plan in run.plans for one in plan.variants}
    ranks = {opened.variant: len(opened.ranks) for opened in run.variants}
    control = copies(run)
    place = place_in_plan(run)
    kinds: dict[
        tuple[str, str, int], list[str]
    ] = {}  # (pattern, module without its library, ranks) -> variants
    for variant, pattern in sorted(visits, key=lambda name: place(*name)):
        if variant in modules and variant not in control:
            kind = modules[variant].partition("@")[0]
            kinds.setdefault((pattern, kind, ranks.get(variant, 0)), []).append(variant)
    found = []
    for (pattern, *_), variants in kinds.items():
        for variant in variants if len(variants) <= MOST_VARIANTS else ():
            against = _rival(variant, variants, modules)
            sizes = () if variant == against else _sizes(visits[variant, pattern], visits[against, pattern])
            if sizes:
                found.append(Verdict(variant, against, pattern, sizes))
    return tuple(found)


def _rival(variant: str, variants: Sequence[str], modules: Mapping[str, str]) -> str:
    """What a variant is held against; itself: it is what the others are held against."""
    first = next(one for one in variants if one.partition(":")[2] == variant.partition(":")[2])
    if modules[first] != modules[variant]:
        return first
    own = [one for one in variants if modules[one] == modules[variant]]
    return next((one for one in own if one == modules[one]), own[0])


def _sizes(ours: Seen, theirs: Seen) -> tuple[SizeVerdict, ...]:
    both = paired(ours, theirs)
    if not len(both.log):
        return ()
    ((made, _),) = ratios([both])
    return tuple(SizeVerdict(size, times, word_of(times)) for size, times in made.items())


def word_of(times: Estimate) -> Word:
    """What the interval of a ratio of times says."""
    if not times.known:
        return Word.UNDECIDED
    if not times.covers(1):
        return Word.FASTER if times.high < 1 else Word.SLOWER
    return Word.SAME if excluded(times) <= ALIKE else Word.UNDECIDED


def excluded(times: Estimate) -> float:
    """The largest difference that the interval leaves possible, as a fraction."""
    return max(times.high, 1 / times.low) - 1


def largest(sizes: Sequence[SizeVerdict]) -> SizeVerdict:
    """The one whose difference is largest even at the near end of its interval."""
    return max(sizes, key=lambda size: max(size.times.low, 1 / size.times.high))
