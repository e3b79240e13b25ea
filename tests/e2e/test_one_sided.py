# SPDX-License-Identifier: Apache-2.0
"""Patterns put and get, over what has them: what was moved is what is there afterwards, what cannot be opened is said
with its rank, and what a library lacks is skipped with the reason.
"""

from __future__ import annotations

import pytest
from conftest import TEST_MODULES, Netpipe, Runner
from mpi import Mpis

PATTERNS = ("put", "get", "put:sync=fence", "get:sync=fence", "put:in_flight=7", "get:sync=fence,in_flight=7")


def module(name: str) -> str:
    path = TEST_MODULES / f"{name}.so"
    assert path.is_file(), f"{path} is not there: build with -DNETPIPE_TESTS=ON"
    return f"module-file {path}"


@pytest.mark.parametrize("buffers", ["warm", pytest.param("cold", marks=pytest.mark.deep)])
def test_every_byte_is_where_it_was_put(measure: Runner, buffers: str) -> None:
    sizes = "1,8,4097,300001"
    done = measure(
        *("variant shm", "variant memcpy", f"buffers {buffers}", "send-offset 3", "recv-offset 1"),
        *(f"pattern {pattern}" for pattern in PATTERNS),
        *("schedule list", f"sizes {sizes}", "verify yes", "budget 0.05"),
    )
    assert done.code == 0, done.said
    for variant in ("shm", "memcpy"):
        for pattern in PATTERNS:
            points = done.of("point", variant=variant, pattern=pattern)
            assert {str(point["size_bytes"]) for point in points} == set(sizes.split(",")), (variant, pattern)
            # At least one sample, the round before it, and all that are in flight.
            width = 7 if "in_flight=7" in pattern else 1
            assert all(point["verified_bytes"] >= 2 * width * point["size_bytes"] for point in points)


@pytest.mark.parametrize("pattern", ["put", "get", "put:in_flight=3"])
def test_a_last_byte_that_is_forgotten_is_found(measure: Runner, pattern: str) -> None:
    done = measure(
        *(module("short_put"), "variant short_put", f"pattern {pattern}", "verify yes"),
        *("schedule list", "sizes 1,4096", "budget 0.1"),
    )
    assert done.code == 1, done.said
    (error,) = done.of("error")
    assert error["pattern"] == pattern
    assert "differs from what was sent" in error["message"]
    assert not done.of("point")


def test_a_fence_that_is_not_there_is_a_reason_to_skip(measure: Runner) -> None:
    done = measure(
        *(module("short_put"), "variant short_put", "pattern put:sync=fence", "pattern put"),
        *("schedule list", "sizes 8", "budget 0.1"),
    )
    assert done.code == 0, done.said
    (skipped,) = done.of("skipped")
    assert skipped["pattern"] == "put:sync=fence"
    assert skipped["reason"] == "rank 0: module short_put: it has no fence"
    assert len(done.of("point", pattern="put")) == 1


def test_a_layer_that_starts_nothing_is_not_waited_for(measure: Runner) -> None:
    done = measure(
        *("variant shm", "pattern put:sync=wait", "pattern get:sync=wait", "pattern put"),
        *("schedule list", "sizes 8", "budget 0.05"),
    )
    assert done.code == 0, done.said
    reasons = {one["pattern"]: one["reason"] for one in done.of("skipped")}
    assert reasons == {
        f"{way}:sync=wait": f"pattern {way}:sync=wait needs i{way}, which module shm lacks: choose sync=flush or "
        "sync=fence"
        for way in ("put", "get")
    }
    assert {point["pattern"] for point in done.of("point")} == {"put"}


@pytest.mark.parametrize(
    ("how", "says"),
    [
        (
            "expose",
            "rank 1: module closed, opening memory to puts and gets: the device has no room for another key",
        ),
        ("attach", "rank 1: module closed, attaching to the memory of a peer: the key of rank 0 has expired"),
    ],
)
def test_a_rank_that_fails_to_open_its_memory_is_named_with_the_step(
    measure: Runner, how: str, says: str
) -> None:
    lines = (module("closed"), f"variant closed:how={how}", "variant pipe", "schedule list", "sizes 8")
    done = measure(*lines, "pattern pingpong", "pattern put", "budget 0.1")
    assert done.code == 4, done.said
    (error,) = done.of("error")
    assert error["message"] == says
    assert len(done.of("point", variant="pipe", pattern="pingpong")) == 1
    # Nobody asks for the memory where nothing is put.
    done = measure(*lines, "pattern pingpong", "budget 0.1")
    assert done.code == 0, done.said
    assert len(done.of("point", pattern="pingpong")) == 2


def test_a_rank_that_cannot_open_its_memory_has_its_other_patterns_measured(measure: Runner) -> None:
    done = measure(
        *(
            module("closed"),
            "variant closed:how=unsupported",
            "pattern put",
            "pattern get",
            "pattern pingpong",
        ),
        *("schedule list", "sizes 8,64", "budget 0.2", "verify yes"),
    )
    assert done.code == 0, done.said
    reasons = {one["pattern"]: one["reason"] for one in done.of("skipped")}
    assert set(reasons) == {"put", "get"}
    # The first to report knows only that it is not to be; the one that knows why is rank 1.
    assert all("rank 1 cannot expose its memory" in reason for reason in reasons.values())
    assert len(done.of("point", pattern="pingpong")) == 2


@pytest.mark.parametrize(
    "pattern", ["put:sync=flash", "put:in_flight=0", "get:in_flight=65537", "get:depth=1"]
)
def test_options_that_make_no_sense_are_refused(measure: Runner, pattern: str) -> None:
    done = measure("variant shm", f"pattern {pattern}")
    assert done.code == 2
    assert not done.of("sample")


# ------------------------------------------------------------------------------------------------------ MPI

# With memory of ours and of the library, and over TCP, where the library must be called at both ends.
KINDS = ("transport=shm", "window=allocate,transport=shm", "window=create,transport=tcp")


@pytest.mark.parametrize("library", ["openmpi", "mpich", "openmpi4", "mpich4", "impi"])
def test_every_byte_that_an_mpi_puts_arrives(netpipe: Netpipe, with_mpis: Mpis, library: str) -> None:
    with_mpis.need(library)
    # MPICH 4 takes seconds for what others do in one over TCP.
    variants = [f"mpi@{library}:{kind}" for kind in KINDS if library != "mpich4" or not kind.endswith("tcp")]
    patterns = ("put", "get:in_flight=7", "put:sync=fence", "pingpong")
    asked = [word for pattern in patterns for word in ("--pattern", pattern)]
    done = netpipe(*variants, *asked, "--verify", "--sizes", "1,4097,300001", "--budget", "0.02")
    assert done.code == 0, done.said
    assert not done.of("skipped")
    for variant in variants:
        for pattern in patterns:
            points = done.of("point", variant=variant, pattern=pattern)
            assert len(points) == 3, (variant, pattern)
            assert all(point["verified_bytes"] > 0 for point in points)
        (opened,) = done.of("variant", variant=variant)
        for rank in opened["ranks"]:
            settings = rank["settings"]
            assert settings["window"] == ("allocate" if "allocate" in variant else "create")
            wanted = "TCP" if variant.endswith("tcp") else "shared memory"
            assert settings["window_transport_found"] == settings["transport_found"] == wanted


def test_two_pairs_at_once_and_datatypes(netpipe: Netpipe, with_mpis: Mpis) -> None:
    added = with_mpis.need("openmpi", "mpich")
    variants = [f"{one.name}:window=allocate,transport=shm" for one in added]
    variants += [f"{added[0].name}:type=vector,window=dynamic,transport=shm"]
    patterns = ("--pattern", "put", "--pattern", "get:in_flight=7", "--verify")
    done = netpipe(*variants, *patterns, "--ranks", "4", "--sizes", "1,4097", "--budget", "0.1")
    assert done.code == 0, done.said
    assert len(done.of("point")) == len(variants) * 4
    assert all(point["verified_bytes"] > 0 for point in done.of("point"))


def test_messages_that_are_puts_leave_the_patterns_out(netpipe: Netpipe, with_mpis: Mpis) -> None:
    with_mpis.need("mpich")
    done = netpipe(
        *("mpi@mpich:op=put,sync=lock_all", "--pattern", "put", "--pattern", "pingpong"),
        *("--sizes", "8,64", "--budget", "0.1"),
    )
    assert done.code == 0, done.said
    (skipped,) = done.of("skipped")
    assert skipped["reason"] == (
        "pattern put does not obey op=put of module mpi@mpich: measure it without that setting"
    )
    assert len(done.of("point", pattern="pingpong")) == 2


@pytest.mark.deep
def test_a_library_without_locks_fences(netpipe: Netpipe, with_mpis: Mpis) -> None:
    with_mpis.need("lam")
    done = netpipe(
        *(
            "mpi@lam:transport=shm",
            "--pattern",
            "put",
            "--pattern",
            "put:sync=fence",
            "--pattern",
            "get:sync=fence",
        ),
        *("--verify", "--sizes", "1,4097", "--budget", "0.05"),
    )
    assert done.code == 0, done.said
    (skipped,) = done.of("skipped")
    assert skipped["pattern"] == "put"
    assert skipped["reason"].endswith("it has no flush: choose sync=fence")
    assert len(done.of("point")) == 4
    assert all(point["verified_bytes"] > 0 for point in done.of("point"))


def test_windows_that_go_another_way_than_was_asked_for_are_refused(
    netpipe: Netpipe, with_mpis: Mpis
) -> None:
    """Open MPI 5 moves memory of its own between ranks of one host through shared memory, whatever carries messages."""
    with_mpis.need("openmpi")
    variant = "mpi@openmpi:window=allocate,transport=tcp"
    done = netpipe(variant, "--pattern", "put", "--sizes", "8", "--budget", "0.05")
    assert done.code == 2, done.said
    (error,) = done.of("error")
    assert "carried its transfers into a window=allocate" in error["message"]
    assert "opening memory to puts and gets" in error["message"]
    assert not done.of("point")
