# SPDX-License-Identifier: Apache-2.0
"""Where a curve steps: two sizes that lie close together and take different times. Below and above such a threshold a
library does something else: it changes its protocol, its way of copying, or the cache no longer holds the message.

An adaptive schedule halves the sizes around a step until it is known to a sixteenth of an octave. Other schedules show
a step only where two of their sizes are that close.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from netpipe.reading.blocks.visits import TRUTH, Seen, estimates, seen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netpipe.reading.curves import Curve
    from netpipe.reading.estimate import Estimate

CLOSE = 2 ** (1.1 / 16)  # sizes within this factor are close: a sixteenth of an octave, rounded to bytes
SMALLEST_BYTES = 64  # below, the next size is more than that away
LEAST = 0.05  # a smaller step is not worth a word


@dataclass(frozen=True, slots=True)
class Step:
    variant: str
    pattern: str
    below_bytes: int
    above_bytes: int  # the step is between these two
    times: Estimate  # the time above over that below


def steps(curve: Curve) -> tuple[Step, ...]:
    """All steps of a curve, by rising size. Together they are certain to 95 %."""
    close = [
        (a, b)
        for a, b in pairwise(curve.points)
        if a.size_bytes >= SMALLEST_BYTES and b.size_bytes <= CLOSE * a.size_bytes
    ]
    ratios: dict[int, list[Seen]] = {}
    for a, b in close:
        below, above = seen(a.by_launch), seen(b.by_launch)
        if below and above:
            ratios[b.size_bytes] = _in_turn(below, above)
    made = estimates(ratios, TRUTH, tests=max(1, len(ratios)))
    return tuple(
        Step(curve.variant, curve.pattern, a.size_bytes, b.size_bytes, times)
        for a, b in close
        if (times := made.get(b.size_bytes)) is not None
        and times.known
        and (times.low > (1 + LEAST) * b.size_bytes / a.size_bytes or times.high < 1 - LEAST)
    )


def _in_turn(below: Sequence[Seen], above: Sequence[Seen]) -> list[Seen]:
    """The first visits of a launch against each other, the second ones, and so on: each is of the same pass."""
    by_launch: dict[int, tuple[list[Seen], list[Seen]]] = {}
    for place, visits in enumerate((below, above)):
        for one in visits:
            by_launch.setdefault(one.launch, ([], []))[place].append(one)
    return [
        b._replace(log=b.log - a.log)
        for lower, upper in by_launch.values()
        for a, b in zip(lower, upper, strict=False)
    ]


def nearest_power(step: Step) -> int | None:
    """The power of two between the two sizes, which is what thresholds usually are; None: there is none."""
    power = 2 ** math.floor(math.log2(step.above_bytes))
    return power if step.below_bytes <= power else None
