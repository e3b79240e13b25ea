# SPDX-License-Identifier: Apache-2.0
"""Answers the worker's `launch` events: starts the launcher of an MPI library, hears how it fares, and ends it.

The processes that it starts find the worker by three variables in their environment and do what it says; nothing of
that is known here. What ends without having been asked to is told to the worker in a sentence.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from netpipe import native
from netpipe.failure import FAILED, INTERRUPTED, USAGE, Failure
from netpipe.launch.condense import condense, hopeless
from netpipe.launch.description import Description, find
from netpipe.launch.events import Launch
from netpipe.launch.hosts import Hosts, parse
from netpipe.launch.processes import end_all_with, remove_unused, shared_memory
from netpipe.libraries import CHOICES, Family, Start, Task, families
from netpipe.libraries import find as find_family

LEAVE_S = 2.0  # that launchers get to leave by themselves
END_S = 5.0  # and after SIGTERM: mpirun of Open MPI 4 takes just over two seconds with other hosts
KEPT_HEAD, KEPT_TAIL = 1 << 14, 1 << 14  # of what a launcher writes: its reason comes first or last

Tell = Callable[[int, str], None]  # the job and a sentence: it has failed


@dataclass(frozen=True, slots=True)
class Settings:
    """How the user wants jobs to be launched."""

    hosts: Hosts = field(default_factory=Hosts)
    launcher: str | None = None  # in the place of the library's own
    arguments: tuple[str, ...] = ()  # more of it
    remote_shell: tuple[str, ...] = ()  # what reaches other hosts; none: the launcher's own choice


def settings(hosts: Hosts, launcher: str | None, arguments: str | None, remote_shell: str | None) -> Settings:
    """From the texts of the command line. Raises Failure (2)."""
    families()
    if launcher is not None and launcher not in CHOICES:
        raise Failure(
            USAGE, f"there is no launcher '{launcher}'; there are {', '.join(CHOICES)} and each library's own"
        )
    shell = _words("--remote-shell", remote_shell)
    if launcher == "ssh" and not shell:
        shell = ("ssh", "-o", "BatchMode=yes")  # nobody is there to be asked for a password
    return Settings(hosts, launcher, _words("--launcher-args", arguments), shell)


def parse_hosts(text: str | None, ranks: str | None) -> Hosts:
    """Those of `--hosts` and `--ranks`, as they were written. What is no number is the worker's to refuse."""
    return parse(text, int(ranks) if ranks is not None and ranks.isdecimal() else None)


def _words(option: str, text: str | None) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text or ""))
    except ValueError as error:
        raise Failure(USAGE, f"{option}: {str(error).lower()} in {text!r}") from None


class Site:
    """What the jobs of one run share: the user's settings, a folder for what launchers read, and daemons that are
    booted once. Enter it around the run.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        program: tuple[str, ...] | None = None,
        describe: Callable[[str], Description] = find,
    ) -> None:
        self.settings = settings or Settings()
        self._program = program  # None: the worker, which is looked for when it is needed
        self._describe = describe
        self._families: dict[str, tuple[Description, Family]] = {}
        self._booted: set[str] = set()
        self._folder: Path | None = None
        self._jobs = 0

    def __enter__(self) -> Site:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for _, family in self._families.values():
            family.halt()
        self._families.clear()
        self._booted.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def program(self) -> tuple[str, ...]:
        """What each rank is, with its words."""
        return self._program or (str(native.worker()), "join")

    def check(self, module: str) -> None:
        """Is there everything that jobs of this module need? Raises Failure with the sentence that says what is not."""
        description, family = self._of(module)
        family.check(description, self.program())

    def start(self, event: Launch, given_up: Callable[[], bool]) -> Start:
        """What starts this job. Daemons that it needs are booted here. Raises Failure."""
        self.check(event.module)
        description, family = self._of(event.module)
        self._jobs += 1
        variables = {
            **description.environment,
            "NETPIPE_JOIN": event.join,
            "NETPIPE_JOB": str(event.job),
            "NETPIPE_JOIN_SECRET": event.secret,
        }
        scratch = self._scratch(f"job-{self._jobs}")
        if not self.settings.hosts.given:  # what a launcher that is killed leaves there goes with the folder
            variables["TMPDIR"] = str(scratch)
        task = Task(
            description=description,
            program=self.program(),
            ranks=event.ranks,
            hosts=self.settings.hosts.spread(event.ranks),
            variables=variables,
            extra=self.settings.arguments,
            remote_shell=self._remote_shell(),
            scratch=scratch,
        )
        if event.module not in self._booted:
            family.boot(task, given_up)
            self._booted.add(event.module)
        return family.command(task)

    def _of(self, module: str) -> tuple[Description, Family]:
        if module not in self._families:
            description = self._describe(module)
            kind = find_family(description, self.settings.launcher)
            alike = next((family for _, family in self._families.values() if type(family) is kind), None)
            self._families[module] = (description, alike if alike and kind.shared else kind())
        return self._families[module]

    def _scratch(self, name: str) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="netpipe-"))
            self._folder.chmod(0o755)  # LAM runs as another user; no secret is ever in it
        path = self._folder / name
        path.mkdir(exist_ok=True)
        path.chmod(0o755)
        return path

    def _remote_shell(self) -> Path | None:
        """One program, because not every launcher takes a command with options."""
        if not self.settings.remote_shell:
            return None
        path = self._scratch("bin") / "remote-shell"
        if not path.exists():
            path.write_text(f'#!/bin/sh\nexec {shlex.join(self.settings.remote_shell)} "$@"\n')
            path.chmod(0o755)
        return path


@dataclass(slots=True)
class _Running:
    """A launcher that was started."""

    job: int
    module: str
    secret: str
    program: str  # what it starts
    process: subprocess.Popen[bytes]
    pidfd: int
    head: bytes = b""
    tail: bytes = b""
    memory: set[Path] = field(default_factory=set)  # shared memory of its ranks, to be removed with them
    kill_at: float | None = None  # it was told to end, and is killed then

    def take(self, chunk: bytes) -> None:
        room = KEPT_HEAD - len(self.head)
        self.head += chunk[:room]
        self.tail = (self.tail + chunk[max(room, 0) :])[-KEPT_TAIL:]

    def said(self) -> str:
        return (self.head + self.tail).decode(errors="replace")


class Jobs:
    """Those of one worker. `fileno` is readable when there is something to `attend` to."""

    def __init__(self, site: Site, interrupts: Callable[[], int] = lambda: 0) -> None:
        self._site = site
        self._interrupts = interrupts
        self._selector = selectors.EpollSelector()
        self._running: dict[int, _Running] = {}
        self._closed = False

    def fileno(self) -> int:
        return self._selector.fileno()

    def wait_s(self) -> float:
        """How long until something is to be done even if nothing happens."""
        ends = [one.kill_at for one in self._running.values() if one.kill_at is not None]
        return max(0.0, min(ends) - time.monotonic()) if ends else float("inf")

    def launch(self, event: Launch, tell: Tell) -> None:
        """Starts a job, or tells why it cannot be."""
        try:
            if event.job in self._running:
                raise Failure(FAILED, f"job {event.job} is running already")
            if self._interrupts():
                raise Failure(INTERRUPTED, "interrupted before it was launched")
            start = self._site.start(event, lambda: self._interrupts() > 0)
            process = start.popen(subprocess.DEVNULL, subprocess.PIPE)
        except Failure as failure:
            tell(event.job, one_line(failure.sentence))
            return
        pidfd = os.pidfd_open(process.pid)
        running = _Running(event.job, event.module, event.secret, self._site.program()[0], process, pidfd)
        self._running[event.job] = running
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        self._selector.register(process.stdout.fileno(), selectors.EVENT_READ, running)
        self._selector.register(running.pidfd, selectors.EVENT_READ, running)

    def attend(self, tell: Tell) -> None:
        """Reads what launchers have written, and tells of those that have ended unasked."""
        for key, _ in self._selector.select(0):
            running: _Running = key.data
            if key.fd != running.pidfd:
                self._read(running)
        for running in list(self._running.values()):
            if running.process.poll() is not None:
                asked = running.kill_at is not None
                self._bury(running)
                if not asked:
                    tell(running.job, ended(running))
            elif running.kill_at is None and (why := hopeless(running.said())):
                tell(running.job, one_line(f"{launcher_of(running)}: {why}"))
                self._end(running)
            elif running.kill_at is not None and time.monotonic() >= running.kill_at:
                self._kill(running)
                self._bury(running)

    def stop(self, job: int) -> None:
        """Ends a launcher whose job is over, without waiting for it."""
        running = self._running.get(job)
        if running is not None and running.kill_at is None:
            self._end(running)

    def close(self, leave_s: float = LEAVE_S) -> None:
        """Ends all that are left, after `leave_s` in which they may leave by themselves, and forgets them. Who has
        interrupted waits less, and who has done so twice for nothing.
        """
        if self._closed:
            return
        self._closed = True
        for running in self._running.values():
            running.memory |= shared_memory(running.secret)
        try:
            self._wait(min(leave_s, 0.2) if self._interrupts() else leave_s)
            for running in self._running.values():
                if running.kill_at is None:
                    self._end(running)
            self._wait(END_S)
        finally:
            for running in list(self._running.values()):
                self._kill(running)
                self._bury(running)
            self._selector.close()

    # ------------------------------------------------------------------------------------------- inside

    def _read(self, running: _Running) -> None:
        """All that is there. A daemon that it left may hold the pipe open, so nobody waits for its end."""
        stream = running.process.stdout
        assert stream is not None
        while True:
            try:
                chunk = os.read(stream.fileno(), 1 << 16)
            except BlockingIOError:
                return
            except OSError:
                chunk = b""
            if not chunk:
                with contextlib.suppress(KeyError):
                    self._selector.unregister(stream.fileno())
                return
            running.take(chunk)

    def _wait(self, seconds: float) -> None:
        """Until all have ended, for so long."""
        deadline = time.monotonic() + seconds
        while self._running and (left := deadline - time.monotonic()) > 0 and self._interrupts() < 2:
            self._selector.select(min(left, 0.2, max(self.wait_s(), 0.001)))
            self.attend(lambda _job, _sentence: None)

    def _end(self, running: _Running) -> None:
        """The launcher alone is asked: it knows where its ranks are, and its helpers are needed to end them."""
        running.kill_at = time.monotonic() + END_S
        running.memory |= shared_memory(running.secret)
        running.process.terminate()

    def _kill(self, running: _Running) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(running.process.pid, signal.SIGKILL)

    def _bury(self, running: _Running) -> None:
        """It has gone or was just killed: what is left of its job goes too."""
        running.process.wait()
        running.memory |= shared_memory(running.secret)
        end_all_with(running.secret)
        remove_unused(running.memory)
        self._read(running)
        assert running.process.stdout is not None
        with contextlib.suppress(KeyError):
            self._selector.unregister(running.process.stdout.fileno())
        self._selector.unregister(running.pidfd)
        os.close(running.pidfd)
        running.process.stdout.close()
        del self._running[running.job]


def ended(running: _Running) -> str:
    """The sentence for a launcher that has gone."""
    code = running.process.returncode
    if code < 0:
        try:
            how = f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            how = f"was killed by signal {-code}"
    else:
        how = f"ended with exit code {code}"
    words = condense(running.said())
    sentence = f"{launcher_of(running)} {how}" + (f": {words}" if words else " and said nothing")
    # A launcher may die before it says so.
    if not Path(running.program).exists() and running.program not in words:
        sentence += f"; {running.program}, which it was to start, is not on this host"
    return one_line(sentence)


def launcher_of(running: _Running) -> str:
    return f"{Path(str(running.process.args[0])).name} of {running.module}"  # type: ignore[index]


def one_line(sentence: str) -> str:
    """As the worker can read it."""
    return " ".join(sentence.split())
