# SPDX-License-Identifier: Apache-2.0
"""Is a run worse than its baseline? A gate that fires on effect size and significance: a metric fails when its time is
longer by more than its limit, and its interval excludes 1. Where the interval reaches from 1 to beyond the limit the
run cannot tell.

All metrics are ratios of times, so 5 % means 1.05 times as long, also for throughput (a rate of 1 / 1.05).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from netpipe.reading.summary import LATENCY_BYTES, LATENCY_MOST_BYTES

if TYPE_CHECKING:
    from netpipe.reading.across.between import Between
    from netpipe.reading.blocks.verdicts import SizeVerdict
    from netpipe.reading.estimate import Estimate

# Metric -> what it is, in the order of the table.
METRICS = {
    "latency": "the time at 8 bytes, or at the smallest size up to 64",
    "throughput": "the time at the largest size",
    "all": "the mean over all sizes",
    "any": "every single size",
}


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
    limit: float  # 0.05: 5 %
    result: Result


def gate(
    found: Sequence[Between], slower: Mapping[str, float], faster: float | None = None
) -> tuple[Tested, ...]:
    """Each metric of each curve. slower: metric -> limit; a metric without one is not tested. faster: as a limit in the
    other direction, for who wants to hear of that too.
    """
    return tuple(tested for one in found for tested in _of_curve(one, slower, faster))


def _of_curve(one: Between, slower: Mapping[str, float], faster: float | None) -> Iterator[Tested]:
    def tested(metric: str, size: int | None, times: Estimate) -> Tested:
        limit = slower[metric]
        result = judged(times, limit, faster)
        return Tested(one.variant, one.pattern, metric, size, times, limit, result)

    latency = _latency(one.sizes)
    if "latency" in slower and latency is not None:
        yield tested("latency", latency.size_bytes, latency.times)
    if "throughput" in slower and one.sizes[-1] is not latency:
        yield tested("throughput", one.sizes[-1].size_bytes, one.sizes[-1].times)
    if "all" in slower:
        yield tested("all", None, one.overall)
    if "any" in slower:
        for at in one.sizes:
            yield tested("any", at.size_bytes, at.times)


def _latency(sizes: Sequence[SizeVerdict]) -> SizeVerdict | None:
    small = [at for at in sizes if 0 < at.size_bytes <= LATENCY_MOST_BYTES]
    return next((at for at in small if at.size_bytes == LATENCY_BYTES), small[0] if small else None)


def judged(times: Estimate, limit: float, faster: float | None) -> Result:
    """What one ratio of times comes to."""
    if not times.known:
        return Result.UNDECIDED
    if times.value > 1 + limit and times.low > 1:
        return Result.FAILED
    if faster is not None and 1 / times.value > 1 + faster and times.high < 1:
        return Result.BETTER
    return Result.PASSED if times.high <= 1 + limit else Result.UNDECIDED
