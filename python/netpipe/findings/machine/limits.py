# SPDX-License-Identifier: Apache-2.0
"""Limits and privileges that keep layers from their fast paths."""

from __future__ import annotations

from netpipe.findings import NOTE, SEVERE, WARNING, Quantity
from netpipe.findings.machine import Advice, Facts, machine_rule
from netpipe.units import size_text

SHARED_MEMORY = "/dev/shm"  # noqa: S108  (where POSIX shared memory is)
LEAST_LOCKABLE_BYTES = 1 << 30
LEAST_SHM_BYTES = 256 << 20
LEAST_FREE_BYTES = 64 << 20
ALLOWED = "allowed"  # what process_vm_readv answered
NOBODY = 3  # a ptrace_scope under which no privilege helps, until the machine is started again


@machine_rule(
    "little-lockable-memory",
    "Little lockable memory",
    WARNING,
    needs=("limits.memlock_bytes",),
    fires={"limits.memlock_bytes": 65536, "network.rdma_device_count": 1},
    silent={"limits.memlock_bytes": "unlimited", "network.rdma_device_count": 1},
)
def locked_memory(facts: Facts) -> Advice | None:
    """There is an RDMA device, and less than 1 GiB may be locked."""
    limit = facts.number("limits.memlock_bytes")  # no number: unlimited, or not known
    if limit is None or limit >= LEAST_LOCKABLE_BYTES or facts.truth("limits.may_lock_memory") is True:
        return None
    if not facts.number("network.rdma_device_count"):
        return None
    return Advice(
        f"There is an RDMA device, and a process may lock only {size_text(limit)} of memory: buffers cannot be "
        "registered, or only small ones.",
        "ulimit -l unlimited, after a line '* - memlock unlimited' in /etc/security/limits.conf",
        {"lockable": Quantity(limit, "bytes")},
    )


@machine_rule(
    "small-dev-shm",
    "Small /dev/shm",
    WARNING,
    needs=("limits.dev_shm_total_bytes",),
    fires={"limits.dev_shm_total_bytes": 64 << 20},
    silent={"limits.dev_shm_total_bytes": 1 << 30},
)
def small_shm(facts: Facts) -> Advice | None:
    """It holds less than 256 MiB."""
    total = facts.number("limits.dev_shm_total_bytes")
    if total is None or total >= LEAST_SHM_BYTES:
        return None
    return Advice(
        f"{SHARED_MEMORY} holds {size_text(total)}: message libraries that keep their shared memory there fail or fall "
        "back to slower ways.",
        "sudo mount -o remount,size=50% /dev/shm"
        if facts.text("limits.container") == "none"
        else "docker run --shm-size=1g, or --ipc=host",
        {"size": Quantity(total, "bytes")},
    )


@machine_rule(
    "full-dev-shm",
    "Full /dev/shm",
    SEVERE,
    needs=("limits.dev_shm_free_bytes",),
    fires={"limits.dev_shm_total_bytes": 1 << 30, "limits.dev_shm_free_bytes": 8 << 20},
    silent={"limits.dev_shm_total_bytes": 1 << 30, "limits.dev_shm_free_bytes": 512 << 20},
)
def full_shm(facts: Facts) -> Advice | None:
    """Less than 64 MiB of it is free."""
    free, total = facts.number("limits.dev_shm_free_bytes"), facts.number("limits.dev_shm_total_bytes")
    if free is None or free >= LEAST_FREE_BYTES:
        return None
    of = "" if total is None else f" of {size_text(total)}"
    return Advice(
        f"Only {size_text(free)}{of} is free in {SHARED_MEMORY}: a library that cannot make its shared memory there "
        "fails, is killed when it touches it, or falls back to a slower way.",
        f"ls -l {SHARED_MEMORY}, and remove what programs that have ended left there",
        {"free": Quantity(free, "bytes")},
    )


@machine_rule(
    "restricted-ptrace",
    "Restricted ptrace",
    NOTE,
    needs=("limits.ptrace_scope", "limits.process_vm_readv"),
    fires={"limits.ptrace_scope": 1},
    silent={"limits.ptrace_scope": 1, "limits.may_trace_others": True},
)
def ptrace(facts: Facts) -> Advice | None:
    """`ptrace_scope` is above 0 without the privilege to override it, or process_vm_readv is refused altogether."""
    why, remedy = attach_refused(facts) or ("", "")
    if not why:
        return None
    return Advice(
        f"{why[0].upper()}{why[1:]}. Many message libraries then copy large shared-memory messages twice where one "
        "copy (CMA) would do.",
        remedy,
    )


def attach_refused(facts: Facts, least_scope: int = 1) -> tuple[str, str] | None:
    """Why a process may not read the memory of another one of the same user on this host (cross-memory attach), as a
    part of a sentence, and what allows it. None: it may, or that is not known. Under a ptrace_scope of 1 a process may
    let others in, so libraries that ask for that are refused from 2 on.
    """
    answer = facts.text("limits.process_vm_readv")
    if answer not in (None, ALLOWED):
        why = "a filter of system calls (seccomp), as containers have, or the kernel refuses process_vm_readv"
        remedy = (
            "for a container --cap-add=SYS_PTRACE, or a seccomp profile that allows process_vm_readv and "
        )
        remedy += "process_vm_writev; else a kernel with CONFIG_CROSS_MEMORY_ATTACH"
        return f"{why} ({answer})", remedy
    scope = facts.number("limits.ptrace_scope") or 0
    privileged = facts.truth("limits.may_trace_others") is True and scope < NOBODY
    if scope < least_scope or privileged:
        return None
    return f"the kernel restricts ptrace (kernel.yama.ptrace_scope is {scope:.0f})", (
        "sudo sysctl kernel.yama.ptrace_scope=0" + (", after a restart" if scope >= NOBODY else "")
    )
