# SPDX-License-Identifier: Apache-2.0
"""What opening the libraries costs: a table for the terminal and one for the report. The figures are `memory` and
`startup` of render.figures.
"""

from __future__ import annotations

from collections.abc import Sequence

from netpipe.reading.openings import Opening, Spread
from netpipe.render.page.tables import Column, Table
from netpipe.render.terminal.summary import Rows
from netpipe.render.units import SIZE_STEPS, TIME_STEPS, UNKNOWN, digits

_COLUMNS = (
    ("variant", "name"),
    ("ranks", "right"),
    ("memory of each", "right"),
    ("private", "right"),
    ("pinned", "right"),
    ("start-up", "right"),
    ("launcher", "right"),
    ("launches", "right"),
)


def terminal_table(found: Sequence[Opening]) -> Rows:
    made = Rows(*_COLUMNS)
    for cells in map(_cells, found):
        made.add_row(*cells)
    return made


def page_table(found: Sequence[Opening]) -> Table:
    return Table(
        tuple(Column(name, left=kind == "name") for name, kind in _COLUMNS),
        tuple(map(_cells, found)),
    )


def remark(found: Sequence[Opening]) -> str:
    """What the numbers are, and why some are missing."""
    words = (
        "Memory is what a process grew by when the library was opened and all ranks had talked to all; shared pages "
        "count in every process that has touched them, private ones no other process sees. The start-up ends when all "
        "have talked to all, the launcher's part of it when all processes are there. In brackets: the least and the "
        "most of all launches."
    )
    if any(opening.resident_bytes is None for opening in found):
        words += f" {UNKNOWN}: not known; ranks of a simulated machine are one process."
    return words


def _cells(opening: Opening) -> tuple[str, ...]:
    return (
        opening.variant,
        str(opening.ranks),
        _text(opening.resident_bytes, SIZE_STEPS, "B"),
        _text(_middle(opening.private_bytes), SIZE_STEPS, "B"),
        _text(_middle(opening.pinned_bytes), SIZE_STEPS, "B"),
        _text(opening.start_s, TIME_STEPS, "ns", 1e9),
        _text(_middle(opening.launcher_s), TIME_STEPS, "ns", 1e9),
        str(opening.launches),
    )


def _middle(spread: Spread | None) -> Spread | None:
    """Without what lies farthest: a part of a number whose range stands in the table already."""
    return None if spread is None else Spread(spread.value, spread.value, spread.value)


def _text(
    spread: Spread | None, steps: Sequence[tuple[float, str]], smallest: str, scale: float = 1.0
) -> str:
    """In the unit of the median: "14.9 [14.8 15.0] MiB"."""
    if spread is None:
        return UNKNOWN
    value, low, high = (number * scale for number in (spread.value, spread.low, spread.high))
    step, unit = next(((step, unit) for step, unit in steps if abs(value) >= step), (1.0, smallest))
    if low == high:
        return f"{digits(value / step)} {unit}"
    return f"{digits(value / step)} [{digits(low / step)} {digits(high / step)}] {unit}"
