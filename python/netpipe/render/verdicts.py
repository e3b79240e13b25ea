# SPDX-License-Identifier: Apache-2.0
"""Verdicts in sentences: which variant, or setting of a pattern, is faster, where, and by how much."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from netpipe.reading.across.between import Between
from netpipe.reading.across.merge import name_of
from netpipe.reading.blocks.verdicts import SizeVerdict, Verdict, Word, excluded, largest
from netpipe.reading.measures import typical_sizes
from netpipe.render.losses import compared_text
from netpipe.units import digits, percent_text, size_text

MOST = 6  # said; `netpipe show --json` has all
LEAST = 2  # others that are held against one: a sweep of values, which is a table


def verdict_sentences(verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """One for each verdict. Where there are many, the rest is counted."""
    several = len({one.pattern for one in verdicts}) > 1
    said = [
        verdict_sentence(one) + (f" ({one.pattern})" if several and one.settings is None else "")
        for one in verdicts[: MOST if len(verdicts) > MOST + 1 else len(verdicts)]
    ]
    more = len(verdicts) - len(said)
    return (*said, *([f"{more} more verdicts: netpipe show --json."] if more else []))


def verdict_sentence(verdict: Verdict) -> str:
    """tcp:sndbuf=16k against tcp: slower from 64 KiB on, most at 1 MiB: 3.1 (3.0 to 3.2) times as long; no difference
    above 2.1 % up to 4 KiB; undecided at 3 of 124 sizes. Settings: "tcp, window: in_flight=4 against in_flight=16".
    """
    ours, theirs = names_of(verdict)
    return f"{ours} against {theirs}: {'; '.join(_parts(verdict))}."


def names_of(verdict: Verdict) -> tuple[str, str]:
    """What is compared, and with what."""
    if verdict.settings is None:
        return verdict.variant, verdict.against
    ours, theirs = verdict.settings
    name, _, settings = verdict.pattern.partition(":")
    both = ",".join(one for one in settings.split(",") if one not in ours.split(", "))
    return f"{verdict.variant}, {f'{name}:{both}' if both else name}: {ours}", theirs


def side_by_side(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """Those of sweeps: of three settings or more of one module, or of a pattern, held against one of them."""
    held: dict[tuple[str, str, bool], list[Verdict]] = {}
    for one in verdicts:
        if _module(one.variant) == _module(one.against):
            held.setdefault((one.against, one.against_pattern, one.settings is None), []).append(one)
    return tuple(one for some in held.values() if len(some) >= LEAST for one in some)


def _module(variant: str) -> str:
    return name_of(variant).partition(":")[0]


def sizes_of(verdicts: Sequence[Verdict]) -> tuple[int, ...]:
    """The few sizes that represent all of them."""
    return typical_sizes(at.size_bytes for one in verdicts for at in one.sizes)


def ratio_text(at: SizeVerdict) -> str:
    """2.41 [2.35 2.48] times as long; how large a difference is excluded where none was seen."""
    times = at.times
    return compared_text(times, f"{digits(times.value)} [{digits(times.low)} {digits(times.high)}]")


def between_sentence(between: Between, several: bool) -> str:
    """tcp, after against before: slower from 64 KiB on, most at 1 MiB: 3.1 (3.0 to 3.2) times as long. Of two variants:
    unix against tcp: ...
    """
    pattern = f" ({between.pattern})" if several else ""
    both = f"{between.label} against {between.against}"
    who = f"{both}{pattern}" if between.variants_differ else f"{between.variant}{pattern}, {both}"
    parts = list(_parts(between))
    if between.word in (Word.SLOWER, Word.FASTER):
        times = between.overall if between.word is Word.SLOWER else between.overall.inverse()
        how = "times as long" if between.word is Word.SLOWER else "times as fast"
        by = f"{digits(times.value)} ({digits(times.low)} to {digits(times.high)}) {how}"
        parts.insert(0, f"{between.word.value} over all sizes: {by}")
    return f"{who}: {'; '.join(parts)}."


def convention_sentences(found: Sequence[Between]) -> tuple[str, ...]:
    """Which curves were measured by other conventions than those that they are held against."""
    differ = [one for one in found if one.pattern != one.against_pattern]
    return tuple(
        f"{one.variant} is {one.pattern} in {one.label} and {one.against_pattern} in {one.against}: these conventions "
        "differ, and part of the ratio may come from that"
        for one in differ
    )


def _parts(verdict: Verdict | Between) -> Iterator[str]:
    for word in (Word.SLOWER, Word.FASTER):
        if there := verdict.of(word):
            one = largest(there)
            times = one.times if word is Word.SLOWER else one.times.inverse()
            how = "times as long" if word is Word.SLOWER else "times as fast"
            by = f"{digits(times.value)} ({digits(times.low)} to {digits(times.high)}) {how}"
            where = _where(there, verdict.sizes)
            most = f", most at {size_text(one.size_bytes)}: {by}" if len(there) > 1 else f": {by}"
            yield f"{word.value} {where}{most}"
    if there := verdict.of(Word.SAME):
        most_excluded = percent_text(max(excluded(one.times) for one in there))
        yield f"no difference above {most_excluded} {_where(there, verdict.sizes)}"
    if there := verdict.of(Word.UNDECIDED):
        yield f"undecided {_where(there, verdict.sizes)}"


def _where(some: Sequence[SizeVerdict], sizes: Sequence[SizeVerdict]) -> str:
    """In words: some of all sizes."""
    first, last = some[0].size_bytes, some[-1].size_bytes
    together = sum(first <= one.size_bytes <= last for one in sizes) == len(some)
    if len(sizes) == 1 or (together and first == last):
        return f"at {size_text(first)}"
    if len(some) == len(sizes):
        return "at all sizes"
    if not together:
        return f"at {len(some)} of {len(sizes)} sizes"
    if some[0] is sizes[0]:
        return f"up to {size_text(last)}"
    if some[-1] is sizes[-1]:
        return f"from {size_text(first)} on"
    return f"from {size_text(first)} to {size_text(last)}"
