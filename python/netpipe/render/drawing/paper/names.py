# SPDX-License-Identifier: Apache-2.0
"""Names of curves on paper: at their ends where there is room, else in a legend below all axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netpipe.render.drawing.paper.marks import FAINT, GREY, INK, dashes_of, ink_of
from netpipe.render.drawing.paper.stacks import ink_of as part_ink
from netpipe.render.drawing.picture import Picture
from netpipe.render.drawing.ticks import SCALE
from netpipe.render.palette import LIGHT_TEXT, style

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from netpipe.render.drawing.picture import Bound, Line, Part, Stacks

MOST_END_LABELS = 14  # more do not fit beside each other
WIDEST_LABEL = 0.30  # of the figure
ROW_IN = 0.19  # the height of a row of the legend
LOOK: dict[str, Any] = {
    "fontsize": 8,
    "facecolor": "white",
    "edgecolor": "none",
    "framealpha": 1,
    "labelcolor": INK,
    "handlelength": 2.2,
}


@dataclass(frozen=True, slots=True)
class _End:
    """A name and where its curve ends, in pixels."""

    text: str
    ink: str
    x: float
    y: float


def fits_at_ends(figure: Figure, picture: Picture) -> tuple[float, float] | None:
    """The widest name as a share of the figure's width, and the height of a line of text in pixels; None if names at
    the ends of the curves would not fit.
    """
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    probe = [figure.text(0, 0, name, fontsize=8) for name in _names(picture)]
    boxes = [text.get_window_extent(renderer) for text in probe]
    for text in probe:
        text.remove()
    widest = max((box.width for box in boxes), default=0.0) / figure.bbox.width
    at_ends = picture.named_at_ends and not picture.level_ends
    if not at_ends or widest > WIDEST_LABEL or len(probe) > MOST_END_LABELS:
        return None
    return widest, max((box.height for box in boxes), default=0.0)


def _names(picture: Picture) -> list[str]:
    return [line.label for line in picture.lines if line.label] + [bound.label for bound in picture.bounds]


def end_labels(axes: Axes, picture: Picture, gap: float) -> None:
    """Names to the right of the axes, each at the height where its curve ends, moved apart where they would overlap."""
    from matplotlib.lines import Line2D

    ends = []
    for line in picture.lines:
        if line.label:
            last = _last(line)
            ink = GREY if line.color is None else LIGHT_TEXT[style(line.color, line.dash)[0]]
            ends.append(_end(axes, picture, line.label, ink, line.x[last], line.y[last]))
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


def _last(line: Line) -> int:
    """The place of the right end."""
    return max(range(len(line.x)), key=lambda place: line.x[place])


def _end(axes: Axes, picture: Picture, text: str, ink: str, x: float, y: float) -> _End:
    place = axes.transData.transform((x * SCALE[picture.x.quantity], y * SCALE[picture.y.quantity]))
    return _End(text, ink, float(place[0]), float(place[1]))


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places near the wanted ones, at least `gap` apart and between low and high where they all fit.

    Neighbours that are too near become a block around their common centre, and blocks that meet become one: the
    places that minimise the squared distances (pool adjacent violators, as in isotonic regression).
    """
    order = sorted(range(len(wanted)), key=lambda place: wanted[place])
    blocks: list[list[float]] = []  # of offsets: the wanted place minus its rank within the block
    for rank, place in enumerate(order):
        blocks.append([wanted[place] - rank * gap])
        while len(blocks) > 1 and _mean(blocks[-2]) > _mean(blocks[-1]):
            last = blocks.pop()
            blocks[-1] += last
    ranked = [_mean(block) for block in blocks for _ in block]
    # Clamped in the same coordinates, where all ranks share one lower and one upper end, the distances stay.
    top = max(low, high - (len(wanted) - 1) * gap)
    places = [0.0] * len(wanted)
    for rank, place in enumerate(order):
        places[place] = min(max(ranked[rank], low), top) + rank * gap
    return places


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


@dataclass(frozen=True, slots=True)
class Legend:
    """Names below all axes, in as many columns as the longest one allows."""

    handles: tuple[Artist, ...]
    names: tuple[str, ...]

    @property
    def columns(self) -> int:
        return max(1, min(3, 96 // (max(map(len, self.names), default=0) + 8)))

    @property
    def height_in(self) -> float:
        return ROW_IN * -(-len(self.names) // self.columns)

    def draw(self, figure: Figure, left: float, bottom: float) -> None:
        if self.names:
            figure.legend(
                self.handles,
                self.names,
                loc="lower left",
                bbox_to_anchor=(left, bottom),
                ncols=self.columns,
                borderpad=0,
                **LOOK,
            )


def legend(views: Sequence[Picture | Stacks]) -> Legend:
    """Every name once, with the look of its first line: curves in the order of their right ends in the first picture
    that has them, the highest first; of ends at one height the leftmost first. Bounds are last. Parts of stacked bars
    are in the order of the bars.
    """
    pictures = [view for view in views if isinstance(view, Picture)]
    found: dict[str, Artist] = {
        part.name: _part_handle(part)
        for view in views
        if not isinstance(view, Picture)
        for part in view.parts
        if part.name
    }
    for picture in pictures:
        for line in by_end(picture) if picture.named_at_ends else picture.lines:
            if line.label and line.label not in found:
                found[line.label] = _line_handle(line)
    for picture in pictures:
        for bound in picture.bounds:
            found.setdefault(bound.label, _bound_handle(bound))
    return Legend(tuple(found.values()), tuple(found))


def by_end(picture: Picture) -> list[Line]:
    """The curves that have names, in the order of their right ends: the highest first."""
    named = [line for line in picture.lines if line.label]
    return sorted(named, key=lambda line: (-line.y[_last(line)], line.x[_last(line)]))


def _line_handle(line: Line) -> Line2D:
    from matplotlib.lines import Line2D

    if not line.joined:
        return Line2D([], [], color=ink_of(line), linestyle="none", marker="o", markersize=3)
    width = FAINT if line.faint else 1.3
    return Line2D([], [], color=ink_of(line), linewidth=width, **dashes_of(line))


def _part_handle(part: Part) -> Artist:
    from matplotlib.patches import Patch

    return Patch(facecolor=part_ink(part), linewidth=0)


def _bound_handle(bound: Bound) -> Line2D:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=GREY, linewidth=0.7, dashes=bound.dashes)
