# SPDX-License-Identifier: Apache-2.0
"""What goes wrong ends in a sentence, with the right exit code, and what was measured is kept."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import TEST_MODULES, Runner, Starter, parse, wait_for_samples


def module(name: str) -> str:
    path = TEST_MODULES / f"{name}.so"
    assert path.is_file(), f"{path} is not there: build with -DNETPIPE_TESTS=ON"
    return f"module-file {path}"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("variant tpc", "did you mean 'tcp'?"),
        ("variant tcp:sndbff=1k", "did you mean 'sndbuf'?"),
        ("variant tcp:sndbuf=8Q", "'8Q' is not a size"),
        ("variant tcp:wait=pol", "did you mean 'poll'?"),
        ("pattern pingpang", "did you mean 'pingpong'?"),
        ("start 8Q", "start: '8Q' is not a size"),
        ("end-size -1", "end-size: '-1' is not a size"),
        ("start 2k\nend-size 1k", "below its start"),
        ("schedule fibonacci", "'fibonacci' is not one of its choices"),
        ("target 0", "target: 0 is outside"),
        ("verify maybe", "neither yes nor no"),
        ("pin 0,x", "names no processors"),
        ("pin 0", "name one for each rank"),
        ("colour blue", "unknown key 'colour'"),
        ("module-file /no/such.so", "does not exist"),
        ("pattern pingpong:reuse=140", "140 is outside 0 to 100"),
        ("pattern pingpong:reuse=50,buffers=cold", "cold buffers are never reused"),
        ("pattern window:in_flight=65536\nschedule list\nsizes 256M", "of buffers on each of 2 ranks"),
    ],
)
def test_bad_input_is_refused_before_anything_is_measured(measure: Runner, line: str, says: str) -> None:
    done = measure("variant tcp", line)
    assert done.code == 2
    assert says in done.said
    assert not done.of("sample")


def test_memory_that_a_module_does_not_give_is_missing_for_its_own_reason(measure: Runner) -> None:
    done = measure(module("no_memory"), "variant no_memory", "variant pipe", "sizes 8", "budget 0.1")
    assert done.code == 4
    (error,) = done.of("error")
    assert "cannot be allocated by module no_memory" in error["message"]
    assert error["message"].endswith("(the device has 0 of 3 windows left)")


HEADER = (Path(__file__).resolve().parents[2] / "include/netpipe/module.h").read_text()
ABI = int(HEADER.partition("#define NP_ABI UINT32_C(")[2].partition(")")[0])


@pytest.mark.parametrize(
    ("name", "code", "says"),
    [
        ("wrong_abi", 2, f"ABI {ABI + 1}, this netpipe has {ABI}"),
        ("wrong_magic", 2, "magic number"),
        ("old_abi", 2, f"ABI {ABI - 1}, this netpipe has {ABI}"),
        ("short_table", 2, "has 16 bytes, at least 56 are needed"),
        ("half", 2, "send and recv belong together"),
        ("no_entry", 2, "does not export netpipe_module()"),
        ("missing_library", 3, "cannot be loaded"),
    ],
)
def test_a_module_that_does_not_fit_is_refused_with_both_sides_named(
    measure: Runner, name: str, code: int, says: str
) -> None:
    done = measure(module(name), "variant tcp")
    assert (done.code, says in done.said) == (code, True), done.said


def test_a_module_that_is_not_available_leaves_the_others_measured(measure: Runner) -> None:
    done = measure(
        module("unavailable"),
        "variant unavailable",
        "variant pipe",
        "schedule list",
        "sizes 8,64",
        "budget 0.2",
    )
    assert done.code == 3
    assert done.of("error", variant="unavailable", code=3)
    assert len(done.of("point", variant="pipe")) == 2


@pytest.mark.gate
def test_one_wrong_byte_in_a_million_is_always_found(measure: Runner) -> None:
    for seed in range(5):
        done = measure(
            module("faulty"),
            "variant faulty",
            "variant pipe",
            "end-size 4k",
            "verify yes",
            "budget 0.3",
            f"seed {seed}",
        )
        assert done.code == 1, f"seed {seed}: {done.said}"
        (error,) = done.of("error", variant="faulty")
        assert "differs from what was sent" in error["message"]
        assert not done.of("point", variant="faulty", size_bytes=error["size_bytes"]), (
            "a size that failed was reported as measured"
        )
        assert done.of("point", variant="pipe")


def test_a_module_that_delivers_nothing_does_not_pass_verification(measure: Runner) -> None:
    done = measure(
        module("silent"), "variant silent", "schedule list", "sizes 1,8,4096", "verify yes", "budget 0.2"
    )
    assert done.code == 1
    assert not done.of("point")


def test_a_layer_that_moves_nothing_fails_verification_and_its_points_are_not_reported(
    measure: Runner,
) -> None:
    done = measure(
        module("idles"),
        "variant idles",
        "variant pipe",
        "schedule list",
        "sizes 8,4096",
        "verify yes",
        "budget 0.2",
    )
    assert done.code == 1, done.said
    assert not done.of("point", variant="idles")
    errors = done.of("error", variant="idles", pattern="pingpong", code=1)
    assert errors
    assert all("differs from what was sent" in error["message"] for error in errors)
    assert len(done.of("point", variant="pipe")) == 2


def test_what_could_not_be_verified_is_said(measure: Runner) -> None:
    done = measure(
        module("idles"), "variant idles:delivers=no", "variant null", "variant pipe", "schedule list",
        "sizes 8,4096", "verify yes", "budget 0.1",
    )  # fmt: skip
    assert done.code == 3, done.said
    (error,) = done.of("error")
    assert (error["variant"], error["pattern"], error["size_bytes"]) == ("idles:delivers=no", "pingpong", 8)
    assert error["message"] == "not verified: its bytes arrive nowhere (pingpong)"
    assert "idles:delivers=no at 8 bytes: not verified: its bytes arrive nowhere (pingpong)" in done.said
    assert len(done.of("point", variant="idles:delivers=no")) == 2
    assert [one["variant"] for one in done.of("skipped", size_bytes=None)] == ["null"], (
        "it says that it is idle"
    )


@pytest.mark.parametrize("at", [0, 63, 100, 4095, -1, -100, -4096])
def test_a_byte_beside_a_message_is_found(measure: Runner, at: int) -> None:
    done = measure(
        module("spills"), f"variant spills:at={at}", "variant pipe", "schedule list", "sizes 1,5000", "verify yes",
        "budget 0.1",
    )  # fmt: skip
    assert done.code == 1, done.said
    failed = {error["size_bytes"] for error in done.of("error", variant="spills:at=" + str(at))}
    assert failed
    assert not any(point["size_bytes"] in failed for point in done.of("point", variant=f"spills:at={at}"))
    assert len(done.of("point", variant="pipe")) == 2


def test_a_byte_beside_a_large_message_is_found_where_it_is(measure: Runner) -> None:
    lines = ("schedule list", "sizes 1M", "verify yes", "budget 0.1")
    behind = measure(module("spills"), "variant spills:at=100", *lines)
    (error,) = behind.of("error")
    assert re.search(
        r"the layer wrote beside incoming message \d+, 100 bytes behind its end", error["message"]
    )
    before = measure(module("spills"), "variant spills:at=-100", *lines)
    (error,) = before.of("error")
    assert "100 bytes before its beginning" in error["message"] or "differs" in error["message"]


def test_a_receive_that_never_completes_is_stopped_and_the_others_are_measured(measure: Runner) -> None:
    done = measure(
        module("stuck"),
        "variant stuck:after=40",
        "variant pipe",
        "schedule list",
        "sizes 8,64,512",
        "budget 0.2",
        "timeout 0.5",
    )
    assert done.code == 4
    (error,) = done.of("error")
    assert error["variant"] == "stuck:after=40"
    assert error["size_bytes"] in (8, 64, 512)
    assert "did not complete within 0.5 s" in error["message"]
    assert len(done.of("point", variant="pipe")) == 3


@pytest.mark.parametrize("how", [pytest.param("sleep", marks=pytest.mark.deep), "spin"])
def test_a_module_that_ignores_everything_is_ended_with_its_last_words_in_the_file(
    measure: Runner, how: str
) -> None:
    before = time.monotonic()
    done = measure(module("hung"), f"variant hung:how={how}", "schedule list", "sizes 8", "timeout 0.5")
    assert done.code == 4
    assert time.monotonic() - before < 30  # a deadline, no speed
    assert any(
        "did not return within" in error["message"]
        for error in done.of("error", variant=f"hung:how={how}") + done.of("error", variant="hung")
    )


# It waited for the end of time: the watchdog's own signal did not reach it.
@pytest.mark.parametrize("how", ["blocks", pytest.param("ignores", marks=pytest.mark.deep)])
def test_a_module_that_keeps_signals_away_is_ended_all_the_same(measure: Runner, how: str) -> None:
    done = measure(
        module("hung"), f"variant hung:how={how}", "schedule list", "sizes 8", "timeout 0.5", limit_s=40
    )
    assert done.code in (4, -signal.SIGKILL)


@pytest.mark.deep
def test_a_module_that_keeps_signals_away_is_named_and_the_others_are_measured(tmp_path: Path) -> None:
    words = f"--module {TEST_MODULES / 'hung.so'} --sizes 8 --timeout 0.5 --budget 0.1 -o run.jsonl"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "netpipe",
            "run",
            "--launches",
            "1",
            "hung:how=blocks",
            "pipe",
            *words.split(),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=80,
        check=False,
    )
    assert done.returncode == 4
    records = parse((tmp_path / "run.jsonl").read_text())
    assert "hung:how=blocks" in {one["variant"] for one in records if one["type"] == "error"}
    assert "pipe" in {one["variant"] for one in records if one["type"] == "point"}
    assert "blocks signals" in done.stderr


def test_a_rank_that_falls_silent_while_a_variant_is_closed_is_said(measure: Runner) -> None:
    """The variant is closed because rank 1 cannot do what rank 0 has begun, which alone is no error."""
    lines = ("variant pipe", "schedule list", "sizes 8,512", "timeout 0.5", "budget 0.2")
    answers = measure(module("mute"), "variant mute", *lines)
    assert answers.code == 0, answers.said
    assert "64 bytes at most" in answers.of("skipped")[0]["reason"]
    assert {one["variant"] for one in answers.of("point")} == {"pipe"}
    silent = measure(module("mute"), "variant mute:silent_ms=4000", *lines)
    assert silent.code == 4
    (error,) = silent.of("error")
    assert error["variant"] == "mute:silent_ms=4000"
    assert error["message"].startswith("while it was closed: gave up waiting for rank 1")
    assert error["message"] in silent.said


@pytest.mark.parametrize("when", ["open", "connect", "send", "recv", "close"])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_is_killed_in_any_phase_ends_the_run_in_a_sentence(
    measure: Runner, when: str, rank: int
) -> None:
    done = measure(
        module("dies"),
        f"variant dies:when={when},rank={rank}",
        "schedule list",
        "sizes 8",
        "budget 0.1",
        "timeout 1",
    )
    if rank == 0:
        # Rank 0 is the worker itself: its launcher sees the signal.
        assert done.code == -signal.SIGKILL
    else:
        assert done.code == (0 if when == "close" else 4) or "rank 1 has gone" in done.said
        if when != "close":
            assert "rank 1 has gone" in json.dumps(done.of("error"))


@pytest.mark.parametrize("when", ["open", "connect"])
@pytest.mark.gate
def test_a_rank_that_is_lost_while_a_variant_opens_costs_that_variant_alone(
    tmp_path: Path, when: str
) -> None:
    dies = f"dies:when={when}"
    words = f"--module {TEST_MODULES / 'dies.so'} --sizes 8 --timeout 1 --budget 0.1 -o run.jsonl"
    done = subprocess.run(
        [sys.executable, "-m", "netpipe", "run", "pipe", dies, "unix", *words.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=80,
        check=False,
    )
    assert done.returncode == 4
    records = parse((tmp_path / "run.jsonl").read_text())
    assert {one["variant"] for one in records if one["type"] == "error"} == {dies}
    assert {one["variant"] for one in records if one["type"] == "point"} == {"pipe", "unix"}
    assert f"{dies}: rank 1 has gone" in done.stderr
    assert "going on with 2 other variants" in done.stderr


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("variant", ["shm", "pipe", "unix", "tcp", "tcp:wait=poll", "shm:wait=block"])
def test_a_peer_that_is_killed_while_measuring_is_named(started: Starter, variant: str) -> None:
    process, path = started(f"variant {variant}", "budget 30", "timeout 5")
    wait_for_samples(path, 20)
    (peer,) = children_of(process.pid)
    os.kill(peer, signal.SIGKILL)
    assert process.wait(8) == 4
    records = parse(path.read_text())
    (error,) = [r for r in records if r["type"] == "error"]
    assert "rank 1 has gone" in error["message"]
    assert error["variant"] == variant
    assert sum(r["type"] == "sample" for r in records) >= 20


@pytest.mark.deep
def test_a_peer_that_is_stopped_is_given_up_after_the_deadline(started: Starter) -> None:
    process, path = started("variant tcp", "budget 30", "timeout 1")
    wait_for_samples(path, 5)
    (peer,) = children_of(process.pid)
    os.kill(peer, signal.SIGSTOP)
    assert process.wait(20) == 4
    assert not Path(f"/proc/{peer}").exists(), "the worker left a stopped rank behind"
    assert [r for r in parse(path.read_text()) if r["type"] == "error"]


@pytest.mark.gate
def test_an_interrupt_leaves_a_valid_file_with_the_points_so_far(started: Starter) -> None:
    process, path = started("variant tcp", "variant shm", "budget 30")
    wait_for_samples(path, 600)
    process.send_signal(signal.SIGINT)
    assert process.wait(5) == 130
    records = parse(path.read_text())
    points = [r for r in records if r["type"] == "point"]
    assert points
    assert {p["stop"] for p in points} <= {"interrupted", "precision"}
    assert records[-1]["type"] == "launch"


# The reports of the other ranks that came after rank 0 had given up were taken for what it asked next: one interrupt in
# five or so ended only when a deadline of 5 s had passed.
@pytest.mark.parametrize("times", [12, pytest.param(200, marks=pytest.mark.deep)])
def test_an_interrupt_at_any_moment_leaves_nothing_to_wait_for(started: Starter, times: int) -> None:
    moments = random.Random(times)
    took_s = []
    for _ in range(times):
        process, path = started("variant tcp", "variant unix", "variant pipe", "variant shm", "budget 30")
        while not path.exists():
            time.sleep(0.001)
        time.sleep(moments.random() ** 2 * 0.5)  # half of them within 0.13 s: while the variants are opened
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        _, said = process.communicate(timeout=4)
        took_s.append(time.monotonic() - began)
        assert process.returncode == 130, said
        records = parse(path.read_text())
        assert (
            records[-1]["type"] == "launch" if records else "interrupted before anything was measured" in said
        )
        # others found out how long one takes
        samples = [r for r in records if r["type"] == "sample" and r["ns"]]
        points = [r for r in records if r["type"] == "point"]
        assert {which(r) for r in points} == {which(r) for r in samples}
        path.unlink()
    took_s.sort()
    print(
        f"{times} interrupts: the slowest took {took_s[-1]:.2f} s, half of them {took_s[times // 2]:.2f} s at most"
    )


def which(record: dict[str, Any]) -> tuple[str, str, int]:
    return record["variant"], record["pattern"], record["size_bytes"]


def test_a_full_disk_ends_in_a_sentence(measure: Runner) -> None:
    done = measure("variant pipe", "budget 0.2", record="/dev/full")
    assert done.code == 4
    assert "No space left on device" in done.said


def test_a_file_that_may_not_grow_ends_in_a_sentence(started: Starter) -> None:
    process, path = started("variant pipe", "variant unix", "budget 30", "timeout 5")
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
    _, said = process.communicate(timeout=20)
    assert process.returncode == 4
    assert "File too large" in said
    assert len(path.read_bytes()) <= 1 << 16


def test_a_file_that_cannot_be_opened_ends_in_a_sentence(measure: Runner) -> None:
    done = measure("variant pipe", "budget 0.2", record="/no/such/directory/run.jsonl")
    assert done.code == 4
    assert "cannot be opened" in done.said


def test_a_size_that_cannot_be_allocated_is_refused_with_the_number(measure: Runner) -> None:
    done = measure("variant tcp", "schedule list", "sizes 1,256T")
    assert done.code == 2
    assert "messages up to 256T needs 512" in done.said
    assert "available" in done.said
    assert not done.records


def test_a_launcher_that_goes_away_ends_the_worker(started: Starter) -> None:
    process, path = started("variant tcp", "budget 30", "paced yes")
    wait_for_samples(path, 1)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(20) == 130
