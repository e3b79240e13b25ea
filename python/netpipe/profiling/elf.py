# SPDX-License-Identifier: Apache-2.0
"""What an executable file says of itself (ELF, the gABI): whether the system's loader puts libraries under it."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

MAGIC = b"\x7fELF"
EXECUTABLE, SHARED = 2, 3  # e_type: ET_EXEC, ET_DYN
DYNAMIC, INTERPRETER = 2, 3  # p_type: PT_DYNAMIC, PT_INTERP
FLAGS_1, PIE = 0x6FFFFFFB, 0x08000000  # DT_FLAGS_1, DF_1_PIE
LARGEST = 1 << 20  # bytes of a dynamic section that are read


def is_elf(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4) == MAGIC
    except OSError:
        return False


def is_static(path: Path) -> bool:
    """Whether it is a program without a loader. One that can be at any address (-static-pie) has the type of a shared
    library, and the flag of a program.
    """
    try:
        with path.open("rb") as file:
            return _is_static(file)
    except (OSError, OverflowError, ValueError, struct.error):
        return False  # cut off, or no ELF after all


def _is_static(file: BinaryIO) -> bool:
    ident = file.read(16)
    if ident[:4] != MAGIC or len(ident) < 16:
        return False
    wide, order = ident[4] == 2, "<" if ident[5] == 1 else ">"
    word = "Q" if wide else "I"
    head = f"{order}HHI3{word}IHHH"  # up to e_phnum
    kind, _, _, _, at, _, _, _, size, many = struct.unpack(head, file.read(struct.calcsize(head)))
    segment = f"{order}{'II4Q' if wide else '5I'}"  # up to p_filesz; p_flags is behind it in the 32-bit form
    file.seek(at)
    table = file.read(size * many)
    found: dict[int, tuple[int, int]] = {}  # p_type -> offset and length
    for place in range(many):
        of, *rest = struct.unpack_from(segment, table, place * size)
        found[of] = (rest[1], rest[4]) if wide else (rest[0], rest[3])
    if INTERPRETER in found:
        return False
    if kind == EXECUTABLE:
        return True
    if kind != SHARED or DYNAMIC not in found:
        return False
    offset, length = found[DYNAMIC]
    file.seek(offset)
    entries = file.read(min(length, LARGEST))
    pair = f"{order}2{word}"
    flags = dict(
        struct.iter_unpack(pair, entries[: len(entries) // struct.calcsize(pair) * struct.calcsize(pair)])
    )
    return bool(flags.get(FLAGS_1, 0) & PIE)
