# SPDX-License-Identifier: Apache-2.0
"""The lines of a profile (docs/reference/profile.md): the only place in Python that knows the format.

A profile is a file of JSON Lines, as a run is. The first line is `profile`, then there is a `rank` for each process, a
`communicator` for each that was used, the `entries` of each rank (what it called, by kind, size and peer), and its
`trace` if one was taken. Unknown fields and types are ignored. Sizes are bytes, times nanoseconds (`*_ns`) or seconds
(`*_s`).
"""

from __future__ import annotations

import base64
import os
import zlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from netpipe.contents import Unbounded, blocks_of_lines

if TYPE_CHECKING:
    import numpy as np

SCHEMA = 1  # rises when a field changes its meaning
# peers that are no rank: MPI_ANY_SOURCE, none, more than the tables had room for
ANY, NONE, MANY = (-1, -2, -3)
ALL_SIZES = 4  # the degree of coarseness at which bytes is 0, whatever the sizes were

EVENT_COLUMNS = {  # of a trace, and how each is kept
    "begin_ns": "<i8",
    "duration_ns": "<i8",
    "bytes": "<u8",
    "request": "<u8",
    "peer": "<i4",
    "tag": "<i4",
    "call": "<u2",
    "communicator": "<u2",
    "phase": "<i4",
}
# events of a trace in one line, which then has some 10 MB: no reader takes lines without a bound
PIECE = 1 << 20
LARGEST_PIECE = 64 << 20  # bytes of a column in one line: eight times what there is
LARGEST = (1 << 64) - 1  # to which a rank can count

Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
Number = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]  # of a rank, or of ranks


class NotAProfile(ValueError):  # noqa: N818  (it reads as what it says)
    """The file is not a profile, or this netpipe cannot read it; the text names the file."""


class Line(msgspec.Struct, kw_only=True, tag_field="type", omit_defaults=True):
    """One line of a profile."""


class Call(msgspec.Struct, kw_only=True):
    """A call that is counted. Entries and events name it by its place in the list of calls."""

    name: str  # without MPI_
    does: list[str] = []  # sends, receives, collective, starts, completes, one_sided, sets_up, no_data, ...


class Header(Line, kw_only=True, tag="profile"):
    """The first line."""

    schema: int
    profile: str  # 32 hex digits
    netpipe: str | None = None
    started: str | None = None  # ISO 8601, UTC
    host: str | None = None  # on which the command was given
    processors: Number = 0  # of that host, which the command could use; 0: not known
    command: list[str] = []
    library: str | None = None  # as it calls itself: "Open MPI v5.0.11"
    module: str | None = None  # of netpipe, that binds the same library: mpi@openmpi
    ranks: Number = 0  # of MPI_COMM_WORLD
    calls: list[Call] = []


class Reuse(msgspec.Struct, kw_only=True):
    """Accesses are buffers of calls; `again` are those that began where a buffer began that was used before."""

    accesses: int = 0
    again: int = 0
    bytes: int = 0
    bytes_again: int = 0


class Rank(Line, kw_only=True, tag="rank"):
    rank: Number
    host: str = ""
    pid: int = 0
    program: str = ""
    state: str = "finalized"  # or aborted (MPI_Abort), unfinished (it never called MPI_Finalize)
    exit_code: int | None = None  # of MPI_Abort
    threads: str = "single"  # the thread level that it got
    seconds: Seconds = 0.0  # from the end of MPI_Init to MPI_Finalize, or to the last moment that is known
    mpi_s: Seconds = 0.0  # of them in calls that are counted
    compute_s: Seconds = 0.0  # and between calls
    calls: int = 0
    reuse: Reuse = msgspec.field(default_factory=Reuse)
    untracked_buffers: int = 0  # first uses for which there was no room
    untracked_transfers: int = 0  # that were started while too many were under way to follow one more
    coarse_calls: int = 0  # whose size was rounded up to a power of two, or more was lost, for want of room
    events: int = 0
    events_complete: bool = True  # False: the trace ended before the program did
    problem: str | None = None  # why there is nothing of this rank


class Communicator(Line, kw_only=True, tag="communicator"):
    communicator: int  # how entries and events name it
    size: int
    members: list[int] = []  # ranks in MPI_COMM_WORLD, in the order of the communicator; empty: not known
    made_by: str = ""


class Entries(Line, kw_only=True, tag="entries"):
    """What one rank called. One row is one kind of call; all lists have one length."""

    rank: Number
    call: list[int] = []
    bytes: list[int] = []
    peer: list[int] = []  # a rank of MPI_COMM_WORLD, the root of a collective, or -1 any, -2 none, -3 many
    communicator: list[int] = []
    phase: list[int] = []  # 0: many
    # How much was put together for want of room, as src/profiler/part.h says; up to ALL_SIZES.
    coarse: list[int] = []
    calls: list[int] = []
    time_ns: list[int] = []  # of all these calls together
    most_ns: list[int] = []
    waited: list[int] = []  # of calls that start a transfer: how many were waited for
    found_done: list[int] = []  # and were done by then


class Trace(Line, kw_only=True, tag="trace"):
    """The calls of one rank in their order. `columns` are EVENT_COLUMNS: bytes, packed by zlib, as base64. A long trace
    is several lines, each of which continues the one before; in memory their texts are joined by blanks.
    """

    rank: Number
    events: int
    columns: dict[str, str] = {}

    def column(self, name: str) -> np.ndarray[Any, Any]:
        """Raises NotAProfile."""
        import numpy as np

        try:
            pieces = [np.frombuffer(piece, EVENT_COLUMNS[name]) for piece in self._unpacked(name)]
            whole = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        except (KeyError, ValueError, zlib.error):
            raise NotAProfile(f"the trace of rank {self.rank} is damaged: {name} cannot be read") from None
        if len(whole) != self.events:
            raise NotAProfile(f"the trace of rank {self.rank} is damaged: {name} has {len(whole)} values")
        return whole

    def _unpacked(self, name: str) -> list[bytes]:
        """Raises KeyError, ValueError, zlib.error."""
        unpacked = []
        for piece in self.columns[name].split():
            stream = zlib.decompressobj()
            unpacked.append(stream.decompress(base64.b64decode(piece), LARGEST_PIECE))
            if not stream.eof:
                raise ValueError  # cut off, or a few bytes that would fill the memory
        return unpacked

    @classmethod
    def of(cls, rank: int, columns: dict[str, np.ndarray[Any, Any]]) -> Trace:
        events = len(columns["begin_ns"])
        packed = {}
        for name, kind in EVENT_COLUMNS.items():
            pieces = [columns[name][at : at + PIECE].astype(kind) for at in range(0, max(events, 1), PIECE)]
            packed[name] = " ".join(
                base64.b64encode(zlib.compress(piece.tobytes(), 6)).decode() for piece in pieces
            )
        return cls(rank=rank, events=events, columns=packed)

    def followed_by(self, other: Trace) -> Trace:
        """This, and the next line of the same rank."""
        names = self.columns.keys() & other.columns.keys()
        joined = {name: f"{self.columns[name]} {other.columns[name]}" for name in names}
        return Trace(rank=self.rank, events=self.events + other.events, columns=joined)

    def lines(self) -> Iterator[Trace]:
        """As many as a file has of it."""
        texts = {name: text.split() for name, text in self.columns.items()}
        first = texts.get("begin_ns", [])
        if len(first) < 2:
            yield self
            return
        for at, piece in enumerate(self._unpacked("begin_ns")):
            columns = {name: text[at] for name, text in texts.items() if len(text) == len(first)}
            yield Trace(rank=self.rank, events=len(piece) // 8, columns=columns)


class End(Line, kw_only=True, tag="end"):
    """The last line. A file without it was cut off."""

    exit_code: int | None = 0  # of the command; None: it had not ended, or netpipe was killed before it did
    wall_s: Seconds = 0.0


AnyLine = Header | Rank | Communicator | Entries | Trace | End
_decoder = msgspec.json.Decoder(AnyLine)
_encoder = msgspec.json.Encoder()
_KINDS = {kind.__struct_config__.tag: kind for kind in (Header, Rank, Communicator, Entries, Trace, End)}


class _Type(msgspec.Struct):
    type: str
    schema: int = SCHEMA


class Profile:
    """A profile in memory."""

    def __init__(self, lines: Iterator[AnyLine]) -> None:
        self.header = Header(schema=SCHEMA, profile="")
        self.ranks: list[Rank] = []
        self.communicators: dict[int, Communicator] = {}
        self.entries: dict[int, Entries] = {}
        self.traces: dict[int, Trace] = {}
        self.end: End | None = None
        for line in lines:
            if isinstance(line, Header):
                self.header = line
            elif isinstance(line, Rank):
                self.ranks.append(line)
            elif isinstance(line, Communicator):
                self.communicators[line.communicator] = line
            elif isinstance(line, Entries):
                self.entries[line.rank] = line
            elif isinstance(line, Trace):
                before = self.traces.get(line.rank)
                self.traces[line.rank] = line if before is None else before.followed_by(line)
            else:
                self.end = line

    @cached_property
    def hosts(self) -> dict[int, str]:
        return {rank.rank: rank.host for rank in self.ranks}

    def number(self, name: str) -> int | None:
        """The place of a call among the calls."""
        return next((at for at, call in enumerate(self.header.calls) if call.name == name), None)

    def does(self, call: int, what: str) -> bool:
        return 0 <= call < len(self.header.calls) and what in self.header.calls[call].does

    def lines(self) -> Iterator[AnyLine]:
        yield self.header
        yield from self.ranks
        yield from self.communicators.values()
        yield from self.entries.values()
        for trace in self.traces.values():
            yield from trace.lines()
        if self.end is not None:
            yield self.end


def write(profile: Profile, path: Path) -> None:
    """Raises OSError. The file appears whole or not at all."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            for line in profile.lines():
                file.write(_encoder.encode(line) + b"\n")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def is_profile(path: Path) -> bool:
    """Whether it is a file whose first line says so. Nothing is read of a pipe, where it would be gone."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return b'"type":"profile"' in file.read(4096).partition(b"\n")[0]
    except OSError:
        return False


def read(path: Path) -> Profile:
    """A torn last line is left out. Raises NotAProfile, OSError."""
    return Profile(_lines(path))


def _lines(path: Path) -> Iterator[AnyLine]:
    number = 0
    with path.open("rb") as file:
        try:
            for block, _ in blocks_of_lines(file):
                for line in block.splitlines(keepends=True):
                    number += 1
                    found = _line(path, line, number)
                    if found is not None:
                        yield found
        except Unbounded as error:
            raise NotAProfile(f"{path} {error}".replace("netpipe run file", "profile")) from None
    if number == 0:
        raise NotAProfile(f"{path} is not a profile: it is empty")


def _line(path: Path, line: bytes, number: int) -> AnyLine | None:
    try:
        found: AnyLine = _decoder.decode(line)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        if number > 1 and not line.endswith(b"\n"):
            return None  # torn
        try:
            told = msgspec.json.decode(line, type=_Type)
        except (msgspec.DecodeError, ValueError, RecursionError):
            told = _Type(type="")
        if number > 1 and told.type and told.type not in _KINDS:
            return None  # of a newer netpipe
        if number == 1 and told.type == Header.__struct_config__.tag:
            _check_schema(path, told.schema)
        if number == 1 and told.type not in ("", Header.__struct_config__.tag):
            raise NotAProfile(f"{path} is not a profile: it begins with a record '{told.type}'") from None
        what = "is not a profile" if number == 1 else f"is damaged in line {number}"
        raise NotAProfile(f"{path} {what}: {error}") from None
    if number == 1:
        if not isinstance(found, Header):
            raise NotAProfile(f"{path} is not a profile: its first line is {type(found).__name__.lower()}")
        _check_schema(path, found.schema)
    elif isinstance(found, Header):
        raise NotAProfile(f"{path} holds two profiles: line {number} begins another one")
    if wrong := _wrong(found):
        raise NotAProfile(f"{path} is damaged in line {number}: {wrong}")
    return found


def _check_schema(path: Path, schema: int) -> None:
    if schema > SCHEMA:
        raise NotAProfile(
            f"{path} is of a newer netpipe (schema {schema}, this one reads {SCHEMA}); update netpipe"
        )


def _wrong(line: AnyLine) -> str | None:
    """What no rank can have counted, and lists of different lengths."""
    if isinstance(line, Entries):
        for name in line.__struct_fields__[1:]:
            values: list[int] = getattr(line, name)
            if len(values) != len(line.call):
                return f"{name} has {len(values)} values, and call has {len(line.call)}"
            least = -(1 << 31) if name in ("peer", "phase") else 0
            most = (1 << 31) - 1 if name in ("call", "peer", "communicator", "phase") else LARGEST
            if values and (min(values) < least or max(values) > most):
                return f"{name} has a value out of range"
    elif isinstance(line, Rank):
        counts = {**msgspec.structs.asdict(line), **msgspec.structs.asdict(line.reuse)}
        for name, value in counts.items():
            if isinstance(value, int) and name != "exit_code" and not 0 <= value <= LARGEST:
                return f"{name} is out of range"
    return None
