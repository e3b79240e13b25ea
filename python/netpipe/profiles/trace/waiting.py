# SPDX-License-Identifier: Apache-2.0
"""How much of each rank's time in MPI was waiting for another rank, and for which. Pure: from a profile with a trace to
numbers. docs/reference/profile.md says what counts as waiting; everything else in a call is transfer.

Moments of two ranks are compared where both are on one host, or where the trace tells how far the clocks of their hosts
are apart (clocks.py): clocks of two hosts differ by more than a message takes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from netpipe.profiles.lines import NotAProfile
from netpipe.profiles.trace.calls import FROM_ROOT, TO_ROOT, Call, Calls, Group, Kind, calls
from netpipe.profiles.trace.chosen import BESIDE, events, first_events, of_phase

if TYPE_CHECKING:
    from netpipe.profiles.lines import Profile

MOST_EVENTS = 200_000  # of all ranks together, that are judged: about two seconds
PAIRS = 3
LATE_SENDER, LATE_RECEIVER, COLLECTIVE = "late_sender", "late_receiver", "collective"
KINDS = (LATE_SENDER, LATE_RECEIVER, COLLECTIVE)
FROM_LOWER = {"Scan", "Exscan"}  # each waits for those before it


class RankWaiting(msgspec.Struct, kw_only=True):
    """Nanoseconds of one rank."""

    rank: int
    host: str = ""
    mpi_ns: int = 0  # in calls of the trace
    waiting_ns: int = 0  # of that
    late_sender_ns: int = 0  # of the waiting
    late_receiver_ns: int = 0
    collective_ns: int = 0
    waited_for_ns: int = 0  # that other ranks waited for this one


class KindWaiting(msgspec.Struct, kw_only=True):
    """Of all ranks."""

    kind: str
    calls: int = 0  # that waited
    waiting_ns: int = 0


class CallWaiting(msgspec.Struct, kw_only=True):
    """Of all ranks."""

    call: str
    calls: int = 0
    time_ns: int = 0
    waiting_ns: int = 0


class PhaseWaiting(msgspec.Struct, kw_only=True):
    """Of all ranks."""

    phase: int
    calls: int = 0
    time_ns: int = 0
    waiting_ns: int = 0


class PairWaiting(msgspec.Struct, kw_only=True):
    rank: int
    late: int  # the rank that it waited for
    waiting_ns: int


class Waiting(msgspec.Struct, kw_only=True):
    problem: str | None = None  # why there is nothing else
    traced: bool = True  # False: the profile has no trace
    hosts: int = 0
    clocks_apart: int = (
        0  # hosts, or groups of them, that the trace tells nothing about the clocks of; 0: of none
    )
    clock_error_ns: int = 0  # by how much moments of two hosts may be wrong
    phase: int | None = None  # that was judged alone; None: all
    events: int = 0  # that were judged; of a phase alone those of it
    of_events: int = 0  # in the trace
    truncated: list[int] = []  # ranks whose trace ends early
    unmatched: int = 0  # calls without their other half: transfer
    untraced_ns: int = 0  # in calls that leave no event: probes, and tests that find nothing
    ranks: list[RankWaiting] = []
    kinds: list[KindWaiting] = []
    calls: list[CallWaiting] = []  # the longest waiting first
    pairs: list[PairWaiting] = []  # the three with most waiting
    # All of them, by number, whatever phase the others are of; of a trace that was not read to its end just that one.
    phases: list[PhaseWaiting] = []

    @property
    def mpi_ns(self) -> int:
        return sum(one.mpi_ns for one in self.ranks)

    @property
    def waiting_ns(self) -> int:
        return sum(one.waiting_ns for one in self.ranks)


def waiting(profile: Profile, most_events: int = MOST_EVENTS, phase: int | None = None) -> Waiting:
    """With a `phase` only its calls are summed: those of the others are judged, because who waits for whom goes on
    from phase to phase. Of a trace with more events than are to be judged it is the first part; with a phase the first
    part of that. Of a profile without a trace, or with a damaged one, there is only a `problem`.
    """
    if not profile.traces:
        return Waiting(traced=False, problem="the profile has no trace")
    try:
        chosen = first_events(profile, most_events)
        if phase is not None and chosen is not None:
            chosen = of_phase(profile, phase, most_events)
        made = calls(profile, chosen=chosen)
    except NotAProfile as error:
        return Waiting(problem=str(error))
    return of_calls(made, profile, phase)


def of_calls(made: Calls, profile: Profile, phase: int | None = None) -> Waiting:
    """What `calls(profile)` has found."""
    judge = _Judge(made, profile)
    ranks = {rank: RankWaiting(rank=rank, host=judge.hosts[rank]) for rank in made.ranks}
    kinds = {kind: KindWaiting(kind=kind) for kind in KINDS}
    by_call: dict[str, CallWaiting] = {}
    pairs: dict[tuple[int, int], int] = defaultdict(int)
    phases: dict[int, PhaseWaiting] = {}
    for rank, its_calls in made.ranks.items():
        mine = ranks[rank]
        for call in its_calls:
            if call.phase == BESIDE:
                continue
            waited, kind, late = judge.call(rank, call)
            of_phase = phases.get(call.phase)
            if of_phase is None:
                of_phase = phases[call.phase] = PhaseWaiting(phase=call.phase)
            of_phase.calls += 1
            of_phase.time_ns += call.took_ns
            of_phase.waiting_ns += max(0, waited)
            if phase is not None and call.phase != phase:
                continue
            of_call = by_call.get(call.name)
            if of_call is None:
                of_call = by_call[call.name] = CallWaiting(call=call.name)
            of_call.calls += 1
            of_call.time_ns += call.took_ns
            mine.mpi_ns += call.took_ns
            if waited <= 0:
                continue
            mine.waiting_ns += waited
            of_call.waiting_ns += waited
            kinds[kind].calls += 1
            kinds[kind].waiting_ns += waited
            pairs[rank, late] += waited
            if late in ranks:
                ranks[late].waited_for_ns += waited
            if kind == LATE_SENDER:
                mine.late_sender_ns += waited
            elif kind == LATE_RECEIVER:
                mine.late_receiver_ns += waited
            else:
                mine.collective_ns += waited
    read, of_events = made.events, events(profile)
    if phase is not None:
        read = made.by_phase[phase]
        of_events = sum(int((trace.column("phase") == phase).sum()) for trace in profile.traces.values())
    untraced = 0
    if phase is None and read == of_events and not made.truncated:
        in_mpi = {one.rank: round(one.mpi_s * 1e9) for one in profile.ranks}
        untraced = sum(max(0, in_mpi.get(rank, 0) - one.mpi_ns) for rank, one in ranks.items())
    return Waiting(
        untraced_ns=untraced,
        hosts=len(set(judge.hosts.values())),
        clocks_apart=made.clocks.apart,
        clock_error_ns=round(made.clocks.error_ns),
        phase=phase,
        events=read,
        of_events=of_events,
        truncated=made.truncated,
        unmatched=made.unmatched,
        ranks=list(ranks.values()),
        kinds=list(kinds.values()),
        calls=sorted(by_call.values(), key=lambda one: (-one.waiting_ns, -one.time_ns)),
        pairs=[
            PairWaiting(rank=rank, late=late, waiting_ns=ns)
            for (rank, late), ns in sorted(pairs.items(), key=lambda one: (-one[1], one[0]))[:PAIRS]
        ],
        phases=[phases[number] for number in sorted(phases)],
    )


class _Judge:
    """How long a call waited, and for whom."""

    def __init__(self, made: Calls, profile: Profile) -> None:
        self.messages = made.messages
        self.groups = made.groups
        self.hosts = {rank: profile.hosts.get(rank, "") for rank in made.ranks}
        self.clocks = {rank: made.clocks.shared(host) for rank, host in self.hosts.items()}
        self.members = {number: one.members for number, one in profile.communicators.items()}
        self.came: list[dict[int, int]] = [{} for _ in made.groups]  # rank -> when its call began
        for rank, its_calls in made.ranks.items():
            for call in its_calls:
                if call.kind is Kind.COLLECTIVE:
                    self.came[call.group][rank] = call.begin_ns
        # The last that came, of those whose moments can be compared.
        self.last: dict[tuple[int, str], tuple[int, int]] = {}
        for number, came in enumerate(self.came):
            for rank, begin in came.items():
                key = (number, self.clocks[rank])
                self.last[key] = max((begin, rank), self.last.get(key, (begin, rank)))

    def call(self, rank: int, call: Call) -> tuple[int, str, int]:
        """Nanoseconds, of which kind, for which rank. Where several were late it is the last of them."""
        begin, end = call.begin_ns, call.begin_ns + call.took_ns
        came, kind, late = max(self._late(rank, call, begin, end), default=(begin, "", -1))
        return max(0, min(came, end) - begin), kind, late

    def _late(self, rank: int, call: Call, begin: int, end: int) -> Iterator[tuple[int, str, int]]:
        """When another rank came, how, and which: for all that this call needs."""
        if call.kind is Kind.COLLECTIVE:
            if (last := self._last(rank, call.group)) is not None:
                yield last[0], COLLECTIVE, last[1]
            return
        if call.kind in (Kind.RECV, Kind.BOTH, Kind.WAIT):
            for number in call.receives:
                message = self.messages[number]
                if message.sent_ns > begin and self._comparable(rank, message.source):
                    yield message.sent_ns, LATE_SENDER, message.source
        if call.kind in (Kind.SEND, Kind.BOTH, Kind.WAIT):
            for number in call.sends:
                message = self.messages[number]
                if begin < message.posted_ns < end and self._comparable(rank, message.target):
                    yield message.posted_ns, LATE_RECEIVER, message.target

    def _comparable(self, rank: int, other: int) -> bool:
        return rank != other and self.clocks[rank] == self.clocks[other]

    def _last(self, rank: int, number: int) -> tuple[int, int] | None:
        """When the last one came that this rank needs, and which."""
        group: Group = self.groups[number]
        came = self.came[number]
        if group.name.startswith("Neighbor_"):
            return None  # which ones it needs is not in the profile
        if group.root >= 0 and group.name in FROM_ROOT:
            needs_root = rank != group.root and group.root in came and self._comparable(rank, group.root)
            return (came[group.root], group.root) if needs_root else None
        if group.root >= 0 and group.name in TO_ROOT and rank != group.root:
            return None
        if group.name in FROM_LOWER:
            members = self.members.get(group.communicator, [])
            before = members[: members.index(rank)] if rank in members else []
            return max(
                ((came[one], one) for one in before if one in came and self._comparable(rank, one)),
                default=None,
            )
        begin, last = self.last[number, self.clocks[rank]]
        return None if last == rank else (begin, last)
