# SPDX-License-Identifier: Apache-2.0
"""The time from the launch until all processes have talked to all, over their number (`netpipe memory`)."""

from __future__ import annotations

from netpipe.render.drawing.openings import opening_panel
from netpipe.render.drawing.picture import Panel
from netpipe.render.drawing.scope import Scope
from netpipe.render.figures import figure


@figure("start-up time over the number of processes", "openings", place=51)
def panels(scope: Scope) -> list[Panel]:
    return opening_panel(
        scope,
        "Start-up time over the number of processes",
        "time",
        "from the launch until all have talked to all",
        {"": lambda opening: opening.start_s},
        1e9,
    )
