# SPDX-License-Identifier: Apache-2.0
"""Starts one kernel with its library's launcher and waits for its result."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from types import TracebackType

import msgspec

from netpipe.applications.plan import Cell
from netpipe.failure import INTERRUPTED, Failure
from netpipe.kernels.lines import Check, Result
from netpipe.libraries import Command, Job, Launcher, find_launcher
from netpipe.libraries.starting.condense import condense
from netpipe.libraries.starting.scratch import Scratch

FOLDERS = "netpipe-apps-"
END_S = 5.0  # that a launcher may take to end after SIGTERM
MOST_OUTPUT = 1 << 20


class _Said(msgspec.Struct):
    """What a kernel prints with --json."""

    seconds: float | None
    mops: float | None
    operations: str
    verified: bool
    size: str
    iterations: int
    checks: list[Check]


class Runner:
    """The launchers of one session; a context manager."""

    def __init__(self, timeout_s: float, given_up: Callable[[], bool] = lambda: False) -> None:
        self.timeout_s = timeout_s
        self._given_up = given_up
        self._launchers: dict[str, Launcher] = {}

    def __enter__(self) -> Runner:
        self._scratch = Scratch(FOLDERS)
        self._scratch.path.chmod(0o755)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for launcher in self._launchers.values():
            launcher.halt()
        self._scratch.close()

    def run(self, cell: Cell, launch: int, more: Mapping[str, str] | None = None) -> Result:
        """Never raises for what the kernel or its launcher does: the result says why there is none. Raises Failure
        (130) when it was given up.
        """
        result = Result(
            name=cell.name,
            problem=cell.problem,
            variant=cell.variant,
            ranks=cell.ranks,
            options=dict(cell.options),
            launch=launch,
        )
        began = time.monotonic()
        try:
            command = self._command(cell, more or {})
            code, text, late = self._wait(command)
        except Failure as failure:
            if failure.exit_code == INTERRUPTED:
                raise
            result.problem_text = failure.sentence
            return result
        result.wall_s = round(time.monotonic() - began, 3)
        line = next((one for one in text.splitlines() if one.startswith('{"name":')), "")
        try:
            said = msgspec.json.decode(line.encode(), type=_Said)
        except msgspec.DecodeError:
            result.problem_text = (
                f"it did not end within {self.timeout_s:g} s; --timeout gives it more"
                if late
                else f"it ended with exit code {code}: {condense(text) or 'it said nothing'}"
            )
            return result
        result.seconds, result.mops, result.operations = said.seconds, said.mops, said.operations
        result.verified, result.size, result.iterations = said.verified, said.size, said.iterations
        result.checks = [check for check in said.checks if not check.passed]
        if not said.verified:
            result.problem_text = "its result is wrong: " + "; ".join(
                f"{one.what} is {one.found!r} and should be {one.expected!r}" for one in result.checks[:3]
            )
        return result

    def _command(self, cell: Cell, more: Mapping[str, str]) -> Command:
        name = cell.description.name
        scratch = self._scratch.path / name.replace("@", "-")
        scratch.mkdir(exist_ok=True)
        scratch.chmod(0o755)
        job = Job(
            description=cell.description,
            program=cell.arguments,
            ranks=cell.ranks,
            hosts=(),
            variables={
                **cell.description.environment,
                **cell.environment,
                "TMPDIR": str(scratch),
                **more,
            },
            extra=(),
            remote_shell=None,
            scratch=scratch,
        )
        if name not in self._launchers:
            launcher = find_launcher(cell.description, None)()
            launcher.check(cell.description, cell.arguments)
            launcher.boot(job, self._given_up)
            self._launchers[name] = launcher
        return self._launchers[name].command(job)

    def _wait(self, command: Command) -> tuple[int, str, bool]:
        """Its exit code, what it printed, and whether it had to be ended."""
        with tempfile.TemporaryFile() as output:
            process = command.popen(subprocess.DEVNULL, output)
            deadline = time.monotonic() + self.timeout_s
            late = False
            try:
                while True:
                    try:
                        process.wait(0.1)
                        break
                    except subprocess.TimeoutExpired:
                        late = time.monotonic() > deadline
                        if late or self._given_up():
                            _end(process)
                            break
            finally:
                _kill_group(process)
            if self._given_up():
                raise Failure(INTERRUPTED, "interrupted")
            output.seek(0)
            return process.returncode, output.read(MOST_OUTPUT).decode(errors="replace"), late


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        _kill_group(process)
        process.wait()


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """What the launcher started is in a session of its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
