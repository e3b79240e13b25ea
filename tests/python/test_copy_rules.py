# SPDX-License-Identifier: Apache-2.0
"""extra-copy where nobody asked for two copies and the system does not allow one: by the facts of the host, and by what
shm counted. And what measurement-failed says of a library that stops there.
"""

from __future__ import annotations

from typing import Any

import pytest

from netpipe.findings import Finding, judge
from netpipe.findings.curves import extra_copy
from netpipe.reading import Reading
from netpipe.records import Environment, Error, Run

REFUSED = "Operation not permitted"
SECCOMP = {"process_vm_readv": REFUSED, "ptrace_scope": 0}


def found_in(made: Run) -> list[Finding]:
    return [one for one in judge(Reading(made)).findings if one.rule == "extra-copy"]


def on_host(made: Run, limits: dict[str, Any], host: str = "node17") -> Run:
    """The run, with these facts of a host."""
    made.environments.append(Environment(host=host, facts={"limits": limits}))
    return made


def library(single_copy: str = "auto", transport: str = "shared memory") -> Run:
    """An MPI that takes twice as long as the shared memory below it."""
    return extra_copy.run_of(
        "mpi@x", {"single_copy": single_copy}, {"transport_found": transport}, below="shm"
    )


def shared(answer: str, messages: int) -> Run:
    """The layer shm, whose rank 0 was answered so, and which copied so many large messages twice."""
    made = extra_copy.run_of("shm", {"copy": "auto"}, {"cma": answer}, below="memcpy")
    for point in made.points:
        if point.variant == "shm":
            point.counters = {"messages_through_ring": messages, "messages_mapped": 5}
    return made


def test_a_library_that_may_not_copy_once_is_named_with_the_reason_and_the_remedy() -> None:
    (found,) = found_in(on_host(library(), SECCOMP))
    assert found.what == (
        "mpi@x has to copy large messages twice through shared memory, because a filter of system calls (seccomp), as "
        "containers have, or the kernel refuses process_vm_readv (Operation not permitted): at 1 MiB it keeps 50 % of "
        "shm."
    )
    assert "--cap-add=SYS_PTRACE" in found.remedy
    assert "allows process_vm_readv" in found.remedy
    assert found.evidence["kept"].value == pytest.approx(0.5, rel=0.01)
    assert found.gain is None, "the run does not show what one copy gets back"


@pytest.mark.parametrize(
    ("limits", "remedy"),
    [
        ({"process_vm_readv": "allowed", "ptrace_scope": 2}, "sudo sysctl kernel.yama.ptrace_scope=0"),
        ({"ptrace_scope": 2}, "sudo sysctl kernel.yama.ptrace_scope=0"),  # an older run
        ({"ptrace_scope": 3, "may_trace_others": True}, "ptrace_scope=0, after a restart"),
        ({"process_vm_readv": "Function not implemented"}, "CONFIG_CROSS_MEMORY_ATTACH"),
    ],
)
def test_each_refusal_has_its_remedy(limits: dict[str, Any], remedy: str) -> None:
    (found,) = found_in(on_host(library(), limits))
    assert remedy in found.remedy


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"process_vm_readv": "allowed", "ptrace_scope": 0},
        {"process_vm_readv": "allowed", "ptrace_scope": 1},  # libraries let each other in
        {"process_vm_readv": "allowed", "ptrace_scope": 2, "may_trace_others": True},
    ],
)
def test_where_one_copy_is_allowed_nobody_is_told(limits: dict[str, Any]) -> None:
    assert not found_in(on_host(library(), limits))


def test_what_does_not_go_through_this_hosts_memory_is_not_judged_by_it() -> None:
    assert not found_in(on_host(library(transport="TCP"), SECCOMP))
    assert not found_in(on_host(library(), SECCOMP, host="node18"))


def test_two_copies_that_cost_nothing_are_no_finding() -> None:
    made = library()
    for point in made.points:
        if point.variant == "mpi@x" and point.median_ns is not None:
            point.median_ns *= 0.6
            point.low_ns, point.high_ns = point.median_ns * 0.995, point.median_ns * 1.005
    assert not found_in(on_host(made, SECCOMP))


def test_a_library_that_was_told_to_copy_twice_is_told_of_its_setting() -> None:
    (found,) = found_in(on_host(library("none"), SECCOMP))
    assert found.remedy.startswith("single_copy=cma")


def test_of_shm_the_messages_count_that_it_copied_twice() -> None:
    """Its own message memory is mapped by both ranks: without the permission it still copies once there."""
    answer = f"{REFUSED} (see kernel.yama.ptrace_scope, or the container's seccomp profile)"
    assert not found_in(shared(answer, 0))
    assert not found_in(shared("allowed", 7))
    (found,) = found_in(shared(answer, 7))
    assert (
        f"because process_vm_readv is refused between its ranks ({answer}): 7 of them at 1 MiB" in found.what
    )
    assert "kernel.yama.ptrace_scope=0" in found.remedy
    (by_host,) = found_in(on_host(shared(answer, 7), SECCOMP))
    assert "seccomp profile that allows process_vm_readv" in by_host.remedy


def test_small_messages_are_not_judged() -> None:
    made = on_host(library(), SECCOMP)
    for point in made.points:
        point.size_bytes = min(point.size_bytes, 4096)
    assert not found_in(made)


# --------------------------------------------------------------------- a library that stops where it may not copy once


def stopped(
    version: str = "MPICH 5.0.2",
    single_copy: str = "auto",
    transport: str = "shared memory",
    size_bytes: int | None = 1 << 20,
    limits: dict[str, Any] = SECCOMP,
    pattern: str = "pingpong",
) -> Finding:
    """What is said of a run in which an MPI did not go on at this size."""
    made = on_host(library(single_copy, transport), limits)
    assert made.header is not None
    made.header.argv = ["run", "shm", "mpi@x", "--timeout", "3", "--sizes", "8,1M", "-o", "run.jsonl"]
    for variant in made.variants:
        variant.version = version if variant.variant == "mpi@x" else None
    message = "rank 0 did not answer within 3 s"
    made.errors.append(
        Error(variant="mpi@x", pattern=pattern, size_bytes=size_bytes, code=4, message=message)
    )
    (found,) = [one for one in judge(Reading(made)).findings if one.rule == "measurement-failed"]
    assert found.what.endswith(f" failed: {message}.")
    return found


@pytest.mark.parametrize(
    ("version", "remedy"),
    [
        ("MPICH 5.0.2", "single_copy=none (MPICH: MPIR_CVAR_CH4_CMA_ENABLE=0), which copies them twice; or "),
        ("Open MPI 5.0.11", "single_copy=none (Open MPI: OMPI_MCA_smsc=^cma,knem,xpmem), which "),
        (
            "Open MPI 4.1.4",
            "single_copy=none (Open MPI: OMPI_MCA_btl_vader_single_copy_mechanism=none), which ",
        ),
        ("Intel MPI 2021.13", "single_copy=none (Intel MPI: I_MPI_SHM_CMA=0), which "),
        ("Unheard MPI 1.2", "single_copy=none, which "),
    ],
)
def test_what_stops_at_a_large_message_where_one_copy_is_refused_is_told_to_copy_twice(
    version: str, remedy: str
) -> None:
    found = stopped(version)
    assert found.remedy.startswith(remedy)
    assert "--cap-add=SYS_PTRACE" in found.remedy
    assert found.cause.startswith("A filter of system calls (seccomp)")
    assert found.experiment == "netpipe run mpi@x:single_copy=none --sizes 1048576 --timeout 3"
    stream = stopped(version, pattern="stream")
    assert stream.experiment == (
        "netpipe run mpi@x:single_copy=none --pattern stream --sizes 1048576 --timeout 3"
    )


@pytest.mark.parametrize(
    "other",
    [
        {"single_copy": "none"},
        {"transport": "TCP"},
        {"size_bytes": 4096},
        {"size_bytes": None},
        {"limits": {"process_vm_readv": "allowed", "ptrace_scope": 1}},
        {"limits": {}},
    ],
)
def test_what_stops_for_another_reason_is_told_nothing_of_copies(other: dict[str, Any]) -> None:
    found = stopped(**other)
    assert found.remedy == "mend what the message names, and measure again"
    assert found.cause == ""
    assert found.experiment == "netpipe run shm mpi@x --timeout 3 --sizes 8,1M"
