# SPDX-License-Identifier: Apache-2.0
"""Every point of a curve on a terminal.

A run may have hundreds of thousands of points, and a table of rich takes half a millisecond for each row. So these rows
are written here: the widths of the columns are computed once for a curve, and a row is one text. It looks as `Rows` do
that have room. Where there is none the words behind the numbers continue on the next line, and a name of a curve that
is too long for the first column stands in the line above alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from textwrap import wrap
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import COLOR_SYSTEMS, Console
from rich.style import Style

from netpipe.escapes import printable
from netpipe.render.terminal.rows import GAP
from netpipe.units import UNKNOWN, percent_text, rate_text, size_text, time_text

if TYPE_CHECKING:
    from netpipe.reading.curves import Curve, CurvePoint
    from netpipe.records import Point

HEADERS = (
    "median",
    "±",
    "rate",
    "min",
    "p99",
    "n",
)
SIZE = "size"  # the header before them, where the name of the variant has no room there
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
        rows = [row for at in curve.points for row in ((_state_row(at),) if curve.one_state else _rows(at))]
        name = curve.variant.partition(" while ")[0]  # of the other state of a curve
        out.file.write(_table(printable(name), rows, out.width, paint))
    out.file.flush()


def _rows(at: CurvePoint) -> Iterator[Row]:
    """One row with the interval of the whole run; for older runs one for each launch."""
    several = len(at.by_launch) > 1
    if not several or any(point.visits is None for point in at.by_launch):
        yield from (_row(point, several) for point in at.by_launch)
        return
    fastest = [point.min_ns for point in at.by_launch if point.min_ns is not None]
    samples = [point.samples for point in at.by_launch if point.samples is not None]
    numbers = (
        _size(at.size_bytes),
        time_text(at.time_ns.value),
        _width(at.time_ns.half_width),
        rate_text(at.rate_bytes_per_s.value if at.rate_bytes_per_s else None),
        time_text(min(fastest, default=None)),
        time_text(at.shown.p99_ns),
        str(sum(samples)) if samples else UNKNOWN,
    )
    words = [f"{len(at.by_launch)} launches"]
    if all(point.verified_bytes for point in at.by_launch):
        words.append("verified")
    yield numbers, ", ".join(words), None


def _state_row(at: CurvePoint) -> Row:
    """Of a curve in one state of the machine. What the worker recorded besides the visits is of all states."""
    numbers = (
        _size(at.size_bytes),
        time_text(at.time_ns.value),
        _width(at.time_ns.half_width),
        rate_text(at.rate_bytes_per_s.value if at.rate_bytes_per_s else None),
        *[UNKNOWN] * 3,
    )
    return numbers, "not in this state" if at.apart else "", None


def _row(point: Point, several: bool) -> Row:
    numbers = (
        _size(point.size_bytes),
        time_text(point.median_ns),
        _width(point.half_width),
        rate_text(point.bytes_per_s),
        time_text(point.min_ns),
        time_text(point.p99_ns),
        UNKNOWN if point.samples is None else str(point.samples),
    )
    return numbers, _words(point, several), point.converged


def _width(half_width: float | None) -> str:
    """A wide one as in the summary: its exact number says nothing, and would widen the table."""
    return "> 100 %" if half_width is not None and 1 < half_width < math.inf else percent_text(half_width)


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
    first = widths[0]
    longest = max((cell_len(words) for words in {row[1] for row in rows}), default=0) or 1
    for heading in (name, SIZE):
        widths[0] = max(first, cell_len(heading))
        numbers_width = sum(widths) + GAP * len(widths)
        words_width = max(min(longest, LEAST_WORDS), min(longest, columns - numbers_width))
        if numbers_width + words_width <= columns:
            break
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

    heading = " " * (widths[0] - cell_len(heading)) + heading
    lines = [
        paint(
            between.join([heading, *map(str.rjust, HEADERS, widths[1:])]) + between + " " * words_width,
            "bold",
        )
    ]
    for numbers, words, settled in rows:
        end, *more = behind(words, settled)
        lines.append(form % numbers + end)
        lines += [" " * numbers_width + line for line in more]
    lines.append("")
    return "\n".join(lines)
