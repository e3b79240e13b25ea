# SPDX-License-Identifier: Apache-2.0
"""Figures for print: a Picture as SVG, PNG or PDF.

The same run gives the same bytes: no date, no random identifiers. Text is drawn as outlines in SVG and
embedded in PDF, so that a figure looks the same where its font is missing. Curves are named at their ends,
where there is room; else in a legend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netpipe.render.figures.ticks import SCALE, ticks
from netpipe.render.palette import DASHES, LIGHT, LIGHT_TEXT, style

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from netpipe.render.figures.pictures import Axis, Bound, Line, Picture

FORMATS = ("svg", "png", "pdf")
WIDTH_IN, HEIGHT_IN = 7.4, 4.6  # a page's text width
PNG_DPI = 200
INK, GREY, PALE = "#1c1c1c", "#6b6b6b", "#e3e3e3"
MOST_END_LABELS = 14  # more do not fit beside each other
WIDEST_LABEL = 0.30  # of the figure
MARKED_UP_TO = 40  # points: with more, only those that did not converge have a marker of their own

_SETTINGS: Any = {
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 8.5,
    "text.parse_math": False,  # a name may hold a dollar sign
    "svg.fonttype": "path",
    "svg.hashsalt": "netpipe",
    "pdf.fonttype": 42,
    "axes.linewidth": 0.7,
    "path.simplify": False,
}
# Dates and versions would make every file differ from the last.
_METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": "netpipe"},
    "pdf": {"CreationDate": None, "Creator": "netpipe", "Producer": None},
    "png": {"Software": None},
}


def draw(picture: Picture, path: Path, file_format: str) -> None:
    """Writes the figure. Raises OSError from the file system."""
    import matplotlib

    with matplotlib.rc_context(_SETTINGS):
        figure = _figure(picture)
        title = {"Title": picture.title} if file_format != "png" else {}
        figure.savefig(path, format=file_format, dpi=PNG_DPI, metadata=_METADATA[file_format] | title)


def _figure(picture: Picture) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH_IN, HEIGHT_IN), facecolor="white")
    FigureCanvasAgg(figure)  # to measure text with
    axes = figure.add_axes((0.105, 0.15, 0.87, 0.66))
    for axis, which in ((picture.x, "x"), (picture.y, "y")):
        _prepare(axes, axis, which)
    for bound in picture.bounds:
        _draw_bound(axes, picture, bound)
    for line in picture.lines:
        _draw_line(axes, picture, line)
    _name(figure, axes, picture)
    left = axes.get_position().x0
    figure.text(left, 0.955, picture.title, fontsize=11, fontweight="bold", color=INK, va="center")
    figure.text(left, 0.905, picture.subtitle, fontsize=7.5, color=GREY, va="center")
    figure.text(left, 0.022, _note(picture), fontsize=6.5, color=GREY, va="center")
    return figure


def _note(picture: Picture) -> str:
    parts = [f"band: {picture.band}"]
    if any(any(line.hollow) for line in picture.lines):
        parts.append("ring: not converged")
    parts += [f"{bound}: outside of the axes" for bound in picture.beyond]
    return "   ".join(parts)


# --------------------------------------------------------------------------------------------- axes and
# curves


def _prepare(axes: Axes, axis: Axis, which: str) -> None:
    scale = SCALE[axis.quantity]
    setter: dict[str, Any] = {
        "x": (axes.set_xscale, axes.set_xlim, axes.xaxis),
        "y": (axes.set_yscale, axes.set_ylim, axes.yaxis),
    }
    set_scale, set_limits, drawn = setter[which]
    set_scale("log" if axis.log else "linear")
    set_limits(axis.low * scale, axis.high * scale)
    marks = ticks(axis)
    drawn.set_ticks([value * scale for value, _ in marks], labels=[text for _, text in marks])
    drawn.set_ticks([], minor=True)
    drawn.set_tick_params(length=3, width=0.7, color=GREY, labelcolor=INK, labelsize=8)
    if which == "x":
        drawn.set_label_text(axis.label, fontsize=8.5, color=INK)
    else:  # upright above its axis: nobody reads with the head on the side
        axes.text(0, 1.06, axis.label, transform=axes.transAxes, fontsize=8.5, color=INK, ha="left")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(GREY)
    axes.grid(visible=True, color=PALE, linewidth=0.6)
    axes.set_axisbelow(True)


def _scaled(values: Sequence[float], axis: Axis) -> list[float]:
    return [value * SCALE[axis.quantity] for value in values]


def _draw_bound(axes: Axes, picture: Picture, bound: Bound) -> None:
    axes.plot(
        _scaled(bound.x, picture.x),
        _scaled(bound.y, picture.y),
        color=GREY,
        linewidth=0.7,
        dashes=(6, 3),
        zorder=1.5,
    )


def _draw_line(axes: Axes, picture: Picture, line: Line) -> None:
    color, dash = style(line.color, line.dash)
    ink = LIGHT[color]
    x, y = _scaled(line.x, picture.x), _scaled(line.y, picture.y)
    band = picture.x if picture.band_on_x else picture.y
    low, high = _scaled(line.low, band), _scaled(line.high, band)
    fill = axes.fill_betweenx if picture.band_on_x else axes.fill_between
    fill(y if picture.band_on_x else x, low, high, color=ink, alpha=0.22, linewidth=0, zorder=2)
    dashes: dict[str, Any] = {"dashes": DASHES[dash]} if DASHES[dash] else {}
    axes.plot(x, y, color=ink, linewidth=1.3, zorder=3, solid_capstyle="round", **dashes)
    if len(x) <= MARKED_UP_TO:
        full = [place for place, hollow in enumerate(line.hollow) if not hollow]
        axes.plot([x[i] for i in full], [y[i] for i in full], "o", color=ink, markersize=2.8, zorder=4)
    hollow = [place for place, ring in enumerate(line.hollow) if ring]
    axes.plot(
        [x[i] for i in hollow],
        [y[i] for i in hollow],
        "o",
        markersize=3.4 if len(hollow) <= MARKED_UP_TO else 2.2,
        markerfacecolor="white",
        markeredgecolor=ink,
        markeredgewidth=0.8,
        zorder=5,
    )


# --------------------------------------------------------------------------------------------------------
# names


@dataclass(frozen=True, slots=True)
class _End:
    """A name and where its curve ends, in pixels."""

    text: str
    ink: str
    x: float
    y: float


def _name(figure: Figure, axes: Axes, picture: Picture) -> None:
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    probe = [figure.text(0, 0, name, fontsize=8) for name in _names(picture)]
    boxes = [text.get_window_extent(renderer) for text in probe]
    for text in probe:
        text.remove()
    widest = max(box.width for box in boxes) / figure.bbox.width
    # In the saturation figure all curves end at the same height, and none of them runs through the lower
    # right.
    if picture.figure == "saturation" or widest > WIDEST_LABEL or len(probe) > MOST_END_LABELS:
        _legend(figure, axes, picture, inside=picture.figure == "saturation" and widest < WIDEST_LABEL)
        return
    place = axes.get_position()
    axes.set_position((place.x0, place.y0, 0.965 - widest - place.x0, place.height))
    _end_labels(axes, picture, max(box.height for box in boxes) * 1.18)


def _names(picture: Picture) -> list[str]:
    return [line.label for line in picture.lines] + [bound.label for bound in picture.bounds]


def _end_labels(axes: Axes, picture: Picture, gap: float) -> None:
    """Names to the right of the axes, each at the height where its curve ends, moved apart where they would
    overlap.
    """
    from matplotlib.lines import Line2D

    ends = []
    for line in picture.lines:
        last = max(range(len(line.x)), key=lambda place: line.x[place])
        ends.append(
            _end(axes, picture, line.label, LIGHT_TEXT[style(line.color, 0)[0]], line.x[last], line.y[last])
        )
    box = axes.bbox
    for bound in picture.bounds:
        end = _end(axes, picture, bound.label, GREY, bound.x[-1], bound.y[-1])
        if end.x > box.x0 + 0.9 * box.width:
            ends.append(end)
        else:  # it leaves through the top: its name stands there
            at = axes.transAxes.inverted().transform((end.x, box.y1))
            axes.text(at[0], 1.015, end.text, transform=axes.transAxes, fontsize=8, color=GREY)
    heights = spread([end.y for end in ends], gap, box.y0, box.y1)
    to_axes = axes.transAxes.inverted()
    for end, height in zip(ends, heights, strict=True):
        (x0, y0), (_, y1) = to_axes.transform((end.x, end.y)), to_axes.transform((0, height))
        # The leader starts at the curve's end and turns to the height of the name in the margin.
        axes.add_artist(
            Line2D(
                [max(x0, 1.0) if x0 > 0.97 else x0, 1.0, 1.012, 1.02],
                [y0, y0, y1, y1],
                transform=axes.transAxes,
                color=end.ink,
                linewidth=0.5,
                alpha=0.6,
                clip_on=False,
            )
        )
        axes.text(
            1.026, y1, end.text, transform=axes.transAxes, fontsize=8, color=end.ink, va="center_baseline"
        )


def _end(axes: Axes, picture: Picture, text: str, ink: str, x: float, y: float) -> _End:
    place = axes.transData.transform((x * SCALE[picture.x.quantity], y * SCALE[picture.y.quantity]))
    return _End(text, ink, float(place[0]), float(place[1]))


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places near the wanted ones, at least `gap` apart and between low and high where they all fit.

    Neighbours that are too near become a block around their common centre, and blocks that meet become one:
    the places that minimise the squared distances (pool adjacent violators, as in isotonic regression).
    """
    order = sorted(range(len(wanted)), key=lambda place: wanted[place])
    blocks: list[list[float]] = []  # of offsets: the wanted place minus its rank within the block
    starts: list[int] = []
    for rank, place in enumerate(order):
        blocks.append([wanted[place] - rank * gap])
        starts.append(rank)
        while len(blocks) > 1 and _mean(blocks[-2]) > _mean(blocks[-1]):
            last = blocks.pop()
            blocks[-1] += last
            starts.pop()
    ranked = [_mean(block) for block in blocks for _ in block]
    # Clamped in the same coordinates, where all ranks share one lower and one upper end, the distances stay.
    top = max(low, high - (len(wanted) - 1) * gap)
    places = [0.0] * len(wanted)
    for rank, place in enumerate(order):
        places[place] = min(max(ranked[rank], low), top) + rank * gap
    return places


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _legend(figure: Figure, axes: Axes, picture: Picture, inside: bool) -> None:
    from matplotlib.lines import Line2D

    handles = []
    for line in picture.lines:
        color, dash = style(line.color, line.dash)
        dashes = {"dashes": DASHES[dash]} if DASHES[dash] else {}
        handles.append(Line2D([], [], color=LIGHT[color], linewidth=1.3, **dashes))  # type: ignore[arg-type]
    handles += [Line2D([], [], color=GREY, linewidth=0.7, dashes=(6, 3)) for _ in picture.bounds]
    look: dict[str, Any] = {
        "fontsize": 8,
        "facecolor": "white",
        "edgecolor": "none",
        "framealpha": 1,
        "labelcolor": INK,
        "handlelength": 2.2,
    }
    if inside:
        axes.legend(handles, _names(picture), loc="lower right", **look)
        return
    # Below the axes, in as many columns as the longest name allows; the figure grows by what that takes.
    longest = max(len(name) for name in _names(picture))
    columns = max(1, min(3, 96 // (longest + 8)))
    rows = -(-len(handles) // columns)
    extra = 0.19 * rows
    height = HEIGHT_IN + extra
    figure.set_size_inches(WIDTH_IN, height)
    axes.set_position((0.105, (0.15 * HEIGHT_IN + extra) / height, 0.87, 0.66 * HEIGHT_IN / height))
    figure.legend(
        handles, _names(picture), loc="lower left", bbox_to_anchor=(0.095, 0.04), ncols=columns, **look
    )
