# SPDX-License-Identifier: Apache-2.0
"""Throughput over message size, the first graph of NetPIPE."""

from __future__ import annotations

from netpipe.render.drawing.curves import curve_panel
from netpipe.render.drawing.picture import Panel
from netpipe.render.drawing.scope import Scope
from netpipe.render.figures import figure


@figure(
    "throughput over message size",
    "curves",
    place=1,
    options=("scale", "fit"),
    paper="NetPIPE's bandwidth graph: Turner et al. 2002 and 2003, all figures; Liu et al. 2003, Fig. 2",
)
def panels(scope: Scope) -> list[Panel]:
    return curve_panel(scope, "Throughput over message size", "size", "rate", log=None)
