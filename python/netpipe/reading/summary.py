# SPDX-License-Identifier: Apache-2.0
"""A whole curve in a few numbers.

Latency is the time of the smallest messages, the peak is the best rate seen, and n½ and the knee say how large a
message must be to get there (n½ after R. W. Hockney, "The communication challenge for MPP", Parallel Computing 20
(1994) 389-398, here against the measured peak rather than an extrapolated one).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from statistics import median
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from netpipe.reading.curves import Curve, CurvePoint
    from netpipe.reading.estimate import Estimate

_Rated = TypeVar("_Rated")
_RATE = itemgetter(0)

LATENCY_BYTES = 8  # the size of the 2003 paper
LATENCY_MOST_BYTES = 64  # "below 64 bytes" in the others: a curve that starts later has no latency
OCTAVE = 2.1  # sizes this near are neighbours: an octave, and the few bytes of a perturbation
KNEE = 0.9  # of the peak: from here on larger messages win little


@dataclass(frozen=True, slots=True)
class Summary:
    """One curve. None where the curve does not reach far enough to say."""

    variant: str
    pattern: str
    latency_ns: Estimate | None  # per operation: in pingpong half the round trip
    latency_size_bytes: int | None
    peak_bytes_per_s: Estimate | None
    peak_size_bytes: int | None
    half_size_bytes: float | None  # n½: from here half of the peak is reached; interpolated over log size
    knee_size_bytes: int | None  # the smallest size with 90 % of the peak: where the curve saturates
    points: int
    converged: int | None  # points within the target; None: imported, nobody knows
    verified: int  # sizes at which every launch checked what arrived
    unsure: int  # sizes with too few samples for an interval, or imported without one
    typical_half_width: (
        float | None
    )  # relative, the median over the sizes; None where no size has an interval
    worst_half_width: float | None  # relative, over the points; None where no point has an interval
    worst_size_bytes: int | None


def latency_point(points: Sequence[CurvePoint]) -> CurvePoint | None:
    """The point whose time is the latency: at 8 bytes, else the smallest size up to 64 bytes."""
    small = [point for point in points if 0 < point.size_bytes <= LATENCY_MOST_BYTES]
    at_eight = [point for point in small if point.size_bytes == LATENCY_BYTES]
    return next(iter(at_eight or small), None)


def fastest(rated: Iterable[tuple[float, bool, _Rated]]) -> _Rated | None:
    """Of (rate, whether it has an interval, what has it) the one with the highest rate, the first of equal ones. A rate
    without an interval may be one lucky sample, so the highest rate with an interval is preferred if it comes within
    10 % of it.
    """
    every = list(rated)
    top = max(every, key=_RATE, default=None)
    known = [one for one in every if top and one[1] and one[0] >= KNEE * top[0]]
    best = max(known, key=_RATE, default=top)
    return best[2] if best else None


def peak_point(points: Sequence[CurvePoint]) -> CurvePoint | None:
    """The point with the best rate."""
    rated = [(point.rate_bytes_per_s, point) for point in points]
    return fastest((rate.value, rate.known, point) for rate, point in rated if rate is not None)


def size_reaching(points: Sequence[CurvePoint], bytes_per_s: float) -> float | None:
    """The smallest size that reaches this rate, in bytes; between two sizes the rate is taken as linear in log size.

    None where the sizes do not say: the first one reaches it already, or its neighbours lie more than an octave apart.
    """
    rated = [
        (point.size_bytes, point.rate_bytes_per_s.value)
        for point in points
        if point.rate_bytes_per_s is not None and point.size_bytes > 0
    ]
    if rated and rated[0][1] >= bytes_per_s:
        return None
    for (size, rate), (next_size, next_rate) in pairwise(rated):
        if next_rate >= bytes_per_s:
            if next_size > OCTAVE * size:
                return None
            part = (bytes_per_s - rate) / (next_rate - rate)
            return math.exp(math.log(size) + part * (math.log(next_size) - math.log(size)))
    return None


def summarise(curve: Curve) -> Summary:
    """The summary of one curve."""
    points = curve.points
    latency, peak = latency_point(curve.joined), peak_point(curve.joined)
    top = peak.rate_bytes_per_s if peak else None
    knee = next(
        (
            p
            for p in curve.joined
            if top and p.rate_bytes_per_s and p.rate_bytes_per_s.value >= KNEE * top.value
        ),
        None,
    )
    records = [p for at in points for p in at.by_launch]
    widths = [(p.time_ns.half_width, p.size_bytes) for p in points if p.time_ns.known and p.time_ns.value]
    checked = any(p.verified_bytes for p in records)
    converged = [point.converged for point in points]
    worst = max(widths, default=None)
    return Summary(
        variant=curve.variant,
        pattern=curve.pattern,
        latency_ns=latency.time_ns if latency else None,
        latency_size_bytes=latency.size_bytes if latency else None,
        peak_bytes_per_s=top,
        peak_size_bytes=peak.size_bytes if peak else None,
        half_size_bytes=size_reaching(curve.joined, top.value / 2) if top else None,
        knee_size_bytes=knee.size_bytes if knee else None,
        points=len(points),
        converged=sum(map(bool, converged)) if None not in converged else None,
        verified=sum(all(p.verified_bytes for p in at.by_launch) for at in points) if checked else 0,
        unsure=sum(not point.time_ns.known for point in points),
        typical_half_width=median(width for width, _ in widths) if widths else None,
        worst_half_width=worst[0] if worst else None,
        worst_size_bytes=worst[1] if worst else None,
    )
