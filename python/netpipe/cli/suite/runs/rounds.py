# SPDX-License-Identifier: Apache-2.0
"""All pairs of a fleet in as few rounds as there can be: in a round nobody is in two pairs, so all of its pairs are
measured at the same time, and N members need N - 1 rounds (N, if N is odd) instead of N (N - 1) / 2 turns.

The rounds are those of a round-robin tournament (a 1-factorisation of the complete graph; the circle method, Kirkman
1847): one member stays, the others move around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def rounds(members: Sequence[T]) -> list[list[tuple[T, T]]]:
    """Every pair once. With an odd number one sits out each round."""
    places: list[int | None] = list(range(len(members)))
    if len(places) % 2:
        places.append(None)
    found = []
    for _ in range(len(places) - 1):
        half = len(places) // 2
        pairs = zip(places[:half], reversed(places[half:]), strict=True)
        found.append(
            [
                (members[min(one, other)], members[max(one, other)])
                for one, other in pairs
                if one is not None and other is not None
            ]
        )
        places[1:] = [places[-1], *places[1:-1]]
    return [some for some in found if some]
