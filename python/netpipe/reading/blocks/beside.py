# SPDX-License-Identifier: Apache-2.0
"""What a comparison of this run can tell: variants that were measured beside themselves.

`netpipe run tcp tcp` and `--aa` measure tcp and tcp#2. Their true ratio is 1 at every size. How far the measured ratios
lie from it is the smallest difference that this run could have seen between two variants, and of its 95 % intervals 95
in 100 should hold 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netpipe.reading.blocks.visits import TRUTH, Seen, estimates, paired
from netpipe.reading.curves import place_in_plan

if TYPE_CHECKING:
    from netpipe.records import Run


@dataclass(frozen=True, slots=True)
class Beside:
    """One curve beside itself. Differences are fractions of the time."""

    variant: str
    pattern: str
    sizes: int
    typical: float  # difference that half of the sizes stay within
    most: float  # and 90 % of them
    holds: float | None  # share of the intervals that contain 1; None: no size has an interval


def copies(run: Run) -> dict[str, str]:
    """Variants that are measured beside the one that they are a copy of."""
    return {one.variant: one.copy_of for plan in run.plans for one in plan.variants if one.copy_of}


def beside(run: Run, visits: Mapping[tuple[str, str], Seen]) -> tuple[Beside, ...]:
    """One for each curve of a copy, in the order of the plan."""
    copy_of = copies(run)
    found = []
    place = place_in_plan(run)
    for variant, pattern in sorted(visits, key=lambda name: place(*name)):
        original = copy_of.get(variant)
        theirs = visits.get((original, pattern)) if original else None
        if original is None or theirs is None:
            continue
        ratios = list(estimates(paired(visits[variant, pattern], theirs), TRUTH).values())
        if ratios:
            far = sorted(math.expm1(abs(math.log(one.value))) for one in ratios)
            known = [one.covers(1) for one in ratios if one.known]
            holds = sum(known) / len(known) if known else None
            found.append(Beside(original, pattern, len(far), _share(far, 0.5), _share(far, 0.9), holds))
    return tuple(found)


def _share(ordered: Sequence[float], part: float) -> float:
    """The smallest value that this part of them does not exceed."""
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]
