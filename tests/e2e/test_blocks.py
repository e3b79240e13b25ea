# SPDX-License-Identifier: Apache-2.0
"""Blocks, launches, adaptive sizes, and variants beside themselves: the real worker, and the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from conftest import Runner

from netpipe.reading import Reading
from netpipe.records import Run


def run(folder: Path, *words: str) -> Reading:
    record = folder / "run.jsonl"
    done = subprocess.run(
        [sys.executable, "-m", "netpipe", "run", *words, "-o", str(record)],
        env={**os.environ, "COLUMNS": "160"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return Reading(Run.read(record))


@pytest.mark.gate
def test_all_variants_of_a_size_are_measured_back_to_back(measure: Runner) -> None:
    done = measure(
        "variant pipe",
        "variant unix",
        "variant shm",
        "schedule list",
        "sizes 8,64,512",
        "budget 0.6",
        "target 0.01%",
    )
    assert done.code == 0, done.said
    blocks = defaultdict(list)
    for sample in done.of("sample"):
        if sample["pass"] >= 0:
            blocks[sample["block"]].append((sample["size_bytes"], sample["variant"]))
    assert len(blocks) >= 3 * 8
    for visits in blocks.values():
        assert len({size for size, _ in visits}) == 1
        assert len({variant for _, variant in visits}) == len(visits)
    numbers = [sample["block"] for sample in done.of("sample") if sample["pass"] >= 0]
    assert numbers == sorted(numbers), "a block that was left is not entered again"
    # Yardsticks lie between blocks, never inside one.
    inside = [record for record in done.records if record["type"] in ("sample", "yardstick")]
    for before, at, after in zip(inside, inside[1:], inside[2:], strict=False):
        if at["type"] == "yardstick" and before["type"] == after["type"] == "sample":
            assert before["block"] != after["block"] or after["pass"] < 0
    for point in done.of("point"):
        visits = point["visits"]
        assert len({len(values) for values in visits.values()}) == 1
        assert sum(visits["samples"]) == point["samples"]
        assert set(visits["block"]) <= set(blocks)
        rounding = 1 + 1e-6  # medians of visits have seven digits
        assert min(visits["median_ns"]) / rounding <= point["median_ns"]
        assert point["median_ns"] <= max(visits["median_ns"]) * rounding


def test_a_variant_that_is_named_twice_is_measured_beside_itself(tmp_path: Path) -> None:
    words = ("--sizes", "8,64,512", "--launches", "3", "--budget", "0.6")
    reading = run(tmp_path, "pipe", "pipe", *words)
    assert [curve.variant for curve in reading.curves] == ["pipe", "pipe#2"]
    (beside,) = reading.beside
    assert (beside.variant, beside.sizes) == ("pipe", 3)
    assert beside.holds is not None
    assert reading.verdicts == ()
    assert reading.losses == ()
    reading = run(tmp_path, "pipe", "unix:wait=poll", "--aa", *words)
    assert [one.variant for one in reading.beside] == ["pipe", "unix:wait=poll"]
    assert [loss.variant for loss in reading.losses] == ["unix:wait=poll"]


def test_the_launches_of_a_default_run_share_its_budget(tmp_path: Path) -> None:
    reading = run(tmp_path, "memcpy", "--budget", "1", "--end", "64k")
    plans = reading.run.plans
    assert [plan.launch for plan in plans] == [0, 1, 2, 3]
    assert {(plan.budget_s, plan.launches) for plan in plans} == {(1.0, 4)}
    assert all(plan.schedule is not None and plan.schedule.kind == "adaptive" for plan in plans)
    assert plans[0].sizes == [2**power for power in range(17)]
    (curve,) = reading.curves
    assert {point.size_bytes for point in curve.points} >= set(plans[0].sizes)
    assert all(point.time_ns.known for point in curve.points)


def test_one_launch_has_the_whole_budget(tmp_path: Path) -> None:
    """The default has four, which is not for those who ask for one."""
    reading = run(tmp_path, "memcpy", "--sizes", "8", "--budget", "0.2", "--launches", "1")
    assert [(plan.launch, plan.launches) for plan in reading.run.plans] == [(0, 1)]


@pytest.mark.parametrize("threshold", [1500, pytest.param(5000, marks=pytest.mark.deep)])
def test_a_step_is_located_to_a_sixteenth_of_an_octave(measure: Runner, threshold: int) -> None:
    """A message that is longer than a packet goes as two, which takes longer."""
    done = measure(
        f"variant unix:type=seqpacket,packet={threshold},wait=poll",
        "schedule adaptive",
        "start 256",
        "end-size 65536",
        "budget 8",
    )
    assert done.code == 0, done.said
    sizes = sorted(point["size_bytes"] for point in done.of("point"))
    assert {size for size in sizes if size & (size - 1) == 0} == {2**power for power in range(8, 17)}
    below = max(size for size in sizes if size <= threshold)
    above = min(size for size in sizes if size > threshold)
    assert above / below <= 2 ** (2.1 / 16), sizes


def test_a_launch_begins_where_those_before_it_looked_closer(tmp_path: Path) -> None:
    reading = run(
        tmp_path,
        "unix:type=seqpacket,packet=1500,wait=poll",
        "--start",
        "256",
        "--end",
        "8k",
        "--budget",
        "4",
    )
    sizes: dict[int, set[int]] = {}
    for point in reading.run.points:
        sizes.setdefault(point.launch, set()).add(point.size_bytes)
    assert len(sizes) == 4
    # As far as there is time: on a loaded machine some are left out.
    closer = {size for size in sizes[0] if size.bit_count() > 1}
    assert closer
    assert all(len(closer & sizes[number]) > len(closer) / 2 for number in (1, 2, 3)), sizes


def test_a_plan_may_name_sizes_to_look_at(measure: Runner) -> None:
    lines = ("variant null", "schedule adaptive", "end-size 2048", "budget 0.1")
    wanted = ("wanted null pingpong 1069=5.1/0.2/9,1448,1000", "wanted tcp:wait=poll pingpong 1114")
    done = measure(*lines, *wanted)
    assert done.code == 0, done.said
    sizes = {point["size_bytes"] for point in done.of("point")}
    assert sizes >= {2**power for power in range(12)} | {1069, 1448}
    assert 1000 not in sizes, "it is no size of the schedule"
    for text in (
        "null 1069",
        *(f"null pingpong 1069={bad}" for bad in ("5.1", "5.1/0.2", "0/0.2/9", "5/-1/9", "5/1/0")),
    ):
        refused = measure(*lines, f"wanted {text}")
        assert refused.code == 2
        assert f"wanted: '{text}' is not a variant, a pattern and sizes" in refused.said
