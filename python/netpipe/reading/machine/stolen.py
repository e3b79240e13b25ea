# SPDX-License-Identifier: Apache-2.0
"""Processor time that the host of a virtual machine gave to others during a run.

An environment has the share that was stolen since the machine started, and how long ago that was. From the start of one
launch to that of the next, the product of the two grows by what was stolen in between. Nothing follows the last launch,
so its share is not known, and neither is that of the only one.
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
    seconds: float  # from its start to that of the next one
    share: float  # of all processor time of the host, 0 to 1


def stolen(run: Run) -> dict[str | None, tuple[Stolen, ...]]:
    """The launches of which it is known, by host."""
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
