# SPDX-License-Identifier: Apache-2.0
"""What is kept of a profiled program that is ended by a signal, and of one whose netpipe is killed. The program is a
shell script that leaves what a rank would leave.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from parts import UNFINISHED, leave

from netpipe.cli import call
from netpipe.failure import FAILED, USAGE, Failure
from netpipe.libraries.starting.scratch import Scratch
from netpipe.profiles import Profile, read
from netpipe.profiles.lines import Header, write
from netpipe.profiles.missing import lost
from netpipe.profiling import left, run
from netpipe.profiling.run import Request
from netpipe.profiling.target import Target

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
WAITS = "while :; do sleep 0.02; done"


@pytest.fixture(autouse=True)
def unharmed() -> Iterator[None]:
    """A signal that nobody looks after fails the test alone."""

    def missed(number: int, _: object) -> None:
        raise AssertionError(signal.Signals(number).name)

    before = {number: signal.signal(number, missed) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Job:
    """Runs scripts as programs that are profiled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "here"
        self.folder.mkdir()
        self.parts = folder / "parts"
        self.parts.mkdir()
        self.output = self.folder / "profile.jsonl"
        self.saved: list[int | None] = []  # the exit codes that profiles had
        leave(self.parts, state=UNFINISHED)

    def save(self, whole: Profile) -> None:
        write(whole, self.output)
        end = read(self.output).end
        assert end is not None
        self.saved.append(end.exit_code)

    def run(self, *lines: str, save: Callable[[Profile], None] | None = None) -> tuple[int, list[str]]:
        script = "\n".join([f"cp {self.parts}/* $NETPIPE_PROFILE/", *lines])
        request = Request(("sh", "-c", script), self.folder, version="1.2.3")
        _, code, said = run.profile(request, save or self.save)
        return code, said

    def leave(self, name: str = f"{left.FOLDERS}dead") -> Path:
        """As a netpipe that was killed does."""
        folder = self.folder / name
        folder.mkdir()
        left.note(folder, Header(schema=1, profile="f" * 32, command=["mpirun", "./app"], processors=7))
        leave(folder, state=UNFINISHED)
        return folder

    @property
    def folders(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir() if path.is_dir())


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    build: Any = SimpleNamespace(
        title="MPICH 5.0.2", library=SimpleNamespace(family=SimpleNamespace(is_abi=False))
    )
    monkeypatch.setattr(run, "understand", lambda command: Target(command, None, None, build, ""))
    monkeypatch.setattr(run.programs, "profiler", lambda _: Path("libc.so.6"))
    return Job(tmp_path)


# ----------------------------------------------------------------------------------------------------------- signals


@pytest.mark.parametrize("name", ["TERM", "HUP"])
def test_a_signal_is_passed_on_and_what_was_recorded_is_kept(job: Job, name: str) -> None:
    code, said = job.run(f"trap 'exit 7' {name}", f"kill -{name} $PPID", WAITS)
    assert code == 128 + signal.Signals[f"SIG{name}"]
    assert job.saved == [7], "the profile has the exit code of the command"
    assert said == ["rank 0 did not reach MPI_Finalize; what was seen until then is in the profile"]
    assert job.folders == []


def test_an_interrupt_is_left_to_the_terminal_which_sends_it_to_all(job: Job) -> None:
    code, _ = job.run("trap 'exit 7' INT", "kill -INT $PPID", "sleep 0.2", "exit 0")
    assert (code, job.saved) == (128 + signal.SIGINT, [0])


def test_a_program_ends_as_slowly_as_it_likes_and_what_is_there_is_saved(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has sent the signal may kill netpipe before the program ends."""
    monkeypatch.setattr(run, "END_S", 0.0)
    waits = f"while [ ! -e {job.output} ]; do sleep 0.02; done"
    code, _ = job.run("trap '' TERM", "kill -TERM $PPID", waits, "exit 3")
    assert code == 128 + signal.SIGTERM
    assert job.saved == [None, 3]


def test_without_a_signal_the_exit_code_is_that_of_the_program(job: Job) -> None:
    assert job.run("exit 3")[0] == 3
    assert job.run("kill -KILL $$")[0] == 128 + signal.SIGKILL


def test_what_cannot_be_saved_stays_where_it_was_recorded(job: Job) -> None:
    def full(_: Profile) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(Failure, match=r"No space left on device; .* netpipe profile --from") as failed:
        job.run(save=full)
    assert failed.value.exit_code == FAILED
    (folder,) = job.folders
    assert folder in failed.value.sentence
    assert call(["profile", "-q", "--from", str(job.folder / folder), "-o", str(job.output)]) == 0
    assert read(job.output).header.netpipe == "1.2.3"


# ------------------------------------------------------------------------------------------------- folders that stay


def test_what_a_killed_netpipe_has_left_is_named_and_not_removed(job: Job) -> None:
    dead, empty = job.leave(), job.folder / f"{left.FOLDERS}empty"
    empty.mkdir()
    _, said = job.run()
    assert job.folders == [dead.name], "there is nothing in the other one"
    assert f"netpipe profile --from {dead} -o FILE makes a profile of it" in said[-1]


def test_a_profile_is_made_of_it(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    folder = job.leave()
    assert call(["profile", "--from", str(folder), "-o", str(job.output)]) == 0
    assert "rank 0 did not reach MPI_Finalize" in capsys.readouterr().err
    whole = read(job.output)
    assert (whole.header.profile, whole.header.command) == ("f" * 32, ["mpirun", "./app"])
    assert (whole.header.processors, whole.header.ranks) == (7, 1)
    assert whole.end is not None
    assert whole.end.exit_code is None
    assert job.folders == []
    assert call(["show", str(job.output)]) == 0
    assert "exit code" not in capsys.readouterr().out
    assert [gap.what for gap in lost(whole)] == ["unfinished"], "nothing is said of the command's end"


def test_what_lies_in_another_folder_stays_there(job: Job) -> None:
    folder = job.leave("mine")
    (folder / left.HEADER).unlink()
    assert call(["profile", "-q", "--from", str(folder), "-o", str(job.output)]) == 0
    assert len(read(job.output).header.profile) == 32
    assert job.folders == ["mine"]


def test_the_folder_of_a_profile_that_runs_is_left_alone(
    job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    with Scratch(left.FOLDERS, job.folder) as folder:
        leave(folder)
        assert call(["profile", "--from", str(folder), "-o", str(job.output)]) == USAGE
        assert "belongs to a netpipe profile that still runs" in capsys.readouterr().err
        assert job.folders == [folder.name]
    assert not job.output.exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--from", ".", "--", "mpirun", "./app"], "leave out the command, --events and --no-trace"),
        (["--from", ".", "--no-trace"], "leave out the command, --events and --no-trace"),
        (["--from", "."], "no rank has left anything in"),
        ([], "there is no command"),
    ],
)
def test_what_does_not_fit_is_refused(
    job: Job,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    says: str,
) -> None:
    monkeypatch.chdir(job.folder)
    assert call(["profile", *words]) == USAGE
    assert says in capsys.readouterr().err
    assert list(job.folder.iterdir()) == []


# ------------------------------------------------------------------------------------------- programs of another MPI

FOREIGN = "the program uses Open MPI (Open MPI v5.0.11), but the profiler was built for MPICH"


def test_whoever_ends_before_mpi_init_is_asked_whether_it_is_a_program_of_mpi(job: Job) -> None:
    for end, how in (("exit 4", "sh ended with exit code 4, and no process"), ("exit 0", "no process")):
        with pytest.raises(Failure) as failed:
            job.run("rm $NETPIPE_PROFILE/*.part", end)
        assert failed.value.sentence == (
            f"there is no profile: {how} called MPI_Init of MPICH 5.0.2; is sh an MPI program of that library, linked "
            "with its shared library?"
        )


def test_a_program_of_another_mpi_is_said(job: Job) -> None:
    """A script hides it from the command line, so only the profiler sees it."""
    says = f"echo '{FOREIGN}' >$NETPIPE_PROFILE/foreign.problem"
    with pytest.raises(Failure, match="there is no profile: the program uses Open MPI") as failed:
        job.run("rm $NETPIPE_PROFILE/*.part", says)
    assert failed.value.sentence == (
        f"there is no profile: {FOREIGN}; start it with the launcher of its own library"
    )
    assert job.run(says)[1][-1] == f"{FOREIGN}; what it did is not in the profile"
