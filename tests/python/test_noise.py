# SPDX-License-Identifier: Apache-2.0
"""bench/noise.c: the same plan for the same seed, an end in any case, and no more and no less than it says."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))

import compare  # noqa: E402
import noise  # noqa: E402
from measured import Result  # noqa: E402

CPU = str(min(os.sched_getaffinity(0)))
PATIENCE_S = 30


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert compiler, "a C compiler builds netpipe itself"
    built = tmp_path_factory.mktemp("noise") / "noise"
    flags = ("-std=gnu17", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread")
    subprocess.run([compiler, *flags, "-o", built, ROOT / "bench/noise.c", "-lm"], check=True, timeout=60)
    return built


def plan(program: Path, *words: str) -> list[str]:
    done = subprocess.run(
        [program, "--plan", "--cpus", "0,1", *words], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


ALL = ("--steal", "0.2", "--bandwidth", "0.5", "--wakeups", "200", "--seconds", "5")


def test_the_same_seed_plans_the_same_and_another_one_does_not(program: Path) -> None:
    first = plan(program, *ALL, "--seed", "7")
    assert first == plan(program, *ALL, "--seed", "7")
    assert first != plan(program, *ALL, "--seed", "8")
    steals = [[line for line in first if line.startswith(f"steal cpu {cpu} ")] for cpu in (0, 1)]
    assert steals[0] != [line.replace("cpu 1", "cpu 0") for line in steals[1]], "processors differ"
    assert {line.split()[0] for line in first} == {"steal", "stream", "wake"}


def test_what_is_planned_is_what_was_asked_for(program: Path) -> None:
    lines = plan(program, "--steal", "0.3", "--wakeups", "100", "--seconds", "1000", "--seed", "3")
    for cpu in ("0", "1"):
        own = [line.split() for line in lines if line.split()[2] == cpu]
        stolen = sum(int(words[-2]) for words in own if words[0] == "steal")
        assert 0.27 <= stolen / 1000e9 <= 0.33
        assert 40_000 <= sum(words[0] == "wake" for words in own) <= 250_000, "its rate wanders"


def test_bursts_follow_each_other_on_a_processor(program: Path) -> None:
    last = 0
    for words in (line.split() for line in plan(program, "--steal", "0.5", "--seconds", "20")):
        at, length = int(words[4]), int(words[7])
        if words[2] == "0":
            assert at >= last
            last = at + length


def run(program: Path, *words: str) -> tuple[dict[str, Any], float, float]:
    """What it said, the processor time that the kernel says it had, and how long it lasted."""
    begin = time.monotonic()
    process = subprocess.Popen([program, *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    assert said.startswith("making noise, seed ")
    return json.loads(said.splitlines()[-1]), usage.ru_utime + usage.ru_stime, time.monotonic() - begin


def test_it_ends_by_its_deadline_and_stole_what_it_says(program: Path) -> None:
    said, used_s, wall_s = run(program, "--steal", "0.5", "--cpus", CPU, "--seconds", "1", "--seed", "5")
    (thread,) = said["threads"]
    assert 1 <= wall_s < PATIENCE_S
    assert thread["events"] > 0
    assert 0 < thread["stolen_s"] <= thread["planned_s"] + 0.02
    assert thread["stolen_s"] <= used_s <= thread["stolen_s"] + 0.05 + 0.1 * thread["stolen_s"]


def test_memory_moves_and_timers_fire(program: Path) -> None:
    words = ("--bandwidth", "0.5", "--memory", "64", "--wakeups", "500", "--seconds", "0.5", "--cpus", CPU)
    said, _, _ = run(program, *words)
    by_kind = {thread["what"]: thread for thread in said["threads"]}
    assert by_kind["stream"]["memory_bytes"] == 64 << 20
    assert by_kind["stream"]["bytes"] > 1 << 20
    assert by_kind["wake"]["events"] > 0
    assert by_kind["wake"]["latest_us"] >= by_kind["wake"]["late_us"] >= 0


def test_it_stops_when_told_and_says_what_it_did(program: Path) -> None:
    process = subprocess.Popen(
        [program, "--steal", "0.2", "--cpus", CPU, "--seconds", "3600"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    did = json.loads(said)
    assert did["seconds"] < 3600
    assert did["threads"][0]["planned_s"] <= did["seconds"] + 0.5, "what was planned for later does not count"


def test_it_ends_with_its_parent(program: Path) -> None:
    parent = subprocess.Popen(
        ["sh", "-c", f"'{program}' --steal 0.1 --cpus {CPU} --seconds 3600 & echo $!; wait"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    first = [parent.stdout.readline() for _ in range(2)]  # after its own word it is bound to its parent
    (own,) = (int(line) for line in first if line.strip().isdigit())
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + PATIENCE_S
    while alive(own):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize(
    "words", ["", "--steal 2", "--steal x", "--loud", "--steal 0.1 --cpus a", "--steal 0.1 --seconds"]
)
def test_wrong_words_are_refused(program: Path, words: str) -> None:
    done = subprocess.run(
        [program, *words.split()], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert done.returncode == 2
    assert done.stderr.startswith("noise: ")


def test_rows_under_noise_say_so(
    program: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = Result("x", "what", "1", "1", "1.0", "<= 1", True)
    monkeypatch.setitem(compare.COMPARISONS, "x", lambda rounds: [row])
    monkeypatch.setattr(noise, "PROGRAM", program)
    monkeypatch.setattr(compare.signal, "signal", lambda *_: None)  # of the process that tests
    monkeypatch.setattr(sys, "argv", ["compare.py", "x", "--noise", f"steal=0.2,cpus={CPU},seed=4"])
    assert compare.main() == 0
    said = capsys.readouterr().out
    assert f"what, under noise steal=0.2,cpus={CPU},seed=4" in said
    assert "noise of " in said


def test_noise_that_there_is_not_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert noise.words("steal=0.2,cpus=0+1") == ["--steal", "0.2", "--cpus", "0,1"]
    monkeypatch.setattr(sys, "argv", ["compare.py", "--noise", "loudness=11"])
    with pytest.raises(SystemExit) as refused:
        compare.main()
    assert refused.value.code == 2
    assert "'loudness=11' is no option of the noise" in capsys.readouterr().err
