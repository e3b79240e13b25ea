# SPDX-License-Identifier: Apache-2.0
"""How long each application kernel takes on more and more processes."""

from __future__ import annotations

from collections.abc import Sequence

from netpipe.kernels.table import Row
from netpipe.render.drawing.kernels import Values, estimate_of, views
from netpipe.render.drawing.picture import Panel
from netpipe.render.drawing.scope import Scope
from netpipe.render.figures import KERNELS, figure


@figure("the time of each kernel over the number of processes", "more", place=20, needs=(KERNELS,))
def panels(scope: Scope) -> list[Panel]:
    return [Panel("Times of kernels", views(scope.kernels, _values, "ns", "time", "no kernel has a time"))]


def _values(rows: Sequence[Row]) -> Values:
    return [(float(row.cell.ranks), estimate_of(row.seconds).scaled(1e9)) for row in rows if row.seconds]
