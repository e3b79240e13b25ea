# SPDX-License-Identifier: Apache-2.0
"""What a predicted time is spent in: its rows, by call and size, add up to it.

A row is what the replay has, and what the profile had of this call beyond the replay over its own library. The replay
may say that ranks wait in other calls than they did, so what it has too much of one call can be more than all that this
call takes over another variant. Then the row is what the replay has, times the share of it that the profile had. What
the rows then have too much or too little together is dealt out in proportion to them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netpipe.prediction.replay import Replayed
    from netpipe.profiles.trace.calls import Calls

Key = tuple[str, int]  # name of a call, bytes


@dataclass(frozen=True, slots=True)
class Rest:
    """Of a launch, by call: seconds, mean over the ranks. Empty where the run lacks its library."""

    measured: dict[Key, float] = field(default_factory=dict)
    replayed: dict[Key, float] = field(default_factory=dict)  # over its own library

    @classmethod
    def of(cls, made: Calls, again: Replayed) -> Rest:
        return cls(took(made), seconds(again))

    def added(self, key: Key, time: float) -> float:
        """What a call takes that takes this long in the replay."""
        was, is_ = self.replayed.get(key, 0.0), self.measured.get(key, 0.0)
        least = min(0.5, is_ / was) if is_ > 0 and was > 0 else 0.5
        return max(time + is_ - was, least * time)


def took(made: Calls) -> dict[Key, float]:
    """Seconds by call, mean over the ranks."""
    ranks = max(len(made.ranks), 1)
    found: dict[Key, float] = {}
    for some in made.ranks.values():
        for call in some:
            key = (call.name, call.bytes)
            found[key] = found.get(key, 0.0) + call.took_ns / ranks * 1e-9
    return found


def seconds(run: Replayed) -> dict[Key, float]:
    """The same of a replay."""
    ranks = max(len(run.by_rank), 1)
    return {key: time / ranks * 1e-9 for key, time in run.by_call.items()}


def shares(run: Replayed, rest: Rest, whole: float) -> dict[Key, float]:
    """Of the time that is predicted, in seconds."""
    rows = {key: rest.added(key, time) for key, time in seconds(run).items()}
    total = sum(rows.values())
    return {key: time * whole / total for key, time in rows.items()} if total > 0 else rows
