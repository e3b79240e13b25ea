# SPDX-License-Identifier: Apache-2.0
"""How much computation fits behind an exchange of messages (pattern `overlap`)."""

from __future__ import annotations

from netpipe.render.drawing.patterns import measure_panels
from netpipe.render.drawing.picture import Panel
from netpipe.render.drawing.scope import Scope
from netpipe.render.figures import figure

TITLES = {
    "overlap": "Computation that fits behind an exchange",
    "fraction": "Fraction of an exchange that computation hides",
}


@figure(
    "computation that fits behind an exchange, over message size",
    "patterns",
    place=60,
    part_of="measures",
    paper="Liu et al. 2003, Fig. 6",
)
def panels(scope: Scope) -> list[Panel]:
    group = scope.group("overlap")
    panels = measure_panels(scope, [group] if group else [], tuple(TITLES), TITLES)
    if not panels:
        raise scope.nothing("no selected curve has the pattern overlap")
    return panels
