# SPDX-License-Identifier: Apache-2.0
"""Bars on paper: a row for each layer, with its name and number above its bar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netpipe.render.drawing.axes import value_axis
from netpipe.render.drawing.paper.marks import INK, PALE_INK, prepare
from netpipe.render.drawing.ticks import SCALE
from netpipe.render.palette import BLUE, GREEN, LIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from netpipe.render.drawing.picture import Bars

ROW_IN = 0.27  # the height of a row
INDENT = 0.02  # of a layer above its layer below, as a share of the width
LONGEST = 64  # characters of a name, beside which its number has room
MOST_REACH = 1.25  # of the longest bar: intervals that go further are cut
LEAST = 0.004  # of the width: what is there is seen


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def draw_bars(axes: Axes, of: Bars, few: bool) -> None:
    """A bar that shortens the time of the layer below is green. A pale one differs by nothing that is certain. The thin
    line is the 95 % interval of what was added, or of the throughput; what leaves the axes is cut.
    """
    most = MOST_REACH * max(max(bar.begin, bar.end) for bar in of.rows)
    ends = [end for bar in of.rows for end in (bar.begin, bar.end, *(bar.reach or ())) if end <= most]
    axis = value_axis(of.quantity, [max(0.0, end) for end in ends], "", log=False)
    prepare(axes, axis, "x", few)
    axes.set_ylim(len(of.rows), 0)
    axes.yaxis.set_visible(False)
    axes.spines["left"].set_visible(False)
    scale = SCALE[axis.quantity]
    least = LEAST * (axis.high - axis.low) * scale
    for row, bar in enumerate(of.rows):
        low, high = sorted((bar.begin * scale, bar.end * scale))
        ink = LIGHT[GREEN if bar.end < bar.begin else BLUE]
        alpha = PALE_INK if bar.pale else 1.0
        axes.barh(row + 0.72, max(high - low, least), 0.3, low, color=ink, alpha=alpha, linewidth=0)
        if bar.reach is not None:
            axes.plot(
                [end * scale for end in bar.reach],
                [row + 0.72] * 2,
                color=INK,
                linewidth=0.8,
                zorder=4,
                solid_capstyle="butt",
            )
        at = axes.get_yaxis_transform()  # x as a share of the width
        for x, text, side in ((INDENT * bar.depth, _short(bar.name), "left"), (1.0, bar.text, "right")):
            axes.text(x, row + 0.3, text, transform=at, fontsize=6.5, color=INK, ha=side, va="center")
