# SPDX-License-Identifier: Apache-2.0
"""Profiles in memory with a trace, from lists of events."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from profiled import CALLS, NUMBERS, profile_of

from netpipe.profiles import Profile, Trace
from netpipe.profiles.lines import Communicator

Event = tuple[str, int, int, int, int, int]  # call, begin, took, bytes, peer, request


def traced(
    *ranks: Sequence[Event],
    tag: int = 7,
    tags: Sequence[Sequence[int]] | None = None,
    hosts: int = 1,
    communicators: Sequence[Sequence[int]] | None = None,
    phases: Sequence[Sequence[int]] | None = None,
) -> Profile:
    """A profile of these calls. All are of one communicator with all ranks, of one tag, and of phase 1, unless
    `communicators`, `tags` and `phases` say otherwise, for each rank and event. The ranks are on `hosts` in blocks.
    """
    profile = profile_of(*([] for _ in ranks), hosts=hosts, calls=CALLS)
    profile.communicators[0] = Communicator(communicator=0, size=len(ranks), members=list(range(len(ranks))))
    for rank, events in enumerate(ranks):
        columns = {
            "begin_ns": [event[1] for event in events],
            "duration_ns": [event[2] for event in events],
            "bytes": [event[3] for event in events],
            "request": [event[5] for event in events],
            "peer": [event[4] for event in events],
            "tag": [tag for _ in events] if tags is None else tags[rank],
            "call": [NUMBERS[event[0]] for event in events],
            "communicator": [0 for _ in events] if communicators is None else communicators[rank],
            "phase": [1 for _ in events] if phases is None else phases[rank],
        }
        profile.traces[rank] = Trace.of(rank, {name: np.array(values) for name, values in columns.items()})
    return profile
