# SPDX-License-Identifier: Apache-2.0
"""Patterns over the layer of tests/modules/synthetic.c, which behaves as a model says. That they find the model's
parameters is timing, and in bench/compare.py; here is what is in the record, and that it was verified.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from conftest import TEST_MODULES, Runner

from netpipe.reading import Reading
from netpipe.records import Run, decode

MODULE = f"module-file {TEST_MODULES / 'synthetic.so'}"
QUICK = "variant synthetic:latency=3000,send_overhead=300,recv_overhead=400,gap=1000"
MEASURES = {
    "overlap": {"overlap": "ns", "fraction": "1", "computation": "ns", "together": "ns", "exposed": "ns"},
    "overlap:computes=one": {
        "overlap": "ns", "fraction": "1", "computation": "ns", "together": "ns", "exposed": "ns",
    },
    "overhead": {"start": "ns", "finish": "ns"},
    "overhead:side=both": {"start": "ns", "finish": "ns"},
    "overhead:side=both,call=blocking": {"start": "ns", "finish": "ns"},
    "overhead:side=recv": {"start": "ns", "finish": "ns"},
    "overhead:call=blocking": {"start": "ns", "finish": "ns"},
    "overhead:side=recv,call=blocking": {"start": "ns", "finish": "ns"},
    "loggp": {"o_s": "ns", "o_r": "ns", "gap": "ns", "transfer": "ns"},
    "loggp:messages=2": {"o_s": "ns", "o_r": "ns", "gap": "ns", "transfer": "ns"},
    "pingpong": {},
    "window": {},
    "window:completion=local": {},
    "bidirectional": {},
}  # fmt: skip


@pytest.mark.parametrize(("ranks", "overlap"), [(2, 30), (4, 100)])
def test_every_byte_arrives_and_every_measure_is_there(measure: Runner, ranks: int, overlap: int) -> None:
    done = measure(
        MODULE,
        f"{QUICK},overlap={overlap}",
        *(f"pattern {pattern}" for pattern in MEASURES),
        f"ranks {ranks}",
        "pin none",
        "schedule list",
        "sizes 1,1000,65537",
        "verify yes",
        "budget 0.1",
        "timeout 10",
    )
    assert done.code == 0, done.said
    of_pairs = {"imbalance": "1"} if ranks > 2 else {}
    for pattern, own in MEASURES.items():
        names = own | of_pairs
        points = done.of("point", pattern=pattern)
        assert {p["size_bytes"] for p in points} == {1, 1000, 65537}
        for p in done.of("point", pattern=pattern):
            assert p["verified_bytes"] > 0
            assert {m["name"]: m["unit"] for m in p["measures"]} == names
            assert all(m["median"] is not None and math.isfinite(m["median"]) for m in p["measures"])
            rated = not pattern.startswith("overhead")
            assert (p["bytes_per_s"] is not None) == rated, "a rate of overheads means nothing"
        for s in done.of("sample", pattern=pattern):
            assert {name: len(values) for name, values in s["measures"].items()} == dict.fromkeys(
                names, len(s["ns"])
            )


def test_a_search_says_what_the_model_finds_in_the_same_sample_and_what_it_tolerates(measure: Runner) -> None:
    done = measure(
        MODULE,
        f"{QUICK},overlap=30",
        "pattern overlap:by=search",
        "schedule list",
        "sizes 1,1000",
        "verify yes",
        "budget 0.2",
    )
    assert done.code == 0, done.said
    for p in done.of("point"):
        assert p["verified_bytes"] > 0
        found = {m["name"]: m["median"] for m in p["measures"]}
        assert list(found) == [*MEASURES["overlap"], "modelled", "tolerance"]
        assert all(math.isfinite(value) for value in found.values())
        assert found["overlap"] > 0
        assert found["tolerance"] > 0
    for s in done.of("sample"):
        assert list(s["measures"]) == [*MEASURES["overlap"], "modelled", "tolerance"]
        for i, ns in enumerate(s["ns"]):
            modelled, exposed = of_sample(s, "modelled")[i], of_sample(s, "exposed")[i]
            assert modelled + exposed == pytest.approx(ns / s["ops"], rel=1e-3, abs=2)


def of_sample(sample: dict[str, Any], name: str) -> list[float]:
    values: list[float] = sample["measures"][name]
    return values


def test_the_measures_of_a_sample_fit_each_other(measure: Runner) -> None:
    done = measure(
        MODULE, QUICK, "pattern overlap", "pattern loggp", "schedule list", "sizes 1,4096", "budget 0.2"
    )
    assert done.code == 0, done.said
    for s in done.of("sample", pattern="overlap"):
        for i, ns in enumerate(s["ns"]):
            plain = ns / s["ops"]
            overlap, exposed = of_sample(s, "overlap")[i], of_sample(s, "exposed")[i]
            assert overlap + exposed == pytest.approx(plain, rel=1e-3, abs=2)
            assert of_sample(s, "fraction")[i] == pytest.approx(overlap / plain, rel=1e-3, abs=1e-3)
            assert of_sample(s, "computation")[i] > 0
    for s in done.of("sample", pattern="loggp"):
        for i, ns in enumerate(s["ns"]):
            parts = sum(of_sample(s, name)[i] for name in ("o_s", "o_r", "transfer"))
            assert parts == pytest.approx(ns / s["ops"], rel=1e-3, abs=2), "half a round trip is its parts"


def test_what_loggp_measured_can_be_fitted(measure: Runner, tmp_path: Path) -> None:
    done = measure(
        MODULE, QUICK, "pattern loggp", "schedule list", "sizes 1,64,1024,4096,16384", "budget 0.2"
    )
    assert done.code == 0, done.said
    lines = (tmp_path / "run.jsonl").read_bytes().splitlines()
    (found,) = Reading(Run(record for record in map(decode, lines) if record is not None)).loggp
    assert (found.ranges[0].from_bytes, found.ranges[-1].to_bytes) == (1, 16384)
    for one in found.ranges:
        for line in (one.o_s, one.o_r, one.gap, one.transfer):
            assert 0 <= line.fixed_ns.low <= line.fixed_ns.value <= line.fixed_ns.high
            assert 0 <= line.per_byte_ns.low <= line.per_byte_ns.value <= line.per_byte_ns.high


def test_overhead_of_both_sides_is_that_of_a_send_and_a_receive_without_the_way(measure: Runner) -> None:
    done = measure(
        MODULE,
        "variant synthetic:latency=200000,send_overhead=30000,recv_overhead=50000,gap=1000",
        "pattern overhead:side=both",
        "pattern overhead:side=both,call=blocking",
        "schedule list",
        "sizes 8",
        "budget 1",
    )
    assert done.code == 0, done.said
    for pattern in ("overhead:side=both", "overhead:side=both,call=blocking"):
        samples = done.of("sample", pattern=pattern)
        least = min(ns / s["ops"] for s in samples for ns in s["ns"])
        assert 75_000 < least < 150_000, "the way there and back takes 400 us"
        start, finish = (min(v for s in samples for v in of_sample(s, name)) for name in ("start", "finish"))
        assert 28_000 < start < 75_000
        assert 45_000 < finish < 100_000


def test_a_window_that_is_complete_where_it_left_takes_no_round_trip(measure: Runner) -> None:
    done = measure(
        MODULE,
        "variant synthetic:latency=400000,send_overhead=2000,recv_overhead=3000,gap=1000",
        "pattern window:in_flight=4",
        "pattern window:in_flight=4,completion=local",
        "schedule list",
        "sizes 8",
        "budget 1",
    )
    assert done.code == 0, done.said
    took = {p["pattern"]: p["min_ns"] for p in done.of("point")}
    assert took["window:in_flight=4"] > 200_000, "there and back, over four messages"
    assert took["window:in_flight=4,completion=local"] < 100_000, "the calls, wherever there is room for more"


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("window:directions=both,completion=local", "has no acknowledgement to leave out"),
        ("overhead:side=both,in_flight=4", "has one message in flight"),
    ],
)
def test_a_setting_that_would_not_be_obeyed_is_refused(measure: Runner, pattern: str, says: str) -> None:
    done = measure("variant shm", f"pattern {pattern}", "sizes 8")
    assert not done.of("point")
    (skipped,) = done.of("skipped")
    assert says in skipped["reason"]


@pytest.mark.parametrize("pattern", ["pingpong", "overlap", "overhead", "overhead:side=recv", "loggp"])
def test_a_message_that_does_not_come_ends_at_the_deadline(measure: Runner, pattern: str) -> None:
    done = measure(
        MODULE,
        "variant synthetic:latency=1000000000",
        f"pattern {pattern}",
        "schedule list",
        "sizes 8",
        "budget 0.1",
        "timeout 0.3",
    )
    assert done.code == 4
    assert "did not complete within 0.3 s" in done.said
    assert not done.of("point")


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("overlap:computes=none", "not one of its choices"),
        ("overlap:work=3", "no option 'work'"),
        ("overhead:side=none", "not one of its choices"),
        ("overlap:by=guess", "not one of its choices"),
        ("window:completion=none", "not one of its choices"),
        ("overhead:in_flight=0", "1 to 65536"),
        ("overhead:in_flight=many", "whole number"),
        ("loggp:messages=1", "2 to 1024"),
        ("loggp:messages=1025", "2 to 1024"),
    ],
)
def test_bad_options_are_refused_before_anything_is_measured(
    measure: Runner, pattern: str, says: str
) -> None:
    done = measure("variant shm", f"pattern {pattern}")
    assert done.code == 2
    assert says in done.said, done.said
    assert not done.records


def test_an_odd_number_of_ranks_has_no_pairs(measure: Runner) -> None:
    done = measure(
        MODULE,
        QUICK,
        "pattern overlap",
        "pattern overhead",
        "pattern loggp",
        "ranks 3",
        "pin none",
        "sizes 8",
    )
    assert not done.of("sample")
    skipped = done.of("skipped")
    assert [s["pattern"] for s in skipped] == ["overlap", "overhead", "loggp"]
    assert all("needs a multiple of 2 ranks, there are 3" in s["reason"] for s in skipped)
