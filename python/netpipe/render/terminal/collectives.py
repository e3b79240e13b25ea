# SPDX-License-Identifier: Apache-2.0
"""The last step of the chains of layers: what collective operations cost in messages of the same library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from netpipe.render.collectives import (
    WORDS,
    At,
    Limits,
    furthest_sentences,
    least_text,
    lines,
    messages_text,
    over_text,
    title,
)
from netpipe.render.terminal.rows import Rows, print_paragraph
from netpipe.units import UNKNOWN, size_text, time_text

if TYPE_CHECKING:
    from rich.console import Console

    from netpipe.reading.blocks.collectives import Collectives

# What a table shows: how intervals are written, and whether times the least number. Less where there is no room.
FORMS: tuple[tuple[Limits, bool], ...] = (("interval", True), ("width", True), ("width", False), ("", False))


def print_collectives(out: Console, every: Sequence[Collectives]) -> None:
    """The table with as much as there is room for, and what its numbers mean. `every` has one or more."""
    tables = [_table(every, limits, over) for limits, over in FORMS]
    out.print(next((table for table in tables if table.fits(out.width)), tables[-1]))
    for sentence in (WORDS, *furthest_sentences(every)):
        print_paragraph(out, "·", "dim", sentence, faint=True)


def _table(every: Sequence[Collectives], limits: Limits, over: bool) -> Rows:
    sizes = every[0].small_bytes, every[0].large_bytes
    names = ("messages", "least", "× least") if over else ("messages", "least")
    columns = [name for size in sizes if size is not None for name in (size_text(size), *names)]
    table = Rows((title(every), "name"), *((name, "right") for name in columns), apart=True)
    for line in lines(every):
        branch = ("└ " if line.last else "├ ") if line.depth else ""
        both = zip(sizes, (line.small, line.large), strict=True)
        table.add_row(
            branch + line.name,
            *(cell for size, at in both if size is not None for cell in _cells(at, limits, over, line.depth)),
        )
    return table


def _cells(at: At, limits: Limits, over: bool, depth: int) -> list[str]:
    time = time_text(at.time_ns.value) if at.time_ns else UNKNOWN
    if depth == 0:
        return [time, *[""] * (3 if over else 2)]
    return [time, messages_text(at.of, limits), least_text(at.of), *([over_text(at.of)] if over else [])]
