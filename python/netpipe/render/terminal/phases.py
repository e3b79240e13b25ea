# SPDX-License-Identifier: Apache-2.0
"""What a program did in each phase of MPI_Pcontrol, and in each of its communicators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from netpipe.profiles.phases import Used, several
from netpipe.render.terminal.rows import Rows
from netpipe.render.used import USED, used_cells
from netpipe.units import UNKNOWN, counts_text, percent_text, time_text, volume_text

if TYPE_CHECKING:
    from netpipe.profiles.communicators import CommunicatorUse
    from netpipe.profiles.phases import PhaseUse
    from netpipe.profiles.tables import Tables

MOST_PHASES = 10  # that have a row of their own; the others are summed
MOST_GROUPS = 10  # of communicators, the same
# Of the rank, and of all ranks: the first that the terminal has room for.
PHASE_COLUMNS = ((USED[:2], USED), (USED[:1], (*USED[:4], USED[5])), ((), (*USED[:4], USED[5])))
Columns = tuple[tuple[str, ...], tuple[str, ...]]


def phase_sentences(tables: Tables) -> Iterator[str]:
    """Where the tables are of one phase: how much that is."""
    if tables.phase is None:
        return
    whole = sum(one.all_ranks.time_ns for one in tables.phases)
    here = next(one for one in tables.phases if one.phase == tables.phase).all_ranks
    share = percent_text(here.time_ns / whole if whole else None)
    yield (
        f"The tables are of phase {tables.phase} alone, which has {share} of the time in MPI. Buffer reuse and "
        "computing are known only for the whole program."
    )


def most_sentence(tables: Tables) -> str | None:
    """The phase with most of the time in MPI; None where the program has one phase."""
    whole = sum(one.all_ranks.time_ns for one in tables.phases)
    if not several(tables.phases) or whole == 0:
        return None
    most = max((one for one in tables.phases if one.phase is not None), key=lambda one: one.all_ranks.time_ns)
    return f"Phase {most.phase} has most of the time in MPI: {percent_text(most.all_ranks.time_ns / whole)}."


# ------------------------------------------------------------------------------------------------------------- phases


def phase_table(tables: Tables, columns: Columns = PHASE_COLUMNS[0]) -> Rows | None:
    """The phases with most of the time in MPI, by number; None where the program has one phase, or one was chosen."""
    if tables.phase is not None or not several(tables.phases):
        return None
    mine, every = columns if tables.ranks > 1 else ((), columns[1])
    waits = {one.phase: (one.waiting_ns, one.time_ns) for one in tables.waiting.phases}
    waiting = tables.waiting.problem is None and tables.ranks > 1
    headers = [*_headers(f"rank {tables.rank}", mine), *_headers(_whose(tables), every)]
    made = Rows(
        ("phase", "right"),
        *((name, "right") for name in (*headers, *(("waits", "of time") if waiting else ()))),
    )
    kept, others = largest(tables.phases)
    for name, group in (*((phase_name(one), [one]) for one in kept), (f"{len(others)} others", others)):
        if not group:
            continue
        made.add_row(
            name,
            *used_cells(_sum([one.rank for one in group]), mine),
            *used_cells(_sum([one.all_ranks for one in group]), every),
            *(_waiting_cells([waits[one.phase] for one in group if one.phase in waits]) if waiting else ()),
        )
    return made


def largest(found: Sequence[PhaseUse], most: int = MOST_PHASES) -> tuple[list[PhaseUse], list[PhaseUse]]:
    """Those with most of the time in MPI, and the others where there are more than one; both in their order."""
    if len(found) <= most + 1:
        return list(found), []
    by_time = sorted(range(len(found)), key=lambda at: -found[at].all_ranks.time_ns)
    kept = {*by_time[:most]}
    return (
        [one for at, one in enumerate(found) if at in kept],
        [one for at, one in enumerate(found) if at not in kept],
    )


def phase_name(one: PhaseUse) -> str:
    return "not known" if one.phase is None else str(one.phase)


def _whose(tables: Tables) -> str:
    return "all ranks" if tables.ranks > 1 else f"rank {tables.rank}"


def _headers(who: str, columns: Sequence[str]) -> list[str]:
    return [who, *columns[1:]] if columns else []


def _waiting_cells(several_phases: Sequence[tuple[int, int]]) -> list[str]:
    """How long, and which part of the time in MPI that is in the trace; phases that the trace lacks have neither."""
    if not several_phases:
        return [UNKNOWN, UNKNOWN]
    waits, time = (sum(values) for values in zip(*several_phases, strict=True))
    return [time_text(waits), percent_text(waits / time if time else None)]


def _sum(some: Sequence[Used | None]) -> Used | None:
    there = [one for one in some if one is not None]
    if not there:
        return None
    shares = [one.share for one in there if one.share is not None]
    return Used(
        sum(one.calls for one in there),
        sum(one.time_ns for one in there),
        sum(shares) if shares else None,
        sum(one.messages for one in there),
        sum(one.collectives for one in there),
        sum(one.bytes for one in there),
    )


# ------------------------------------------------------------------------------------------------------- communicators


def communicator_table(tables: Tables) -> Rows | None:
    """Those of one origin and size in one row; None where everything is in MPI_COMM_WORLD."""
    groups = grouped(tables.communicators)
    if len(groups) < 2:
        return None
    made = Rows(
        ("communicators", "left"),
        *((name, "right") for name in ("ranks", "count", "used", "messages", "collectives", "volume")),
    )
    kept = groups if len(groups) <= MOST_GROUPS + 1 else groups[:MOST_GROUPS]
    for group in kept:
        made.add_row(group[0].made_by or "not known", size_of(group[0]), *_communicator_cells(group))
    if others := [one for group in groups[len(kept) :] for one in group]:
        made.add_row("others", "", *_communicator_cells(others))
    return made


def grouped(found: Sequence[CommunicatorUse]) -> list[list[CommunicatorUse]]:
    """By origin and number of ranks, the largest volume first. Without MPI_COMM_SELF in which nothing was sent: every
    rank has it.
    """
    groups: dict[tuple[str, int], list[CommunicatorUse]] = {}
    for one in found:
        if used(one) or one.made_by != "MPI_COMM_SELF":
            groups.setdefault((one.made_by, one.size), []).append(one)
    return sorted(groups.values(), key=lambda group: -sum(one.bytes for one in group))


def used(one: CommunicatorUse) -> bool:
    return one.messages + one.collectives > 0


def size_of(one: CommunicatorUse) -> str:
    return str(one.size) if one.size else UNKNOWN


def _communicator_cells(group: Sequence[CommunicatorUse]) -> list[str]:
    return [
        counts_text(len(group)),
        counts_text(sum(map(used, group))),
        counts_text(sum(one.messages for one in group)),
        counts_text(sum(one.collectives for one in group)),
        volume_text(sum(one.bytes for one in group)),
    ]
