# SPDX-License-Identifier: Apache-2.0
"""The trace of a profile as calls to replay: for each rank what it did in its order, with the computation before it;
and all messages, each send with its receive.

MPI delivers messages of one communicator, sender, receiver and tag in the order in which they were sent, to receives in
the order in which they were posted. So the n-th send of such a stream belongs to its n-th receive. Where a send is
missing (phase 0, a receive that was cancelled), time tells: no receive is complete before its message was sent.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from netpipe.profiles.lines import EVENT_COLUMNS, NotAProfile
from netpipe.profiles.trace.chosen import BESIDE
from netpipe.profiles.trace.clocks import Bounds, Clocks, clocks
from netpipe.profiles.trace.rows import Role, ahead, columns, roles, truncated

if TYPE_CHECKING:
    from netpipe.profiles import Profile
    from netpipe.profiles.trace.chosen import Chosen

UNMATCHED = -1
# Collectives with a root.
FROM_ROOT = {"Bcast", "Scatter", "Scatterv"}  # the root waits for nobody, the others for the root
TO_ROOT = {"Reduce", "Gather", "Gatherv"}  # the root waits for all, the others for nobody
ROOTED = FROM_ROOT | TO_ROOT
# Nobody ends one of these before all have come: each needs something of every other one.
OF_ALL = {"Barrier", "Allreduce", "Allgather", "Alltoall"}
UNEVEN = {"Scatterv", "Gatherv"}  # a rank may have no part in one of these
WAITS = ("Wait", "Waitall", "Waitany", "Waitsome", "Test", "Testall", "Testany", "Testsome")
SURELY_NS = 10_000  # by so much the clocks of two ranks of a host are not apart


class Kind(IntEnum):
    """What a call does to its rank."""

    SEND = 0  # returns when the buffer is free
    RECV = 1  # returns when the message is there
    START = 2  # starts a send or a receive, and returns
    WAIT = 3  # returns when all of its transfers are done
    BOTH = 4  # sends and receives at once
    COLLECTIVE = 5
    OTHER = 6  # takes the time that it took


@dataclass(slots=True)
class Message:
    """A message from a rank to another."""

    source: int
    target: int
    bytes: int
    returned: bool = False  # a message the other way was under way at the same time
    far: bool = False  # from one host to another
    follows: bool = False  # its sender had another one on its way to the same rank
    completed: bool = True  # its receive, by a call of the trace
    sent_ns: int = 0  # in the trace: when its send began
    received_ns: int = 0  # when the call ended that completed its receive; else when its receive began
    posted_ns: int = 0  # when its receive began

    @property
    def within(self) -> bool:
        """Of a rank to itself."""
        return self.source == self.target


@dataclass(slots=True)
class Group:
    """One collective call of a communicator."""

    name: str
    ranks: int
    bytes: int  # the most that any rank gives
    root: int  # a rank of MPI_COMM_WORLD; negative: none
    members: set[int] = field(default_factory=set)
    communicator: int = 0
    less: dict[int, int] = field(default_factory=dict)  # rank -> what it gives, where that is not `bytes`
    far: bool = False  # its members are on several hosts

    def gives(self, rank: int) -> int:
        return self.less.get(rank, self.bytes)


@dataclass(slots=True)
class Call:
    """One call of one rank."""

    kind: Kind
    name: str
    before_ns: int  # computation since the last call
    took_ns: int
    bytes: int
    sends: list[int] = field(default_factory=list)  # messages that it sends, starts to send, or waits for
    receives: list[int] = field(default_factory=list)
    group: int = -1
    begin_ns: int = 0  # in the trace
    phase: int = 1


@dataclass(slots=True)
class Calls:
    """All calls of an application."""

    ranks: dict[int, list[Call]] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    unmatched: int = 0  # sends or receives whose other half is not in the trace
    truncated: list[int] = field(default_factory=list)  # ranks whose trace ends early
    events: int = 0  # that were read
    by_phase: Counter[int] = field(default_factory=Counter)  # the same; of BESIDE: those read for others
    clocks: Clocks = field(default_factory=Clocks)  # by which all moments were corrected


def calls(profile: Profile, overhead_ns: float = 0.0, chosen: Chosen | None = None) -> Calls:
    """`overhead_ns`: of the profiler itself for each call, which the computation before it does not have. `chosen`: the
    events to read; None: all. Raises NotAProfile where there is no trace, or it is damaged.
    """
    if not profile.traces:
        if profile.end is None:
            raise NotAProfile(
                "the profile is incomplete: it ends before its trace, so nothing tells in which order messages were "
                "sent; take it again"
            )
        raise NotAProfile(
            "the profile has no trace, so nothing tells in which order messages were sent; take one without --no-trace"
        )
    return _Builder(profile, overhead_ns, chosen or {}).build()


@dataclass(slots=True)
class _Half:
    """A send or a receive, before the other half is known."""

    call: Call
    bytes: int
    begin_ns: int
    end_ns: int | None  # None: no call completed it


class _Builder:
    def __init__(self, profile: Profile, overhead_ns: float, chosen: Chosen) -> None:
        self.profile = profile
        self.overhead_ns = overhead_ns
        self.chosen = chosen
        self.names = [call.name for call in profile.header.calls]
        self.does = [frozenset(call.does) for call in profile.header.calls]
        self.roles = roles(profile)
        self.clocks = ahead(profile)
        self.found = Calls(truncated=truncated(profile))
        # Streams by (communicator, source, target, tag): what is sent, and what is received, in their order.
        self.sends: dict[tuple[int, int, int, int], list[_Half]] = defaultdict(list)
        self.receives: dict[tuple[int, int, int, int], list[_Half]] = defaultdict(list)
        self.started: dict[tuple[int, int], Call] = {}  # rank, request
        self.waiting: list[tuple[Call, int, int]] = []  # a wait, its rank, the request

    def build(self) -> Calls:
        for rank in sorted(self.profile.traces):
            self.found.ranks[rank] = self._rank(rank)
        self._match()
        for call, rank, request in self.waiting:
            begun = self.started.get((rank, request))
            if begun is not None:
                call.sends += begun.sends
                call.receives += begun.receives
        for call, _, _ in self.waiting:
            if not call.sends and not call.receives:
                call.kind = Kind.OTHER  # for a collective that was started, or for what is not in the trace
        self._group()
        self._set_clocks()
        self._pair_directions()
        self._follow()
        return self.found

    def _host(self, rank: int) -> str:
        return self.profile.hosts.get(rank, "")

    def _rows(self, rank: int) -> dict[str, list[int]]:
        rows = columns(self.profile, rank, self.clocks, self.roles)
        rows["role"] = self.roles[rows["call"]]
        chosen = self.chosen.get(rank)
        if chosen is not None:
            rows = {name: column[chosen.at] for name, column in rows.items()}
            if chosen.beside is not None:
                rows["phase"] = np.where(chosen.beside, BESIDE, rows["phase"])
        found: dict[str, list[int]] = {name: column.tolist() for name, column in rows.items()}
        self.found.events += len(found["call"])
        self.found.by_phase.update(found["phase"])
        return found

    def _rank(self, rank: int) -> list[Call]:
        rows = self._rows(rank)
        done = {  # request -> when it was complete
            request: begin + took
            for role, request, begin, took in zip(
                rows["role"], rows["request"], rows["begin_ns"], rows["duration_ns"], strict=True
            )
            if request and role == Role.COMPLETES
        }
        made: list[Call] = []
        last_end = 0
        last_begin: int | None = None
        requested = 0  # by the last call
        order = (*EVENT_COLUMNS, "role")
        for begin, took, size, request, peer, tag, number, communicator, phase, role in zip(
            *(rows[name] for name in order), strict=True
        ):
            name, does = self.names[number], self.does[number]
            again = role == Role.COMPLETES and bool(made) and made[-1].name == name
            if begin == last_begin and (role == Role.HALF or again):
                call = made[-1]
            else:
                before = begin - last_end if made else begin
                if begin == last_begin:
                    took = 0  # one of several that a call has started: the first has the time
                before = max(0, round(before - self.overhead_ns))
                call = Call(Kind.OTHER, name, before, took, size, begin_ns=begin, phase=phase)
                made.append(call)
                last_begin, last_end = begin, max(last_end, begin + took)
                requested = request
            starts = "starts" in does
            if role == Role.HALF:
                if peer >= 0:
                    end = done.get(requested) if requested else begin + took
                    self.receives[communicator, peer, rank, tag].append(_Half(call, size, begin, end))
                    if not requested:
                        call.kind = Kind.RECV if call.kind is Kind.OTHER else Kind.BOTH
                    else:
                        call.kind = Kind.START
            elif role == Role.COMPLETES:
                if request:
                    call.kind = Kind.WAIT
                    self.waiting.append((call, rank, request))
            elif role == Role.COLLECTIVE:
                call.kind = Kind.COLLECTIVE
                call.group = communicator  # for now: which of its calls comes in _group
                call.sends = [peer]  # for now: the root
            elif role == Role.SENDS:
                if starts:
                    self.started[rank, request] = call
                if peer >= 0:
                    call.kind = Kind.START if starts else Kind.SEND
                    self.sends[communicator, rank, peer, tag].append(_Half(call, size, begin, begin + took))
            elif role == Role.RECEIVES:
                if starts:
                    self.started[rank, request] = call
                if peer >= 0:
                    call.kind = Kind.START if starts else Kind.RECV
                    end = done.get(request) if starts else begin + took
                    self.receives[communicator, peer, rank, tag].append(_Half(call, size, begin, end))
        return made

    def _match(self) -> None:
        for key in self.sends.keys() | self.receives.keys():
            out, into = self.sends.get(key, []), self.receives.get(key, [])
            one_host = self._host(key[1]) == self._host(key[2])
            alone: list[_Half] = []
            at = 0
            for receive in into:
                send = out[at] if at < len(out) else None
                if send is None or (
                    one_host and receive.end_ns is not None and receive.end_ns + SURELY_NS < send.begin_ns
                ):
                    alone.append(receive)
                    continue
                at += 1
                number = len(self.found.messages)
                ended = receive.begin_ns if receive.end_ns is None else receive.end_ns
                self.found.messages.append(
                    Message(
                        key[1],
                        key[2],
                        send.bytes,
                        far=not one_host,
                        completed=receive.end_ns is not None,
                        sent_ns=send.begin_ns,
                        received_ns=ended,
                        posted_ns=receive.begin_ns,
                    )
                )
                send.call.sends.append(number)
                receive.call.receives.append(number)
            alone += out[at:]
            self.found.unmatched += len(alone)
        for halves in (self.sends, self.receives):
            for some in halves.values():
                for half in some:
                    call = half.call
                    if call.kind is Kind.START:
                        continue
                    if call.sends and call.receives:
                        call.kind = Kind.BOTH
                    elif call.sends or call.receives:
                        call.kind = Kind.SEND if call.sends else Kind.RECV
                    else:
                        call.kind = Kind.OTHER

    def _group(self) -> None:
        """Numbers the collective calls of each communicator. Ranks that do not agree leave them as they were."""
        known: dict[tuple[int, int], int] = {}
        differ: set[int] = set()
        for rank, made in self.found.ranks.items():
            seen: dict[int, int] = defaultdict(int)
            for call in made:
                if call.kind is not Kind.COLLECTIVE:
                    continue
                communicator, root = call.group, call.sends[0]
                call.sends = []
                place = seen[communicator]
                seen[communicator] += 1
                number = known.get((communicator, place))
                if number is None:
                    number = known[communicator, place] = len(self.found.groups)
                    there = self.profile.communicators.get(communicator)
                    size = 0 if there is None else there.size
                    self.found.groups.append(
                        Group(call.name, size, call.bytes, root, communicator=communicator)
                    )
                group = self.found.groups[number]
                if (group.name, group.root) != (call.name, root):
                    differ.add(number)
                group.bytes = max(group.bytes, call.bytes)
                group.members.add(rank)
                call.group = number
        for group in self.found.groups:
            group.far = len({self._host(rank) for rank in group.members}) > 1
        for rank, made in self.found.ranks.items():
            for call in made:
                if call.kind is not Kind.COLLECTIVE:
                    continue
                group = self.found.groups[call.group]
                if len(group.members) != group.ranks or call.group in differ:
                    call.kind = Kind.OTHER
                    self.found.unmatched += 1
                elif call.bytes != group.bytes:
                    group.less[rank] = call.bytes

    def _set_clocks(self) -> None:
        """Corrects all moments, as far as messages and collectives tell how far the clocks of hosts are apart."""
        found = self.found
        hosts = {rank: self._host(rank) for rank in found.ranks}
        names = list(dict.fromkeys(hosts.values()))
        found.clocks = clocks(names, self._bounds(hosts) if len(names) > 1 else Bounds())
        if len(names) < 2:
            return
        for message in found.messages:
            source, target = hosts[message.source], hosts[message.target]
            message.sent_ns = found.clocks.corrected(source, message.sent_ns)
            message.received_ns = found.clocks.corrected(target, message.received_ns)
            message.posted_ns = found.clocks.corrected(target, message.posted_ns)
        for rank, its_calls in found.ranks.items():
            for call in its_calls:
                call.begin_ns = found.clocks.corrected(hosts[rank], call.begin_ns)

    def _bounds(self, hosts: dict[int, str]) -> Bounds:
        """A message that is there was sent before, and who ends a collective needed those that came before."""
        bounds = Bounds()
        for message in self.found.messages:
            if message.far and message.completed:
                bounds.add(hosts[message.source], message.sent_ns, hosts[message.target], message.received_ns)
        # By group and host: when the last of its ranks came, and when the first was done. And both moments of the root.
        groups = self.found.groups
        came: list[dict[str, tuple[int, int]]] = [{} for _ in groups]
        roots: dict[int, tuple[int, int]] = {}
        for rank, its_calls in self.found.ranks.items():
            for call in its_calls:
                if call.kind is Kind.COLLECTIVE and groups[call.group].far:
                    begin, end = call.begin_ns, call.begin_ns + call.took_ns
                    last, first = came[call.group].get(hosts[rank], (begin, end))
                    came[call.group][hosts[rank]] = max(last, begin), min(first, end)
                    if rank == groups[call.group].root:
                        roots[call.group] = begin, end
        for number, group in enumerate(groups):
            at = came[number]
            if len(at) < 2 or (group.bytes == 0 and group.name != "Barrier"):
                continue
            if group.name in OF_ALL:
                one, *others = at  # each with one of them: of many hosts all pairs would be very many
                for other in others:
                    bounds.add(one, at[one][0], other, at[other][1])
                    bounds.add(other, at[other][0], one, at[one][1])
            elif number in roots and group.name in ROOTED - UNEVEN:
                begin, end = roots[number]
                for other in at.keys() - {hosts[group.root]}:
                    if group.name in FROM_ROOT:
                        bounds.add(hosts[group.root], begin, other, at[other][1])
                    else:
                        bounds.add(other, at[other][0], hosts[group.root], end)
        return bounds

    def _pair_directions(self) -> None:
        """Which messages had one the other way beside them, for half of their time or more."""
        between: dict[tuple[int, int], list[Message]] = defaultdict(list)
        for message in self.found.messages:
            between[message.source, message.target].append(message)
        for (source, target), there in between.items():
            back = sorted(between.get((target, source), ()), key=lambda one: one.sent_ns)
            if source == target or not back:
                continue
            at = 0
            for message in sorted(there, key=lambda one: one.sent_ns):
                while at < len(back) and back[at].received_ns <= message.sent_ns:
                    at += 1
                beside = back[at] if at < len(back) else None
                if beside is None:
                    continue
                common = min(message.received_ns, beside.received_ns) - max(message.sent_ns, beside.sent_ns)
                message.returned = 2 * common > message.received_ns - message.sent_ns

    def _follow(self) -> None:
        """Which messages began while their sender had another one on its way to the same rank. A message is on its way
        for as long as the quickest of its size was: how long it took itself may be due to a late receiver. It is also
        on its way until it is received, for one whose receive was posted before that.
        """
        between = [message for message in self.found.messages if not message.within]
        quickest: dict[int, int] = {}
        for message in between:
            took = max(message.received_ns - message.sent_ns, 0)
            quickest[message.bytes] = min(took, quickest.get(message.bytes, took))
        # Ranks -> until when those so far are on their way.
        before: dict[tuple[int, int], tuple[int, int]] = {}
        for message in sorted(between, key=lambda one: one.sent_ns):
            pair = message.source, message.target
            quick, received = before.get(pair, (0, 0))
            both_know = max(message.sent_ns, message.posted_ns)
            message.follows = message.sent_ns < quick or both_know < received
            quick = max(quick, message.sent_ns + quickest[message.bytes])
            before[pair] = quick, max(received, message.received_ns)
