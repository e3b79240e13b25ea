# SPDX-License-Identifier: Apache-2.0
"""Processes that a launcher left behind. Launchers put their ranks into process groups and sessions of their own, and
some start daemons, so they are known by what only they have in their environment: the secret of their job.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path


def all_with(mark: str) -> Iterator[int]:
    """Processes of this host whose environment has the text `mark`, which must be unguessable; not this one itself."""
    wanted = mark.encode()
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):  # of another user, or just gone
            if wanted in (folder / "environ").read_bytes():
                yield int(folder.name)


def end_all_with(mark: str, limit_s: float = 1.0) -> None:
    """Kills them and sees them gone. One that was just being started is met in the next round."""
    deadline = time.monotonic() + limit_s
    while found := list(all_with(mark)):
        for process in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        if time.monotonic() >= deadline:
            return
        time.sleep(0.005)
