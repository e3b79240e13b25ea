# SPDX-License-Identifier: Apache-2.0
"""Is one host among many slower than the others, by the times of its ranks, or of the pairs that have a rank on it?

One of three hosts or more stands out if each of its ranks is slower than every rank of another host and a tenth above
their median, and if the slowest of all is on it clearly more often than its number of ranks explains (as of one rank:
standing_out.py). Of n ranks that are alike, all k of some one of H hosts are the k slowest with a probability of at
most H / C(n, k), whatever the distribution of their times: 0.22 % of 16 ranks on four hosts. With few ranks on a host
that says little, and how often the slowest is there has to say it: by four standard deviations, as of one rank.

Of pairs those between hosts count: within the slow host, messages do not go over what is slow. If all pairs of a host
are with one and the same other host, nobody can tell which of the two it is, and no host is named.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from netpipe.reading.standing_out import FEWEST, LEAST_SAMPLES, LEAST_TIMES, clear

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from netpipe.records import Cell

LEAST_CELLS = 2  # of a host: one by itself is a slow rank or pair


@dataclass(frozen=True, slots=True)
class SlowHost:
    """A host that stands out at one size."""

    host: str
    cells: int  # ranks on it, or pairs with one rank on it
    of: int  # number of ranks, or of pairs between hosts
    worst: Cell  # the slowest of its cells
    share: float  # of the samples in which one of its cells was the slowest
    times: float  # the median of its cells over that of the others
    chance: float  # at most, that of hosts that are alike all cells of some host are slower than all others


@dataclass(frozen=True, slots=True)
class _Placed:
    cell: Cell
    time_ns: float
    ends: frozenset[str]  # the hosts of its ranks


def slow_host(
    cells: Sequence[Cell], hosts: Mapping[int, str | None], clock_error_ns: float = 0.0
) -> SlowHost | None:
    """The host that stands out; None if none does. `hosts`: of the ranks. `clock_error_ns`: how far the clocks of ranks
    may be apart, where they were compared.
    """
    placed = _placed(cells, hosts)
    all_hosts = {host for one in placed for host in one.ends}
    samples = sum(one.cell.slowest or 0 for one in placed)
    if len(all_hosts) < FEWEST or samples < LEAST_SAMPLES:
        return None
    worst = max(placed, key=lambda one: one.time_ns)
    for host in sorted(worst.ends):  # all of its cells are the slowest, so this one is among them
        own = [one for one in placed if host in one.ends]
        others = [one for one in placed if host not in one.ends]
        partners = frozenset.intersection(*(one.ends for one in own)) - {
            host
        }  # that all of its pairs are with
        if len(own) < LEAST_CELLS or not others or partners:
            continue
        least_ns, usual_ns = min(one.time_ns for one in own), median(one.time_ns for one in others)
        share = sum(one.cell.slowest or 0 for one in own) / samples
        large = least_ns > LEAST_TIMES * usual_ns > 0 and least_ns - usual_ns > clock_error_ns
        apart = least_ns > max(one.time_ns for one in others)
        if large and apart and clear(share, len(own) / len(placed), samples):
            return SlowHost(
                host=host,
                cells=len(own),
                of=len(placed),
                worst=worst.cell,
                share=share,
                times=median(one.time_ns for one in own) / usual_ns,
                chance=min(1.0, len(all_hosts) / math.comb(len(placed), len(own))),
            )
    return None


def _placed(cells: Sequence[Cell], hosts: Mapping[int, str | None]) -> list[_Placed]:
    """The cells with times whose hosts are known; of pairs, those between hosts."""
    found = []
    for cell in cells:
        ranks = [cell.rank] if cell.peer is None else [cell.rank, cell.peer]
        ends = frozenset(host for rank in ranks if (host := hosts.get(rank)))
        if cell.median_ns is not None and len(ends) == len(ranks):
            found.append(_Placed(cell, cell.median_ns, ends))
    return found
