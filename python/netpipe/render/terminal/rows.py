# SPDX-License-Identifier: Apache-2.0
"""Tables and consoles for every command: rows without lines, names that wrap where a reader would break them, numbers
that are never cut.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, TextIO

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.style import Style
from rich.styled import Styled
from rich.table import Table
from rich.text import Text

from netpipe.escapes import printable
from netpipe.units import TIME_STEPS, UNKNOWN, bracketed_text, time_text

if TYPE_CHECKING:
    from netpipe.reading.estimate import Estimate

UNBOUND_COLUMNS = 120  # of output that goes to a file or a pipe
GAP = 2  # between columns
WIDEST = 10_000  # columns, to ask for the natural width of a table
SAYS_NOTHING = 100  # the upper limit of an interval over the lower: a factor of ten each way
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
        return Measurement(max(map(len, pieces(self.text))), len(self.text))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = [""]
        for piece in pieces(self.text):
            if lines[-1] and len(lines[-1]) + len(piece) > options.max_width:
                lines.append("")
            lines[-1] += piece
        yield line("\n".join(lines))


def pieces(name: str) -> list[str]:
    """Where it may be broken."""
    return re.findall(r"[^:,=]*[:,=]?", name)[:-1] or [""]


def line(text: str) -> Text:
    return Text(printable(text), no_wrap=True, overflow="ellipsis")


def print_paragraph(out: Console, mark: str, style: str, text: str, faint: bool = False) -> None:
    """A paragraph behind a mark, wrapped to the terminal with a hanging indent."""
    lines = fill(f"{mark} {text}", out.width, subsequent_indent="  ", break_on_hyphens=False)
    made = Text(lines, style="dim" if faint else "")
    made.stylize(style, 0, len(mark))
    out.print(made, soft_wrap=True)


class Rows:
    """A table without lines. Columns are (header, kind), by how they give way where there is no room: "right" holds
    numbers and keeps its width, "left" holds words and is cut. "name" keeps its width as long as the words can give
    way; then it continues on the next line, because its end is what tells two variants apart.

    With `apart` nothing is cut: where there is not room for all of it, each cell of the first column stands on lines of
    its own, and the others below it.
    """

    def __init__(self, *columns: tuple[str, str], apart: bool = False) -> None:
        self._apart = apart
        self._headers = [header for header, _ in columns]
        self._kinds = [kind for _, kind in columns]
        self._rows: list[tuple[tuple[str | Text, ...], str]] = []  # and the style of each
        self._least = [len(header) for header in self._headers]
        self._broken = list(self._least)  # the same with names broken
        self._whole = list(map(cell_len, self._headers))  # what the columns take if they may
        self._whole[-1:] = [max(1, width) for width in self._whole[-1:]]
        # and so are all cells: one line each
        self._simple = not any(header.endswith(" ") for header in self._headers)

    def add_row(self, *cells: str | Text, style: str = "") -> None:
        kept = tuple(printable(cell) if isinstance(cell, str) else cell for cell in cells)
        for place, (kind, cell) in enumerate(zip(self._kinds, kept, strict=True)):
            text = cell if isinstance(cell, str) else cell.plain
            width = cell_len(text)
            least = max(map(cell_len, text.split()), default=0) if kind == "left" else width
            if least > self._least[place]:
                self._least[place] = least
            broken = max(map(cell_len, pieces(text))) if kind == "name" else least
            if broken > self._broken[place]:
                self._broken[place] = broken
            if width > self._whole[place]:
                self._whole[place] = width
            if not text.isprintable() or text.endswith(" "):
                self._simple = False
            if isinstance(cell, Text) and (cell.spans or (cell.style and style)):
                self._simple = False
        self._rows.append((kept, style))

    def fits(self, width: int, broken: bool = False) -> bool:
        """Whether all of it has room, or (`broken`) no more gives way than names that continue on the next line."""
        return self._width(self._broken if broken else self._whole) <= width

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        if self._simple:
            whole = min(self._width(self._whole), options.max_width)
            return Measurement(min(self._width(self._least), whole), whole)
        return Measurement.get(console, options, self._table(options))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._simple and self._width(self._whole) <= options.max_width:
            yield from self._lines(console)
        elif self._apart and not self.fits(options.max_width):
            yield from self._lines_apart(options.max_width)
        else:
            yield self._table(options)

    def _width(self, columns: Sequence[int]) -> int:
        return sum(columns) + GAP * (len(columns) - 1)

    def _lines(self, console: Console) -> Iterable[Segment]:
        """What rich makes of the table where there is room for all of it. With thousands of rows that took seconds:
        rich measures, wraps and pads each cell.
        """
        padded, gap, end = self._padded, " " * GAP, Segment.line()
        yield Segment(gap.join(map(padded, range(len(self._headers)), self._headers)), Style(bold=True))
        yield end
        for row, style in self._rows:
            said = ""
            for place, cell in enumerate(row):
                said += gap if place else ""
                if isinstance(cell, str):
                    said += padded(place, cell)
                elif cell.style:
                    yield Segment(said)
                    yield Segment(padded(place, cell.plain), console.get_style(cell.style))
                    said = ""
                else:
                    said += padded(place, cell.plain)
            yield Segment(said, console.get_style(style) if style else None)
            yield end

    def _padded(self, place: int, text: str) -> str:
        room = " " * (self._whole[place] - cell_len(text))
        return room + text if self._kinds[place] == "right" else text + room

    def _lines_apart(self, width: int) -> Iterator[RenderableType]:
        """The cells below a name stand on one line, or each behind its header where they have no room there."""
        gap, rest = " " * GAP, range(1, len(self._headers))
        one_line = self._width([0, *self._whole[1:]]) <= width
        headers = gap.join(["", *(self._padded(place, self._headers[place]) for place in rest)])
        widest = max(cell_len(self._headers[place]) for place in rest)
        yield Text("\n".join([self._headers[0], *([headers.rstrip()] if one_line else [])]), style="bold")
        for cells, style in self._rows:
            name, *texts = (cell if isinstance(cell, str) else cell.plain for cell in cells)
            yield Styled(Name(name), style)
            if one_line:
                lines = [gap.join(["", *map(self._padded, rest, texts)])]
            else:
                heads = (f"{head:{widest}}{gap}" if head else "" for head in self._headers[1:])
                lines = [f"{gap}{head}{text}" for head, text in zip(heads, texts, strict=True)]
            yield Text("\n".join(map(str.rstrip, lines)), style=style)

    def _table(self, options: ConsoleOptions) -> Table:
        """For rich, which finds the widths where there is not room for everything."""
        made = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
        # Words give way down to their longest word before a name is broken.
        names_fit = self._width(self._least) <= options.max_width
        for header, kind in zip(self._headers, self._kinds, strict=True):
            # A column that may not wrap keeps its width; the others give way.
            made.add_column(
                Text(header, no_wrap=True),
                justify="right" if kind == "right" else "left",
                no_wrap=kind == "right" or (kind == "name" and names_fit),
            )
        for row, style in self._rows:
            made.add_row(*map(_cell, self._kinds, row), style=style or None)
        return made


def _cell(kind: str, cell: str | Text) -> RenderableType:
    if not isinstance(cell, str):
        return cell
    return Name(cell) if kind == "name" else line(cell)


def says_nothing(estimate: Estimate) -> bool:
    """Whether its interval is so wide that its limits would only widen a table."""
    return estimate.known and estimate.high >= SAYS_NOTHING * estimate.low


def interval_text(estimate: Estimate | None) -> str:
    """Nanoseconds in one unit: "24.1 [23.9 24.3] µs"; "~24.1 µs" without limits, and where they say nothing and would
    widen the table.
    """
    if estimate is None:
        return UNKNOWN
    if not estimate.known or says_nothing(estimate):
        return f"~{time_text(estimate.value)}"
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
