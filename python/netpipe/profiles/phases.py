# SPDX-License-Identifier: Apache-2.0
"""What a program did in each of its phases, which MPI_Pcontrol(N) begins. Pure: from counted calls to numbers."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from netpipe.profiles.counted import Array, Counted, share_of
from netpipe.profiles.lines import Rank

FIRST = 1  # before the first MPI_Pcontrol
NOT_KNOWN = 0  # of an entry of several phases; nothing is counted in phase 0


class Used(msgspec.Struct, frozen=True):
    """What was called in a phase."""

    calls: int
    time_ns: int  # in these calls
    share: float | None  # of the time from MPI_Init to MPI_Finalize
    messages: int  # sends and receives
    collectives: int
    bytes: int  # of messages and collectives


class PhaseUse(msgspec.Struct, frozen=True):
    phase: int | None  # None: of calls whose phase was not kept apart
    rank: Used | None  # None: it calls nothing there
    all_ranks: Used


def phases(rows: Counted, there: Sequence[Rank], ours: Rank | None) -> list[PhaseUse]:
    """By number; calls whose phase is not known come last. `there` are all ranks of which there is something, `ours` is
    the one that stands beside them.
    """
    numbers, at = np.unique(rows["phase"], return_inverse=True)
    many = len(numbers)
    found = _used(rows, at, many, sum(one.seconds for one in there))
    own: list[Used | None] = [None] * many
    if ours is not None:
        here = rows["rank"] == ours.rank
        own = _used(rows.where(here), at[here], many, ours.seconds)
    made = [
        PhaseUse(None if number == NOT_KNOWN else number, mine, whole)
        for number, mine, whole in zip(numbers.tolist(), own, found, strict=True)
        if whole is not None
    ]
    return sorted(made, key=lambda one: (one.phase is None, one.phase))


def several(found: Sequence[PhaseUse]) -> bool:
    """Whether it is worth a table: calls that were not kept apart are no phase."""
    return sum(one.phase is not None for one in found) > 1


def _used(rows: Counted, at: Array, many: int, seconds: float) -> list[Used | None]:
    whole = ~rows.does("half")  # its other half has the call and the time
    moved = rows.messages | rows.collectives

    def sums(values: Array, mask: Array) -> list[float]:
        by_phase: list[float] = np.bincount(at[mask], weights=values[mask], minlength=many).tolist()
        return by_phase

    columns = (
        sums(rows["calls"], whole),
        sums(rows["time_ns"], whole),
        sums(rows["calls"], rows.messages),
        sums(rows["calls"], rows.collectives),
        sums(rows["calls"] * rows["bytes"], moved),
    )
    return [
        Used(int(calls), int(ns), share_of(ns * 1e-9, seconds), int(messages), int(collectives), int(volume))
        if calls or messages
        else None
        for calls, ns, messages, collectives, volume in zip(*columns, strict=True)
    ]
