# SPDX-License-Identifier: Apache-2.0
"""A figure in characters, for a terminal of any width and without colours: a letter for each curve."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from itertools import pairwise
from string import ascii_letters

from netpipe.escapes import printable
from netpipe.reading.blocks import chains
from netpipe.render.drawing.paper.names import by_end
from netpipe.render.drawing.picture import (
    Axis,
    Bar,
    Bars,
    Bound,
    NothingToDraw,
    Panel,
    Picture,
    Stacks,
)
from netpipe.render.drawing.strokes import strokes
from netpipe.render.drawing.ticks import ticks
from netpipe.render.terminal.stack import waterfall

ROWS = 20  # of the axes
LEAST_COLUMNS = 20  # of the axes, on however narrow a terminal
ALONE = "·"  # a point that no line goes through


def lines_of(panels: Sequence[Panel], columns: int) -> list[str]:
    """The panels below each other, in so many columns. Raises NothingToDraw for maps, distributions and bars side by
    side.
    """
    made: list[str] = []
    for panel in panels:
        for view in panel.views:
            made += ["", ", ".join(filter(None, (panel.title, panel.pattern, printable(view.label))))]
            if isinstance(view, Picture):
                made += _picture(view, columns)
            elif isinstance(view, Bars):
                made += _bars(view, columns)
            elif isinstance(view, Stacks) and not view.upright:
                made += _stacks(view, columns)
            else:
                raise NothingToDraw("it has no form for a terminal; name a file with -o")
        if panel.note:
            made += textwrap.wrap(panel.note, columns)
    return made[1:]


def _picture(of: Picture, columns: int) -> list[str]:
    """Axes, then the names in the order of the right ends of the curves."""
    marks = ticks(of.y)
    margin = max((len(text) for _, text in marks), default=0) + 1
    width = max(LEAST_COLUMNS, columns - margin - 2)
    across, up = _scale(of.x, width), _scale(of.y, ROWS)
    cells = [[" "] * width for _ in range(ROWS)]

    def put(column: float, row: float, character: str) -> None:
        if 0 <= round(column) < width and 0 <= round(row) < ROWS:
            cells[ROWS - 1 - round(row)][round(column)] = character

    named = [line for line in by_end(of) if not line.faint]
    letters = {id(line): ascii_letters[place % len(ascii_letters)] for place, line in enumerate(named)}
    others = [line for line in of.lines if id(line) not in letters and not line.faint]
    for bound in of.bounds:
        for x, y in zip(bound.x, bound.y, strict=True):
            put(across(x), up(y), _character(bound))
    for line in [*others, *reversed(named)]:
        at = [(across(x), up(y)) for x, y in zip(line.x, line.y, strict=True)]
        letter = letters.get(id(line), ALONE)
        reached: set[int] = set()
        for places, _ in strokes(line):
            reached.update(places)
            for (x0, y0), (x1, y1) in pairwise(at[places.start : places.stop]):
                steps = max(1, math.ceil(max(abs(x1 - x0), abs(y1 - y0))))
                for step in range(steps + 1):
                    put(x0 + (x1 - x0) * step / steps, y0 + (y1 - y0) * step / steps, letter)
        for place, (x, y) in enumerate(at):
            if place not in reached:
                put(x, y, ALONE if line.is_mute(place) else letter)
    beside = {ROWS - 1 - round(up(value)): text for value, text in marks}
    made = [f"{beside.get(row, ''):>{margin}}│{''.join(cells[row]).rstrip()}" for row in range(ROWS)]
    made += [f"{'':>{margin}}└{'─' * width}", f"{'':>{margin}} {_below(of.x, across, width)}"]
    made += [f"{letters[id(line)]} {printable(line.label)}" for line in named]
    return made + [f"{_character(bound)} {printable(bound.label)}" for bound in of.bounds]


def _character(bound: Bound) -> str:
    return ":" if bound.quantity == "time" else "-"


def _scale(axis: Axis, cells: int) -> Callable[[float], float]:
    """From a value to a place from 0 to cells - 1."""
    low, high = (math.log(axis.low), math.log(axis.high)) if axis.log else (axis.low, axis.high)

    def at(value: float) -> float:
        place = math.log(max(value, axis.low)) if axis.log else value
        return (cells - 1) * (place - low) / ((high - low) or 1.0)

    return at


def _below(axis: Axis, across: Callable[[float], float], width: int) -> str:
    """As many ticks as have room."""
    text = ""
    for value, name in ticks(axis):
        begin = max(0, round(across(value)) - len(name) // 2)
        if (not text or begin > len(text)) and begin + len(name) <= width:
            text = f"{text:<{begin}}{name}"
    return text


def _bars(of: Bars, columns: int) -> list[str]:
    """A row for each bar: name, number, and the bar as far as there is room."""
    names = ["  " * bar.depth + printable(bar.name) for bar in of.rows]
    wide, number = max(map(len, names)), max(len(bar.text) for bar in of.rows)
    longest = max(max(bar.begin, bar.end) for bar in of.rows)
    room = max(0, columns - wide - number - 4)
    return [
        f"{name:<{wide}}  {bar.text:>{number}}  {waterfall(_part(bar), longest, room)}".rstrip()
        for name, bar in zip(names, of.rows, strict=True)
    ]


def _stacks(of: Stacks, columns: int) -> list[str]:
    """A row for each bar: name, numbers, and the bar, in which each part has a letter of its own."""
    names = [printable(row.name) for row in of.rows]
    headings = list(of.headings)
    wide = max(map(len, [of.row_label, *names]))
    widths = [
        max(map(len, [heading, *(row.numbers[place] for row in of.rows if row.numbers)]))
        for place, heading in enumerate(headings)
    ]
    room = max(0, columns - wide - sum(2 + width for width in widths) - 2)

    def row(name: str, numbers: Sequence[str], bar: str) -> str:
        cells = [f"  {text:>{width}}" for text, width in zip(numbers, widths, strict=True)]
        return f"{name:>{wide}}{''.join(cells)}  {bar}".rstrip()

    letters = [
        ascii_letters[place % len(ascii_letters)] if part.name else ALONE
        for place, part in enumerate(of.parts)
    ]
    made = [row(of.row_label, headings, "")]
    for name, one in zip(names, of.rows, strict=True):
        ends = [
            round(room * sum(one.values[: place + 1]) / (of.longest or 1.0)) for place in range(len(letters))
        ]
        bar = "".join(
            letter * (end - begin) for letter, begin, end in zip(letters, [0, *ends], ends, strict=False)
        )
        made.append(row(name, one.numbers or [""] * len(headings), bar))
    return made + [
        f"{letter} {part.name}" for letter, part in zip(letters, of.parts, strict=True) if part.name
    ]


def _part(bar: Bar) -> chains.Bar:
    return chains.Bar(bar.begin, bar.end, *(bar.reach or (bar.end, bar.end)))
