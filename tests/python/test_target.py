# SPDX-License-Identifier: Apache-2.0
"""Whether a point is within its target: that is decided by the interval of the whole run, which all launches make."""

from __future__ import annotations

import io
import random
import re
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from netpipe.cli.run import points_text, unsettled_text
from netpipe.findings import NOTE, SEVERE, WARNING, examples
from netpipe.findings.precision import judge
from netpipe.reading import Reading
from netpipe.records import Point, Run, Visits
from netpipe.render.terminal.summary import print_summary
from netpipe.session import Result, unsettled

SIZES = (8, 64, 512, 4096)


def visited(
    size: int, median_ns: float, half_width: float, launch: int = 0, noise: float = 0.002, visits: int = 24
) -> Point:
    """A point whose own launch came to this interval."""
    source = random.Random(1000 * launch + size)
    medians = [median_ns * (1 + source.uniform(-noise, noise)) for _ in range(visits)]
    recorded = Visits(
        block=[size + 100_000 * place for place in range(visits)],
        at_s=[0.1 * place for place in range(visits)],
        state=[0] * visits,
        samples=[9] * visits,
        median_ns=medians,
    )
    point = examples.point("tcp", size, median_ns, half_width, launch=launch)
    return msgspec.structs.replace(point, visits=recorded)


def launched(paces: list[float], half_width: float) -> Run:
    return examples.run(
        *(
            visited(size, 1000 * pace, half_width, launch)
            for launch, pace in enumerate(paces)
            for size in SIZES
        )
    )


def test_launches_that_lie_apart_miss_the_target_though_each_reached_it_alone() -> None:
    run = launched([1.0, 1.2, 0.9, 1.1], half_width=0.005)
    assert all(point.converged for point in run.points)
    assert unsettled(Reading(run)) == len(SIZES)


def test_launches_that_agree_reach_it_though_none_of_them_did_alone() -> None:
    run = launched([1.0, 1.001, 0.999, 1.0], half_width=0.05)
    assert not any(point.converged for point in run.points)
    assert unsettled(Reading(run)) == 0


@pytest.mark.parametrize(("noise", "missed"), [(0.002, 0), (0.4, len(SIZES))])
def test_one_launch_is_judged_by_its_stretches_of_time(noise: float, missed: int) -> None:
    run = examples.run(*(visited(size, 1000.0, 0.02, noise=noise) for size in SIZES))
    assert unsettled(Reading(run)) == missed


def test_points_without_visits_are_judged_as_their_launches_did() -> None:
    run = examples.run(examples.point("tcp", 8, 1000.0), examples.point("tcp", 64, 1000.0, half_width=0.04))
    assert unsettled(Reading(run)) == 1
    imported = examples.run(examples.point("np.out", 8, 1000.0, converged=None, low_ns=None, high_ns=None))
    assert unsettled(Reading(imported)) == 0


def test_the_sentence_says_how_many_and_which_is_the_widest() -> None:
    wide = [visited(8, 1000 * pace, 0.005, launch) for launch, pace in enumerate((1.0, 1.4, 0.8, 1.1))]
    fine = [visited(64, 1000.0, 0.005, launch) for launch in range(4)]
    said = unsettled_text(Reading(examples.run(*wide, *fine)))
    assert said.startswith(
        (
            "1 of 2 points is not within the target of ±1.0 %; ",
            "2 of 2 points are not within the target of ±1.0 %; ",
        )
    )
    assert "the widest is tcp at 8 B, ±" in said
    assert said.endswith("; give more --budget, or see netpipe doctor")


def test_a_point_without_an_interval_is_said_to_have_none() -> None:
    few = examples.run(examples.point("tcp", 8, 1000.0, converged=False, low_ns=None, high_ns=None))
    assert "; tcp at 8 B has too few samples for an interval;" in unsettled_text(Reading(few))


def test_the_finding_counts_the_same_points() -> None:
    run = launched([1.0, 1.2, 0.9, 1.1], half_width=0.005)
    (found,) = judge(Reading(run))
    assert found.evidence["missed"].value == unsettled(Reading(run))
    assert found.what.startswith("No interval is within the target of ±1.0 %.")


def test_intervals_wider_than_their_medians_are_called_so() -> None:
    """Not "half of them within more than ±100 %"."""
    points = [
        examples.point("tcp", size, time, half_width=5.0, low_ns=time / 10, high_ns=time * 10, launch=launch)
        for launch, time in enumerate((1.0, 1000.0, 1e6))
        for size in (8, 64)
    ]
    result = Result(Reading(examples.run(*points)), 0, Path("run.jsonl"), None)
    assert "half of their intervals wider than ±100 %" in points_text(result)


def test_the_end_of_one_launch_says_how_wide_its_intervals_are() -> None:
    """Not "82 points, 0 of them settled"."""

    def said(*widths: float) -> str:
        points = [examples.point("tcp", 8 << n, 1000.0, half_width=width) for n, width in enumerate(widths)]
        return points_text(Result(Reading(examples.run(*points)), 0, Path("run.jsonl"), None))

    assert said(0.3) == "1 point, its interval within ±30 %, is in run.jsonl"
    assert said(0.3, 0.1, 0.1) == "3 points, half of their intervals within ±10 %, are in run.jsonl"
    assert said(0.005, 0.1, 0.1).startswith(
        "3 points, 1 of them settled, half of their intervals within ±10 %, "
    )
    assert said(0.005, 0.005) == "2 points are in run.jsonl"


def cause_of(*stops: str) -> tuple[str, str]:
    """The cause and the remedy, of a run with one launch of points that ended so."""
    points = [
        examples.point("tcp", 8 << place, 1000.0, half_width=0.04, stop=stop)
        for place, stop in enumerate(stops)
    ]
    (found,) = judge(Reading(examples.run(*points)))
    return found.cause, found.remedy


def test_the_cause_says_whether_time_or_samples_were_over() -> None:
    over = "The time for a point was over before its interval was narrow enough."
    assert cause_of("budget", "budget")[0] == over
    assert cause_of("limit", "limit") == (
        "The point had all the samples that a launch takes (65536).",
        "more --launches, or a quieter machine (netpipe doctor)",
    )
    assert cause_of("budget", "limit", "limit")[0] == (
        "Of the launches of these points, by why they ended: the time was over before the interval was narrow enough "
        "(1 time) and the point had all the samples that a launch takes (65536) (2 times)."
    )
    assert cause_of("interrupted")[0] == over


@pytest.mark.parametrize(
    ("paces", "severity", "trust", "half"),
    [
        ([1.0, 1.03, 0.98, 1.01], NOTE, "Trust these times to ±", "Half of the intervals are within ±"),
        ([1.0, 1.5, 0.7, 1.2], WARNING, "Trust these times to ±", "Half of the intervals are within ±"),
        (
            [1.0, 9.0, 0.1, 3.0],
            SEVERE,
            "Trust these times to their order of magnitude: in 4 launches half of the intervals exceed ±100 %",
            "Half of the intervals are wider than ±100 %.",
        ),
    ],
)
def test_a_run_says_how_far_to_trust_it_and_what_that_is_from(
    paces: list[float], severity: str, trust: str, half: str
) -> None:
    reading = Reading(launched(paces, half_width=0.05))
    (found,) = judge(reading)
    assert found.severity == severity
    assert found.what.startswith("No interval is within the target")
    assert half in found.what
    out = io.StringIO()
    print_summary(Console(file=out, width=80), reading)
    said = " ".join(out.getvalue().split())
    assert f"→ {trust}" in said
    assert ("spread between launches" in said) is (severity == NOTE)


def test_of_a_peak_that_noise_chose_no_size_is_printed() -> None:
    out = io.StringIO()
    print_summary(Console(file=out, width=80), Reading(launched([1.0, 1.5, 0.7, 1.2], half_width=0.05)))
    row = next(line for line in out.getvalue().splitlines() if line.startswith("tcp "))
    assert re.search(r" ~\S+ Gbps +– +– ", row)
    out = io.StringIO()
    print_summary(Console(file=out, width=80), Reading(launched([1.0, 1.001, 0.999, 1.0], half_width=0.05)))
    row = next(line for line in out.getvalue().splitlines() if line.startswith("tcp "))
    assert re.search(r" \S+ Gbps +4 KiB +", row)
