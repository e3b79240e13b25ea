# SPDX-License-Identifier: Apache-2.0
"""How much of a layer's time is the harness itself. The module `null` does nothing: what it takes, the loop,
the calls through the table and the clock take of every layer too (DESIGN, METHOD rule 16). In words:
`render.remarks.floor_sentence`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from netpipe.reading.curves import curves

if TYPE_CHECKING:
    from netpipe.records import Run

FLOOR_MODULE = "null"
NOTABLE = 0.1  # a smaller share of the time than this is not worth a word


@dataclass(frozen=True, slots=True)
class Floor:
    """Of one curve."""

    variant: str
    pattern: str
    floor_ns: float  # per operation, at the size where its share is the largest
    share: float  # the largest that the harness has of the time
    to_bytes: int | None  # up to this size the share is notable; None: nowhere


def floors(run: Run) -> tuple[Floor, ...]:
    """One for each curve that has a curve of `null` under its pattern to stand beside."""
    nothing = {variant.variant for variant in run.variants if variant.module == FLOOR_MODULE}
    found = curves(run)
    ground = {
        (curve.pattern, spot.size_bytes): spot.time_ns.value
        for curve in found
        if curve.variant in nothing
        for spot in curve.spots
    }
    made = []
    for curve in found:
        shares = [
            (ground[curve.pattern, spot.size_bytes] / spot.time_ns.value, spot.size_bytes)
            for spot in curve.spots
            if (curve.pattern, spot.size_bytes) in ground and spot.time_ns.value > 0
        ]
        if curve.variant in nothing or not shares:
            continue
        share, size_bytes = max(shares)
        notable = [size for one, size in shares if one > NOTABLE]
        made.append(
            Floor(
                curve.variant,
                curve.pattern,
                ground[curve.pattern, size_bytes],
                share,
                max(notable, default=None),
            )
        )
    return tuple(made)
