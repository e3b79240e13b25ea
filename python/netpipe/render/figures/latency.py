# SPDX-License-Identifier: Apache-2.0
"""The time of one operation over message size. For small messages it is the latency."""

from __future__ import annotations

from netpipe.render.drawing.curves import curve_panel
from netpipe.render.drawing.picture import Panel
from netpipe.render.drawing.scope import Scope
from netpipe.render.figures import figure


@figure(
    "time of one operation over message size",
    "curves",
    place=2,
    options=("fit",),
    paper="Liu et al. 2003, Fig. 1",
)
def panels(scope: Scope) -> list[Panel]:
    return curve_panel(scope, "Time over message size", "size", "time")
