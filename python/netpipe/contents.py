# SPDX-License-Identifier: Apache-2.0
"""Files of others in memory, whole or by lines, up to a bound: a device or a pipe may have no end."""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from netpipe.failure import USAGE, Failure

TEXT = 16 << 20  # bytes of a configuration, a suite, a np.out: thousands of times what they have
TABLE = 1 << 30  # of a table: some 10^5 points with their histograms in JSON
BLOCK = 1 << 20  # of lines, taken at once
# The longest line of a real run is a `variant` or a `point`, some 700 bytes for each rank: this is enough for 90,000.
LONGEST_LINE = 64 << 20
LONGEST_STREAM = 1 << 30  # of lines from what is not a regular file


class Unbounded(ValueError):  # noqa: N818  (it reads as what it says)
    """A file of lines has more than is read; the text goes on after its name."""


def blocks_of_lines(file: io.BufferedReader) -> Iterator[tuple[bytes, int]]:
    """The file in pieces of whole lines, the last of which may lack its newline, and how many lines each has. Raises
    Unbounded.
    """
    regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    left = None if regular else LONGEST_STREAM
    read = file.read if regular else file.read1  # of a stream what it has now: its end may never come
    number = 0
    while block := read(BLOCK):
        if not block.endswith(b"\n"):
            block += file.readline(LONGEST_LINE + 1)
        last = block.rfind(b"\n", 0, -1) + 1
        if left is not None and (left := left - len(block)) < 0:
            raise Unbounded("is not a regular file and has more than 1 GiB; save it to a file first")
        before = block.count(b"\n", 0, last)
        number += before + 1
        if len(block) - last <= LONGEST_LINE:
            yield block, before + 1
            continue
        if before:
            yield block[:last], before
        raise Unbounded(f"is not a netpipe run file: line {number} is longer than 64 MiB")


def contents(path: Path, most: int) -> bytes:
    """Raises Failure (2) for a device, and for more than `most` bytes; OSError, which names the file."""
    with path.open("rb") as file:
        try:
            mode = os.fstat(file.fileno()).st_mode
            if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
                raise Failure(USAGE, f"{path} is a device, not a file")
            text = file.read(most + 1)
        except OSError as error:
            error.filename = os.fspath(path)
            raise
    if len(text) > most:
        raise Failure(USAGE, f"{path} has more than {most >> 20} MiB, the most that is read")
    return text


def toml(path: Path, what: str) -> Mapping[str, Any]:
    """The file as TOML. Raises Failure (2); `what` is what the file is, for the sentence."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        text = contents(path, TEXT).decode()
    except OSError as error:
        raise Failure(USAGE, f"the {what} {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Failure(USAGE, f"the {what} {path} is not UTF-8 text") from None
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise Failure(USAGE, f"the {what} {path} is nested too deeply") from None
    except ValueError as error:  # also an integer of thousands of digits
        raise Failure(USAGE, f"the {what} {path} is not valid TOML: {error}") from None
