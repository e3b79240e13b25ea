# SPDX-License-Identifier: Apache-2.0
"""A whole curve in a few numbers.

Latency is the time of the smallest messages, the peak is the best rate seen, and n½ and the knee say how large a
message must be to get there (n½ after R. W. Hockney, "The communication challenge for MPP", Parallel Computing 20
(1994) 389-398, here against the measured peak rather than an extrapolated one).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from netpipe.reading.curves import Curve, CurvePoints
    from netpipe.reading.estimate import Estimate

LATENCY_BYTES = 8  # the size of the 2003 paper
LATENCY_MOST_BYTES = 64  # "below 64 bytes" in the others: a curve that starts later has no latency
OCTAVE = 2.1  # sizes this near are neighbours: an octave, and the few bytes of a perturbation
KNEE = 0.9  # of the peak: from here on larger messages win little
END = 1.5  # a peak within this factor of the last size is at the end of the curve


@dataclass(frozen=True, slots=True)
class Summary:
    """One curve. None where the curve does not reach far enough to say."""

    variant: str
    pattern: str
    latency_ns: Estimate | None  # per operation: in pingpong half the round trip
    latency_size_bytes: int | None
    peak_bytes_per_s: Estimate | None
    peak_size_bytes: int | None
    half_size_bytes: (
        float | None
    )  # n½: from here half of the peak is reached; interpolated over log size. See `bent`
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


def peak_place(points: CurvePoints) -> int | None:
    """Where the point with the best rate stands, the first of equal ones. A rate without an interval may be one lucky
    sample, so the highest rate with an interval is preferred if it comes within 10 % of it.
    """
    rates = np.where(points.moves, points.rates.value, -1.0)
    top = int(rates.argmax()) if len(rates) else 0
    if not len(rates) or not points.moves[top]:
        return None
    known = np.where(points.moves & points.rates.known & (rates >= KNEE * rates[top]), rates, -1.0)
    best = int(known.argmax())
    return best if known[best] >= 0 else top


def bent(points: CurvePoints, peak: int) -> bool:
    """Did the curve bend before it ended? In Hockney's model, t = a + n / r, n½ is the size at which t = 2 a, and below
    it twice the size takes less than the square root of 2 times as long (near n½; d ln t / d ln n = 1/2 there). Where
    the peak is at the end and the time still as flat as that, n½ and the knee would be those of the last size.
    """
    rated = np.flatnonzero(points.moves & (points.size > 0))
    sizes, most = points.size[rated], int(points.size[peak])
    if sizes[-1] > END * most:
        return True
    smaller = rated[sizes <= most / 2]
    first = int(smaller[-1] if len(smaller) else rated[0])
    gained = points.rates.value[peak] / points.rates.value[first]
    return bool(gained**2 <= most / points.size[first])


def places_around(points: CurvePoints, bytes_per_s: float) -> tuple[int, int] | None:
    """Where the last size below this rate and the first one that reaches it stand.

    None where the sizes do not say: the first one reaches it already, or its neighbours lie more than an octave apart.
    """
    rated = np.flatnonzero(points.moves & (points.size > 0))
    reached = np.flatnonzero(points.rates.value[rated] >= bytes_per_s)
    if not len(reached) or reached[0] == 0:
        return None
    below, first = int(rated[reached[0] - 1]), int(rated[reached[0]])
    return None if points.size[first] > OCTAVE * points.size[below] else (below, first)


def size_reaching(points: CurvePoints, bytes_per_s: float) -> float | None:
    """The smallest size that reaches this rate, in bytes; between two sizes the rate is taken as linear in log size.
    None where the sizes do not say (`places_around`).
    """
    around = places_around(points, bytes_per_s)
    if around is None:
        return None
    both = list(around)
    (size, next_size), (rate, next_rate) = points.size[both].tolist(), points.rates.value[both].tolist()
    part = (bytes_per_s - rate) / (next_rate - rate)
    return math.exp(math.log(size) + part * (math.log(next_size) - math.log(size)))


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
