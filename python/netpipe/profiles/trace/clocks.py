# SPDX-License-Identifier: Apache-2.0
"""How far the clocks of hosts are apart, from the trace alone (Duda, Harrus, Haddad and Bernard, Estimating global time
in distributed systems, 1987). No message is complete before it was sent, and no barrier ends before the last rank came:
each such pair of moments bounds how far one clock may be ahead of the other. Messages both ways bound it from both
sides, and the closest of them are apart by the shortest round trip. Nothing is sent for it.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

MOST_DRIFT = 500e-6  # a kernel that sets its clock by another one changes its rate by no more than that
STEPS = 60  # of the search for a drift: 500 us a second become 1e-10 ns


class Line(NamedTuple):
    """How far a clock is ahead: offset_ns + drift * (moment in ns)."""

    offset_ns: float
    drift: float

    def at(self, moment_ns: float) -> float:
        return self.offset_ns + self.drift * moment_ns


@dataclass(slots=True)
class Clocks:
    """Of the hosts of a trace."""

    ahead: dict[str, Line] = field(default_factory=dict)  # by host: of the host whose clock it is set by
    set_by: dict[str, str] = field(
        default_factory=dict
    )  # that host; of a host that nothing binds to others, itself
    error_ns: float = 0.0  # the largest by which moments of two hosts that are set by one may be wrong

    def shared(self, host: str) -> str:
        """Moments of hosts for which this is the same can be compared."""
        return self.set_by.get(host, host)

    def corrected(self, host: str, moment_ns: int) -> int:
        line = self.ahead.get(host)
        return moment_ns if line is None else round(moment_ns - line.at(moment_ns))

    @property
    def apart(self) -> int:
        """How many groups of hosts there are between which moments cannot be compared, less one."""
        return max(0, len(set(self.set_by.values())) - 1)


class Bounds:
    """By pair of hosts: moments, and by how much the clock of the second is ahead of that of the first at most."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)

    def add(self, first: str, before_ns: int, second: str, after_ns: int) -> None:
        """`before_ns` by the clock of the first was no later than `after_ns` by that of the second."""
        self.found[first, second].append((before_ns, after_ns - before_ns))


def clocks(names: list[str], bounds: Bounds) -> Clocks:
    """Of these hosts."""
    between: dict[str, dict[str, tuple[Line, float]]] = defaultdict(dict)
    for first, second in bounds.found:
        back = bounds.found.get((second, first))
        if first < second and back and (found := _between(bounds.found[first, second], back)):
            line, error = found
            between[first][second] = line, error
            between[second][first] = Line(-line.offset_ns, -line.drift), error
    return _from_the_closest(names, between)


def _between(there: list[tuple[int, int]], back: list[tuple[int, int]]) -> tuple[Line, float] | None:
    """How far the second clock is ahead of the first, by bounds in both directions, and by how much that may be wrong.
    None: no two clocks that run evenly fit them.
    """
    import numpy as np

    upper, lower = (np.array(one, np.float64) for one in (there, back))
    lower[:, 1] *= -1

    def room(drift: float) -> tuple[float, float]:
        """Of lines with that drift: half of the distance between the highest and the lowest that fit; the one between
        them.
        """
        most = float((upper[:, 1] - drift * upper[:, 0]).min())
        least = float((lower[:, 1] - drift * lower[:, 0]).max())
        return (most - least) / 2, (most + least) / 2

    # The room is a concave function of the drift, so halving finds the most.
    low, high = -MOST_DRIFT, MOST_DRIFT
    for _ in range(STEPS):
        one, other = low + (high - low) / 3, high - (high - low) / 3
        if room(one)[0] < room(other)[0]:
            low = one
        else:
            high = other
    drift = (low + high) / 2
    if room(drift)[0] < 0:
        return None
    # Few messages leave room for many drifts. Clocks that are set run alike, so the least that has half of the room.
    enough, none = room(drift)[0] / 2, 0.0
    if room(none)[0] >= enough:
        drift = none
    else:
        for _ in range(STEPS):
            half = (none + drift) / 2
            if room(half)[0] >= enough:
                drift = half
            else:
                none = half
    error, offset = room(drift)
    return Line(offset, drift), error


def _from_the_closest(names: list[str], between: Mapping[str, Mapping[str, tuple[Line, float]]]) -> Clocks:
    """Each host is set by the first that it can be, over those with the smallest error on the way."""
    found = Clocks()
    errors = [0.0, 0.0]
    for start in names:
        if start in found.set_by:
            continue
        waiting: list[tuple[float, str, Line]] = [(0.0, start, Line(0.0, 0.0))]
        while waiting:
            error, host, line = heapq.heappop(waiting)
            if host in found.set_by:
                continue
            found.set_by[host], found.ahead[host] = start, line
            errors.append(error)
            for other, (further, more) in between.get(host, {}).items():
                if other not in found.set_by:
                    together = Line(line.offset_ns + further.offset_ns, line.drift + further.drift)
                    heapq.heappush(waiting, (error + more, other, together))
    found.error_ns = sum(sorted(errors)[-2:])  # of two hosts that are both set by a third
    return found
