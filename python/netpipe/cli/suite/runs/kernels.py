# SPDX-License-Identifier: Apache-2.0
"""Runs of a suite with application kernels: their times over MPI libraries, as `netpipe apps` takes them, and their
messages, as `netpipe profile` records them.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from netpipe.cli.suite.parts import PROFILE
from netpipe.cli.suite.runs.base import Done, Planned, fault
from netpipe.failure import DONE, FAILED, INTERRUPTED, UNAVAILABLE, Failure, NotHere
from netpipe.streams import say

if TYPE_CHECKING:
    from rich.console import Console

    from netpipe.applications.plan import Planned as Tasks
    from netpipe.applications.plan import Task
    from netpipe.cli.suite.parts import Part
    from netpipe.cli.suite.runs.base import Site

END_S = 10.0  # that a profiled program may take to end when it was told to
KEPT = 2000  # characters of what a failed one said


def label(name: str, problem: str) -> str:
    """How a kernel stands in tables: its name, with the size of the problem where that is a number (sweep3d-50)."""
    return f"{name}-{problem}" if problem.isdecimal() else name


class Kernels(Planned):
    """Without tasks nothing of it is available here."""

    def __init__(self, run: Part, tasks: Tasks | None, why: str = "") -> None:
        super().__init__(run)
        self.tasks = tasks
        if why:
            self.left_out = {"all variants": why}

    @property
    def available(self) -> bool:
        return self.tasks is not None

    @property
    def notes(self) -> tuple[str, ...]:
        return self.tasks.notes if self.tasks is not None else ()

    def print_plan(self, out: Console) -> None:
        from netpipe.applications.plan import memory_text
        from netpipe.render.terminal.apps import placed_text
        from netpipe.units import counted

        assert self.tasks is not None
        for note in self.tasks.notes:
            say(note)
        times = counted(self.launches, "time")
        for task in self.tasks.tasks:
            where = placed_text(task.pin, task.oversubscribed)
            out.print(
                f"{task.cell.text}: {memory_text(task.memory_bytes)} of memory, {times}, {where}",
                markup=False,
            )

    @property
    def launches(self) -> int:
        from netpipe.applications.session import DEFAULT_LAUNCHES

        return 1 if self.run.does == PROFILE else self.run.given["launches"] or DEFAULT_LAUNCHES

    @property
    def timeout_s(self) -> float:
        from netpipe.applications.session import DEFAULT_TIMEOUT_S

        return self.run.given["timeout"] or DEFAULT_TIMEOUT_S

    def measure(self, folder: Path, quiet: bool) -> Done:
        return self._profile(folder, quiet) if self.run.does == PROFILE else self._time(folder, quiet)

    # --------------------------------------------------------------------------------------------------- times

    def _time(self, folder: Path, quiet: bool) -> Done:
        from netpipe import version
        from netpipe.applications.session import run
        from netpipe.cli.apps import progress_text, show_results
        from netpipe.kernels.lines import Header
        from netpipe.launch.interrupt import Interrupt

        assert self.tasks is not None
        header = Header(
            schema=0,
            netpipe=version(),
            started=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            command=["netpipe", "suite", self.run.name],
        )
        with Interrupt() as interrupt, _line(quiet) as show:
            try:
                outcome = run(
                    self.tasks,
                    self.launches,
                    folder / f"{self.run.name}.jsonl",
                    header,
                    self.timeout_s,
                    lambda progress: show(progress_text(progress)),
                    lambda: interrupt.count > 0,
                )
            except Failure as failure:
                return Done(failure.exit_code, failure.sentence)
        if not quiet:
            show_results(outcome, header.processors, as_json=False, quiet=False)
        if outcome.output is None:
            return Done(outcome.exit_code or FAILED, "no kernel ran")
        return self._read(outcome.output, outcome.exit_code)

    def _read(self, path: Path, code: int) -> Done:
        """Raises NotApplications or OSError."""
        from netpipe.kernels import read
        from netpipe.kernels.table import rows
        from netpipe.render.terminal.apps import failures

        results = read(path).results
        found = rows(results)
        if not any(row.seconds for row in found):
            return Done(code or FAILED, "; ".join(failures(found)) or "no kernel ran", files=(path.name,))
        return Done(code, errors=tuple(failures(found)), files=(path.name,), rows=found, results=results)

    # ------------------------------------------------------------------------------------------------ messages

    def _name(self, task: Task) -> str:
        cell = task.cell
        return f"{self.run.name}.{cell.name}-{cell.problem}-on-{cell.ranks}.jsonl"

    def _profile(self, folder: Path, quiet: bool) -> Done:
        """Each kernel once; one that is there already, whole and of the same command, is kept."""
        from netpipe.launch.interrupt import Interrupt
        from netpipe.units import counted

        assert self.tasks is not None
        done = Done()
        errors: list[str] = []
        with Interrupt() as interrupt, _line(quiet) as show:
            for number, task in enumerate(self.tasks.tasks):
                target = folder / self._name(task)
                if self.goes_on and self._kept(target):
                    continue
                if target.exists():
                    target.rename(target.with_name(f"{target.stem}.{time.time_ns()}{target.suffix}"))
                show(f"{number} of {counted(len(self.tasks.tasks), 'profile')} done: {task.cell.text}")
                why = _profile_one(task, target, self.timeout_s, lambda: interrupt.count > 0)
                if interrupt.count:
                    return Done(INTERRUPTED, "interrupted")
                if why:
                    errors.append(f"{task.cell.text}: {why}")
        self._add_profiles(folder, done)
        done.errors = tuple(errors)
        done.code = FAILED if errors else DONE
        if not done.profiles:
            done.problem = "; ".join(errors) or "no kernel ran"
        return done

    def _kept(self, path: Path) -> bool:
        from netpipe.profiles import NotAProfile, read

        try:
            whole = read(path)
        except (NotAProfile, OSError):
            return False
        return (
            whole.end is not None and whole.end.exit_code == 0 and all(one.seconds > 0 for one in whole.ranks)
        )

    def _add_profiles(self, folder: Path, done: Done) -> None:
        from netpipe.profiles import NotAProfile, read
        from netpipe.profiles.tables import NotThere, tables

        assert self.tasks is not None
        files = []
        for task in self.tasks.tasks:
            path = folder / self._name(task)
            try:
                # As in the paper: two processes on each host, where all are on this one.
                made = tables(read(path), None, self.per_host(task.cell.ranks))
            except (NotAProfile, NotThere, OSError):
                continue
            done.profiles[label(task.cell.name, task.cell.problem)] = made
            files.append(path.name)
        done.files = tuple(files)

    def per_host(self, ranks: int) -> int | None:
        """How many consecutive ranks table 6 takes for one host: two, as in the paper; None of fewer than four."""
        return 2 if ranks >= 4 else None

    def found(self, folder: Path) -> Done | None:
        from netpipe.kernels import NotApplications

        if self.tasks is None:
            return None
        if self.run.does == PROFILE:
            if not all(self._kept(folder / self._name(task)) for task in self.tasks.tasks):
                return None
            done = Done()
            self._add_profiles(folder, done)
            return done
        path = folder / f"{self.run.name}.jsonl"
        try:
            from netpipe.kernels import read

            end = read(path).end
            return self._read(path, DONE) if end is not None and end.exit_code == DONE else None
        except (NotApplications, OSError):
            return None


@contextlib.contextmanager
def _line(quiet: bool) -> Iterator[Callable[[str], None]]:
    """One line of progress on standard error."""
    from netpipe.render.terminal.apps import Line
    from netpipe.render.terminal.rows import console

    line = Line(console(sys.stderr), say)
    show: Callable[[str], None] = (lambda _: None) if quiet else line.show
    try:
        yield show
    finally:
        line.close()


def _profile_one(task: Task, target: Path, limit_s: float, given_up: Callable[[], bool]) -> str:
    """Why there is no profile; empty if there is one. The command is ended with all that it started."""
    from netpipe.applications.running import by_hand

    words = shlex.split(by_hand(task))
    environment = dict(os.environ)
    if words[0] == "env":
        del words[0]
        while "=" in words[0]:
            name, _, value = words.pop(0).partition("=")
            environment[name] = value
    command = [
        sys.executable,
        "-m",
        "netpipe",
        "profile",
        "--no-trace",
        "-q",
        "-o",
        str(target),
        "--",
        *words,
    ]
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    late = False
    try:
        text = _until(process, limit_s, given_up)
    except subprocess.TimeoutExpired:
        late = True
        text = b""
    finally:
        end(process)
    if late:
        return f"it did not end within {limit_s:g} s; timeout gives it more"
    if process.returncode != 0:
        said = " ".join(text.decode(errors="replace").split())[-KEPT:]
        return f"it ended with exit code {process.returncode}: {said}"
    return ""


def _until(process: subprocess.Popen[bytes], limit_s: float, given_up: Callable[[], bool]) -> bytes:
    """What it printed. Raises TimeoutExpired."""
    deadline = time.monotonic() + limit_s
    while True:
        try:
            return process.communicate(timeout=0.5)[0]
        except subprocess.TimeoutExpired:
            if given_up():
                return b""
            if time.monotonic() > deadline:
                raise


def end(process: subprocess.Popen[bytes]) -> None:
    """With all of its session, if it still runs."""
    if process.poll() is not None:
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=END_S)
            return


def planned(run: Part, site: Site, build: bool = True) -> Kernels:
    """Without `build` nothing is compiled. Raises Failure (2) where the file is wrong about the kernels."""
    from netpipe.applications.plan import plan
    from netpipe.cli.apps import request_of
    from netpipe.launch.jobs import settings
    from netpipe.libraries.starting.hosts import parse

    given = run.given
    if not given["kernels"]:
        raise fault(run, Failure(2, 'kernels is missing; write kernels = ["is", "cg"], or "all"'))
    if site.hosts is not None and run.does == PROFILE:
        return Kernels(run, None, f"the kernels are profiled on this host alone, not on {site.hosts}")
    hosts = parse(site.hosts)
    try:
        request = request_of(
            {**given, "mapping": given["mapping"] if hosts.given else None},
            settings(hosts, site.launcher, None, site.remote_shell),
        )
        return Kernels(run, plan(request, build=build))
    except Failure as failure:
        if failure.exit_code == UNAVAILABLE or isinstance(failure, NotHere):
            return Kernels(run, None, failure.sentence)
        raise fault(run, failure) from None
