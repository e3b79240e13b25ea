# SPDX-License-Identifier: Apache-2.0
"""The events of a trace, a row each: what an event is to its message or collective, and when it was by one clock."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import IntEnum

import numpy as np

from netpipe.profiles.counted import Array
from netpipe.profiles.lines import EVENT_COLUMNS, NotAProfile, Profile


class Role(IntEnum):
    SENDS = 0
    RECEIVES = 1
    HALF = 2  # the receiving half of a call that sends too
    COMPLETES = 3
    COLLECTIVE = 4
    OTHER = 5  # one-sided, or of what is started or set up by all


def roles(profile: Profile) -> Array:
    """By number of the call."""
    return np.array([_role(call.does) for call in profile.header.calls], np.uint8)


def _role(does: Collection[str]) -> Role:
    collective = "collective" in does
    if "half" in does:
        return Role.HALF
    if "completes" in does:
        return Role.COMPLETES
    if collective:
        return Role.OTHER if "sets_up" in does or "starts" in does else Role.COLLECTIVE
    if "one_sided" in does:
        return Role.OTHER
    if "sends" in does:
        return Role.SENDS
    return Role.RECEIVES if "receives" in does else Role.OTHER


def truncated(profile: Profile) -> list[int]:
    """The ranks whose trace ends before they did: it was full, or the file was cut off."""
    events = {rank: trace.events for rank, trace in profile.traces.items()}
    return [
        one.rank
        for one in profile.ranks
        if not one.events_complete or events.get(one.rank, one.events) < one.events
    ]


def ahead(profile: Profile) -> dict[str, int]:
    """By how much the clock of each host is ahead, in nanoseconds, where there are several: their first calls are taken
    for simultaneous, until it is known better (clocks.py).
    """
    firsts: dict[str, int] = {}
    for rank, trace in profile.traces.items():
        if trace.events:
            begin = int(trace.column("begin_ns")[0])
            host = profile.hosts.get(rank, "")
            firsts[host] = min(begin, firsts.get(host, begin))
    if len(firsts) < 2:
        return {}
    least = min(firsts.values())
    return {host: begin - least for host, begin in firsts.items()}


def begins(profile: Profile, clocks: Mapping[str, int]) -> dict[int, Array]:
    """When the events of each rank began, by the clocks of `ahead`. Raises NotAProfile."""
    return {
        rank: trace.column("begin_ns") - clocks.get(profile.hosts.get(rank, ""), 0)
        for rank, trace in profile.traces.items()
    }


def columns(profile: Profile, rank: int, clocks: Mapping[str, int], role_of: Array) -> dict[str, Array]:
    """All of a rank, by the clocks of `ahead`. A receive that named no sender, or no tag, has those of the event that
    completed it. Raises NotAProfile.
    """
    trace = profile.traces[rank]
    found: dict[str, Array] = {name: trace.column(name) for name in EVENT_COLUMNS}
    if trace.events and int(found["call"].max()) >= len(role_of):
        raise NotAProfile(
            f"the trace of rank {rank} is damaged: it has a call that the profile does not name"
        )
    found["begin_ns"] = found["begin_ns"] - clocks.get(profile.hosts.get(rank, ""), 0)
    _name_senders(found, role_of[found["call"]])
    return found


def _name_senders(rows: dict[str, Array], role: Array) -> None:
    peer, tag, request = rows["peer"], rows["tag"], rows["request"]
    started = np.isin(role, (Role.RECEIVES, Role.HALF)) & (request > 0)
    asked = np.flatnonzero(started & ((peer < 0) | (tag < 0)))
    ends = np.flatnonzero((role == Role.COMPLETES) & (request > 0))
    if not len(asked) or not len(ends):
        return
    ends = ends[np.argsort(request[ends], kind="stable")]
    place = np.minimum(np.searchsorted(request[ends], request[asked]), len(ends) - 1)
    known = request[ends[place]] == request[asked]
    asked, told = asked[known], ends[place[known]]
    for name, column in (("peer", peer), ("tag", tag)):
        rows[name] = column.copy()
        rows[name][asked] = column[told]
