# SPDX-License-Identifier: Apache-2.0
"""Ranks, and pairs of ranks, with a time of their own: is one of them slower than the others by more than chance?

Of two nobody can tell which is the odd one. Of n that are alike, each is the slowest in 1/n of the samples. One stands
out if it is the slowest clearly more often (by four standard deviations of a binomial, and by a third of the way from
1/n to always) and if its median is a tenth above that of the others. It takes both how often and how much: with many
samples, the first alone finds differences that do not matter. Where the clocks of ranks are compared, it must also be
later by more than the clocks may be apart.

Of n ranks on several hosts, k of which are on one that is slow, each is the slowest in 1/k of the samples, and none
stands out. So hosts are judged as well, of ranks and of pairs that share a host: slow_hosts.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import attrgetter
from statistics import median
from typing import TYPE_CHECKING

from netpipe.reading.slow_hosts import slow_host
from netpipe.reading.standing_out import FEWEST, LEAST_SAMPLES, LEAST_TIMES, clear

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from netpipe.reading.curves import Curve
    from netpipe.records import Cell, Point

CLOCK_ERROR = "clock_error"  # the measure of patterns that compare the clocks of the ranks


@dataclass(frozen=True, slots=True)
class Slowest:
    """One rank (`peer` is None), pair or host that stands out at one size, or at several of a curve. Of a host, `rank`
    and `peer` are its slowest cell.
    """

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
    host: str | None = None  # that all of them are on; None: a rank or pair stands out by itself
    cells: int = 1  # number of ranks on the host, or of pairs with one rank there
    # that of hosts that are alike all cells of some host are slower than all others, at one size; None: not of a host
    chance: float | None = None


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
    large = others_ns > 0 and own_ns > LEAST_TIMES * others_ns and own_ns - others_ns > clock_error_ns
    return (worst, share, own_ns / others_ns) if clear(share, chance, samples) and large else None


def points_with_cells(curve: Curve, fewest: int = 1) -> list[Point]:
    """The records that have times of at least so many single ranks or pairs. Of several launches only the one shown
    counts: each may place the ranks anew.
    """
    some = (point for point in curve.points if any(map(_CELLS, point.by_launch)))
    return [shown for point in some if len((shown := point.shown).cells) >= fewest]


_CELLS = attrgetter("cells")


def slowest_of(curve: Curve, hosts: Mapping[int, str | None] | None = None) -> tuple[Slowest, ...]:
    """Whatever stands out at any size of a curve, at most sizes first; a host before one of its ranks or pairs.
    `hosts`: of the ranks, as far as they are known; without them no host is judged.
    """
    points = points_with_cells(curve)
    found: dict[tuple[int, int | None] | str, list[Slowest]] = {}
    for point in points:
        slow = slow_host(point.cells, hosts, _clock_error(point)) if hosts else None
        if slow is not None:
            found.setdefault(slow.host, []).append(
                Slowest(
                    variant=curve.variant,
                    pattern=curve.pattern,
                    rank=slow.worst.rank,
                    peer=slow.worst.peer,
                    of=slow.of,
                    size_bytes=point.size_bytes,
                    share=slow.share,
                    times=slow.times,
                    sizes=1,
                    all_sizes=len(points),
                    host=slow.host,
                    cells=slow.cells,
                    chance=slow.chance,
                )
            )
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
    ordered = sorted(found.values(), key=lambda each: (len(each), each[0].host is not None), reverse=True)
    return tuple(replace(at_sizes[0], sizes=len(at_sizes)) for at_sizes in ordered)


def _clock_error(point: Point) -> float:
    return next((m.median or 0.0 for m in point.measures if m.name == CLOCK_ERROR), 0.0)
