# SPDX-License-Identifier: Apache-2.0
"""Offered rates, and communication beside computation. Other processes may use the machine too, so nothing is said of
how long anything takes; a rate is held if it is held at all.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import Outcome, Runner

from netpipe.findings import judge
from netpipe.reading import Reading
from netpipe.records import Run, decode


def measures(point: dict[str, Any]) -> dict[str, float]:
    return {measure["name"]: measure["median"] for measure in point["measures"]}


def finished(measure: Runner, *lines: str) -> Outcome:
    """A run of which every size has a point."""
    done = measure(*lines)
    assert done.code == 0, done.said
    assert not done.of("skipped")
    assert done.of("point")
    return done


def sentences(done: Outcome) -> list[str]:
    records = [decode(json.dumps(record).encode()) for record in done.records]
    return [finding.what for finding in judge(Reading(Run(r for r in records if r is not None))).findings]


def test_a_rate_that_cannot_be_held_is_said_with_what_was_reached(measure: Runner) -> None:
    done = finished(
        measure,
        "variant tcp",
        "pattern offered:rate=100000000",
        "schedule list",
        "sizes 8,65536",
        "budget 0.3",
    )
    for point in done.of("point"):
        said = measures(point)
        assert said["offered"] == 100_000_000
        assert 0 < said["reached"] < 0.5 * said["offered"]
        assert said["late"] > 0.5, "the next message is due while the one before is being sent"
        assert said["clock_error"] == 0, "the ranks of one host read one clock"
        assert point["bytes_per_s"] is None, "a latency under load makes no rate"
    (sentence,) = [sentence for sentence in sentences(done) if sentence.startswith("Offered")]
    assert sentence.startswith("Offered 100\u202f000\u202f000 /s, tcp held "), sentence


@pytest.mark.parametrize("arrivals", ["even", "poisson"])
def test_a_rate_far_below_what_the_layer_can_do_is_reached(measure: Runner, arrivals: str) -> None:
    done = finished(
        measure,
        "variant tcp",
        f"pattern offered:rate=2000,arrivals={arrivals}",
        "schedule list",
        "sizes 8",
        "budget 1.5",
        "target 0.0001",
    )
    reached = [rate for sample in done.of("sample") for rate in sample["measures"]["reached"]]
    # A batch that something else interrupted falls behind; of many one does not.
    assert min(abs(rate / 2000 - 1) for rate in reached) < 0.03, reached


@pytest.mark.deep
def test_percentiles_come_with_as_many_messages_as_support_them(measure: Runner) -> None:
    done = finished(
        measure,
        "variant shm",
        "pattern offered:rate=100000000",
        "pattern offered:rate=1000",
        "schedule list",
        "sizes 8",
        "budget 2",
        "target 0.0001",
    )
    for point in done.of("point"):
        messages = sum(point["histogram"]["count"])
        for name, beyond in (("p90_ns", 10), ("p99_ns", 100), ("p999_ns", 1000), ("p9999_ns", 10_000)):
            assert (point[name] is not None) == (messages >= 10 * beyond), (name, messages)
        known = [point[f"p{name}_ns"] for name in ("90", "99", "999", "9999")]
        known = [point["min_ns"], *(value for value in known if value is not None)]
        assert known == sorted(known)
        assert known[-1] <= point["max_ns"] * 1.01, "the ends are those of single messages too"
        if point["pattern"] == "offered:rate=100000000":
            assert point["p9999_ns"] is not None, f"{messages} messages"
        else:
            assert point["p9999_ns"] is None


@pytest.mark.parametrize("verify", ["yes", "no"])
def test_a_low_rate_does_not_take_all_the_time_there_is(measure: Runner, verify: str) -> None:
    done = finished(
        measure,
        "variant tcp",
        "pattern offered:rate=3",
        "schedule list",
        "sizes 8",
        "budget 0.1",
        f"verify {verify}",
        "timeout 5",
    )
    (point,) = done.of("point")
    assert point["ops"] == 1, "one message of a batch lasts a third of a second"


@pytest.mark.parametrize("wrong", ["rate=0", "rate=1000000000", "rate=many", "arrivals=odd"])
def test_a_rate_that_is_none_is_refused(measure: Runner, wrong: str) -> None:
    done = measure("variant tcp", f"pattern offered:{wrong}")
    assert done.code == 2
    assert "offered" in done.said
    assert wrong.split("=", maxsplit=1)[0] in done.said


@pytest.mark.parametrize("pattern", ["loaded", "loaded:work=memory,side=first", "loaded:load=40,side=last"])
@pytest.mark.parametrize("variant", [pytest.param("tcp", marks=pytest.mark.deep), "shm:wait=poll"])
def test_a_loaded_processor_is_seen_on_both_sides(measure: Runner, variant: str, pattern: str) -> None:
    done = finished(
        measure,
        f"variant {variant}",
        f"pattern {pattern}",
        "schedule list",
        "sizes 8,65536",
        "budget 0.5",
    )
    for point in done.of("point"):
        said = measures(point)
        assert said["unloaded"] > 0
        assert said["communication_slowdown"] > 0
        # None: in the time of so few round trips nothing was computed at all.
        assert said["computation_slowdown"] is None or said["computation_slowdown"] > 0
    for sample in done.of("sample"):
        assert len(sample["measures"]["unloaded"]) == len(sample["ns"])


def test_without_load_there_is_nothing_that_computes(measure: Runner) -> None:
    done = finished(measure, "variant tcp", "pattern loaded:load=0", "schedule list", "sizes 8", "budget 0.3")
    for point in done.of("point"):
        assert measures(point)["computation_slowdown"] == 1
