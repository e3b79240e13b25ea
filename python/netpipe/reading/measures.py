# SPDX-License-Identifier: Apache-2.0
"""What patterns measure besides the time of an operation, by size; and the few sizes that represent all."""

from __future__ import annotations

import math
from bisect import bisect
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING

from netpipe.reading.blocks.launched import of_launches
from netpipe.reading.estimate import Estimate, unsure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from netpipe.reading.curves import Curve
    from netpipe.records import Measure, Run, Skipped

LOSS = "loss"  # the share of messages that did not arrive, of a layer that may lose some

# a small message, a packet, a window, a large message
TYPICAL_BYTES = (8, 1 << 10, 64 << 10, 1 << 20)


@dataclass(frozen=True, slots=True)
class Measured:
    """One measure of one curve; `values` by rising size, with their intervals (blocks/launched.py)."""

    variant: str
    pattern: str
    name: str
    unit: str
    values: dict[int, Estimate]


def measures_of(curve: Curve, lost: Sequence[Skipped] = ()) -> tuple[Measured, ...]:
    """Every measure of a curve, in the order of the pattern. `lost`: what is known of its sizes that have no time in a
    launch (`lost_sizes`).
    """
    records = chain.from_iterable(point.by_launch for point in curve.points)
    if not lost and not any(map(attrgetter("measures"), records)):
        return ()
    said = {point.size_bytes: [record.measures for record in point.by_launch] for point in curve.points}
    return _measured(curve.variant, curve.pattern, said, lost)


def measures_of_lost(variant: str, pattern: str, lost: Sequence[Skipped]) -> tuple[Measured, ...]:
    """The same of a curve of which no size has a time."""
    return _measured(variant, pattern, {}, lost)


def lost_sizes(run: Run) -> dict[tuple[str, str], list[Skipped]]:
    """(variant, pattern) -> the records of its sizes that have no time in a launch, because every sample lost a
    message, with what was lost.
    """
    found: dict[tuple[str, str], list[Skipped]] = {}
    for one in run.skipped:
        if one.measures and one.pattern is not None and one.size_bytes is not None:
            found.setdefault((one.variant, one.pattern), []).append(one)
    return found


def _measured(
    variant: str, pattern: str, said: Mapping[int, list[list[Measure]]], lost: Sequence[Skipped]
) -> tuple[Measured, ...]:
    """`said`: by size what each launch says of it."""
    by_size = dict(said)
    for one in lost:
        if one.size_bytes is not None:
            by_size.setdefault(one.size_bytes, []).append(one.measures)
    found: dict[str, Measured] = {}
    for size in sorted(by_size):
        for name, (unit, estimate) in _merged(by_size[size]).items():
            found.setdefault(name, Measured(variant, pattern, name, unit, {})).values[size] = estimate
    return tuple(found.values())


def _merged(by_launch: Iterable[Iterable[Measure]]) -> dict[str, tuple[str, Estimate]]:
    said: dict[str, tuple[str, list[Estimate]]] = {}
    for measure in chain.from_iterable(by_launch):
        estimate = estimate_of(measure)
        if estimate is not None:
            said.setdefault(measure.name, (measure.unit, []))[1].append(estimate)
    return {name: (unit, of_launches(estimates)) for name, (unit, estimates) in said.items()}


def estimate_of(measure: Measure) -> Estimate | None:
    """What one launch says of a measure; None where it has no value, or none that can be compared."""
    if measure.median is None or not math.isfinite(measure.median):
        return None
    if measure.low is None or measure.high is None:
        return unsure(measure.median)
    return Estimate(measure.median, min(measure.low, measure.median), max(measure.high, measure.median))


def typical_sizes(sizes: Iterable[int]) -> tuple[int, ...]:
    """The sizes that represent all of these: those nearest to 8 B, 1 KiB, 64 KiB and 1 MiB."""
    there = sorted(set(sizes))
    nearest = {
        there[place] for wanted in TYPICAL_BYTES if (place := nearest_place(there, wanted)) is not None
    }
    return tuple(sorted(nearest))


def nearest_place(sizes: Sequence[int], wanted: int) -> int | None:
    """Where in these rising sizes the one stands that is nearest in log size."""
    place = bisect(sizes, wanted)
    beside = range(max(0, place - 1), min(len(sizes), place + 1))
    return min(beside, key=lambda at: abs(math.log2(max(sizes[at], 0.5) / wanted)), default=None)
