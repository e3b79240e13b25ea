# SPDX-License-Identifier: Apache-2.0
"""Which events of long traces are read: those of the first part of a program, or those of one phase. Either ends at one
moment for all ranks, so that what belongs together is read together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from netpipe.profiles.counted import Array
from netpipe.profiles.lines import Profile
from netpipe.profiles.trace.rows import Role, ahead, begins, columns, roles, truncated

BESIDE = 0  # the phase of events that are read for others: nothing is counted in phase 0, so no event has it
MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Rows:
    """Of one rank."""

    at: slice | Array  # which of all
    beside: Array | None = None  # of each that is read: whether it is there only because another one needs it


Chosen = Mapping[int, Rows]  # by rank; of one that is not there all are read
Counts = dict[int, int]  # events, by rank
# Of all ranks and launches together, that are read unless told otherwise: half a gigabyte, and in a prediction half a
# minute for each variant.
MOST_EVENTS = 1_000_000


# ----------------------------------------------------------------------------------------------------- the first part


def first_events(profile: Profile, most_events: int) -> Chosen | None:
    """About so many events of all ranks together, those of the first part of the program. None: that is all."""
    if events(profile) <= most_events:
        return None
    when = begins(profile, ahead(profile))
    last = _moment(when.values(), most_events)
    return {rank: Rows(begin < last) for rank, begin in when.items()}


def first_part(launches: Sequence[Profile], most_events: int) -> Counts | None:
    """The first part of a program that the traces of all launches have: up to the moment at which the first trace of a
    rank ends early, and at most about `most_events` of a launch. As launches of one program make the same calls, it is
    the same in all of them. None: all of it.
    """
    parts = [_first_part(one, most_events) for one in launches]
    if not any(parts):
        return None
    found: Counts = {}
    for profile, part in zip(launches, parts, strict=True):
        for rank, trace in profile.traces.items():
            there = trace.events if part is None else part[rank]
            found[rank] = min(there, found.get(rank, there))
    return found


def of_counts(part: Counts | None) -> Chosen | None:
    """The first events of each rank."""
    return None if part is None else {rank: Rows(slice(0, many)) for rank, many in part.items()}


def shorter(profile: Profile, part: Counts | None) -> list[int]:
    """The ranks whose trace ends early, and before that part of the program ends."""
    return [
        rank
        for rank in truncated(profile)
        if part is None or (rank in profile.traces and profile.traces[rank].events < part.get(rank, 0))
    ]


def events(profile: Profile) -> int:
    return sum(trace.events for trace in profile.traces.values())


def _first_part(profile: Profile, most_events: int) -> Counts | None:
    early = [rank for rank in truncated(profile) if rank in profile.traces and profile.traces[rank].events]
    long = events(profile) > most_events
    if not early and not long:
        return None
    when = begins(profile, ahead(profile))
    # The last call of a trace that ends early may not be whole.
    moments = [int(when[rank][-1]) for rank in early]
    if long:
        moments.append(_moment(when.values(), most_events))
    return {rank: int(np.count_nonzero(begin < min(moments))) for rank, begin in when.items()}


def _moment(when: Iterable[Array], many: int) -> int:
    """Before which so many events began."""
    return int(np.partition(np.concatenate([*when]), many)[many])


# --------------------------------------------------------------------------------------------------------- one phase


def of_phase(profile: Profile, phase: int, most_events: int) -> Chosen:
    """The events of a phase, of more than `most_events` about so many, the first ones; and those that they need: where
    transfers began that end there, and the other halves of their messages and collectives. Raises NotAProfile.
    """
    clocks, role_of = ahead(profile), roles(profile)
    inside = {rank: trace.column("phase") == phase for rank, trace in profile.traces.items()}
    if sum(map(np.count_nonzero, inside.values())) > most_events:
        when = begins(profile, clocks)
        last = _moment((when[rank][there] for rank, there in inside.items()), most_events)
        inside = {rank: there & (when[rank] < last) for rank, there in inside.items()}
    chosen: dict[int, Array] = {}
    pairs: dict[int, Array] = {}
    for rank, there in inside.items():
        rows = columns(profile, rank, clocks, role_of)
        requests = rows["request"][there]
        chosen[rank] = there | np.isin(rows["request"], requests[requests > 0])
        pairs[rank] = _pairs(rows, rank, role_of)
    # So all that is chosen has its other halves, and what is left out of a stream is left out of both sides.
    needed = np.unique(np.concatenate([pairs[rank][there] for rank, there in chosen.items()]))
    for rank, there in chosen.items():
        there |= np.isin(pairs[rank], needed[needed > 0])
    return {rank: Rows(there, ~inside[rank][there]) for rank, there in chosen.items()}


def _pairs(rows: dict[str, Array], rank: int, role_of: Array) -> Array:
    """A number for each event, which both halves of a message have, and all calls of a collective; 0: of neither. The
    n-th send of a stream (communicator, sender, receiver, tag) belongs to its n-th receive, and the n-th collectives of
    a communicator belong together.
    """
    role, peer, tag = role_of[rows["call"]], rows["peer"], rows["tag"]
    sends = (role == Role.SENDS) & (peer >= 0)
    receives = np.isin(role, (Role.RECEIVES, Role.HALF)) & (peer >= 0)
    collective = role == Role.COLLECTIVE
    messages = sends | receives
    stream = (
        rows["communicator"],
        np.where(sends, rank, np.where(receives, peer, -1)),
        np.where(receives, rank, np.where(sends, peer, -1)),
        np.where(messages, tag, -1),
    )
    place = _places(np.select([sends, receives, collective], [0, 1, 2], 3), *stream)
    return np.where(messages | collective, _mixed(collective, *stream, place), np.uint64(0))


def _places(*keys: Array) -> Array:
    """Of each row how many before it have the same keys."""
    order = np.lexsort(keys)
    first = np.ones(len(order), bool)
    if len(order):
        first[1:] = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
    numbers = np.arange(len(order))
    found = np.empty_like(numbers)
    found[order] = numbers - np.maximum.accumulate(np.where(first, numbers, 0))
    return found


def _mixed(*keys: Array) -> Array:
    """A number for each row, which rows of other keys hardly ever have: then one too many is read, and no harm done."""
    found = np.zeros(len(keys[0]), np.uint64)
    for key in keys:
        found = (found ^ key.astype(np.int64).view(np.uint64)) * MIX
        found ^= found >> np.uint64(29)
    return found | np.uint64(1)
