# SPDX-License-Identifier: Apache-2.0
"""A profile on one screen: who ran, what is missing, the tables of Liu et al. 2003, where the time goes, and who is
late. docs/reference/profile.md says what each table counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from rich.measure import Measurement

from netpipe.profiles.missing import lost_text, ranks_text
from netpipe.profiles.tables import IMBALANCE, LIMITS, Timed
from netpipe.render.terminal.findings import ANSWER
from netpipe.render.terminal.phases import PHASE_COLUMNS, communicator_table, phase_sentences, phase_table
from netpipe.render.terminal.rows import Rows, print_paragraph
from netpipe.render.terminal.waiting import print_waiting
from netpipe.render.used import MOST_CALLS, TIMED, timed_cells
from netpipe.render.words import library_text, moment_text, programs_text, ranks_on_hosts
from netpipe.units import (
    capital,
    counted,
    counts_text,
    exact_percent_text,
    percent_text,
    sentence,
    size_text,
    time_text,
    volume_text,
)

if TYPE_CHECKING:
    from rich.console import Console

    from netpipe.profiles.missing import Gap
    from netpipe.profiles.tables import (
        Both,
        CallTime,
        Facts,
        Portion,
        RankTime,
        SizeTime,
        Started,
        Tables,
    )

WARNED = ("!", "yellow")
CALLS_BY_SIZE = 3
MOST_SIZES = 6  # of a call
MOST_RANKS = 16  # that are listed; of more the quartiles
WIDEST = 10_000  # columns, to ask for the natural width of a table

# Of calls of one rank, and of all ranks: the first that the terminal has room for.
TIME_COLUMNS = ((TIMED, TIMED), (TIMED, TIMED[:2]), (TIMED[:4], TIMED[:2]))
TimeColumns = tuple[tuple[str, ...], tuple[str, ...]]


def print_profile(out: Console, tables: Tables) -> None:
    """All of it."""
    out.print(" ".join(facts_sentences(tables.facts)), markup=False)
    for gap in gap_sentences(tables.missing, tables.facts.ranks):
        print_paragraph(out, *WARNED, gap)
    if tables.rank is None:
        return
    for text in phase_sentences(tables):
        print_paragraph(out, *ANSWER, text)
    out.print()
    out.print(sizes_table(tables))
    out.print()
    out.print(non_blocking_table(tables))
    for text in _collectives_started(tables):
        print_paragraph(out, "·", "dim", text, faint=True)
    out.print()
    out.print(portions_table(tables))
    if tables.ranks_per_host is not None:
        text = (
            f"Here {counted(tables.ranks_per_host, 'rank')} at a time count as one host (--ranks-per-host)."
        )
        print_paragraph(out, "·", "dim", text, faint=True)
    if tables.time_by_call:
        out.print()
        out.print(_that_fits(out, (time_table(tables, columns) for columns in TIME_COLUMNS)))
        out.print()
        out.print(_that_fits(out, (by_size_table(tables, columns) for columns in TIME_COLUMNS)))
    if phase_table(tables) is not None:
        out.print()
        out.print(_that_fits(out, (made for some in PHASE_COLUMNS if (made := phase_table(tables, some)))))
    if (made := communicator_table(tables)) is not None:
        out.print()
        out.print(made)
    if tables.balance.ranks:
        out.print()
        out.print(balance_table(tables))
    if late := late_sentence(tables):
        print_paragraph(out, *ANSWER, late)
    print_waiting(out, tables.waiting)


def _that_fits(out: Console, made: Iterable[Rows]) -> Rows:
    """The first that fits, or the last."""
    wide = out.options.update(max_width=WIDEST)
    for one in made:
        if Measurement.get(out, wide, one).maximum <= out.width:
            break
    return one


# ---------------------------------------------------------------------------------------------------------- sentences


def facts_sentences(facts: Facts) -> Iterator[str]:
    """What ran, where, for how long, and how much of that was MPI."""
    library = f" with {text}" if (text := library_text(facts)) else ""
    module = f" ({facts.module})" if facts.library and facts.module else ""
    when = f", {start}" if (start := moment_text(facts.started)) else ""
    yield f"{programs_text(facts)}{library}{module}: {ranks_on_hosts(facts)}{when}."
    if facts.seconds is None:
        return
    time = f"It took {time_text(facts.seconds * 1e9)} from MPI_Init to MPI_Finalize"
    share = facts.in_mpi
    if share is None:
        yield f"{time}."
    elif facts.ranks == 1 or share.least_rank == share.most_rank:
        yield f"{time} and spent {percent_text(share.mean)} of that in {counts_text(facts.calls)} calls of MPI."
    else:
        yield (
            f"{time} and spent {percent_text(share.mean)} of that in MPI (mean over the ranks; least "
            f"{percent_text(share.least)} on rank {share.least_rank}, most {percent_text(share.most)} on rank "
            f"{share.most_rank}), in {counts_text(facts.calls)} calls."
        )


def gap_sentences(gaps: Iterable[Gap], ranks: int) -> Iterator[str]:
    """What is missing, a sentence each. `ranks`: of the program."""
    for gap in gaps:
        yield sentence(_gap_text(gap, ranks))


def _gap_text(gap: Gap, ranks: int) -> str:
    if gap.what == "trace":
        of = f"{'' if len(gap.ranks) == 1 else 'at most '}{counts_text(gap.count)} events"
        return (
            f"The trace of {ranks_text(gap.ranks, ranks)} ended early, after {of}; the tables have all calls"
        )
    if gap.what == "coarse":
        return (
            f"There were too many sizes and peers to keep apart: in {counts_text(gap.count)} calls the size is "
            "rounded up to a power of two, so volumes and mean sizes are upper bounds"
        )
    if gap.what == "sizes":
        return f"Of {counts_text(gap.count)} of these calls no size is known: they have no bin and no volume"
    if gap.what == "peers":
        return f"Of {counts_text(gap.count)} messages the peer is not known: they count as none within a host"
    if gap.what == "phases":
        return (
            "There were too many kinds of call to keep their phases apart: the phase of "
            f"{counts_text(gap.count)} calls is not known"
        )
    if gap.what == "buffers":
        return (
            f"There were too many buffers to remember: {counts_text(gap.count)} uses count as first ones, so buffer "
            "reuse is a lower bound"
        )
    if gap.what == "transfers":
        return (
            f"Too many transfers were under way at once to follow all: {counts_text(gap.count)} were not, so their "
            "waits have no size, and the share that was found done is of the others"
        )
    if gap.what == "threads":
        some = capital(ranks_text(gap.ranks, ranks))
        return f"{some} could call MPI from several threads at once: the times of all threads are added up"
    return capital(lost_text(gap, ranks))


def late_sentence(tables: Tables) -> str | None:
    """Who computes longest, where that is an imbalance."""
    balance = tables.balance
    spread = balance.compute_s
    if spread is None or balance.imbalance is None or balance.imbalance <= IMBALANCE:
        return None
    host = next(one.host for one in balance.ranks if one.rank == spread.most_rank)
    where = f" on {host}" if host and len(tables.facts.hosts) > 1 else ""
    saved = time_text((spread.most - spread.mean) * 1e9)
    return (
        f"Rank {spread.most_rank}{where} is the imbalance: it computes for {time_text(spread.most * 1e9)}, "
        f"{percent_text(balance.imbalance)} more than the mean of {time_text(spread.mean * 1e9)}. With the same work "
        f"on every rank the program could be faster by up to {saved}."
    )


# -------------------------------------------------------------------------------------------------- the paper's tables


def _who(tables: Tables) -> list[str]:
    """The names of the two rows; of a single rank there is one row."""
    ranks = tables.facts.ranks
    every = f"all {ranks} ranks" if tables.ranks == ranks else f"{tables.ranks} of {ranks} ranks"
    return [f"rank {tables.rank}", *([every] if tables.ranks > 1 else [])]


def _of_both(tables: Tables, both: Both[Portion]) -> Iterator[tuple[str, Portion]]:
    assert both.rank is not None
    return zip(_who(tables), (both.rank, both.all_ranks), strict=False)


def sizes_table(tables: Tables) -> Rows:
    """Table 1: calls by the size of what they move."""
    bins = [f"to {size_text(limit)}" for limit in LIMITS]
    made = Rows(("message sizes", "left"), *((name, "right") for name in (*bins, "larger", "volume")))
    both = tables.message_sizes
    assert both.rank is not None
    for who, sizes in zip(_who(tables), (both.rank, both.all_ranks), strict=False):
        made.add_row(who, *map(counts_text, sizes.calls), volume_text(sizes.bytes))
    return made


def non_blocking_table(tables: Tables) -> Rows:
    """Table 3: calls that start a message, and whether it was done when the rank came to wait for it."""
    made = Rows(
        ("non-blocking", "left"),
        ("sends", "right"),
        ("mean size", "right"),
        ("found done", "right"),
        ("receives", "right"),
        ("mean size", "right"),
        ("found done", "right"),
    )
    both = tables.non_blocking
    assert both.rank is not None
    for who, started in zip(_who(tables), (both.rank, both.all_ranks), strict=False):
        made.add_row(who, *_started(started.sends), *_started(started.receives))
    return made


def _started(started: Started) -> tuple[str, str, str]:
    return counts_text(started.calls), size_text(started.mean_bytes), percent_text(started.share)


def _collectives_started(tables: Tables) -> Iterator[str]:
    started = tables.non_blocking.all_ranks.collectives
    if started.calls:
        done = f"; {percent_text(started.share)} of them were found done" if started.waited else ""
        yield (
            f"The ranks also started {counted(started.calls, 'collective')} without blocking, with a mean size of "
            f"{size_text(started.mean_bytes)}{done}."
        )


def portions_table(tables: Tables) -> Rows:
    """Tables 4, 5 and 6: parts of calls and of bytes. Their headers stand in one table, so that columns are in line."""
    parts: list[tuple[tuple[str, ...], Both[Portion]]] = [
        (("collectives", "calls", "of calls", "share", "volume", "of volume", "share"), tables.collectives),
        (("same host", "calls", "of calls", "share", "volume", "of volume", "share"), tables.same_host),
    ]
    if tables.buffer_reuse is not None:
        uses = ("buffer reuse", "reused", "of uses", "share", "reused", "of bytes", "share")
        parts.insert(0, (uses, tables.buffer_reuse))
    headers, first = parts[0]
    made = Rows((headers[0], "left"), *((header, "right") for header in headers[1:]))
    _add_portions(made, tables, first)
    for headers, both in parts[1:]:
        made.add_row(*[""] * len(headers))
        made.add_row(*headers, style="bold")
        _add_portions(made, tables, both)
    return made


def _add_portions(made: Rows, tables: Tables, both: Both[Portion]) -> None:
    for who, part in _of_both(tables, both):
        made.add_row(
            who,
            counts_text(part.calls),
            counts_text(part.of_calls),
            exact_percent_text(part.share),
            volume_text(part.bytes),
            volume_text(part.of_bytes),
            exact_percent_text(part.share_of_bytes),
        )


# ---------------------------------------------------------------------------------------------------- where time goes


def _time_headers(tables: Tables, columns: TimeColumns) -> list[str]:
    mine, every = columns
    return [f"rank {tables.rank}", *mine[1:], *(["all ranks", *every[1:]] if tables.ranks > 1 else [])]


def _time_cells(tables: Tables, columns: TimeColumns, mine: Timed | None, every: Timed | None) -> list[str]:
    cells = timed_cells(mine, columns[0])
    return cells + timed_cells(every, columns[1]) if tables.ranks > 1 else cells


def time_table(tables: Tables, columns: TimeColumns = TIME_COLUMNS[0]) -> Rows:
    """The calls that take most of the time of all ranks."""
    made = Rows(("time by call", "left"), *((name, "right") for name in _time_headers(tables, columns)))
    kept, others = _largest(tables.time_by_call, MOST_CALLS)
    for one in kept:
        made.add_row(one.call, *_time_cells(tables, columns, one.rank, one.all_ranks))
    if others:
        made.add_row(f"{len(others)} other calls", *_time_cells(tables, columns, *_sums(others)))
    return made


def by_size_table(tables: Tables, columns: TimeColumns = TIME_COLUMNS[0]) -> Rows:
    """The sizes of the calls that take most of the time; each call is the header of its sizes."""
    by_call: dict[str, list[SizeTime]] = {}  # in the order of their times
    for row in tables.time_by_size:
        by_call.setdefault(row.call, []).append(row)
    calls = [call for call, rows in by_call.items() if any(row.bytes for row in rows)] or list(by_call)
    headers = _time_headers(tables, columns)
    made = Rows((f"{calls[0]} by size", "right"), *((name, "right") for name in headers))
    for call in calls[:CALLS_BY_SIZE]:
        if call != calls[0]:
            made.add_row(*[""] * (1 + len(headers)))
            made.add_row(f"{call} by size", *headers, style="bold")
        kept, others = _largest(sorted(by_call[call], key=lambda row: -row.all_ranks.time_ns), MOST_SIZES)
        kept.sort(key=lambda row: (row.bytes or 0, row.coarse))
        for name, row in zip(_size_names(kept), kept, strict=True):
            made.add_row(name, *_time_cells(tables, columns, row.rank, row.all_ranks))
        if others:
            made.add_row(f"{len(others)} other sizes", *_time_cells(tables, columns, *_sums(others)))
    return made


def _size_names(rows: Sequence[SizeTime]) -> list[str]:
    """No two the same: in bytes where the text of sizes is rounded to one."""
    short = [size_text(row.bytes) for row in rows]
    names = []
    for text, row in zip(short, rows, strict=True):
        exact = text if short.count(text) == 1 or row.bytes is None else f"{row.bytes:,} B"
        names.append("not known" if row.bytes is None else f"≤ {exact}" if row.coarse else exact)
    return names


R = TypeVar("R")


def _largest(rows: Sequence[R], most: int) -> tuple[list[R], Sequence[R]]:
    """The first ones, and the others where there are more than one."""
    many = len(rows) if len(rows) <= most + 1 else most
    return list(rows[:many]), rows[many:]


def _sums(rows: Iterable[CallTime | SizeTime]) -> tuple[Timed | None, Timed | None]:
    """Of the rank, and of all ranks."""
    several = list(rows)
    return _sum([row.rank for row in several]), _sum([row.all_ranks for row in several])


def _sum(several: Iterable[Timed | None]) -> Timed | None:
    there = [one for one in several if one is not None]
    calls, time = sum(one.calls for one in there), sum(one.time_ns for one in there)
    if calls == 0:
        return None
    shares = [one.share for one in there if one.share is not None]
    longest = max(one.most_ns for one in there)
    return Timed(calls, time, sum(shares) if shares else None, time / calls, longest)


def balance_table(tables: Tables) -> Rows:
    """Seconds between calls and in calls: of each rank, of very many ranks the quartiles."""
    balance = tables.balance
    several_hosts = len(tables.facts.hosts) > 1
    if len(balance.ranks) <= MOST_RANKS:
        made = Rows(
            ("rank", "right"),
            *([("host", "left")] if several_hosts else []),
            ("computes", "right"),
            ("in MPI", "right"),
            ("share in MPI", "right"),
        )
        for one in balance.ranks:
            made.add_row(
                str(one.rank),
                *([one.host] if several_hosts else []),
                time_text(one.compute_s * 1e9),
                time_text(one.mpi_s * 1e9),
                _share_in_mpi(one),
            )
        return made
    compute, mpi = balance.compute_s, balance.mpi_s
    assert compute is not None
    assert mpi is not None
    made = Rows(
        (f"{len(balance.ranks)} ranks", "left"),
        *((name, "right") for name in ("compute", "rank", "in MPI", "rank")),
    )
    for name, of_compute, of_mpi in (
        ("least", (compute.least, compute.least_rank), (mpi.least, mpi.least_rank)),
        ("lower quartile", (compute.lower_quartile, None), (mpi.lower_quartile, None)),
        ("median", (compute.median, None), (mpi.median, None)),
        ("upper quartile", (compute.upper_quartile, None), (mpi.upper_quartile, None)),
        ("most", (compute.most, compute.most_rank), (mpi.most, mpi.most_rank)),
    ):
        cells = []
        for seconds, rank in (of_compute, of_mpi):
            cells += [time_text(seconds * 1e9), "" if rank is None else str(rank)]
        made.add_row(name, *cells)
    return made


def _share_in_mpi(one: RankTime) -> str:
    return percent_text(one.mpi_s / one.seconds if one.seconds else None)
