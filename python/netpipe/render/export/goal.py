# SPDX-License-Identifier: Apache-2.0
"""The trace of a profile as a GOAL schedule, the text that LogGOPSim and ATLAHS simulate and LLAMP analyses (Hoefler et
al., LogGOPSim, LSAP 2010; docs/reference/profile.md): for each rank what it computes, sends and receives, and what
comes after what.

Blocking calls form a chain. A send or a receive that was started comes after the call before it, and only its wait
comes after it. A collective becomes point-to-point messages, in rounds that each come after the one before. Every
message has a tag of its own, so that nothing depends on the order in which a simulator matches them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from netpipe.profiles.trace.calls import ROOTED, Call, Calls, Group, Kind

if TYPE_CHECKING:
    from netpipe.profiles import Profile

SMALL = 16 << 10  # bytes up to which an allreduce sends all of its data in each of a few rounds
MOST_TAGS = 1 << 31
MOST_BEFORE = 2  # labels that a call comes after; more are gathered in a calculation that takes no time


class NoSchedule(ValueError):  # noqa: N818  (it reads as what it says)
    """A trace that GOAL cannot hold; the text says why."""


# ------------------------------------------------------------------------------------------- collectives as messages


@dataclass(frozen=True, slots=True)
class Part:
    """What one rank knows of a collective. Places count the members of the communicator."""

    here: int  # its place
    ranks: int
    root: int
    most: int  # bytes that any rank gives
    gives: Callable[[int], int]  # place -> bytes


@dataclass(frozen=True, slots=True)
class Round:
    """Messages of one rank that go on at the same time: (place or rank, bytes)."""

    to: tuple[tuple[int, int], ...] = ()
    come: tuple[tuple[int, int], ...] = ()


Rounds = Callable[[Part], Iterator[Round]]  # on every rank equally many; some are empty


def _dissemination(part: Part) -> Iterator[Round]:
    """In round k with the rank 2^k further on: after the last, something of every rank has reached all."""
    step = 1
    while step < part.ranks:
        there, back = (part.here + step) % part.ranks, (part.here - step) % part.ranks
        yield Round(((there, part.most),), ((back, part.most),))
        step *= 2


def _ring(part: Part) -> Iterator[Round]:
    """What each gives goes around."""
    following, previous = (part.here + 1) % part.ranks, (part.here - 1) % part.ranks
    for step in range(part.ranks - 1):
        mine, theirs = (part.here - step) % part.ranks, (previous - step) % part.ranks
        yield Round(((following, part.gives(mine)),), ((previous, part.gives(theirs)),))


def _allreduce(part: Part) -> Iterator[Round]:
    """Of large data each rank reduces a piece: the pieces go around once for that, and once to reach all."""
    if part.most <= SMALL:
        yield from _dissemination(part)
        return
    piece = -(-part.most // part.ranks)
    for _ in range(2):
        yield from _ring(replace(part, gives=lambda _: piece))


def _pairwise(part: Part) -> Iterator[Round]:
    """To each in turn an equal part."""
    for step in range(1, part.ranks):
        there, back = (part.here + step) % part.ranks, (part.here - step) % part.ranks
        mine, theirs = part.gives(part.here) // part.ranks, part.gives(back) // part.ranks
        yield Round(((there, mine),), ((back, theirs),))


def _from_root(part: Part) -> Iterator[Round]:
    """A binomial tree: in each round who has the data sends it to one that has not."""
    size, from_root = part.gives(part.root), (part.here - part.root) % part.ranks
    step = 1
    while step < part.ranks:
        if from_root < step and from_root + step < part.ranks:
            yield Round((((part.here + step) % part.ranks, size),))
        elif step <= from_root < 2 * step:
            yield Round((), (((part.here - step) % part.ranks, size),))
        else:
            yield Round()
        step *= 2


def _to_root(part: Part) -> Iterator[Round]:
    """The same tree backwards."""
    for one in reversed(list(_from_root(part))):
        yield Round(one.come, one.to)


def _scatter(part: Part) -> Iterator[Round]:
    """The root sends to each what that one gets."""
    if part.here == part.root:
        yield Round(tuple((place, part.gives(place)) for place in range(part.ranks) if place != part.root))
    else:
        yield Round((), ((part.root, part.gives(part.here)),))


def _gather(part: Part) -> Iterator[Round]:
    for one in _scatter(part):
        yield Round(one.come, one.to)


def _chain(part: Part) -> Iterator[Round]:
    for step in range(part.ranks - 1):
        if part.here == step:
            yield Round(((step + 1, part.most),))
        elif part.here == step + 1:
            yield Round((), ((step, part.most),))
        else:
            yield Round()


ROUNDS: dict[str, Rounds] = {
    "Barrier": _dissemination,
    "Win_fence": _dissemination,
    "Bcast": _from_root,
    "Reduce": _to_root,
    "Allreduce": _allreduce,
    "Scatter": _scatter,
    "Scatterv": _scatter,
    "Gather": _gather,
    "Gatherv": _gather,
    "Allgather": _ring,
    "Allgatherv": _ring,
    "Alltoall": _pairwise,
    "Alltoallv": _pairwise,
    "Alltoallw": _pairwise,
    "Reduce_scatter": _pairwise,
    "Reduce_scatter_block": _pairwise,
    "Scan": _chain,
    "Exscan": _chain,
}

# members in the order of the communicator, and the place of each
Order = tuple[Sequence[int], dict[int, int]]


class _Expansion:
    """The messages of collectives, and the first tag of each; the tags below are those of other messages."""

    def __init__(self, made: Calls, profile: Profile) -> None:
        self.groups = made.groups
        self.orders: list[Order | None] = []  # None: the group has no messages
        self.known: dict[int, Order] = {}  # by communicator
        self.tags: list[int] = []
        kept = {call.group for some in made.ranks.values() for call in some if call.kind is Kind.COLLECTIVE}
        tag = len(made.messages)
        for number, group in enumerate(made.groups):
            order = self._order(group, profile) if number in kept else None
            self.orders.append(order)
            self.tags.append(tag)
            if order is not None:
                tag += sum(1 for _ in self._rounds(number, order[0][0]))
        if tag > MOST_TAGS:
            raise NoSchedule(f"the trace has {tag:,} messages, and GOAL has tags for {MOST_TAGS:,}")

    def _order(self, group: Group, profile: Profile) -> Order | None:
        if len(group.members) < 2 or group.name not in ROUNDS:
            return None
        if group.name in ROOTED and group.root not in group.members:
            return None
        known = self.known.get(group.communicator)
        if known is None or known[1].keys() != group.members:
            there = profile.communicators.get(group.communicator)
            members = there.members if there is not None else []
            if len(members) != len(group.members) or set(members) != group.members:
                members = sorted(group.members)
            known = members, {rank: place for place, rank in enumerate(members)}
            self.known[group.communicator] = known
        return known

    def rounds(self, number: int, rank: int) -> Iterator[Round] | None:
        """With ranks of MPI_COMM_WORLD; None: there are none, and the call takes the time that it took."""
        return None if self.orders[number] is None else self._rounds(number, rank)

    def _rounds(self, number: int, rank: int) -> Iterator[Round]:
        group, order = self.groups[number], self.orders[number]
        assert order is not None
        members, places = order
        root = places[group.root] if group.name in ROOTED else 0
        part = Part(places[rank], len(members), root, group.bytes, lambda place: group.gives(members[place]))
        for one in ROUNDS[group.name](part):
            yield Round(
                tuple((members[place], size) for place, size in one.to),
                tuple((members[place], size) for place, size in one.come),
            )


# ------------------------------------------------------------------------------------------------------ the schedule


def schedule(made: Calls, profile: Profile) -> Iterator[str]:
    """The lines, each with its end. Raises NoSchedule before the first."""
    ranks = max(profile.header.ranks, max(made.ranks, default=-1) + 1)
    expansion = _Expansion(made, profile)
    yield f"num_ranks {ranks}\n"
    for rank in range(ranks):
        yield f"\nrank {rank} {{\n"
        yield from _Rank(made, expansion, rank).lines()
        yield "}\n"


@dataclass(slots=True)
class _Rank:
    """The schedule of one rank, while it is written."""

    made: Calls
    expansion: _Expansion
    rank: int
    label: int = 0  # the last that was given
    last: tuple[int, ...] = ()  # labels that the next call comes after
    begun: dict[int, int] = field(default_factory=dict)  # a message that was started -> its label

    def lines(self) -> Iterator[str]:
        for call in self.made.ranks.get(self.rank, ()):
            if call.before_ns > 0 or not self.last:
                yield from self._together([f"calc {call.before_ns}"])
            yield from self._call(call)
        if self.label == 0:
            yield from self._together(["calc 0"])  # no simulator expects a rank without anything

    def _call(self, call: Call) -> Iterator[str]:
        if call.kind is Kind.START:
            for text, number in self._messages(call):
                yield from self._after(self.last, text)
                self.begun[number] = self.label
        elif call.kind is Kind.WAIT:
            ends = {self.begun.pop(number, 0) for number in (*call.sends, *call.receives)} - {0}
            if ends:
                yield from self._after((*self.last, *sorted(ends)), "calc 0")
                self.last = (self.label,)
        elif call.kind in (Kind.SEND, Kind.RECV, Kind.BOTH):
            yield from self._together([text for text, _ in self._messages(call)])
        elif (
            call.kind is Kind.COLLECTIVE
            and (rounds := self.expansion.rounds(call.group, self.rank)) is not None
        ):
            for tag, one in enumerate(rounds, self.expansion.tags[call.group]):
                sends = [_send(size, rank, tag) for rank, size in one.to]
                yield from self._together([*sends, *(_recv(size, rank, tag) for rank, size in one.come)])
        else:
            yield from self._together([f"calc {call.took_ns}"])

    def _messages(self, call: Call) -> Iterator[tuple[str, int]]:
        """Those of the rank to itself are left out: no network has them."""
        for number in call.sends:
            message = self.made.messages[number]
            if message.target != self.rank:
                yield _send(message.bytes, message.target, number), number
        for number in call.receives:
            message = self.made.messages[number]
            if message.source != self.rank:
                yield _recv(message.bytes, message.source, number), number

    def _together(self, texts: Sequence[str]) -> Iterator[str]:
        """After what was last; the next call comes after all of them."""
        before, labels = self.last, []
        for text in texts:
            yield from self._after(before, text)
            labels.append(self.label)
        if len(labels) > MOST_BEFORE:
            yield from self._after(labels, "calc 0")
            labels = [self.label]
        self.last = tuple(labels) or before

    def _after(self, before: Sequence[int], text: str) -> Iterator[str]:
        self.label += 1
        yield f"l{self.label}: {text}\n"
        for other in before:
            yield f"l{self.label} requires l{other}\n"


# LogGOPSim takes the time of a message from its bytes less one: an empty one has one byte.


def _send(size: int, rank: int, tag: int) -> str:
    return f"send {max(size, 1)}b to {rank} tag {tag}"


def _recv(size: int, rank: int, tag: int) -> str:
    return f"recv {max(size, 1)}b from {rank} tag {tag}"
