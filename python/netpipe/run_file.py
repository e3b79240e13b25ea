# SPDX-License-Identifier: Apache-2.0
"""The run file while it is written: the worker appends its records, the front its own around them, and reads along."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from netpipe.failure import USAGE, Failure
from netpipe.records import AnyRecord, Header, NotARun, Record, decode, encode, read


def make_room(path: Path) -> Path | None:
    """Renames the run that is at `path` to PATH-<when it started>, so that no run is ever lost; its new name, or None
    where nothing was there. Raises Failure (2) where something else than a run is there.
    """
    if not path.is_file() or path.stat().st_size == 0:  # a device is written to as it is
        return None
    try:
        first = next(read(path))
    except NotARun as why:
        raise Failure(USAGE, f"{why}; it is not overwritten: choose another name with --output") from None
    started = first.started if isinstance(first, Header) else None
    when = "".join(character for character in started or "older" if character.isalnum())[:16]
    stem = f"{path.stem}-{when}"
    for number in range(1, 10_000):
        kept = path.with_name(f"{stem}{'' if number == 1 else f'-{number}'}{path.suffix}")
        try:
            os.link(path, kept)  # unlike a rename this never replaces what is there
        except FileExistsError:
            continue
        except OSError:  # a file system without links
            if kept.exists():
                continue
            path.rename(kept)
            return kept
        path.unlink()
        return kept
    raise Failure(
        USAGE, f"{path} cannot be renamed: {stem}{path.suffix} to {stem}-9999{path.suffix} are all taken"
    )


def now() -> str:
    """The time as a run file has it: ISO 8601, UTC, to the second."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def append(path: Path, record: Record) -> None:
    """Adds one line with one write. A torn line that a killed worker left at the end is cut off first: it was never a
    record, and would make the next one unreadable. Raises OSError.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    try:
        size = os.fstat(file).st_size  # 0 for a device
        whole = _end_of_whole_lines(file, size)
        if whole < size:
            os.ftruncate(file, whole)
        line = encode(record)
        written = os.write(file, line)
        if written < len(line):  # the disk filled in the middle of it
            os.write(file, line[written:])  # raises and says why
    except OSError as error:
        error.filename = os.fspath(path)
        raise
    finally:
        os.close(file)


def _end_of_whole_lines(file: int, size: int) -> int:
    block = 1 << 16
    end = size
    while end > 0:
        start = max(0, end - block)
        newline = os.pread(file, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


class Tail:
    """Reads along: each call of `new` gives the whole lines that came since the last one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def new(self) -> list[tuple[bytes, AnyRecord]]:
        """Lines, as they are and as records; lines of unknown types or that cannot be read are passed over."""
        try:
            with self._path.open("rb") as file:
                # Not more than there is: a device (/dev/full) reads without an end.
                left = os.fstat(file.fileno()).st_size - self._at
                if left <= 0:
                    return []
                file.seek(self._at)
                text = file.read(left)
        except FileNotFoundError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._at += len(whole)
        found: list[tuple[bytes, AnyRecord]] = []
        for line in whole.splitlines(keepends=True):
            try:
                record = decode(line)
            except msgspec.DecodeError:
                continue
            if record is not None:
                found.append((line, record))
        return found
