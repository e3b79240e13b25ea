# SPDX-License-Identifier: Apache-2.0
"""Memory: too little of it, and kernel features that move or share pages."""

from __future__ import annotations

from netpipe.findings import NOTE, WARNING, Quantity
from netpipe.findings.machine import Advice, Facts, machine_rule
from netpipe.units import percent_text, size_text

LEAST_AVAILABLE = 0.05  # of all memory
LEAST_LIMIT_BYTES = 512 << 20  # of a control group
SWAPPED = 0.02  # of all memory; less is what the kernel put aside long ago and nobody misses


@machine_rule(
    "short-of-memory",
    "Short of memory",
    WARNING,
    needs=("memory.available_bytes", "limits.cgroup.memory_max_bytes"),
    fires={"memory.total_bytes": 4 << 30, "memory.available_bytes": 100 << 20},
    silent={"memory.total_bytes": 4 << 30, "memory.available_bytes": 3 << 30},
)
def memory_short(facts: Facts) -> Advice | None:
    """Less than 5 % is available, or the control group allows less than 512 MiB."""
    total, available = facts.number("memory.total_bytes"), facts.number("memory.available_bytes")
    if total and available is not None and available < LEAST_AVAILABLE * total:
        return Advice(
            f"Only {size_text(available)} of {size_text(total)} of memory are available: the kernel reclaims pages "
            "during the measurement.",
            "stop what fills the memory; list it with: ps aux --sort=-rss | head",
            {"available": Quantity(available, "bytes"), "total": Quantity(total, "bytes")},
        )
    limit = facts.number("limits.cgroup.memory_max_bytes")
    if limit is None or limit >= LEAST_LIMIT_BYTES:
        return None
    return Advice(
        f"The control group may use {size_text(limit)} of memory, including shared memory and page cache: large cold "
        "buffers do not fit.",
        "raise the limit (docker --memory, the pod's resources.limits.memory), or measure smaller sizes only",
        {"limit": Quantity(limit, "bytes")},
    )


@machine_rule(
    "numa-balancing",
    "NUMA balancing",
    WARNING,
    needs=("memory.numa_balancing",),
    fires={"memory.numa_balancing": 1, "memory.node_count": 2},
    silent={"memory.numa_balancing": 1, "memory.node_count": 1},
)
def numa_balancing(facts: Facts) -> Advice | None:
    """It is on, and there is more than one node."""
    if not facts.number("memory.numa_balancing") or (facts.number("memory.node_count") or 0) < 2:
        return None
    return Advice(
        "Automatic NUMA balancing takes away access to pages to see who uses them, and moves them during a "
        "measurement.",
        "sudo sysctl kernel.numa_balancing=0",
    )


@machine_rule(
    "swap-in-use",
    "Swap in use",
    WARNING,
    needs=("memory.swap_used_bytes",),
    fires={"memory.swap_used_bytes": 1 << 30, "memory.total_bytes": 4 << 30},
    silent={"memory.swap_used_bytes": 1 << 20, "memory.total_bytes": 4 << 30},
)
def swap(facts: Facts) -> Advice | None:
    """2 % of memory or more is swapped out."""
    used, total = facts.number("memory.swap_used_bytes"), facts.number("memory.total_bytes")
    if used is None or not total or used < SWAPPED * total:
        return None
    return Advice(
        f"{size_text(used)} ({percent_text(used / total)} of memory) are swapped out: a page that is needed again "
        "stops its process for milliseconds.",
        "free memory, then: sudo swapoff -a && sudo swapon -a",
        {"swapped": Quantity(used, "bytes"), "total": Quantity(total, "bytes")},
    )


@machine_rule(
    "huge-pages",
    "Transparent huge pages",
    NOTE,
    needs=("memory.transparent_huge_pages.enabled",),
    fires={"memory.transparent_huge_pages.enabled": "always"},
    silent={"memory.transparent_huge_pages.enabled": "madvise"},
)
def huge_pages(facts: Facts) -> Advice | None:
    """They are on for all memory."""
    if facts.text("memory.transparent_huge_pages.enabled") != "always":
        return None
    return Advice(
        "Transparent huge pages are on for all memory: whether a buffer gets them depends on how fragmented memory "
        "is, so large copies differ from start to start.",
        "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
    )


@machine_rule(
    "page-merging",
    "Page merging",
    NOTE,
    needs=("memory.page_merging",),
    fires={"memory.page_merging": True},
    silent={"memory.page_merging": False},
)
def page_merging(facts: Facts) -> Advice | None:
    """KSM runs."""
    if facts.truth("memory.page_merging") is not True:
        return None
    return Advice(
        "The kernel merges equal pages (KSM): a write to a merged page costs a fault and a copy.",
        "echo 2 | sudo tee /sys/kernel/mm/ksm/run",
    )
