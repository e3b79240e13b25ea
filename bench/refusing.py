# SPDX-License-Identifier: Apache-2.0
"""A command without cross-memory attach: a filter of system calls refuses process_vm_readv and process_vm_writev, as
the seccomp profiles of some containers do.

    python bench/refusing.py COMMAND [ARGUMENT]...

The filter holds for the command and all that it starts; this machine stays as it is.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

# Of x86-64 and AArch64 (asm/unistd.h).
CALLS = {"x86_64": (310, 311), "aarch64": (270, 271)}
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2  # linux/prctl.h, linux/seccomp.h
LOAD_NUMBER, SKIP_UNLESS_EQUAL, RETURN = 0x20, 0x15, 0x06  # linux/bpf_common.h; the number is at offset 0
REFUSE, ALLOW = 0x50000, 0x7FFF0000  # linux/seccomp.h


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))


def refuse(error: int = errno.EPERM) -> None:
    """For this process and those that it starts, from now on. Raises OSError where the kernel has no such filters, and
    KeyError on another processor.
    """
    steps = [(LOAD_NUMBER, 0, 0, 0)]
    for call in CALLS[os.uname().machine]:
        steps += [(SKIP_UNLESS_EQUAL, 0, 1, call), (RETURN, 0, 0, REFUSE | error)]
    steps.append((RETURN, 0, 0, ALLOW))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = _Program(len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    words = [ctypes.c_ulong(value) for value in (0, 1, SECCOMP_MODE_FILTER)]
    if libc.prctl(PR_SET_NO_NEW_PRIVS, words[1], words[0], words[0], words[0]) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_NO_NEW_PRIVS")
    if libc.prctl(PR_SET_SECCOMP, words[2], ctypes.byref(program)) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_SECCOMP")


def refusing(command: Sequence[str]) -> list[str]:
    """The words that run a command so."""
    return [sys.executable, str(Path(__file__).resolve()), *command]


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    refuse()
    os.execvp(sys.argv[1], sys.argv[1:])
