# SPDX-License-Identifier: Apache-2.0
"""One worker process: its plan goes in, its events come out, and whatever it does, it comes to an end.

The worker has a session of its own, so that a Ctrl-C on the terminal comes to us alone and is handed on in order. It
does nothing while it waits for "go": what we do between passes disturbs no measurement.
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

from netpipe.failure import FAILED, INTERRUPTED, UNAVAILABLE, Failure
from netpipe.launch import Command
from netpipe.launch.events import AnyEvent, Ended, Launch, Pass, Ready, Stop, decode
from netpipe.launch.interrupt import Interrupt
from netpipe.launch.jobs import LEAVE_S, Jobs, Launchers
from netpipe.native import how_it_ended, said

STOP_S = 5.0  # that an interrupted worker gets to write what it has, and one that said its end to leave
DRAIN_S = 0.5  # that pipes get to run empty once the worker has gone; a child of it may hold them open
LONGEST_LINE = 1 << 20
KEPT_STDERR = 1 << 16


class Worker:
    """`turn` until `exit_code` is known. `sentence` then says what went wrong, if anything did; `died` that the worker
    ended and did not say why.
    """

    def __init__(
        self,
        command: Command,
        plan: str,
        silence_s: float,
        interrupt: Interrupt,
        launchers: Launchers | None = None,
    ) -> None:
        self._command = command
        self._plan = plan
        self._allowed_s = (
            silence_s  # how long it may say nothing; `ready` adds the time that its budget takes
        )
        self._interrupt = interrupt
        self._jobs = Jobs(launchers or Launchers(), lambda: interrupt.count)
        self._process: subprocess.Popen[bytes] | None = None
        self._selector = selectors.DefaultSelector()
        self._pipes: set[int] = set()  # that are still open
        self._line = b""
        self._events: deque[AnyEvent] = deque()
        self._stderr = b""
        self._interrupted = False  # SIGINT was handed on
        self._killed: str | None = None  # why it was killed
        self._said_exit: int | None = None
        self._gone = False
        self.exit_code: int | None = None
        self.sentence: str | None = None
        self.died = False

    def run(self, on_event: Callable[[AnyEvent], None]) -> None:
        """From its start to its end, whatever happens here."""
        try:
            while self.exit_code is None:
                self.turn(on_event)
        finally:
            self.close()

    def turn(self, on_event: Callable[[AnyEvent], None]) -> None:
        """Starts the worker or lets it go on, until the end of a pass or its own. Its events go to `on_event`."""
        if self._process is None:
            self._start()
        else:
            self._write(b"go\n")
        deadline = time.monotonic() + self._allowed_s
        while not self._gone:
            if self._interrupt.count > 0 and not self._interrupted:
                self._interrupted = True
                deadline = time.monotonic() + STOP_S
                self._process_or_fail().send_signal(signal.SIGINT)  # the worker tells its ranks itself
            if self._interrupt.count > 1:
                self._kill("it was interrupted twice")
            self._wait(deadline - time.monotonic())
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
                    self._said_exit = event.exit
                if not self._interrupted:
                    wait_s = STOP_S if isinstance(event, Ended) else self._allowed_s
                    deadline = time.monotonic() + wait_s
                if isinstance(event, Pass):
                    if not self._interrupted:
                        return
                    self._write(b"go\n")  # it was about to wait when the signal came
            if not self._gone and time.monotonic() >= deadline:
                self._kill(self._impatience())
                deadline = time.monotonic() + STOP_S
        self._settle()

    def close(self) -> None:
        """Ends the worker if it is still there. Its records stay."""
        if self._process is not None and not self._gone:
            self._kill("the front ended")
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
        self._selector.register(self._pidfd, selectors.EVENT_READ, self._left)
        self._selector.register(self._interrupt.fileno(), selectors.EVENT_READ, self._interrupt.drain)
        self._selector.register(self._jobs.fileno(), selectors.EVENT_READ, self._attend)
        self._write(self._plan.encode())

    def _write(self, text: bytes) -> None:
        stdin = self._process_or_fail().stdin
        assert stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has gone, which is seen elsewhere
            stdin.write(text)
            stdin.flush()

    def _wait(self, seconds: float) -> None:
        """For one thing to happen, and deals with it."""
        for key, _ in self._selector.select(max(0.0, min(seconds, self._jobs.wait_s()))):
            if key.fd not in self._pipes:
                key.data()
            elif chunk := os.read(key.fd, 1 << 16):
                key.data(chunk)
            else:
                self._selector.unregister(key.fd)
                self._pipes.discard(key.fd)
        if self._jobs.wait_s() <= 0:
            self._attend()

    def _attend(self) -> None:
        self._jobs.attend(self._job_failed)

    def _job_failed(self, job: int, sentence: str) -> None:
        if not self._gone:
            self._write(f"failed {job} {sentence}\n".encode())

    def _left(self) -> None:
        self._selector.unregister(self._pidfd)
        os.close(self._pidfd)
        self._gone = True

    def _take_stdout(self, chunk: bytes) -> None:
        *lines, self._line = (self._line + chunk).split(b"\n")
        try:
            if len(self._line) > LONGEST_LINE:
                raise msgspec.DecodeError
            self._events += [event for line in lines if line.strip() and (event := decode(line)) is not None]
        except msgspec.DecodeError:
            instead = b"\n".join([*lines, self._line])[:60].decode(errors="replace")
            self._line = b""
            self._kill(f"it wrote {instead!r} where an event was expected")

    def _take_stderr(self, chunk: bytes) -> None:
        self._stderr = (self._stderr + chunk)[-KEPT_STDERR:]

    def _impatience(self) -> str:
        if self._said_exit is not None:
            return "it did not leave after its end"
        if self._interrupted:
            return f"it did not stop within {STOP_S:.0f} s of the interrupt"
        return f"it said nothing for {self._allowed_s:.0f} s"

    def _kill(self, why: str) -> None:
        """The worker and what it started."""
        self._killed = self._killed or why
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process_or_fail().pid, signal.SIGKILL)

    def _settle(self) -> None:
        """It has gone, or was just killed: hears the rest of what it said, and says how it ended."""
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
                self._said_exit = event.exit
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        if not self._gone:
            self._left()
        self._selector.close()
        self._jobs.close(0 if self._killed else LEAVE_S)  # they leave by themselves when the worker has gone
        words = said(self._stderr.decode(errors="replace"))
        self.sentence = words or None
        if self._said_exit is not None:
            self.exit_code = self._said_exit
            return
        self.died = self._killed is not None or code <= 0 or not words
        if self._killed is not None:
            self.exit_code = INTERRUPTED if self._interrupted else FAILED
            heard = f"; it had said: {words}" if words else ""
            self.sentence = f"netpipe-worker was ended because {self._killed}{heard}"
        elif code > 0 and words:
            self.exit_code = code
        else:
            self.exit_code = code if code > 0 else FAILED
            self.sentence = how_it_ended(code, words)
