# SPDX-License-Identifier: Apache-2.0
"""What opening a library costs: memory that is its own and nobody else's, and the time until all have talked to all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import NATIVE, TEST_MODULES, Netpipe, Runner, parse
from mpi import Mpis

MIB = 1 << 20
HUNGRY = ("variant hungry", f"module-file {TEST_MODULES}/hungry.so")


def test_what_a_module_takes_is_counted_to_the_page_and_also_what_it_takes_late(measure: Runner) -> None:
    done = measure(*HUNGRY, "pattern none")
    assert done.code == 0, done.said
    (variant,) = done.of("variant")
    assert variant["launch_s"] is None
    assert [rank["rank"] for rank in variant["ranks"]] == [0, 1]
    for rank in variant["ranks"]:
        assert 28 * MIB <= rank["private_bytes"] <= rank["resident_bytes"] < 29 * MIB
        assert 20 * MIB <= rank["barrier_resident_bytes"] < 21 * MIB, "before its first message"
        assert rank["pinned_bytes"] == 4096
        assert rank["open_s"] > 0
    assert done.of("plan")[0]["patterns"] == []
    assert not done.of("point")
    assert not done.of("skipped")


def test_buffers_of_netpipe_and_what_comes_with_the_first_message_are_no_cost_of_opening(
    measure: Runner,
) -> None:
    done = measure(*HUNGRY, "schedule list", "sizes 16M", "budget 0.1")
    assert done.code == 0, done.said
    (variant,) = done.of("variant")
    for rank in variant["ranks"]:
        assert 16 * MIB <= rank["private_bytes"] <= rank["resident_bytes"] < 17 * MIB
        assert rank["barrier_resident_bytes"] is None


def memory(*arguments: str | Path, code: int = 0) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "netpipe", "memory", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "NETPIPE_NATIVE": str(NATIVE), "COLUMNS": "160"},
    )
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


def test_the_command_starts_each_number_of_ranks_so_often(tmp_path: Path) -> None:
    file = tmp_path / "memory.jsonl"
    said, progress = memory("shm", "null", "--ranks", "2,3", "--launches", "2", "-o", file)
    records = parse(file.read_text())
    starts = [record for record in records if record["type"] == "variant"]
    assert [(one["launch"], one["variant"]) for one in starts] == [
        (launch, variant) for launch in range(4) for variant in ("shm", "null")
    ]
    assert records[-1]["reason"] == "done"
    assert progress.count("netpipe: launch ") == 4
    rows = [line.split() for line in said.splitlines() if line.split()]
    of_shm = [(row[1], row[-1]) for row in rows if row[0] == "shm"]
    assert of_shm == [("2", "2"), ("3", "2")]  # ranks, and how often they were started


def test_wrong_numbers_of_ranks_are_refused(tmp_path: Path) -> None:
    for ranks in ("2,many", "", "0", "2,,4"):
        _, said = memory("shm", "--ranks", ranks, "-o", tmp_path / "none.jsonl", code=2)
        assert "such as 2,4,8" in said
    assert not (tmp_path / "none.jsonl").exists()


@pytest.mark.every_library
def test_every_rank_of_every_library_says_what_it_cost(netpipe: Netpipe, with_mpis: Mpis) -> None:
    names = [f"mpi@{added}" for added in with_mpis.there]
    with_mpis.some()
    done = netpipe(*names, "--pattern", "none", "--ranks", "3", "--timeout", "60")
    assert done.code == 0, done.said
    for name in names:
        (variant,) = done.of("variant", variant=name)
        assert variant["launch_s"] > 0
        assert len(variant["ranks"]) == 3
        for rank in variant["ranks"]:
            assert 0 < rank["private_bytes"] < rank["resident_bytes"]
            assert rank["pinned_bytes"] >= 0
            assert 0 < rank["barrier_resident_bytes"] <= rank["resident_bytes"]
            assert rank["open_s"] > 0


@pytest.mark.parametrize("op", ["persistent", "bsend", "put"])
def test_other_ways_of_moving_messages_reach_all_ranks_too(
    netpipe: Netpipe, with_mpis: Mpis, op: str
) -> None:
    with_mpis.need("openmpi")
    done = netpipe(f"mpi@openmpi:op={op}", "--pattern", "none", "--ranks", "4", "--timeout", "60")
    assert done.code == 0, done.said
    (variant,) = done.of("variant")
    assert len(variant["ranks"]) == 4
