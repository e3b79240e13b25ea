# SPDX-License-Identifier: Apache-2.0
"""SIGINT, SIGTERM and SIGHUP as a count to look at, not an exception in the middle of a line that is being written."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from types import FrameType, TracebackType
from typing import Any


class Interrupt:
    """While entered, these signals are only counted, and they make `fileno` readable so that a waiting selector wakes
    up. A SIGHUP that is ignored stays so (nohup). Only the main thread can receive signals: in another thread `count`
    stays 0. With `children`, the end of a child makes it readable too.
    """

    def __init__(self, children: bool = False) -> None:
        self.count = 0
        self.last = 0  # signal; 0: there was none
        self._children = children
        self._before: dict[signal.Signals, Any] = {}
        self._wakeup_before: int | None = None
        self._here, self._there = socket.socketpair()
        self._here.setblocking(False)
        self._there.setblocking(False)

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            self._wakeup_before = signal.set_wakeup_fd(self._there.fileno(), warn_on_full_buffer=False)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                    continue
                self._before[number] = signal.signal(number, self._count)
            if self._children:
                self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._wakeup_before is not None:
            signal.set_wakeup_fd(self._wakeup_before)
        self._here.close()
        self._there.close()

    def _count(self, number: int, _frame: FrameType | None) -> None:
        self.count += 1
        self.last = number

    def fileno(self) -> int:
        return self._here.fileno()

    def drain(self) -> None:
        """Empties `fileno`, so that only the next signal makes it readable again."""
        with contextlib.suppress(BlockingIOError):
            while self._here.recv(64):
                pass
