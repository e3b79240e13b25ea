# SPDX-License-Identifier: Apache-2.0
"""What the yardsticks say of the machine, and that launches are never mixed across its states."""

from __future__ import annotations

from synthetic import point, run

from netpipe.findings import judge
from netpipe.findings.machine_state import state_sentences
from netpipe.reading import Reading
from netpipe.reading.machine.states import states
from netpipe.records import Plan, Run, Yardstick


def yardstick(launch: int, at_s: float, state: int, bounce_ns: float, copy: float = 1e10) -> Yardstick:
    return Yardstick(launch=launch, at_s=at_s, state=state, bounce_ns=bounce_ns, copy_bytes_per_s=copy)


def test_a_quiet_machine_is_in_one_state() -> None:
    seen = states(Run([yardstick(0, 0, 0, 54), yardstick(0, 5, 0, 55)]))
    assert len(seen.states) == 1
    assert not seen.changes
    assert seen.states[0].bounce_ns == 54.5
    assert "one state" in state_sentences(seen)[0]


def test_cores_that_moved_apart_are_told_with_both_times() -> None:
    points = [point("tcp", size, 100, other_states=5) for size in (8, 64)]
    records = [yardstick(0, 0, 0, 54), yardstick(0, 12.3, 1, 278), *points]
    seen = states(Run(records))
    assert len(seen.changes) == 1
    assert (seen.mixed_points, seen.left_out_samples) == (2, 10)
    said = state_sentences(seen)
    assert said[0] == "The cores moved apart: a cache-line bounce went from 54.0 ns to 278 ns at 12.3 s."
    assert "2 points" in said[1]
    assert "10 samples" in said[1]


def test_slower_memory_is_told_as_such() -> None:
    seen = states(Run([yardstick(0, 0, 0, 54, 1e10), yardstick(0, 2, 1, 54, 4e9)]))
    assert state_sentences(seen)[0] == "Memory was copied at 32.0 Gbps instead of 80.0 Gbps at 2.0 s."


def test_launches_share_the_states_that_look_alike() -> None:
    """The worker counts from 0 in every launch: its numbers say nothing across them, the yardsticks do."""
    records = [
        yardstick(0, 0, 0, 54),
        yardstick(0, 1, 1, 278),
        yardstick(1, 0, 0, 280),
        yardstick(1, 1, 1, 55),
    ]
    seen = states(Run(records))
    assert len(seen.states) == 2
    assert seen.number_of(0, 0) == seen.number_of(1, 1)
    assert seen.number_of(0, 1) == seen.number_of(1, 0)


def test_within_a_launch_the_word_of_the_worker_holds() -> None:
    assert len(states(Run([yardstick(0, 0, 0, 54), yardstick(0, 1, 1, 54)])).states) == 2


def test_without_yardsticks_nothing_is_claimed() -> None:
    seen = states(Run([point("tcp", 8, 100)]))
    assert seen.states == ()
    assert "nothing says" in state_sentences(seen)[0]


def test_a_run_is_read_with_the_tolerances_that_it_recorded() -> None:
    launches = [yardstick(0, 0, 0, 54), yardstick(1, 0, 0, 90)]
    assert len(states(Run(launches)).states) == 2
    plan = Plan(state_tolerances={"bounce": 2.0, "copy": 1.8})
    assert len(states(Run([plan, *launches])).states) == 1
    strict = Plan(state_tolerances={"bounce": 1.01, "copy": 1.8})
    moved = Reading(Run([strict, yardstick(0, 0, 0, 54), yardstick(0, 1, 1, 56)]))
    (said,) = [found for found in judge(moved).findings if found.rule == "machine-changed"]
    assert "a cache-line bounce took 54.0 ns to 56.0 ns" in said.what
    older = Reading(Run([strict, yardstick(0, 0, 0, 54), yardstick(0, 1, 1, 56), point("tcp", 8, 100)]))
    (said,) = [found for found in judge(older).findings if found.rule == "machine-changed"]
    assert "went from 54.0 ns to 56.0 ns" in said.what
    assert said.certainty.startswith("States differ by more than 1.01× in cache-line bounce or 1.8×")


def test_one_launch_has_no_spread() -> None:
    assert Reading(run(sizes=[8, 64])).launch_spreads == ()


def test_the_spread_between_launches_stands_apart_from_that_inside() -> None:
    points = [point("tcp", 8, time, 0.004, launch=launch) for launch, time in enumerate((100, 120, 110))]
    (spread,) = Reading(Run(points)).launch_spreads
    assert spread.launches == 3
    assert spread.worst.median_ns == 110
    assert spread.worst.spread == 1.2
    assert spread.worst.inside == 0.004
    (said,) = [found.what for found in judge(Reading(Run(points))).findings if found.rule == "launches-apart"]
    assert said.startswith("tcp: 3 launches differ by 20 % at a typical size")


def test_launches_in_different_states_are_not_averaged() -> None:
    records = [
        *(yardstick(launch, 0, 0, bounce) for launch, bounce in enumerate((54, 278, 55))),
        *(point("shm", 8, time, launch=launch) for launch, time in enumerate((100, 350, 104))),
    ]
    made = Run(records)
    (curve,) = Reading(made).curves
    assert [p.launch for p in curve.points[0].by_launch] == [0, 2]
    assert curve.points[0].time_ns.value == 102
    assert curve.left_out == 1
    (spread,) = Reading(made).launch_spreads
    assert spread.left_out == 1
    assert spread.worst.spread == 1.04


def test_the_interval_of_merged_launches_holds_all_of_theirs() -> None:
    points = [point("tcp", 8, time, 0.01, launch=launch) for launch, time in enumerate((100, 120))]
    (curve,) = Reading(Run(points)).curves
    spot = curve.points[0]
    assert (spot.time_ns.low, spot.time_ns.value, spot.time_ns.high) == (99, 110, 121.2)


def test_a_point_that_was_measured_again_replaces_the_first() -> None:
    (curve,) = Reading(Run([point("tcp", 8, 100), point("tcp", 8, 130)])).curves
    assert curve.points[0].time_ns.value == 130


def test_a_processor_that_ran_slower_is_told_although_the_state_is_one() -> None:
    def taken(slow_ns: float) -> Reading:
        speeds = [0.9] * 20 + [slow_ns] * 20 + [5.0]  # the last met an interrupt
        yardsticks = [yardstick(0, at, 0, 54) for at in range(len(speeds))]
        for one, multiply_ns in zip(yardsticks, speeds, strict=True):
            one.multiply_ns = multiply_ns
        return Reading(run_of(yardsticks))

    (found,) = [one for one in judge(taken(1.2)).findings if one.rule == "machine-changed"]
    assert (
        found.what
        == "The machine was not steady: the processor took 0.900 ns to 1.20 ns for a multiplication."
    )
    assert not [one for one in judge(taken(0.92)).findings if one.rule == "machine-changed"]


def run_of(yardsticks: list[Yardstick]) -> Run:
    return Run([*yardsticks, *(point("tcp", size, 100) for size in (8, 64))])
