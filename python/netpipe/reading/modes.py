# SPDX-License-Identifier: Apache-2.0
"""The modes of a distribution of times: in how many ways an operation can go.

The histogram is resampled into buckets of one width in log time and smoothed there with a Gaussian kernel, whose width
is Silverman's rule for the central half of the samples (B. W. Silverman, "Density Estimation for Statistics and Data
Analysis", 1986, section 3.4), narrowed to half of it because that rule smooths two modes into one; never less than the
histogram or the clock resolves, and wider where samples are sparse (I. S. Abramson, "On bandwidth variation in kernel
estimates", Annals of Statistics 10, 1982). Two peaks are two modes where the density between them falls to less than
half of the lower one, and where each has at least 5 % of the samples. A tail falls and does not rise again, so it is
not a mode, however heavy; a few slow operations that lie together are too few.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from netpipe.reading.measures import typical_sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy as np
    import numpy.typing as npt

    from netpipe.reading.curves import Curve
    from netpipe.records import Histogram, Point

    Array = npt.NDArray[np.float64]

LEAST_SAMPLES = 200
LEAST_SHARE = 0.05
DEEPEST_VALLEY = 0.5  # of the lower peak
NARROWER = 0.5  # than Silverman's rule
LEAST_WIDTH_BUCKETS = 1.5  # of the kernel: a histogram resolves no more than its buckets
MOST_CELLS = 4096
ROWS = 64  # kernels that are computed at once: 4 MiB where each is as wide as all cells


@dataclass(frozen=True, slots=True)
class Mode:
    at_ns: float  # the median of the samples between its valleys
    share: float  # of the samples
    low_ns: float  # where its valleys are
    high_ns: float


def modes(histogram: Histogram | None, clock_ns: float = 0.0) -> tuple[Mode, ...]:
    """By rising time; none if there are too few samples to say, else at least one. `clock_ns` is the step of the clock,
    per operation: times that are apart only because of it are not modes.
    """
    if histogram is None or sum(histogram.count) < LEAST_SAMPLES:
        return ()
    import numpy as np

    number = min(len(histogram.low_ns), len(histogram.count))
    low, count = (np.array(of[:number], dtype=float) for of in (histogram.low_ns, histogram.count))
    there = (low > 0) & (count > 0)
    if not there.any():
        return ()
    logs = np.log(low[there])
    first, last = float(logs.min()), float(logs.max())
    step = max(math.log1p(histogram.resolution or 0.01), (last - first) / MOST_CELLS)
    counts: list[float] = np.bincount(np.rint((logs - first) / step).astype(int), count[there]).tolist()
    lower = math.exp(first + _quantile(counts, sum(counts) / 4) * step)
    width = max(_width(counts), math.log1p(clock_ns / lower) / step)
    density = _density(counts, min(width, len(counts)))  # a damaged file may have any step of the clock
    bounds = _merged(counts, density, _valleys(density))
    total = sum(counts)
    found = []
    for start, stop in pairwise(bounds):
        inside = counts[start:stop]
        middle = first + (start + _median(inside) + 0.5) * step
        edges = (math.exp(first + start * step), math.exp(first + stop * step))
        found.append(Mode(math.exp(middle), sum(inside) / total, *edges))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class SeveralModes:
    """A curve whose distribution has more than one mode: the smallest of the typical sizes at which it has."""

    variant: str
    pattern: str
    point: Point
    modes: tuple[Mode, ...]
    other_sizes: tuple[int, ...]  # typical sizes at which it has several too


def several_modes(
    curves: Iterable[Curve], modes_of: Callable[[Point], tuple[Mode, ...]]
) -> tuple[SeveralModes, ...]:
    """Every such curve, the one with the largest second mode first. Only the typical sizes are asked."""
    found = []
    for curve in curves:
        shown = [point.shown for point in curve.points.of_sizes(typical_sizes(curve.points.size.tolist()))]
        several = [(point, of) for point in shown if len(of := modes_of(point)) > 1]
        if several:
            rest = tuple(point.size_bytes for point, _ in several[1:])
            found.append(SeveralModes(curve.variant, curve.pattern, *several[0], rest))
    return tuple(sorted(found, key=lambda one: -sorted(mode.share for mode in one.modes)[-2]))


def _width(counts: Sequence[float]) -> float:
    """Of the kernel, in cells."""
    total = sum(counts)
    lower, upper = (_quantile(counts, share * total) for share in (0.25, 0.75))
    silverman = 0.9 * (upper - lower) / 1.34 / math.pow(total, 0.2)
    return max(LEAST_WIDTH_BUCKETS, NARROWER * silverman)


def _quantile(counts: Sequence[float], wanted: float) -> float:
    seen = 0.0
    for place, count in enumerate(counts):
        if seen + count >= wanted and count:
            return place + (wanted - seen) / count
        seen += count
    return float(len(counts))


def _median(counts: Sequence[float]) -> float:
    return _quantile(counts, sum(counts) / 2) - 0.5


def _density(counts: Sequence[float], width: float) -> list[float]:
    """Where samples are sparse the kernel is wider, by Abramson's square root law: with one width for all, every few
    samples of a tail would be a peak.
    """
    import numpy as np

    cells = len(counts)
    reach = min(math.ceil(3 * width), cells)
    kernel = np.exp(-((np.arange(-reach, reach + 1) / width) ** 2) / 2) / width
    weights = np.array(counts)
    places = np.flatnonzero(weights)
    weights, pilot = weights[places], np.convolve(weights, kernel)[reach : reach + cells][places]
    typical = np.exp(weights @ np.log(pilot) / weights.sum())
    widths = width * np.maximum(1.0, np.sqrt(typical / pilot))
    density = np.zeros(cells)
    for first in range(0, len(places), ROWS):
        part = slice(first, first + ROWS)
        wide = widths[part, None]
        reaches = np.minimum(np.ceil(3 * wide), cells)
        steps = np.arange(-reaches.max(), reaches.max() + 1, dtype=int)
        at = places[part, None] + steps
        there = (abs(steps) <= reaches) & (at >= 0) & (at < cells)
        spread = weights[part, None] / wide * np.exp(-((steps / wide) ** 2) / 2)
        density += np.bincount(at[there], spread[there], cells)
    found: list[float] = density.tolist()
    return found


def _valleys(density: Sequence[float]) -> list[int]:
    """Where the density is lowest between two peaks: the ends of what may be modes, both ends of all included."""
    valleys, falling, lowest = [0], False, 0
    for place in range(1, len(density)):
        if density[place] < density[place - 1]:
            falling, lowest = True, place
        elif density[place] > density[place - 1] and falling:
            valleys.append((lowest + place) // 2)  # in the middle of a flat one
            falling = False
    return [*valleys, len(density)]


def _merged(counts: Sequence[float], density: Sequence[float], bounds: list[int]) -> list[int]:
    """Without the valleys that are too shallow, the shallowest first, and then without parts that are too small."""
    kept = list(bounds)
    while len(kept) > 2:
        peaks = [max(density[start:stop]) for start, stop in pairwise(kept)]
        depths = [density[kept[i]] / min(peaks[i - 1], peaks[i]) for i in range(1, len(kept) - 1)]
        worst = max(range(len(depths)), key=depths.__getitem__)
        if depths[worst] < DEEPEST_VALLEY:
            break
        del kept[worst + 1]
    total = sum(counts)
    while len(kept) > 2:
        shares = [sum(counts[start:stop]) / total for start, stop in pairwise(kept)]
        least = min(range(len(shares)), key=shares.__getitem__)
        if shares[least] >= LEAST_SHARE:
            break
        # It goes to the side from which it is parted less.
        left = density[kept[least]] if least > 0 else -1.0
        right = density[kept[least + 1]] if least + 1 < len(shares) else -1.0
        del kept[least if left >= right else least + 1]
    return kept
