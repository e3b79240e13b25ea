# SPDX-License-Identifier: Apache-2.0
"""A size of a curve as one point: its numbers of the whole run, which tables, the terminal and the report show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from netpipe.reading import Reading
from netpipe.reading.curves import Curve, CurvePoint
from netpipe.records import Measure, Point

_Merge = Callable[[list[float]], float]
_OF_ALL: dict[str, _Merge] = {"min_ns": min, "max_ns": max, "samples": sum, "passes": sum}
# What the worker recorded of whole launches, with all states of the machine.
_OF_ALL_STATES = (
    *("min_ns", "max_ns", "mean_ns", "p90_ns", "p99_ns", "p999_ns", "p9999_ns"),
    *("samples", "passes", "stop"),
)


def point(at: CurvePoint) -> Point:
    """Its number over all launches, with the interval for the next run, and what they saw at the least and the most.
    What this does not name is of the launch whose median is nearest to that number.
    """
    several, time, rate = at.by_launch, at.time_ns, at.rate_bytes_per_s
    merged: dict[str, object] = {}
    if len(several) > 1:
        known = {name: [one for p in several if (one := getattr(p, name)) is not None] for name in _OF_ALL}
        merged |= {name: of(known[name]) if known[name] else None for name, of in _OF_ALL.items()}
        merged["mean_ns"] = at.mean_ns
        merged["stop"] = ", ".join(dict.fromkeys(p.stop for p in several if p.stop)) or None
        verified = [p.verified_bytes for p in several if p.verified_bytes]
        merged["verified_bytes"] = sum(verified) if len(verified) == len(several) else None
    return msgspec.structs.replace(
        at.shown,
        median_ns=time.value,
        low_ns=time.low if time.known else None,
        high_ns=time.high if time.known else None,
        half_width=time.half_width if time.known else None,
        bytes_per_s=rate.value if rate else None,
        converged=at.converged,
        histogram=None,
        visits=None,
        **merged,
    )


def together(several: Sequence[Point]) -> bool:
    """Do these launches of a size stand in one row? Not those of a run without visits (older, imported): their interval
    says nothing of the next run.
    """
    return not [one for one in several if one.visits is None]


def rows(curve: Curve) -> Iterator[tuple[CurvePoint, Point, bool]]:
    """The rows of its sizes, and whether a row is of the whole run: one for each size, or one for each launch as it was
    recorded. Of a curve in one state of the machine without what is of all states.
    """
    for at in curve.points:
        if not together(at.by_launch):
            for one in at.by_launch:
                yield at, one, False
            continue
        whole = point(at)
        if curve.one_state:
            whole = msgspec.structs.replace(whole, **dict.fromkeys(_OF_ALL_STATES))
        yield at, whole, True


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


def sizes(reading: Reading, of: Iterable[Point]) -> list[Point]:
    """`points` of all curves that these records belong to, in their order."""
    names = dict.fromkeys((one.variant, one.pattern) for one in of)
    return [one for name in names for one in points(reading, reading.by_name[name])]
