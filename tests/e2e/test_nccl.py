# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  (fixtures that are imported and then named as parameters)
"""nccl: messages and collective operations over stand-ins for NVIDIA's driver and for NCCL (tests/modules/cuda). What
needs real devices says so where there are none.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from conftest import Outcome, Runner, Starter, wait_for_samples
from stand_ins import built, usable
from test_hosts import FAR, Site, site  # noqa: F401
from test_two_hosts import two_namespaces  # noqa: F401

BUILT = built("nccl")
pytestmark = [
    pytest.mark.module("nccl"),
    pytest.mark.deep,  # which installs nccl.h
    pytest.mark.skipif(BUILT is None, reason="module nccl is not built here: nccl.h is missing"),
]
real_devices = pytest.mark.skipif(not usable("nccl"), reason="not run: no CUDA device here")


def listed(measure: Runner, options: str, sizes: str, *lines: str) -> Outcome:
    variant = f"nccl:{options}" if options else "nccl"
    return measure(f"variant {variant}", "schedule list", f"sizes {sizes}", *lines)


WAYS = ["pingpong", "stream", "bidirectional", "burst", "window", "exchange", "overlap"]


@pytest.mark.parametrize("pattern", WAYS)
def test_every_byte_arrives(measure: Runner, fake: object, pattern: str) -> None:
    done = listed(measure, "", "4097,65539", f"pattern {pattern}", "verify yes", "budget 3")
    assert done.code == 0, done.said
    points = done.of("point")
    assert len(points) == 2
    assert all(point["verified_bytes"] > 0 for point in points)
    assert all(point["counters"]["launches"] > 0 for point in points)


OPERATIONS = [
    "bcast",
    "reduce",
    "allreduce",
    "allgather",
    "reduce_scatter_block",
    "alltoall",
    "gather",
    "scatter",
]


@pytest.mark.parametrize("what", OPERATIONS)
@pytest.mark.parametrize("ranks", [2, 3])
def test_every_collective_is_right_on_every_rank(
    measure: Runner,
    fake: pytest.MonkeyPatch,
    what: str,
    ranks: int,
) -> None:
    fake.setenv("FAKE_CUDA_DEVICES", str(ranks))
    done = listed(
        measure,
        "",
        "8,4096",
        f"pattern collective:what={what}",
        f"pattern collective:what={what},call=request,root=1",
        f"ranks {ranks}",
        "verify yes",
        "budget 1",
    )
    assert done.code == 0, done.said
    assert len(done.of("point")) == 4
    assert all(point["verified_bytes"] > 0 for point in done.of("point"))


@pytest.mark.parametrize(
    ("datatype", "reduction"), [("float", "min"), ("int32", "max"), ("int64", "prod"), ("double", "sum")]
)
def test_every_datatype_and_reduction(
    measure: Runner,
    fake: object,
    datatype: str,
    reduction: str,
) -> None:
    pattern = f"pattern collective:datatype={datatype},reduction={reduction}"
    done = listed(measure, "", "64", pattern, "verify yes", "budget 0.2")
    assert done.code == 0, done.said
    assert len(done.of("point")) == 1


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("collective:what=scan", "NCCL does not have this operation"),
        ("collective:in_place=yes", "operations in place are not written yet"),
        ("put", "put"),
    ],
)
def test_what_nccl_lacks_is_skipped_with_the_reason(
    measure: Runner,
    fake: object,
    pattern: str,
    words: str,
) -> None:
    done = listed(measure, "", "64", f"pattern {pattern}", "pattern pingpong", "budget 0.2")
    (skipped,) = done.of("skipped")
    assert words in skipped["reason"]


def test_the_record_says_what_was_used(measure: Runner, fake: object) -> None:
    done = listed(measure, "", "8", "budget 0.1")
    (variant,) = done.of("variant")
    first, second = (rank["settings"] for rank in variant["ranks"])
    assert first["library"] == "NCCL 2.20.5"
    assert first["receives"] == "when waited for"
    assert (first["device"], second["device"]) == ("0", "1")
    assert second["device_name"] == "stand-in 1"


def test_the_ranks_of_each_host_have_its_devices_in_turn(site: Site, fake: pytest.MonkeyPatch) -> None:
    """By their place on the host: by their rank they would have devices 0, 1, 2 and 0. Each reaches every other one."""
    fake.setenv("FAKE_CUDA_DEVICES", "3")
    done = site.run("nccl", "--ranks", "4", "--pattern", "none")
    assert done.code == 0, done.said
    (opened,) = done.of("variant")
    devices = [(rank["host"] == FAR, rank["settings"]["device"]) for rank in opened["ranks"]]
    assert devices == [(False, "0"), (False, "1"), (True, "0"), (True, "1")]
    site.sees_nothing_left()
    assert not list(Path("/dev/shm").glob("netpipe-fake-nccl-*"))


def test_two_hosts_measure_and_every_byte_arrives(site: Site, fake: object) -> None:
    done = site.run("nccl", "--pattern", "pingpong", "--sizes", "65539", "--budget", "0.05", "--verify")
    assert done.code == 0, done.said
    (point,) = done.of("point")
    assert point["verified_bytes"] > 0
    assert [rank["settings"]["device"] for rank in done.of("variant")[0]["ranks"]] == ["0", "0"]
    site.sees_nothing_left()


@pytest.mark.parametrize(
    ("options", "world", "code", "words"),
    [
        ("", {"FAKE_CUDA_DEVICES": "1"}, 4, "Duplicate GPU detected"),
        ("device=1", {}, 4, "Duplicate GPU detected"),
        ("device=5", {}, 3, "there is no CUDA device 5: this host has 2"),
        ("", {"FAKE_NCCL_FAIL": "ncclGetUniqueId:2"}, 4, "ncclGetUniqueId on rank 0 failed"),
        ("", {"FAKE_NCCL_FAIL": "ncclSend:4"}, 4, "ncclSend on rank"),
        ("", {"FAKE_NCCL_FAIL": "ncclRecv:6"}, 4, "remote process exited"),
        ("", {"FAKE_CUDA_FAIL": "cuMemAlloc_v2:2"}, 4, "CUDA_ERROR_OUT_OF_MEMORY"),
        ("", {"FAKE_NCCL_FLIPS": "1"}, 1, "differs from what was sent"),
    ],
)
def test_what_nccl_refuses_is_a_sentence(
    measure: Runner,
    fake: pytest.MonkeyPatch,
    options: str,
    world: dict[str, str],
    code: int,
    words: str,
) -> None:
    for name, value in world.items():
        fake.setenv(name, value)
    done = listed(measure, options, "1000", "verify yes", "budget 0.1")
    assert (done.code, words in done.said) == (code, True), done.said


def test_an_error_that_shows_later_ends_the_wait(
    measure: Runner,
    fake: pytest.MonkeyPatch,
) -> None:
    fake.setenv("FAKE_NCCL_STUCK", "1")
    fake.setenv("FAKE_NCCL_ASYNC", "6")
    done = listed(measure, "", "8", "budget 0.1", "timeout 20")
    assert done.code == 4
    assert "an operation that was under way on rank" in done.said


def test_what_never_ends_meets_the_deadline(
    measure: Runner,
    fake: pytest.MonkeyPatch,
) -> None:
    fake.setenv("FAKE_NCCL_STUCK", "1")
    done = listed(measure, "", "8", "budget 0.1", "timeout 1")
    assert done.code == 4
    assert done.of("error"), done.said


def test_an_interrupt_ends_it_and_nothing_is_left(
    started: Starter,
    fake: object,
) -> None:
    process, path = started("variant nccl", "budget 30")
    wait_for_samples(path, 2)
    process.send_signal(signal.SIGINT)
    assert process.wait(5) == 130
    assert not list(Path("/dev/shm").glob("netpipe-fake-nccl-*"))


@real_devices
@pytest.mark.parametrize("pattern", [*WAYS, "collective"])
def test_real_devices_move_every_byte(measure: Runner, pattern: str) -> None:
    done = listed(measure, "", "8,4096,1048576", f"pattern {pattern}", "verify yes", "budget 0.5")
    assert done.code == 0, done.said
    assert all(point["verified_bytes"] > 0 for point in done.of("point"))
