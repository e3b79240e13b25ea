# SPDX-License-Identifier: Apache-2.0
"""Replays the calls of an application with other costs. Each rank has a clock; computation takes what it took, a call
takes what the costs say, and waits for what it needs from other ranks.

* A message that is sent at once (eager) leaves the sender after its processor time, is there after the latency of its
  size, and costs the receiver its processor time if it was there before.
* A larger one moves when its receive is posted and both ranks are inside a call that waits, whichever that is, for the
  latency of its size; for that of an exchange if one went the other way at the same time. A rank receives one after the
  other. A rank whose trace has ended is taken to be in a call that waits.
* Of several on their way between the same two ranks the first takes its latency, and each that follows is there no
  sooner than its gap after the one before. Without a curve of gaps eager messages do not delay each other, and larger
  ones take their latency one after the other.
* A message of a rank to itself crosses nothing: its calls take what they took, or as much more or less as the library
  takes for it.
* The first message between two ranks, and the first collective, takes what a library needs to connect.
* Between ranks of two hosts all of this has the costs between hosts, if these were measured too.
* A collective ends, for all, its time after the last rank has come; for the root of a broadcast when it has sent, and
  for the others of a reduction too.

The order in which ranks go on depends on no time. So several costs can be replayed at once (together.py), and a time
here may be a row of them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import itemgetter

from netpipe.prediction.costs import Costs
from netpipe.prediction.runs import BETWEEN
from netpipe.profiles.trace.calls import FROM_ROOT, TO_ROOT, Call, Calls, Kind, Message

NEVER = -math.inf


class Stuck(ValueError):  # noqa: N818  (it reads as what it says)
    """The calls wait for each other, which those of a complete trace cannot."""


@dataclass(slots=True)
class Replayed:
    """Times of one replay, in nanoseconds."""

    by_rank: dict[int, float] = field(default_factory=dict)  # in calls
    waiting: dict[int, float] = field(default_factory=dict)  # of that, for another rank to come
    by_call: dict[tuple[str, int], float] = field(default_factory=dict)  # name, bytes: over all ranks
    wall: float = 0.0
    without_curve: dict[tuple[str, int], int] = field(default_factory=dict)  # collective, ranks: calls


@dataclass(slots=True)
class _Moving:
    """A message on its way."""

    posted: float | None = None  # the sender's call began
    expected: float | None = None  # and the receiver's
    arrives: float | None = None  # eager: when it is there
    connects: float = 0.0  # the time that it takes because it is the first one between its ranks
    done: float | None = None


class Replay:
    def __init__(self, calls: Calls, costs: Costs) -> None:
        self.calls = calls
        self.costs = costs
        self.moving = [_Moving() for _ in calls.messages]
        self.clock = dict.fromkeys(calls.ranks, 0.0)
        self.next = dict.fromkeys(calls.ranks, 0)
        self.begun: dict[int, float] = {}  # rank -> when its call began that cannot end yet
        # Rank -> until when it receives, by sender.
        self.busy: dict[int, dict[int, float]] = defaultdict(dict)
        # Sender, receiver -> when the last eager message is there.
        self.arrived: dict[tuple[int, int], float] = {}
        # Rank -> messages that it has started, and that may not have moved yet.
        self.open: dict[int, set[int]] = defaultdict(set)
        self.met: set[tuple[int, int]] = set()  # ranks that have exchanged a message
        self.gathered: set[int] = set()  # ranks that have been in a collective
        self.groups: list[dict[int, float]] = [{} for _ in calls.groups]
        self.ends: list[dict[int, float] | None] = [None for _ in calls.groups]
        self.found = Replayed(
            by_rank=dict.fromkeys(calls.ranks, 0.0), waiting=dict.fromkeys(calls.ranks, 0.0)
        )
        self.runnable = list(calls.ranks)
        self.woken: set[int] = set()  # by the rank that goes on

    @staticmethod
    def latest(*times: float) -> float:
        return max(times)

    @staticmethod
    def earliest(*times: float) -> float:
        return min(times)

    def run(self) -> Replayed:
        while self.runnable:
            self._go(self.runnable.pop())
            self.runnable += sorted(self.woken)
            self.woken.clear()
        stuck = [rank for rank, made in self.calls.ranks.items() if self.next[rank] < len(made)]
        if stuck:
            call = self.calls.ranks[stuck[0]][self.next[stuck[0]]]
            raise Stuck(f"rank {stuck[0]} waits in MPI_{call.name} for a call that is not in the trace")
        self.found.wall = self.latest(0.0, *self.clock.values())
        return self.found

    def _go(self, rank: int) -> None:
        """Until the rank has to wait for another one."""
        made = self.calls.ranks[rank]
        while self.next[rank] < len(made):
            call = made[self.next[rank]]
            fresh = rank not in self.begun
            begin = self.clock[rank] + call.before_ns if fresh else self.begun[rank]
            if fresh:
                self.begun[rank] = begin
                self._enter(rank, call, begin)
            end = self._end(rank, call, begin)
            if end is None:
                return
            del self.begun[rank]
            self.clock[rank] = end
            self.next[rank] += 1
            self.found.by_rank[rank] += end - begin
            key = (call.name, call.bytes)
            self.found.by_call[key] = self.found.by_call.get(key, 0.0) + end - begin
        self._try_all(rank)

    # ----------------------------------------------------------------------------------------- the parts of a call

    def _enter(self, rank: int, call: Call, begin: float) -> None:
        """What others learn from it when the call begins."""
        if call.kind in (Kind.SEND, Kind.RECV, Kind.START, Kind.BOTH):
            for number in call.sends:
                self._post(number, begin)
            for number in call.receives:
                self.moving[number].expected = begin
            self.open[rank].update(call.sends, call.receives)
        if call.kind is not Kind.OTHER:
            self._try_all(rank)
        if call.kind is Kind.COLLECTIVE:
            came = self.groups[call.group]
            came[rank] = begin
            group = self.calls.groups[call.group]
            if len(came) == group.ranks:
                self._finish(call.group)

    def _post(self, number: int, begin: float) -> None:
        message, moving = self.calls.messages[number], self.moving[number]
        moving.posted = begin
        if message.within:
            moving.arrives = begin
            return
        costs, pair = self._costs(message), (message.source, message.target)
        moving.connects = self._connects(costs, *pair)
        if costs.eager(message.bytes):
            arrives = begin + moving.connects + costs.takes(message.bytes, message.returned)
            gap = costs.follows(message.bytes, message.returned)
            if gap is not None:
                arrives = self.latest(arrives, self.arrived.get(pair, NEVER) + gap)
                self.arrived[pair] = arrives
            moving.arrives = arrives
            self._wake(message.target)

    def _costs(self, message: Message) -> Costs:
        return self.costs.of(message.far)

    def _connects(self, costs: Costs, *ranks: int) -> float:
        pair = min(ranks), max(ranks)
        if pair in self.met:
            return 0.0
        self.met.add(pair)
        return costs.first

    def _try_all(self, rank: int) -> None:
        for number in sorted(self.open[rank]):
            self._try(number)

    def _try(self, number: int) -> None:
        """A message that asks first moves when both sides know of it and are in a call."""
        message, moving = self.calls.messages[number], self.moving[number]
        if moving.arrives is None and moving.done is None:
            if moving.posted is None or moving.expected is None:
                return
            sender, receiver = self._inside(message.source), self._inside(message.target)
            if sender is None or receiver is None:
                return
            both_in = self.latest(moving.posted, moving.expected, sender, receiver)
            if not self._move(number, both_in):
                return
            self._wake(message.source)
            self._wake(message.target)
        self.open[message.source].discard(number)
        self.open[message.target].discard(number)

    def _move(self, number: int, both_in: float) -> bool:
        """Whether it does, now that both sides are in a call."""
        message = self.calls.messages[number]
        if any(self._leaves_before(rank, both_in) for rank in (message.source, message.target)):
            return False
        done = self._done(number, both_in)
        self.moving[number].done = self.busy[message.target][message.source] = done
        return True

    def _done(self, number: int, both_in: float) -> float:
        """When it is there: after what others send to its receiver, and its gap after what its sender did."""
        message = self.calls.messages[number]
        busy = self.busy[message.target]
        costs = self._costs(message)
        takes = self.moving[number].connects + costs.takes(message.bytes, message.returned)
        gap = costs.follows(message.bytes, message.returned)
        others = (until for source, until in busy.items() if source != message.source)
        before = busy.get(message.source, NEVER)
        return self.latest(self.latest(both_in, *others) + takes, before + (takes if gap is None else gap))

    def _inside(self, rank: int) -> float | None:
        """Since when the rank is in a call. Where its trace has ended it is taken to wait in the next one."""
        return self.clock[rank] if self._ended(rank) else self.begun.get(rank)

    def _ended(self, rank: int) -> bool:
        return self.next[rank] == len(self.calls.ranks[rank])

    def _leaves_before(self, rank: int, moment: float) -> bool:
        """Whether the call that a rank is in only starts a transfer, and is over by then."""
        if self._ended(rank):
            return False
        call = self.calls.ranks[rank][self.next[rank]]
        return call.kind is Kind.START and moment > self.begun[rank]

    def _wake(self, rank: int) -> None:
        if rank in self.begun:
            self.woken.add(rank)

    def _finish(self, number: int) -> None:
        group, came = self.calls.groups[number], self.groups[number]
        costs = self.costs.of(group.far)
        took = costs.collective(group.name, group.ranks, group.bytes)
        if took is None:
            key = (group.name if costs is self.costs else f"{group.name}{BETWEEN}", group.ranks)
            self.found.without_curve[key] = self.found.without_curve.get(key, 0) + 1
            took = _guess(costs, group.name, group.ranks, group.bytes)
        connects = self._gathers(costs, set(came))
        took = took + connects  # not +=, which would change a row of the costs
        last = self.latest(*came.values())
        ends = dict.fromkeys(came, last + took)
        if group.root in came:
            root = came[group.root]
            sent = connects + costs.blocks(group.bytes) if costs.eager(group.bytes) else took
            if group.name in FROM_ROOT:
                ends = {rank: self.latest(begin, root) + took for rank, begin in came.items()}
                ends[group.root] = root + sent
            elif group.name in TO_ROOT:
                ends = {rank: begin + self.earliest(sent, took) for rank, begin in came.items()}
                ends[group.root] = last + took
        self.ends[number] = ends
        for rank in came:
            self._wake(rank)

    def _gathers(self, costs: Costs, ranks: set[int]) -> float:
        """What connecting takes. In a collective of two ranks they meet; of more nobody knows which ones do."""
        known = ranks <= self.gathered
        self.gathered |= ranks
        if len(ranks) == 2:
            return self._connects(costs, *ranks)
        return 0.0 if known or len(ranks) < 2 else costs.first

    def _end(self, rank: int, call: Call, begin: float) -> float | None:
        """When the call returns; None: not yet known."""
        if call.kind is Kind.OTHER:
            return begin + call.took_ns
        if call.kind is Kind.COLLECTIVE:
            ends = self.ends[call.group]
            if ends is None:
                return None
            self.found.waiting[rank] += self.latest(*self.groups[call.group].values()) - begin
            return ends[rank]
        if call.kind is Kind.START:
            return begin + self._started(call)
        if self._within(call):
            return begin + self._took_within(call)
        waited = 0.0
        there: list[tuple[float, float]] = []  # when each message is there, and what its copy takes
        for number in call.receives:
            moving, message = self.moving[number], self.calls.messages[number]
            if message.within:
                if moving.arrives is None:
                    return None
            elif moving.arrives is not None:
                there.append((moving.arrives, self._costs(message).recv(message.bytes)))
            elif moving.done is not None:
                there.append((moving.done, 0.0))
            else:
                return None
            assert moving.posted is not None
            waited = self.latest(waited, moving.posted - begin)
        end = begin
        for arrives, copy in self._in_order(there):
            # What is there costs its copy; what comes while the rank waits has it in its latency.
            end = self.latest(end + copy, arrives)
        for number in call.sends:
            moving, message = self.moving[number], self.calls.messages[number]
            if moving.arrives is not None:
                if call.kind in (Kind.SEND, Kind.BOTH) and not message.within:
                    costs = self._costs(message)
                    end = self.latest(end, begin + moving.connects + costs.blocks(message.bytes))
            elif moving.done is not None:
                end = self.latest(end, moving.done)
                if moving.expected is not None:
                    waited = self.latest(waited, moving.expected - begin)
            else:
                return None
        self.found.waiting[rank] += self.earliest(waited, end - begin)
        return end

    def _within(self, call: Call) -> bool:
        """Whether it has messages of the rank to itself alone, all of which were sent, or are only asked for."""
        numbers = [*call.sends, *call.receives]
        return bool(numbers) and all(
            self.calls.messages[number].within
            and (call.kind is Kind.START or self.moving[number].arrives is not None)
            for number in numbers
        )

    def _took_within(self, call: Call) -> float:
        if self.costs.within is None:
            return call.took_ns
        size = max(self.calls.messages[number].bytes for number in (*call.sends, *call.receives))
        return call.took_ns * self.costs.within(size)

    def _in_order(self, there: list[tuple[float, float]]) -> Iterable[tuple[float, float]]:
        return sorted(there, key=itemgetter(0))

    def _started(self, call: Call) -> float:
        """A send that is eager does its work now; others only ask."""
        if self._within(call):
            return self._took_within(call)
        messages = [self.calls.messages[number] for number in (*call.sends, *call.receives)]
        costs = self._costs(messages[0]) if messages else self.costs
        if call.sends:
            size = messages[0].bytes
            return costs.send(size if costs.eager(size) else 1)
        return self.earliest(costs.recv(1), call.took_ns)


def _guess(costs: Costs, name: str, ranks: int, size: int) -> float:
    """A collective by messages in a tree, or to each rank in turn."""
    if name.startswith("Alltoall"):
        return (ranks - 1) * costs.exchange(max(size // max(ranks, 1), 1))
    rounds = max(ranks - 1, 1).bit_length()
    return rounds * costs.latency(max(size, 1))


def replay(calls: Calls, costs: Costs) -> Replayed:
    """Raises Stuck."""
    return Replay(calls, costs).run()
