# SPDX-License-Identifier: Apache-2.0
"""Answers the worker's `launch` events: starts a library's launcher, watches it, and ends it.

The ranks find the worker by three variables in their environment; what they do then is not known here. If a launcher
ends before it was told to, the worker hears why in one sentence.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from netpipe import native
from netpipe.events import Launch
from netpipe.failure import FAILED, INTERRUPTED, UNAVAILABLE, USAGE, Failure
from netpipe.libraries import Command, Job, Launcher, check_choice, find_launcher
from netpipe.libraries.adding.added import lost
from netpipe.libraries.daemons import HERE, Daemons, Site
from netpipe.libraries.srun import Srun
from netpipe.libraries.starting.condense import condense, hopeless
from netpipe.libraries.starting.description import Description, find
from netpipe.libraries.starting.hosts import Hosts, parse
from netpipe.libraries.starting.own import SSH, Ssh, own, wants_srun
from netpipe.libraries.starting.processes import end_all_with, remove_unused, shared_memory
from netpipe.libraries.starting.scratch import Scratch, noted, remove_dead

LEAVE_S = 2.0  # launchers may take to end by themselves
END_S = 5.0  # and after SIGTERM: mpirun of Open MPI 4 takes just over two seconds with other hosts
FOLDERS = "netpipe-jobs-"  # how the scratch folders of runs begin
MOST_READS = 16  # of 64 KiB, a full pipe, before something else has its turn
KEPT_HEAD, KEPT_TAIL = 1 << 14, 1 << 14  # bytes kept of a launcher's output: its reason comes first or last

Report = Callable[[int, str], None]  # the number of a job that failed, and why in one sentence


@dataclass(frozen=True, slots=True)
class Settings:
    """How the user wants jobs to be launched."""

    hosts: Hosts = field(default_factory=Hosts)
    launcher: str | None = None  # instead of the library's own
    arguments: tuple[str, ...] = ()  # more of its arguments
    remote_shell: tuple[str, ...] = ()  # reaches other hosts; empty: the launcher's default
    own_by: str = "ssh"  # or srun: what starts netpipe's own layers on the hosts
    address: str = ""  # of this host, that processes on the hosts connect to; empty: all hosts are this one


def settings(
    hosts: Hosts, launcher: str | None, arguments: str | None, remote_shell: str | None, address: str = ""
) -> Settings:
    """From the texts of the command line. Raises Failure (2)."""
    check_choice(launcher)
    shell = _words("--remote-shell", remote_shell)
    own_by = "srun" if wants_srun(launcher, shell) else "ssh"
    if launcher == "ssh" and not shell:
        shell = SSH
    return Settings(hosts, launcher, _words("--launcher-args", arguments), shell, own_by, address)


def parse_hosts(text: str | None, ranks: str | None) -> Hosts:
    """From `--hosts` and `--ranks` as they were written. The worker refuses ranks that are not a number."""
    return parse(text, int(ranks) if ranks is not None and ranks.isdecimal() and len(ranks) < 19 else None)


def _words(option: str, text: str | None) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text or ""))
    except ValueError as error:
        raise Failure(USAGE, f"{option}: {str(error).lower()} in {text!r}") from None


def remote_shell_in(folder: Path, words: tuple[str, ...]) -> Path:
    """A script in this folder that reaches other hosts, because not every launcher takes a command with options."""
    path = folder / "remote-shell"
    if not path.exists():
        path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        path.chmod(0o755)
    return path


class Launchers:
    """What the workers of one run and their jobs share: the user's settings, one launcher per module, a scratch folder,
    and daemons that are booted once. Use it as a context manager around the run.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        program: tuple[str, ...] | None = None,
        describe: Callable[[str], Description] = find,
    ) -> None:
        self.settings = settings or Settings()
        self._program = program  # None: the worker, found when it is needed
        self._describe = describe
        self._launchers: dict[str, tuple[Description, Launcher]] = {}
        self._booted: set[str] = set()
        self._sound: set[str] = set()  # modules that can be loaded, as far as was looked
        self._folder: Scratch | None = None
        self._jobs: dict[str, Path] = {}  # the folder of each job, by its secret
        self.daemons = Daemons()  # of layers whose ranks netpipe starts itself

    def __enter__(self) -> Launchers:
        remove_dead(FOLDERS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for _, launcher in self._launchers.values():
            launcher.halt()
        self._launchers.clear()
        self._booted.clear()
        self.daemons.close()
        if self._folder is not None:
            self._folder.close()
            self._folder = None

    def program(self) -> tuple[str, ...]:
        """The command line of each rank."""
        return self._program or (str(native.worker()), "join")

    def start_daemons(self, layers: Iterable[str], given_up: Callable[[], bool]) -> Mapping[str, str]:
        """Starts the daemons that these layers need, on all hosts. Returns the environment of a worker that opens these
        layers. Raises Failure.
        """
        site = Site(
            self.settings.hosts.names,
            self.settings.address,
            self._remote_shell() if self.settings.hosts.given else None,
            self.settings.own_by != "srun",
        )
        return self.daemons.start(layers, given_up, site)

    def check_all(self, modules: Iterable[str]) -> None:
        """`check` of each of these that a launcher starts. Raises Failure."""
        for module in dict.fromkeys(one for one in modules if "@" in one):
            self.check(module)

    def check(self, module: str) -> None:
        """Whether everything that jobs of this module need is here. Raises Failure that says what is missing."""
        description, launcher = self._of(module)
        launcher.check(description, self.program())
        if module in self._sound:
            return
        if (why := lost(description)) is not None:
            raise Failure(UNAVAILABLE, f"{module} cannot be measured: {why}")
        self._sound.add(module)

    def commands(self, event: Launch, given_up: Callable[[], bool]) -> tuple[Command, ...]:
        """The commands that start this job; boots the daemons that it needs. Raises Failure."""
        self.check(event.module)
        description, launcher = self._of(event.module)
        scratch = self._scratch(f"job-{len(self._jobs) + 1}")
        self._jobs[event.secret] = scratch
        variables = {
            **description.environment,
            "NETPIPE_JOIN": event.join,
            "NETPIPE_JOB": str(event.job),
            "NETPIPE_JOIN_SECRET": event.secret,
            "NETPIPE_JOB_FOLDER": str(scratch),
        }
        if not self.settings.hosts.given:  # what a killed launcher leaves there goes with the folder
            variables["TMPDIR"] = str(scratch)
        of_host: dict[str, Mapping[str, str]] = {}
        if not event.module:
            variables |= self.daemons.variables(HERE)
            of_host = {host: self.daemons.variables(host) for host in self.settings.hosts.names}
        job = Job(
            description=description,
            program=self.program(),
            ranks=event.ranks,
            hosts=self.settings.hosts.spread(event.ranks),
            variables=variables,
            # For mpirun they mean nothing to the srun that starts our own layers.
            extra=self.settings.arguments if event.module or self.settings.launcher == "srun" else (),
            remote_shell=self._remote_shell(),
            scratch=scratch,
            of_host=of_host,
        )
        if event.module not in self._booted:
            launcher.boot(job, given_up)
            self._booted.add(event.module)
        return launcher.commands(job)

    def memory_of(self, secret: str) -> set[Path]:
        """Shared memory of the job with this secret: what its ranks have mapped now, and what they said when they were
        ready to measure, which is all that is known of dead ones.
        """
        return shared_memory(secret) | (noted(self._jobs[secret]) if secret in self._jobs else set())

    def _of(self, module: str) -> tuple[Description, Launcher]:
        if module not in self._launchers:
            description = self._describe(module) if module else own(Path(self.program()[0]))
            kind: type[Launcher]
            if module:
                kind = find_launcher(description, self.settings.launcher)
            else:
                kind = Srun if self.settings.own_by == "srun" else Ssh
            same = next((one for _, one in self._launchers.values() if type(one) is kind), None)
            self._launchers[module] = (description, same if same and kind.shared else kind())
        return self._launchers[module]

    def _scratch(self, name: str) -> Path:
        if self._folder is None:
            self._folder = Scratch(FOLDERS)
            self._folder.path.chmod(0o755)  # LAM runs as another user; no secret is ever written here
        path = self._folder.path / name
        path.mkdir(exist_ok=True)
        path.chmod(0o755)
        return path

    def _remote_shell(self) -> Path | None:
        words = self.settings.remote_shell
        return remote_shell_in(self._scratch("bin"), words) if words else None


@dataclass(slots=True, eq=False)
class _Running:
    """A launcher that runs; of one job there may be one for each host."""

    job: int
    name: str  # in sentences
    secret: str
    program: str  # that it starts
    process: subprocess.Popen[bytes]
    pidfd: int
    shell: bool  # a remote one, which may be a script that waits for ssh: its whole group is told to end
    head: bytes = b""
    tail: bytes = b""
    kill_at: float | None = None  # it was told to end, and is killed at this time

    def keep(self, chunk: bytes) -> None:
        room = KEPT_HEAD - len(self.head)
        self.head += chunk[:room]
        self.tail = (self.tail + chunk[max(room, 0) :])[-KEPT_TAIL:]

    def output(self) -> str:
        return (self.head + self.tail).decode(errors="replace")


class Jobs:
    """The jobs of one worker. `fileno` is readable when `attend` has something to do."""

    def __init__(self, launchers: Launchers, interrupts: Callable[[], int] = lambda: 0) -> None:
        self._launchers = launchers
        self._interrupts = interrupts
        self._selector = selectors.EpollSelector()
        self._running: list[_Running] = []
        # Shared memory of the ranks of each job, removed with its last launcher. Looking for it reads what all
        # processes of this host have mapped, so it is done once for a job, and not for each of its hosts.
        self._memory: dict[int, set[Path]] = {}
        self._closed = False

    def fileno(self) -> int:
        return self._selector.fileno()

    def wait_s(self) -> float:
        """Seconds until `attend` must be called even if nothing becomes readable."""
        ends = [one.kill_at for one in self._running if one.kill_at is not None]
        return max(0.0, min(ends) - time.monotonic()) if ends else float("inf")

    def launch(self, event: Launch, report: Report) -> None:
        """Starts a job, or reports why it cannot."""
        try:
            if any(one.job == event.job for one in self._running):
                raise Failure(FAILED, f"job {event.job} is running already")
            if self._interrupts():
                raise Failure(INTERRUPTED, "interrupted before it was launched")
            for command in self._launchers.commands(event, lambda: self._interrupts() > 0):
                self._start(event, command)
        except Failure as failure:
            report(event.job, one_line(failure.sentence))

    def _start(self, event: Launch, command: Command) -> None:
        process = command.popen(subprocess.DEVNULL, subprocess.PIPE)
        pidfd = os.pidfd_open(process.pid)
        name = command.name or f"{Path(command.argv[0]).name} of {event.module or 'netpipe'}"
        running = _Running(
            event.job, name, event.secret, self._launchers.program()[0], process, pidfd, bool(command.said)
        )
        self._running.append(running)
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        self._selector.register(process.stdout.fileno(), selectors.EVENT_READ, running)
        self._selector.register(running.pidfd, selectors.EVENT_READ, running)

    def attend(self, report: Report) -> None:
        """Reads what launchers have written, and reports those that ended before they were told to. Only those of which
        there is something new are looked at: there may be one for each of many hosts.
        """
        heard: dict[_Running, None] = {}
        for key, _ in self._selector.select(0):
            running: _Running = key.data
            heard[running] = None
            if key.fd != running.pidfd:
                self._read(running)
        for running in heard:
            if running.process.poll() is not None:
                asked = running.kill_at is not None
                self._forget(running)
                if not asked:
                    report(running.job, ended(running))
            elif running.kill_at is None and (why := hopeless(running.output())):
                report(running.job, one_line(f"{running.name}: {why}"))
                self._end(running)
        now = time.monotonic()
        for running in [one for one in self._running if one.kill_at is not None and now >= one.kill_at]:
            self._signal(running, signal.SIGKILL)
            self._forget(running)

    def stop(self, job: int) -> None:
        """Tells the launchers of a job to end, without waiting for them."""
        for running in self._running:
            if running.job == job and running.kill_at is None:
                self._end(running)

    def close(self, leave_s: float = LEAVE_S) -> None:
        """Ends all that are left, after `leave_s` in which they may end by themselves. After one interrupt it waits
        less, after two not at all.
        """
        if self._closed:
            return
        self._closed = True
        for running in self._running:
            self._note_memory(running)
        try:
            self._wait(min(leave_s, 0.2) if self._interrupts() else leave_s)
            for running in self._running:
                if running.kill_at is None:
                    self._end(running)
            self._wait(END_S)
        finally:
            for running in list(self._running):
                self._signal(running, signal.SIGKILL)
                self._forget(running)
            self._selector.close()

    # ------------------------------------------------------------------------------------------- inside

    def _read(self, running: _Running) -> None:
        """Reads what is there, of one that never stops writing a part at a time. A daemon may hold the pipe open, so
        nobody waits for its end.
        """
        stream = running.process.stdout
        assert stream is not None
        for _ in range(MOST_READS):
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
            running.keep(chunk)

    def _wait(self, seconds: float) -> None:
        """Until all have ended, or this long."""
        deadline = time.monotonic() + seconds
        while self._running and (left := deadline - time.monotonic()) > 0 and self._interrupts() < 2:
            self._selector.select(min(left, 0.2, max(self.wait_s(), 0.001)))
            self.attend(lambda _job, _sentence: None)

    def _end(self, running: _Running) -> None:
        """Asks a launcher alone: it knows where its ranks are, and needs its helpers to end them."""
        running.kill_at = time.monotonic() + END_S
        self._note_memory(running)
        if running.shell:
            self._signal(running, signal.SIGTERM)
        else:
            running.process.terminate()

    def _note_memory(self, running: _Running) -> None:
        """Before the first of its job is told to end, or where that ended by itself: ranks are still there."""
        if running.job not in self._memory:
            self._memory[running.job] = self._launchers.memory_of(running.secret)

    def _signal(self, running: _Running, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(running.process.pid, number)

    def _forget(self, running: _Running) -> None:
        """It has ended or was just killed: ends what is left of its job, once the last of its launchers has."""
        running.process.wait()
        self._running.remove(running)
        self._note_memory(running)
        if not any(other.job == running.job for other in self._running):
            memory = self._memory.pop(running.job) | self._launchers.memory_of(running.secret)
            end_all_with(running.secret)
            remove_unused(memory)
        self._read(running)
        assert running.process.stdout is not None
        with contextlib.suppress(KeyError):
            self._selector.unregister(running.process.stdout.fileno())
        self._selector.unregister(running.pidfd)
        os.close(running.pidfd)
        running.process.stdout.close()


def ended(running: _Running) -> str:
    """The sentence about a launcher that has ended."""
    code = running.process.returncode
    if code < 0:
        try:
            how = f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            how = f"was killed by signal {-code}"
    else:
        how = f"ended with exit code {code}"
    words = condense(running.output())
    sentence = f"{running.name} {how}" + (f": {words}" if words else " and said nothing")
    # A launcher may end before it says so itself.
    if not Path(running.program).exists() and running.program not in words:
        sentence += f"; {running.program}, which it was to start, does not exist on this host"
    return one_line(sentence)


def one_line(sentence: str) -> str:
    """In the form that the worker reads."""
    return " ".join(sentence.split())
