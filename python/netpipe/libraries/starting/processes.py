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


SHARED = "/dev/shm/"  # noqa: S108


def shared_memory(mark: str) -> set[Path]:
    """Files of shared memory that these processes have mapped. A library removes its own when it ends in good order;
    of one that is killed they stay until the next boot, and MPICH 5 under srun then stumbles over them.
    """
    return {path for process in all_with(mark) for path in mapped(process)}


def mapped(process: int) -> set[Path]:
    try:
        lines = Path(f"/proc/{process}/maps").read_text(errors="replace").splitlines()
    except OSError:
        return set()
    names = {line.partition(SHARED)[2] for line in lines if SHARED in line and not line.endswith("(deleted)")}
    return {Path(SHARED) / name for name in names}


def remove_unused(files: set[Path]) -> None:
    """Those that are still there and that nobody has mapped any more."""
    left = {file for file in files if file.exists()}
    if not left:
        return
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            left -= mapped(int(folder.name))
    for file in left:
        with contextlib.suppress(OSError):
            file.unlink()
