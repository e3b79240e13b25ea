# SPDX-License-Identifier: Apache-2.0
"""How long each kernel takes on more and more processes."""

from __future__ import annotations

from collections.abc import Sequence

from netpipe.kernels.table import Row
from netpipe.render.drawing.kernels import Values, estimate_of, views
from netpipe.render.drawing.picture import Panel
from netpipe.render.kernel_figures import kernel_figure


@kernel_figure("The time of each kernel over the number of processes.", "Times", place=20)
def panels(rows: Sequence[Row], title: str) -> list[Panel]:
    def values(some: Sequence[Row]) -> Values:
        return [(float(row.cell.ranks), estimate_of(row.seconds).scaled(1e9)) for row in some if row.seconds]

    return [Panel(title, views(rows, values, "ns", "time", "no kernel has a time"))]
