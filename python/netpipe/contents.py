# SPDX-License-Identifier: Apache-2.0
"""Whole files of others in memory, up to a bound: a device or a pipe may have no end."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from netpipe.failure import USAGE, Failure

TEXT = 16 << 20  # bytes of a configuration, a suite, a np.out: thousands of times what they have
TABLE = 1 << 30  # of a table: some 10^5 points with their histograms in JSON


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
