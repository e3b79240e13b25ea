# SPDX-License-Identifier: Apache-2.0
"""The tables of a profile's page. docs/reference/profile.md says what each of them counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from netpipe.profiles import Profile
from netpipe.profiles.phases import several
from netpipe.profiles.tables import LIMITS, Both, Portion, Started, Tables
from netpipe.render.page.tables import Column, Table
from netpipe.render.terminal.phases import grouped, phase_name, size_of
from netpipe.render.used import TIMED, USED, timed_cells, used_cells
from netpipe.units import (
    UNKNOWN,
    counts_text,
    exact_percent_text,
    percent_text,
    size_text,
    time_text,
    volume_text,
)

MOST_ROWS = 1000  # of a table; the profile has the others
MOST_MEMBERS = 8  # of a communicator that are named
Row = tuple[str, ...]
Named = tuple[str, Table, str]  # and a sentence below the table


def of_the_paper(found: Tables) -> Iterator[Named]:
    """Tables 1, 3, 4, 5 and 6, each for one rank and for all."""
    if found.rank is None:
        return
    yield "Message sizes", _sizes(found), "A receive counts with its posted size."
    yield "Non-blocking calls", _non_blocking(found), "Found done: complete when the rank came to wait."
    uses = ("reused", "of uses", "share", "reused bytes", "of bytes", "share of bytes")
    calls = ("calls", "of calls", "share", "volume", "of volume", "share of volume")
    if found.buffer_reuse is not None:
        yield "Buffer reuse", _portions(found, found.buffer_reuse, uses), ""
    yield "Collectives", _portions(found, found.collectives, calls), ""
    yield "Messages within a host", _portions(found, found.same_host, calls), ""


def more(profile: Profile, found: Tables) -> Iterator[Named]:
    """Tables that may be long."""
    if found.rank is None:
        return
    of_time = [
        (row.call, *timed_cells(row.rank), *(timed_cells(row.all_ranks) if found.ranks > 1 else ()))
        for row in found.time_by_call
    ]
    yield _limited("Time by call", (Column("call", left=True), *_time_columns(found)), of_time)
    by_size = [
        (
            row.call,
            _size(row.bytes, row.coarse),
            *timed_cells(row.rank),
            *(timed_cells(row.all_ranks) if found.ranks > 1 else ()),
        )
        for row in found.time_by_size
    ]
    columns = (Column("call", left=True), Column("size"), *_time_columns(found))
    yield _limited("Time by call and size", columns, by_size)
    if several(found.phases):
        yield _limited("Phases", _phase_columns(found), list(_phase_rows(found)))
    if len(grouped(found.communicators)) > 1:
        yield _limited("Communicators", _COMMUNICATOR_COLUMNS, list(_communicator_rows(profile, found)))
    yield _limited("Ranks", _RANK_COLUMNS, _rank_rows(profile, found))


def _limited(name: str, columns: Sequence[Column], rows: Sequence[Row]) -> Named:
    said = ""
    if len(rows) > MOST_ROWS:
        said = (
            f"These are the first {MOST_ROWS} of {counts_text(len(rows))} rows; netpipe show --json has all."
        )
    return name, Table(tuple(columns), tuple(rows[:MOST_ROWS])), said


def _who(found: Tables) -> list[str]:
    ranks = found.facts.ranks
    every = f"all {ranks} ranks" if found.ranks == ranks else f"{found.ranks} of {ranks} ranks"
    return [f"rank {found.rank}", *([every] if found.ranks > 1 else [])]


def _numbers(*names: str) -> tuple[Column, ...]:
    return (Column("", left=True), *map(Column, names))


def _sizes(found: Tables) -> Table:
    both = found.message_sizes
    assert both.rank is not None
    rows = [
        (who, *map(counts_text, sizes.calls), volume_text(sizes.bytes))
        for who, sizes in zip(_who(found), (both.rank, both.all_ranks), strict=False)
    ]
    return Table(_numbers(*(f"to {size_text(limit)}" for limit in LIMITS), "larger", "volume"), tuple(rows))


def _non_blocking(found: Tables) -> Table:
    both = found.non_blocking
    assert both.rank is not None
    collectives = both.all_ranks.collectives.calls > 0
    rows = []
    for who, of in zip(_who(found), (both.rank, both.all_ranks), strict=False):
        parts = (of.sends, of.receives, *((of.collectives,) if collectives else ()))
        rows.append((who, *(cell for part in parts for cell in _started(part))))
    names = ("sends", "receives", *(("collectives",) if collectives else ()))
    return Table(
        _numbers(*(cell for name in names for cell in (name, "mean size", "found done"))), tuple(rows)
    )


def _started(of: Started) -> Row:
    return counts_text(of.calls), size_text(of.mean_bytes), percent_text(of.share)


def _portions(found: Tables, both: Both[Portion], names: Iterable[str]) -> Table:
    assert both.rank is not None
    rows = [
        (
            who,
            counts_text(part.calls),
            counts_text(part.of_calls),
            exact_percent_text(part.share),
            volume_text(part.bytes),
            volume_text(part.of_bytes),
            exact_percent_text(part.share_of_bytes),
        )
        for who, part in zip(_who(found), (both.rank, both.all_ranks), strict=False)
    ]
    return Table(_numbers(*names), tuple(rows))


def _time_columns(found: Tables) -> tuple[Column, ...]:
    names = TIMED[1:]
    several = ["all ranks", *names] if found.ranks > 1 else []
    return tuple(map(Column, [f"rank {found.rank}", *names, *several]))


def _size(size_bytes: int | None, coarse: bool) -> str:
    if size_bytes is None:
        return "not known"
    return f"{'≤ ' if coarse else ''}{counts_text(size_bytes)} B"


_COMMUNICATOR_COLUMNS = (
    Column("number"),
    Column("made by", left=True),
    Column("ranks"),
    Column("members", left=True),
    Column("messages"),
    Column("collectives"),
    Column("volume"),
)


def _phase_columns(found: Tables) -> tuple[Column, ...]:
    several_ranks = ["all ranks", *USED[1:], "waits"] if found.ranks > 1 else []
    return tuple(map(Column, ["phase", f"rank {found.rank}", *USED[1:], *several_ranks]))


def _phase_rows(found: Tables) -> Iterator[Row]:
    waits: dict[int | None, int] = {one.phase: one.waiting_ns for one in found.waiting.phases}
    for one in found.phases:
        every = (*used_cells(one.all_ranks), time_text(waits.get(one.phase))) if found.ranks > 1 else ()
        yield (phase_name(one), *used_cells(one.rank), *every)


def _communicator_rows(profile: Profile, found: Tables) -> Iterator[Row]:
    for one in found.communicators:
        known = profile.communicators.get(one.communicator)
        yield (
            str(one.communicator),
            one.made_by or "not known",
            size_of(one),
            _members(known.members) if known is not None else UNKNOWN,
            counts_text(one.messages),
            counts_text(one.collectives),
            volume_text(one.bytes),
        )


def _members(members: Sequence[int]) -> str:
    """0, 1, 2, 3; 0 to 63; 0, 8, 16, 24, ..."""
    if not members:
        return UNKNOWN
    if len(members) > 2 and list(members) == list(range(members[0], members[0] + len(members))):
        return f"{members[0]} to {members[-1]}"
    more = ", ..." if len(members) > MOST_MEMBERS else ""
    return ", ".join(map(str, members[:MOST_MEMBERS])) + more


_RANK_COLUMNS = (
    Column("rank"),
    Column("host", left=True),
    Column("program", left=True),
    Column("process"),
    Column("threads", left=True),
    Column("ended", left=True),
    Column("computes"),
    Column("in MPI"),
    Column("share"),
    Column("calls"),
)


def _rank_rows(profile: Profile, found: Tables) -> list[Row]:
    there = {one.rank for one in found.balance.ranks}
    return [
        (
            str(one.rank),
            one.host,
            one.program,
            str(one.pid) if one.pid else UNKNOWN,
            one.threads,
            one.state,
            *(
                (time_text(one.compute_s * 1e9), time_text(one.mpi_s * 1e9))
                if one.rank in there
                else (UNKNOWN, UNKNOWN)
            ),
            percent_text(one.mpi_s / one.seconds if one.seconds else None),
            counts_text(one.calls),
        )
        for one in profile.ranks
    ]
