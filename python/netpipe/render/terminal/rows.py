# SPDX-License-Identifier: Apache-2.0
"""Tables and consoles for every command: rows without lines, names that wrap where a reader would break them, numbers
that are never cut.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, TextIO

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.style import Style, StyleType
from rich.table import Table
from rich.text import Text

from netpipe.escapes import printable
from netpipe.units import TIME_STEPS, UNKNOWN, bracketed_text

if TYPE_CHECKING:
    from netpipe.reading.estimate import Estimate

UNBOUND_COLUMNS = 120  # of output that goes to a file or a pipe
GAP = 2  # between columns
SPARKS = "▁▂▃▄▅▆▇█"


class _Plain(Console):
    """Shows every text as it is: no markup, no emoji, and control characters as printable ones."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:  # of rich itself
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # netpipe.cli decides what it means; rich would exit with 1


def console(stream: TextIO | None = None) -> Console:
    """A console for this stream (standard output). Respects NO_COLOR, FORCE_COLOR and COLUMNS; without a terminal there
    are no colours (unless forced), and lines are wide.
    """
    stream = stream or sys.stdout
    narrow = stream.isatty() or "COLUMNS" in os.environ
    return _Plain(
        file=stream,
        width=None if narrow else UNBOUND_COLUMNS,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=False,
    )


class Name:
    """The name of a variant: on one line, or broken after ':', ',' and '=' into as many lines as it takes."""

    def __init__(self, text: str) -> None:
        self.text = printable(text)  # before it is measured

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(max(map(len, self._pieces())), len(self.text))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = [""]
        for piece in self._pieces():
            if lines[-1] and len(lines[-1]) + len(piece) > options.max_width:
                lines.append("")
            lines[-1] += piece
        yield line("\n".join(lines))

    def _pieces(self) -> list[str]:
        return re.findall(r"[^:,=]*[:,=]?", self.text)[:-1] or [""]


def line(text: str) -> Text:
    return Text(printable(text), no_wrap=True, overflow="ellipsis")


class Rows(Table):
    """A table without lines. Columns are (header, kind), by how they give way where there is no room: "right" holds
    numbers and keeps its width, "left" holds words and is cut. "name" keeps its width as long as the words can give
    way; then it continues on the next line, because its end is what tells two variants apart.
    """

    def __init__(self, *columns: tuple[str, str]) -> None:
        super().__init__(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
        self._headers = [header for header, _ in columns]
        self._kinds = [kind for _, kind in columns]
        self._least = [len(header) for header in self._headers]
        self._whole = list(map(cell_len, self._headers))  # what the columns take if they may
        self._whole[-1:] = [max(1, width) for width in self._whole[-1:]]
        self._simple = not any(
            header.endswith(" ") for header in self._headers
        )  # and so are all cells: one line each
        for header, kind in columns:
            # A column that may not wrap keeps its width; the others give way.
            self.add_column(
                Text(header, no_wrap=True),
                justify="right" if kind == "right" else "left",
                no_wrap=kind == "right",
            )

    def add_row(
        self, *cells: RenderableType | None, style: StyleType | None = None, end_section: bool = False
    ) -> None:
        kept = [_cell(kind, cell) for kind, cell in zip(self._kinds, cells, strict=False)]
        for place, (kind, cell) in enumerate(zip(self._kinds, kept, strict=False)):
            text = cell.text if isinstance(cell, Name) else cell.plain if isinstance(cell, Text) else ""
            width = cell_len(text)
            least = max(map(cell_len, text.split()), default=0) if kind == "left" else width
            self._least[place] = max(self._least[place], least)
            self._whole[place] = max(self._whole[place], width)
            self._simple &= isinstance(cell, Name) or (isinstance(cell, Text) and not cell.spans)
            self._simple &= text.isprintable() and not text.endswith(" ")
        self._simple &= len(kept) == len(self._kinds) and style is None
        super().add_row(*kept, style=style, end_section=end_section)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        between = GAP * (len(self._kinds) - 1)
        if self._simple and self._kinds and sum(self._whole) + between <= options.max_width:
            yield from self._lines(console)
            return
        # Words give way down to their longest word before a name is broken.
        names_fit = sum(self._least) + between <= options.max_width
        for column, kind in zip(self.columns, self._kinds, strict=True):
            column.no_wrap = kind == "right" or (kind == "name" and names_fit)
        yield from super().__rich_console__(console, options)

    def _lines(self, console: Console) -> RenderResult:
        """What rich makes of the table where there is room for all of it. With thousands of rows that took seconds:
        rich measures, wraps and pads each cell.
        """

        def padded(place: int, text: str) -> str:
            room = " " * (self._whole[place] - cell_len(text))
            return room + text if self._kinds[place] == "right" else text + room

        gap, end = " " * GAP, Segment.line()
        yield Segment(gap.join(map(padded, range(len(self._headers)), self._headers)), Style(bold=True))
        yield end
        for row in zip(*(column.cells for column in self.columns), strict=True):
            said = ""
            for place, cell in enumerate(row):
                said += gap if place else ""
                if isinstance(cell, Name):
                    said += padded(place, cell.text)
                elif isinstance(cell, Text) and not cell.style:
                    said += padded(place, cell.plain)
                elif isinstance(cell, Text):
                    yield Segment(said)
                    yield Segment(padded(place, cell.plain), console.get_style(cell.style))
                    said = ""
            yield Segment(said)
            yield end


def _cell(kind: str, cell: RenderableType | None) -> RenderableType | None:
    if not isinstance(cell, str):
        return cell
    return Name(cell) if kind == "name" else line(cell)


def interval_text(estimate: Estimate | None) -> str:
    """Nanoseconds in one unit: "24.1 [23.9 24.3] µs"; without limits if there are none."""
    if estimate is None:
        return UNKNOWN
    return bracketed_text(estimate.value, estimate.low, estimate.high, TIME_STEPS, "ns")


def spark(rates: Iterable[float | None], width: int) -> str:
    """Rates by rising size as bars, up to the largest of them; blank if there is none yet."""
    values = list(rates)
    top = max((rate for rate in values if rate), default=0.0)
    if not top:
        return ""
    bars = []
    for bar in range(min(width, len(values))):
        start = bar * len(values) // min(width, len(values))
        stop = (bar + 1) * len(values) // min(width, len(values))
        best = max((rate for rate in values[start:stop] if rate is not None), default=None)
        bars.append(" " if best is None else SPARKS[min(7, int(best / top * 8))])
    return "".join(bars)
