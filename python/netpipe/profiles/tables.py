# SPDX-License-Identifier: Apache-2.0
"""What a profile comes to: who ran, what is missing, the tables of Liu et al. 2003 (SC'03, section 4), and where the
time goes. Pure: from a Profile to numbers. docs/reference/profile.md says what each of them counts.

Every number stands twice, for one rank and for all together: the paper counts rank 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np

from netpipe.profiles.lines import ALL_SIZES, MANY, NONE, Profile, Rank
from netpipe.profiles.waiting import Waiting, waiting

LIMITS = (2 << 10, 16 << 10, 1 << 20)  # bytes; each is the largest size of its bin, and the last bin has none
IMBALANCE = 0.05  # the largest computing time exceeds the mean by more: it is worth a sentence

T = TypeVar("T")
Array = np.ndarray[Any, Any]


class NotThere(ValueError):  # noqa: N818  (it reads as what it says)
    """A rank of which there is nothing; the text says why."""


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


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the profile lacks. `what`: cut_off, failed (the command), nothing, no_calls, problem, aborted,
    unfinished, trace, coarse, sizes, peers, buffers, threads.
    """

    what: str
    ranks: list[int] = []
    count: int = 0  # of events, calls, buffers or ranks; the exit code of aborted and failed
    why: str = ""


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
        return _share(self.found_done, self.waited)


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
        return cls(calls, of_calls, _share(calls, of_calls), volume, of_volume, _share(volume, of_volume))


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
    message_sizes: Both[Sizes]  # table 1
    non_blocking: Both[NonBlocking]  # table 3
    buffer_reuse: Both[Portion]  # table 4
    collectives: Both[Portion]  # table 5
    same_host: Both[Portion]  # table 6
    time_by_call: list[CallTime]
    time_by_size: list[SizeTime]  # of the same calls in the same order
    balance: Balance
    waiting: Waiting


def tables(profile: Profile, rank: int | None = None, ranks_per_host: int | None = None) -> Tables:
    """Without a rank it is rank 0, or the first of which there is something. `ranks_per_host` takes blocks of so many
    ranks for one host each. Raises NotThere.
    """
    there = [one for one in profile.ranks if one.rank in profile.entries]
    rank = _chosen(profile, there, rank)
    rows = Counted.of(profile, ranks_per_host)
    mine = None if rank is None else rows.where(rows["rank"] == rank)
    ours = next((one for one in there if one.rank == rank), None)

    def both(table: Callable[[Counted], T]) -> Both[T]:
        return Both(None if mine is None else table(mine), table(rows))

    return Tables(
        facts=_facts(profile),
        missing=list(_missing(profile, rows)),
        rank=rank,
        ranks=len(there),
        ranks_per_host=ranks_per_host,
        message_sizes=both(_sizes),
        non_blocking=both(_non_blocking),
        buffer_reuse=Both(None if ours is None else _reuse([ours]), _reuse(there)),
        collectives=both(_collectives),
        same_host=both(_same_host),
        time_by_call=_by_call(rows, mine, there, ours),
        time_by_size=_by_size(rows, mine, there, ours),
        balance=_balance(there),
        waiting=waiting(profile),
    )


def _chosen(profile: Profile, there: Sequence[Rank], rank: int | None) -> int | None:
    if rank is None:
        return min((one.rank for one in there), default=None)
    if any(one.rank == rank for one in there):
        return rank
    known = next((one for one in profile.ranks if one.rank == rank), None)
    if known is None:
        many = max(profile.header.ranks, len(profile.ranks))
        raise NotThere(f"there is no rank {rank}; the program had {many}, numbered from 0")
    raise NotThere(f"there is nothing of rank {rank}: {known.problem or 'its calls are not in the file'}")


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None


# ------------------------------------------------------------------------------------------------ entries as columns


@dataclass(frozen=True, slots=True)
class Counted:
    """The entries of all ranks, a row for each kind of call."""

    names: list[str]  # of the calls
    words: list[frozenset[str]]  # what each does
    columns: dict[str, Array]

    @classmethod
    def of(cls, profile: Profile, ranks_per_host: int | None) -> Counted:
        entries = list(profile.entries.values())
        # Whole numbers up to 2^53 are exact as floats, and what is beyond does not overflow.
        kinds: dict[str, type] = {"call": int, "peer": int}
        for name in ("bytes", "coarse", "calls", "time_ns", "most_ns", "waited", "found_done"):
            kinds[name] = float
        columns = {
            name: np.concatenate(
                [np.array(getattr(one, name), kind) for one in entries] or [np.empty(0, kind)]
            )
            for name, kind in kinds.items()
        }
        columns["rank"] = np.repeat(
            np.array([one.rank for one in entries], int), np.array([len(one.call) for one in entries], int)
        )
        calls = profile.header.calls
        # one that the profile does not name is the last
        columns["call"] = np.minimum(columns["call"], len(calls))
        here, there = (_host(profile, columns[name], ranks_per_host) for name in ("rank", "peer"))
        columns["same_host"] = (here == there) & (here >= 0) & (columns["rank"] != columns["peer"])
        names = [*(one.name for one in calls), "unknown"]
        return cls(names, [*(frozenset(one.does) for one in calls), frozenset()], columns)

    def __getitem__(self, name: str) -> Array:
        return self.columns[name]

    def where(self, mask: Array) -> Counted:
        return Counted(self.names, self.words, {name: column[mask] for name, column in self.columns.items()})

    def does(self, *what: str) -> Array:
        """Rows of calls that do one of these things."""
        return self._calls(not words.isdisjoint(what) for words in self.words)

    def _calls(self, which: Iterable[bool]) -> Array:
        """Rows of these calls."""
        return np.take(np.fromiter(which, bool), self["call"])

    @property
    def messages(self) -> Array:
        """Sends and receives. Those to and from MPI_PROC_NULL move nothing."""
        moves: Array = self.does("sends", "receives") & (self["peer"] != NONE)
        return moves

    @property
    def collectives(self) -> Array:
        """Without those that make communicators, which the paper does not count."""
        return self.does("collective") & ~self.does("sets_up")

    @property
    def counted(self) -> Array:
        """What tables 5 and 6 take for all calls."""
        return self.messages | self.collectives | self._calls(name == "Waitall" for name in self.names)

    def calls(self, mask: Array) -> int:
        return int(self["calls"][mask].sum())

    def volume(self, mask: Array) -> int:
        return int((self["calls"] * self["bytes"])[mask].sum())


def _host(profile: Profile, ranks: Array, ranks_per_host: int | None) -> Array:
    """A number for the host of each; less than 0 where it is not known."""
    if ranks_per_host is not None:
        return np.where(ranks >= 0, ranks // ranks_per_host, -1)
    numbers: dict[str, int] = {}
    hosts = {rank: numbers.setdefault(host, len(numbers)) for rank, host in profile.hosts.items() if host}
    found, where = np.unique(ranks, return_inverse=True)
    return np.take(np.array([hosts.get(rank, -1) for rank in found.tolist()], int), where)


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
        return Started(calls, _share(rows.volume(mask), calls), waited, done)

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
        Timed(int(n), int(ns), _share(ns * 1e-9, seconds), ns / n, int(longest)) if n else None
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
    ranks = profile.ranks
    if profile.end is None:
        yield Gap(what="cut_off", count=max(0, profile.header.ranks - len(ranks)))
    there = [one for one in ranks if one.rank in profile.entries]
    gone = [one for one in ranks if one.rank not in profile.entries]
    yield from _grouped("nothing", gone, lambda one: one.problem)
    if silent := [one.rank for one in gone if not one.problem]:
        yield Gap(what="no_calls", ranks=silent)
    for code in dict.fromkeys(one.exit_code for one in there if one.state == "aborted"):
        some = [one.rank for one in there if one.state == "aborted" and one.exit_code == code]
        yield Gap(what="aborted", ranks=some, count=code or 0)
    if some := [one.rank for one in there if one.state == "unfinished"]:
        yield Gap(what="unfinished", ranks=some)
    yield from _grouped("problem", there, lambda one: one.problem)
    if profile.end is not None and profile.end.exit_code:
        yield Gap(what="failed", count=profile.end.exit_code)
    if some := [one.rank for one in there if not one.events_complete]:
        events = max(one.events for one in there if not one.events_complete)
        yield Gap(what="trace", ranks=some, count=events)
    if some := [one.rank for one in there if one.coarse_calls]:
        yield Gap(what="coarse", ranks=some, count=sum(one.coarse_calls for one in there))
    for what, mask in (
        ("sizes", rows["coarse"] >= ALL_SIZES),
        ("peers", rows.messages & (rows["peer"] == MANY)),
    ):
        if mask.any():
            yield Gap(what=what, ranks=sorted({*rows["rank"][mask].tolist()}), count=rows.calls(mask))
    if some := [one.rank for one in there if one.untracked_buffers]:
        yield Gap(what="buffers", ranks=some, count=sum(one.untracked_buffers for one in there))
    if some := [one.rank for one in there if one.threads == "multiple"]:
        yield Gap(what="threads", ranks=some)


def _grouped(what: str, ranks: Sequence[Rank], why: Callable[[Rank], str | None]) -> Iterable[Gap]:
    """A gap for each reason."""
    for reason in dict.fromkeys(why(one) for one in ranks):
        if reason:
            yield Gap(what=what, ranks=[one.rank for one in ranks if why(one) == reason], why=reason)
