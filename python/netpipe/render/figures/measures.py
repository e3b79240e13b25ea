# SPDX-License-Identifier: Apache-2.0
"""What patterns measure besides the time of an operation, each measure over message size."""

from __future__ import annotations

from netpipe.render.drawing.patterns import measure_panels
from netpipe.render.drawing.picture import Panel
from netpipe.render.drawing.scope import Scope
from netpipe.render.figures import figure


@figure("each measure of a pattern over message size", "patterns", place=23, options=("measure",))
def panels(scope: Scope) -> list[Panel]:
    panels = measure_panels(scope, scope.groups)
    if not panels:
        raise scope.nothing(
            "no chosen pattern has such a measure" if scope.measures else "no chosen pattern has measures"
        )
    return panels
