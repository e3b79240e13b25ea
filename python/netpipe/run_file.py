# SPDX-License-Identifier: Apache-2.0
"""The run file while it is written. Workers append their records to it; this side appends its own and reads along.

A run opens its file once and from then on uses the descriptor, as do its workers: whatever happens to the name, all
records of a run go to one file, and no other run's records do. The lock on that file (flock) says that the run is still
being written. It lasts until the last process that has the descriptor has ended, so a killed run leaves no lock behind.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import re
import stat
import tempfile
import zlib
from array import array
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import BinaryIO

import msgspec

from netpipe.failure import USAGE, Failure
from netpipe.locks import lock
from netpipe.records import AnyRecord, End, Header, NotARun, Record, decode, encode, read

# at a name that other runs want at the same moment; each failure means that one of them got it
ATTEMPTS = 100


class Recording:
    """The run file of one measurement.

    The records go to a file beside `output` until `keep` moves it into place, so a measurement that fails before its
    first result leaves an older run alone. An `output` that is not a regular file (a device, a pipe) gets a copy of the
    records as they come, and None keeps them in a temporary file only.

    `file` is the descriptor, `path` the name that the file has now. `onto`: the records are added to the run that is in
    `output`.

    Raises Failure (2) when `output` exists and is not a run, OSError when nothing can be written there.
    """

    def __init__(self, output: Path | None, onto: bool = False) -> None:
        self.output = output
        self.kept: Path | None = None  # the new name of the run that was in `output`
        self.in_place = False
        self._stream: BinaryIO | None = None
        self._before = 0  # bytes of the run that is continued
        self._temporary = output is None or is_stream(output)
        if output is not None and onto:
            with _named(output):
                self.path, self.file = output, _open_to_go_on(output)
            self.in_place = True
            self._before = os.fstat(self.file).st_size
        elif output is not None and not self._temporary:
            _check_is_run(output)
            with _named(output):
                _remove_parts_of_dead_runs(output)
                self.path, self.file = _create(
                    output.with_name(f"{output.name}.{os.getpid()}{more}.part") for more in _numbers()
                )
            lock(self.file)
        else:
            if output is not None:
                with _named(output):
                    self._stream = output.open("ab", buffering=0)
            self.file, name = tempfile.mkstemp(prefix="netpipe-")
            Path(name).unlink()  # nothing is left behind, whatever ends this process
            fcntl.fcntl(self.file, fcntl.F_SETFL, os.O_APPEND)
            self.path = self._by_descriptor
        self._tail = Tail(self.file)

    @property
    def _by_descriptor(self) -> Path:
        """Leads to this file, whatever its name is."""
        return Path(f"/proc/self/fd/{self.file}")

    @property
    def name(self) -> str:
        """The file in sentences."""
        return os.fspath(self.output or Path(tempfile.gettempdir()))

    def append(self, record: Record) -> None:
        """Adds one record of this side. Raises OSError, which names `output`."""
        with _named(self.name):
            append(self.file, record)

    def new(self) -> list[tuple[bytes, AnyRecord]]:
        """The lines since the last call, as they are and as records. Raises OSError when `output` is a stream that
        cannot take them.
        """
        lines = self._tail.new()
        if self._stream is not None:
            with _named(self.name):
                for line, _ in lines:
                    self._stream.write(line)
        return lines

    def keep(self) -> str | None:
        """Moves the records to `output`; a run that was there is renamed. If another run is being written there, this
        one gets a name of its own, and a sentence about it is returned.
        """
        if self.in_place or self._temporary or self.output is None:
            return None
        with _named(self.output):
            busy = self._place(self.output)
        self.in_place = True
        return busy and f"{busy}; this run is written to {self.path}"

    def withdraw(self) -> None:
        """Takes out what was added to the run that is continued. No process adds to it any more."""
        if os.fstat(self.file).st_size > self._before:
            os.ftruncate(self.file, self._before)

    def damage(self) -> str | None:
        """What another program did to the file in place: a word of what happened to it, None if nothing did."""
        if not self.in_place:
            return None
        if not self._tail.intact():
            return "truncated or overwritten"
        if _is(self.path, self.file):
            return None
        if os.fstat(self.file).st_nlink > 0:
            return "renamed"
        return "replaced" if self.path.exists() else "removed"

    def rescue(self, damage: str, records: Iterable[Record]) -> str:
        """Puts the run where it can be found after `damage`: under the new name of the file, or in a copy. The copy of
        a file that lost lines is made of `records`. Returns a sentence for the user.
        """
        happened = f"{self.path} was {damage} by another program while the run was written"
        if damage == "renamed" and (now_at := self._found()) is not None:
            self.path = now_at
            return f"{happened}; the run is in {now_at}"
        copied = None
        try:
            copied, copy = self._create_copy()
            with os.fdopen(copy, "wb") as target:
                if self._tail.intact():
                    target.writelines(_blocks(self.file, 0, os.fstat(self.file).st_size))
                else:
                    target.writelines(encode(record) for record in records)
        except OSError as error:
            self.in_place = False
            rest = f"only a part of it is in {copied}" if copied else "the run is lost"
            return f"{happened}, and it cannot be copied ({error.strerror}): {rest}"
        self.path = copied
        return f"{happened}; a copy of the run is in {self.path}"

    def close(self, discard: bool = True) -> None:
        """Closes the file. `discard` removes records that were never moved into place."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        if discard and not self.in_place and not self._temporary:
            self._unlink()
        os.close(self.file)

    # ------------------------------------------------------------------------------------------- inside

    def _place(self, output: Path) -> str | None:
        """Gives the file its name, which is never one that exists. Returns why it is not `output`."""
        busy = f"other runs are being written to {output}"
        for _ in range(ATTEMPTS):
            if self._take(output):
                return None
            try:
                self.kept = make_room(output) or self.kept
            except InUse as why:
                busy = why.sentence
                break
        next(path for path in self._own_names(output) if self._take(path))
        return busy

    def _take(self, path: Path) -> bool:
        """Moves the file to `path`. False: something is there, and stays."""
        if os.fstat(self.file).st_nlink == 0:
            return True  # it was removed and has no name any more: `damage` will say so
        try:
            # The link is made from the descriptor, because the name may be another file's by now. The folder for
            # relative paths is not used, but without it os.link would link the link in /proc.
            os.link(self._by_descriptor, path, src_dir_fd=self.file, follow_symlinks=True)
        except FileExistsError:
            return False
        except OSError:  # a file system without links
            if not _is(self.path, self.file):
                raise
            if not _rename(self.path, path):
                return False
        else:
            self._unlink()
        self.path = path
        return True

    def _unlink(self) -> None:
        if _is(self.path, self.file):
            self.path.unlink(missing_ok=True)

    def _own_names(self, output: Path) -> Iterator[Path]:
        """Names for this run beside `output`, as older runs have them."""
        line = os.pread(self.file, 1 << 16, 0).partition(b"\n")[0]
        header = None
        with contextlib.suppress(msgspec.DecodeError):
            header = decode(line)
        return _names(output, header.started if isinstance(header, Header) else now())

    def _found(self) -> Path | None:
        """The name of the file, if it is still in its folder."""
        with contextlib.suppress(OSError):
            for path in sorted(self.path.parent.iterdir()):
                if not path.is_symlink() and _is(path, self.file):
                    return path
        return None

    def _create_copy(self) -> tuple[Path, int]:
        """Under the name that the file was to have if that is free, else beside it, or among the temporary files."""
        output = self.output or self.path
        try:
            return _create(itertools.chain([output], self._own_names(output)))
        except OSError:  # the folder has gone, too
            return _create(self._own_names(Path(tempfile.gettempdir()) / output.name))


class InUse(Failure):
    """The run is still being written, or may be."""


class _named:  # noqa: N801  (reads as the function that it is)
    """An OSError inside names this path, not the temporary one."""

    def __init__(self, path: str | Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError):
            error.filename = os.fspath(self._path)
            error.filename2 = None


def is_stream(path: Path) -> bool:
    """Something that is not a regular file, or is below /dev, where /dev/stdout may lead to one."""
    return (path.exists() and not path.is_file()) or path.absolute().parts[:2] in (
        ("/", "dev"),
        ("/", "proc"),
    )


def _check_is_run(path: Path) -> Header | None:
    """The header of the run at `path`, None when there is none. Raises Failure (2) when something else is there."""
    if path.is_symlink() and not path.exists():
        raise Failure(USAGE, f"{path} is a symbolic link to nothing; choose another name with --output")
    try:
        if not path.is_file() or path.stat().st_size == 0:
            return None
        first = next(read(path))
    except FileNotFoundError:  # another run has just renamed it
        return None
    except NotARun as why:
        raise Failure(USAGE, f"{why}; it is not overwritten: choose another name with --output") from None
    return first if isinstance(first, Header) else None


def check_output(path: Path) -> None:
    """Raises Failure (2) or OSError where a new run could not be written to `path`, as `Recording` does. It leaves
    everything as it was.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if is_stream(path):
        return
    _check_is_run(path)
    with _named(path):
        made, file = _create(path.with_name(f"{path.name}.{os.getpid()}{more}.part") for more in _numbers())
        os.close(file)
        made.unlink()


def check_target(path: Path) -> None:
    """Raises Failure (2) when a run is at `path`, where something else is to be written, and OSError when nothing can
    be written there. It leaves everything as it was: a command asks before it works or measures for it.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if is_stream(path):
        return
    file = Path(os.path.realpath(path))
    with _named(path):
        try:
            file.open("xb").close()
        except FileExistsError:
            with contextlib.suppress(NotARun):
                next(read(path))
                raise Failure(USAGE, f"{path} is a run and is not overwritten; choose another name") from None
            file.open("ab").close()
        else:
            file.unlink()


def make_room(path: Path) -> Path | None:
    """Renames the run at `path` to PATH-<its start time>, so that no run is ever lost. Returns the new name, or None
    when no run was there. Raises Failure (2) when something other than a run is there, InUse (2) when the run there is
    still being written.

    A run that is written is locked, and whoever renames or removes a file here has locked it and seen that the name
    still leads to it. So it is never another run's file that has just got this name.
    """
    if is_stream(path):
        return None
    try:
        file = _open_to_lock(path)
    except FileNotFoundError:
        _check_is_run(path)
        return None
    try:
        locked = lock(file)
        if not _is(path, file):
            return None  # it is gone, or another one is there: the caller will see
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise Failure(USAGE, f"{path} is not a run file; it is not overwritten: choose another name")
        if locked is False:
            raise InUse(USAGE, f"another run is being written to {path}")
        if status.st_size == 0:
            path.unlink(missing_ok=True)
            return None
        header = _check_is_run(path)
        if locked is None and not _has_end(file):
            raise InUse(
                USAGE,
                f"another run may still be written to {path}: it is incomplete, and its file system has no locks",
            )
        return next(kept for kept in _names(path, header.started if header else None) if _rename(path, kept))
    except FileNotFoundError:  # without locks another run may have renamed it
        return None
    finally:
        os.close(file)


def _remove_parts_of_dead_runs(output: Path) -> None:
    """What runs left that were killed before their first result. The name has the number of the process that wrote it,
    and it is locked until that and all its workers have ended; a file without a first line may not be locked yet. One
    with a result stays.
    """
    pattern = re.compile(re.escape(output.name) + r"\.(\d+)(-\d+)?\.part")
    for path in output.parent.iterdir():
        match = pattern.fullmatch(path.name)
        if match is None or Path("/proc", match[1]).exists():
            continue
        with contextlib.suppress(OSError):
            file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            status = os.fstat(file)
            own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_size > 0
            if (
                own
                and lock(file)
                and _is(path, file)
                and b'"sample"' not in b"".join(_blocks(file, 0, status.st_size))
            ):
                path.unlink()
            os.close(file)


def _names(path: Path, started: str | None) -> Iterator[Path]:
    """PATH-<start time>, PATH-<start time>-2, ..."""
    when = "".join(character for character in started or "older" if character.isalnum())[:16]
    return (path.with_name(f"{path.stem}-{when}{more}{path.suffix}") for more in _numbers())


def _numbers() -> Iterator[str]:
    return itertools.chain([""], (f"-{number}" for number in itertools.count(2)))


def _create(paths: Iterable[Path]) -> tuple[Path, int]:
    """The first of these names that is free, and a descriptor of the new file."""
    for path in paths:
        with contextlib.suppress(FileExistsError):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            return path, os.open(path, flags, 0o666)
    raise FileExistsError


def _rename(source: Path, target: Path) -> bool:
    """False where a rename would replace a file. Unlike a link and an unlink it loses no file if the name `source` has
    become another run's, which locks prevent where there are any.
    """
    try:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC))  # holds the name
    except FileExistsError:
        return False
    try:
        source.rename(target)
    except OSError:
        target.unlink()
        raise
    return True


def _open_to_lock(path: Path) -> int:
    flags = os.O_CLOEXEC | os.O_NONBLOCK
    try:
        return os.open(path, os.O_RDWR | flags)  # NFS locks only files that are open for writing
    except PermissionError:
        return os.open(path, os.O_RDONLY | flags)


def _open_to_go_on(path: Path) -> int:
    """The run at `path`, locked. What a killed run left of its last line is cut off."""
    if not path.is_file() or _check_is_run(path) is None:
        raise Failure(USAGE, f"{path} is not a run that can be continued")
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    locked = lock(file)
    if locked is False or (locked is None and not _has_end(file)):
        os.close(file)
        raise InUse(USAGE, f"another run is being written to {path}")
    size = os.fstat(file).st_size
    os.ftruncate(file, _end_of_whole_lines(file, size))
    return file


def _is(path: Path, file: int) -> bool:
    """Whether this name leads to this file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except OSError:
        return False


def _has_end(file: int) -> bool:
    size = os.fstat(file).st_size
    last = os.pread(file, 1 << 16, max(0, size - (1 << 16))).rstrip(b"\n").rpartition(b"\n")[2]
    with contextlib.suppress(msgspec.DecodeError):
        return isinstance(decode(last), End)
    return False


def now() -> str:
    """The current time as a run file has it: ISO 8601, UTC, to the second."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def append(file: int, record: Record) -> None:
    """Adds one line with one write. An incomplete last line, left by a killed worker, is cut off first: it was never a
    record, and would make the next one unreadable. Raises OSError.
    """
    size = os.fstat(file).st_size
    whole = _end_of_whole_lines(file, size)
    if whole < size:
        os.ftruncate(file, whole)
    line = encode(record)
    written = os.write(file, line)
    if written < len(line):  # the disk filled up in the middle of the line
        os.write(file, line[written:])  # raises the reason


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
    """Reads along: each call of `new` returns the complete lines since the last one."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._at = 0
        self._checksum = 0  # CRC-32 of what was read
        self._lines = array("I")  # CRC-32 of each line that was read
        self._last = b""  # the last of them
        self._damaged = False

    def new(self) -> list[tuple[bytes, AnyRecord]]:
        """Lines, as they are and as records. Lines of unknown types and unreadable ones are left out. After another
        program has truncated or overwritten the file: those that are not as they were read.
        """
        if os.pread(self._file, len(self._last), self._at - len(self._last)) != self._last:
            self._damaged = True
            self._go_back()
        text = b"".join(_blocks(self._file, self._at, os.fstat(self._file).st_size))
        whole = text[: text.rfind(b"\n") + 1]
        self._at += len(whole)
        self._checksum = zlib.crc32(whole, self._checksum)
        found: list[tuple[bytes, AnyRecord]] = []
        for line in whole.splitlines(keepends=True):
            self._lines.append(zlib.crc32(line))
            self._last = line
            with contextlib.suppress(msgspec.DecodeError):
                record = decode(line)
                if record is not None:
                    found.append((line, record))
        return found

    def intact(self) -> bool:
        """Whether the file still holds what was read."""
        checksum = at = 0
        for block in _blocks(self._file, 0, self._at):
            checksum = zlib.crc32(block, checksum)
            at += len(block)
        return not self._damaged and (at, checksum) == (self._at, self._checksum)

    def _go_back(self) -> None:
        """To the first line that is not as it was read."""
        text = b"".join(_blocks(self._file, 0, os.fstat(self._file).st_size))
        self._at = same = 0
        self._last = b""
        for line, before in zip(text.splitlines(keepends=True), self._lines, strict=False):
            if zlib.crc32(line) != before:
                break
            self._at += len(line)
            self._last = line
            same += 1
        del self._lines[same:]


def _blocks(file: int, start: int, end: int) -> Iterator[bytes]:
    while start < end and (block := os.pread(file, min(end - start, 1 << 20), start)):
        yield block
        start += len(block)
