# SPDX-License-Identifier: Apache-2.0
"""Ranks held against the processors of their hosts, for each variant.

A rank says which processors it may run on. Where the ranks of a host are more than all of these together, they take
turns, and a time contains context switches. Files from before ranks said so are not judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netpipe.records import Run, Variant


@dataclass(frozen=True, slots=True)
class Crowding:
    """A variant with more ranks than processors on a host; the numbers are those of all its hosts together."""

    variant: str
    host: str | None  # the first of them
    ranks: int
    processors: int
    started: bool  # by a library's launcher

    def __str__(self) -> str:
        return f"{self.ranks} ranks on {self.processors} processor{'s' if self.processors > 1 else ''}"


def crowded(run: Run) -> dict[str, Crowding]:
    """By variant; those with a processor for each rank are absent. Of several launches the first that has too few."""
    found: dict[str, Crowding] = {}
    for variant in run.variants:
        one = _crowding(variant)
        if one is not None:
            found.setdefault(variant.variant, one)
    return found


def _crowding(variant: Variant) -> Crowding | None:
    ranks: dict[str | None, int] = {}
    processors: dict[str | None, set[int]] = {}
    for rank in variant.ranks:
        own = cpu_set(rank.processors)
        if not own:
            return None
        ranks[rank.host] = ranks.get(rank.host, 0) + 1
        processors.setdefault(rank.host, set()).update(own)
    few = [host for host, count in ranks.items() if count > len(processors[host])]
    if not few:
        return None
    return Crowding(
        variant.variant,
        few[0],
        sum(ranks.values()),
        sum(map(len, processors.values())),
        variant.launch_s is not None,
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
