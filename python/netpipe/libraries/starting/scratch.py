# SPDX-License-Identifier: Apache-2.0
"""Folders that live as long as the process that made them. One that is killed cannot remove its folder, so the next
that wants such a folder does.

The owner holds a lock (flock) on the folder until it ends, however it ends. So a folder of this user that can be locked
has lost its owner. Where there are no locks (NFS) nothing is removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from netpipe.libraries.starting.processes import SHARED, all_with, remove_unused
from netpipe.locks import lock

# In the folder of a job: the files in /dev/shm that its ranks have mapped, a name in a line
# (src/engine/processes/launched.cpp).
NOTED = "shared-memory"
Keep = Callable[[Path], bool]  # whether the folder of a dead process has something that somebody may want


class Scratch:
    """A new folder PREFIX... in `parent`, by default among the temporary files. Those of dead processes with the same
    prefix are removed, but for what has to be kept, which is in `kept`. Raises OSError.
    """

    def __init__(self, prefix: str, parent: Path | None = None, keep: Keep = lambda _: False) -> None:
        parent = parent or Path(tempfile.gettempdir())
        self.kept = remove_dead(prefix, parent, keep)
        self._stays = False
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
            # Until it is locked somebody may take it for a dead one, and remove it: then another one is made.
            with contextlib.suppress(FileNotFoundError):
                self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                try:
                    fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    ours = self.path.exists()
                except BlockingIOError:
                    ours = False
                except OSError:
                    ours = True  # there are no locks, so nobody removes it
                if ours:
                    return
                os.close(self._lock)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.close()

    def leave(self) -> None:
        """Lets the folder stay when we are done with it."""
        self._stays = True

    def close(self) -> None:
        if not self._stays:
            shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def remove_dead(prefix: str, parent: Path | None = None, keep: Keep = lambda _: False) -> list[Path]:
    """Removes the folders of this user's dead processes, and the shared memory that their jobs left. Returns those that
    were to be kept.
    """
    kept = []
    for path in sorted((parent or Path(tempfile.gettempdir())).glob(f"{prefix}*")):
        with contextlib.suppress(OSError), claimed(path) as ours:
            if not ours or any(all_with(str(path))):  # or processes of its jobs have not ended yet
                continue
            if keep(path):
                kept.append(path)
                continue
            for job in path.iterdir():
                remove_unused(noted(job))
            shutil.rmtree(path, ignore_errors=True)
    return kept


@contextlib.contextmanager
def claimed(path: Path) -> Iterator[bool | None]:
    """Whether it is a folder of this user that has lost its owner; then nobody else claims it meanwhile. None: there
    are no locks, so nobody knows.
    """
    folder = _opened(path)
    if folder is None:
        yield False
        return
    try:
        yield lock(folder) if os.fstat(folder).st_uid == os.geteuid() else False
    finally:
        os.close(folder)


def _opened(path: Path) -> int | None:
    """None for one of another user, or what is no folder."""
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None


def noted(job: Path) -> set[Path]:
    """The shared memory that the ranks of the job with this folder have mapped."""
    try:
        names = (job / NOTED).read_text(errors="replace").splitlines()
    except OSError:
        return set()
    files = {Path(SHARED) / name for name in names if name and "/" not in name and name not in (".", "..")}
    return {file for file in files if is_own(file)}


def is_own(file: Path) -> bool:
    """A regular file of this user, and no link."""
    try:
        status = file.lstat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
