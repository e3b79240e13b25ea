# SPDX-License-Identifier: Apache-2.0
"""Settings that gain only on top of what was proven: which are tried, which are called a gain, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from simulated_tuning import LOADED, QUIET, Machine, Noise, Truth, tuned

from netpipe.reading.blocks.visits import FEWEST_LAUNCHES
from netpipe.reading.estimate import Estimate
from netpipe.session import Request
from netpipe.tuning.log import Log
from netpipe.tuning.measuring.bench import Measured
from netpipe.tuning.search.goals import OCTAVES, goal
from netpipe.tuning.search.halving import Search
from netpipe.tuning.search.space import Knob, Space, number_of
from netpipe.tuning.search.variants import START, Changes, Start
from netpipe.tuning.tune import Outcome, Tuner

SMALL, COARSE = 8 << 10, ("0", "32k", "128k", "512k")
BUFFERS = Space(
    (
        Knob("sndbuf", COARSE, "size", 0, 64 << 20),
        Knob("rcvbuf", COARSE, "size", 0, 64 << 20),
        Knob("nodelay", ("no",), "bool"),
        Knob("quickack", ("yes",), "bool"),
        Knob("congestion", ("reno", "cubic")),
    )
)
RTT_NS, LINK = 3e5, 0.125  # of 100 us each way with what the hosts add, and bytes in a ns of 1 Gb/s


def far_link(settings: Mapping[str, str], size: int) -> float:
    """In a round trip the smaller buffer crosses once. The receiver grants a part of its buffer, so that one is smaller
    at the start; the sender's limits once the receiver's does not.
    """

    def held(name: str) -> float:
        given = settings.get(name, str(SMALL))
        return 4 << 20 if given == "0" else number_of(given)

    rate = min(LINK, 2 * held("sndbuf") / RTT_NS, 0.73 * held("rcvbuf") / RTT_NS)
    return RTT_NS / 2 + size / rate


def best_of(space: Space, truth: Truth, size: int = 1 << 20) -> float:
    """The time of the best of all combinations."""
    values = [("", *knob.values) for knob in space.knobs]
    each = (
        {knob.name: value for knob, value in zip(space.knobs, one, strict=True) if value}
        for one in product(*values)
    )
    return min(truth(one, size) for one in each)


def share_of(outcome: Outcome, space: Space) -> float:
    """Of the measurements of an exhaustive search, as bench/of_tuning.py counts them."""
    count = 1
    for knob in space.knobs:
        near = (one for value in knob.values for one in knob.around(value))
        count *= 1 + len({*knob.values, *near})
    return outcome.measurements / (count * len(OCTAVES) * FEWEST_LAUNCHES)


@pytest.mark.parametrize("noise", [QUIET, LOADED], ids=["quiet", "busy"])
def test_over_a_far_link_both_buffers_are_enlarged(noise: Noise) -> None:
    """Each alone gains little or nothing."""
    outcome, machine = tuned(BUFFERS, far_link, noise=noise)
    assert far_link(dict(outcome.best.items), 1 << 20) <= best_of(BUFFERS, far_link) / 0.95
    assert share_of(outcome, BUFFERS) <= 0.05
    assert machine.now_s <= 61


@pytest.mark.deep
def test_over_a_far_link_both_buffers_are_enlarged_nearly_always() -> None:
    reached = [
        far_link(dict(tuned(BUFFERS, far_link, seed=seed)[0].best.items), 1 << 20) for seed in range(20)
    ]
    assert sum(time <= best_of(BUFFERS, far_link) / 0.95 for time in reached) >= 19


@dataclass
class Pausing(Machine):
    """Beside the slow start each visit of faster settings follows a pause, in which a connection forgets how fast it
    was, so that its send buffer makes no difference.
    """

    pauses: bool = False

    def session(self, variants: Sequence[str], *places: Any, **more: Any) -> Measured:
        self.pauses = "made:a=1" in variants
        try:
            return super().session(variants, *places, **more)
        finally:
            self.pauses = False

    def __post_init__(self) -> None:
        def truth(settings: Mapping[str, str], size: int) -> float:
            given = {name: value for name, value in settings.items() if name != "sndbuf" or not self.pauses}
            return far_link(given, size)

        self.truth = truth


def test_what_does_not_show_beside_the_slow_start_is_found_on_top_of_what_does() -> None:
    """As it was over a link of 1 Gb/s with 100 us each way: the receive buffer gained 2.7, and 4.2 were there."""
    outcome, machine = tuned(BUFFERS, far_link, noise=QUIET, kind=Pausing)
    assert set(outcome.best.names) == {"sndbuf", "rcvbuf"}
    assert far_link(dict(outcome.best.items), 1 << 20) <= best_of(BUFFERS, far_link) / 0.95
    assert outcome.verdict is not None
    assert outcome.verdict.times_as_fast.low > 4, "over the start: the product of both proofs"
    assert machine.now_s <= 61


# No sizes, which are tried together before one of them has gained.
CHAIN = Space((Knob("first", ("2",)), Knob("second", ("3",)), Knob("third", ("5",))))


def chained(settings: Mapping[str, str], size: int) -> float:
    """Each gains on top of the one before, and nothing alone but the first."""
    time = 1e4 * (1 + size / 65536)
    for name, gain in (("first", 1.15), ("second", 1.1), ("third", 2.0)):
        if name not in settings:
            break
        time /= gain
    return time


def test_settings_that_gain_only_on_top_of_each_other_are_found_one_after_the_other() -> None:
    outcome, machine = tuned(CHAIN, chained, noise=QUIET)
    assert dict(outcome.best.items) == {"first": "2", "second": "3", "third": "5"}
    assert outcome.verdict is not None
    assert outcome.verdict.times_as_fast.covers(1.15 * 1.1 * 2.0), "both proofs and all steps together"
    assert outcome.verdict.gains
    steps = [note for note in outcome.notes if "on fresh launches" in note]
    assert [step.split(" is ")[0] for step in steps] == ["first=2,second=3", "first=2,second=3,third=5"]
    assert machine.now_s <= 61


def test_the_start_is_not_measured_beside_what_is_tried_on_top() -> None:
    _, machine = tuned(CHAIN, chained, noise=QUIET)
    proofs = [one for one in machine.sessions if any(variant.endswith("#2") for variant in one[0])]
    first, *steps = proofs
    assert first[0][:2] == ("made:a=1", "made:a=1#2")
    assert [variants[:2] for variants, _, _ in steps] == [
        ("made:a=1,first=2", "made:a=1,first=2#2"),
        ("made:a=1,first=2,second=3", "made:a=1,first=2,second=3#2"),
    ]
    assert all(launches >= FEWEST_LAUNCHES for _, _, launches in steps)


def only_the_first(settings: Mapping[str, str], size: int) -> float:
    return 1e4 * (1 + size / 65536) / (1.3 if settings.get("sndbuf") in ("0", "128k", "512k") else 1.0)


def test_where_nothing_gains_on_top_nothing_is_added() -> None:
    outcome, _ = tuned(BUFFERS, only_the_first, noise=QUIET)
    assert set(outcome.best.names) == {"sndbuf"}
    assert not [note for note in outcome.notes if "on fresh launches" in note]


@pytest.mark.deep
@pytest.mark.parametrize("noise", [QUIET, LOADED], ids=["quiet", "busy"])
def test_where_nothing_gains_on_top_nearly_nothing_is_ever_added(noise: Noise) -> None:
    found = [tuned(BUFFERS, only_the_first, noise=noise, seed=seed)[0].best for seed in range(20)]
    assert sum(set(one.names) <= {"sndbuf"} for one in found) >= 19


@dataclass
class Recorded(Machine):
    """Remembers which files its sessions were to write."""

    outputs: list[Path] = field(default_factory=list)

    def session(
        self, variants: Sequence[str], *places: Any, output: Path | None = None, **more: Any
    ) -> Measured:
        if output is not None:
            self.outputs.append(output)
        return super().session(variants, *places, **more)


def test_each_step_has_a_run_file_of_its_own(tmp_path: Path) -> None:
    start = Start.of("made:a=1")
    machine = Recorded(start, goal("throughput"), Request([start.text]), False, truth=chained, noise=QUIET)
    machine.clock = lambda: machine.now_s
    Tuner(machine, CHAIN, Log(tmp_path), 60.0).tune(tmp_path / "confirm.jsonl")
    names = [path.name for path in machine.outputs]
    assert names == ["confirm.jsonl", "climb-1.jsonl", "climb-2.jsonl", "curves.jsonl"]
    lines = (tmp_path / "search.jsonl").read_text().splitlines()
    proofs = [line for line in lines if '"confirmation"' in line]
    assert '"reference": {"first": "2", "second": "3"}' in proofs[-1]


@dataclass
class Late(Machine):
    """What is tried on top takes so long that only the time of the curves is left."""

    def session(self, variants: Sequence[str], *places: Any, **more: Any) -> Measured:
        measured = super().session(variants, *places, **more)
        if variants[0] == "made:a=1,first=2" and more.get("launches", 1) == 1:
            self.now_s = 55.0
        return measured


def test_what_is_ahead_is_proven_even_if_no_time_is_left_for_the_curves() -> None:
    outcome, machine = tuned(CHAIN, chained, noise=QUIET, kind=Late)
    assert {"first", "second"} <= set(outcome.best.names)
    assert not any(len(places) == len(OCTAVES) for _, places, _ in machine.sessions), "the curves"
    assert machine.now_s <= 61


# --------------------------------------------------------------------------------------------------- what is measured


def told(search: Search, **times: tuple[float, float]) -> None:
    """Of settings whose value is 1, a time over that of the start and half the width of its interval."""
    asked = search.next()
    assert asked is not None
    search.tell(
        asked,
        {
            Changes.of(dict.fromkeys(name.split("_"), "1")): Estimate(value, value - half, value + half)
            for name, (value, half) in times.items()
        },
    )


ABC = Space(
    (Knob("a", ("1",), "size", 0, 9), Knob("b", ("1",)), Knob("c", ("1",), "size", 0, 9), Knob("d", ("1",)))
)
A, AC = Changes.of({"a": "1"}), Changes.of({"a": "1", "c": "1"})


def test_on_top_of_a_gain_settings_of_the_same_kind_come_first() -> None:
    search = Search(ABC)
    told(search, a=(0.8, 0.01), b=(1.0, 0.01), c=(1.0, 0.01), d=(1.0, 0.01))
    asked = search.on_top(A)
    assert asked.reference == A
    assert [one.names for one in asked.candidates] == [("a", "c"), ("a", "b"), ("a", "d")]


def test_what_was_no_faster_on_top_of_it_is_not_tried_there_again() -> None:
    search = Search(ABC)
    told(search, a=(0.8, 0.01), a_c=(0.82, 0.01), a_b=(0.79, 0.05))
    assert [one.names for one in search.on_top(A).candidates] == [("a", "b"), ("a", "d")]


def test_only_what_was_certainly_faster_is_held_against_what_was_proven() -> None:
    search = Search(ABC)
    told(search, a=(0.8, 0.02), a_c=(0.5, 0.05), a_b=(0.75, 0.1))
    assert search.ahead(A) == [AC]
    assert search.ahead(AC) == []


def test_two_are_compared_by_the_round_that_tells_their_ratio_best() -> None:
    """Beside a slow start both have wide intervals, and against each other they do not."""
    search = Search(ABC)
    told(search, a=(0.01, 0.008), a_c=(0.008, 0.007))
    assert search.ahead(A) == []
    asked = search.on_top(A)
    search.tell(asked, {AC: Estimate(0.8, 0.78, 0.82)})
    assert search.ahead(A) == [AC]


# ---------------------------------------------------------------------------------------------- how much it measures


def test_three_launches_are_enough_where_they_say_it() -> None:
    """With a gain that is plain; where there is none, the others are measured too, and all of them count."""
    space = Space((Knob("nodelay", ("no",), "bool"),))
    for gain, launches in ((1.5, [FEWEST_LAUNCHES]), (1.0, [FEWEST_LAUNCHES, 5])):
        outcome, machine = tuned(
            space, lambda settings, _, gain=gain: 1e4 / (gain if "nodelay" in settings else 1.0), noise=QUIET
        )
        proofs = [number for variants, _, number in machine.sessions if "made:a=1#2" in variants]
        assert proofs == launches
        assert (outcome.best == START) == (gain == 1.0)
        if outcome.best == START:
            assert outcome.run is not None
            assert {point.launch for point in outcome.run.points} == set(range(8))


PVM = Space(
    (
        Knob("route", ("direct",)),
        Knob("encoding", ("raw", "inplace")),
        Knob("fragment", ("32k", "256k"), "size", 0, 1 << 20),
    )
)


def test_a_layer_with_few_settings_is_searched_with_few_measurements() -> None:
    """The curves before and after, which an exhaustive search measures of everything, are half of them."""
    outcome, machine = tuned(
        PVM, lambda settings, _: 5e4 / (1.2 if "route" in settings else 1.0), "latency", noise=QUIET
    )
    assert dict(outcome.best.items) == {"route": "direct"}
    curves = [places for _, places, _ in machine.sessions if len(places) == len(OCTAVES)]
    assert len(curves) == 1
    assert share_of(outcome, PVM) <= 0.1
