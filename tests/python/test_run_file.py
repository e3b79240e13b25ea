# SPDX-License-Identifier: Apache-2.0
"""All records of a run, and no others, are in its file, whatever other runs and programs do to the name."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from netpipe.events import Pass, Progress
from netpipe.failure import DONE, FAILED, USAGE, Failure
from netpipe.records import End, Error, Header, Run, encode
from netpipe.run_file import InUse, Recording, make_room
from netpipe.session import Request, Result, Session

if TYPE_CHECKING:
    from conftest import Netpipe

OLDER = encode(Header(schema=1, run="0" * 32, started="2026-03-01T12:00:00Z")) + encode(
    End(exit=0, reason="done")
)
OUTPUT = Path("run.jsonl")


def begun(path: Path, number: int = 1) -> Recording:
    """A recording in the way to `path`, with one record."""
    recording = Recording(path)
    recording.append(Header(schema=1, run=f"{number:032}", started=f"2026-04-01T12:00:{number:02}Z"))
    return recording


def messages(path: Path) -> list[str | None]:
    return [error.message for error in Run.read(path).errors]


def without_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)


def without_links(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)


# ------------------------------------------------------------------------------------------- two runs, one name


@pytest.mark.parametrize("limits", [(), (without_links,), (without_locks,), (without_links, without_locks)])
@pytest.mark.parametrize("older", [True, False])
def test_a_second_run_gets_a_name_of_its_own(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    older: bool,
    limits: tuple[Callable[[pytest.MonkeyPatch], None], ...],
) -> None:
    for limit in limits:
        limit(monkeypatch)
    output = tmp_path / "run.jsonl"
    if older:
        output.write_bytes(OLDER)
    first, second = begun(output, 1), begun(output, 2)
    assert first.keep() is None
    said = second.keep()
    assert said is not None
    assert f"written to {output}" in said
    assert said.endswith(f"; this run is written to {tmp_path / 'run-20260401T120002Z.jsonl'}")
    for recording, message in ((first, "first"), (second, "second")):
        recording.append(Error(message=message))
        assert recording.damage() is None
        recording.close()
        assert messages(recording.path) == [message]
    names = {"run.jsonl", "run-20260401T120002Z.jsonl"} | ({"run-20260301T120000Z.jsonl"} if older else set())
    assert {path.name for path in tmp_path.iterdir()} == names
    assert (first.kept is not None) is older
    if first.kept is not None:
        assert first.kept.read_bytes() == OLDER


@pytest.mark.parametrize("older", [True, False])
def test_names_are_given_once_however_many_runs_want_them(tmp_path: Path, older: bool) -> None:
    """Locks and names are the kernel's, so threads race as processes do."""
    for number in range(50):
        output = tmp_path / f"{number}" / "run.jsonl"
        output.parent.mkdir()
        if older:
            output.write_bytes(OLDER)
        recordings = [begun(output, 1) for _ in range(4)]
        start = threading.Barrier(len(recordings))

        def keep(recording: Recording, start: threading.Barrier = start) -> None:
            start.wait()
            recording.keep()

        threads = [threading.Thread(target=keep, args=(recording,)) for recording in recordings]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for at, recording in enumerate(recordings):
            recording.append(Error(message=str(at)))
            assert recording.in_place
            assert recording.damage() is None
            recording.close()
        assert sorted(messages(recording.path)[0] or "" for recording in recordings) == ["0", "1", "2", "3"]
        kept = [recording.kept for recording in recordings if recording.kept is not None]
        assert [path.read_bytes() for path in kept] == ([OLDER] if older else [])
        assert len(list(output.parent.iterdir())) == 4 + older


def test_only_a_run_that_is_written_is_in_use(tmp_path: Path) -> None:
    output = tmp_path / "run.jsonl"
    recording = begun(output)
    recording.keep()
    with pytest.raises(InUse, match="another run is being written to"):
        make_room(output)
    recording.close()
    assert make_room(output) is not None
    assert not output.exists()


def test_an_incomplete_run_stays_where_there_are_no_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can say whether it is still written."""
    without_locks(monkeypatch)
    output = tmp_path / "run.jsonl"
    output.write_bytes(encode(Header(schema=1, run="0" * 32)))
    with pytest.raises(InUse, match="it is incomplete, and its file system has no locks"):
        make_room(output)
    output.write_bytes(OLDER)
    assert make_room(output) is not None


def test_an_empty_file_gives_its_name_away(tmp_path: Path) -> None:
    output = tmp_path / "run.jsonl"
    output.touch()
    recording = begun(output)
    assert recording.keep() is None
    recording.close()
    assert (recording.path, recording.kept) == (output, None)
    assert Run.read(output).header is not None


def test_a_link_to_nothing_is_refused(tmp_path: Path) -> None:
    output = tmp_path / "run.jsonl"
    output.symlink_to("elsewhere")
    with pytest.raises(Failure, match="is a symbolic link to nothing") as refused:
        Recording(output)
    assert refused.value.exit_code == USAGE
    assert [path.name for path in tmp_path.iterdir()] == ["run.jsonl"]


def test_an_import_does_not_take_the_name_of_a_run_that_is_written(netpipe: Netpipe) -> None:
    Path("np.out").write_text("1 1.0 0.000001\n2 2.0 0.000001\n")
    recording = begun(OUTPUT)
    recording.keep()
    said = netpipe("import", "np.out", "-o", "run.jsonl")
    assert said.code == USAGE
    assert "another run is being written to run.jsonl" in said.err
    recording.close()
    assert netpipe("import", "np.out", "-o", "run.jsonl").code == DONE
    assert len(Run.read(OUTPUT).points) == 2


@pytest.mark.parametrize("times", [6, pytest.param(40, marks=pytest.mark.deep)])
def test_two_commands_at_once_make_two_files(fake: Path, times: int) -> None:
    for number in range(times):
        older = number % 2 == 1
        folder = Path(str(number))
        folder.mkdir()
        if older:
            (folder / OUTPUT).write_bytes(OLDER)
        command = [sys.executable, "-m", "netpipe", "run", "tcp", "--sizes", "8", "--launches", "2", "-q"]
        processes = []
        for _ in range(2):
            processes.append(subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True))
            time.sleep(0.002 * (number % 20))
        said = [process.communicate(timeout=60)[1] for process in processes]
        assert [process.returncode for process in processes] == [DONE, DONE], said
        runs = [Run.read(path) for path in folder.iterdir() if path.read_bytes() != OLDER]
        assert len(runs) == 2
        assert len({run.header.run for run in runs if run.header is not None}) == 2
        for run in runs:
            assert [one.launch for one in run.launches] == [0, 1]
            assert len(run.points) == 2
            assert run.end is not None
        assert sum(path.read_bytes() == OLDER for path in folder.iterdir()) == older


# ------------------------------------------------------------------------------------ other programs and the file


def disturbed(disturb: Callable[[], object], output: Path = OUTPUT) -> tuple[Result, list[str]]:
    """A run of two launches with `disturb` after its second pass, when it is in place, and its notes."""
    passes: list[Pass] = []
    notes: list[str] = []

    def watch(progress: Progress) -> None:
        if progress.note:
            notes.append(progress.note)
        if isinstance(progress.event, Pass):
            passes.append(progress.event)
            if len(passes) == 2:
                assert output.exists()
                disturb()

    request = Request(["tcp"], settings={"sizes": "8,64k", "budget": "1"}, launches=2)
    return Session(request).measure(output, watch), notes


def whole(path: Path | None) -> Run:
    """The run there, which lacks nothing."""
    assert path is not None
    run = Run.read(path)
    assert len(run.points) == 4
    assert [one.launch for one in run.launches] == [0, 1]
    assert run.end is not None
    assert (run.end.exit, run.end.reason) == (FAILED, "failed")
    return run


def test_a_run_that_was_removed_is_copied_back(fake: Path) -> None:
    result, notes = disturbed(OUTPUT.unlink)
    assert (result.exit_code, result.path) == (FAILED, OUTPUT)
    assert notes == [
        "run.jsonl was removed by another program while the run was written; a copy of the run is in run.jsonl"
    ]
    assert len(whole(OUTPUT).samples) == len(result.run.samples)


def test_a_run_whose_name_was_taken_is_copied_beside_it(fake: Path) -> None:
    def disturb() -> None:
        Path("other").write_text("dear diary\n")
        Path("other").replace(OUTPUT)

    result, notes = disturbed(disturb)
    assert result.exit_code == FAILED
    assert OUTPUT.read_text() == "dear diary\n"
    whole(result.path)
    assert notes == [
        (
            "run.jsonl was replaced by another program while the run was written; "
            f"a copy of the run is in {result.path}"
        )
    ]


def test_a_run_that_was_renamed_is_found(fake: Path) -> None:
    result, notes = disturbed(lambda: OUTPUT.rename("mine.jsonl"))
    assert (result.exit_code, result.path) == (FAILED, Path("mine.jsonl"))
    assert notes == [
        "run.jsonl was renamed by another program while the run was written; the run is in mine.jsonl"
    ]
    whole(result.path)
    assert [path.name for path in Path().iterdir()] == ["mine.jsonl"]


@pytest.mark.parametrize("to", ["nothing", "half", "another run"])
def test_a_run_that_was_truncated_is_written_again(fake: Path, to: str) -> None:
    def disturb() -> None:
        if to == "another run":
            OUTPUT.write_bytes(OLDER)
        else:
            os.truncate(OUTPUT, OUTPUT.stat().st_size // 2 if to == "half" else 0)

    result, notes = disturbed(disturb)
    assert result.exit_code == FAILED
    assert result.path not in (None, OUTPUT)
    assert notes == [
        (
            "run.jsonl was truncated or overwritten by another program while the run was written; "
            f"a copy of the run is in {result.path}"
        )
    ]
    whole(result.path)


def test_what_is_overwritten_in_place_is_noticed(fake: Path) -> None:
    """The file has the size that it should have."""

    def disturb() -> None:
        with OUTPUT.open("r+b") as file:
            file.write(b"?")

    result, _ = disturbed(disturb)
    assert result.exit_code == FAILED
    whole(result.path)


def test_a_run_outlives_its_folder(fake: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    Path("folder").mkdir()
    result, notes = disturbed(lambda: shutil.rmtree("folder"), Path("folder/run.jsonl"))
    assert result.exit_code == FAILED
    assert result.path is not None
    assert result.path.parent == tmp_path / "temporary"
    whole(result.path)
    assert f"a copy of the run is in {result.path}" in notes[0]


def test_a_run_that_was_removed_before_its_first_result_is_kept(tmp_path: Path) -> None:
    output = tmp_path / "run.jsonl"
    output.write_bytes(OLDER)
    recording = begun(output)
    recording.path.unlink()
    recording.keep()
    recording.append(Error(message="mine"))
    recording.new()
    assert recording.damage() == "removed"
    recording.rescue("removed", [])
    recording.close()
    assert output.read_bytes() == OLDER
    assert messages(recording.path) == ["mine"]


def test_a_run_that_cannot_be_copied_is_said_to_be_lost(
    fake: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    Path("folder").mkdir()
    result, notes = disturbed(lambda: shutil.rmtree("folder"), Path("folder/run.jsonl"))
    assert (result.exit_code, result.path) == (FAILED, None)
    assert "cannot be copied (No such file or directory): the run is lost" in notes[0]
    assert len(result.run.points) == 4


def test_the_command_says_what_happened_and_exits_with_4(fake: Path) -> None:
    environment = {**os.environ, "FAKE_WORKER": "pass_s=0.2"}
    process = subprocess.Popen(
        [sys.executable, "-m", "netpipe", "run", "tcp", "--sizes", "8,64k", "--launches", "1"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(OUTPUT)
    OUTPUT.unlink()
    out, err = process.communicate(timeout=60)
    assert process.returncode == FAILED
    assert "run.jsonl was removed by another program while the run was written" in err
    assert "2 points are in run.jsonl" in out
    assert len(Run.read(OUTPUT).points) == 2


# ----------------------------------------------------------------------------------------------- runs that die


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_killed_run_leaves_a_readable_file_and_no_lock(fake: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "netpipe", "run", "tcp", "--sizes", "8,64k", "-q"],
        env={**os.environ, "FAKE_WORKER": "pass_s=0.1 passes=1000"},
    )
    wait_for(OUTPUT)
    process.send_signal(signal.SIGKILL)
    process.wait(30)
    deadline = time.monotonic() + 30
    while is_locked(OUTPUT):  # until the worker has noticed
        assert time.monotonic() < deadline
        time.sleep(0.01)
    run = Run.read(OUTPUT)
    assert run.samples
    assert run.end is None
    before = OUTPUT.read_bytes()
    result = Session(Request(["tcp"], settings={"sizes": "8", "budget": "1"})).measure(OUTPUT)
    assert (result.exit_code, result.path) == (DONE, OUTPUT)
    assert result.kept is not None
    assert result.kept.read_bytes() == before


def is_locked(path: Path) -> bool:
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def test_a_run_without_a_file_leaves_none_even_if_it_is_killed(fake: Path, tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "netpipe", "run", "tcp", "--sizes", "8", "-q", "-o", "-"],
        env={**os.environ, "FAKE_WORKER": "pass_s=0.1 passes=1000", "TMPDIR": str(tmp_path / "temporary")},
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert b'"run"' in process.stdout.readline()
    process.kill()
    process.communicate(timeout=30)
    assert list((tmp_path / "temporary").iterdir()) == []
    assert list(Path().iterdir()) == []


def test_a_worker_names_the_run_file_and_not_its_descriptor(netpipe: Netpipe) -> None:
    said = netpipe("run", "tcp", "--sizes", "8", fake="full")
    assert said.code == FAILED
    assert "run.jsonl: No space left on device" in said.err
    assert "/proc/self/fd" not in said.err
    assert "/proc/self/fd" not in OUTPUT.read_text()
