# SPDX-License-Identifier: Apache-2.0
"""Time and throughput for each percentage of messages that reuse a buffer (setting `reuse` of a pattern)."""

from __future__ import annotations

from netpipe.render.drawing.picture import Panel
from netpipe.render.drawing.scope import Scope
from netpipe.render.figures import figure
from netpipe.render.figures.settings import of

OPTION = "reuse"


@figure(
    "time and throughput by percentage of messages that reuse a buffer",
    "patterns",
    place=62,
    part_of="settings",
    paper="Liu et al. 2003, Figs. 7 and 8",
)
def panels(scope: Scope) -> list[Panel]:
    groups = [group for group in scope.groups if group.settings and OPTION in group.settings.options]
    panels = [panel for group in groups for panel in of(scope, group)]
    if not panels:
        raise scope.nothing("no chosen pattern was run with several values of reuse")
    return panels
