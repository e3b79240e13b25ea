# SPDX-License-Identifier: Apache-2.0
"""What it costs to post a receive, and to be surprised by a message that has none: the difference between a ping-pong,
which posts each receive while its message is on its way, and one whose receives were all posted before the clock
started (pattern `burst`). After Turner, Oline, Chen, Benjegerdes, "Integrating New Capabilities into NetPIPE" (2003),
section 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from netpipe.reading.curves import curves
from netpipe.reading.estimate import Estimate, difference
from netpipe.reading.summary import latency_spot

if TYPE_CHECKING:
    from netpipe.records import Run

WITHOUT, WITH = "burst", "pingpong"


@dataclass(frozen=True, slots=True)
class Posting:
    """Of one variant, at the size of its latency."""

    variant: str
    size_bytes: int
    pingpong_ns: Estimate
    cost_ns: Estimate  # below 0 where posting all at once is what costs

    @property
    def told(self) -> bool:
        """Whether it is certain that there is a difference."""
        return self.cost_ns.known and not self.cost_ns.covers(0)


def posting(run: Run) -> tuple[Posting, ...]:
    """One for each variant that was measured under both, by the same buffers; in one state of the machine."""
    found = {(curve.variant, curve.pattern): curve for curve in curves(run)}
    made = []
    for (variant, pattern), curve in found.items():
        posted = found.get((variant, WITHOUT))
        if pattern != WITH or posted is None:
            continue
        mine = latency_spot(curve.spots)
        theirs = next((spot for spot in posted.spots if mine and spot.size_bytes == mine.size_bytes), None)
        if mine is not None and theirs is not None and mine.state == theirs.state:
            cost = difference(mine.time_ns, theirs.time_ns)
            made.append(Posting(variant, mine.size_bytes, mine.time_ns, cost))
    return tuple(made)
