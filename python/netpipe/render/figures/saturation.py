# SPDX-License-Identifier: Apache-2.0
"""The saturation graph of NetPIPE: from its knee on, more time buys only proportionally more bytes."""

from __future__ import annotations

from netpipe.render.drawing.curves import curve_panel
from netpipe.render.drawing.picture import Panel
from netpipe.render.drawing.scope import Scope
from netpipe.render.figures import figure


@figure(
    "message size over time: the knee is the saturation point",
    "curves",
    place=4,
    paper="NetPIPE's saturation graph",
)
def panels(scope: Scope) -> list[Panel]:
    return curve_panel(scope, "Saturation: message size over time", "time", "size")
