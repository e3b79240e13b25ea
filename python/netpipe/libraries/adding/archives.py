# SPDX-License-Identifier: Apache-2.0
"""Archives that were compiled for programs and not for shared libraries, made fit for a module.

Debian has libarmci-*.a and libga-*.a only like that. Their code takes the address of another library's data, such as
MPI_COMM_WORLD of Open MPI, by `lea symbol(%rip), register`, which needs the data in the same file. The linker does not
put that into a shared library. `mov symbol@GOTPCREL(%rip), register` has the same length and gives the same address,
and is what a compiler writes for a shared library; so a copy of the archive gets that in its place. x86-64 ELF alone.

Other accesses to foreign data cannot be rewritten like that. They stay, and the linker refuses them, unless the module
defines the data itself: src/modules/kit/libraries/own_streams.h does that for stderr and stdout.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from netpipe.failure import UNAVAILABLE, Failure

MAGIC = b"!<arch>\n"
HEADER = 60  # bytes before each member of an archive
PC32, GOTPCREL = 2, 9  # R_X86_64_...
RELA, SYMTAB = 4, 2  # types of sections
LEA, MOV = 0x8D, 0x8B
UNDEFINED = 0


def movable(archive: bytes) -> bytes:
    """The archive with its members rewritten; everything stays in its place. Raises Failure (3)."""
    if not archive.startswith(MAGIC):
        raise Failure(UNAVAILABLE, "it is not an archive of object files")
    data = bytearray(archive)
    for start, length in _members(archive):
        if archive[start : start + 4] == b"\x7fELF":
            _rewrite(data, start, length)
    return bytes(data)


def _members(archive: bytes) -> Iterator[tuple[int, int]]:
    at = len(MAGIC)
    while at + HEADER <= len(archive):
        length = int(archive[at + 48 : at + 58])
        yield at + HEADER, length
        at += HEADER + length + length % 2


def _rewrite(data: bytearray, start: int, length: int) -> None:
    """One object file, in place."""
    (machine,) = struct.unpack_from("<H", data, start + 18)
    if data[start + 4 : start + 6] != b"\x02\x01" or machine != 62:
        raise Failure(
            UNAVAILABLE, "its object files are not for x86-64, and no others can be put into a module"
        )
    (table,) = struct.unpack_from("<Q", data, start + 40)
    size, count = struct.unpack_from("<HH", data, start + 58)
    if start + table + size * count > start + length:
        raise Failure(UNAVAILABLE, "one of its object files is cut off")
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, start + table + size * i) for i in range(count)]
    for section in sections:
        _, kind, _, _, place, bytes_, symbols, target, _, _ = section
        if kind == RELA and sections[symbols][1] == SYMTAB:
            code = start + sections[target][4]
            for entry in range(start + place, start + place + bytes_, 24):
                _rewrite_entry(data, entry, code, start + sections[symbols][4])


def _rewrite_entry(data: bytearray, entry: int, code: int, symbols: int) -> None:
    offset, info, addend = struct.unpack_from("<QQq", data, entry)
    (home,) = struct.unpack_from("<H", data, symbols + 24 * (info >> 32) + 6)
    operation = code + offset - 2  # before it a prefix (REX), behind it the register and the address
    if info & 0xFFFFFFFF != PC32 or home != UNDEFINED or addend != -4 or data[operation] != LEA:
        return
    data[operation] = MOV
    struct.pack_into("<Q", data, entry + 8, info >> 32 << 32 | GOTPCREL)
