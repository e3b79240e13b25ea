# SPDX-License-Identifier: Apache-2.0
"""Real runs that share a folder, or lose their file: every record of a run is in one file, and no others are."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import time
from pathlib import Path

import pytest

from netpipe.records import End, Header, Run, encode

OLDER = encode(Header(schema=1, run="0" * 32, started="2026-03-01T12:00:00Z")) + encode(
    End(exit=0, reason="done")
)
COMMAND = (
    sys.executable,
    "-m",
    "netpipe",
    "run",
    "--launches",
    "1",
    "null",
    "pipe",
    "--sizes",
    "8",
    "--budget",
)


@pytest.fixture(autouse=True)
def folder(worker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    assert worker.is_file()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def start(budget: str, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        (*COMMAND, budget, *more), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("times", [6, pytest.param(40, marks=pytest.mark.deep)])
def test_two_runs_at_once_are_two_files(folder: Path, times: int) -> None:
    for number in range(times):
        for path in folder.iterdir():
            path.unlink()
        older = number % 2 == 1
        if older:
            (folder / "run.jsonl").write_bytes(OLDER)
        processes = []
        for _ in range(2):
            processes.append(start("0.01", "--launches", "2"))
            time.sleep(0.003 * (number % 20))
        said = [process.communicate(timeout=60)[1] for process in processes]
        assert [process.returncode for process in processes] == [0, 0], said
        runs = [Run.read(path) for path in folder.iterdir() if path.read_bytes() != OLDER]
        assert len(runs) == len(list(folder.iterdir())) - older == 2
        assert len({run.header.run for run in runs if run.header is not None}) == 2
        for run in runs:
            assert [one.launch for one in run.launches] == [0, 1]
            assert [one.launch for one in run.plans] == [0, 1]
            assert {(one.variant, one.launch) for one in run.points} == {
                (variant, launch) for variant in ("null", "pipe") for launch in (0, 1)
            }
            assert run.end is not None
            assert run.path is not None
            # The second says so, be it that it gave way or that it renamed the first, which had just ended.
            assert run.path.name == "run.jsonl" or any(run.path.name in text for text in said)


def test_a_file_that_is_removed_comes_back(folder: Path) -> None:
    process = start("1", "--launches", "2")
    wait_for(folder / "run.jsonl")
    (folder / "run.jsonl").unlink()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 4
    assert "run.jsonl was removed by another program while the run was written" in said
    run = Run.read(folder / "run.jsonl")
    assert [one.launch for one in run.launches] == [0, 1]
    assert len(run.points) == 4


def test_a_file_that_is_truncated_is_written_again(folder: Path) -> None:
    # its points are known long after it is truncated
    process = start("2", "--launches", "2", "--target", "0.001%")
    wait_for(folder / "run.jsonl")
    (folder / "run.jsonl").write_bytes(b"")
    _, said = process.communicate(timeout=60)
    assert process.returncode == 4
    assert "run.jsonl was truncated or overwritten by another program while the run was written" in said
    (copy,) = folder.glob("run-*.jsonl")
    run = Run.read(copy)
    assert {one.launch for one in run.points} == {0, 1}
    assert run.end is not None
    assert run.end.exit == 4


def test_a_killed_run_leaves_its_file_and_no_lock(folder: Path) -> None:
    process = start("30", "--target", "0.001%")  # or it might end before it is killed
    wait_for(folder / "run.jsonl")
    process.kill()
    process.communicate(timeout=30)
    deadline = time.monotonic() + 60
    with (folder / "run.jsonl").open("ab") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:  # the worker has not noticed
                assert time.monotonic() < deadline
                time.sleep(0.05)
    run = Run.read(folder / "run.jsonl")
    assert run.samples
    assert run.end is None
    before = (folder / "run.jsonl").read_bytes()
    process = start("0.01")
    process.communicate(timeout=60)
    assert process.returncode == 0
    (kept,) = folder.glob("run-*.jsonl")
    assert kept.read_bytes() == before
    assert len(Run.read(folder / "run.jsonl").points) == 2
