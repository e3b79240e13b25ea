# SPDX-License-Identifier: Apache-2.0
"""All pairs of a fleet in as few rounds as there can be: in a round nobody is in two pairs, so all of its pairs are
measured at the same time, and N members need N - 1 rounds (N, if N is odd) instead of N (N - 1) / 2 turns.

The rounds are those of a round-robin tournament (a 1-factorisation of the complete graph; the circle method, Kirkman
1847): one member stays, the others move around it. Of a large fleet only some rounds are measured, in which each member
meets as many others, near and far.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

GOLDEN = 0.618  # of a circle: steps of this part of it come nowhere twice for long


def rounds(members: Sequence[T], most: int | None = None) -> list[list[tuple[T, T]]]:
    """Every pair once, or `most` rounds of them. With an odd number one sits out each round."""
    places: list[int | None] = list(range(len(members)))
    if len(places) % 2:
        places.append(None)
    half, circle = len(places) // 2, places[1:]
    found = []
    for turn in _turns(len(circle), most):
        moved = [*places[:1], *circle[len(circle) - turn :], *circle[: len(circle) - turn]]
        pairs = zip(moved[:half], reversed(moved[half:]), strict=True)
        found.append(
            [
                (members[min(one, other)], members[max(one, other)])
                for one, other in pairs
                if one is not None and other is not None
            ]
        )
    return [some for some in found if some]


def _turns(whole: int, most: int | None) -> list[int]:
    """How far the circle has moved in each round. Some are spread over all of them by a step that shares no divisor
    with their number, so that the pairs of two of them already connect all members.
    """
    if most is None or most >= whole:
        return list(range(whole))
    step = next(one for one in range(round(GOLDEN * whole), 0, -1) if math.gcd(one, whole) == 1)
    return sorted(number * step % whole for number in range(most))
