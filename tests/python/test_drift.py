# SPDX-License-Identifier: Apache-2.0
"""Times that go one way during a run, on machines whose truth is known (changing.py), and nothing where they wander."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import numpy as np
import pytest
from changing import Layer, Machine, Over, Telegraph, Wander, cores_that_move, up_to

from netpipe.findings import Finding, drift, examples, judge
from netpipe.reading import Reading
from netpipe.reading.blocks.drift import _chances, _over, course
from netpipe.records import Run

SIZES = tuple(4**power for power in range(6))


def machine(*layers: Layer, launches: int = 4, seed: int = 1, **more: Over) -> Machine:
    return Machine(layers, seed, SIZES, launches, **more)


def over_the_run(each_s: float) -> Over:
    """A launch of a Machine lasts 7.5 s."""
    return lambda launch, at_s: each_s * (7.5 * launch + at_s)


def in_each_launch(each_s: float) -> Over:
    return lambda launch, at_s: each_s * at_s


def found_in(made: Run) -> list[Finding]:
    return [one for one in judge(Reading(made)).findings if one.rule == "drift"]


def why_not(made: Run) -> str | None:
    return next((one.reason for one in judge(Reading(made)).skipped if one.rule == "drift"), None)


# --------------------------------------------------------------------------------------------------------- what drifts


@pytest.mark.parametrize(("each_s", "way"), [(0.005, "rises"), (-0.005, "falls")])
def test_a_curve_that_drifts_over_the_run_is_named_and_one_that_does_not_is_not(
    each_s: float, way: str
) -> None:
    made = machine(Layer("tcp", own=[over_the_run(each_s)]), Layer("shm")).run()
    (found,) = found_in(made)
    # From the middle of the first third to that of the last, 27.5 of 30 s.
    change = abs(np.expm1(27.5 * each_s))
    assert abs(found.evidence["change"].value) == pytest.approx(change, rel=0.2)
    said = re.fullmatch(
        rf"The time of tcp pingpong {way} by \d+ % from the beginning of the run to its end\.", found.what
    )
    assert said, found.what
    assert found.certainty.startswith("A rank test over 4 launches")
    assert found.evidence["chance"].value == pytest.approx(2 / 384)
    assert (found.experiment or "").endswith("--launches 8")


def test_a_library_that_warms_up_in_each_launch_is_told_so() -> None:
    made = machine(Layer("tcp", own=[in_each_launch(-0.03)]), Layer("shm")).run()
    (found,) = found_in(made)
    change = found.evidence["change"]
    # A third of a launch is 2.5 s, so from the middle of the first to that of the last are 5 s.
    assert change.value == pytest.approx(np.expm1(-0.15), rel=0.2)
    assert change.low is not None
    assert change.high is not None
    assert change.low < change.value < change.high < 0
    assert re.search(r"falls by \d+ % from the first to the last third of each launch\.", found.what)
    assert "--budget" in found.remedy


def test_curves_that_go_the_same_way_are_one_finding_and_the_fastest_is_its_example() -> None:
    rates = {"tcp": 0.004, "shm": 0.008, "pipe": 0.003}
    layers = [Layer(name, noise=0.01, own=[over_the_run(rate)]) for name, rate in rates.items()]
    (found,) = found_in(machine(*layers).run())
    assert found.variant == "shm"
    assert re.search(
        r" So does that of tcp pingpong \(by \d+ %\) and pipe pingpong \(by [\d.]+ %\)\.", found.what
    )
    assert "change of tcp pingpong" in found.evidence


def test_ways_that_differ_are_findings_of_their_own() -> None:
    layers = [Layer(name, own=[over_the_run(rate)]) for name, rate in (("tcp", 0.005), ("shm", -0.005))]
    assert {one.variant for one in found_in(machine(*layers).run())} == {"tcp", "shm"}


def test_a_yardstick_that_went_the_same_way_is_named() -> None:
    def warms(launch: int, at_s: np.ndarray) -> np.ndarray:
        return (7.5 * launch + at_s) / 90  # of the way to five times as long a wake-up

    made = machine(Layer("tcp", own=[over_the_run(0.005)]), wakeup=warms).run()
    (found,) = found_in(made)
    assert re.search(r" Meanwhile it took \d+ % longer to wake a process\.$", found.what), found.what
    assert found.cause.startswith("The machine went the same way")
    falls = machine(Layer("tcp", own=[over_the_run(-0.005)]), wakeup=warms).run()
    assert "Meanwhile" not in found_in(falls)[0].what, "it went the other way"


# ------------------------------------------------------------------------------------------------------ what does not


def test_less_than_five_percent_is_no_finding_however_certain() -> None:
    for each_s, found in ((0.0007, 0), (0.0014, 1)):  # 4 and 8 % in a minute
        made = machine(Layer("tcp", noise=0.005, own=[over_the_run(each_s)]), launches=8)
        assert len(found_in(made.run())) == found


def test_launches_that_differ_are_no_drift_even_where_they_are_in_order() -> None:
    """Each launch is slower than the one before, and inside them nothing goes one way: one of twelve runs is so."""
    made = machine(Layer("tcp", own=[lambda launch, at_s: 0.2 * launch + 0 * at_s]))
    assert not found_in(made.run())


def test_many_launches_in_order_are_a_drift() -> None:
    made = machine(Layer("tcp", own=[lambda launch, at_s: 0.05 * launch + 0 * at_s]), launches=8)
    (found,) = found_in(made.run())
    assert "from the beginning of the run to its end" in found.what


def test_times_that_change_with_the_state_of_the_machine_do_not_drift() -> None:
    made = cores_that_move(3).run()
    assert Reading(made).in_states
    assert not found_in(made)


NULLS = ("noise", "launches", "wander", "long wander", "states")


def without_drift(kind: str, seed: int) -> Run:
    """Six layers that have troubles of their own."""

    def own(number: int) -> Sequence[Over]:
        draw = (seed, number)
        return {
            "noise": [],
            "launches": [
                lambda launch, at_s: 0 * at_s + 0.3 * np.random.default_rng((*draw, launch)).normal()
            ],
            "wander": [Wander(100 * seed + number, 0.2, 0.5)],
            "long wander": [Wander(100 * seed + number, 0.2, 8.0)],
            "states": [Telegraph(100 * seed + number, 2.5, 1.5)],
        }[kind]

    layers = [Layer(f"l{number}", own=own(number)) for number in range(6)]
    return machine(*layers, seed=seed).run()


@pytest.mark.parametrize("kind", NULLS)
def test_what_wanders_does_not_drift(kind: str) -> None:
    assert sum(bool(Reading(without_drift(kind, seed)).drifts) for seed in range(3)) == 0


@pytest.mark.deep
@pytest.mark.parametrize("kind", NULLS)
def test_five_runs_in_a_hundred_are_said_to_drift_by_chance_at_most(kind: str) -> None:
    """The target is 5 of 100. More than 10 have, at that rate, a chance of 1 %."""
    assert sum(bool(Reading(without_drift(kind, seed)).drifts) for seed in range(100, 200)) <= 10


@pytest.mark.deep
def test_what_the_whole_machine_does_by_chance_is_not_said_more_often_because_all_curves_show_it() -> None:
    wrong = 0
    for seed in range(100):
        shared = Wander(seed, 0.2, 8.0)
        layers = [Layer(f"l{number}", own=[shared]) for number in range(6)]
        wrong += bool(Reading(machine(*layers, seed=seed).run()).drifts)
    assert wrong <= 10


# -------------------------------------------------------------------------------------------------------- the rank test


@pytest.mark.parametrize("launches", [2, 3, 4])
def test_the_chances_are_those_of_all_orders_and_directions(launches: int) -> None:
    scores: dict[int, int] = {}
    for order in itertools.permutations(range(launches)):
        ahead = sum(1 if b > a else -1 for a, b in itertools.combinations(order, 2))
        for ways in itertools.product((-1, 1), repeat=launches):
            scores[ahead + sum(ways)] = scores.get(ahead + sum(ways), 0) + 1
    counted = np.array([scores[score] for score in sorted(scores)])
    assert _chances(launches) == pytest.approx(counted / counted.sum())


def test_a_launch_counts_once_however_many_of_its_parts_agree() -> None:
    """Of random orders of launches and directions a chance of p or less is met with that chance, or less often."""
    draw = np.random.default_rng(1)
    chances = []
    for _ in range(1000):
        slow = 0.1 * draw.normal(size=(4, 1)) + np.linspace(0, 1, 3) * draw.normal(size=(4, 1))
        chances.append(_over("x", "pingpong", slow).chance)
    for limit in (0.01, 0.05, 0.2):
        assert np.mean(np.array(chances) <= limit) <= limit + 3 * np.sqrt(limit / 1000)


def test_each_third_of_a_launch_is_freed_of_the_sizes_in_it() -> None:
    """Large sizes are visited later and later, as an adaptive schedule does, and that is no drift."""
    made = machine(Layer("tcp", noise=0.01))
    late = SIZES[-1]
    made.only = {late: lambda launch, at_s: at_s > 3}
    reading = Reading(made.run())
    slow = course(reading._alike["tcp", "pingpong"])
    assert slow is not None
    assert slow.shape == (4, 3)
    assert np.abs(slow - slow.mean()).max() < 0.02
    assert not reading.drifts


# --------------------------------------------------------------------------------------------------- what it cannot say


def test_what_cannot_be_judged_says_what_is_lacking() -> None:
    assert why_not(machine(Layer("tcp"), launches=2).run()) == (
        "a drift is told from what wanders by three launches or more"
    )
    assert why_not(examples.run(examples.point("tcp", 8, 1000.0))) == "the run did not record its visits"
    assert why_not(drift.silent()) is None


def test_a_curve_with_few_visits_is_not_judged_beside_one_with_many() -> None:
    """Nine visits in each launch are fewer than four for each third of it."""
    made = drift.fires()
    made.points += [examples.visited("tcp:few", 8, 1000.0 * 1.3**launch, launch) for launch in range(4)]
    (found,) = found_in(made)
    assert found.variant == "tcp"


def test_a_curve_in_states_that_drifts_is_judged_by_the_visits_in_its_own() -> None:
    moved = Telegraph(3, 2.5, 1.5)
    layer = Layer("shm", 120, 1.2e10, factor=up_to(16 << 10, 2.6), state=moved, own=[over_the_run(0.006)])
    reading = Reading(machine(layer, seed=3, bounce=moved).run())
    assert reading.in_states
    (one,) = reading.drifts
    assert one.times.value == pytest.approx(np.exp(27.5 * 0.006), rel=0.1)
