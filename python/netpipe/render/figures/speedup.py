# SPDX-License-Identifier: Apache-2.0
"""How many times as fast each application kernel is on more processes, beside an ideal line."""

from __future__ import annotations

from collections.abc import Sequence

from netpipe.kernels.table import Row
from netpipe.reading.estimate import Estimate, ratio
from netpipe.render.drawing.kernels import Values, estimate_of, views
from netpipe.render.drawing.picture import Panel
from netpipe.render.drawing.scope import Scope
from netpipe.render.figures import KERNELS, figure


@figure("the time on the fewest processes over the time on more", "more", place=10, needs=(KERNELS,))
def panels(scope: Scope) -> list[Panel]:
    nothing = "no kernel has times on two numbers of processes"
    found = views(scope.kernels, _values, "1", "speed-up over {fewest}", nothing, ideal=True)
    return [Panel("Speed-up of kernels", found)]


def _values(rows: Sequence[Row]) -> Values:
    known = [(float(row.cell.ranks), estimate_of(row.seconds)) for row in rows if row.seconds]
    if len(known) < 2:
        return []
    first = known[0][1]
    return [(known[0][0], Estimate(1.0, 1.0, 1.0)), *((at, ratio(first, one)) for at, one in known[1:])]
