# SPDX-License-Identifier: Apache-2.0
"""One worker process: its plan goes in, its events come out, and whatever it does, it comes to an end.

The worker has its own session (setsid), so a Ctrl-C on the terminal reaches this process alone, which passes it on. The
worker does nothing while it waits for "go", so what happens here between passes disturbs no measurement.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable

import msgspec

from netpipe.events import AnyEvent, Ended, Launch, Pass, Ready, Stop, decode
from netpipe.failure import FAILED, INTERRUPTED, UNAVAILABLE, USAGE, Failure
from netpipe.launch import Assignment, Command
from netpipe.launch.interrupt import Interrupt
from netpipe.launch.jobs import LEAVE_S, Jobs, Launchers
from netpipe.native import how_it_ended, said

STOP_S = 5.0  # for an interrupted worker to write what it has, and for one that has announced its end to exit
DRAIN_S = 0.5  # for the pipes to run empty after the worker has ended; a child of it may hold them open
STOPPED_S = 1.0  # a wait that ends so much too late: nothing else is as slow
JOIN_S = 60.0  # that the worker waits for the processes of a job: `joining` of a plan
LONGEST_LINE = 1 << 20
KEPT_STDERR = 1 << 16


class Worker:
    """Call `run`, or `next_pass` until `exit_code` is known. `sentence` then says what went wrong, if anything did;
    `died` is true when the worker ended without saying why.
    """

    def __init__(
        self,
        command: Command,
        assignment: Assignment,
        silence_s: float,
        interrupt: Interrupt,
        launchers: Launchers | None = None,
    ) -> None:
        self._command = command
        self._assignment = assignment
        self._allowed_s = silence_s  # how long it may be silent; `ready` adds the time for its budget
        self._interrupt = interrupt
        self._jobs = Jobs(launchers or Launchers(), lambda: interrupt.count)
        self._process: subprocess.Popen[bytes] | None = None
        self._selector = selectors.DefaultSelector()
        self._pipes: set[int] = set()  # still open
        self._line = b""
        self._events: deque[AnyEvent] = deque()
        self._stderr = b""
        self._interrupted = False  # SIGINT was passed on
        self._killed: str | None = None  # why it was killed
        self._announced_exit: int | None = None
        self._ended = False
        self.exit_code: int | None = None
        self.sentence: str | None = None
        self.died = False

    def run(self, on_event: Callable[[AnyEvent], None]) -> None:
        """From start to end, whatever happens here."""
        try:
            while self.exit_code is None:
                self.next_pass(on_event)
        finally:
            self.close()

    def next_pass(self, on_event: Callable[[AnyEvent], None]) -> None:
        """Starts the worker or lets it continue, until the end of a pass or its own. Its events go to `on_event`."""
        if self._process is None:
            self._start()
        else:
            self._write(b"go\n")
        deadline = time.monotonic() + self._allowed_s
        while not self._ended:
            if self._interrupt.count > 0 and not self._interrupted:
                self._interrupted = True
                deadline = time.monotonic() + STOP_S
                self._process_or_fail().send_signal(signal.SIGINT)  # the worker tells its ranks itself
            if self._interrupt.count > 1:
                self._kill("it was interrupted twice")
            # The last pass and the end come together: what was read with a pass is not waited for again.
            deadline += self._wait(0 if self._events else deadline - time.monotonic())
            while self._events:
                event = self._events.popleft()
                on_event(event)
                if isinstance(event, Launch):
                    self._jobs.launch(event, self._job_failed)
                if isinstance(event, Stop):
                    self._jobs.stop(event.job)
                if isinstance(event, Ready):
                    self._allowed_s += 2 * (event.budget_s or 0)
                if isinstance(event, Ended):
                    self._announced_exit = event.exit
                if not self._interrupted:
                    wait_s = STOP_S if isinstance(event, Ended) else self._allowed_s
                    if isinstance(event, Launch):  # it gives up by itself
                        wait_s += JOIN_S
                    deadline = time.monotonic() + wait_s
                if isinstance(event, Pass):
                    if not self._interrupted:
                        return
                    self._write(b"go\n")  # it was about to wait when the signal arrived
            if not self._ended and time.monotonic() >= deadline:
                self._kill(self._overdue())
                deadline = time.monotonic() + STOP_S
        self._settle()

    def close(self) -> None:
        """Ends the worker if it still runs. Its records stay."""
        if self._process is not None and not self._ended:
            self._kill("netpipe ended")
            self._settle()
        self._jobs.close(0)

    # ------------------------------------------------------------------------------------------- inside

    def _process_or_fail(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def _start(self) -> None:
        try:
            process = subprocess.Popen(
                self._command.argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **self._command.environment},
                start_new_session=True,
                pass_fds=(self._assignment.record,),
            )
        except OSError as error:
            raise Failure(
                UNAVAILABLE, f"{self._command.argv[0]} cannot be started: {error.strerror}"
            ) from None
        self._process = process
        assert process.stdout is not None
        assert process.stderr is not None
        for pipe, take in ((process.stdout, self._take_stdout), (process.stderr, self._take_stderr)):
            self._pipes.add(pipe.fileno())
            self._selector.register(pipe.fileno(), selectors.EVENT_READ, take)
        self._pidfd = os.pidfd_open(process.pid)
        self._selector.register(self._pidfd, selectors.EVENT_READ, self._on_exit)
        self._selector.register(self._interrupt.fileno(), selectors.EVENT_READ, self._interrupt.drain)
        self._selector.register(self._jobs.fileno(), selectors.EVENT_READ, self._attend_jobs)
        self._write(self._assignment.text().encode())

    def _write(self, text: bytes) -> None:
        stdin = self._process_or_fail().stdin
        assert stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, which is noticed elsewhere
            stdin.write(text)
            stdin.flush()

    def _wait(self, seconds: float) -> float:
        """Waits until something happens, and handles it. Returns how much later a deadline has to be: 0, or the whole
        wait where it ended too late. Then this process was stopped, and perhaps the worker with it.
        """
        longest_s = max(0.0, min(seconds, self._jobs.wait_s()))
        began_s = time.monotonic()
        ready = self._selector.select(longest_s)
        waited_s = time.monotonic() - began_s
        for key, _ in ready:
            if key.fd not in self._pipes:
                key.data()
            elif chunk := os.read(key.fd, 1 << 16):
                key.data(chunk)
            else:
                self._selector.unregister(key.fd)
                self._pipes.discard(key.fd)
        if self._jobs.wait_s() <= 0:
            self._attend_jobs()
        return waited_s if waited_s >= longest_s + STOPPED_S else 0.0

    def _attend_jobs(self) -> None:
        self._jobs.attend(self._job_failed)

    def _job_failed(self, job: int, sentence: str) -> None:
        if not self._ended:
            self._write(f"failed {job} {sentence}\n".encode())

    def _on_exit(self) -> None:
        self._selector.unregister(self._pidfd)
        os.close(self._pidfd)
        self._ended = True

    def _take_stdout(self, chunk: bytes) -> None:
        *lines, self._line = (self._line + chunk).split(b"\n")
        try:
            if len(self._line) > LONGEST_LINE:
                raise msgspec.DecodeError
            self._events += [event for line in lines if line.strip() and (event := decode(line)) is not None]
        except msgspec.DecodeError:
            instead = b"\n".join([*lines, self._line])[:60].decode(errors="replace")
            self._line = b""
            self._kill(f"it wrote {instead!r} instead of an event")

    def _take_stderr(self, chunk: bytes) -> None:
        self._stderr = (self._stderr + chunk)[-KEPT_STDERR:]

    def _overdue(self) -> str:
        if self._announced_exit is not None:
            return "it did not exit after it had finished"
        if self._interrupted:
            return f"it did not stop within {STOP_S:.0f} s of the interrupt"
        return f"it sent nothing for {self._allowed_s:.0f} s"

    def _kill(self, why: str) -> None:
        """The worker and what it started."""
        self._killed = self._killed or why
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process_or_fail().pid, signal.SIGKILL)

    def _settle(self) -> None:
        """It has ended, or was just killed: reads the rest of its output, and sets how it ended."""
        process = self._process_or_fail()
        deadline = time.monotonic() + DRAIN_S
        while self._pipes and time.monotonic() < deadline:
            self._wait(deadline - time.monotonic())
        if self._pipes or self._killed:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)  # children that outlived it
        code = process.wait()
        while self._events:
            event = self._events.popleft()
            if isinstance(event, Ended):
                self._announced_exit = event.exit
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        if not self._ended:
            self._on_exit()
        self._selector.close()
        self._jobs.close(0 if self._killed else LEAVE_S)  # they end by themselves after the worker
        words = said(self._stderr.decode(errors="replace"))
        words = words.replace(self._assignment.record_path, self._assignment.record_name)
        self.sentence = words or None
        if self._announced_exit is not None:
            self.exit_code = self._announced_exit
            return
        # A worker says why it ends with one of these. With another code, or in silence, it is a module that ends it.
        told = bool(words) and code in (USAGE, UNAVAILABLE, FAILED, INTERRUPTED)
        self.died = self._killed is not None or not told
        if self._killed is not None:
            self.exit_code = INTERRUPTED if self._interrupted else FAILED
            heard = f"; its last message: {words}" if words else ""
            self.sentence = f"netpipe-worker was killed because {self._killed}{heard}"
        elif told:
            self.exit_code = code
        else:
            self.exit_code = INTERRUPTED if self._interrupted and code == INTERRUPTED else FAILED
            self.sentence = how_it_ended(code, words)
