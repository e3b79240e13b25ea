# SPDX-License-Identifier: Apache-2.0
"""How the two numbers of a curve went from run to run: its latency and its time at the largest size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netpipe.history.changes import Change, changes
from netpipe.reading.summary import LATENCY_BYTES, LATENCY_MOST_BYTES

if TYPE_CHECKING:
    from netpipe.history import History, Moment


@dataclass(frozen=True, slots=True)
class Trend:
    variant: str
    pattern: str
    size_bytes: int
    moments: tuple[Moment, ...]  # the earliest first, at least one
    changes: tuple[Change, ...]  # of the time


def trends(history: History, host: str, curves: Iterable[tuple[str, str]]) -> tuple[Trend, ...]:
    """One or two for each (variant, pattern)."""
    found = []
    for variant, pattern in curves:
        sizes = history.sizes(host, variant, pattern)
        small = [size for size in sizes if 0 < size <= LATENCY_MOST_BYTES]
        latency = LATENCY_BYTES if LATENCY_BYTES in small else next(iter(small), None)
        for size in dict.fromkeys(size for size in (latency, sizes[-1]) if size is not None):
            moments = tuple(one for one in history.moments(host, variant, pattern, size) if one.time_ns > 0)
            if moments:
                times = [one.time_ns for one in moments]
                found.append(Trend(variant, pattern, size, moments, changes(times)))
    return tuple(found)
