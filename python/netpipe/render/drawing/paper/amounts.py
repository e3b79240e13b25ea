# SPDX-License-Identifier: Apache-2.0
"""A matrix of amounts on paper: the more, the stronger its colour. Each has a scale of its own beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netpipe.render.drawing.paper.marks import FLAT, GREY, INK, MOST_WRITTEN, name_cells
from netpipe.render.drawing.profiles import amount_text, strength
from netpipe.render.palette import BLUE, LIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from netpipe.render.drawing.picture import Map

STRONG = 0.55  # from here on text in a cell is white
WEAK = "#dce6e8"  # the colour of the smallest amount: a tenth of blue on the field, which stays without any
SCALE = (1.04, 0.55, 0.05, 0.45)  # where the scale stands, as shares of the axes
STEPS = 64  # of the scale


def draw_amounts(axes: Axes, of: Map, few: bool = False) -> None:
    """A cell with nothing shows the field."""
    import numpy as np
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    strong = strength(of)
    shares = [[np.nan if not value else strong(value) for value in row] for row in of.values]
    look: dict[str, Any] = {
        "cmap": LinearSegmentedColormap.from_list("amount", [WEAK, LIGHT[BLUE]]),
        "norm": Normalize(0, 1),
    }
    many = max(len(of.rows), len(of.columns))
    axes.set_facecolor(FLAT)
    # Lines between very many cells would hide them.
    gaps = {"edgecolors": "white", "linewidth": 0.6} if many <= 3 * MOST_WRITTEN else {"linewidth": 0}
    axes.pcolormesh(np.ma.masked_invalid(np.array(shares)), **look, **gaps)
    axes.set_box_aspect(1)
    axes.set_anchor("SW")
    name_cells(axes, of, few)
    if many <= MOST_WRITTEN:
        for row, values in enumerate(of.values):
            for column, value in enumerate(values):
                if value:
                    axes.text(
                        column + 0.5,
                        row + 0.5,
                        amount_text(of.quantity, value).replace(" ", "\n"),
                        ha="center",
                        va="center",
                        fontsize=6.5 if few else 8,
                        color="white" if strong(value) > STRONG else INK,
                    )
    scale = axes.inset_axes(SCALE)
    ramp = np.linspace(strong(strong.least) if strong.wide else 0.0, 1.0, STEPS).reshape(-1, 1)
    scale.imshow(ramp, aspect="auto", origin="lower", extent=(0, 1, 0, 1), **look)
    scale.xaxis.set_visible(False)
    scale.yaxis.tick_right()
    least = amount_text(of.quantity, strong.least) if strong.wide else "0"
    scale.set_yticks([0, 1], [least, amount_text(of.quantity, strong.most)])
    scale.tick_params(length=0, labelsize=6.5, labelcolor=INK)
    for spine in scale.spines.values():
        spine.set_visible(False)
    if strong.wide:
        left, bottom, _, _ = SCALE
        axes.text(
            left, bottom - 0.05, "logarithmic", transform=axes.transAxes, va="top", fontsize=6.5, color=GREY
        )
