# SPDX-License-Identifier: Apache-2.0
"""What a program sent in each of its communicators. Pure: from counted calls to numbers."""

from __future__ import annotations

import msgspec
import numpy as np

from netpipe.profiles.counted import Counted
from netpipe.profiles.lines import Profile


class CommunicatorUse(msgspec.Struct, frozen=True):
    """Of all ranks. Waits and tests are of no communicator: they may complete transfers of several."""

    communicator: int  # its number in the profile
    # The call that made it; MPI_COMM_WORLD and MPI_COMM_SELF are there from the start; "others": of all for which the
    # profiler had no room; empty: not known.
    made_by: str
    size: int  # ranks; 0: not known
    messages: int  # sends and receives
    collectives: int
    bytes: int  # of both


def communicators(profile: Profile, rows: Counted) -> list[CommunicatorUse]:
    """All that the profile names, in its order, also those in which nothing was sent. One that it does not describe
    has no size.
    """
    known = profile.communicators
    numbers, at = np.unique(np.append(rows["communicator"], sorted(known)).astype(int), return_inverse=True)
    at = at[: len(rows["communicator"])]

    def sums(name: str) -> list[float]:
        mask = getattr(rows, name)
        found: list[float] = np.bincount(
            at[mask], weights=rows["calls"][mask], minlength=len(numbers)
        ).tolist()
        return found

    moved = rows.messages | rows.collectives
    volume = (rows["calls"] * rows["bytes"])[moved]
    volumes = np.bincount(at[moved], weights=volume, minlength=len(numbers)).tolist()
    made = []
    for number, messages, collectives, total in zip(
        numbers.tolist(), sums("messages"), sums("collectives"), volumes, strict=True
    ):
        one = known.get(number)
        if one is None and not messages and not collectives:
            continue
        made.append(
            CommunicatorUse(
                number,
                "" if one is None else one.made_by,
                0 if one is None else one.size,
                int(messages),
                int(collectives),
                int(total),
            )
        )
    return made
