# SPDX-License-Identifier: Apache-2.0
"""What processes that were killed leave is removed by the next one, and nothing that somebody still uses."""

from __future__ import annotations

import fcntl
import mmap
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from netpipe import libraries
from netpipe.events import Launch
from netpipe.launch import jobs
from netpipe.launch.jobs import Jobs, Launchers
from netpipe.libraries import Command, Job, Launcher
from netpipe.libraries.starting.description import Description
from netpipe.libraries.starting.processes import SHARED
from netpipe.libraries.starting.scratch import NOTED, Scratch, remove_dead
from netpipe.records import Header, Sample
from netpipe.run_file import Recording, append

PREFIX = "netpipe-test-"
# Makes a folder and a file in it, says where, and waits.
OWNER = f"""
import sys
from pathlib import Path
from netpipe.libraries.starting.scratch import Scratch
folder = Scratch("{PREFIX}", Path(sys.argv[1]))
(folder.path / "file").write_text("x")
print(folder.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    command = [sys.executable, "-c", OWNER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


@pytest.fixture
def memory() -> Iterator[Path]:
    """A file as MPI libraries have them."""
    path = Path(SHARED) / f"netpipe-test-{secrets.token_hex(8)}"
    path.write_bytes(bytes(4096))
    yield path
    path.unlink(missing_ok=True)


def test_a_folder_goes_with_its_owner(tmp_path: Path) -> None:
    with Scratch(PREFIX, tmp_path) as folder:
        (folder / "deep").mkdir()
        assert list(tmp_path.iterdir()) == [folder]
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_killed_process_is_removed_by_the_next(
    owner: tuple[subprocess.Popen[str], Path], tmp_path: Path
) -> None:
    process, left = owner
    with Scratch(PREFIX, tmp_path) as folder:
        assert set(tmp_path.iterdir()) == {left, folder}, "its owner lives"
        process.kill()
        process.wait(20)
        remove_dead(PREFIX, tmp_path)
        assert set(tmp_path.iterdir()) == {folder}, "ours is locked"


def test_a_folder_stays_while_a_process_of_its_jobs_lives(
    owner: tuple[subprocess.Popen[str], Path], tmp_path: Path
) -> None:
    process, left = owner
    process.kill()
    process.wait(20)
    with subprocess.Popen(["sleep", "60"], env={"NETPIPE_JOB_FOLDER": str(left / "job-1")}) as rank:
        remove_dead(PREFIX, tmp_path)
        assert left.exists()
        rank.kill()
        rank.wait(20)
    remove_dead(PREFIX, tmp_path)
    assert not left.exists()


def test_a_folder_or_link_that_another_made_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / f"{PREFIX}link").symlink_to(elsewhere)
    (tmp_path / f"{PREFIX}file").write_text("x")
    remove_dead(PREFIX, tmp_path)
    assert len(list(tmp_path.iterdir())) == 3
    (tmp_path / f"{PREFIX}folder").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    remove_dead(PREFIX, tmp_path)
    assert (tmp_path / f"{PREFIX}folder").exists()


def test_nobody_removes_a_folder_before_its_owner_has_locked_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = tempfile.mkdtemp
    tries = 0

    def meddled(prefix: str, dir: Path) -> str:  # noqa: A002  (as mkdtemp has it)
        nonlocal tries
        tries += 1
        made = make(prefix=prefix, dir=dir)
        if tries == 1:
            remove_dead(PREFIX, tmp_path)
        if tries == 2:  # somebody is about to
            held.append(os.open(made, os.O_RDONLY))
            fcntl.flock(held[0], fcntl.LOCK_EX)
        return made

    held: list[int] = []
    monkeypatch.setattr(tempfile, "mkdtemp", meddled)
    with Scratch(PREFIX, tmp_path) as folder:
        assert (folder.exists(), tries) == (True, 3)
    os.close(held[0])


def dead_job(folder: Path, *names: str) -> None:
    job = folder / "job-1"
    job.mkdir(parents=True)
    (job / NOTED).write_text("".join(f"{name}\n" for name in names))


def test_shared_memory_of_a_killed_run_is_removed_by_the_next(tmp_path: Path, memory: Path) -> None:
    others = memory.with_name(memory.name + "-other")
    others.write_bytes(b"x")
    try:
        dead_job(tmp_path / f"{PREFIX}dead", memory.name, "no-such-file")
        remove_dead(PREFIX, tmp_path)
        assert (memory.exists(), others.exists()) == (False, True)
        assert list(tmp_path.iterdir()) == []
    finally:
        others.unlink()


def test_shared_memory_that_somebody_has_mapped_stays(tmp_path: Path, memory: Path) -> None:
    dead_job(tmp_path / f"{PREFIX}dead", memory.name)
    with memory.open("r+b") as file, mmap.mmap(file.fileno(), 4096):
        remove_dead(PREFIX, tmp_path)
        assert memory.exists()


@pytest.mark.parametrize("name", ["../../{}", "sub/{}", ".", ".."])
def test_only_files_of_shared_memory_are_removed(tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("x")
    dead_job(tmp_path / f"{PREFIX}dead", name.format(str(victim).lstrip("/")))
    remove_dead(PREFIX, tmp_path)
    assert victim.exists()
    assert Path(SHARED).is_dir()


# ------------------------------------------------------------------------------------------------------------ jobs


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Launchers]:
    """site("..."): a launcher that runs this shell script."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    mpirun = tmp_path / "mpirun"
    mpirun.write_text("#!/bin/sh\n")
    mpirun.chmod(0o755)
    libraries.launchers()

    def make(script: str) -> Launchers:
        class Scripted(Launcher):
            def command(self, job: Job) -> Command:
                return Command(("sh", "-c", script), job.variables)

        monkeypatch.setitem(libraries._launchers, "scripted", Scripted)
        about = Description("mpi@x", tmp_path / "x.so", "1.0", "x", "scripted", mpirun)
        return Launchers(program=(sys.executable,), describe=lambda _: about)

    return make


def test_shared_memory_of_ranks_that_died_at_once_is_removed(
    site: Callable[[str], Launchers], memory: Path
) -> None:
    """Nobody has it mapped any more when the launcher ends: only their note tells whose it was."""
    said: list[str] = []
    with site(f'echo {memory.name} >> "$NETPIPE_JOB_FOLDER/{NOTED}"; kill -9 $$') as launchers:
        every = Jobs(launchers)
        event = Launch(job=0, variant="x", module="mpi@x", ranks=2, join="h:1", secret=secrets.token_hex(16))
        every.launch(event, lambda _, sentence: said.append(sentence))
        while not said:
            every.attend(lambda _, sentence: said.append(sentence))
        every.close(0)
    assert "was killed by SIGKILL" in said[0]
    assert not memory.exists()


def test_a_run_begins_with_what_dead_ones_left(site: Callable[[str], Launchers], tmp_path: Path) -> None:
    dead_job(tmp_path / f"{jobs.FOLDERS}dead")
    with site("true"):
        assert not list(tmp_path.glob(f"{jobs.FOLDERS}*"))


# ------------------------------------------------------------------------------------------------- parts of run files


def part_of(output: Path, pid: int, *, result: bool = False, lines: bool = True) -> Path:
    path = output.with_name(f"{output.name}.{pid}.part")
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    if lines:
        append(file, Header(schema=1, run="0" * 32))
    if result:
        append(file, Sample(variant="tcp", pattern="pingpong", size_bytes=8, ops=1, ns=[5]))
    os.close(file)
    return path


def dead_pid() -> int:
    with subprocess.Popen(["true"]) as process:
        return process.pid


def test_a_run_removes_what_killed_ones_left_beside_its_file(tmp_path: Path) -> None:
    output = tmp_path / "run.jsonl"
    gone = part_of(output, dead_pid())
    Recording(output).close()
    assert not gone.exists()


def test_a_part_that_may_be_of_use_stays(tmp_path: Path) -> None:
    output = tmp_path / "run.jsonl"
    locked = part_of(output, dead_pid())
    kept = [
        locked,
        part_of(output, os.getpid()).rename(tmp_path / f"run.jsonl.{os.getppid()}.part"),  # its process lives
        part_of(tmp_path / "other.jsonl", dead_pid()),
    ]
    held = os.open(locked, os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)  # a worker of that run lives
    Recording(output).close()
    os.close(held)
    assert all(path.exists() for path in kept)


@pytest.mark.parametrize("given", [{"result": True}, {"lines": False}])
def test_a_part_with_results_or_without_a_line_stays(tmp_path: Path, given: dict[str, bool]) -> None:
    output = tmp_path / "run.jsonl"
    part = part_of(output, dead_pid(), **given)
    Recording(output).close()
    assert part.exists()
