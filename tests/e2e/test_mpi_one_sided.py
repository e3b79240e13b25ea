# SPDX-License-Identifier: Apache-2.0
"""One-sided transfers of every MPI library under ping-pong and stream: with real bytes that are checked, through what
was asked for, and refused with a sentence where they cannot be.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import Netpipe
from mpi import SIX_WITH_ONE_EVERYDAY, Mpis

from netpipe import native
from netpipe.failure import USAGE, Failure
from netpipe.launch.plan import Plan

SIZES = "1,9,4097,300001"
LIMIT_S = 120.0
PATTERNS = ("--pattern", "pingpong", "--pattern", "stream", "--verify")

# Every op, every sync, every window, and every op over TCP, without all their products.
MPI_3 = (
    "op=put,transport=shm",
    "op=put,sync=lock,window=dynamic,transport=shm",
    "op=put,sync=lock_all,window=shared,transport=shm",
    "op=put,sync=none,transport=shm",
    "op=get,sync=pscw,window=create,transport=shm",
    "op=get,sync=lock,transport=shm",
    "op=get,sync=lock_all,window=dynamic,transport=shm",
    "op=accumulate,sync=lock,transport=shm",
    "op=accumulate,sync=none,window=create,transport=shm",
    "op=put,sync=lock_all,window=create,transport=tcp",
    "op=get,window=dynamic,transport=tcp",
    "op=accumulate,sync=pscw,window=create,transport=tcp",
)
# LAM has fence and pscw, and loses itself in pscw where a message is longer than it sends at once.
LAM = (
    "op=put,transport=shm",
    "op=get,sync=pscw,transport=shm",
    "op=accumulate,transport=shm",
    "op=put,transport=tcp",
    "op=get,sync=pscw,transport=tcp",
)


@pytest.mark.parametrize("library", SIX_WITH_ONE_EVERYDAY)
def test_every_byte_arrives(netpipe: Netpipe, with_mpis: Mpis, library: str) -> None:
    with_mpis.need(library)
    variants = [f"mpi@{library}:{settings}" for settings in (LAM if library == "lam" else MPI_3)]
    done = netpipe(*variants, *PATTERNS, "--sizes", SIZES, "--budget", "0.05")
    assert done.code == 0, done.said
    assert not done.of("skipped")
    for variant in variants:
        for pattern in ("pingpong", "stream"):
            points = done.of("point", variant=variant, pattern=pattern)
            sizes = {str(one["size_bytes"]) for one in points}
            assert sizes == set(SIZES.split(",")), (variant, pattern)
            assert all(point["verified_bytes"] > 0 for point in points)
        # Some libraries take shared memory for windows where messages go through TCP.
        (opened,) = done.of("variant", variant=variant)
        found = "TCP" if variant.endswith("tcp") else "shared memory"
        wanted = dict(one.split("=") for one in variant.partition(":")[2].split(","))
        for rank in opened["ranks"]:
            settings = rank["settings"]
            assert settings["transport_found"] == found
            assert settings["sync"] == wanted.get("sync", "fence")
            assert settings["memory_model"] in (
                ("not told",) if library == "lam" else ("unified", "separate")
            )


@pytest.mark.parametrize(
    "sync",
    [
        "",
        pytest.param(",sync=pscw", marks=pytest.mark.deep),
        pytest.param(",sync=lock_all", marks=pytest.mark.deep),
    ],
)
def test_two_pairs_at_once(netpipe: Netpipe, with_mpis: Mpis, sync: str) -> None:
    variants = [
        f"{added.name}:op={op}{sync},transport=shm"
        for added in with_mpis.need("openmpi", "mpich")
        for op in ("put", "get")
    ]
    done = netpipe(*variants, *PATTERNS, "--ranks", "4", "--sizes", "1,4097", "--budget", "0.2")
    assert done.code == 0, done.said
    for variant in variants:
        assert len(done.of("point", variant=variant)) == 4, variant
        points = done.of("point", variant=variant)
        assert all(point["verified_bytes"] > 0 for point in points)


@pytest.mark.deep
def test_messages_are_found_in_cold_places_and_in_the_place_where_they_landed(
    netpipe: Netpipe, with_mpis: Mpis
) -> None:
    """Without verification ping-pong sends from where the message landed, and cold messages begin anywhere."""
    with_mpis.need("mpich")
    variants = [f"mpi@mpich:op={op},sync={sync}" for op in ("put", "get") for sync in ("pscw", "lock_all")]
    for more in ((), ("--buffers", "cold")):
        done = netpipe(*variants, "--sizes", "8,4097", "--budget", "0.2", *more)
        assert done.code == 0, done.said
        assert all(len(done.of("point", variant=variant)) == 2 for variant in variants)


@pytest.mark.deep
def test_a_derived_datatype_is_the_same_on_both_sides(netpipe: Netpipe, with_mpis: Mpis) -> None:
    with_mpis.need("openmpi", "mpich4")
    variants = [
        f"mpi@{library}:op={op},type={kind}"
        for library in ("openmpi", "mpich4")
        for op, kind in (("put", "vector"), ("get", "indexed"))
    ]
    done = netpipe(*variants, *PATTERNS, "--sizes", "9,4097", "--budget", "0.05")
    assert done.code == 0, done.said
    assert all(point["verified_bytes"] > 0 for point in done.of("point"))
    assert len(done.of("point")) == 16


REFUSED = {
    "op=get,sync=none": "only synchronisation tells that the message has arrived",
    "sync=pscw": "cannot take sync=pscw with op=send: only op=put, get and accumulate",
    "op=isend,sync=lock": "cannot take sync=lock with op=isend: only op=put, get and accumulate",
    "op=put,any_source=yes": "cannot take any_source=yes with op=put",
    "op=put,window=shared,transport=tcp": "cannot take window=shared with transport=tcp",
}


@pytest.mark.parametrize("settings", REFUSED)
def test_what_cannot_work_is_refused_before_anything_is_launched(with_mpis: Mpis, settings: str) -> None:
    with_mpis.need("mpich")
    with pytest.raises(Failure) as refused:
        native.plan(Plan((("variant", f"mpi@mpich:{settings}"),)).text())
    assert refused.value.exit_code == USAGE
    assert "mpi@mpich (MPICH 5." in refused.value.sentence
    assert REFUSED[settings] in refused.value.sentence


@pytest.mark.deep
def test_lam_has_what_mpi_2_has(netpipe: Netpipe, with_mpis: Mpis) -> None:
    """No passive target, and in pscw no put beyond what it sends at once: it would wait for ever."""
    with_mpis.need("lam")
    for setting in ("sync=lock", "window=allocate"):
        done = subprocess.run(
            [sys.executable, "-m", "netpipe", "run", f"mpi@lam:op=put,{setting}", "--sizes", "8"],
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        assert done.returncode == 2, done.stderr
        assert ("fence" if setting == "sync=lock" else "create") in done.stderr
    short, long = "mpi@lam:op=put,sync=pscw", "mpi@lam:op=put,sync=pscw,eager=1M"
    run = netpipe(short, long, *PATTERNS, "--sizes", "8192,8193", "--budget", "0.1")
    assert run.code == 0, run.said
    assert {one["size_bytes"] for one in run.of("skipped")} == {8193}
    assert {one["variant"] for one in run.of("skipped")} == {short}
    assert len(run.of("point")) == 6
