# SPDX-License-Identifier: Apache-2.0
"""The points of a run by curve, in columns: of hundreds of thousands of points, nothing is looked at twice."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from netpipe.reading.estimate import Bools, Estimates, Ints, Reals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netpipe.records import Point

NOT_RECORDED = -1  # a state of the machine
NOT_CONVERGED, NOT_KNOWN, CONVERGED = -1, 0, 1
SETTLED = {NOT_CONVERGED: False, NOT_KNOWN: None, CONVERGED: True}


class _Columns:
    """What points recorded, in their order. Most is asked only of runs that recorded no visits."""

    def __init__(self, points: Sequence[Point]) -> None:
        self._points = points

    def real(self, field: str) -> Reals:
        """What is not recorded (None) becomes not a number."""
        return np.array(list(map(attrgetter(field), self._points)), np.float64)

    def whole(self, field: str) -> Ints:
        return np.array(list(map(attrgetter(field), self._points)), np.int64)

    def has(self, field: str) -> Bools:
        return np.array(list(map(bool, map(attrgetter(field), self._points))), np.bool_)

    @cached_property
    def times(self) -> Estimates:
        """The median of an operation in ns. Without a half width (imported, or too few samples, where the limits in the
        record are minimum and maximum) there is no interval.
        """
        value, half, low, high = map(self.real, ("median_ns", "half_width", "low_ns", "high_ns"))
        known = ~(np.isnan(half) | np.isnan(low) | np.isnan(high))
        low, high = np.fmin(value, low), np.fmax(value, high)
        return Estimates(value, np.where(known, low, value), np.where(known, high, value), known)

    @cached_property
    def state(self) -> Ints:
        return np.array([NOT_RECORDED if one.state is None else one.state for one in self._points], np.int64)

    @cached_property
    def converged(self) -> Ints:
        said = {known: number for number, known in SETTLED.items()}
        return np.array([said[one.converged] for one in self._points], np.int64)


@dataclass(frozen=True)
class CurveRecords:
    """The points of one variant under one pattern, by rising size and launch: an entry each in every array."""

    points: Sequence[Point]
    size: Ints
    launch: Ints
    moved: Reals  # bytes in an operation, by the rate of the pattern; 0: there is no rate
    visited: Bools  # did it record its visits?
    verified: Bools  # was what arrived checked?
    has_measures: bool
    has_cells: bool
    _columns: _Columns
    _places: Ints  # in those

    @cached_property
    def first(self) -> Ints:
        """Where each size begins."""
        begins = np.ones(len(self.size), np.bool_)
        np.not_equal(self.size[1:], self.size[:-1], out=begins[1:])
        return np.flatnonzero(begins)

    @cached_property
    def times(self) -> Estimates:
        """The median of an operation in ns, as each point recorded it."""
        return self._columns.times.at(self._places)

    @cached_property
    def state(self) -> Ints:
        """Of the machine, by the worker's number, or NOT_RECORDED."""
        return self._columns.state[self._places]

    @cached_property
    def converged(self) -> Ints:
        """NOT_CONVERGED, NOT_KNOWN or CONVERGED: the least of several is that of all."""
        return self._columns.converged[self._places]


_NAME = attrgetter("variant", "pattern")

ByCurve = dict[tuple[str, str], CurveRecords]  # by variant and pattern


def by_curve(points: Sequence[Point]) -> ByCurve:
    """The curves in the order of their first point. A point that was measured again in the same launch (the machine had
    changed state) replaces the earlier one.
    """
    columns = _Columns(points)
    names: dict[tuple[str, str], int] = {}
    curve = np.array([names.setdefault(name, len(names)) for name in map(_NAME, points)], np.int64)
    size, launch = columns.whole("size_bytes"), columns.whole("launch")
    order = np.lexsort((launch, size, curve))  # equal ones stay in their order
    last = np.ones(len(order), bool)
    last[:-1] = np.any([key[order[1:]] != key[order[:-1]] for key in (curve, size, launch)], axis=0)
    order = order[last]

    moved = np.nan_to_num(columns.real("bytes_per_s")) * columns.real("median_ns")
    visited = np.array([p.visits is not None for p in points], np.bool_)
    measures, cells, verified = map(columns.has, ("measures", "cells", "verified_bytes"))
    bounds = np.searchsorted(curve[order], np.arange(len(names) + 1)).tolist()
    return {
        name: CurveRecords(
            [points[place] for place in here.tolist()],
            size[here],
            launch[here],
            moved[here],
            visited[here],
            verified[here],
            bool(measures[here].any()),
            bool(cells[here].any()),
            columns,
            here,
        )
        for name, here in zip(names, (order[a:b] for a, b in pairwise(bounds)), strict=True)
    }
