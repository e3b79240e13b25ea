# SPDX-License-Identifier: Apache-2.0
"""memory=cuda of `mpi` and `ucx`: what has no driver or was not built for it is refused before a message is sent, and
what takes memory of a device is given its addresses. The device is the stand-in for the driver
(tests/modules/cuda/fake_cuda.c), whose memory the processor cannot reach. The libraries here were built without CUDA:
aware_mpi.c and aware_ucx.c, preloaded into the ranks, make them such as were built with it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import STAND_INS, Netpipe, Outcome, Runner
from mpi import EVERYDAY, LIBRARIES, Mpis
from shims import shim
from stand_ins import built, usable

from netpipe.failure import Failure
from netpipe.libraries.adding.add import Request, add

NO_DEVICE = "there is no CUDA device here: NVIDIA's driver was not found"
without_device = pytest.mark.skipif(usable("cuda"), reason="this machine has a CUDA device")
with_stand_in = pytest.mark.skipif(
    built("cuda") is None, reason="no stand-in is built here: cuda.h is missing"
)
of_mpi = pytest.mark.module("mpi")
of_ucx = pytest.mark.module("ucx")
QUICK = ("--sizes", "8,4097,300001", "--budget", "0.05", "--verify")


def error(done: Outcome) -> str:
    (one,) = done.of("error")
    return str(one["message"])


def settings(done: Outcome, rank: int, variant: str | None = None) -> dict[str, Any]:
    (opened,) = done.of("variant", **({"variant": variant} if variant else {}))
    (found,) = [one["settings"] for one in opened["ranks"] if one["rank"] == rank]
    return dict(found)


# -------------------------------------------------------------------------------------------------------------- mpi


@dataclass(frozen=True)
class Gpus:
    """Modules of the everyday libraries that find the stand-in for the driver, and what to preload, by library."""

    folder: Path
    shims: dict[str, Path]


@pytest.fixture(scope="module")
def gpus(tmp_path_factory: pytest.TempPathFactory) -> Gpus:
    folder = tmp_path_factory.mktemp("gpus")
    shims = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_LIBRARY_PATH", str(STAND_INS))  # kept in the descriptions, for the ranks
        for name in EVERYDAY:
            mpicc, _ = LIBRARIES[name]
            if not mpicc.exists():
                continue
            try:
                add(Request(mpicc, f"{name}-gpu", folder=folder))
            except Failure as failure:
                pytest.fail(failure.sentence)
            shims[name] = shim(mpicc, "aware_mpi.c", folder / f"aware_{name}.so")
    return Gpus(folder, shims)


@pytest.fixture
def with_gpus(gpus: Gpus, with_mpis: Mpis, monkeypatch: pytest.MonkeyPatch) -> Gpus:
    monkeypatch.setenv("NETPIPE_MODULE_PATH", f"{gpus.folder}:{os.environ['NETPIPE_MODULE_PATH']}")
    return gpus


@pytest.fixture
def aware(request: pytest.FixtureRequest, with_gpus: Gpus, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a library that takes memory of a device."""
    name = getattr(request, "param", "mpich")
    if name not in with_gpus.shims:
        pytest.skip(f"mpi@{name} is not installed (make setup-test)")
    monkeypatch.setenv("LD_PRELOAD", str(with_gpus.shims[name]))
    return f"mpi@{name}-gpu"


both = pytest.mark.parametrize("aware", EVERYDAY, indirect=True)


@of_mpi
@without_device
def test_an_mpi_without_a_driver_says_what_cuda_says(netpipe: Netpipe, with_mpis: Mpis) -> None:
    with_mpis.need("mpich")
    done = netpipe("mpi@mpich:memory=cuda", "--sizes", "8", "--budget", "0.05")
    assert done.code == 3, done.said
    assert NO_DEVICE in error(done)
    assert not done.of("sample")


@of_mpi
@with_stand_in
@pytest.mark.parametrize(
    ("library", "asked"), [("mpich", "MPIX_GPU_query_support"), ("openmpi", "MPIX_Query_cuda_support")]
)
def test_an_mpi_that_was_not_built_for_it_is_refused_before_a_message(
    netpipe: Netpipe, with_gpus: Gpus, library: str, asked: str
) -> None:
    if library not in with_gpus.shims:
        pytest.skip(f"mpi@{library} is not installed (make setup-test)")
    done = netpipe(f"mpi@{library}-gpu:memory=cuda", "--sizes", "8", "--budget", "0.05")
    assert done.code == 3, done.said
    assert f"takes no memory of a CUDA device, as {asked} says" in error(done)
    assert not done.of("sample")


@of_mpi
@with_stand_in
@both
def test_messages_of_a_device_arrive_whole(netpipe: Netpipe, aware: str) -> None:
    """A rank whose message is in memory of the host would end (aware_mpi.c)."""
    variants = [
        f"{aware}:{way}memory=cuda"
        for way in ("", "op=isend,", "op=persistent,", "op=ssend,", "type=vector,")
    ]
    ways = ("--pattern", "pingpong", "--pattern", "window")
    done = netpipe(*variants, *ways, *QUICK)
    assert done.code == 0, done.said
    points = done.of("point")
    assert {(one["variant"], one["pattern"]) for one in points} == {
        (variant, pattern) for variant in variants for pattern in ("pingpong", "window")
    }
    assert all(one["verified_bytes"] > 0 for one in points)
    first, second = (settings(done, rank, variants[0]) for rank in (0, 1))
    assert (first["memory"], first["device"], second["device"]) == ("cuda", "0", "1")
    assert second["device_name"] == "stand-in 1"
    asked = "MPIX_GPU_query_support" if "mpich" in aware else "MPIX_Query_cuda_support"
    assert first["takes_device_memory"] == f"yes ({asked})"
    # What was seen to carry messages of the host is not what carries these.
    assert "transport_found" not in first
    assert {one["below"] for one in done.of("variant")} == {None}


@of_mpi
@with_stand_in
@both
def test_collectives_and_windows_of_a_device_are_right(netpipe: Netpipe, aware: str) -> None:
    plain = f"{aware}:memory=cuda,transport=shm"
    one_sided = [plain.replace(":", f":{way},") for way in ("op=put", "op=get,sync=lock_all")]
    own = [
        "collective",
        "collective:what=bcast",
        "collective:what=alltoall",
        "collective:what=gather,in_place=yes",
    ]
    own += ["put", "get", "put:sync=fence"]
    done = netpipe(
        plain, *one_sided, *(word for one in ("pingpong", *own) for word in ("--pattern", one)), *QUICK
    )
    assert done.code == 0, done.said
    assert {one["pattern"] for one in done.of("point", variant=plain)} == {"pingpong", *own}
    for variant in one_sided:
        assert {one["pattern"] for one in done.of("point", variant=variant)} == {"pingpong"}
        assert settings(done, 0, variant)["window"] == "create"
    assert all(one["verified_bytes"] > 0 for one in done.of("point"))


REFUSED_PATTERNS = {
    "accumulate": "no library promises MPI_Accumulate",
    "accumulate:fetch=yes": "no library promises MPI_Accumulate",
    "atomic": "or atomic operations",
    "put:sync=wait": "no library promises MPI_Rput and MPI_Rget",
    "signal": "a signal would be a word in memory that nobody can poll",
    "collective:call=request": "blocking collective operations alone",
    "threads": "the device is current in one thread of a rank alone",
    "pingpong:buffers=fresh": "memory of the layer's own",
}


@of_mpi
@with_stand_in
def test_what_no_library_promises_is_skipped_by_name(netpipe: Netpipe, aware: str) -> None:
    variants = [f"{aware}:memory=cuda,thread=multiple", f"{aware}:op=persistent,memory=cuda"]
    measured = ("pingpong", "collective")
    done = netpipe(
        *variants,
        *(word for one in (*measured, *REFUSED_PATTERNS) for word in ("--pattern", one)),
        "--sizes",
        "8",
        "--budget",
        "0.05",
    )
    assert done.code == 0, done.said
    assert {one["pattern"] for one in done.of("point")} == set(measured)
    skipped = {(one["variant"], one["pattern"]): one["reason"] for one in done.of("skipped")}
    for pattern, words in REFUSED_PATTERNS.items():
        assert words in skipped[variants[0], pattern], pattern
    assert "blocking collective operations alone" in skipped[variants[1], "collective"]
    assert {one["variant"] for one in done.of("point", pattern="collective")} == {variants[0]}


@of_mpi
@with_stand_in
@pytest.mark.parametrize("aware", ["openmpi"], indirect=True)
def test_windows_through_ucx_are_refused_for_memory_of_a_device(netpipe: Netpipe, aware: str) -> None:
    plain = f"{aware}:memory=cuda,transport=ucx_shm"
    done = netpipe(plain, "--pattern", "put", "--pattern", "pingpong", "--sizes", "8", "--budget", "0.05")
    assert done.code == 0, done.said
    (skipped,) = done.of("skipped")
    assert skipped["pattern"] == "put"
    assert "go through UCX with these settings" in skipped["reason"]
    # A UCX that may use nothing else has no way to memory of a device, and the rank that follows its address dies.
    assert "UCX_TLS=self,posix,sysv,cma,cuda" in settings(done, 0)["environment"].split()
    done = netpipe(f"{plain},op=put", "--sizes", "8", "--budget", "0.05")
    assert done.code == 2, done.said
    assert "go through UCX with these settings" in error(done)


REFUSED = [
    ("memory=cuda,op=accumulate", "memory=cuda with op=accumulate: no library promises that"),
    ("memory=cuda,op=partitioned", "memory=cuda with op=partitioned"),
    (
        "memory=cuda,op=put,window=allocate",
        "memory=cuda with window=allocate: only MPI_Win_create takes memory of a device",
    ),
    ("cuda_device=1", "cuda_device=1 with memory=host: only memory=cuda is on a device"),
]


@of_mpi
@pytest.mark.parametrize(("options", "words"), REFUSED)
def test_settings_that_do_not_go_together_are_refused_when_it_is_planned(
    measure: Runner, with_mpis: Mpis, options: str, words: str
) -> None:
    with_mpis.need("mpich")
    done = measure(f"variant mpi@mpich:{options}", "budget 0.05")
    assert done.code == 2, done.said
    assert words in done.said


@of_mpi
@with_stand_in
@pytest.mark.parametrize(
    ("options", "world", "devices"),
    [
        (",cuda_device=1", {}, ("1", "1")),
        ("", {"FAKE_CUDA_DEVICES": "1"}, ("0", "0")),
        ("", {"FAKE_CUDA_DEVICES": "4"}, ("0", "1")),
    ],
)
def test_the_ranks_of_a_host_have_its_devices_in_turn(
    netpipe: Netpipe,
    aware: str,
    monkeypatch: pytest.MonkeyPatch,
    options: str,
    world: dict[str, str],
    devices: tuple[str, str],
) -> None:
    for name, value in world.items():
        monkeypatch.setenv(name, value)
    done = netpipe(f"{aware}:memory=cuda{options}", "--sizes", "8", "--budget", "0.05")
    assert done.code == 0, done.said
    assert tuple(settings(done, rank)["device"] for rank in (0, 1)) == devices


@of_mpi
@with_stand_in
@pytest.mark.parametrize(
    ("options", "world", "code", "words"),
    [
        (",cuda_device=5", {}, 3, "there is no CUDA device 5: this host has 2, counted from 0"),
        ("", {"FAKE_CUDA_DEVICES": "0"}, 3, "the driver says CUDA_ERROR_NO_DEVICE"),
        ("", {"FAKE_CUDA_FAIL": "cuMemAlloc_v2:2"}, 4, "CUDA_ERROR_OUT_OF_MEMORY: out of memory"),
    ],
)
def test_what_the_driver_refuses_is_a_sentence(
    netpipe: Netpipe,
    aware: str,
    monkeypatch: pytest.MonkeyPatch,
    options: str,
    world: dict[str, str],
    code: int,
    words: str,
) -> None:
    for name, value in world.items():
        monkeypatch.setenv(name, value)
    done = netpipe(f"{aware}:memory=cuda{options}", "--sizes", "8", "--budget", "0.05")
    assert done.code == code, done.said
    assert words in error(done)


@of_mpi
@with_stand_in
def test_mvapich2_is_told_by_a_variable(
    netpipe: Netpipe, with_gpus: Gpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has nothing that could be asked. Here it is MPICH that calls itself so."""
    mpicc, _ = LIBRARIES["mpich"]
    if not mpicc.exists():
        pytest.skip("mpi@mpich is not installed (make setup-test)")
    called = shim(mpicc, "aware_mpi.c", tmp_path / "called.so", '-DCALLED="MVAPICH2 Version : 2.3.7"')
    monkeypatch.setenv("LD_PRELOAD", str(called))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(STAND_INS))
    monkeypatch.setenv("NETPIPE_MODULE_PATH", str(tmp_path))
    add(Request(mpicc, "called-gpu", folder=tmp_path, replace=True))
    done = netpipe("mpi@called-gpu:memory=cuda", "--sizes", "8", "--budget", "0.05")
    assert done.code == 3, done.said
    assert "MVAPICH2 Version : 2.3.7 takes no memory of a CUDA device, as MV2_USE_CUDA says" in error(done)
    done = netpipe("mpi@called-gpu:memory=cuda,env=MV2_USE_CUDA=1", *QUICK)
    assert done.code == 0, done.said
    assert all(one["verified_bytes"] > 0 for one in done.of("point"))
    assert settings(done, 0)["takes_device_memory"] == "yes (MV2_USE_CUDA)"


# -------------------------------------------------------------------------------------------------------------- ucx


@pytest.fixture
def ucx() -> None:
    if built("ucx") is None:
        pytest.skip("module ucx is not built: apt install libucx-dev")


@pytest.fixture
def aware_ucx(ucx: None, fake: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A UCX that moves memory of the stand-in's devices."""
    fake.setenv("LD_PRELOAD", str(shim("cc", "aware_ucx.c", tmp_path / "aware_ucx.so")))
    return fake


LISTED = ("schedule list", "sizes 8,4097,300001", "budget 0.05", "verify yes")


@of_ucx
@without_device
def test_ucx_without_a_driver_says_what_cuda_says(measure: Runner, ucx: None) -> None:
    done = measure("variant ucx:memory=cuda", *LISTED)
    assert done.code == 3, done.said
    assert NO_DEVICE in error(done)
    assert not done.of("sample")


@of_ucx
@without_device  # whose UCX may have been built for it
@with_stand_in
def test_a_ucx_that_was_not_built_for_it_is_refused_before_a_message(
    measure: Runner, ucx: None, fake: pytest.MonkeyPatch
) -> None:
    done = measure("variant ucx:memory=cuda", *LISTED)
    assert done.code == 3, done.said
    assert "moves no memory of a CUDA device here, only: host (ucp_context_query)" in error(done)
    assert not done.of("sample")


@of_ucx
@with_stand_in
@pytest.mark.parametrize("options", ["", "tls=tcp,", "api=stream,tls=posix,"])
def test_what_ucx_moves_from_device_to_device_is_whole(
    measure: Runner, aware_ucx: pytest.MonkeyPatch, options: str
) -> None:
    """Memory that was said to be of another kind would end the rank (aware_ucx.c)."""
    one_sided = () if "stream" in options else ("put", "get", "put:in_flight=8", "signal")
    patterns = ("pingpong", "stream", "window", *one_sided)
    done = measure(f"variant ucx:{options}memory=cuda", *(f"pattern {one}" for one in patterns), *LISTED)
    assert done.code == 0, done.said
    points = done.of("point")
    assert {one["pattern"] for one in points} == set(patterns)
    assert all(one["verified_bytes"] > 0 for one in points)
    first, second = settings(done, 0), settings(done, 1)
    assert (first["memory"], first["memory_types"]) == ("cuda", "host, cuda")
    assert (first["device"], second["device"]) == ("0", "1")
    assert second["device_name"] == "stand-in 1"


@of_ucx
@with_stand_in
def test_all_ranks_of_ucx_have_the_device_that_was_named(
    measure: Runner, aware_ucx: pytest.MonkeyPatch
) -> None:
    done = measure("variant ucx:memory=cuda,cuda_device=1", *LISTED)
    assert done.code == 0, done.said
    assert [settings(done, rank)["device"] for rank in (0, 1)] == ["1", "1"]


@of_ucx
@with_stand_in
def test_what_ucx_cannot_do_with_memory_of_a_device_is_skipped_by_name(
    measure: Runner, aware_ucx: pytest.MonkeyPatch
) -> None:
    patterns = ("pingpong", "atomic", "pingpong:buffers=fresh")
    done = measure("variant ucx:memory=cuda", *(f"pattern {one}" for one in patterns), *LISTED)
    assert done.code == 0, done.said
    assert {one["pattern"] for one in done.of("point")} == {"pingpong"}
    reasons = {one["pattern"]: one["reason"] for one in done.of("skipped")}
    assert set(reasons) == {"atomic", "pingpong:buffers=fresh"}
    assert "memory=cuda has no atomics" in reasons["atomic"]
    assert "memory of the layer's own" in reasons["pingpong:buffers=fresh"]


@of_ucx
@with_stand_in
@pytest.mark.parametrize(
    ("options", "world", "code", "words"),
    [
        ("memory=cuda,api=am", {}, 2, "memory=cuda with api=am: the receiver would have to copy"),
        ("cuda_device=1", {}, 2, "only memory=cuda is on a device"),
        ("memory=cuda,cuda_device=5", {}, 3, "there is no CUDA device 5: this host has 2, counted from 0"),
        ("memory=cuda", {"FAKE_CUDA_FAIL": "cuMemAlloc_v2:2"}, 4, "CUDA_ERROR_OUT_OF_MEMORY"),
    ],
)
def test_what_ucx_or_the_driver_refuses_is_a_sentence(
    measure: Runner,
    aware_ucx: pytest.MonkeyPatch,
    options: str,
    world: dict[str, str],
    code: int,
    words: str,
) -> None:
    for name, value in world.items():
        aware_ucx.setenv(name, value)
    done = measure(f"variant ucx:{options}", *LISTED)
    assert done.code == code, done.said
    assert words in done.said


# ------------------------------------------------------------------------------------------------- on a real device


@of_ucx
@pytest.mark.skipif(not usable("cuda"), reason="not run: no CUDA device here")
def test_ucx_over_a_real_device_moves_every_byte_or_says_that_it_was_not_built_for_it(
    measure: Runner, ucx: None
) -> None:
    done = measure("variant ucx:memory=cuda", *LISTED)
    assert done.code in (0, 3), done.said
    if done.code == 3:
        assert "moves no memory of a CUDA device here" in error(done)
    else:
        assert all(one["verified_bytes"] > 0 for one in done.of("point"))


@of_mpi
@pytest.mark.skipif(not usable("cuda"), reason="not run: no CUDA device here")
@pytest.mark.parametrize("library", EVERYDAY)
def test_an_mpi_over_a_real_device_moves_every_byte_or_says_that_it_was_not_built_for_it(
    netpipe: Netpipe, with_mpis: Mpis, library: str
) -> None:
    with_mpis.need(library)
    done = netpipe(f"mpi@{library}:memory=cuda", *QUICK)
    assert done.code in (0, 3), done.said
    if done.code == 3:
        assert "takes no memory of a CUDA device" in error(done)
    else:
        assert all(one["verified_bytes"] > 0 for one in done.of("point"))
