# SPDX-License-Identifier: Apache-2.0
"""One-sided operations beyond put and get, over shm: atomic operations, sums, and puts with a signal. What they come to
is checked; here is what is measured, refused and said.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import Runner, Starter, wait_for_samples

pytestmark = pytest.mark.module("shm")

OPERATIONS = ("fetch_add", "add", "swap", "compare_swap", "fetch", "set")


def measures(point: dict[str, Any]) -> dict[str, float | None]:
    return {one["name"]: one["median"] for one in point["measures"]}


def test_two_ranks_have_a_latency_and_several_a_rate(measure: Runner) -> None:
    """Every operation, on one word and on a word for each; the sum of each word is what it has to be."""
    patterns = [f"atomic:op={op},target={target}" for op in OPERATIONS for target in ("one", "own")]
    for ranks in (2, 4):
        done = measure(
            "variant shm",
            *(f"pattern {pattern}" for pattern in patterns),
            f"ranks {ranks}",
            "schedule list",
            "sizes 8,64",
            "verify yes",
            "budget 0.05",
        )
        assert done.code == 0, done.said
        points = done.of("point")
        # A word has no size: one of them is enough.
        assert len(points) == len(patterns)
        assert {point["size_bytes"] for point in points} == {8}
        for point in points:
            assert point["verified_bytes"] > 0
            assert point["bytes_per_s"] is None
            said = measures(point)
            assert said["rate"] is not None
            assert said["rate"] > 0
            # Of two ranks one operates: there is nobody to begin with, or to be slower than.
            assert ("imbalance" in said) == (ranks > 2), point["pattern"]
            assert len(point.get("cells", [])) == (ranks - 1 if ranks > 2 else 0)


def test_what_one_rank_compares_with_is_always_there(measure: Runner) -> None:
    done = measure(
        "variant shm",
        "pattern atomic:op=compare_swap",
        "schedule list",
        "sizes 8",
        "verify yes",
        "budget 0.05",
    )
    (point,) = done.of("point")
    assert measures(point)["swapped"] == 1
    others = measure("variant shm", "pattern atomic", "schedule list", "sizes 8", "budget 0.05")
    assert "swapped" not in measures(others.of("point")[0])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("pattern atomic:in_flight=4", "takes in_flight only with op=add and op=set"),
        ("pattern atomic:recv_offset=4", "needs a word at a multiple of 8 bytes: choose another recv_offset"),
        (
            "pattern atomic:send_offset=8",
            "does not obey send_offset=8: nothing that it moves starts in a buffer",
        ),
        ("pattern accumulate", "no multiple of 8 bytes"),
    ],
)
def test_what_cannot_be_in_force_is_skipped_with_the_reason(measure: Runner, line: str, reason: str) -> None:
    done = measure("variant shm", line, "schedule list", "sizes 9", "budget 0.05")
    assert done.code in (0, 3), done.said
    assert not done.of("point")
    (skipped,) = done.of("skipped")
    assert reason in skipped["reason"]


@pytest.mark.parametrize("pattern", ["atomic", "signal", "accumulate"])
def test_a_module_without_the_operation_is_left_out(measure: Runner, pattern: str) -> None:
    done = measure("variant tcp", f"pattern {pattern}", "schedule list", "sizes 8", "budget 0.05")
    (skipped,) = done.of("skipped")
    assert f", which pattern {pattern} needs" in skipped["reason"]


@pytest.mark.parametrize("wait", ["poll", "block", "hybrid"])
def test_signals_tell_of_every_message(measure: Runner, wait: str) -> None:
    done = measure(
        f"variant shm:wait={wait}",
        "pattern signal",
        "pattern signal:buffers=apart",
        "schedule list",
        "sizes 1,8,4097,300001",
        "verify yes",
        "budget 0.05",
    )
    assert done.code == 0, done.said
    assert len(done.of("point")) == 8
    assert all(point["verified_bytes"] > 0 for point in done.of("point"))


def test_two_pairs_signal_at_once_on_one_processor(measure: Runner) -> None:
    done = measure(
        "variant shm",
        "pattern signal",
        "pattern accumulate:in_flight=8",
        "pattern atomic:target=own",
        "ranks 4",
        "pin 0,0,0,0",
        "schedule list",
        "sizes 8",
        "verify yes",
        "budget 0.2",
    )
    assert done.code == 0, done.said
    assert len(done.of("point")) == 3
    assert all(point["verified_bytes"] > 0 for point in done.of("point"))


def test_numbers_are_added_and_the_sums_are_checked(measure: Runner) -> None:
    done = measure(
        "variant shm",
        "pattern accumulate",
        "pattern accumulate:in_flight=8",
        "pattern accumulate:sync=fence",
        "pattern accumulate:fetch=yes",
        "pattern accumulate:in_flight=8,fetch=yes",
        "pattern accumulate:sync=fence,fetch=yes",
        "schedule list",
        "sizes 8,4096,65536",
        "verify yes",
        "budget 0.05",
    )
    assert done.code == 0, done.said
    assert len(done.of("point")) == 18
    assert all(point["verified_bytes"] > 0 for point in done.of("point"))


@pytest.mark.parametrize("pattern", ["signal", pytest.param("atomic:op=add", marks=pytest.mark.deep)])
def test_an_interrupt_ends_it(started: Starter, pattern: str) -> None:
    process, run = started(
        "variant shm", f"pattern {pattern}", "schedule list", "sizes 8", "budget 60", "target 0.00001"
    )
    wait_for_samples(run)
    process.send_signal(signal.SIGINT)
    assert process.wait(10) != 0


def children_of(process: int) -> list[int]:
    found = subprocess.run(
        ["ps", "--ppid", str(process), "-o", "pid="], capture_output=True, text=True, check=False
    )
    return [int(word) for word in found.stdout.split()]


@pytest.mark.parametrize("pattern", ["signal", pytest.param("atomic", marks=pytest.mark.deep)])
def test_a_killed_rank_ends_it_with_its_name(started: Starter, pattern: str) -> None:
    process, run = started(
        "variant shm", f"pattern {pattern}", "schedule list", "sizes 8", "budget 60", "target 0.00001"
    )
    wait_for_samples(run)
    ranks = [child for child in children_of(process.pid) if Path(f"/proc/{child}").exists()]
    assert ranks
    os.kill(max(ranks), signal.SIGKILL)
    assert process.wait(20) == 4
    assert process.stderr is not None
    assert "rank" in process.stderr.read()
