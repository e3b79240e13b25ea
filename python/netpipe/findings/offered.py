# SPDX-License-Identifier: Apache-2.0
"""Where a layer did not keep up with the rate at which messages were offered to it.

A pattern that offers messages at a given rate says of each point which rate that was (`offered`) and at which rate
they arrived (`reached`). Where the two differ messages queue, and their latency is how long the queue grew: it says how
long a batch was, and nothing of the layer. In words: `render.remarks.shortfall_sentence`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from netpipe.reading.curves import curves
from netpipe.reading.measures import measures_of

if TYPE_CHECKING:
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
        said = {measure.name: measure.values for measure in measures_of(curve)}
        offered, reached = said.get("offered", {}), said.get("reached", {})
        both = [size_bytes for size_bytes in offered if size_bytes in reached]
        short = [size for size in both if reached[size].value < HELD * offered[size].value]
        if short:
            worst = min(short, key=lambda size: reached[size].value)
            rates = (offered[worst].value, reached[worst].value)
            made.append(Shortfall(curve.variant, curve.pattern, *rates, worst, len(short), len(both)))
    return tuple(made)
