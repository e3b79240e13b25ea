# SPDX-License-Identifier: Apache-2.0
"""Runs held against each other: what else differs, a table, and the verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from netpipe.reading.blocks.verdicts import Word
from netpipe.render.terminal.rows import Rows, print_paragraph, says_nothing
from netpipe.render.verdicts import between_sentence, convention_sentences
from netpipe.units import UNKNOWN, counted, digits, measure_text, percent_text, size_text

if TYPE_CHECKING:
    from rich.console import Console

    from netpipe.reading.across.between import Between
    from netpipe.reading.across.differences import Difference, Pace
    from netpipe.reading.estimate import Estimate

INTERVALS = ", with 95 % intervals"
RATIO = f"time over that in the first run{INTERVALS}"
MOST = 10  # differences of hosts and settings; --json has all


def print_differences(out: Console, found: Sequence[Difference], paces: Sequence[Pace]) -> None:
    """What is not the same in two runs besides the curves."""
    for one in found[:MOST]:
        of = "" if one.of == "host" else f"{one.of}: "
        print_paragraph(out, "·", "dim", f"{of}{one.name} was {one.before}, and is {one.after}")
    if len(found) > MOST:
        print_paragraph(out, "·", "dim", f"{counted(len(found) - MOST, 'more difference')}: --json")
    if not found:
        print_paragraph(
            out, "·", "dim", "hosts, settings and plans are the same, as far as both recorded them"
        )
    for pace in paces:
        if pace.differs:
            was, is_ = (measure_text(value, pace.unit) for value in (pace.before, pace.after))
            print_paragraph(
                out,
                "!",
                "yellow",
                f"the machine itself had another pace: {pace.name} was {was}, and is {is_}",
            )


def print_commands(out: Console, commands: Iterable[str]) -> None:
    """Each on a line of its own that is not broken, so that it can be copied."""
    for one in commands:
        out.print(f"  {one}", soft_wrap=True)


def print_comparison(out: Console, found: Sequence[Between], every_size: bool) -> None:
    """A row for each curve, and a sentence for each that differs; or a row for each size."""
    several = len({one.pattern for one in found}) > 1
    if every_size:
        for one in found:
            out.print()
            of = "of" if one.variants_differ else "in"
            title = f"time {of} {one.label} over time {of} {one.against}"
            out.print(f"{_name(one, several)}: {title}", style="bold")
            out.print(size_table(one))
        _print_conventions(out, found)
        return
    smallest, largest = "smallest", "largest"
    alike = {(at.sizes[0].size_bytes, at.sizes[-1].size_bytes) for at in found}
    if len(alike) == 1:
        smallest, largest = map(size_text, alike.pop())
    against = {one.against for one in found if one.variants_differ}
    out.print(f"time over that of {against.pop()}{INTERVALS}" if len(against) == 1 else RATIO, style="bold")
    table = Rows(
        ("variant", "name"),
        (smallest, "right"),
        (largest, "right"),
        ("all sizes", "right"),
        ("", "left"),
        apart=True,
    )
    labels = {one.label for one in found}
    for one in found:
        name = _name(one, several) + (f" {one.label}" if len(labels) > 1 and one.label != one.variant else "")
        cells = [ratio_text(at.times) for at in (one.sizes[0], one.sizes[-1])]
        table.add_row(name, *cells, ratio_text(one.overall), said(one), style="" if one.differs else "dim")
    out.print(table)
    differing = [one for one in found if one.differs]
    out.print()
    for one in differing:
        print_paragraph(out, "·", "bold", between_sentence(one, several))
    if not differing:
        print_paragraph(out, "·", "bold", nothing_seen(found))
    _print_conventions(out, found)


def _print_conventions(out: Console, found: Sequence[Between]) -> None:
    for sentence in convention_sentences(found):
        print_paragraph(out, "!", "yellow", sentence)


def nothing_seen(found: Sequence[Between]) -> str:
    """What it means that no difference was seen: how large one may be all the same."""
    known = [at.times for one in found for at in one.sizes if at.times.known]
    if not known:
        return "there are no intervals for these points, so nothing tells whether they differ"
    widest = sorted(max(times.high, 1 / times.low) - 1 for times in known)
    middle = widest[len(widest) // 2]
    size = f"{percent_text(middle)} or less" if middle <= 1 else "more than 100 %"
    return (
        f"no difference was seen in {counted(len(found), 'curve')}; at half of the sizes one of {size} "
        "would not have been"
    )


def size_table(one: Between) -> Rows:
    table = Rows(("size", "right"), ("time", "right"), ("", "left"))
    for at in one.sizes:
        table.add_row(size_text(at.size_bytes), ratio_text(at.times), _word(at.word, at.times))
    return table


def said(one: Between) -> str:
    """One word or two for a curve."""
    slower, faster = one.of(Word.SLOWER), one.of(Word.FASTER)
    if slower and faster:
        return f"slower at {len(slower)} sizes, faster at {len(faster)}"
    if slower or faster:
        some = slower or faster
        return f"{some[0].word.value} at {counted(len(some), 'size')} of {len(one.sizes)}"
    return _word(one.word, one.overall)


def _word(word: Word, times: Estimate) -> str:
    return word.value if times.known else "no interval"


def _name(one: Between, several: bool) -> str:
    return f"{one.variant} {one.pattern}" if several else one.variant


def ratio_text(times: Estimate | None) -> str:
    """1.03 [1.01 1.05]; without limits that say nothing ~1.03"""
    if times is None:
        return UNKNOWN
    if not times.known or says_nothing(times):
        return f"~{digits(times.value)}"
    return f"{digits(times.value)} [{digits(times.low)} {digits(times.high)}]"
