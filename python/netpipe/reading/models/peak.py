# SPDX-License-Identifier: Apache-2.0
"""The best rate of a curve, and how large a message must be to get there: n½ after R. W. Hockney, "The communication
challenge for MPP", Parallel Computing 20 (1994) 389-398, here against the measured peak rather than an extrapolated
one, and the knee.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from netpipe.reading.curves import CurvePoints

OCTAVE = 2.1  # sizes this near are neighbours: an octave, and the few bytes of a perturbation
KNEE = 0.9  # of the peak: from here on larger messages win little
END = 1.5  # a peak within this factor of the last size is at the end of the curve


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
