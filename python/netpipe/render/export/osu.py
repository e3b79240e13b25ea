# SPDX-License-Identifier: Apache-2.0
"""One curve as the table that an OSU micro-benchmark prints, so that scripts which read those read ours.

A pattern with several messages in flight becomes a table of rates in MB/s (10^6 bytes), every other one a table of
times in microseconds: the mean over all operations, as OSU prints it (of collectives the mean over the ranks too), or
the median where no mean was recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netpipe.reading.curves import CurvePoint

RATES = ("window", "stream", "bidirectional")
COLLECTIVE = "collective"
SIZE_COLUMN, NUMBER_COLUMN = 10, 18  # as wide as in OSU's


def write(points: Sequence[CurvePoint], pattern: str, operation: str, title: str) -> str:
    """points: of one curve. operation: of a collective, "allreduce". title: the variant, in the first line."""
    name = pattern.partition(":")[0]
    if name in RATES:
        lines = [
            f"# OSU MPI {'Bi-Directional ' if name != 'stream' and _both(pattern) else ''}Bandwidth Test {title}"
        ]
        lines.append(f"{'# Size':{SIZE_COLUMN}}{'Bandwidth (MB/s)':>{NUMBER_COLUMN}}")
        for at in points:
            if at.rate_bytes_per_s is not None:
                rate = at.rate_bytes_per_s.value * at.time_ns.value / (at.mean_ns or at.time_ns.value)
                lines.append(f"{at.size_bytes:<{SIZE_COLUMN}}{rate / 1e6:>{NUMBER_COLUMN}.2f}")
        return "\n".join(lines) + "\n"
    said = f"{operation.capitalize()} Latency" if name == COLLECTIVE else "Latency"
    column = "Avg Latency(us)" if name == COLLECTIVE else "Latency (us)"
    lines = [f"# OSU MPI {said} Test {title}", f"{'# Size':{SIZE_COLUMN}}{column:>{NUMBER_COLUMN}}"]
    for at in points:
        mean_us = (_rank_mean(at) or at.mean_ns or at.time_ns.value) / 1e3
        digits = 2 if mean_us >= 1 else 4
        lines.append(f"{at.size_bytes:<{SIZE_COLUMN}}{mean_us:>{NUMBER_COLUMN}.{digits}f}")
    return "\n".join(lines) + "\n"


def _rank_mean(at: CurvePoint) -> float | None:
    """The mean over the ranks, of a collective: the median over the launches."""
    known = [
        one.median
        for point in at.by_launch
        for one in point.measures
        if one.name == "rank_mean" and one.median
    ]
    return median(known) if known else None


def _both(pattern: str) -> bool:
    return pattern.startswith("bidirectional") or "directions=both" in pattern
