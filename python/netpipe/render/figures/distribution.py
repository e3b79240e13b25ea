# SPDX-License-Identifier: Apache-2.0
"""How the times of one size are distributed: a histogram over logarithmic time, with its percentiles and modes."""

from __future__ import annotations

import math
from itertools import islice

import numpy as np

from netpipe.reading import Reading
from netpipe.reading.curves import CurvePoint
from netpipe.records import Histogram
from netpipe.render.drawing.picture import Distribution, Panel, View
from netpipe.render.drawing.scope import Scope
from netpipe.render.figures import figure
from netpipe.units import percent_text, size_text, time_text

MOST_BUCKETS = 120
MOST_COUNTED = 2.0**53  # what a damaged file says beyond it has no whole number
TYPICAL_BYTES = 8  # the size that is shown unless another is chosen


@figure(
    "distribution of times at one size (--size, else the one nearest to 8 B)",
    "curves",
    place=9,
    options=("size",),
)
def panels(scope: Scope) -> list[Panel]:
    views: list[View] = []
    for member in scope.members:
        there = {point.size_bytes: point for point in member.curve.points}
        nearest = sorted(there, key=lambda size: abs(math.log2(max(size, 0.5) / TYPICAL_BYTES)))
        chosen = [size for size in scope.sizes if size in there] if scope.sizes else nearest
        drawn = (
            of_point(
                member.reading,
                there[size],
                f"{scope.label(member)}, {size_text(size)}",
                scope.color(member.variant),
                True,
            )
            for size in chosen
        )
        views += islice((one for one in drawn if one is not None), None if scope.sizes else 1)
    if not views:
        raise scope.nothing("no distribution was recorded for the chosen curves and sizes")
    return [Panel("Distribution of times", tuple(views))]


def of_point(
    reading: Reading, at: CurvePoint, label: str, color: int, say_modes: bool, buckets: int = MOST_BUCKETS
) -> Distribution | None:
    """Launches are not mixed: it is the launch whose median is the one shown, or nearest to it. None if the record has
    no histogram.
    """
    histogram = _histogram(at)
    if histogram is None:
        return None
    point = at.shown
    marks = [
        ("median", point.median_ns),
        ("p90", point.p90_ns),
        ("p99", point.p99_ns),
        ("p99.9", point.p999_ns),
        ("p99.99", point.p9999_ns),
    ]
    modes = reading.modes_of(point) if say_modes else ()
    batches = f"batches of {point.ops} operations" if point.ops else "batches"
    low, count, factor = coarser(histogram, buckets)
    return Distribution(
        label=label,
        color=color,
        low_ns=low,
        count=count,
        factor=factor,
        what="operations" if point.single else batches,
        marks=tuple((name, value) for name, value in marks if value is not None and value > 0),
        modes=tuple(f"{time_text(mode.at_ns)} ({percent_text(mode.share)})" for mode in modes)
        if len(modes) > 1
        else (),
    )


def _histogram(point: CurvePoint) -> Histogram | None:
    found = point.shown.distribution()
    return found if found is not None and any(found.count) and any(low > 0 for low in found.low_ns) else None


def coarser(histogram: Histogram, most: int) -> tuple[tuple[float, ...], tuple[int, ...], float]:
    """The distribution in at most so many buckets of one width in log time: lower edges in ns, counts, and the width
    as a factor.
    """
    number = min(len(histogram.low_ns), len(histogram.count))
    low, count = (np.array(of[:number], np.float64) for of in (histogram.low_ns, histogram.count))
    known = (low > 0) & np.isfinite(low)
    if not known.any():
        return (), (), 1.0
    edges = np.log(low[known])
    first, last = float(edges.min()), float(edges.max())
    width = max(
        math.log1p(histogram.resolution or 0.01), (last - first) / (most - 1) if most > 1 else math.inf
    )
    there = known & (count > 0)
    cells = ((np.log(low[there]) - first) / width + 1e-9).astype(np.int64)
    counts = np.minimum(np.bincount(cells, count[there]), MOST_COUNTED)
    places = np.flatnonzero(counts)
    return (
        tuple(np.exp(first + places * width).tolist()),
        tuple(counts[places].astype(np.int64).tolist()),
        math.exp(width),
    )
