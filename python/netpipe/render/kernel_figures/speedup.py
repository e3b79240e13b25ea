# SPDX-License-Identifier: Apache-2.0
"""How many times as fast each kernel is on more processes, beside an ideal line."""

from __future__ import annotations

from collections.abc import Sequence

from netpipe.kernels.table import Row
from netpipe.reading.estimate import Estimate, ratio
from netpipe.render.drawing.kernels import Values, estimate_of, views
from netpipe.render.drawing.picture import Panel
from netpipe.render.kernel_figures import kernel_figure


@kernel_figure("The time on the fewest processes over the time on more.", "Speed-up", place=10)
def panels(rows: Sequence[Row], title: str) -> list[Panel]:
    def values(some: Sequence[Row]) -> Values:
        known = [(float(row.cell.ranks), estimate_of(row.seconds)) for row in some if row.seconds]
        if len(known) < 2:
            return []
        first = known[0][1]
        return [(known[0][0], Estimate(1.0, 1.0, 1.0)), *((at, ratio(first, one)) for at, one in known[1:])]

    nothing = "no kernel has times on two numbers of processes"
    return [Panel(title, views(rows, values, "1", "speed-up over {fewest}", nothing, ideal=True))]
