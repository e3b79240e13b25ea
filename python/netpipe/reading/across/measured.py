# SPDX-License-Identifier: Apache-2.0
"""Measures of patterns (loss, overlap, imbalance, ...) of a run against those of another one, at each size that both
have.

A share or ratio (unit "1") rises by a difference: a loss of 1 % that becomes 3 % rose by 0.02, whatever it was before,
which is 0 as a rule. Times and rates rise by a fraction of the value before.

The interval of a rise comes from how far the launches of both runs lie apart at this size, by Student's t with their
degrees of freedom together (blocks/launched.py). It is RUNS_APART times as wide, because runs differ by more than
launches do (between.py), and all intervals of one call hold together with 95 % (Bonferroni). Fewer than three launches
of a run do not tell how far launches lie apart: then a rise has no interval.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from netpipe.reading.across.between import RUNS_APART
from netpipe.reading.blocks.launched import of_launches, reach
from netpipe.reading.blocks.visits import FEWEST_LAUNCHES
from netpipe.reading.estimate import Estimate, unsure
from netpipe.reading.measures import estimate_of
from netpipe.records import Point, Run, Skipped

SHARE = "1"  # the unit of shares and ratios


class Key(NamedTuple):
    variant: str
    pattern: str
    measure: str
    size_bytes: int


Values = tuple[str, list[Estimate]]  # the unit, and what each launch says


@dataclass(frozen=True, slots=True)
class MeasureBetween:
    variant: str
    pattern: str
    name: str
    unit: str
    size_bytes: int
    before: Estimate  # in its unit, as the summary of a run has it
    now: Estimate
    rise: Estimate  # now less before: of shares and ratios as it is, of others over the value before


def in_both(
    base: Run, run: Run, variants: Collection[str] = (), patterns: Collection[str] = ()
) -> dict[Key, tuple[Values, Values]]:
    """What the launches of both runs say of each measure that both have at a size, of these variants and patterns
    (none: of all), by curve and rising size.
    """
    earlier, later = _by_launch(base), _by_launch(run)
    both = [
        key
        for key in earlier
        if key in later
        and (not variants or key.variant in variants)
        and (not patterns or key.pattern in patterns)
    ]
    order = {curve: place for place, curve in enumerate(dict.fromkeys(key[:3] for key in both))}
    both.sort(key=lambda key: (order[key[:3]], key.size_bytes))
    return {key: (earlier[key], later[key]) for key in both}


def measures_between(
    both: Mapping[Key, tuple[Values, Values]], names: Collection[str]
) -> tuple[MeasureBetween, ...]:
    """The measures of these names, whose intervals hold together."""
    chosen = {key: values for key, values in both.items() if key.measure in names}
    return tuple(_between(key, *values, len(chosen)) for key, values in chosen.items())


def _by_launch(run: Run) -> dict[Key, Values]:
    """Also of sizes that have no time in a launch, because every sample lost a message."""
    found: dict[Key, Values] = {}
    records: tuple[Point | Skipped, ...] = (*run.points, *run.skipped)
    for record in records:
        if record.pattern is None or record.size_bytes is None:
            continue
        for measure in record.measures:
            if (estimate := estimate_of(measure)) is not None:
                key = Key(record.variant, record.pattern, measure.name, record.size_bytes)
                found.setdefault(key, (measure.unit, []))[1].append(estimate)
    return found


def _between(key: Key, earlier: Values, later: Values, tests: int) -> MeasureBetween:
    unit, was = earlier
    _, is_ = later
    before, now = of_launches(was), of_launches(is_)
    scale = 1.0 if unit == SHARE else abs(before.value) or abs(now.value) or 1.0
    rise = (now.value - before.value) / scale
    far = _reach(was, is_, tests) / scale
    by = Estimate(rise, rise - far, rise + far) if math.isfinite(far) else unsure(rise)
    return MeasureBetween(key.variant, key.pattern, key.measure, unit, key.size_bytes, before, now, by)


def _reach(was: Sequence[Estimate], is_: Sequence[Estimate], tests: int) -> float:
    """How far the difference of the two may be off, one of so many; infinite where nobody knows."""
    both = was, is_
    if min(map(len, both)) < FEWEST_LAUNCHES:
        return math.inf
    return RUNS_APART * reach(both, tests) * math.sqrt(sum(1 / len(of) for of in both))
