# SPDX-License-Identifier: Apache-2.0
"""Locks of files and folders, by which a process says that it still uses one: they end with it, however it ends."""

from __future__ import annotations

import fcntl


def lock(file: int) -> bool | None:
    """Locks it until all its descriptors are closed. False: another process has locked it; None: there are no locks,
    such as on NFS without a lock service or on Lustre without its option flock.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True
