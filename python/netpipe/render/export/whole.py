# SPDX-License-Identifier: Apache-2.0
"""A size of a curve as one point: its numbers of the whole run, which tables and the report show."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from netpipe.reading import Reading
from netpipe.reading.curves import Curve, CurvePoint
from netpipe.records import Measure, Point

_OF_ALL: dict[str, Callable[[list[float]], float]] = {"min_ns": min, "max_ns": max, "samples": sum}


def point(at: CurvePoint) -> Point:
    """Its number over all launches, with the interval for the next run, and what they saw at the least and the most.
    What this does not name is of the first launch alone.
    """
    several, time = at.by_launch, at.time_ns
    known = {name: [one for p in several if (one := getattr(p, name)) is not None] for name in _OF_ALL}
    return msgspec.structs.replace(
        several[0],
        median_ns=time.value,
        low_ns=time.low if time.known else None,
        high_ns=time.high if time.known else None,
        half_width=time.half_width if time.known else None,
        bytes_per_s=at.rate_bytes_per_s.value if at.rate_bytes_per_s else None,
        mean_ns=at.mean_ns,
        converged=at.converged,
        **{name: of(known[name]) if known[name] else None for name, of in _OF_ALL.items()},
    )


def points(reading: Reading, curve: Curve) -> list[Point]:
    """The sizes of a curve of this run, with the measures of its pattern over all launches."""
    measured = reading.measures_of(curve)
    made = []
    for at in curve.points:
        of_size = [(one, one.values[at.size_bytes]) for one in measured if at.size_bytes in one.values]
        measures = [
            Measure(
                name=one.name,
                unit=one.unit,
                median=value.value,
                low=value.low if value.known else None,
                high=value.high if value.known else None,
            )
            for one, value in of_size
        ]
        made.append(msgspec.structs.replace(point(at), measures=measures))
    return made
