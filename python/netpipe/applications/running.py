# SPDX-License-Identifier: Apache-2.0
"""Starts one kernel with its library's launcher and waits for its result."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import msgspec

from netpipe.applications.plan import Task
from netpipe.failure import INTERRUPTED, Failure
from netpipe.kernels.lines import Check, Result
from netpipe.launch.jobs import remote_shell_in
from netpipe.libraries import Command, Job, Launcher, find_launcher
from netpipe.libraries.starting.condense import condense
from netpipe.libraries.starting.hosts import BLOCK
from netpipe.libraries.starting.processes import end_all_with, remove_unused, shared_memory
from netpipe.libraries.starting.scratch import Scratch

FOLDERS = "netpipe-apps-"  # how the folders of sessions begin
LOOK_S = 0.1
LEAVE_S = 10.0  # that a launcher may take to end after the result is there: some hang in MPI_Finalize
END_S = 5.0  # and after SIGTERM
MOST_OUTPUT = 1 << 20  # bytes of it that are read
RESULT = b'{"name":'  # how the line with the result begins
MOST_CHECKS = 3  # that a sentence names


class _Said(msgspec.Struct):
    """What a kernel prints with --json."""

    seconds: float | None
    mops: float | None
    operations: str
    verified: bool
    size: str
    iterations: int
    checks: list[Check]
    pin: list[int | None]
    hosts: list[str]


class _Output:
    """What a launcher and its ranks print, in a file: nobody has to read it while they run."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self._size = 0
        self._there = False

    def read(self) -> bytes:
        return os.pread(self.file.fileno(), MOST_OUTPUT, 0)

    def result(self) -> bytes:
        """The line with the result; empty where there is none."""
        lines = self.read().splitlines(keepends=True)
        return next((line for line in lines if line.startswith(RESULT) and line.endswith(b"\n")), b"")

    def has_result(self) -> bool:
        size = os.fstat(self.file.fileno()).st_size
        if size != self._size:
            self._size = size
            self._there = self._there or bool(self.result())
        return self._there


class Runner:
    """The launchers of one session; a context manager."""

    def __init__(
        self, timeout_s: float, given_up: Callable[[], bool] = lambda: False, most_ranks: int = 0
    ) -> None:
        self.timeout_s = timeout_s
        self._most_ranks = most_ranks  # of any task: daemons and nodes are got once, for all
        self._given_up = given_up
        self._launchers: dict[str, Launcher] = {}

    def __enter__(self) -> Runner:
        end_orphans()
        self._scratch = Scratch(FOLDERS)
        self._scratch.path.chmod(0o755)  # LAM runs as another user
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for launcher in self._launchers.values():
            launcher.halt()
        self._scratch.close()

    def run(self, task: Task, launch: int) -> Result:
        """Never raises for what the kernel or its launcher does: the result says why there is none. Raises Failure
        (130) when it was given up.
        """
        cell = task.cell
        result = Result(
            name=cell.name,
            problem=cell.problem,
            variant=cell.variant,
            ranks=cell.ranks,
            options=dict(task.options),
            launch=launch,
            oversubscribed=task.oversubscribed,
            hosts=max(len(task.hosts), 1),
            mapping=cell.mapping,
        )
        began = time.monotonic()
        try:
            with tempfile.TemporaryFile() as file:
                output = _Output(file)
                code, text = self._wait(self._command(task), output)
                line = output.result()
        except Failure as failure:
            if failure.exit_code == INTERRUPTED:
                raise
            result.problem_text = failure.sentence
            return result
        result.wall_s = round(time.monotonic() - began, 3)
        try:
            said = msgspec.json.decode(line, type=_Said)
        except msgspec.DecodeError:
            result.problem_text = self._ended(code, _words(cell.name, text))
            return result
        result.seconds, result.mops, result.operations = said.seconds, said.mops, said.operations
        result.verified, result.size, result.iterations = said.verified, said.size, said.iterations
        result.checks = [check for check in said.checks if not check.passed]
        result.pin = said.pin
        if task.hosts:
            result.places = said.hosts
        if not said.verified:
            result.problem_text = _wrong(result.checks)
        elif elsewhere := _elsewhere(task.pin, said.pin) or _mapped_otherwise(task, said.hosts):
            result.verified, result.problem_text = False, elsewhere
        return result

    def _ended(self, code: int | None, words: str) -> str:
        """Why there is no result."""
        if code is None:
            how = f"it did not end within {self.timeout_s:g} s; --timeout gives it more"
            return how + (f"; until then it said: {words}" if words else "")
        return f"{_end_text(code)}{f': {words}' if words else ', and said nothing'}"

    def _command(self, task: Task) -> Command:
        name = task.description.name
        scratch = self._scratch.path / name.replace("@", "-")
        scratch.mkdir(exist_ok=True)
        scratch.chmod(0o755)
        # What a killed launcher leaves goes with the folder, whose name marks all processes of the session. Other hosts
        # do not have it.
        more = {"NETPIPE_JOB_FOLDER": str(scratch)} | ({} if task.hosts else {"TMPDIR": str(scratch)})
        job = job_of(task, scratch, more)
        if name in self._launchers and self._launchers[name].gone():
            self._launchers.pop(name).halt()
        if name not in self._launchers:
            kind = find_launcher(task.description, task.launching.launcher)
            same = next((one for one in self._launchers.values() if type(one) is kind), None)
            launcher = same if same and kind.shared else kind()
            launcher.check(task.description, job.program)
            most = max(self._most_ranks, job.ranks)
            launcher.boot(replace(job, ranks=most, hosts=task.launching.hosts.spread(most)), self._given_up)
            self._launchers[name] = launcher
        return self._launchers[name].command(job)

    def _wait(self, command: Command, output: _Output) -> tuple[int | None, str]:
        """Its exit code, None if its time was up before there was a result, and what was printed until then."""
        process = command.popen(subprocess.DEVNULL, output.file)
        deadline = time.monotonic() + self.timeout_s
        leave = None
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(LOOK_S)
                    break
                now = time.monotonic()
                if leave is None and output.has_result():
                    leave = min(deadline, now + LEAVE_S)
                if self._given_up() or now > (leave or deadline):
                    break
            text = output.read().decode(errors="replace")  # before the launcher complains of being ended
            late = process.poll() is None and leave is None
        finally:
            self._end(process)
        if self._given_up():
            raise Failure(INTERRUPTED, "interrupted")
        return (None if late else process.returncode), text

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Ends the launcher, if it still runs, and whatever it has started that has outlived it."""
        mark = str(self._scratch.path)
        if process.poll() is None or process.returncode != 0:
            memory = shared_memory(mark)
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)  # it alone knows where its ranks are
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(END_S)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            end_all_with(mark)
            remove_unused(memory)
        process.wait()


def job_of(task: Task, scratch: Path, more: Mapping[str, str], json: bool = True) -> Job:
    return Job(
        description=task.description,
        program=(*task.words, "--json") if json else task.words,
        ranks=task.cell.ranks,
        hosts=task.hosts,
        variables={**task.description.environment, **task.environment, **more},
        extra=task.launching.arguments,
        remote_shell=remote_shell_in(scratch, shell) if (shell := task.launching.remote_shell) else None,
        scratch=scratch,
        mapping=task.cell.mapping or BLOCK,
    )


def by_hand(task: Task) -> str:
    """The command line that runs this task without netpipe, and prints what the kernel prints for people."""
    with tempfile.TemporaryDirectory(prefix="netpipe-by-hand-") as folder:
        job = job_of(task, Path(folder), {}, json=False)
        command = find_launcher(task.description, task.launching.launcher)().command(job)
        variables = [f"{name}={value}" for name, value in command.environment.items()]
        words = shlex.join([*(["env", *variables] if variables else []), *command.argv])
        files = [_written(path) for path in sorted(Path(folder).iterdir())]
        return " && ".join([*files, words]).replace(folder, ".")


def _written(path: Path) -> str:
    """Words that write this file, which a launcher reads, in the folder in which they are typed."""
    made = f"printf %s {shlex.quote(path.read_text())} >./{path.name}"
    return f"{made} && chmod +x ./{path.name}" if os.access(path, os.X_OK) else made


def end_orphans() -> None:
    """Ends what sessions of this user that were killed have left running. The owner of a folder holds a lock on it
    (netpipe.libraries.starting.scratch), which removes the folder.
    """
    for path in Path(tempfile.gettempdir()).glob(f"{FOLDERS}*"):
        try:
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        with contextlib.suppress(OSError):
            if os.fstat(folder).st_uid == os.geteuid():
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                end_all_with(str(path))
        os.close(folder)


def _words(name: str, text: str) -> str:
    """What the kernel itself said of its end, or else its launcher."""
    own = [line.strip() for line in text.splitlines() if line.casefold().startswith(f"{name}: ")]
    return condense("\n".join(own)) if own else condense(text)


def _end_text(code: int) -> str:
    if code >= 0:
        return f"it ended with exit code {code}"
    try:
        return f"its launcher was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"its launcher was killed by signal {-code}"


def _elsewhere(asked: Sequence[int | None], found: Sequence[int | None]) -> str:
    """Why a time would bear the label of a placement that was not in force; empty if it was."""
    for rank, processor in enumerate(asked):
        now = found[rank] if rank < len(found) else None
        if processor is not None and now != processor:
            where = "on several processors" if now is None else f"on processor {now}"
            return (
                f"rank {rank} was bound to processor {processor} and could run {where} at its end; the library or "
                "somebody else changed that. --pin none leaves the ranks to the library"
            )
    return ""


def _mapped_otherwise(task: Task, found: Sequence[str]) -> str:
    """Why a time would bear the label of a mapping that was not in force; empty if it was. Hosts are compared with each
    other and not with the names of --hosts: a host may call itself otherwise, but ranks of two hosts do not have one
    name.
    """
    names: dict[int, str] = {}
    for rank, place in enumerate(task.order):
        name = found[rank] if rank < len(found) else ""
        first = names.setdefault(place, name)
        others = [other for other, known in names.items() if known == name and other != place]
        if name == first and not others:
            continue
        asked = task.hosts[place].name
        where = f"{name}, with ranks of {task.hosts[others[0]].name}" if others else name
        return (
            f"rank {rank} was to run on {asked} ({task.cell.mapping} mapping) and ran on {where}; the launcher did not "
            "do as it was told, or two hosts have one name"
        )
    return ""


def _wrong(checks: Sequence[Check]) -> str:
    def number(value: float | None) -> str:
        return "no number" if value is None else f"{value:.13g}"

    said = [f"{one.what} is {number(one.found)} and should be {number(one.expected)}" for one in checks]
    more = [f"and {len(said) - MOST_CHECKS} more"] if len(said) > MOST_CHECKS else []
    return (
        f"its result is wrong: {'; '.join([*said[:MOST_CHECKS], *more])}"
        if said
        else "it has verified nothing"
    )
