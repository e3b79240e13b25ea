# SPDX-License-Identifier: Apache-2.0
"""Processor time that the host of a virtual machine gave to others during a run.

Each yardstick has the share since the one before it, on the host that conducts the run. Of other hosts, and in older
files, there are only environments: the share that was stolen since the machine started, and how long ago that was. From
the start of one launch to that of the next, the product of the two grows by what was stolen in between. Nothing follows
the last launch, so its share is not known then, and neither is that of the only one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from netpipe.records import Run

BETWEEN = 2.0  # a launch lasts at most so many times as long as it measures,
BETWEEN_S = 5.0  # and so much, or something else happened before the next one: the run was continued later


@dataclass(frozen=True, slots=True)
class Stolen:
    """Of one host and launch."""

    launch: int
    seconds: float  # of it that are known: between its yardsticks, or from its start to that of the next one
    share: float  # of all processor time of the host, 0 to 1


def stolen(run: Run) -> dict[str | None, tuple[Stolen, ...]]:
    """The launches of which it is known, by host."""
    found = _by_environments(run)
    if own := _by_yardsticks(run):
        hosts = [one.host for one in run.environments] or [None]
        here = run.header.host if run.header is not None else None
        found[here if here in hosts else hosts[0]] = own
    return found


def _by_yardsticks(run: Run) -> tuple[Stolen, ...]:
    taken: dict[int, list[tuple[float, float]]] = {}  # seconds and share
    for before, one in pairwise(run.yardsticks):
        if before.at_s is None or one.at_s is None or one.stolen_share is None or before.launch != one.launch:
            continue
        taken.setdefault(one.launch, []).append((one.at_s - before.at_s, one.stolen_share))
    return tuple(
        Stolen(launch, seconds, sum(of * share for of, share in known) / seconds)
        for launch, known in taken.items()
        if (seconds := sum(of for of, _ in known)) > 0
    )


def _by_environments(run: Run) -> dict[str | None, tuple[Stolen, ...]]:
    took = {one.launch: one.seconds for one in run.launches if one.seconds is not None}
    hosts: dict[str | None, dict[int, tuple[float, float]]] = {}
    for environment in run.environments:
        share = _number(environment.facts, "cpu", "virtual", "steal_share")
        up_s = _number(environment.facts, "load", "uptime_s")
        if share is not None and up_s is not None:
            hosts.setdefault(environment.host, {}).setdefault(environment.launch, (share, up_s))
    found = {}
    for host, launches in hosts.items():
        found[host] = tuple(
            Stolen(launch, seconds, min(max((after * then_s - before * now_s) / seconds, 0.0), 1.0))
            for (launch, (before, now_s)), (_, (after, then_s)) in pairwise(sorted(launches.items()))
            if launch in took and 0 < (seconds := then_s - now_s) <= BETWEEN * took[launch] + BETWEEN_S
        )
    return {host: launches for host, launches in found.items() if launches}


def _number(facts: Mapping[str, Any], *path: str) -> float | None:
    found: Any = facts
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else None
