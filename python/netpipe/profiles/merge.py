# SPDX-License-Identifier: Apache-2.0
"""The parts of all ranks as one profile."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from netpipe.profiles.lines import Call, Communicator, End, Entries, Header, Profile, Rank, Reuse, Trace
from netpipe.profiles.part import STATES, Part, Torn

DOES = (  # bits of src/profiler/calls.h, from the lowest
    *(
        "sends",
        "receives",
        "collective",
        "starts",
        "completes",
        "one_sided",
        "sets_up",
        "no_data",
        "persistent",
    ),
    "half",
)
LAST_NUMBER = 0xFFFF  # of a communicator that a trace can name
FOREIGN = "foreign.problem"  # what src/profiler/foreign.c writes


@dataclass(slots=True)
class Parts:
    """What was found in the folder of a job."""

    parts: list[Part] = field(default_factory=list)
    problems: dict[int, str] = field(default_factory=dict)  # by rank
    foreign: str = ""  # of a program that uses another MPI than the profiler was built for

    @property
    def why(self) -> str:
        """Why there is no part, as far as somebody has said it."""
        return next(iter(self.problems.values()), self.foreign)

    @property
    def ranks(self) -> int:
        return max((int(part.header["ranks"]) for part in self.parts), default=0)


def find(folder: Path) -> Parts:
    """Everything in a folder that is a part."""
    found = Parts()
    for path in folder.iterdir():
        if path.name == FOREIGN:
            found.foreign = library_text(path.read_text(errors="replace"))
            continue
        name = re.fullmatch(r"(\d+)\.(part|problem)", path.name)
        if name is None:
            continue
        rank = int(name[1])
        if name[2] == "problem":
            found.problems[rank] = path.read_text(errors="replace").strip()
            continue
        try:
            found.parts.append(Part(path))
        except Torn as error:
            found.problems[rank] = str(error)
    found.parts.sort(key=lambda part: part.rank)
    return found


def merge(found: Parts, header: Header, end: End) -> Profile:
    """`header` lacks what the parts know. Needs at least one part."""
    parts = found.parts
    first = parts[0]
    header.ranks = found.ranks
    header.library = header.library or library_text(first.text("library")) or None
    header.calls = [_call(one) for one in first.calls]
    # A rank that died early may not know how long a tick is; the others of its host do.
    rates = {part.text("host"): rate for part in parts if (rate := part.rate()) > 0}
    profile = Profile(iter([header]))
    profile.end = end
    numbers = _number_communicators(parts, profile)
    # Processes of one host read one clock. Between hosts there is only the time of day, which their clocks agree on as
    # far as somebody has set them.
    clock = "monotonic_ns" if len({part.text("host") for part in parts}) == 1 else "realtime_ns"
    origin = min(int(part.header["first"][clock]) for part in parts)
    for part in parts:
        rate = part.rate() or rates.get(part.text("host"), 1.0)
        events = part.events()
        profile.ranks.append(_rank(part, rate, len(events), found.problems.get(part.rank)))
        profile.entries[part.rank] = _entries(part, rate, numbers[part.rank])
        if len(events):
            profile.traces[part.rank] = _trace(part, events, rate, numbers[part.rank], clock, origin)
    there = {part.rank for part in parts}
    for rank in range(header.ranks):
        if rank not in there:
            why = found.problems.get(rank, "it left nothing behind")
            profile.ranks.append(Rank(rank=rank, state="unfinished", problem=why))
    profile.ranks.sort(key=lambda one: one.rank)
    return profile


def library_text(said: str) -> str:
    """The name and version of a library, of the text that it returns: MPICH says "MPICH Version:      5.0.2"."""
    return " ".join(said.replace("Version:", " ").split())


def _call(one: Any) -> Call:
    does = int(one["does"])
    return Call(
        name=bytes(one["name"]).decode(), does=[word for bit, word in enumerate(DOES) if does >> bit & 1]
    )


def _rank(part: Part, rate: float, events: int, problem: str | None) -> Rank:
    header = part.header
    state = int(header["state"])

    def seconds(ticks: int) -> float:
        return round(ticks * rate * 1e-9, 9)

    return Rank(
        rank=part.rank,
        host=part.text("host"),
        pid=int(header["pid"]),
        program=part.text("program"),
        state=STATES.get(state, "unfinished"),
        exit_code=int(header["exit_code"]) if STATES.get(state) == "aborted" else None,
        threads=part.threads,
        seconds=seconds(part.last_ticks() - int(header["began"])),
        mpi_s=seconds(int(header["mpi_ticks"])),
        compute_s=seconds(int(header["compute_ticks"])),
        calls=int(header["calls"]),
        reuse=Reuse(**{name: int(header["reuse"][name]) for name in header["reuse"].dtype.names}),
        untracked_buffers=int(header["untracked_buffers"]),
        untracked_transfers=int(header["untracked_transfers"]),
        coarse_calls=int(header["coarse_calls"]),
        events=events,
        events_complete=not int(header["event_limit"]) or not int(header["events_lost"]),
        problem=problem,
    )


def _number_communicators(parts: Sequence[Part], profile: Profile) -> dict[int, list[int]]:
    """Gives every communicator one number on all ranks. Returns, for each rank, the numbers of its own ones. Those that
    a rank has alone, of which there may be more than a trace can name, come last: no message between ranks is theirs.
    """
    known: dict[tuple[int, int, int], int] = {}
    there = [(part, one, _key(part, one)) for part in parts for one in part.communicators]
    for part, one, key in sorted(there, key=lambda each: each[2][2] >= 0):
        if key not in known:
            known[key] = len(known)
            profile.communicators[known[key]] = Communicator(
                communicator=known[key],
                size=int(one["size"]),
                members=_members(part, one),
                made_by=bytes(one["name"]).decode(),
            )
    numbers: dict[int, list[int]] = {part.rank: [] for part in parts}
    for part, _, key in there:
        numbers[part.rank].append(known[key])
    return numbers


def _members(part: Part, communicator: Any) -> list[int]:
    first, listed = int(communicator["first"]), int(communicator["listed"])
    return [int(rank) for rank in part.members[first : first + listed]]


def _key(part: Part, communicator: Any) -> tuple[int, int, int]:
    """What is the same on all ranks that have it; the last is the rank that has it alone, or -1."""
    alone = _members(part, communicator) == [part.rank]
    return int(communicator["members_hash"]), int(communicator["ordinal"]), part.rank if alone else -1


def _entries(part: Part, rate: float, numbers: list[int]) -> Entries:
    rows = part.entries
    order = np.lexsort((rows["peer"], rows["bytes"], rows["call"], rows["phase"]))
    rows = rows[order]

    def whole(name: str) -> list[int]:
        return [int(value) for value in rows[name]]

    def ns(name: str) -> list[int]:
        return [round(int(value) * rate) for value in rows[name]]

    return Entries(
        rank=part.rank,
        call=whole("call"),
        bytes=whole("bytes"),
        peer=whole("peer"),
        communicator=[numbers[int(one)] if int(one) < len(numbers) else 0 for one in rows["communicator"]],
        phase=whole("phase"),
        coarse=whole("coarse"),
        calls=whole("calls"),
        time_ns=ns("ticks"),
        most_ns=ns("most_ticks"),
        waited=whole("waited"),
        found_done=whole("found_done"),
    )


def _trace(part: Part, events: Any, rate: float, numbers: list[int], clock: str, origin: int) -> Trace:
    """Times count from the moment at which the first rank came out of MPI_Init."""
    first = part.header["first"]
    begin = (events["begin"].astype(np.int64) - np.int64(first["ticks"])) * rate + (
        int(first[clock]) - origin
    )
    lasted = (events["end"] - events["begin"]).astype(np.int64) * rate
    columns: dict[str, Any] = {
        name: events[name] for name in ("bytes", "request", "peer", "tag", "call", "phase")
    }
    columns["begin_ns"] = np.rint(begin)
    columns["duration_ns"] = np.rint(np.maximum(lasted, 0))
    lookup = np.minimum([*numbers, 0], LAST_NUMBER)
    columns["communicator"] = lookup[np.minimum(events["communicator"], len(numbers))]
    return Trace.of(part.rank, columns)
