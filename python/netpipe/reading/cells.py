# SPDX-License-Identifier: Apache-2.0
"""Ranks, and pairs of ranks, with a time of their own: is one of them slower than the others by more than chance?

Of two nobody can tell which is the odd one. Of n that are alike, each is the slowest in 1/n of the samples. One stands
out if it is the slowest clearly more often (by four standard deviations of a binomial, and by a third of the way from
1/n to always) and if its median is a tenth above that of the others. It takes both how often and how much: with many
samples, the first alone finds differences that do not matter. Where the clocks of ranks are compared, it must also be
later by more than the clocks may be apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from operator import attrgetter
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netpipe.reading.curves import Curve
    from netpipe.records import Cell, Point

FEWEST = 3
LEAST_SAMPLES = 20
LEAST_DEVIATIONS = 4.0
LEAST_EXCESS = 1 / 3  # of the way from chance to always
LEAST_TIMES = 1.1  # the median of the others
CLOCK_ERROR = "clock_error"  # the measure of patterns that compare the clocks of the ranks


@dataclass(frozen=True, slots=True)
class Slowest:
    """One rank (`peer` is None) or pair that stands out at one size, or at several of a curve."""

    variant: str
    pattern: str
    rank: int
    peer: int | None
    of: int  # number of ranks or pairs
    size_bytes: int  # the smallest at which it stands out; share and times are those there
    share: float  # of the samples in which it was the slowest
    times: float  # its median over the median of the others
    sizes: int  # number of sizes at which it stands out
    all_sizes: int


def slowest_cell(cells: Sequence[Cell], clock_error_ns: float = 0.0) -> tuple[Cell, float, float] | None:
    """The cell that stands out, the share of samples in which it was the slowest, and its median over that of the
    others; None if none does.
    """
    known = [(cell.median_ns, cell) for cell in cells if cell.median_ns is not None]
    samples = sum(cell.slowest or 0 for cell in cells)
    if len(known) < FEWEST or samples < LEAST_SAMPLES:
        return None
    own_ns, worst = max(known, key=lambda one: ((one[1].slowest or 0), one[0]))
    others_ns = median(time_ns for time_ns, cell in known if cell is not worst)
    chance = 1 / len(known)
    share = (worst.slowest or 0) / samples
    deviation = math.sqrt(chance * (1 - chance) / samples)
    clear = share > chance + LEAST_DEVIATIONS * deviation and share > chance + LEAST_EXCESS * (1 - chance)
    large = others_ns > 0 and own_ns > LEAST_TIMES * others_ns and own_ns - others_ns > clock_error_ns
    return (worst, share, own_ns / others_ns) if clear and large else None


def points_with_cells(curve: Curve, fewest: int = 1) -> list[Point]:
    """The records that have times of at least so many single ranks or pairs. Of several launches only the one shown
    counts: each may place the ranks anew.
    """
    some = (point for point in curve.points if any(map(_CELLS, point.by_launch)))
    return [shown for point in some if len((shown := point.shown).cells) >= fewest]


_CELLS = attrgetter("cells")


def slowest_of(curve: Curve) -> tuple[Slowest, ...]:
    """Whatever stands out at any size of a curve, at most sizes first."""
    points = points_with_cells(curve)
    found: dict[tuple[int, int | None], list[Slowest]] = {}
    for point in points:
        standing_out = slowest_cell(point.cells, _clock_error(point))
        if standing_out is not None:
            cell, share, times = standing_out
            found.setdefault((cell.rank, cell.peer), []).append(
                Slowest(
                    variant=curve.variant,
                    pattern=curve.pattern,
                    rank=cell.rank,
                    peer=cell.peer,
                    of=len(point.cells),
                    size_bytes=point.size_bytes,
                    share=share,
                    times=times,
                    sizes=1,
                    all_sizes=len(points),
                )
            )
    ordered = sorted(found.values(), key=len, reverse=True)
    return tuple(replace(at_sizes[0], sizes=len(at_sizes)) for at_sizes in ordered)


def _clock_error(point: Point) -> float:
    return next((m.median or 0.0 for m in point.measures if m.name == CLOCK_ERROR), 0.0)
