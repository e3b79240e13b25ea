# SPDX-License-Identifier: Apache-2.0
"""The run file while it is written. Workers append their records to it; this side appends its own and reads along."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from datetime import datetime, timezone
from pathlib import Path
from typing import BinaryIO

import msgspec

from netpipe.failure import USAGE, Failure
from netpipe.records import AnyRecord, Header, NotARun, Record, decode, encode, read


class Recording:
    """The run file of one measurement.

    The records go to a file beside `output` until `keep` moves it into place, so a measurement that fails before its
    first result leaves an older run alone. An `output` that is not a regular file (a device, a pipe) gets a copy of the
    records as they come, and None keeps them in a temporary file only.

    Raises Failure (2) when `output` exists and is not a run, OSError when nothing can be written there.
    """

    def __init__(self, output: Path | None) -> None:
        self.output = output
        self.kept: Path | None = None  # the new name of the run that was in `output`
        self.in_place = False
        self._stream: BinaryIO | None = None
        self._folder: str | None = None
        if output is not None and not _is_stream(output):
            _check_is_run(output)
            self.path = output.with_name(f"{output.name}.{os.getpid()}.part")
            with _named(output):
                self.path.unlink(missing_ok=True)  # of an earlier process with the same id
                self.path.touch()
        else:
            if output is not None:
                with _named(output):
                    self._stream = output.open("ab", buffering=0)
            self._folder = tempfile.mkdtemp(prefix="netpipe-")
            self.path = Path(self._folder) / "run.jsonl"
        self._tail = Tail(self.path)

    def append(self, record: Record) -> None:
        """Adds one record of this side. Raises OSError, which names `output`."""
        with _named(self.output or self.path):
            append(self.path, record)

    def new(self) -> list[tuple[bytes, AnyRecord]]:
        """The lines since the last call, as they are and as records. Raises OSError when `output` is a stream that
        cannot take them.
        """
        lines = self._tail.new()
        if self._stream is not None:
            with _named(self.output or self.path):
                for line, _ in lines:
                    self._stream.write(line)
        return lines

    def keep(self) -> None:
        """Moves the records to `output`; a run that was there is renamed."""
        if self.in_place or self._folder is not None or self.output is None:
            return
        self.kept = make_room(self.output)
        self.path.rename(self.output)
        self.path = self._tail.path = self.output
        self.in_place = True

    def close(self, discard: bool = True) -> None:
        """Removes the temporary files. `discard` removes records that were never moved into place, too."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        elif discard and not self.in_place:
            self.path.unlink(missing_ok=True)


class _named:  # noqa: N801  (reads as the function that it is)
    """An OSError inside names this path, not the temporary one."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError):
            error.filename = os.fspath(self._path)


def _is_stream(path: Path) -> bool:
    """Something that is not a regular file, or is below /dev, where /dev/stdout may lead to one."""
    return (path.exists() and not path.is_file()) or path.absolute().parts[:2] in (
        ("/", "dev"),
        ("/", "proc"),
    )


def _check_is_run(path: Path) -> Header | None:
    """The header of the run at `path`, None when there is none. Raises Failure (2) when something else is there."""
    if not path.is_file() or path.stat().st_size == 0:
        return None
    try:
        first = next(read(path))
    except NotARun as why:
        raise Failure(USAGE, f"{why}; it is not overwritten: choose another name with --output") from None
    return first if isinstance(first, Header) else None


def refuse_run(path: Path) -> None:
    """Raises Failure (2) when a run is at `path`, where something else is to be written."""
    if _is_stream(path) or not path.is_file():
        return
    with contextlib.suppress(NotARun):
        next(read(path))
        raise Failure(USAGE, f"{path} is a run and is not overwritten; choose another name")


def make_room(path: Path) -> Path | None:
    """Renames the run at `path` to PATH-<its start time>, so that no run is ever lost. Returns the new name, or None
    when nothing was there. Raises Failure (2) when something other than a run is there.
    """
    header = _check_is_run(path)
    if not path.is_file() or path.stat().st_size == 0:
        return None
    started = header.started if header else None
    when = "".join(character for character in started or "older" if character.isalnum())[:16]
    stem = f"{path.stem}-{when}"
    for number in range(1, 10_000):
        kept = path.with_name(f"{stem}{'' if number == 1 else f'-{number}'}{path.suffix}")
        try:
            os.link(path, kept)  # unlike a rename this never replaces an existing file
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
    """The current time as a run file has it: ISO 8601, UTC, to the second."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def append(path: Path, record: Record) -> None:
    """Adds one line with one write. An incomplete last line, left by a killed worker, is cut off first: it was never a
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
        if written < len(line):  # the disk filled up in the middle of the line
            os.write(file, line[written:])  # raises the reason
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
    """Reads along: each call of `new` returns the complete lines since the last one. Set
    `path` when the file is renamed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._at = 0

    def new(self) -> list[tuple[bytes, AnyRecord]]:
        """Lines, as they are and as records. Lines of unknown types and unreadable ones are left out."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._at)
                text = file.read()
        except FileNotFoundError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._at += len(whole)
        found: list[tuple[bytes, AnyRecord]] = []
        for line in whole.splitlines(keepends=True):
            with contextlib.suppress(msgspec.DecodeError):
                record = decode(line)
                if record is not None:
                    found.append((line, record))
        return found
