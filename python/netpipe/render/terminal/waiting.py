# SPDX-License-Identifier: Apache-2.0
"""Who waited for whom in a profile: a table by rank, one by call, and a sentence that names the late rank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from netpipe.render.terminal.findings import ANSWER
from netpipe.render.terminal.rows import Rows, print_paragraph
from netpipe.units import listed, percent_text, sentence, time_text

if TYPE_CHECKING:
    from rich.console import Console

    from netpipe.profiles.trace.waiting import RankWaiting, Waiting

MOST_RANKS = 16  # that are listed: those that wait longest
MOST_CALLS = 5
WORTH_A_NAME = 0.05  # of the time in MPI is waiting: it is worth saying who is late


def print_waiting(out: Console, waiting: Waiting) -> None:
    """All of it. Of a single rank nothing."""
    if waiting.problem is not None:
        print_paragraph(out, "·", "dim", no_waiting_sentence(waiting), faint=True)
        return
    if len(waiting.ranks) < 2:
        return
    out.print()
    out.print(by_rank_table(waiting))
    if waiting.waiting_ns:
        out.print()
        out.print(by_call_table(waiting))
    print_paragraph(out, *ANSWER, " ".join(waiting_sentences(waiting)))
    for text in notes(waiting):
        print_paragraph(out, "·", "dim", text, faint=True)


def no_waiting_sentence(waiting: Waiting) -> str:
    if not waiting.traced:
        return (
            "There is no trace, so nothing tells how much of the time in MPI is waiting for other ranks; to see it, "
            "profile the program again without --no-trace."
        )
    return sentence(f"How much of the time in MPI is waiting cannot be told: {waiting.problem}")


def _share(part: int, whole: int) -> str:
    return percent_text(part / whole if whole else None)


def by_rank_table(waiting: Waiting) -> Rows:
    made = Rows(
        ("rank", "right"),
        *(
            (name, "right")
            for name in ("in MPI", "waits", "share", "late sender", "late receiver", "collective")
        ),
    )
    ranks = waiting.ranks
    several = len(ranks) > MOST_RANKS
    if several:
        ranks = sorted(ranks, key=lambda one: -one.waiting_ns)[:MOST_RANKS]
    for one in ranks:
        made.add_row(str(one.rank), *_cells([one]))
    if several:
        kept = {one.rank for one in ranks}
        others = [one for one in waiting.ranks if one.rank not in kept]
        made.add_row(f"{len(others)} others", *_cells(others))
    return made


def _cells(ranks: list[RankWaiting]) -> list[str]:
    in_mpi, waits = sum(one.mpi_ns for one in ranks), sum(one.waiting_ns for one in ranks)
    return [
        time_text(in_mpi),
        time_text(waits),
        _share(waits, in_mpi),
        time_text(sum(one.late_sender_ns for one in ranks)),
        time_text(sum(one.late_receiver_ns for one in ranks)),
        time_text(sum(one.collective_ns for one in ranks)),
    ]


def by_call_table(waiting: Waiting) -> Rows:
    made = Rows(
        ("waiting by call", "left"), *((name, "right") for name in ("calls", "time", "waits", "share"))
    )
    for one in [one for one in waiting.calls if one.waiting_ns][:MOST_CALLS]:
        calls = f"{one.calls:,}" if one.calls >= 10_000 else str(one.calls)
        share = _share(one.waiting_ns, one.time_ns)
        made.add_row(one.call, calls, time_text(one.time_ns), time_text(one.waiting_ns), share)
    return made


def waiting_sentences(waiting: Waiting) -> Iterator[str]:
    """How much is waiting, who is late, and who waits for it."""
    whole = waiting.waiting_ns
    yield f"{_share(whole, waiting.mpi_ns)} of the time in MPI is waiting for other ranks; the rest is transfer."
    if whole <= WORTH_A_NAME * waiting.mpi_ns:
        return
    late = max(waiting.ranks, key=lambda one: one.waited_for_ns)
    yield (
        f"Rank {late.rank} is late most: other ranks wait {time_text(late.waited_for_ns)} for it, "
        f"{_share(late.waited_for_ns, whole)} of all waiting."
    )
    pairs = listed(
        f"rank {one.rank} for rank {one.late} ({time_text(one.waiting_ns)})" for one in waiting.pairs
    )
    yield f"The longest waiting: {pairs}."


def notes(waiting: Waiting) -> Iterator[str]:
    """What is not judged."""
    if waiting.clocks_apart:
        whose = (
            "some of whose clocks differ"
            if waiting.hosts > waiting.clocks_apart + 1
            else "whose clocks differ"
        )
        yield (
            f"The ranks are on {waiting.hosts} hosts, {whose} by times that the trace does not tell: waiting for a "
            "host of such a clock counts as transfer."
        )
    if waiting.hosts > waiting.clocks_apart + 1:
        yield (
            f"The clocks of the hosts were compared by their messages, to ± {time_text(waiting.clock_error_ns)}: by so "
            "much the waiting of a call for another host may be wrong."
        )
    if waiting.events < waiting.of_events:
        of = "" if waiting.phase is None else f" of phase {waiting.phase}"
        yield (
            f"Waiting is judged on the first {_share(waiting.events, waiting.of_events)} of the trace{of}, "
            f"{waiting.events:,} of {waiting.of_events:,} events; netpipe show --events N judges more."
        )
    if waiting.unmatched and not waiting.truncated and waiting.events == waiting.of_events:
        calls = "call lacks its" if waiting.unmatched == 1 else "calls lack their"
        yield (
            f"{waiting.unmatched:,} {calls} other half in the trace (a send without its receive, a collective without "
            "all of its ranks): all of that time counts as transfer."
        )
    if waiting.untraced_ns > WORTH_A_NAME * waiting.mpi_ns:
        yield (
            f"Another {time_text(waiting.untraced_ns)} in MPI are not judged: probes, and tests that find nothing, are "
            "not in the trace."
        )
