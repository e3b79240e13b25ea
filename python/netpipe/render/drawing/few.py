# SPDX-License-Identifier: Apache-2.0
"""What is drawn of a run that has more curves or points than anybody can tell apart, or mail: the curves whose times
differ most, and sizes spread evenly over each. Tables and sentences say how many were left out.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from netpipe.reading.curves import Curve, CurvePoints
from netpipe.reading.measures import TYPICAL_BYTES, nearest_place
from netpipe.reading.models.peak import peak_place
from netpipe.reading.summary import latency_place

ALL_UP_TO = 240  # curves: a run with more is drawn in part
MOST_CURVES = 48  # of such a run: nobody tells more apart
ALL_POINTS_UP_TO = 30_000  # of the curves that are drawn: of more, sizes are left out
MOST_POINTS = 12_000  # then
FEWEST_SIZES = 32  # of a curve
# curves of one pattern that a figure begins with: as many names as fit beside each other
MOST_FIRST = 14

Name = TypeVar("Name", bound=Hashable)


def differing(groups: Sequence[Mapping[Name, CurvePoints]]) -> set[Name]:
    """The names of the curves to draw, of each group as many as of the others."""
    if sum(map(len, groups)) <= ALL_UP_TO:
        return {name for group in groups for name in group}
    most = max(1, MOST_CURVES // len(groups))
    return {name for group in groups[:MOST_CURVES] for name in _farthest(group, most)}


def first(curves: Mapping[Name, CurvePoints], chains: Collection[Name]) -> set[Name]:
    """Of the curves of one pattern the names of those to look at before all others: those of the chains of layers that
    differ most, then of the others those that differ most.
    """
    if len(curves) <= MOST_FIRST:
        return set(curves)
    found: list[Name] = []
    for of_chains in (True, False):
        some = {name: points for name, points in curves.items() if (name in chains) is of_chains}
        found += _farthest(some, MOST_FIRST - len(found)) if some else []
    return set(found)


def _farthest(curves: Mapping[Name, CurvePoints], most: int) -> list[Name]:
    """The first curve, and then again and again the one that is farthest from all before it (T. F. Gonzalez,
    "Clustering to minimize the maximum intercluster distance", 1985). Two curves are as far apart as the factor between
    their times at the typical size where it is largest.
    """
    names = list(curves)
    times = np.array([_times(points) for points in curves.values()])
    apart = np.full(len(names), math.inf)
    chosen: list[Name] = []
    while len(chosen) < min(most, len(names)):
        place = int(apart.argmax())
        chosen.append(names[place])
        apart = np.minimum(apart, np.abs(times - times[place]).max(axis=1))
        apart[place] = -1.0
    return chosen


def _times(points: CurvePoints) -> tuple[float, ...]:
    """The logarithms of the times at the sizes nearest to the typical ones; 0 where there is no time above 0."""
    sizes = points.size.tolist()
    found = []
    for wanted in TYPICAL_BYTES:
        nearest = nearest_place(sizes, wanted)
        time = 0.0 if nearest is None else float(points.times.value[nearest])
        found.append(math.log(time) if time > 0 else 0.0)
    return tuple(found)


def with_few_points(curves: Sequence[Curve]) -> list[Curve]:
    """The curves, if they have too many points with as many as are the share of each: spread evenly from the first size
    to the last, with those of latency and peak among them.
    """
    if sum(len(curve.points) for curve in curves) <= ALL_POINTS_UP_TO:
        return list(curves)
    most = max(FEWEST_SIZES, MOST_POINTS // len(curves))
    return [replace(curve, points=_spread(curve.points, most)) for curve in curves]


def _spread(points: CurvePoints, most: int) -> CurvePoints:
    if len(points) <= most:
        return points
    step = (len(points) - 1) / (most - 1)
    kept = {round(place * step) for place in range(most)}
    named = {place for place in (latency_place(points), peak_place(points)) if place is not None}
    return points.at(np.array(sorted(kept | named)))
