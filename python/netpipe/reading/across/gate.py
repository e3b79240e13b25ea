# SPDX-License-Identifier: Apache-2.0
"""Is a run worse than its baseline? A gate that fires on effect size and significance: a metric fails when its time is
longer by more than its limit, and its interval excludes 1. Where the interval reaches from 1 to beyond the limit the
run cannot tell.

All metrics are ratios of times, so 5 % means 1.05 times as long, also for throughput (a rate of 1 / 1.05). Measures of
patterns are gated in the same way, by how much they rose or fell (measured.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from netpipe.reading.estimate import Estimate
from netpipe.reading.summary import LATENCY_BYTES, LATENCY_MOST_BYTES

if TYPE_CHECKING:
    from netpipe.reading.across.between import Between
    from netpipe.reading.across.measured import MeasureBetween
    from netpipe.reading.blocks.verdicts import SizeVerdict

# Metric -> what it is, in the order of the table.
METRICS = {
    "latency": "the time at 8 bytes, or at the smallest size up to 64",
    "throughput": "the time at the largest size",
    "all": "the mean over all sizes",
    "any": "every single size",
}
MORE, LESS = "more", "less"  # of which a measure is worse


class Result(Enum):
    PASSED = "passed"
    FAILED = "failed"
    BETTER = "faster than the limit allows"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Tested:
    variant: str
    pattern: str
    metric: str
    size_bytes: int | None  # None: of several sizes
    times: Estimate
    limit: float | None  # 0.05: 5 %; None: it is only tested whether it is faster
    result: Result


@dataclass(frozen=True, slots=True)
class TestedMeasure:
    variant: str
    pattern: str
    measure: str
    unit: str
    size_bytes: int
    before: Estimate  # in the baseline, in its unit
    now: Estimate
    worse: Estimate  # by how much: of the unit "1" as it is, of others as a fraction of the baseline's value
    limit: float | None  # as that of `worse`; None: it is only tested whether it is better
    result: Result


def gate(
    found: Sequence[Between], slower: Mapping[str, float], faster: Mapping[str, float] | None = None
) -> tuple[Tested, ...]:
    """Each metric of each curve. slower: metric -> limit; faster: the same in the other direction, for who wants to
    hear of that too. A metric that neither names is not tested.
    """
    return tuple(tested for one in found for tested in _of_curve(one, slower, faster or {}))


def gate_measures(
    found: Sequence[MeasureBetween],
    worse: Mapping[str, str | None],
    limits: Mapping[str, float],
    better: Mapping[str, float] | None = None,
) -> tuple[TestedMeasure, ...]:
    """The same of measures at each size. worse: measure -> MORE or LESS, of which it is worse."""
    tested = []
    for one in found:
        limit, other = limits.get(one.name), (better or {}).get(one.name)
        by = one.rise if worse[one.name] == MORE else one.rise.negative()
        tested.append(
            TestedMeasure(
                one.variant,
                one.pattern,
                one.name,
                one.unit,
                one.size_bytes,
                one.before,
                one.now,
                by,
                limit,
                _outcome(by, by.negative(), limit, other),
            )
        )
    return tuple(tested)


def _of_curve(one: Between, slower: Mapping[str, float], faster: Mapping[str, float]) -> Iterator[Tested]:
    wanted = {*slower, *faster}

    def tested(metric: str, size: int | None, times: Estimate) -> Tested:
        limit = slower.get(metric)
        result = judged(times, limit, faster.get(metric))
        return Tested(one.variant, one.pattern, metric, size, times, limit, result)

    latency = _latency(one.sizes)
    if "latency" in wanted and latency is not None:
        yield tested("latency", latency.size_bytes, latency.times)
    if "throughput" in wanted and one.sizes[-1] is not latency:
        yield tested("throughput", one.sizes[-1].size_bytes, one.sizes[-1].times)
    if "all" in wanted:
        yield tested("all", None, one.overall)
    if "any" in wanted:
        for at in one.sizes:
            yield tested("any", at.size_bytes, at.times)


def _latency(sizes: Sequence[SizeVerdict]) -> SizeVerdict | None:
    small = [at for at in sizes if 0 < at.size_bytes <= LATENCY_MOST_BYTES]
    return next((at for at in small if at.size_bytes == LATENCY_BYTES), small[0] if small else None)


def judged(times: Estimate, limit: float | None, faster: float | None) -> Result:
    """What one ratio of times comes to."""
    longer = Estimate(times.value - 1, times.low - 1, times.high - 1, times.known)
    shorter = Estimate(
        1 / times.value - 1, 1 / times.high - 1, 1 / times.low - 1 if times.low > 0 else math.inf, times.known
    )
    return _outcome(longer, shorter, limit, faster)


def _outcome(worse: Estimate, better: Estimate, limit: float | None, other: float | None) -> Result:
    """By how much something is worse, and by how much it is better, against a limit for each."""
    if not worse.known:
        return Result.UNDECIDED
    if limit is not None and worse.value > limit and worse.low > 0:
        return Result.FAILED
    if other is not None and better.value > other and better.low > 0:
        return Result.BETTER
    if limit is None:
        return Result.PASSED if other is None or better.high <= other else Result.UNDECIDED
    return Result.PASSED if worse.high <= limit else Result.UNDECIDED
