# SPDX-License-Identifier: Apache-2.0
"""Where the ranks of a host run."""

from __future__ import annotations

from netpipe.findings import NOTE, SEVERE, WARNING, Quantity
from netpipe.findings.machine import Advice, Facts, machine_rule
from netpipe.units import counted

PIN = "netpipe run --pin auto"


def ranks(facts: Facts) -> int | None:
    """How many ranks want a processor of their own; None if there are none to judge."""
    number = facts.number("pinning.count")
    return int(number) if number and number > 0 else None


@machine_rule(
    "oversubscribed",
    "Oversubscribed",
    SEVERE,
    needs=("pinning.count",),
    fires={"pinning.count": 4, "pinning.sharing_cpu": 2},
    silent={"pinning.count": 4, "pinning.sharing_cpu": 0},
)
def oversubscribed(facts: Facts) -> Advice | None:
    """Ranks share a processor, or there are fewer allowed processors than ranks."""
    wanted = ranks(facts)
    if wanted is None:
        return None
    sharing = int(facts.number("pinning.sharing_cpu") or 0)
    allowed = facts.number("limits.allowed_cpu_count")
    too_few = (facts.number("pinning.unpinned") or 0) > 0 and allowed is not None and allowed < wanted
    if not sharing and not too_few:
        return None
    there = int(allowed) if too_few and allowed is not None else wanted - sharing
    return Advice(
        f"{counted(wanted, 'rank')} share {counted(there, 'processor')}: they take turns, so a latency contains "
        "context switches.",
        "run fewer ranks, or allow more processors (taskset, the batch system's request, docker --cpuset-cpus)",
        {"ranks": Quantity(wanted, "ranks"), "processors": Quantity(there, "processors")},
    )


@machine_rule(
    "ranks-on-one-core",
    "Ranks on one core",
    SEVERE,
    needs=("pinning.sharing_core",),
    fires={"pinning.sharing_core": 1},
    silent={"pinning.sharing_core": 0},
)
def smt_siblings(facts: Facts) -> Advice | None:
    """Ranks are pinned to hardware threads of one core."""
    if not facts.number("pinning.sharing_core"):
        return None
    return Advice(
        "Ranks are pinned to hardware threads of one core: they share its execution units and first-level caches, so "
        "each slows the other, and messages between them never leave the core.",
        PIN,
    )


@machine_rule(
    "unpinned-ranks",
    "Unpinned ranks",
    WARNING,
    needs=("pinning.unpinned",),
    fires={"pinning.unpinned": 2},
    silent={"pinning.unpinned": 0},
)
def unpinned(facts: Facts) -> Advice | None:
    """A rank may run on any processor."""
    free = int(facts.number("pinning.unpinned") or 0)
    if not free:
        return None
    return Advice(
        f"{counted(free, 'rank')} {'is' if free == 1 else 'are'} not pinned: the scheduler may move a process in the "
        "middle of a sample.",
        PIN,
        {"unpinned": Quantity(free, "ranks")},
    )


@machine_rule(
    "mixed-cores",
    "Mixed kinds of core",
    WARNING,
    needs=("pinning.kinds_of_core",),
    fires={"pinning.kinds_of_core": 2},
    silent={"pinning.kinds_of_core": 1},
)
def mixed_cores(facts: Facts) -> Advice | None:
    """Ranks are on cores of different capacity."""
    if (facts.number("pinning.kinds_of_core") or 0) < 2:
        return None
    return Advice("The ranks are on cores of different speed.", PIN)


@machine_rule(
    "several-numa-nodes",
    "Ranks on several NUMA nodes",
    NOTE,
    needs=("pinning.nodes",),
    fires={"pinning.nodes": 2},
    silent={"pinning.nodes": 1},
)
def far_apart(facts: Facts) -> Advice | None:
    """Ranks are on more than one node."""
    if (facts.number("pinning.nodes") or 0) < 2:
        return None
    return Advice(
        "The ranks are on different NUMA nodes: messages between them cross the interconnect of the sockets.",
        f"{PIN}, unless that is what you want to measure",
    )
