# SPDX-License-Identifier: Apache-2.0
"""Modules built against an older or a newer module.h measure as any other."""

from __future__ import annotations

import pytest
from conftest import TEST_MODULES, Outcome, Runner


def listed(measure: Runner, variant: str, sizes: str, *lines: str) -> Outcome:
    """A variant of a test module at these sizes."""
    module = TEST_MODULES / f"{variant.partition(':')[0]}.so"
    return measure(f"module-file {module}", f"variant {variant}", "schedule list", f"sizes {sizes}", *lines)


@pytest.mark.gate
@pytest.mark.parametrize("name", ["older", "newer"])
def test_a_module_of_another_version_of_the_contract_measures(measure: Runner, name: str) -> None:
    done = listed(measure, f"{name}:second=7", "8,4k", "verify yes", "budget 0.2")
    assert done.code == 0, done.said
    assert sorted(point["size_bytes"] for point in done.of("point")) == [8, 4096]
    (variant,) = done.of("variant")
    assert variant["ranks"][0]["settings"]["second_option"] == "7"


def test_what_a_layer_promises_is_recorded(measure: Runner) -> None:
    done = measure(
        *("variant null", "variant tcp", "variant udp", "pattern pingpong"),
        *("schedule list", "sizes 8", "budget 0.02"),
    )
    assert done.code == 0, done.said
    promises = {one["variant"]: one["promises"] for one in done.of("variant")}
    usual = {"delivers": True, "lossy": False, "unordered": False, "empty": False, "max_message_bytes": None}
    usual |= {"max_inline_bytes": 0, "alignment_bytes": 1}
    assert promises == {
        "null": usual | {"delivers": False, "empty": True},
        "tcp": usual,
        "udp": usual | {"lossy": True, "unordered": True, "empty": True},
    }


def test_the_counters_of_a_newer_module_are_read(measure: Runner) -> None:
    done = listed(measure, "newer", "8", "budget 0.2")
    (first, second) = done.of("counters")
    assert (first["values"]["rank"], second["values"]["rank"]) == ("0", "1")


def test_what_a_layer_counts_stands_beside_the_size_that_it_belongs_to(measure: Runner) -> None:
    done = listed(measure, "lossy:every=7", "8,4k", "budget 0.2")
    assert done.code == 0, done.said
    (variant,) = done.of("variant")
    assert variant["counted"]["lost"] == {"unit": "1", "gauge": False}
    assert variant["counted"]["rank"]["gauge"] is True
    for size in (8, 4096):
        (point,) = (one for one in done.of("point") if one["size_bytes"] == size)
        samples = [one for one in done.of("sample") if one["size_bytes"] == size and one["pass"] >= 0]
        # Sums over all ranks and visits. The first round of a visit is counted by the layer, and is in no sample.
        assert point["counters"]["lost"] == sum(one["counters"].get("lost", 0) for one in samples)
        assert sum(one["lost"] for one in samples) <= point["counters"]["lost"]
        assert point["counters"]["rank"] == 1  # a gauge: the largest


def test_what_a_layer_measures_is_the_ratio_of_two_counters_of_all_visits(measure: Runner) -> None:
    done = listed(measure, "lossy:every=3", "8,4k", "pattern stream", "budget 0.2")
    assert done.code == 0, done.said
    assert len(done.of("point")) == 2
    for point in done.of("point"):
        (missing,) = (one for one in point["measures"] if one["name"] == "missing")
        assert missing["unit"] == "1"
        assert missing["median"] == pytest.approx(point["counters"]["lost"] / point["counters"]["sent"])
        assert 0 < missing["median"] < 1


@pytest.mark.parametrize("pattern", ["pingpong", "stream"])
def test_loss_is_a_measure_and_no_failure(measure: Runner, pattern: str) -> None:
    done = listed(measure, "lossy:every=50", "8,4k", f"pattern {pattern}", "verify yes", "budget 1")
    assert done.code == 0, done.said
    for point in done.of("point"):
        (loss,) = (measure for measure in point["measures"] if measure["name"] == "loss")
        assert loss["low"] <= loss["median"] <= loss["high"]
        assert loss["median"] == pytest.approx(1 / 50, rel=0.2)
        assert point["verified_bytes"] > 0


def test_a_sample_with_a_lost_message_has_no_time_in_ping_pong(measure: Runner) -> None:
    done = listed(measure, "lossy:every=20", "64k", "budget 1")
    assert done.code == 0, done.said
    visits = [one for one in done.of("sample") if one["pass"] >= 0]
    assert sum(one["lost"] for one in visits) > 0
    for one in visits:
        # A sample of several rounds may have lost several messages, and a sample that lost any is left out.
        kept = len(one["ns"]) + len(one["dropped_ns"])
        samples = one["messages"] // one["ops"]
        assert kept < samples or one["lost"] == 0
        assert kept >= samples - one["lost"]


def test_a_pattern_that_needs_every_message_is_skipped_over_a_lossy_layer(measure: Runner) -> None:
    done = listed(measure, "lossy", "8", "pattern loaded", "pattern pingpong", "budget 0.2")
    assert {one["pattern"] for one in done.of("point")} == {"pingpong"}
    reasons = {one["pattern"]: one["reason"] for one in done.of("skipped")}
    assert reasons["loaded"] == "messages of this variant may be lost, and pattern loaded needs each of them"


def test_a_loss_that_a_layer_does_not_admit_is_a_failure(measure: Runner) -> None:
    done = listed(measure, "lossy:admits=no", "8", "budget 0.2")
    assert done.code == 4
    assert "a message did not arrive, and the module does not declare that it may lose any" in done.said


def test_a_loss_that_is_not_reported_fails_verification(measure: Runner) -> None:
    done = listed(measure, "lossy:reports=no", "8", "verify yes", "budget 0.2")
    assert done.code == 1
    assert "did not arrive, and 0 were reported as lost" in done.said


@pytest.mark.parametrize("pattern", ["pingpong", "stream", "loaded", "offered"])
@pytest.mark.parametrize("variant", ["device", "device:align=4k"])
def test_message_memory_that_the_processor_cannot_reach_is_measured(
    measure: Runner, variant: str, pattern: str
) -> None:
    done = listed(measure, f"{variant}", "1,1000,64k", f"pattern {pattern}", "verify yes", "budget 0.2")
    assert done.code == 0, done.said
    assert {point["size_bytes"] for point in done.of("point")} == {1, 1000, 65536}
    assert all(point["verified_bytes"] > 0 for point in done.of("point"))


def test_a_wrong_byte_in_memory_out_of_reach_is_found(measure: Runner) -> None:
    done = listed(measure, "device:flips=yes", "1000", "verify yes", "budget 0.2")
    assert done.code == 1
    assert "differs from what was sent, first at byte 999" in done.said


def test_an_offset_that_breaks_the_alignment_of_a_layer_is_refused(measure: Runner) -> None:
    done = listed(
        measure,
        "device:align=4k",
        "8",
        "pattern pingpong:send_offset=64",
        "pattern pingpong:send_offset=4k",
        "budget 0.2",
    )
    assert [one["pattern"] for one in done.of("point")] == ["pingpong:send_offset=4k"]
    (skipped,) = done.of("skipped")
    assert skipped["reason"] == (
        "messages of this variant begin at multiples of 4096 bytes, and with an offset of 64 they would not"
    )
