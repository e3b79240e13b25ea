# SPDX-License-Identifier: Apache-2.0
"""What of a program is replayed: all of it, or its first part, where a trace ends early or is too long. That part is
the same in all launches. Its time in MPI is that of its own calls, as nothing else is known of a part; a whole program
has the time that was counted, which also has calls that leave no event.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from netpipe.profiles.lines import NotAProfile
from netpipe.profiles.trace.calls import calls
from netpipe.profiles.trace.chosen import Counts, events, first_part, of_counts
from netpipe.profiles.trace.rows import truncated
from netpipe.units import percent_text

if TYPE_CHECKING:
    from netpipe.profiles import Profile
    from netpipe.profiles.trace.calls import Calls

PROFILER_NS = 50.0  # what the profiler adds to a call, of which half falls between calls


@dataclass(frozen=True, slots=True)
class FirstPart:
    """Of all launches together."""

    counts: Counts  # events of each rank, the same in all launches
    events: int  # that are replayed
    of_events: int  # in the traces
    share: float | None  # of the program's time in MPI; None: it has none
    bounded: bool  # more of it could be replayed
    early: tuple[int, ...]  # ranks whose trace ends early

    def text(self, what: str) -> str:
        """A sentence without its capital and its full stop. `what` is said of this part alone."""
        more = ", and netpipe predict --events N replays more" if self.bounded else ""
        if self.early:
            whose = f"rank {self.early[0]}" if len(self.early) == 1 else f"{len(self.early)} ranks"
            more += f"; the trace of {whose} ends early, and netpipe profile --events N keeps more"
        return (
            f"{what} of the first part of the program, which has {percent_text(self.share)} of its time in MPI: the "
            f"first {self.events:,} of {self.of_events:,} events in the traces are replayed{more}"
        )


def replayed(launches: Sequence[Profile], most_events: int) -> tuple[list[Calls], FirstPart | None]:
    """The calls of each launch, with at most about `most_events` of all together. None: that is the whole program.
    Raises NotAProfile where there is no trace, or it is damaged or too short.
    """
    most = max(most_events // len(launches), 1)
    counts = first_part(launches, most)
    made = [calls(one, PROFILER_NS / 2, of_counts(counts)) for one in launches]
    if counts is None:
        return made, None
    read = sum(one.events for one in made)
    early = sorted({rank for one in launches for rank in truncated(one)})
    if not read:
        raise NotAProfile(
            f"nothing can be replayed: the trace of rank {early[0]} ends with its first call; profile the program "
            "again with more --events"
            if early
            else "nothing can be replayed of so few events; give more --events"
        )
    shares = [
        time_in_calls(one) / whole
        for one, whole in zip(made, map(time_in_mpi, launches), strict=True)
        if whole > 0
    ]
    return made, FirstPart(
        counts=counts,
        events=read,
        of_events=sum(map(events, launches)),
        share=median(shares) if shares else None,
        bounded=any(events(one) > most for one in launches),
        early=tuple(early),
    )


def time_in_mpi(profile: Profile) -> float:
    """Seconds, mean over the ranks that have a trace."""
    there = [rank.mpi_s for rank in profile.ranks if rank.rank in profile.traces]
    return sum(there) / max(len(there), 1)


def time_in_calls(made: Calls) -> float:
    """The same of what is replayed."""
    return sum(call.took_ns for some in made.ranks.values() for call in some) / max(len(made.ranks), 1) * 1e-9


def measured_time(profile: Profile, made: Calls, part: FirstPart | None) -> float:
    """Seconds in MPI that a replay of these calls is held against."""
    return time_in_mpi(profile) if part is None else time_in_calls(made)
