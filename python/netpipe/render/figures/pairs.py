# SPDX-License-Identifier: Apache-2.0
"""Each pair's time over the median of all pairs, as a matrix at a few sizes."""

from __future__ import annotations

from netpipe.render.drawing.cells import map_panels
from netpipe.render.drawing.picture import Panel
from netpipe.render.drawing.scope import Scope
from netpipe.render.figures import figure


@figure(
    "a map of the pairs of ranks: each one's time relative to the median",
    "patterns",
    place=25,
    options=("size",),
)
def panels(scope: Scope) -> list[Panel]:
    panels = map_panels(scope, "Each pair over the median of all", pairs=True)
    if not panels:
        raise scope.nothing("no chosen curve has times of several pairs of ranks")
    return panels
