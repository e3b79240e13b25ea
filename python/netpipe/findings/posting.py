# SPDX-License-Identifier: Apache-2.0
"""What it costs to post a receive late: the difference between ping-pong, which posts each receive while its message is
on its way, and burst, which posts all receives before the clock starts. After Turner, Oline, Chen, Benjegerdes,
"Integrating New Capabilities into NetPIPE" (2003), section 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from netpipe.findings import NOTE, CannotJudge, Finding, examples, quantity, rule
from netpipe.reading import Reading
from netpipe.reading.estimate import Estimate, difference
from netpipe.reading.summary import latency_place
from netpipe.records import Run
from netpipe.units import size_text, time_text

ALL_POSTED, AS_THEY_COME = "burst", "pingpong"


@dataclass(frozen=True, slots=True)
class Posting:
    """The cost for one variant, at the size of its latency."""

    variant: str
    size_bytes: int
    pingpong_ns: Estimate
    cost_ns: Estimate  # below 0 if posting all at once is what costs

    @property
    def seen(self) -> bool:
        """Is it certain that there is a difference?"""
        return not self.cost_ns.covers(0)


def postings(reading: Reading) -> tuple[Posting, ...]:
    """One for each variant that was measured with both patterns, in one state of the machine."""
    made = []
    for (variant, pattern), curve in reading.by_name.items():
        posted = reading.by_name.get((variant, ALL_POSTED))
        if pattern != AS_THEY_COME or posted is None:
            continue
        place = latency_place(curve.points)
        mine = None if place is None else curve.points[place]
        theirs = posted.points.of_size(mine.size_bytes) if mine is not None else None
        if mine is not None and theirs is not None and mine.state == theirs.state:
            made.append(
                Posting(variant, mine.size_bytes, mine.time_ns, difference(mine.time_ns, theirs.time_ns))
            )
    return tuple(made)


@rule("posting-cost", "Cost of posting receives", needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """One finding for each variant; that no difference was seen is a result too."""
    found = postings(reading)
    if not found:
        raise CannotJudge("no variant was measured with both pingpong and burst")
    for one in found:
        yield Finding(
            severity=NOTE,
            variant=one.variant,
            pattern=AS_THEY_COME,
            size_bytes=one.size_bytes,
            what=_sentence(one),
            evidence={
                "cost": quantity(one.cost_ns, "ns"),
                "pingpong": quantity(one.pingpong_ns, "ns"),
            },
            certainty="A difference of two medians, with its 95 % interval if both have one.",
            cause="A message that arrives before its receive is posted must be kept and copied.",
        )


def _sentence(one: Posting) -> str:
    where = f"{one.variant} at {size_text(one.size_bytes)}"
    if not one.cost_ns.known:
        return (
            f"{where}: the cost of posting receives is not known; there are too few samples for an interval."
        )
    if not one.seen:
        return f"{where}: no cost of posting receives was seen; pingpong and burst take the same time."
    cost = one.cost_ns
    low, high = sorted((abs(cost.low), abs(cost.high)))
    return (
        f"{where}: posting receives before the clock starts makes a ping-pong {time_text(abs(cost.value))} "
        f"({time_text(low)} to {time_text(high)}) {'shorter' if cost.value > 0 else 'longer'}, of "
        f"{time_text(one.pingpong_ns.value)}."
    )


def fires() -> Run:
    return examples.run(examples.point("tcp", 8, 1000.0), examples.point("tcp", 8, 800.0, pattern=ALL_POSTED))


def silent() -> Run:
    return examples.run(examples.point("tcp", 8, 1000.0))
