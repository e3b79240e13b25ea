# SPDX-License-Identifier: Apache-2.0
"""Each rank's time over the median of all ranks, over message size."""

from __future__ import annotations

from netpipe.render.drawing.cells import map_panels
from netpipe.render.drawing.picture import Panel
from netpipe.render.drawing.scope import Scope
from netpipe.render.figures import figure


@figure("a map of the ranks: each one's time relative to the median", "patterns", place=26, options=("size",))
def panels(scope: Scope) -> list[Panel]:
    panels = map_panels(scope, "Each rank over the median of all", pairs=False)
    if not panels:
        raise scope.nothing("no chosen curve has times of several ranks")
    return panels
