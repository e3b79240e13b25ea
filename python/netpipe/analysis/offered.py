# SPDX-License-Identifier: Apache-2.0
"""Where a layer did not keep up with the rate at which messages were offered to it.

A pattern that offers messages at a given rate says of each point which rate that was (`offered`) and at which rate
they arrived (`reached`). Where the two differ messages queue, and their latency is how long the queue grew: it says how
long a batch was, and nothing of the layer. In words: `render.remarks.shortfall_sentence`.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from netpipe.analysis.curves import curves

if TYPE_CHECKING:
    from netpipe.analysis.curves import Spot
    from netpipe.records import Run

HELD = 0.95  # a rate that comes as near as this to the one that was offered is taken for it


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Of one curve."""

    variant: str
    pattern: str
    offered_per_s: float
    reached_per_s: float  # at the size where it is the least
    size_bytes: int
    sizes: int  # at how many the rate was not held
    of_sizes: int


def shortfalls(run: Run) -> tuple[Shortfall, ...]:
    """One for each curve that did not hold its rate at every size."""
    made = []
    for curve in curves(run):
        rates = [(spot.size_bytes, *both) for spot in curve.spots if (both := _rates(spot)) is not None]
        short = [rate for rate in rates if rate[2] < HELD * rate[1]]
        if short:
            size_bytes, offered, reached = min(short, key=lambda rate: rate[2])
            made.append(
                Shortfall(curve.variant, curve.pattern, offered, reached, size_bytes, len(short), len(rates))
            )
    return tuple(made)


def _rates(spot: Spot) -> tuple[float, float] | None:
    """Offered and reached, over the launches; None where the pattern offers none."""
    offered, reached = (
        [
            measure.median
            for point in spot.points
            for measure in point.measures
            if measure.name == name and measure.median is not None
        ]
        for name in ("offered", "reached")
    )
    return (median(offered), median(reached)) if offered and reached else None
