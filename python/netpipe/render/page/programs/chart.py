# SPDX-License-Identifier: Apache-2.0
"""A figure of lines as SVG in the colours of the page: sharp, readable in the dark and on paper, without scripts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from netpipe.escapes import printable
from netpipe.render.drawing.picture import Axis, Bound, Line, Panel, Picture
from netpipe.render.drawing.strokes import bands, strokes
from netpipe.render.drawing.ticks import ticks
from netpipe.render.palette import DASHES, HUES, style

# of the drawing, whose text is as large as that of the page when it is 460 pixels wide
WIDE, HIGH = (460.0, 270.0)
LEFT, RIGHT, TOP, BELOW = 54.0, 12.0, 30.0, 40.0
CHARACTER = 6.4  # the width of one in a tick, at most
LINE_WIDTH = 1.8


@dataclass(frozen=True, slots=True)
class Chart:
    title: str
    drawing: Markup
    legend: tuple[tuple[Markup, str], ...]  # a piece of the line, and what it is
    note: str


def charts(panels: Sequence[Panel]) -> list[Chart]:
    """One for each view that is made of lines."""
    return [
        chart(view, f"{panel.title}, {view.label}" if len(panels) > 1 else view.label or panel.title)
        for panel in panels
        for view in panel.views
        if isinstance(view, Picture)
    ]


def chart(picture: Picture, title: str) -> Chart:
    across = _scale(picture.x, LEFT, WIDE - RIGHT)
    up = _scale(picture.y, HIGH - BELOW, TOP)
    parts = [_grid(picture, across, up)]
    parts += [_bound(bound, picture, across, up) for bound in picture.bounds]
    parts += [_band(line, across, up) for line in picture.lines]
    parts += [_line(line, across, up) for line in picture.lines]
    named = escape(printable(title))
    drawing = Markup(  # noqa: S704  (numbers, and what is escaped)
        f'<svg class="chart" viewBox="0 0 {WIDE:g} {HIGH:g}" role="img" aria-label="{named}">{"".join(parts)}</svg>'
    )
    legend = [(_sample(line), line.label) for line in picture.lines]
    legend += [(_sample(None), bound.label) for bound in picture.bounds]
    # A band that is nowhere wider than its line is none.
    banded = picture.band and any(one.low != one.high for one in picture.lines)
    return Chart(title, drawing, tuple(legend), f"Band: {picture.band}." if banded else "")


def _scale(axis: Axis, first: float, last: float) -> Callable[[float], float]:
    low, high = (math.log(axis.low), math.log(axis.high)) if axis.log else (axis.low, axis.high)

    def at(value: float) -> float:
        place = math.log(max(value, axis.low)) if axis.log else value
        return first + (last - first) * (place - low) / ((high - low) or 1.0)

    return at


def _grid(picture: Picture, across: Callable[[float], float], up: Callable[[float], float]) -> str:
    made = []
    for value, text in ticks(picture.y):
        y = up(value)
        made.append(f'<path class="grid" d="M{LEFT:g} {y:.1f}H{WIDE - RIGHT:g}"/>')
        made.append(f'<text class="end" x="{LEFT - 6:g}" y="{y + 4:.1f}">{escape(text)}</text>')
    last = -math.inf
    for value, text in ticks(picture.x):
        x, half = across(value), CHARACTER * len(text) / 2
        made.append(f'<path class="grid" d="M{x:.1f} {TOP:g}V{HIGH - BELOW:g}"/>')
        if x - half > last:  # else the two would stand upon each other
            made.append(f'<text x="{x:.1f}" y="{HIGH - BELOW + 16:g}">{escape(text)}</text>')
            last = x + half + CHARACTER
    made.append(f'<text class="axis begin" x="0" y="12">{escape(printable(picture.y.label))}</text>')
    middle = (LEFT + WIDE - RIGHT) / 2
    made.append(
        f'<text class="axis" x="{middle:g}" y="{HIGH - 6:g}">{escape(printable(picture.x.label))}</text>'
    )
    return "".join(made)


def _bound(
    bound: Bound, picture: Picture, across: Callable[[float], float], up: Callable[[float], float]
) -> str:
    points = [
        f"{across(x):.1f} {up(y):.1f}"
        for x, y in zip(bound.x, bound.y, strict=True)
        if picture.x.holds(x) and picture.y.holds(y)
    ]
    return f'<path class="bound" d="M{"L".join(points)}"/>' if len(points) > 1 else ""


def _band(line: Line, across: Callable[[float], float], up: Callable[[float], float]) -> str:
    if line.low == line.high:
        return ""
    outlines = []
    for places in bands(line, line.x):
        there = [f"{across(line.x[i]):.1f} {up(line.low[i]):.1f}" for i in places]
        back = [f"{across(line.x[i]):.1f} {up(line.high[i]):.1f}" for i in reversed(places)]
        outlines.append(f"M{'L'.join([*there, *back])}z")
    return f'<path class="band {_color(line)}" d="{"".join(outlines)}"/>' if outlines else ""


def _line(line: Line, across: Callable[[float], float], up: Callable[[float], float]) -> str:
    at = [(across(x), up(y)) for x, y in zip(line.x, line.y, strict=True)]
    made = []
    for places, pale in strokes(line):
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in at[places.start : places.stop])
        how = " pale" if pale else ""
        made.append(f'<path class="line {_color(line)}{how}"{_dashes(line)} d="M{path}"/>')
    for place, (x, y) in enumerate(at):
        told = f"{line.label}: {line.texts[place]}" if line.texts else line.label
        how, radius = (" pale", 2) if line.is_loose(place) else ("", 3)
        made.append(
            f'<circle class="{_color(line)}{how}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}">'
            f"<title>{escape(printable(told))}</title></circle>"
        )
    return "".join(made)


def _color(line: Line) -> str:
    return "c6" if line.color is None else f"c{line.color % HUES}"


def _dashes(line: Line) -> str:
    dashes = DASHES[style(line.color or 0, line.dash)[1]]
    lengths = " ".join(f"{LINE_WIDTH * length:.1f}" for length in dashes)
    return f' stroke-dasharray="{lengths}"' if dashes else ""


def _sample(line: Line | None) -> Markup:
    """A piece of the line, for the legend; None: of a bound."""
    if line is None:
        inside = '<path class="bound" d="M0 5H24"/>'
    else:
        inside = f'<path class="line {_color(line)}"{_dashes(line)} d="M0 5H24"/>'
    return Markup(f'<svg class="sample" viewBox="0 0 24 10" aria-hidden="true">{inside}</svg>')  # noqa: S704
