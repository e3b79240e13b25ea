# SPDX-License-Identifier: Apache-2.0
"""Every point of a curve on a terminal, launch by launch.

A run may have hundreds of thousands of points, and a table of rich takes half a millisecond for each row. So these rows
are written here: the widths of the columns are computed once for a curve, and a row is one text. It looks as `Rows` do
that have room. Where there is none the words behind the numbers continue on the next line, and then the name of the
curve is cut. Numbers are never.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from textwrap import wrap
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.console import COLOR_SYSTEMS, Console
from rich.style import Style

from netpipe.escapes import printable
from netpipe.render.terminal.rows import GAP
from netpipe.units import UNKNOWN, percent_text, rate_text, size_text, time_text

if TYPE_CHECKING:
    from netpipe.reading.curves import Curve
    from netpipe.records import Point

HEADERS = (
    "median",
    "±",
    "rate",
    "min",
    "p99",
    "n",
)  # after the size, whose header is the name of the variant
LEAST_WORDS = 12  # columns for the words behind the numbers

Row = tuple[tuple[str, ...], str, bool | None]  # numbers, the words behind them, whether the point settled

_size = lru_cache(1 << 16)(size_text)


def print_points(out: Console, curves: Iterable[Curve]) -> None:
    """A table for each curve, below its name."""
    paint = _painter(out)
    for place, curve in enumerate(curves):
        if place:
            out.file.write("\n")
        heading = printable(f"{curve.variant}, {curve.pattern}")
        if cell_len(heading) < out.width:
            out.file.write(f"{paint(heading, 'bold')}\n")
        else:
            out.print(heading, style="bold", markup=False)
        rows = [_row(point, len(at.by_launch) > 1) for at in curve.points for point in at.by_launch]
        out.file.write(_table(printable(curve.variant), rows, out.width, paint))
    out.file.flush()


def _row(point: Point, several: bool) -> Row:
    numbers = (
        _size(point.size_bytes),
        time_text(point.median_ns),
        percent_text(point.half_width),
        rate_text(point.bytes_per_s),
        time_text(point.min_ns),
        time_text(point.p99_ns),
        UNKNOWN if point.samples is None else str(point.samples),
    )
    return numbers, _words(point, several), point.converged


def _words(point: Point, several: bool) -> str:
    words = [f"launch {point.launch}"] if several else []
    if point.converged is False:
        words.append(f"not settled ({point.stop})" if point.stop else "not settled")
    if point.state:
        words.append(f"state {point.state}")
    if point.verified_bytes:
        words.append("verified")
    return printable(", ".join(words)) if words else ""


Paint = Callable[[str, str], str]  # a text and a style


def _painter(out: Console) -> Paint:
    """Writes a text in a style, as far as the console has styles."""
    system = COLOR_SYSTEMS[out.color_system] if out.color_system else None

    def paint(text: str, style: str) -> str:
        parsed = Style.parse(style)
        return (parsed.without_color if out.no_color else parsed).render(text, color_system=system)

    return paint


def _table(name: str, rows: Sequence[Row], columns: int, paint: Paint) -> str:
    """The header and the rows, in at most so many columns as long as the numbers fit."""
    headers = ("", *HEADERS)
    widths = [max(map(len, column)) for column in zip(headers, *(row[0] for row in rows), strict=True)]
    first, name_width = widths[0], cell_len(name)
    widths[0] = max(first, name_width)
    words_width = max((cell_len(words) for words in {row[1] for row in rows}), default=0) or 1
    numbers_width = sum(widths) + GAP * len(widths)
    if numbers_width + words_width > columns:
        words_width = max(min(words_width, LEAST_WORDS), columns - numbers_width)
        widths[0] = max(first, columns - (numbers_width - widths[0]) - words_width)
        widths[0] = min(widths[0], max(first, name_width))
        numbers_width = sum(widths) + GAP * len(widths)
    if name_width > widths[0]:
        name = set_cell_size(name, widths[0] - 1) + "…"
    between = " " * GAP
    form = "".join(f"%{width}s{between}" for width in widths)

    @cache
    def behind(words: str, settled: bool | None) -> tuple[str, ...]:
        """The end of the line of a row, and more lines if it takes them."""
        style = "yellow" if settled is False else "dim"
        some = [
            paint(line, style) + " " * (words_width - cell_len(line)) for line in wrap(words, words_width)
        ]
        return tuple(some) or (" " * words_width,)

    name = " " * (widths[0] - cell_len(name)) + name
    lines = [
        paint(
            between.join([name, *map(str.rjust, HEADERS, widths[1:])]) + between + " " * words_width, "bold"
        )
    ]
    for numbers, words, settled in rows:
        end, *more = behind(words, settled)
        lines.append(form % numbers + end)
        lines += [" " * numbers_width + line for line in more]
    lines.append("")
    return "\n".join(lines)
