# SPDX-License-Identifier: Apache-2.0
"""A whole call of the tuner on a made-up machine that is busy: what gains is found and proven, and nothing else is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from simulated_tuning import LOADED, QUIET, Machine, Noise, Truth, tuned

from netpipe.failure import INTERRUPTED
from netpipe.reading.blocks.visits import FEWEST_LAUNCHES
from netpipe.tuning.measuring.bench import Measured
from netpipe.tuning.search.space import Knob, Space
from netpipe.tuning.search.variants import START
from netpipe.tuning.stops import exit_code
from netpipe.tuning.telling import headline

LARGE = ("0", "64k", "128k", "256k", "512k", "1M")
COARSE = ("0", "32k", "128k", "512k")
SPACE = Space(
    (
        Knob("sndbuf", COARSE, "size", 0, 64 << 20),
        Knob("rcvbuf", COARSE, "size", 0, 64 << 20),
        Knob("nodelay", ("no",), "bool"),
        Knob("quickack", ("yes",), "bool"),
        Knob("congestion", ("reno", "cubic")),
    )
)
SLOW_NS, FAST_NS = 25e6, 2e4  # of 64 KiB over sockets with buffers of 8 KiB, and with usual ones
SEARCHES = 20
OFTEN = 19  # of them: 95 %


def _larger_buffers(gain: float, slow: bool) -> Truth:
    def truth(settings: Mapping[str, str], size: int) -> float:
        whole = SLOW_NS * size / 65536 if slow else FAST_NS * (1 + size / 65536)
        return whole / gain if settings.get("sndbuf") in LARGE else whole

    return truth


def gains_of(gain: float, slow: bool, noise: Noise, what: str = "throughput") -> list[dict[str, str]]:
    """The settings that many searches called a gain, where a larger send buffer is so many times as fast."""
    truth = _larger_buffers(gain, slow)
    outcomes = (tuned(SPACE, truth, what, noise=noise, seed=seed)[0] for seed in range(SEARCHES))
    return [dict(one.best.items) for one in outcomes if one.best != START]


@pytest.mark.deep
@pytest.mark.parametrize("slow", [True, False], ids=["slow start", "usual start"])
@pytest.mark.parametrize("gain", [1.3, 1.7, 5.0])
def test_what_gains_is_found_on_a_busy_machine(gain: float, slow: bool) -> None:
    found = gains_of(gain, slow, LOADED)
    assert len([one for one in found if one.get("sndbuf") in LARGE]) >= OFTEN


@pytest.mark.deep
@pytest.mark.parametrize("noise", [LOADED, QUIET], ids=["busy", "quiet"])
@pytest.mark.parametrize("slow", [True, False], ids=["slow start", "usual start"])
@pytest.mark.parametrize("what", ["throughput", "latency"])
def test_where_nothing_gains_nothing_is_called_a_gain(what: str, slow: bool, noise: Noise) -> None:
    assert gains_of(1.0, slow, noise, what) == []


def test_one_search_finds_a_gain_and_one_finds_that_there_is_none() -> None:
    """One of the many above, for every gate."""
    for gain, name in ((1.7, "sndbuf"), (1.0, None)):
        truth = _larger_buffers(gain, slow=True)
        outcome, _ = tuned(SPACE, truth, seed=3)
        assert next(iter(dict(outcome.best.items)), None) == name


def test_the_proof_measures_what_counts_and_more_launches_where_there_is_time() -> None:
    """With small buffers the sizes that count take a thousand times as long as the rest of the curve."""
    outcome, machine = tuned(SPACE, lambda settings, size: SLOW_NS * size / 65536)
    variants, places, launches = machine.sessions[-1]
    assert "made:a=1#2" in variants
    assert {size for _, size in places} == {65536}
    assert launches > FEWEST_LAUNCHES
    assert {size for _, size in outcome.too_slow} == {65536 << power for power in range(1, 7)}
    assert machine.now_s <= 61


@dataclass
class Pausing(Machine):
    """The start's slow visits are pauses between those of faster settings, in which reno gains nothing."""

    pauses: bool = False

    def session(self, variants: Sequence[str], *places: Any, **more: Any) -> Measured:
        self.pauses = "made:a=1" in variants
        try:
            return super().session(variants, *places, **more)
        finally:
            self.pauses = False

    def __post_init__(self) -> None:
        slow = _larger_buffers(20.0, slow=True)

        def truth(settings: Mapping[str, str], size: int) -> float:
            gains = settings.get("congestion") == "reno" and settings.get("sndbuf") in LARGE
            return slow(settings, size) / (1.3 if gains and not self.pauses else 1.0)

        self.truth = truth


def test_much_faster_settings_are_held_against_each_other_without_the_slow_start() -> None:
    outcome, machine = tuned(SPACE, _larger_buffers(20.0, slow=True), noise=QUIET, kind=Pausing)
    assert dict(outcome.best.items).get("congestion") == "reno"
    assert outcome.verdict is not None
    assert outcome.verdict.times_as_fast.low > 10, "against the start, as it was proven"
    alone = [variants for variants, _, launches in machine.sessions if "made:a=1" not in variants]
    assert any(len(variants) >= 2 for variants in alone)
    assert machine.now_s <= 61


def test_the_curves_are_measured_of_what_was_proven() -> None:
    _, machine = tuned(SPACE, lambda settings, size: 1e4 / (1 + ("nodelay" in settings)), noise=QUIET)
    variants, places, _ = machine.sessions[-1]
    assert variants == ("made:a=1", "made:a=1,nodelay=no")
    assert len(places) == 24


def _nodelay(settings: Mapping[str, str], _size: int) -> float:
    return 1e4 / (1 + ("nodelay" in settings))


@dataclass
class Stopped(Machine):
    """A user presses Ctrl-C while sessions with so many places begin; the curves before and after have 24."""

    most: int = 23

    def session(self, variants: Sequence[str], places: Sequence[Any], *rest: Any, **more: Any) -> Measured:
        measured = super().session(variants, places, *rest, **more)
        if len(places) <= self.most:
            return measured
        self.guard.count += 1
        return replace(measured, interrupted=True)


def test_an_interrupt_after_the_proof_prints_what_was_confirmed() -> None:
    outcome, _ = tuned(SPACE, _nodelay, noise=QUIET, kind=Stopped)
    assert dict(outcome.best.items) == {"nodelay": "no"}
    assert " times as fast as made:a=1 (goal throughput), on fresh launches." in headline(outcome)
    assert exit_code(outcome) == INTERRUPTED


def test_while_it_searches_it_says_the_best_so_far() -> None:
    said: list[str] = []
    tuned(SPACE, _nodelay, noise=QUIET, watch=said.append)
    first, *later = [line for line in said if line.startswith(("trying", "measuring the"))]
    assert first.endswith("; nothing was faster so far")
    assert all("; best so far: nodelay=no, 2" in line for line in later if "the curves" not in line), later
    assert len(later) > 1
