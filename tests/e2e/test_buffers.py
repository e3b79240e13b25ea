# SPDX-License-Identifier: Apache-2.0
"""Where messages start and land: fresh buffers, one place for many messages, empty messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import Netpipe, Runner
from mpi import Mpis
from test_conformance import LISTING, may_lose

PAIRS = [one["name"] for one in LISTING["modules"] if one["max_ranks"] > 1]
STREAMS = ("memcpy", "shm", "pipe", "unix", "tcp")  # in which nothing is nothing
# With memory that is open to the peer, which fresh buffers are not.
ONE_SIDED = ("put", "get")
PATTERNS = [
    pattern["name"]
    for pattern in LISTING["patterns"]
    if pattern["name"] not in ONE_SIDED and pattern["min_ranks"] <= 2
]


def plan(done: Any) -> dict[str, Any]:
    (record,) = done.of("plan")
    return dict(record)


@pytest.mark.parametrize("module", PAIRS)
def test_every_byte_of_fresh_buffers_arrives(measure: Runner, module: str) -> None:
    """The guards around each message are looked at as well."""
    done = measure(
        f"variant {module}",
        "pattern pingpong:recv_offset=1",
        "pattern bidirectional",
        "pattern window:places=all",
        "buffers fresh",
        "verify yes",
        "schedule list",
        "sizes 1,8,4097,1048579",
        "budget 0.1",
    )
    assert done.code == 0, done.said
    if may_lose(done):  # a pattern may need every message, and a large window may lose some each time
        measured = [point["pattern"].partition(":")[0] for point in done.of("point")]
        assert measured.count("pingpong") == 4
        assert 1 <= measured.count("window") <= 4
        assert set(measured) == {"pingpong", "window"}
        assert all(point["verified_bytes"] > 0 for point in done.of("point"))
        return
    assert len(done.of("point")) == 12
    assert all(point["verified_bytes"] > 0 for point in done.of("point"))
    assert plan(done)["buffers"]["policy"] == "fresh"
    # A visit of 32 messages of 1 MiB and more, each in pages of its own, both ways.
    assert plan(done)["buffers"]["fresh_bytes"] > 64 << 20
    (launch,) = done.of("launch")
    assert launch["buffer_bytes"] > plan(done)["buffers"]["pool_bytes"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_pattern_takes_fresh_buffers(measure: Runner, pattern: str) -> None:
    """Where it is skipped, it is so with warm buffers as well, and for the same reason."""
    fresh = f"{pattern}:buffers=fresh"
    done = measure(
        "variant pipe",
        f"pattern {pattern}",
        f"pattern {fresh}",
        "verify yes",
        "schedule list",
        "sizes 8,4096",
        "budget 0.1",
    )
    assert plan(done)["patterns"] == [pattern, fresh]
    with_warm, with_fresh = (
        [
            (record["size_bytes"], record["reason"].replace(name, pattern))
            for record in done.of("skipped", pattern=name)
        ]
        for name in (pattern, fresh)
    )
    assert with_fresh == with_warm
    assert len(done.of("point", pattern=fresh)) == len(done.of("point", pattern=pattern))
    assert done.code == 0 or with_fresh, done.said
    assert len(done.of("point", pattern=fresh)) == 2 or with_fresh


def test_half_of_the_messages_may_reuse_a_buffer(measure: Runner) -> None:
    done = measure(
        "variant unix",
        *(f"pattern pingpong:reuse={percent}" for percent in (0, 50, 100)),
        "schedule list",
        "sizes 8,65536",
        "budget 0.3",
    )
    assert done.code == 0, done.said
    assert len(done.of("point")) == 6
    assert plan(done)["patterns"] == ["pingpong:reuse=0", "pingpong:reuse=50", "pingpong"]


@pytest.mark.parametrize(
    ("variant", "pattern", "says"),
    [("memcpy", "pingpong", "open to the peer"), ("shm", "put", "open to the peer")],
)
def test_where_memory_cannot_be_fresh_is_said(measure: Runner, variant: str, pattern: str, says: str) -> None:
    done = measure(f"variant {variant}", f"pattern {pattern}", "buffers fresh", "schedule list", "sizes 8")
    assert done.code == 3
    (skipped,) = done.of("skipped")
    assert says in skipped["reason"]


def test_a_window_may_land_in_one_place(measure: Runner) -> None:
    done = measure(
        "variant tcp",
        "pattern window:places=one",
        "pattern window:places=one,directions=both",
        "schedule list",
        "sizes 8,65536",
        "budget 0.1",
    )
    assert done.code == 0, done.said
    assert len(done.of("point")) == 4
    refused = measure("variant tcp", "pattern window:places=one", "verify yes")
    assert refused.code == 2
    assert "its messages land on each other" in refused.said


@pytest.mark.parametrize("module", [name for name in PAIRS if name != "null"])
def test_a_layer_without_empty_messages_says_so_and_goes_on(measure: Runner, module: str) -> None:
    done = measure(f"variant {module}", "schedule list", "sizes 0,8", "verify yes", "budget 0.1")
    assert done.code == 0, done.said
    measured = [point["size_bytes"] for point in done.of("point")]
    if 0 in measured:
        assert module not in STREAMS
        assert (sorted(measured), done.of("skipped")) == ([0, 8], [])
        return
    (skipped,) = done.of("skipped")
    assert (skipped["size_bytes"], skipped["reason"]) == (0, "this layer has no empty messages")
    assert measured == [8]


def test_of_nothing_but_empty_messages_nothing_is_measured(measure: Runner) -> None:
    done = measure("variant tcp", "schedule list", "sizes 0")
    assert done.code == 3
    assert "nothing could be measured: this layer has no empty messages" in done.said


@pytest.mark.deep
@pytest.mark.parametrize("library", ["openmpi", "mpich"])
def test_mpi_has_empty_messages_and_fresh_buffers(
    netpipe: Netpipe, with_mpis: Mpis, library: str, tmp_path: Path
) -> None:
    with_mpis.need(library)
    variant = f"mpi@{library}:transport=shm"
    patterns = (
        "pingpong",
        "window",
        "bidirectional",
        "stream",
        "put",
        "collective",
        "collective:what=bcast",
    )
    words = [word for pattern in patterns for word in ("--pattern", pattern)]
    done = netpipe(variant, *words, "--sizes", "0,8,65536", "--verify", "--budget", "0.1")
    assert done.code == 0, done.said
    empty = [point for point in done.of("point") if point["size_bytes"] == 0]
    assert {point["pattern"] for point in empty} == set(patterns) - {"put"}
    assert all(point["median_ns"] > 0 and point["bytes_per_s"] is None for point in empty)
    (skipped,) = {(record["pattern"], record["size_bytes"]) for record in done.of("skipped")}
    assert skipped == ("put", 0)
    # The adaptive schedule begins with it.
    done = netpipe(variant, "--schedule", "adaptive", "--start", "0", "--end", "64", "--budget", "0.2")
    assert done.code == 0, done.said
    assert {0, 1, 2, 4, 64} <= {point["size_bytes"] for point in done.of("point")}
    done = netpipe(
        variant,
        *("--pattern", "pingpong", "--pattern", "window", "--pattern", "collective:what=alltoall"),
        *("--buffers", "fresh", "--verify", "--sizes", "8,65536,1048576", "--budget", "0.1"),
    )
    assert done.code == 0, done.said
    assert len(done.of("point")) == 9
    assert all(point["verified_bytes"] > 0 for point in done.of("point"))
