# SPDX-License-Identifier: Apache-2.0
"""Replaying with many costs at once gives the numbers of one replay after the other, to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from test_prediction import EAGER, Event, flat, plain, traced

from netpipe.prediction.costs import Costs, Factors, Sized
from netpipe.prediction.replay import Stuck, replay
from netpipe.prediction.together import replay_all
from netpipe.profiles.trace.calls import Calls, calls

SMALL, LARGE = 8, 1 << 20


class Program:
    """Writes down the calls of ranks that take their turns at random, so that no two of them wait for each other."""

    def __init__(self, seed: int, ranks: int) -> None:
        self.random = Random(seed)
        self.events: list[list[Event]] = [[] for _ in range(ranks)]
        self.now = [0] * ranks
        self.sent = 0  # the last message
        self.requests = 0

    def call(self, rank: int, name: str, size: int, peer: int, request: int = 0) -> None:
        begin = self.now[rank] + self.random.choice((0, 10, 700, 3000))
        took = self.random.choice((1, 90, 2000))
        if name in ("Recv", "Wait", "Waitall"):
            took = max(took, self.sent - begin)  # no message comes before it was sent
        else:
            self.sent = max(self.sent, begin)
        self.events[rank].append((name, begin, took, size, peer, request))
        self.now[rank] = begin + took

    def wait(self, rank: int, name: str, size: int, requests: list[tuple[int, int]]) -> None:
        """One call for all of these (peer, request)."""
        self.call(rank, name, size, *requests[0])
        (_, begin, took, *_) = self.events[rank][-1]
        self.events[rank] += [(name, begin, took, size, *one) for one in requests[1:]]

    def start(self, rank: int, name: str, size: int, peer: int) -> tuple[int, int]:
        self.requests += 1
        self.call(rank, name, size, peer, self.requests)
        return peer, self.requests

    def some(self, many: int) -> list[int]:
        return self.random.sample(range(len(self.events)), many)

    def size(self) -> int:
        return self.random.choice((1, SMALL, EAGER, EAGER + 1, LARGE))

    # ------------------------------------------------------------------------------------------------- what they do

    def message(self) -> None:
        (one, other), size = self.some(2), self.size()
        self.call(one, "Send", size, other)
        self.call(other, "Recv", size, one)

    def isend(self) -> None:
        """The receiver posts early or late, and both compute before they wait."""
        (one, other), size = self.some(2), self.size()
        sent = self.start(one, "Isend", size, other)
        received = self.start(other, "Irecv", size, one)
        self.wait(other, "Wait", size, [received])
        self.wait(one, "Wait", size, [sent])

    def exchange(self) -> None:
        """Of all ranks, each with several."""
        size, ranks = self.size(), range(len(self.events))
        pending: list[list[tuple[int, int]]] = [[] for _ in ranks]
        for name in self.random.sample(("Irecv", "Isend"), 2):
            for rank in self.some(len(ranks)):
                for peer in ranks:
                    if peer != rank:
                        pending[rank].append(self.start(rank, name, size, peer))
        for rank in self.some(len(ranks)):
            self.wait(rank, "Waitall", size, pending[rank])

    def train(self) -> None:
        """Several messages at once from one rank to another."""
        (one, other), size = self.some(2), self.size()
        received = [self.start(other, "Irecv", size, one) for _ in range(4)]
        sent = [self.start(one, "Isend", size, other) for _ in range(4)]
        self.wait(other, "Waitall", size, received)
        self.wait(one, "Waitall", size, sent)

    def collective(self) -> None:
        name, root = self.random.choice((("Allreduce", -2), ("Barrier", -2), ("Bcast", 0), ("Reduce", 1)))
        size = self.size()
        for rank in range(len(self.events)):
            self.call(rank, name, size, root)

    def wavefront(self) -> None:
        """Down a row of ranks, several times, as in LU and Sweep3D."""
        size, row = self.size(), self.some(len(self.events))
        for _ in range(3):
            for before, after in pairwise(row):
                self.call(before, "Send", size, after)
                self.call(after, "Recv", size, before)

    def to_itself(self) -> None:
        (one,), size = self.some(1), self.size()
        received = self.start(one, "Irecv", size, one)
        self.call(one, "Send", size, one)
        self.wait(one, "Wait", size, [received])


PARTS: list[Callable[[Program], None]] = [
    Program.message,
    Program.isend,
    Program.exchange,
    Program.train,
    Program.collective,
    Program.wavefront,
    Program.to_itself,
]


def program(seed: int, ranks: int, parts: list[Callable[[Program], None]], many: int = 8) -> Calls:
    made = Program(seed, ranks)
    for _ in range(many):
        made.random.choice(parts)(made)
    found = calls(traced(*made.events))
    assert not found.unmatched
    return found


def measured(ranks: int) -> Costs:
    return Costs(
        "mpi@x",
        latency=Sized({1: 900.0, EAGER: 2100.0, LARGE: 90_000.0}),
        exchange=Sized({1: 1100.0, EAGER: 2900.0, LARGE: 140_000.0}),
        send=Sized({1: 90.0, LARGE: 30_000.0}),
        recv=Sized({1: 150.0, LARGE: 40_000.0}),
        eager=lambda size: size <= EAGER,
        blocking=flat(130.0),
        first=7000.0,
        within=Sized({1: 3.0, LARGE: 0.8}),
        gap=Sized({1: 250.0, EAGER: 700.0, LARGE: 60_000.0}),
        gap_both=Sized({1: 300.0, EAGER: 900.0, LARGE: 80_000.0}),
        collectives={("Allreduce", ranks): flat(1700.0), ("Bcast", ranks): Sized({1: 800.0, LARGE: 1e5})},
    )


def changes(one: Costs) -> list[Costs]:
    """One parameter after the other, so that the ranks come in another order."""
    worse = (0.25, 1.0, 64.0)
    return [
        one.changed(Factors(**{name: factor}))  # type: ignore[arg-type]
        for name in ("latency", "overhead", "bandwidth", "gap")
        for factor in worse
    ]


@pytest.mark.parametrize("part", [*([one] for one in PARTS), PARTS], ids=lambda some: some[-1].__name__)
@pytest.mark.parametrize("ranks", [2, 5])
def test_the_times_are_those_of_each_replay(ranks: int, part: list[Callable[[Program], None]]) -> None:
    costs = changes(measured(ranks))
    for seed in range(8 // ranks):
        made = program(seed, ranks, part)
        assert replay_all(made, costs) == [replay(made, one) for one in costs]


def test_a_message_moves_in_another_call_where_the_other_side_is_late() -> None:
    """Rank 0 posts its receive at 4000 ns. Rank 1 is in its send by then, or comes when the receiver has gone on, to
    wait 20 000 ns later.
    """
    made = calls(
        traced(
            [
                ("Recv", 0, 1000, SMALL, 1, 0),
                ("Irecv", 4000, 1, LARGE, 1, 1),
                ("Wait", 24_000, 1, LARGE, 1, 1),
            ],
            [("Send", 0, 1, SMALL, 0, 0), ("Send", 1, 1, LARGE, 0, 0)],
        )
    )
    costs = [replace(plain(), send=flat(overhead)) for overhead in (100.0, 3000.0, 5000.0, 9000.0)]
    found = replay_all(made, costs)
    assert found == [replay(made, one) for one in costs]
    assert [one.by_rank[1] for one in found] == [5000, 5000, 25_000, 25_000]


def test_costs_with_another_eager_limit_or_without_a_curve_take_another_course() -> None:
    one = measured(3)
    several = changes(one)
    several += [other.changed(Factors(eager=SMALL)) for other in several]
    several += [replace(other, collectives={}) for other in several]
    several.append(one.changed(Factors(eager=0)))
    lacking = []
    for seed in range(3):
        made = program(seed, 3, PARTS)
        found = replay_all(made, several)
        assert found == [replay(made, each) for each in several]
        lacking.append((found[0].without_curve, found[-2].without_curve))
    assert any(few != more for few, more in lacking)


@pytest.mark.parametrize("without", ["gap", "gap_both"])
def test_costs_without_a_curve_of_gaps_take_another_course(without: str) -> None:
    one = measured(3)
    several = [*changes(one), replace(one, **{without: None})]  # type: ignore[arg-type]
    for seed in range(3):
        made = program(seed, 3, [Program.train, Program.exchange])
        assert replay_all(made, several) == [replay(made, each) for each in several]


def test_ranks_of_several_hosts_have_costs_of_their_own() -> None:
    """Some of the costs are the same within a host and between hosts, others have an eager limit of their own there."""
    between = replace(measured(5), latency=flat(20_000.0), first=90_000.0, eager=lambda size: size <= SMALL)
    several = changes(replace(measured(5), far=between))
    several.append(replace(several[0], far=None))
    differ = 0
    for seed in range(3):
        made = program(seed, 5, PARTS)
        for message in made.messages:
            message.far = message.source % 2 != message.target % 2
        for group in made.groups:
            group.far = True
        found = replay_all(made, several)
        assert found == [replay(made, each) for each in several]
        differ += found[0] != found[-1]
    assert differ


@pytest.mark.parametrize("many", [0, 1, 2, 3, 7])
def test_the_times_come_in_the_order_of_the_costs(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where more are asked for than fit at once."""
    monkeypatch.setattr("netpipe.prediction.together.MOST", 3)
    made = calls(traced([("Send", 0, 5, SMALL, 1, 0)], [("Recv", 0, 50, SMALL, 0, 0)]))
    costs = [replace(plain(), latency=flat(1000.0 + place)) for place in range(many)]
    assert [one.wall for one in replay_all(made, costs)] == [1000.0 + place for place in range(many)]


def test_a_program_without_calls_takes_no_time() -> None:
    assert replay_all(calls(traced([], [])), [plain()] * 3) == [replay(calls(traced([], [])), plain())] * 3


def test_calls_that_wait_for_each_other_are_named() -> None:
    both = traced(
        [("Send", 0, 5, LARGE, 1, 0), ("Recv", 5, 5, LARGE, 1, 0)],
        [("Send", 0, 5, LARGE, 0, 0), ("Recv", 5, 5, LARGE, 0, 0)],
    )
    with pytest.raises(Stuck, match="waits in MPI_Send"):
        replay_all(calls(both), [plain()] * 3)
