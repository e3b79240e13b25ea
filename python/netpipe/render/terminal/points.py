# SPDX-License-Identifier: Apache-2.0
"""Every point of a curve on a terminal.

A run may have hundreds of thousands of points, and a table of rich takes half a millisecond for each row. So these rows
are written here: the widths of the columns are computed once for a curve, and a row is one text. It looks as `Rows` do
that have room. Where there is none the mean and the maximum are left out, the words behind the numbers continue on the
next line, and a name of a curve that is too long for the first column stands in the line above alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import product
from operator import itemgetter
from textwrap import wrap
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import COLOR_SYSTEMS, Console
from rich.style import Style

from netpipe.escapes import printable
from netpipe.render.export.whole import rows as rows_of
from netpipe.render.terminal.rows import GAP
from netpipe.units import UNKNOWN, capped_percent_text, counted, rate_text, size_text, time_text

if TYPE_CHECKING:
    from netpipe.reading.curves import Curve
    from netpipe.records import Point

HEADERS = (
    "median",
    "±",
    "rate",
    "mean",
    "min",
    "p99",
    "max",
    "n",
)
ROOM = ("mean", "max")  # columns that take room which a narrow terminal lacks
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
        rows = list(_rows(curve))
        name = curve.variant.partition(" while ")[0]  # of the other state of a curve
        out.file.write(_table(printable(name), rows, out.width, paint))
    out.file.flush()


def _rows(curve: Curve) -> Iterator[Row]:
    """One row a size with the interval of the whole run; for older runs one for each launch."""
    most = max(map(len, curve.points.by_launch), default=0)
    for at, point, of_run in rows_of(curve):
        launches = len(at.by_launch)
        numbers = (
            _size(point.size_bytes),
            time_text(point.median_ns),
            capped_percent_text(point.half_width),
            rate_text(point.bytes_per_s),
            time_text(point.mean_ns),
            time_text(point.min_ns),
            time_text(point.p99_ns),
            time_text(point.max_ns),
            UNKNOWN if point.samples is None else str(point.samples),
        )
        if curve.one_state:  # what the worker recorded besides the visits is of all states
            yield numbers, "not in this state" if at.apart else "", None
        elif of_run:
            words = [counted(launches, "launch", "launches")] if most > 1 else []
            yield numbers, ", ".join([*words, *(["verified"] if point.verified_bytes else [])]), None
        else:
            yield numbers, _words(point, launches > 1), point.converged


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
    natural = [max(map(len, column)) for column in zip(headers, *(row[0] for row in rows), strict=True)]
    longest = max((cell_len(words) for words in {row[1] for row in rows}), default=0) or 1
    for without, heading in product(((), ROOM), (name, SIZE)):
        kept = [place for place, header in enumerate(headers) if header not in without]
        widths = [natural[place] for place in kept]
        widths[0] = max(widths[0], cell_len(heading))
        numbers_width = sum(widths) + GAP * len(widths)
        least = min(longest, LEAST_WORDS) if without else longest
        words_width = max(least, min(longest, columns - numbers_width))
        if numbers_width + words_width <= columns:
            break
    chosen = itemgetter(*kept)
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
            between.join([heading, *map(str.rjust, chosen(headers)[1:], widths[1:])])
            + between
            + " " * words_width,
            "bold",
        )
    ]
    for numbers, words, settled in rows:
        end, *more = behind(words, settled)
        lines.append(form % chosen(numbers) + end)
        lines += [" " * numbers_width + line for line in more]
    lines.append("")
    return "\n".join(lines)
