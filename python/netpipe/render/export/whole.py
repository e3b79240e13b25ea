# SPDX-License-Identifier: Apache-2.0
"""A size of a curve as one point: its number of the whole run, which tables and the report show."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from netpipe.reading.curves import CurvePoint
from netpipe.records import Point

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
