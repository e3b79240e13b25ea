# SPDX-License-Identifier: Apache-2.0
"""What a profile comes to: who ran, what is missing, the tables of Liu et al. 2003 (SC'03, section 4), and where the
time goes. Pure: from a Profile to numbers. docs/reference/profile.md says what each of them counts.

Every number stands twice, for one rank and for all together: the paper counts rank 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

import msgspec
import numpy as np

from netpipe.profiles.communicators import CommunicatorUse, communicators
from netpipe.profiles.counted import Array, Counted, share_of
from netpipe.profiles.lines import ALL_SIZES, MANY, Profile, Rank
from netpipe.profiles.missing import Gap, lost
from netpipe.profiles.phases import FIRST, NOT_KNOWN, PhaseUse, phases
from netpipe.profiles.trace.waiting import MOST_EVENTS, Waiting, waiting

LIMITS = (2 << 10, 16 << 10, 1 << 20)  # bytes; each is the largest size of its bin, and the last bin has none
MOST_NAMED = 8  # phases in a sentence
IMBALANCE = 0.05  # the largest computing time exceeds the mean by more: it is worth a sentence

T = TypeVar("T")


class NotThere(ValueError):  # noqa: N818  (it reads as what it says)
    """A rank of which there is nothing, or a phase; the text says why."""

    def __init__(self, text: str, option: str) -> None:
        super().__init__(text)
        self.option = option  # of the command line: another value would do


class Both(msgspec.Struct, Generic[T], frozen=True):
    """The same for one rank and for all."""

    rank: T | None  # None: there is nothing of any rank
    all_ranks: T


# ------------------------------------------------------------------------------------------------- what is in a table


class OnHost(msgspec.Struct, frozen=True):
    host: str
    ranks: list[int]


class InMPI(msgspec.Struct, frozen=True):
    """Shares of time."""

    mean: float
    least: float
    least_rank: int
    most: float
    most_rank: int


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    profile: str
    started: str | None  # ISO 8601, UTC
    command: list[str]
    programs: list[str]  # paths, as they were started
    library: str | None
    module: str | None
    ranks: int  # of MPI_COMM_WORLD
    hosts: list[OnHost]
    seconds: float | None  # from MPI_Init to MPI_Finalize: the longest of all ranks
    in_mpi: InMPI | None
    calls: int
    exit_code: int | None  # of the command
    wall_s: float | None  # of the command


class Sizes(msgspec.Struct, frozen=True):
    """Calls by the size of what they move: up to each limit, and beyond the last."""

    limits_bytes: list[int]
    calls: list[int]
    bytes: int


class Started(msgspec.Struct, frozen=True):
    """Calls that start a transfer. Of those waited for, so many were found done."""

    calls: int
    mean_bytes: float | None
    waited: int
    found_done: int

    @property
    def share(self) -> float | None:
        return share_of(self.found_done, self.waited)


class NonBlocking(msgspec.Struct, frozen=True):
    sends: Started
    receives: Started
    collectives: Started


class Portion(msgspec.Struct, frozen=True):
    """A part of the calls and of their bytes. A share is None where there is nothing."""

    calls: int
    of_calls: int
    share: float | None
    bytes: int
    of_bytes: int
    share_of_bytes: float | None

    @classmethod
    def of(cls, calls: int, of_calls: int, volume: int, of_volume: int) -> Portion:
        return cls(calls, of_calls, share_of(calls, of_calls), volume, of_volume, share_of(volume, of_volume))


class Timed(msgspec.Struct, frozen=True):
    calls: int
    time_ns: int
    share: float | None  # of the time from MPI_Init to MPI_Finalize
    mean_ns: float
    most_ns: int


class CallTime(msgspec.Struct, frozen=True):
    call: str
    rank: Timed | None  # None: it makes no such call
    all_ranks: Timed


class SizeTime(msgspec.Struct, frozen=True):
    call: str
    bytes: int | None  # None: of sizes that were not kept apart
    coarse: bool  # the size is the next power of two
    rank: Timed | None
    all_ranks: Timed


class RankTime(msgspec.Struct, frozen=True):
    rank: int
    host: str
    seconds: float
    compute_s: float
    mpi_s: float


class Spread(msgspec.Struct, frozen=True):
    """Seconds over the ranks."""

    least: float
    least_rank: int
    lower_quartile: float
    median: float
    upper_quartile: float
    most: float
    most_rank: int
    mean: float


class Balance(msgspec.Struct, frozen=True):
    ranks: list[RankTime]
    compute_s: Spread | None
    mpi_s: Spread | None
    imbalance: float | None  # by how much the largest computing time exceeds the mean; None of one rank


class Tables(msgspec.Struct, frozen=True, kw_only=True):
    facts: Facts
    missing: list[Gap]
    rank: int | None  # that stands beside all ranks
    ranks: int  # of which there is something
    ranks_per_host: int | None  # that were taken for one host; None: the hosts are those of the profile
    # None: all phases. Else the tables from message_sizes on are of this phase alone; a profile has buffer reuse and
    # computing only of the whole program, so there is none then.
    phase: int | None
    phases: list[PhaseUse]
    message_sizes: Both[Sizes]  # table 1
    non_blocking: Both[NonBlocking]  # table 3
    buffer_reuse: Both[Portion] | None  # table 4
    collectives: Both[Portion]  # table 5
    same_host: Both[Portion]  # table 6
    time_by_call: list[CallTime]
    time_by_size: list[SizeTime]  # of the same calls in the same order
    balance: Balance
    communicators: list[CommunicatorUse]
    waiting: Waiting


def tables(
    profile: Profile,
    rank: int | None = None,
    ranks_per_host: int | None = None,
    phase: int | None = None,
    most_events: int = MOST_EVENTS,
) -> Tables:
    """Without a rank it is rank 0, or the first of which there is something. `ranks_per_host` takes blocks of so many
    ranks for one host each, `phase` only what was called in that phase of MPI_Pcontrol. Waiting is judged on at most
    `most_events`. Raises NotThere.
    """
    there = [one for one in profile.ranks if one.rank in profile.entries]
    rank = _chosen(profile, there, rank)
    rows = Counted.of(profile, ranks_per_host)
    ours = next((one for one in there if one.rank == rank), None)
    missing = list(_missing(profile, rows))
    all_phases = phases(rows, there, ours)
    if phase is not None:
        _check(phase, all_phases)
        rows = rows.where(rows["phase"] == phase)
    mine = None if rank is None else rows.where(rows["rank"] == rank)

    def both(table: Callable[[Counted], T]) -> Both[T]:
        return Both(None if mine is None else table(mine), table(rows))

    return Tables(
        facts=_facts(profile),
        missing=missing,
        rank=rank,
        ranks=len(there),
        ranks_per_host=ranks_per_host,
        phase=phase,
        phases=all_phases,
        message_sizes=both(_sizes),
        non_blocking=both(_non_blocking),
        buffer_reuse=(
            None if phase is not None else Both(None if ours is None else _reuse([ours]), _reuse(there))
        ),
        collectives=both(_collectives),
        same_host=both(_same_host),
        time_by_call=_by_call(rows, mine, there, ours),
        time_by_size=_by_size(rows, mine, there, ours),
        balance=_balance(there if phase is None else []),
        communicators=communicators(profile, rows),
        waiting=waiting(profile, most_events, phase),
    )


def _chosen(profile: Profile, there: Sequence[Rank], rank: int | None) -> int | None:
    if rank is None:
        return min((one.rank for one in there), default=None)
    if any(one.rank == rank for one in there):
        return rank
    known = next((one for one in profile.ranks if one.rank == rank), None)
    if known is None:
        many = max(profile.header.ranks, len(profile.ranks))
        raise NotThere(f"there is no rank {rank}; the program had {many}, numbered from 0", "--rank")
    why = known.problem or "its calls are not in the file"
    raise NotThere(f"there is nothing of rank {rank}: {why}", "--rank")


def _check(phase: int, known: Sequence[PhaseUse]) -> None:
    """Raises NotThere."""
    numbers = [one.phase for one in known if one.phase is not None]
    if phase in numbers:
        return
    if len(numbers) < 2:
        why = "the program has one phase, because it never called MPI_Pcontrol"
        if numbers not in ([], [FIRST]):
            why = f"all calls are in phase {numbers[0]}"
    else:
        some = ", ".join(map(str, numbers[:MOST_NAMED]))
        why = f"there are calls in phases {some}{', ...' if len(numbers) > MOST_NAMED else ''}"
    raise NotThere(f"there are no calls in phase {phase}; {why}", "--phase")


# --------------------------------------------------------------------------------------------------- the paper's tables


def _sizes(rows: Counted) -> Sizes:
    """Each send, each receive with its posted size, and each collective that moves data, once."""
    moved = (rows.messages | (rows.collectives & ~rows.does("no_data"))) & (rows["coarse"] < ALL_SIZES)
    bins = np.searchsorted(np.array(LIMITS), rows["bytes"][moved], side="left")
    calls = np.bincount(bins, weights=rows["calls"][moved], minlength=len(LIMITS) + 1)
    return Sizes(list(LIMITS), [int(count) for count in calls], rows.volume(moved))


def _non_blocking(rows: Counted) -> NonBlocking:
    starts = rows.does("starts")
    messages = starts & rows.messages

    def started(mask: Array) -> Started:
        calls = rows.calls(mask)
        waited, done = (int(rows[name][mask].sum()) for name in ("waited", "found_done"))
        return Started(calls, share_of(rows.volume(mask), calls), waited, done)

    return NonBlocking(
        started(messages & rows.does("sends")),
        started(messages & rows.does("receives")),
        started(starts & rows.collectives),
    )


def _reuse(ranks: Iterable[Rank]) -> Portion:
    of = [one.reuse for one in ranks]
    return Portion.of(
        sum(one.again for one in of),
        sum(one.accesses for one in of),
        sum(one.bytes_again for one in of),
        sum(one.bytes for one in of),
    )


def _collectives(rows: Counted) -> Portion:
    return Portion.of(
        rows.calls(rows.collectives),
        rows.calls(rows.counted),
        rows.volume(rows.collectives),
        rows.volume(rows.messages | rows.collectives),
    )


def _same_host(rows: Counted) -> Portion:
    """Messages between ranks of one host. The volume is that of messages alone, the calls are all."""
    near = rows.messages & rows["same_host"]
    return Portion.of(
        rows.calls(near), rows.calls(rows.counted), rows.volume(near), rows.volume(rows.messages)
    )


# ---------------------------------------------------------------------------------------------------- where time goes


def _timed(rows: Counted, keys: Array, many: int, seconds: float) -> list[Timed | None]:
    """By keys from 0 to `many`; None where there is no call."""
    calls, time = (np.bincount(keys, weights=rows[name], minlength=many) for name in ("calls", "time_ns"))
    most = np.zeros(many)
    np.maximum.at(most, keys, rows["most_ns"])
    return [
        Timed(int(n), int(ns), share_of(ns * 1e-9, seconds), ns / n, int(longest)) if n else None
        for n, ns, longest in zip(calls.tolist(), time.tolist(), most.tolist(), strict=True)
    ]


def _by_call(rows: Counted, mine: Counted | None, there: Sequence[Rank], ours: Rank | None) -> list[CallTime]:
    """The largest time of all ranks first."""
    whole = rows.where(~rows.does("half"))
    many = len(rows.names)
    found = _timed(whole, whole["call"], many, sum(one.seconds for one in there))
    own: list[Timed | None] = [None] * many
    if mine is not None and ours is not None:
        mine = mine.where(~mine.does("half"))
        own = _timed(mine, mine["call"], many, ours.seconds)
    made = [
        CallTime(name, one, all_ranks)
        for name, one, all_ranks in zip(rows.names, own, found, strict=True)
        if all_ranks is not None
    ]
    return sorted(made, key=lambda one: -one.all_ranks.time_ns)


def _by_size(rows: Counted, mine: Counted | None, there: Sequence[Rank], ours: Rank | None) -> list[SizeTime]:
    """The calls as they stand in _by_call, their sizes rising."""
    whole = rows.where(~rows.does("half"))
    # One number for call, coarseness and size: numpy finds unique rows far more slowly.
    sizes, size_at = np.unique(whole["bytes"], return_inverse=True)
    degree = np.where(whole["coarse"] < ALL_SIZES, whole["coarse"] > 0, 2).astype(int)
    found, keys = np.unique((whole["call"] * 3 + degree) * len(sizes) + size_at, return_inverse=True)
    many = len(found)
    times = _timed(whole, keys, many, sum(one.seconds for one in there))
    own: list[Timed | None] = [None] * many
    if mine is not None and ours is not None:
        here = whole["rank"] == ours.rank
        own = _timed(whole.where(here), keys[here], many, ours.seconds)
    made = [
        SizeTime(
            rows.names[key // len(sizes) // 3],
            None if key // len(sizes) % 3 == 2 else int(sizes[key % len(sizes)]),
            key // len(sizes) % 3 > 0,
            one,
            all_ranks,
        )
        for key, one, all_ranks in zip(found.tolist(), own, times, strict=True)
        if all_ranks is not None
    ]
    of_call: dict[str, int] = {}
    for row in made:
        of_call[row.call] = of_call.get(row.call, 0) - row.all_ranks.time_ns
    return sorted(made, key=lambda row: (of_call[row.call], row.call, row.bytes or 0, row.coarse))


def _balance(there: Sequence[Rank]) -> Balance:
    ranks = [RankTime(one.rank, one.host, one.seconds, one.compute_s, one.mpi_s) for one in there]
    compute = _spread([(one.compute_s, one.rank) for one in ranks])
    imbalance = None
    if compute is not None and len(ranks) > 1 and compute.mean > 0:
        imbalance = compute.most / compute.mean - 1
    return Balance(ranks, compute, _spread([(one.mpi_s, one.rank) for one in ranks]), imbalance)


def _spread(values: Sequence[tuple[float, int]]) -> Spread | None:
    if not values:
        return None
    (least, least_rank), (most, most_rank) = min(values), max(values, key=lambda one: (one[0], -one[1]))
    seconds = np.array([value for value, _ in values])
    low, median, high = (float(value) for value in np.quantile(seconds, (0.25, 0.5, 0.75)))
    return Spread(least, least_rank, low, median, high, most, most_rank, float(seconds.mean()))


# ------------------------------------------------------------------------------------------- who ran, what is missing


def _facts(profile: Profile) -> Facts:
    header, end = profile.header, profile.end
    hosts: dict[str, list[int]] = {}
    for one in profile.ranks:
        if one.host:
            hosts.setdefault(one.host, []).append(one.rank)
    ran = [one for one in profile.ranks if one.seconds > 0]
    shares = [(one.mpi_s / one.seconds, one.rank) for one in ran]
    in_mpi = None
    if shares:
        least, most = min(shares), max(shares, key=lambda one: (one[0], -one[1]))
        in_mpi = InMPI(sum(share for share, _ in shares) / len(shares), *least, *most)
    return Facts(
        profile=header.profile,
        started=header.started,
        command=header.command,
        programs=list(dict.fromkeys(one.program for one in profile.ranks if one.program)),
        library=header.library,
        module=header.module,
        ranks=max(header.ranks, len(profile.ranks)),
        hosts=[OnHost(host, ranks) for host, ranks in hosts.items()],
        seconds=max((one.seconds for one in ran), default=None),
        in_mpi=in_mpi,
        calls=sum(one.calls for one in profile.ranks),
        exit_code=None if end is None else end.exit_code,
        wall_s=None if end is None else end.wall_s,
    )


def _missing(profile: Profile, rows: Counted) -> Iterable[Gap]:
    """In the order of how much is lost."""
    yield from lost(profile)
    there = [one for one in profile.ranks if one.rank in profile.entries]
    if some := [one.rank for one in there if not one.events_complete]:
        events = max(one.events for one in there if not one.events_complete)
        yield Gap(what="trace", ranks=some, count=events)
    if some := [one.rank for one in there if one.coarse_calls]:
        yield Gap(what="coarse", ranks=some, count=sum(one.coarse_calls for one in there))
    for what, mask in (
        ("sizes", rows["coarse"] >= ALL_SIZES),
        ("peers", rows.messages & (rows["peer"] == MANY)),
        ("phases", (rows["phase"] == NOT_KNOWN) & ~np.isin(rows["phase"], (FIRST, NOT_KNOWN)).all()),
    ):
        if mask.any():
            yield Gap(what=what, ranks=sorted({*rows["rank"][mask].tolist()}), count=rows.calls(mask))
    if some := [one.rank for one in there if one.untracked_buffers]:
        yield Gap(what="buffers", ranks=some, count=sum(one.untracked_buffers for one in there))
    if some := [one.rank for one in there if one.untracked_transfers]:
        yield Gap(what="transfers", ranks=some, count=sum(one.untracked_transfers for one in there))
    if some := [one.rank for one in there if one.threads == "multiple"]:
        yield Gap(what="threads", ranks=some)
