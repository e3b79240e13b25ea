# SPDX-License-Identifier: Apache-2.0
"""Ranks, and threads of ranks, held against the processors of their hosts, for each variant.

A rank says which processors it may run on. Where the ranks of a host are more than all of these together, they take
turns, and a time contains context switches. So do the threads of patterns in which every rank has several. Files from
before ranks said so are not judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netpipe.reading.sweeps import number

if TYPE_CHECKING:
    from netpipe.records import PlannedMode, Run, Variant

# Options of patterns whose ranks have several threads: how many each has, and where those beside its first may run.
THREADS, WHERE, BESIDE_RANK = "threads", "processors", "rank"

Processors = Mapping[str | None, set[int]]  # by host


@dataclass(frozen=True, slots=True)
class Crowding:
    """A variant with more threads than processors on a host; the numbers are those of all its hosts together."""

    variant: str
    host: str | None  # the first of them
    ranks: int
    processors: int
    started: bool  # by a library's launcher
    threads: int = 1  # of each rank

    def __str__(self) -> str:
        each = f" with {self.threads} threads each" if self.threads > 1 else ""
        return f"{self.ranks} ranks{each} on {self.processors} processor{'s' if self.processors > 1 else ''}"


def crowded(run: Run) -> dict[str, Crowding]:
    """By variant; those with a processor for each rank are absent. Of several launches the first that has too few."""
    found: dict[str, Crowding] = {}
    for variant in run.variants:
        one = _crowding(variant, 1, {})
        if one is not None:
            found.setdefault(variant.variant, one)
    return found


def crowded_by_threads(run: Run) -> dict[tuple[str, str], Crowding]:
    """By variant and pattern, of patterns in which each rank has several threads; those with a processor for each
    thread are absent. Threads beside the first of a rank run where it may, and unless the pattern says otherwise where
    netpipe itself may on that host.
    """
    hosts = _allowed(run)
    modes = {mode.pattern: mode for plan in run.plans for mode in plan.modes if threads_of(mode) > 1}
    found: dict[tuple[str, str], Crowding] = {}
    for variant in run.variants if modes else ():
        for mode in modes.values():
            beside = mode.options.get(WHERE) == BESIDE_RANK
            if not beside and not {rank.host for rank in variant.ranks} <= set(hosts):
                continue
            one = _crowding(variant, threads_of(mode), {} if beside else hosts)
            if one is not None:
                found.setdefault((variant.variant, mode.pattern), one)
    return found


def threads_of(mode: PlannedMode) -> int:
    """How many threads of each rank this setting of a pattern has."""
    return int(number(mode.options.get(THREADS, "")) or 1)


def _allowed(run: Run) -> dict[str | None, set[int]]:
    """The processors that netpipe may use on each host that recorded them."""
    found: dict[str | None, set[int]] = {}
    for one in run.environments:
        limits = one.facts.get("limits")
        said = limits.get("allowed_cpus") if isinstance(limits, dict) else None
        cpus = cpu_set(said if isinstance(said, str) else None)
        if cpus:
            found.setdefault(one.host, set()).update(cpus)
    return found


def _crowding(variant: Variant, threads: int, more: Processors) -> Crowding | None:
    """`threads` of each rank, which may run on its own processors and on these of its host."""
    ranks: dict[str | None, int] = {}
    processors: dict[str | None, set[int]] = {}
    for rank in variant.ranks:
        own = cpu_set(rank.processors)
        if not own:
            return None
        ranks[rank.host] = ranks.get(rank.host, 0) + 1
        processors.setdefault(rank.host, set()).update(own, more.get(rank.host, ()))
    few = [host for host, count in ranks.items() if count * threads > len(processors[host])]
    if not few:
        return None
    return Crowding(
        variant.variant,
        few[0],
        sum(ranks.values()),
        sum(map(len, processors.values())),
        variant.launch_s is not None,
        threads,
    )


def cpu_set(text: str | None) -> set[int]:
    """Processors as the kernel lists them, "0-3,8"; none for anything else."""
    cpus: set[int] = set()
    for part in filter(None, (text or "").split(",")):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if not first.isdecimal() or not last.isdecimal() or len(last) > 6:
            return set()
        cpus.update(range(int(first), int(last) + 1))
    return cpus
