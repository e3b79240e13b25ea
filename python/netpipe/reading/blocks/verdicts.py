# SPDX-License-Identifier: Apache-2.0
"""Which of two variants of a layer, or of two settings of a pattern, is faster, and where.

Compared are the variants of one module under one pattern, each with the plain one (named as its module), else with the
first; and libraries of one kind (mpi@mpich and mpi@openmpi), each with the first that has the same settings. Variants
with different numbers of ranks are not compared: what they do is not the same, so neither is faster at it.

Settings of a pattern are compared under one variant, where they differ in nothing but options that leave the operation
the same, as the pattern's own table says (`tunable` of the plan): window:in_flight=4 with window:in_flight=16, but no
broadcast with a reduction. Each is held against the one that has all defaults, else against the first.

A block has all curves at one size, of all variants and patterns, so the ratio of a size is that of the times within its
blocks. The intervals of all sizes hold together with 95 %, so that among many sizes without a difference none shows one
by chance.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from netpipe.reading.blocks.beside import copies
from netpipe.reading.blocks.visits import Seen, paired
from netpipe.reading.blocks.whole import ratios
from netpipe.reading.curves import place_in_plan
from netpipe.reading.layers import is_idle

if TYPE_CHECKING:
    from netpipe.reading.estimate import Estimate
    from netpipe.records import PlannedMode, Run

MOST_VARIANTS = 50  # of one kind, and settings of one pattern
ALIKE = 0.05  # a difference that is excluded is worth a word up to here

Name: TypeAlias = tuple[str, str]  # of a curve: variant and pattern


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
    """One curve against another: of two variants under one pattern, or of one variant under two settings of it."""

    variant: str
    against: str  # a variant; the same one where settings of the pattern are compared
    pattern: str
    against_pattern: str
    sizes: tuple[SizeVerdict, ...]  # by rising size
    # Of the pattern, what these two differ in: "in_flight=4" and "in_flight=16"; None: two variants are compared
    settings: tuple[str, str] | None = None

    def of(self, word: Word) -> tuple[SizeVerdict, ...]:
        return tuple(size for size in self.sizes if size.word is word)


@dataclass(frozen=True, slots=True)
class TooMany:
    """Variants of one kind under one pattern, or settings of a pattern under one variant, that get no verdicts."""

    curves: tuple[Name, ...]  # in the order of the plan
    against: Name  # what one of them would be held against
    settings: bool  # of a pattern


def verdicts(run: Run, visits: Mapping[Name, Seen]) -> tuple[Verdict, ...]:
    """Of variants, then of settings of patterns, both in the order of the plan. Runs without blocks have none, and
    neither have those of which there are too many.
    """
    return (*_of_variants(run, visits), *_of_settings(run, visits))


def too_many(run: Run, curves: Collection[Name]) -> Iterator[TooMany]:
    """Those of which there are too many for verdicts, in the same order. `curves`: those of the run."""
    modules = _modules(run)
    for pattern, variants in _kinds(run, curves):
        if len(variants) > MOST_VARIANTS:
            # The last one, because the first may be what the others are held against.
            against = _rival(variants[-1], variants, modules)
            yield TooMany(tuple((one, pattern) for one in variants), (against, pattern), False)
    modes = _modes(run)
    for variant, patterns in _alike(run, curves, modes):
        if len(patterns) > MOST_VARIANTS:
            base = _base(variant, patterns, modes)
            yield TooMany(tuple((variant, one) for one in patterns), (variant, base.pattern), True)


def _modules(run: Run) -> dict[str, str]:
    return {one.variant: one.module for plan in run.plans for one in plan.variants}


def _kinds(run: Run, curves: Iterable[Name]) -> Iterator[tuple[str, list[str]]]:
    """A pattern, and the variants of one module (without its library) and number of ranks."""
    modules = _modules(run)
    ranks = {opened.variant: len(opened.ranks) for opened in run.variants}
    control = copies(run)
    place = place_in_plan(run)
    kinds: dict[
        tuple[str, str, int], list[str]
    ] = {}  # (pattern, module without its library, ranks) -> variants
    for variant, pattern in sorted(curves, key=lambda name: place(*name)):
        if variant in modules and variant not in control:
            kind = modules[variant].partition("@")[0]
            kinds.setdefault((pattern, kind, ranks.get(variant, 0)), []).append(variant)
    return ((pattern, variants) for (pattern, *_), variants in kinds.items())


def _of_variants(run: Run, visits: Mapping[Name, Seen]) -> Iterator[Verdict]:
    modules = _modules(run)
    for pattern, variants in _kinds(run, visits):
        for variant in variants if len(variants) <= MOST_VARIANTS else ():
            against = _rival(variant, variants, modules)
            if variant != against:
                sizes = _sizes(visits[variant, pattern], visits[against, pattern])
                if sizes:
                    yield Verdict(variant, against, pattern, pattern, sizes)


def _rival(variant: str, variants: Sequence[str], modules: Mapping[str, str]) -> str:
    """What a variant is held against; itself: it is what the others are held against."""
    first = next(one for one in variants if one.partition(":")[2] == variant.partition(":")[2])
    if modules[first] != modules[variant]:
        return first
    own = [one for one in variants if modules[one] == modules[variant]]
    return next((one for one in own if one == modules[one]), own[0])


def _modes(run: Run) -> dict[Name, PlannedMode]:
    """By variant too: overlaid runs may have patterns of one name with other defaults."""
    return {
        (one.variant, mode.pattern): mode
        for plan in run.plans
        for one in plan.variants
        for mode in plan.modes
        if mode.tunable
    }


def _alike(
    run: Run, curves: Iterable[Name], modes: Mapping[Name, PlannedMode]
) -> Iterator[tuple[str, list[str]]]:
    """A variant, and the patterns that differ in nothing but options that leave the operation the same."""
    left_out = {*copies(run), *(opened.variant for opened in run.variants if is_idle(opened))}
    place = place_in_plan(run)
    alike: dict[tuple[str, str, tuple[tuple[str, str], ...]], list[str]] = {}
    for variant, pattern in sorted(curves, key=lambda name: place(*name)):
        mode = modes.get((variant, pattern))
        if mode is not None and variant not in left_out:
            rest = tuple(one for one in mode.options.items() if one[0] not in mode.tunable)
            alike.setdefault((variant, mode.name, rest), []).append(pattern)
    return ((variant, patterns) for (variant, *_), patterns in alike.items())


def _base(variant: str, patterns: Iterable[str], modes: Mapping[Name, PlannedMode]) -> PlannedMode:
    """What the others are held against."""
    return modes[variant, min(patterns, key=lambda one: bool(_named(modes[variant, one])))]


def _of_settings(run: Run, visits: Mapping[Name, Seen]) -> Iterator[Verdict]:
    modes = _modes(run)
    for variant, patterns in _alike(run, visits, modes):
        base = _base(variant, patterns, modes)
        for pattern in patterns if len(patterns) <= MOST_VARIANTS else ():
            if pattern != base.pattern:
                sizes = _sizes(visits[variant, pattern], visits[variant, base.pattern])
                if sizes:
                    both = _differ(modes[variant, pattern], base)
                    yield Verdict(variant, variant, pattern, base.pattern, sizes, both)


def _named(mode: PlannedMode) -> list[str]:
    """The tunable options that the name of a pattern has: those that differ from their defaults."""
    settings = mode.pattern.partition(":")[2].split(",")
    return [option for setting in settings if (option := setting.partition("=")[0]) in mode.tunable]


def _differ(mode: PlannedMode, base: PlannedMode) -> tuple[str, str]:
    options = [name for name, value in mode.options.items() if base.options.get(name) != value]
    ours, theirs = (", ".join(f"{name}={one.options[name]}" for name in options) for one in (mode, base))
    return ours, theirs


def between_curves(ours: Seen, theirs: Seen) -> dict[int, Estimate]:
    """By size how many times as long one curve takes as another; the intervals of all sizes hold together. Empty if
    they have no block in common.
    """
    both = paired(ours, theirs)
    if not len(both.log):
        return {}
    ((made, _),) = ratios([both])
    return made


def _sizes(ours: Seen, theirs: Seen) -> tuple[SizeVerdict, ...]:
    return tuple(
        SizeVerdict(size, times, word_of(times)) for size, times in between_curves(ours, theirs).items()
    )


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
