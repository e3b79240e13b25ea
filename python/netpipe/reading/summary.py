# SPDX-License-Identifier: Apache-2.0
"""A whole curve in a few numbers.

Latency is the time of the smallest messages, the peak is the best rate seen, and n½ and the knee say how large a
message must be to get there (models/peak.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from netpipe.reading.models.peak import KNEE, bent, peak_place, places_around, size_reaching

if TYPE_CHECKING:
    from netpipe.reading.curves import Curve, CurvePoints
    from netpipe.reading.estimate import Estimate

LATENCY_BYTES = 8  # the size of the 2003 paper
LATENCY_MOST_BYTES = 64  # "below 64 bytes" in the others: a curve that starts later has no latency


@dataclass(frozen=True, slots=True)
class Summary:
    """One curve. None where the curve does not reach far enough to say."""

    variant: str
    pattern: str
    latency_ns: Estimate | None  # per operation: in pingpong half the round trip
    latency_size_bytes: int | None
    peak_bytes_per_s: Estimate | None
    peak_size_bytes: int | None
    # n½: from here half of the peak is reached; interpolated over log size. None also where the curve was not `bent`
    half_size_bytes: float | None
    # The smallest size with 90 % of the peak: where the curve saturates. None where half_size_bytes would be: the first
    # size is as fast, or the one before it is more than an octave away, between which the knee may be anywhere
    knee_size_bytes: int | None
    points: int
    converged: int | None  # points within the target; None: imported, nobody knows
    verified: int  # sizes at which every launch checked what arrived
    unsure: int  # sizes with too few samples for an interval, or imported without one
    # relative, the median over the sizes; None where no size has an interval
    typical_half_width: float | None
    worst_half_width: float | None  # relative, over the points; None where no point has an interval
    worst_size_bytes: int | None


def latency_place(points: CurvePoints) -> int | None:
    """Where the point stands whose time is the latency: at 8 bytes, else the smallest size up to 64 bytes."""
    small = np.flatnonzero((points.size > 0) & (points.size <= LATENCY_MOST_BYTES)).tolist()
    at_eight = [place for place in small if points.size[place] == LATENCY_BYTES]
    return next(iter(at_eight or small), None)


def summarise(curve: Curve) -> Summary:
    """The summary of one curve."""
    points, joined = curve.points, curve.joined
    latency, peak = latency_place(joined), peak_place(joined)
    top = None if peak is None else joined.rates.one(peak)
    reached = top if peak is not None and bent(joined, peak) else None
    knee = places_around(joined, KNEE * reached.value) if reached else None
    widths = points.times.half_width
    sure = np.flatnonzero(np.isfinite(widths))
    worst = int(sure[widths[sure].argmax()]) if len(sure) else None
    return Summary(
        variant=curve.variant,
        pattern=curve.pattern,
        latency_ns=None if latency is None else joined.times.one(latency),
        latency_size_bytes=None if latency is None else int(joined.size[latency]),
        peak_bytes_per_s=top,
        peak_size_bytes=None if peak is None else int(joined.size[peak]),
        half_size_bytes=size_reaching(joined, reached.value / 2) if reached else None,
        knee_size_bytes=None if knee is None else int(joined.size[knee[1]]),
        points=len(points),
        converged=points.converged.count(True) if None not in points.converged else None,
        verified=int(np.count_nonzero(points.verified)),
        unsure=int(np.count_nonzero(~points.times.known)),
        typical_half_width=float(np.median(widths[sure])) if len(sure) else None,
        worst_half_width=None if worst is None else float(widths[worst]),
        worst_size_bytes=None if worst is None else int(points.size[worst]),
    )
