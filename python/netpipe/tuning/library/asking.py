# SPDX-License-Identifier: Apache-2.0
"""A process of its own that asks an MPI library for its control variables (MPI 3.1, chapter 14.3):

    python -m netpipe.tuning.library.asking /path/of/libmpi.so NAME...

It prints one JSON object: for each variable that the library knows, its value, its choices and its description. It is
started with the environment that is to be read back, and it may crash or hang as the library likes. It uses nothing
but MPI_T and never calls MPI_Init.
"""

from __future__ import annotations

import ctypes
import json
import re
import sys
from typing import Any

TEXT_BYTES = 8192
MOST_CHOICES = 64
CHOICE = re.compile(r"^\s*(\w+)\s+- ", re.MULTILINE)  # how MPICH describes a choice


def main(arguments: list[str]) -> None:
    library = ctypes.CDLL(arguments[0], mode=ctypes.RTLD_GLOBAL)
    if library.MPI_T_init_thread(0, ctypes.byref(ctypes.c_int())) != 0:
        sys.exit(1)
    found = {name: one for name in arguments[1:] if (one := ask(library, name)) is not None}
    sys.stdout.write(json.dumps(found))


def ask(library: Any, name: str) -> dict[str, Any] | None:
    """None: the library does not know it."""
    index = ctypes.c_int(-1)
    if library.MPI_T_cvar_get_index(name.encode(), ctypes.byref(index)) != 0:
        return None
    return {"value": _value(library, index), **_described(library, index)}


def _value(library: Any, index: ctypes.c_int) -> str:
    """A text, or the number in the first four bytes: enough to tell whether it changed."""
    handle, count = ctypes.c_void_p(), ctypes.c_int()
    held = ctypes.create_string_buffer(TEXT_BYTES)
    if library.MPI_T_cvar_handle_alloc(index, None, ctypes.byref(handle), ctypes.byref(count)) != 0:
        return ""
    if count.value >= TEXT_BYTES or library.MPI_T_cvar_read(handle, held) != 0:
        return ""
    if count.value > 1:
        return held.value.decode(errors="replace")
    return str(int.from_bytes(held.raw[:4], sys.byteorder, signed=True))


def _described(library: Any, index: ctypes.c_int) -> dict[str, Any]:
    """What it is for, and the words that it takes."""
    name, about = ctypes.create_string_buffer(512), ctypes.create_string_buffer(TEXT_BYTES)
    name_bytes, about_bytes = ctypes.c_int(512), ctypes.c_int(TEXT_BYTES)
    kind, words = ctypes.c_void_p(), ctypes.c_void_p()
    rest = [ctypes.c_int() for _ in range(3)]
    library.MPI_T_cvar_get_info(
        index,
        name,
        ctypes.byref(name_bytes),
        ctypes.byref(rest[0]),
        ctypes.byref(kind),
        ctypes.byref(words),
        about,
        ctypes.byref(about_bytes),
        ctypes.byref(rest[1]),
        ctypes.byref(rest[2]),
    )
    text = about.value.decode(errors="replace")
    return {
        "help": text.splitlines()[0] if text else "",
        "choices": _words(library, words) or CHOICE.findall(text),
    }


def _words(library: Any, words: ctypes.c_void_p) -> dict[str, int]:
    """Of an enumeration, with their numbers. MPI_T_ENUM_NULL has none."""
    count, length = ctypes.c_int(), ctypes.c_int(256)
    text = ctypes.create_string_buffer(256)
    if (
        not words.value
        or library.MPI_T_enum_get_info(words, ctypes.byref(count), text, ctypes.byref(length)) != 0
    ):
        return {}
    found = {}
    for place in range(min(count.value, MOST_CHOICES)):
        number, length = ctypes.c_int(), ctypes.c_int(256)
        if library.MPI_T_enum_get_item(words, place, ctypes.byref(number), text, ctypes.byref(length)) == 0:
            found[text.value.decode(errors="replace")] = number.value
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
