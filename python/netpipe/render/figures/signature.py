# SPDX-License-Identifier: Apache-2.0
"""The signature graph of NetPIPE: a curve starts on the x axis at its latency, and its height is its peak."""

from __future__ import annotations

from netpipe.render.drawing.curves import curve_panel
from netpipe.render.drawing.picture import Panel
from netpipe.render.drawing.scope import Scope
from netpipe.render.figures import figure


@figure(
    "throughput over time: latency and peak in one graph",
    "curves",
    place=3,
    options=("scale", "fit"),
    paper="NetPIPE's signature graph",
)
def panels(scope: Scope) -> list[Panel]:
    return curve_panel(scope, "Signature: throughput over time", "time", "rate", log=None)
