# SPDX-License-Identifier: Apache-2.0
"""Latency and rate of curves by pieces, as cells of a table: a row for each piece."""

from __future__ import annotations

from netpipe.reading.estimate import Estimate
from netpipe.reading.models.pieces import Fit
from netpipe.units import (
    RATE_STEPS,
    TIME_STEPS,
    UNKNOWN,
    Steps,
    bracketed_text,
    limits_text,
    percent_text,
    size_text,
    times_text,
)

COLUMNS = ("sizes", "a", "rate", "misfit", "begins", "jump")
REMARK = (
    "Within a piece the time of n bytes is a + n / rate; in brackets: 95 % intervals. a is the latency only in the "
    "piece of the smallest messages; below 0 the line is steeper than the one before. No rate: the time does not grow "
    "measurably. Misfit: how far the worst size is from the line. A piece begins at a step between two sizes, or "
    "between these two with 95 % certainty. Jump: its line over that of the piece before, there."
)


def rows(fit: Fit, rated: bool = True) -> list[list[str]]:
    """A text for each of COLUMNS. Without `rated` the curve moves nothing, and its rates are none."""
    made = []
    for number, piece in enumerate(fit.pieces):
        rate = piece.bytes_per_s if rated else None
        row = [limits_text(piece.from_bytes, piece.to_bytes, size_text)]
        if piece.sizes == 1:
            row = [size_text(piece.from_bytes)]
        row += [_with_limits(piece.fixed_ns, TIME_STEPS, "ns"), _with_limits(rate, RATE_STEPS, "bps", 8.0)]
        row += [percent_text(piece.misfit) if piece.misfit <= 1 else "> 100 %"]
        if number:
            begins = fit.breaks[number - 1]
            between = limits_text(begins.from_bytes, begins.to_bytes, size_text)
            row += ["at a step" if begins.located else between, times_text(begins.times)]
        else:
            row += ["", ""]
        made.append(row)
    return made


def _with_limits(value: Estimate | None, steps: Steps, smallest: str, scale: float = 1.0) -> str:
    if value is None:
        return UNKNOWN
    low, high = (value.low, value.high) if value.known else (value.value, value.value)
    return bracketed_text(value.value * scale, low * scale, high * scale, steps, smallest)
