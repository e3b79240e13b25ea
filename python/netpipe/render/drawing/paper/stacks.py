# SPDX-License-Identifier: Apache-2.0
"""Bars that are made of parts, on paper: a row each with its name and its numbers, or very many side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from netpipe.render.drawing.paper.marks import GREY, INK, prepare
from netpipe.render.drawing.picture import Axis
from netpipe.render.drawing.ticks import SCALE, ticks
from netpipe.render.palette import LIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from netpipe.render.drawing.picture import Part, Stacks

ROW_IN = 0.19  # the height of a row
SHARE = 0.66  # of a row that its bar fills
LEAST = 0.004  # of the longest bar: what is there is seen
ABOVE = -0.62  # where headings stand, in rows
REST = "#cfccc3"  # of a part without a colour of its own, as on the page
MOST_MARKS = 5  # on the axis of a narrow drawing: their texts are long
LONGEST = 28  # characters of a name
GAP_IN = 0.1  # beside a column of numbers
LEFT_OF_AXES_IN = 0.6  # where names have room already
TICKS_OF_MANY = 5
TEXT: dict[str, Any] = {"fontsize": 6.5, "color": INK}


def ink_of(part: Part) -> str:
    return REST if part.color is None else LIGHT[part.color]


def height_in(of: Stacks) -> float:
    """Of rows below each other."""
    return ROW_IN * len(of.rows)


def draw_stacks(axes: Axes, of: Stacks, few: bool) -> None:
    """Names stand left of the axes as far as there is room, numbers within, right of the bars."""
    if of.upright:
        _draw_upright(axes, of, few)
        return
    names = [row.name if len(row.name) <= LONGEST else f"{row.name[: LONGEST - 1]}…" for row in of.rows]
    _make_room(axes, of, names)
    _prepare(axes, of, "x", few)
    axes.grid(visible=False, axis="y")
    axes.set_ylim(len(of.rows) - 0.5, -0.5)
    places = range(len(of.rows))
    axes.set_yticks(places, names)
    axes.tick_params(axis="y", length=0, labelsize=6.5, labelcolor=INK)
    begin = [0.0] * len(of.rows)
    least = LEAST * of.longest * SCALE[of.quantity]
    for part, values in zip(of.parts, _by_part(of), strict=True):
        seen = [max(value, least) if value > 0 else 0.0 for value in values]
        axes.barh(places, seen, SHARE, begin, color=ink_of(part), linewidth=0)
        begin = [low + value for low, value in zip(begin, values, strict=True)]


def _by_part(of: Stacks) -> list[list[float]]:
    """The values of each part, a list with all rows, in the unit of the axis."""
    scale = SCALE[of.quantity]
    return [[row.values[place] * scale for row in of.rows] for place in range(len(of.parts))]


def _prepare(axes: Axes, of: Stacks, which: str, few: bool) -> None:
    """The axis of the amounts, with whole numbers where things are counted."""
    axis = Axis(of.quantity, "", False, 0.0, of.longest or 1.0)
    marks = [value for value, _ in ticks(axis) if of.quantity != "number" or value == int(value)]
    prepare(axes, axis, which, few)
    drawn = axes.xaxis if which == "x" else axes.yaxis
    every = -(-len(marks) // MOST_MARKS) if few else 1
    scale = SCALE[of.quantity]
    texts = dict(ticks(axis))
    kept = marks[::every]
    drawn.set_ticks([value * scale for value in kept], labels=[texts[value] for value in kept])


def _make_room(axes: Axes, of: Stacks, names: Sequence[str]) -> None:
    """Moves the sides of the axes inwards, and writes the numbers."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    width_in = figure.get_size_inches()[0]

    def widest(texts: Sequence[str]) -> float:
        """In inches."""
        drawn = [figure.text(0, 0, text, **TEXT) for text in texts]
        renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
        found = max((text.get_window_extent(renderer).width for text in drawn), default=0.0) / figure.dpi
        for text in drawn:
            text.remove()
        return float(found)

    columns = [
        widest([heading, *(row.numbers[place] for row in of.rows if row.numbers)])
        for place, heading in enumerate(of.headings)
    ]
    place = axes.get_position()
    left = max(0.0, widest(names) + GAP_IN - LEFT_OF_AXES_IN) / width_in
    right_in = sum(columns) + GAP_IN * len(columns)
    axes.set_position((place.x0 + left, place.y0, place.width - left - right_in / width_in, place.height))
    inside_in = (place.width - left) * width_in - right_in
    at = axes.get_yaxis_transform()
    heading_look: dict[str, Any] = {
        "transform": at,
        "ha": "right",
        "va": "bottom",
        "fontsize": 6.5,
        "color": GREY,
    }
    if not of.label:  # else a name stands there
        axes.text(-0.6 * GAP_IN / inside_in, ABOVE, of.row_label, **heading_look)
    end_in = 0.0
    for column, heading in enumerate(of.headings):
        end_in += GAP_IN + columns[column]
        x = 1 + end_in / inside_in  # the right end of this column, as a share of the axes
        axes.text(x, ABOVE, heading, **heading_look)
        for row, one in enumerate(of.rows):
            if one.numbers:
                axes.text(x, row, one.numbers[column], transform=at, ha="right", va="center", **TEXT)


def _draw_upright(axes: Axes, of: Stacks, few: bool) -> None:
    """One outline for each part: so many bars would be as many rectangles in the file."""
    _prepare(axes, of, "y", few)
    axes.grid(visible=False, axis="x")
    many = len(of.rows)
    axes.set_xlim(0, many)
    edges = [float(place) for place in range(many + 1)]
    low = [0.0] * many
    for part, values in zip(of.parts, _by_part(of), strict=True):
        high = [base + value for base, value in zip(low, values, strict=True)]
        axes.stairs(high, edges, baseline=low, fill=True, color=ink_of(part), linewidth=0)
        low = high
    at = sorted({round((many - 1) * part / (TICKS_OF_MANY - 1)) for part in range(TICKS_OF_MANY)})
    axes.set_xticks([place + 0.5 for place in at], [of.rows[place].name for place in at])
    axes.tick_params(axis="x", length=3, width=0.7, color=GREY, labelcolor=INK, labelsize=7 if few else 8)
    axes.yaxis.set_label_text(of.x_label, fontsize=7.5, color=INK)
