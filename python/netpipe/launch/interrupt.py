# SPDX-License-Identifier: Apache-2.0
"""SIGINT and SIGTERM as something to look at, instead of an exception in the middle of a line that is being written."""

from __future__ import annotations

import signal
import socket
from types import FrameType, TracebackType
from typing import Any


class Interrupt:
    """While it is entered the two signals only count and make `fileno` readable, so that a waiting selector wakes up.
    For the main thread.
    """

    def __init__(self) -> None:
        self.count = 0
        self._before: dict[signal.Signals, Any] = {}
        self._wakeup_before = -1
        self._here, self._there = socket.socketpair()
        self._here.setblocking(False)
        self._there.setblocking(False)

    def __enter__(self) -> Interrupt:
        self._wakeup_before = signal.set_wakeup_fd(self._there.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._came)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        self._here.close()
        self._there.close()

    def _came(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1

    def fileno(self) -> int:
        return self._here.fileno()

    def drain(self) -> None:
        """Empties what `fileno` has, so that it is readable again only after the next signal."""
        try:
            while self._here.recv(64):
                pass
        except BlockingIOError:
            pass
