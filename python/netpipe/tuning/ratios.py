# SPDX-License-Identifier: Apache-2.0
"""From a run to the scores of its variants: each against the one that it is compared with, within the same blocks.

The statistics are those of every comparison (reading/blocks/visits.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from netpipe.reading.blocks.visits import TRUTH, Seen, estimates, paired, seen
from netpipe.reading.columns.by_curve import by_curve
from netpipe.reading.estimate import Estimate
from netpipe.records import Run
from netpipe.tuning.goals import Goal, Place

LEAST_GAIN = 1.02  # times as fast: what is less is not worth a setting


@dataclass(frozen=True)
class Scores:
    """Of one run. Ratios are times: below 1 is faster than the reference."""

    of: Mapping[str, Estimate]  # by variant, over the goal; those that have all its places
    places: Mapping[str, Mapping[Place, Estimate]]  # by variant, at each place
    times_ns: Mapping[Place, float]  # of the reference


def scores(
    run: Run, reference: str, patterns: Sequence[str], goal: Goal, places: Sequence[Place], tests: int = 1
) -> Scores:
    """`patterns` as they were asked for. Of `tests` variants the scores hold together with 95 %."""
    visits = _visits(run, patterns)
    base = {pattern: of for (variant, pattern), of in visits.items() if variant == reference}
    times = {
        (pattern, size): math.exp(one)
        for pattern, of in base.items()
        for size, one in _middles(of).items()
        if (pattern, size) in places
    }
    found: dict[str, dict[Place, Estimate]] = {}
    for (variant, pattern), of in visits.items():
        if variant == reference or pattern not in base:
            continue
        for size, ratio in estimates(paired(of, base[pattern]), TRUTH, tests).items():
            if (pattern, size) in times:
                found.setdefault(variant, {})[pattern, size] = ratio
    whole = {
        variant: score
        for variant, ratios in found.items()
        if set(ratios) == set(times) and (score := goal.score(ratios, times)) is not None
    }
    return Scores(whole, found, times)


def _visits(run: Run, patterns: Sequence[str]) -> dict[tuple[str, str], Seen]:
    """By variant and pattern as it was asked for; the record writes it in its own way."""
    given = dict(zip(run.plans[0].patterns, patterns, strict=False)) if run.plans else {}
    return {
        (variant, given.get(pattern, pattern)): seen(records)
        for (variant, pattern), records in by_curve(run.points).items()
    }


def _middles(of: Seen) -> dict[int, float]:
    return {size: math.log(one.value) for size, one in estimates(of, TRUTH).items()}


def chained(upper: Estimate, lower: Estimate) -> Estimate:
    """The ratio of A to C from those of A to B and of B to C, taken in different runs."""
    from netpipe.reading.estimate import ratio

    return ratio(upper, lower.inverse())


@dataclass(frozen=True)
class Verdict:
    """Whether settings gain anything."""

    times_as_fast: Estimate
    floor: float  # times as fast: the most that the start beside itself shows in the same run

    @property
    def gains(self) -> bool:
        return self.times_as_fast.known and self.times_as_fast.low > max(self.floor, LEAST_GAIN)

    @property
    def loses(self) -> bool:
        return self.times_as_fast.known and self.times_as_fast.high < 1


def verdict(score: Estimate, copy: Estimate | None, shown: Iterable[Estimate] = ()) -> Verdict:
    """`copy`: the start beside itself, and `shown` the same at each place: how far these measured ratios lie from 1 is
    what the run takes for a difference where there is none (reading/blocks/beside.py). Without a copy that has an
    interval nothing is a gain.
    """
    if copy is None or not copy.known:
        return Verdict(score.inverse(), math.inf)
    return Verdict(score.inverse(), max(max(one.value, 1 / one.value) for one in (copy, *shown)))
