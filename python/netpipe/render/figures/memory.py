# SPDX-License-Identifier: Apache-2.0
"""The memory of a process that has opened a library, over the number of processes (`netpipe memory`): after a barrier,
as Liu et al. measured it, and after all have talked to all.
"""

from __future__ import annotations

from netpipe.render.drawing.openings import opening_panel
from netpipe.render.drawing.picture import Panel
from netpipe.render.drawing.scope import Scope
from netpipe.render.figures import figure


@figure(
    "memory of each process over the number of processes",
    "openings",
    place=50,
    paper="Liu et al. 2003, Fig. 13",
)
def panels(scope: Scope) -> list[Panel]:
    return opening_panel(
        scope,
        "Memory of each process over the number of processes",
        "size",
        "resident memory",
        {
            "after a barrier": lambda opening: opening.barrier_bytes,
            "all to all": lambda opening: opening.resident_bytes,
        },
        1.0,
    )
