# SPDX-License-Identifier: Apache-2.0
"""What it costs to open a library, over the number of processes: the memory of each, and how long the start takes (Liu
et al. 2003, section 3.8).

Only launches without patterns count: there memory was read when all ranks had met in a barrier, which is all that the
program of Liu et al. does, and again when every rank had exchanged a message with every other. Of one launch a process'
memory is the mean over its ranks, so that it times their number is what they hold together; a start lasts from the
request to the launcher until the slowest rank can go. Starts differ more than what is inside one: each number is the
median over the launches, and beside it stand the least and the most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import mean, median
from typing import TYPE_CHECKING

from netpipe.reading.curves import planned

if TYPE_CHECKING:
    from netpipe.records import Rank, Run, Variant


@dataclass(frozen=True, slots=True)
class Spread:
    """The median over the launches, and what lies farthest from it."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Opening:
    """None: not known, as where all ranks are one process."""

    variant: str
    ranks: int
    launches: int
    # of one process after a barrier, resident; None also where a module has none
    barrier_bytes: Spread | None
    resident_bytes: Spread | None  # of one process when all have talked to all
    private_bytes: Spread | None
    pinned_bytes: Spread | None
    launcher_s: Spread | None  # None also where a module has none
    start_s: Spread | None  # the launcher's time with it


def openings(run: Run) -> tuple[Opening, ...]:
    """By variant, in the order of the plan, and by rising number of ranks."""
    bare = {plan.launch for plan in run.plans if not plan.patterns}
    found: dict[tuple[str, int], list[Variant]] = {}
    for variant in run.variants:
        if variant.launch in bare and variant.ranks:
            found.setdefault((variant.variant, len(variant.ranks)), []).append(variant)
    place = {name: number for number, name in enumerate(planned(run))}
    order = sorted(found, key=lambda key: (place.get(key[0], len(place)), key))
    return tuple(_opening(name, ranks, found[name, ranks]) for name, ranks in order)


def _opening(variant: str, ranks: int, starts: list[Variant]) -> Opening:
    return Opening(
        variant=variant,
        ranks=ranks,
        launches=len(starts),
        barrier_bytes=_spread(_mean(start, lambda rank: rank.barrier_resident_bytes) for start in starts),
        resident_bytes=_spread(_mean(start, lambda rank: rank.resident_bytes) for start in starts),
        private_bytes=_spread(_mean(start, lambda rank: rank.private_bytes) for start in starts),
        pinned_bytes=_spread(_mean(start, lambda rank: rank.pinned_bytes) for start in starts),
        launcher_s=_spread(start.launch_s for start in starts),
        start_s=_spread(map(_start_s, starts)),
    )


def _mean(start: Variant, of: Callable[[Rank], int | None]) -> float | None:
    values = [value for rank in start.ranks if (value := of(rank)) is not None]
    return mean(values) if len(values) == len(start.ranks) else None


def _start_s(start: Variant) -> float | None:
    times = [rank.open_s for rank in start.ranks if rank.open_s is not None]
    return (start.launch_s or 0.0) + max(times) if len(times) == len(start.ranks) else None


def _spread(values: Iterable[float | None]) -> Spread | None:
    known = [value for value in values if value is not None]
    return Spread(median(known), min(known), max(known)) if known else None
