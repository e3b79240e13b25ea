# SPDX-License-Identifier: Apache-2.0
"""What the figures of a profile show: messages by size, who sends to whom, and the time of each rank by kind of call.
Pure: from a Profile to numbers. docs/reference/profile.md says how calls are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from netpipe.profiles.counted import Array
from netpipe.profiles.counted import Counted as Rows
from netpipe.profiles.lines import ALL_SIZES, Profile
from netpipe.profiles.phases import NOT_KNOWN

MOST_BINS = 64  # rows of a matrix; more ranks are put together
LARGEST_POWER = 64  # sizes are 64-bit numbers
ROUNDING = 1e-3  # by which the times of calls and their sum may differ

# A call is of the first kind whose words it has. The last one takes the rest.
KINDS = ("sends", "receives", "collectives", "waits and tests", "others")
SENDS, RECEIVES, COLLECTIVES, WAITS, OTHERS = range(len(KINDS))
MOVES = (SENDS, RECEIVES, COLLECTIVES)


def kind_of(does: Sequence[str] | frozenset[str]) -> int:
    """Its place in KINDS. `does`: the words of a call."""
    if "sets_up" in does:
        return OTHERS
    for kind, word in (
        (SENDS, "sends"),
        (RECEIVES, "receives"),
        (COLLECTIVES, "collective"),
        (WAITS, "completes"),
    ):
        if word in does:
            return kind
    return OTHERS


@dataclass(frozen=True, slots=True)
class SizeBin:
    """Calls that move more than half of `most_bytes`, up to it. By kind, as in MOVES."""

    most_bytes: int  # a power of two, or 0 for calls that move nothing
    calls: tuple[int, ...]
    bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """Messages from a sender, a row, to a receiver. A row and a column is one rank, or several consecutive ones."""

    ranks: int
    ranks_per_bin: int
    calls: list[list[int]]
    bytes: list[list[int]]
    without_peer: int  # sends of which it is not known to whom


@dataclass(frozen=True, slots=True)
class RankKinds:
    rank: int
    seconds: float
    compute_s: float
    mpi_s: float
    by_kind_s: tuple[float, ...]  # of mpi_s, as in KINDS; the last also has what no call is known for


@dataclass(frozen=True, slots=True)
class PhaseKinds:
    phase: int | None  # None: of calls whose phase was not kept apart
    by_kind_s: tuple[float, ...]  # of all ranks, as in KINDS


@dataclass(frozen=True, slots=True)
class Figures:
    sizes: list[SizeBin]  # without gaps, from the smallest to the largest
    matrix: Matrix
    ranks: list[RankKinds]  # of which there is something
    phases: list[PhaseKinds]  # as the phases of the tables


def figures(profile: Profile) -> Figures:
    rows = Rows.of(profile, None)
    kinds = np.take(np.array([kind_of(words) for words in rows.words]), rows["call"])
    return Figures(
        _sizes(rows, kinds), _matrix(profile, rows), _ranks(profile, rows, kinds), _phases(rows, kinds)
    )


def _sizes(rows: Rows, kinds: Array) -> list[SizeBin]:
    """The calls of table 1, by the power of two to which their size is rounded up."""
    moved = (rows.messages | (rows.collectives & ~rows.does("no_data"))) & (rows["coarse"] < ALL_SIZES)
    size = rows["bytes"][moved]
    if not len(size):
        return []
    power = np.ceil(np.log2(np.maximum(size, 1.0))).astype(int)
    at = np.where(size > 0, np.minimum(power, LARGEST_POWER) + 1, 0)  # 0: nothing; 1: a byte; 2: two; ...
    key = at * len(KINDS) + kinds[moved]
    many = (LARGEST_POWER + 2) * len(KINDS)
    calls = np.bincount(key, weights=rows["calls"][moved], minlength=many).reshape(-1, len(KINDS))
    volume = np.bincount(key, weights=rows["calls"][moved] * size, minlength=many).reshape(-1, len(KINDS))
    least = at[size > 0].min() if (size > 0).any() else 0  # nothing is far from one byte only on a log axis
    bins = sorted({*([0] if (size == 0).any() else []), *range(int(least), int(at.max()) + 1)})
    return [
        SizeBin(
            most_bytes=1 << (place - 1) if place else 0,
            calls=tuple(int(calls[place, kind]) for kind in MOVES),
            bytes=tuple(int(volume[place, kind]) for kind in MOVES),
        )
        for place in bins
    ]


def _matrix(profile: Profile, rows: Rows) -> Matrix:
    """Each message once, at the one who sends it; what MPI_Get fetches goes from its peer to the rank."""
    sends = rows.does("sends") & rows.messages
    gets = rows.does("one_sided") & rows.does("receives") & rows.messages
    known = rows["peer"] >= 0
    source = np.concatenate([rows["rank"][sends & known], rows["peer"][gets & known]])
    target = np.concatenate([rows["peer"][sends & known], rows["rank"][gets & known]])
    both = [np.flatnonzero(sends & known), np.flatnonzero(gets & known)]
    calls = np.concatenate([rows["calls"][some] for some in both])
    volume = np.concatenate([(rows["calls"] * rows["bytes"])[some] for some in both])
    numbers = [one.rank for one in profile.ranks]
    ranks = 1 + max(*numbers, *source.tolist(), *target.tolist(), profile.header.ranks - 1, 0, 0)
    each = -(-ranks // MOST_BINS)
    bins = -(-ranks // each)
    key = source // each * bins + target // each

    def square(weights: Array) -> list[list[int]]:
        counted = np.bincount(key, weights=weights, minlength=bins * bins).reshape(bins, bins)
        return [[int(value) for value in row] for row in counted.tolist()]

    return Matrix(ranks, each, square(calls), square(volume), rows.calls((sends | gets) & ~known))


def _ranks(profile: Profile, rows: Rows, kinds: Array) -> list[RankKinds]:
    there = [one for one in profile.ranks if one.rank in profile.entries]
    place = {one.rank: at for at, one in enumerate(there)}
    at = np.array([place.get(rank, len(there)) for rank in rows["rank"].tolist()], int)
    time = _seconds(rows, kinds, at, len(there) + 1)
    made = []
    for one, known in zip(there, time, strict=False):
        lost = one.mpi_s - sum(known)
        known[OTHERS] += lost if lost > ROUNDING * one.mpi_s else 0.0
        made.append(RankKinds(one.rank, one.seconds, one.compute_s, one.mpi_s, tuple(known)))
    return made


def _phases(rows: Rows, kinds: Array) -> list[PhaseKinds]:
    numbers, at = np.unique(rows["phase"], return_inverse=True)
    made = [
        PhaseKinds(None if number == NOT_KNOWN else number, tuple(known))
        for number, known in zip(numbers.tolist(), _seconds(rows, kinds, at, len(numbers)), strict=True)
    ]
    return sorted(made, key=lambda one: (one.phase is None, one.phase))


def _seconds(rows: Rows, kinds: Array, at: Array, many: int) -> list[list[float]]:
    """The time in calls by what `at` says of each row, from 0 to `many`, and by kind."""
    whole = ~rows.does("half")
    found: list[list[float]] = (
        np.bincount(
            at[whole] * len(KINDS) + kinds[whole],
            weights=rows["time_ns"][whole] * 1e-9,
            minlength=many * len(KINDS),
        )
        .astype(float)  # of nothing it makes whole numbers
        .reshape(many, len(KINDS))
        .tolist()
    )
    return found
