# SPDX-License-Identifier: Apache-2.0
"""What stands inside the axes on paper: curves with their bands, maps and distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from netpipe.render.drawing.picture import Axis
from netpipe.render.drawing.strokes import bands, marked, strokes
from netpipe.render.drawing.ticks import SCALE, ticks
from netpipe.render.palette import DASHES, LIGHT, style
from netpipe.units import digits, time_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable

    from netpipe.render.drawing.picture import Bound, Distribution, Line, Map, Picture

INK, GREY, PALE, FLAT = "#1c1c1c", "#6b6b6b", "#e3e3e3", "#f4f3ee"
FAINT = 0.9  # the width of a line that accompanies another one
MARKED_UP_TO = 40  # points: with more, those on a stroke have no marker of their own
PALE_INK = 0.4  # the opacity of a point with a wide interval, and of the strokes to it
MOST_NAMED = 10  # rows or columns of a map that have a name
MOST_WRITTEN = 8  # rows and columns of a map whose values are written into it
LEAST_REACH = 0.2  # octaves: differences smaller than this stay pale


def ink_of(line: Line) -> str:
    return GREY if line.color is None else LIGHT[style(line.color, line.dash)[0]]


def dashes_of(line: Line) -> dict[str, Any]:
    dash = (
        2 if line.faint and line.color is not None and not line.dash else style(line.color or 0, line.dash)[1]
    )
    return {"dashes": DASHES[dash]} if DASHES[dash] else {}


# ------------------------------------------------------------------------------------------ axes


def prepare(axes: Axes, axis: Axis, which: str, few: bool = False) -> None:
    """Scale, limits and ticks; `few`: on a small axis, every other tick."""
    scale = SCALE[axis.quantity]
    setter: dict[str, Any] = {
        "x": (axes.set_xscale, axes.set_xlim, axes.xaxis),
        "y": (axes.set_yscale, axes.set_ylim, axes.yaxis),
    }
    set_scale, set_limits, drawn = setter[which]
    set_scale("log" if axis.log else "linear")
    set_limits(axis.low * scale, axis.high * scale)
    marks = ticks(axis)
    marks = marks[:: 2 if few and len(marks) > 6 else 1]
    drawn.set_ticks([value * scale for value, _ in marks], labels=[text for _, text in marks])
    drawn.set_ticks([], minor=True)
    drawn.set_tick_params(length=3, width=0.7, color=GREY, labelcolor=INK, labelsize=7 if few else 8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(GREY)
    axes.grid(visible=True, color=PALE, linewidth=0.6)
    axes.set_axisbelow(True)


def scaled(values: Sequence[float], axis: Axis) -> list[float]:
    return [value * SCALE[axis.quantity] for value in values]


# ------------------------------------------------------------------------------------------ curves


def draw_picture(axes: Axes, picture: Picture, few: bool = False) -> None:
    prepare(axes, picture.x, "x", few)
    prepare(axes, picture.y, "y", few)
    for bound in picture.bounds:
        _draw_bound(axes, picture, bound)
    for line in picture.lines:
        _draw_line(axes, picture, line)


def _draw_bound(axes: Axes, picture: Picture, bound: Bound) -> None:
    x, y = scaled(bound.x, picture.x), scaled(bound.y, picture.y)
    axes.plot(x, y, color=GREY, linewidth=0.7, dashes=bound.dashes, zorder=1.5)


def _draw_line(axes: Axes, picture: Picture, line: Line) -> None:
    ink = ink_of(line)
    x, y = scaled(line.x, picture.x), scaled(line.y, picture.y)
    width = FAINT if line.faint else 1.3
    if not line.faint:
        _draw_bands(axes, picture, line)
    for places, pale in strokes(line):
        axes.plot(
            x[places.start : places.stop],
            y[places.start : places.stop],
            color=ink,
            alpha=PALE_INK if pale else 1,
            linewidth=width,
            zorder=3,
            solid_capstyle="round",
            **dashes_of(line),
        )
    if line.faint:
        return
    most = MARKED_UP_TO if line.joined else len(x)
    loose = [place for place in range(len(x)) if line.is_loose(place)]
    for some, alpha, size in ((marked(line, most), 1.0, 2.8), (loose, PALE_INK, 1.9)):
        axes.plot(
            [x[i] for i in some],
            [y[i] for i in some],
            "o",
            color=ink,
            alpha=alpha,
            markersize=size,
            markeredgewidth=0,
            zorder=4,
        )


def _draw_bands(axes: Axes, picture: Picture, line: Line) -> None:
    """One path that turns in one direction: nothing is drawn twice. An interval without neighbours is a bar."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    across = picture.x if picture.band_on_x else picture.y
    along = scaled(line.y, picture.y) if picture.band_on_x else scaled(line.x, picture.x)
    low, high = scaled(line.low, across), scaled(line.high, across)
    ink = ink_of(line)
    outlines = []
    for places in bands(line, along):
        if len(places) == 1:
            (i,) = places
            bar = axes.hlines if picture.band_on_x else axes.vlines
            bar(along[i], low[i], high[i], color=ink, linewidth=0.7, zorder=3)
            continue
        order = places if along[places[-1]] >= along[places[0]] else places[::-1]
        outline = [(along[i], low[i]) for i in order] + [(along[i], high[i]) for i in order[::-1]]
        outline.append(outline[0])
        outlines.append(Path([(b, a) for a, b in outline] if picture.band_on_x else outline, closed=True))
    if outlines:
        whole = Path.make_compound_path(*outlines)
        axes.add_patch(PathPatch(whole, facecolor=ink, alpha=0.22, linewidth=0, zorder=2))


# ------------------------------------------------------------------------------------------ maps


def reach(maps: Sequence[Map]) -> float:
    """How far the colours of several maps go, in octaves to either side of 1."""
    logs = [abs(_log(value)) for one in maps for row in one.values for value in row if value is not None]
    return max([LEAST_REACH, *logs])


def _log(factor: float) -> float:
    return math.log2(max(factor, 0.01))


def draw_map(axes: Axes, of: Map, octaves: float, few: bool = False) -> ScalarMappable:
    """As the others is pale; faster goes to blue, slower to orange."""
    import numpy as np
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    logs = [[math.nan if value is None else _log(value) for value in row] for row in of.values]
    mesh = axes.pcolormesh(
        np.ma.masked_invalid(np.array(logs)),
        cmap=LinearSegmentedColormap.from_list("apart", [LIGHT[0], FLAT, LIGHT[1]]),
        norm=Normalize(-octaves, octaves),
        edgecolors="white",
        linewidth=0.6,
    )
    name_cells(axes, of, few)
    if len(of.rows) <= MOST_WRITTEN and len(of.columns) <= MOST_WRITTEN:
        for row, values in enumerate(of.values):
            for column, value in enumerate(values):
                if value is not None:
                    strong = abs(_log(value)) > 0.6 * octaves
                    axes.text(
                        column + 0.5,
                        row + 0.5,
                        digits(value),
                        ha="center",
                        va="center",
                        fontsize=6.5 if few else 8,
                        color="white" if strong else INK,
                    )
    return mesh


def name_cells(axes: Axes, of: Map, few: bool) -> None:
    """The names of rows and columns, of many those that have room; the first row is on top."""
    axes.invert_yaxis()
    for names, drawn in ((of.columns, axes.xaxis), (of.rows, axes.yaxis)):
        every = -(-len(names) // (MOST_NAMED // 2 if few and drawn is axes.xaxis else MOST_NAMED))
        shown = range(0, len(names), every)
        drawn.set_ticks([place + 0.5 for place in shown], labels=[names[place] for place in shown])
        drawn.set_tick_params(length=0, labelcolor=INK, labelsize=7 if few else 8)
    for spine in axes.spines.values():
        spine.set_visible(False)


# ------------------------------------------------------------------------------------------ distributions


def draw_distribution(axes: Axes, of: Distribution, few: bool = False) -> None:
    """Shares on a logarithmic axis, so that the tail shows; percentiles as lines with their names."""
    total = sum(of.count)
    shares = [count / total for count in of.count]
    floor = 0.5 / total  # where a bar of one operation can stand on a logarithmic axis
    marks = of.marks[:3] if few else of.marks
    times = [of.low_ns[0], of.low_ns[-1] * of.factor, *(value for _, value in marks)]
    low, high = min(times) / of.factor, max(times) * of.factor
    top = max(shares) * (4 if few else 8)
    prepare(axes, Axis("time", "", True, low, high), "x", few)
    prepare(axes, Axis("kept", "", True, floor, top), "y", few)
    ink, scale = LIGHT[style(of.color, 0)[0]], SCALE["kept"]
    edges = [
        edge for low_ns in of.low_ns for edge in (low_ns, low_ns, low_ns * of.factor, low_ns * of.factor)
    ]
    heights = [height * scale for share in shares for height in (floor, share, share, floor)]
    axes.fill_between(edges, heights, floor * scale, color=ink, alpha=0.35, linewidth=0, zorder=2)
    axes.plot(edges, heights, color=ink, linewidth=0.6, zorder=3)
    for place, (name, value) in enumerate(marks):
        axes.axvline(value, color=GREY, linewidth=0.7, dashes=(6, 3), zorder=1.5)
        right = math.log(value / low) > 0.7 * math.log(high / low)
        axes.annotate(
            f"{name} {time_text(value)}",
            (value, 1),
            (-3 if right else 3, -3 - 9 * place),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="right" if right else "left",
            va="top",
            fontsize=6.5 if few else 7.5,
            color=GREY,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.5},
            zorder=6,
        )
