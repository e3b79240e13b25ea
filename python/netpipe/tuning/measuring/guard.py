# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C of a user, and the deadlines of sessions, which end one as Ctrl-C would."""

from __future__ import annotations

import os
import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any

SETTLE_S = 0.05
AGAIN_S = 0.5  # after Ctrl-C, for a session that began just then


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # that end a run


class Guard:
    """Counts the Ctrl-C of a user between sessions, which have their own way, and never one that a deadline sent. A
    SIGHUP that is ignored stays so (nohup).
    """

    def __init__(self) -> None:
        self.count = 0
        self._sent = 0
        self._closed = False
        self._lock = threading.Lock()
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Guard:
        for number in SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._signalled)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:  # nothing is sent from here on,
            self._closed = True
        time.sleep(SETTLE_S * bool(self._sent))  # and what was sent has arrived
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _signalled(self, _number: int, _frame: FrameType | None) -> None:
        if self._sent:
            self._sent -= 1
            return
        self.count += 1
        # A session may have been about to begin, and would not know of it.
        again = threading.Timer(AGAIN_S, self.send)
        again.daemon = True
        again.start()

    def send(self) -> None:
        """Ends the session that is running."""
        with self._lock:
            if not self._closed:
                self._sent += 1
                os.kill(os.getpid(), signal.SIGINT)

    def arrived(self) -> None:
        """The session has seen what was sent."""
        self._sent = 0


class Deadline:
    """Ends a session when its time is over, as Ctrl-C would."""

    def __init__(self, guard: Guard, seconds: float) -> None:
        self.passed = False
        self._guard = guard
        self._timer = threading.Timer(max(seconds, 0.01), self._pass)
        self._timer.daemon = True

    def _pass(self) -> None:
        self.passed = True
        self._guard.send()

    def __enter__(self) -> Deadline:
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
