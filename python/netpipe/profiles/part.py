# SPDX-License-Identifier: Apache-2.0
"""Reads what one rank leaves behind, FOLDER/RANK.part and FOLDER/RANK.trace (src/profiler/part.h), in whatever state
the end of the process left it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

MAGIC = 0x31666F7270706E21
LAYOUT = 2
STATES = {1: "unfinished", 2: "finalized", 3: "aborted"}
THREADS = ("single", "funneled", "serialized", "multiple")  # the levels of MPI, in their order

_u4, _u8, _i4 = "<u4", "<u8", "<i4"
MOMENT = np.dtype([("ticks", _u8), ("monotonic_ns", _u8), ("realtime_ns", _u8)])
REUSE = np.dtype([("accesses", _u8), ("again", _u8), ("bytes", _u8), ("bytes_again", _u8)])
HEADER = np.dtype(
    [
        ("magic", _u8),
        *(
            (name, _u4)
            for name in ("layout", "header_bytes", "entry_bytes", "entry_capacity", "entry_offset")
        ),
        *((f"communicator_{name}", _u4) for name in ("bytes", "capacity", "offset")),
        *((f"member_{name}", _u4) for name in ("capacity", "offset")),
        *((f"call_{name}", _u4) for name in ("bytes", "count", "offset")),
        ("event_bytes", _u4),
        *((name, _i4) for name in ("rank", "ranks", "thread_level", "state", "exit_code")),
        *((name, _u4) for name in ("entries", "communicators", "members")),
        *((name, _u8) for name in ("calls", "mpi_ticks", "compute_ticks")),
        *((name, _u8) for name in ("coarse_calls", "untracked_buffers", "untracked_transfers")),
        *((name, _u8) for name in ("events", "events_lost", "event_limit")),
        ("first", MOMENT),
        ("last", MOMENT),
        ("began", _u8),
        ("ended", _u8),
        ("reuse", REUSE),
        ("pid", _u8),
        ("host", "S64"),
        ("library", "S128"),
        ("program", "S256"),
        *((f"window_{name}", _u4) for name in ("offset", "events")),
    ],
    align=True,
)
ENTRY = np.dtype(
    [
        ("bytes", _u8),
        ("peer", _i4),
        ("call", "<u2"),
        ("communicator", "<u2"),
        ("phase", _i4),
        ("coarse", _u4),
        *((name, _u8) for name in ("calls", "ticks", "most_ticks", "found_done", "waited")),
    ],
    align=True,
)
COMMUNICATOR = np.dtype(
    [
        ("members_hash", _u8),
        *((name, _u4) for name in ("ordinal", "size")),
        ("rank", _i4),
        *((name, _u4) for name in ("first", "listed")),
        ("name", "S20"),
    ],
    align=True,
)
CALL = np.dtype([("name", "S28"), ("does", _u4)])
EVENT = np.dtype(
    [
        *((name, _u8) for name in ("begin", "end", "bytes", "request")),
        *((name, _i4) for name in ("peer", "tag")),
        *((name, "<u2") for name in ("call", "communicator")),
        ("phase", _i4),
    ],
    align=True,
)


class Torn(ValueError):  # noqa: N818  (it reads as what it says)
    """A part that cannot be read; the text says why."""


class Part:
    """One rank. Times are ticks; `ns` converts them."""

    def __init__(self, path: Path) -> None:
        """Raises Torn, OSError."""
        data = path.read_bytes()
        if len(data) < HEADER.itemsize:
            raise Torn(f"{path.name} is cut off")
        self.header: Any = np.frombuffer(data, HEADER, 1)[0]
        header = self.header
        if int(header["magic"]) != MAGIC:
            raise Torn("the process ended while it opened its profile")
        sizes = (
            int(header[name]) for name in ("entry_bytes", "communicator_bytes", "call_bytes", "event_bytes")
        )
        wanted = (ENTRY.itemsize, COMMUNICATOR.itemsize, CALL.itemsize, EVENT.itemsize)
        if int(header["layout"]) != LAYOUT or tuple(sizes) != wanted:
            raise Torn(f"{path.name} was written by another version of the profiler; build it again")

        def table(kind: np.dtype[Any], name: str, count: str) -> Any:
            offset, many = int(header[f"{name}_offset"]), int(header[count])
            if offset + many * kind.itemsize > len(data):
                raise Torn(f"{path.name} is cut off")
            return np.frombuffer(data, kind, many, offset)

        self.calls = table(CALL, "call", "call_count")
        self.communicators = table(COMMUNICATOR, "communicator", "communicators")
        self.members = table(np.dtype(_i4), "member", "members")
        entries = table(ENTRY, "entry", "entry_capacity")
        self.entries = entries[entries["calls"] > 0]
        self._trace = path.with_suffix(".trace")
        self._data = data

    def events(self) -> Any:
        """Read anew at each call: those of all ranks together may be more than the memory holds."""
        events = int(self.header["events"])
        if not events or not self._trace.is_file():
            return np.empty(0, EVENT)
        found = np.fromfile(self._trace, EVENT, events)
        # A process that was killed leaves the last ones in its part.
        left = events - len(found)
        if 0 < left <= int(self.header["window_events"]):
            window = np.frombuffer(self._data, EVENT, left, int(self.header["window_offset"]))
            found = np.concatenate([found, window])
        return found

    @property
    def rank(self) -> int:
        return int(self.header["rank"])

    def text(self, name: str) -> str:
        return bytes(self.header[name]).decode(errors="replace")

    @property
    def threads(self) -> str:
        level = int(self.header["thread_level"])
        return THREADS[level] if 0 <= level < len(THREADS) else THREADS[0]

    def rate(self) -> float:
        """Nanoseconds of a tick. Raises Torn where nothing tells it."""
        first, last = self.header["first"], self.header["last"]
        ticks = int(last["ticks"]) - int(first["ticks"])
        ns = int(last["monotonic_ns"]) - int(first["monotonic_ns"])
        return ns / ticks if ticks > 0 and ns > 0 else 0.0

    def last_ticks(self) -> int:
        """The last moment that is known of this rank."""
        header = self.header
        if int(header["ended"]):
            return int(header["ended"])
        last = int(header["last"]["ticks"])
        if self.threads == "multiple":
            return last  # what was counted is the sum of several threads
        # began + what was counted since, which is later than the last moment that was noted.
        return max(last, int(header["began"]) + int(header["mpi_ticks"]) + int(header["compute_ticks"]))
