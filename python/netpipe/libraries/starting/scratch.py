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
from pathlib import Path

from netpipe.libraries.starting.processes import SHARED, all_with, remove_unused

# In the folder of a job: the files in /dev/shm that its ranks have mapped, a name in a line
# (src/engine/processes/launched.cpp).
NOTED = "shared-memory"


class Scratch:
    """A new folder PREFIX... in `parent`, by default among the temporary files. Those of dead processes with the same
    prefix are removed. Raises OSError.
    """

    def __init__(self, prefix: str, parent: Path | None = None) -> None:
        parent = parent or Path(tempfile.gettempdir())
        remove_dead(prefix, parent)
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

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def remove_dead(prefix: str, parent: Path | None = None) -> None:
    """Removes the folders of this user's dead processes, and the shared memory that their jobs left."""
    for path in (parent or Path(tempfile.gettempdir())).glob(f"{prefix}*"):
        try:
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue  # of another user, or no folder
        with contextlib.suppress(OSError):
            if os.fstat(folder).st_uid == os.geteuid():
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not any(all_with(str(path))):  # else processes of its jobs have not ended yet
                    for job in path.iterdir():
                        remove_unused(noted(job))
                    shutil.rmtree(path, ignore_errors=True)
        os.close(folder)


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
