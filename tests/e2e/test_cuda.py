# SPDX-License-Identifier: Apache-2.0
"""cuda: copies in all directions, with every way to wait and every memory of the host, over a stand-in for NVIDIA's
driver (tests/modules/cuda/fake_cuda.c). What needs a real device says so where there is none.
"""

from __future__ import annotations

import signal
from typing import Any

import pytest
from conftest import Outcome, Runner, Starter, wait_for_samples
from stand_ins import built, usable

BUILT = built("cuda")
REAL = usable("cuda")
pytestmark = [
    pytest.mark.module("cuda"),
    pytest.mark.skipif(BUILT is None, reason="module cuda is not built here: cuda.h is missing"),
]
real_device = pytest.mark.skipif(not REAL, reason="not run: no CUDA device here")


def listed(measure: Runner, options: str, sizes: str, *lines: str) -> Outcome:
    variant = f"cuda:{options}" if options else "cuda"
    return measure(f"variant {variant}", "schedule list", f"sizes {sizes}", *lines)


def settings(done: Outcome) -> dict[str, Any]:
    (variant,) = done.of("variant")
    answer: dict[str, Any] = variant["ranks"][0]["settings"]
    return answer


VARIANTS = [
    "kind=h2d",
    "kind=h2d,host=pageable",
    "kind=h2d,host=registered",
    "kind=d2h",
    "kind=d2h,host=registered,wait=block",
    "kind=d2d,wait=block",
    "kind=d2d,device=1",
    "kind=p2p",
    "kind=p2p,device=1,peer=0,wait=block",
]
WAYS = (
    "pattern pingpong",
    "pattern put",
    "pattern put:in_flight=16",
    "pattern get",
    "pattern put:sync=fence",
)
SIZES = "1,7,4095,4097,65537,300001"


@pytest.mark.parametrize("options", VARIANTS)
def test_every_byte_is_copied_in_every_direction(measure: Runner, fake: object, options: str) -> None:
    done = listed(measure, options, SIZES, *WAYS, "verify yes", "budget 0.2")
    assert done.code == 0, done.said
    points = done.of("point")
    assert len(points) == len(WAYS) * len(SIZES.split(","))
    assert all(point["verified_bytes"] > 0 for point in points)
    assert all(point["counters"]["copies"] > 0 for point in points)


def test_cold_buffers_and_offsets_are_verified_too(measure: Runner, fake: object) -> None:
    done = listed(
        measure,
        "kind=h2d",
        "8,4097",
        "pattern put:buffers=cold",
        "pattern put:buffers=apart,send_offset=3,recv_offset=5",
        "verify yes",
        "budget 0.1",
    )
    assert done.code == 0, done.said
    assert len(done.of("point")) == 4


def test_fresh_buffers_are_skipped_with_the_reason(measure: Runner, fake: object) -> None:
    done = listed(measure, "", "8", "pattern put:buffers=fresh", "pattern put", "budget 0.1")
    (skipped,) = done.of("skipped")
    assert "fresh buffers are not" in skipped["reason"]


@pytest.mark.parametrize("options", ["kind=h2d", "kind=d2h", "kind=d2d,wait=block"])
def test_a_wrong_byte_is_found(measure: Runner, fake: pytest.MonkeyPatch, options: str) -> None:
    fake.setenv("FAKE_CUDA_FLIPS", "1")
    done = listed(measure, options, "1000", "verify yes", "budget 0.1")
    assert done.code == 1
    assert "differs from what was sent, first at byte 999" in done.said


def test_the_record_says_what_the_driver_told(measure: Runner, fake: object) -> None:
    found = settings(listed(measure, "kind=p2p,wait=block", "8", "budget 0.1"))
    assert found["device_name"] == "stand-in 0"
    assert found["peer_name"] == "stand-in 1"
    assert found["device_pci"] == "ffff:3b:00.0"
    assert found["device_compute_capability"] == "9.0"
    assert found["device_ecc"] == "yes"
    assert found["driver_cuda_version"] == "12.4"
    assert found["p2p_performance_rank"] == "1"
    assert found["copied_by"] == "cuMemcpyPeerAsync"
    assert found["wait"] == "block"
    assert "host" not in found


REFUSED = [
    ("device=2", {}, 3, "there is no CUDA device 2: this host has 2, counted from 0"),
    ("kind=p2p,peer=7", {}, 3, "there is no CUDA device 7"),
    ("kind=p2p,device=1", {}, 2, "device and peer are both 1"),
    ("kind=p2p", {"FAKE_CUDA_NO_PEERS": "1"}, 3, "CUDA device 0 cannot reach the memory of device 1"),
    ("kind=d2d,host=pageable", {}, 2, "neither end of the copy is in memory of the host"),
    ("peer=0", {}, 2, "only kind=p2p has a second device"),
    (
        "",
        {"FAKE_CUDA_DEVICES": "0"},
        3,
        "the driver says CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected",
    ),
    ("", {"FAKE_CUDA_FAIL": "cuInit:803"}, 3, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
    ("", {"FAKE_CUDA_FAIL": "cuMemAlloc_v2:2"}, 4, "CUDA_ERROR_OUT_OF_MEMORY: out of memory"),
    (
        "",
        {"FAKE_CUDA_FAIL": "cuMemHostAlloc:2"},
        4,
        "cuMemHostAlloc on CUDA device 0 failed with CUDA_ERROR_OUT_OF",
    ),
    (
        "host=registered",
        {"FAKE_CUDA_FAIL": "cuMemHostRegister_v2:1"},
        4,
        "cuMemHostRegister on CUDA device 0",
    ),
    ("", {"FAKE_CUDA_FAIL": "cuStreamCreate:2"}, 4, "cuStreamCreate on CUDA device 0 failed"),
    (
        "",
        {"FAKE_CUDA_FAIL": "cuMemcpyAsync:700:5"},
        4,
        "cuMemcpyAsync on CUDA device 0 failed with CUDA_ERROR_ILLEGAL",
    ),
    ("", {"FAKE_CUDA_FAIL": "cuStreamQuery:700"}, 4, "an illegal memory access was encountered"),
    ("wait=block", {"FAKE_CUDA_FAIL": "cuEventSynchronize:999"}, 4, "failed with an unknown error"),
]


@pytest.mark.parametrize(("options", "world", "code", "words"), REFUSED)
def test_what_the_driver_refuses_is_a_sentence(
    measure: Runner, fake: pytest.MonkeyPatch, options: str, world: dict[str, str], code: int, words: str
) -> None:
    for name, value in world.items():
        fake.setenv(name, value)
    done = listed(measure, options, "8", "budget 0.1")
    assert (done.code, words in done.said) == (code, True), done.said


def test_an_interrupt_ends_a_wait_for_a_device_that_does_not_answer(
    started: Starter, fake: pytest.MonkeyPatch
) -> None:
    process, path = started("variant cuda", "budget 30")
    wait_for_samples(path, 2)
    process.send_signal(signal.SIGINT)
    assert process.wait(5) == 130


def test_a_device_that_never_finishes_meets_the_deadline(measure: Runner, fake: pytest.MonkeyPatch) -> None:
    fake.setenv("FAKE_CUDA_STUCK", "1")
    done = listed(measure, "", "8", "budget 0.1", "timeout 1")
    assert done.code == 4
    assert done.of("error"), done.said


@pytest.mark.skipif(REAL, reason="this machine has a CUDA device")
def test_without_a_driver_the_listing_says_what_is_missing() -> None:
    assert BUILT is not None
    assert "there is no CUDA device here" in BUILT["reason"]


@real_device
@pytest.mark.parametrize("options", ["kind=h2d", "kind=h2d,host=pageable", "kind=d2h,wait=block", "kind=d2d"])
def test_a_real_device_copies_every_byte(measure: Runner, options: str) -> None:
    done = listed(measure, options, SIZES, *WAYS, "verify yes", "budget 0.5")
    assert done.code == 0, done.said
    assert all(point["verified_bytes"] > 0 for point in done.of("point"))
