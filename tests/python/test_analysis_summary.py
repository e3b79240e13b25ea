# SPDX-License-Identifier: Apache-2.0
"""The few numbers that a curve comes to."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import point

from netpipe.findings import judge
from netpipe.reading import Reading
from netpipe.reading.summary import Summary
from netpipe.records import Plan, PlannedVariant, Point, Run


def of(*points: Point) -> Summary:
    (only,) = Reading(Run(points)).summaries
    return only


def test_latency_is_the_time_at_8_bytes() -> None:
    got = of(point("tcp", 1, 990), point("tcp", 8, 1000, 0.02), point("tcp", 64, 1100))
    assert got.latency_size_bytes == 8
    assert got.latency_ns is not None
    assert (got.latency_ns.low, got.latency_ns.value, got.latency_ns.high) == (980, 1000, 1020)


def test_without_8_bytes_latency_is_that_of_the_smallest_size_up_to_64() -> None:
    assert of(point("tcp", 16, 1000), point("tcp", 64, 1100)).latency_size_bytes == 16
    assert of(point("tcp", 65, 1000)).latency_ns is None


def test_a_message_of_no_bytes_is_no_latency_and_no_rate() -> None:
    got = of(msgspec.structs.replace(point("tcp", 8, 500), size_bytes=0, bytes_per_s=0.0))
    assert got.latency_ns is None
    assert got.peak_bytes_per_s is None


def test_peak_half_and_knee_by_hand() -> None:
    # Rates of 0.25, 0.5, 1, 1.6, 1.9 and 2 bytes per ns; half of the peak is 1 at 4 bytes exactly, 90 % of it 1.8.
    rates = {1: 0.25, 2: 0.5, 4: 1, 8: 1.6, 16: 1.9, 32: 2}
    got = of(*(point("m", size, size / rate) for size, rate in rates.items()))
    assert got.peak_bytes_per_s is not None
    assert got.peak_bytes_per_s.value == pytest.approx(2e9)
    assert got.peak_size_bytes == 32
    assert got.half_size_bytes == pytest.approx(4)
    assert got.knee_size_bytes == 16


def test_half_of_the_peak_is_interpolated_over_the_logarithm_of_the_size() -> None:
    # From 0.25 to 0.5 bytes per ns between 2 and 4 bytes; 0.375 is half of the way up: the square root of 2 times 4.
    got = of(point("m", 2, 8), point("m", 4, 8), point("m", 8, 10.667), point("m", 16, 30))
    assert got.half_size_bytes == pytest.approx(math.sqrt(8), rel=1e-3)


def test_half_of_the_peak_is_not_invented() -> None:
    """Where the curve starts above it, and where its neighbours are far apart, the sizes do not say."""
    assert of(point("m", 32, 32), point("m", 64, 40)).half_size_bytes is None
    assert of(point("m", 1, 4), point("m", 4, 4)).half_size_bytes is None


def test_where_a_curve_saturates_is_not_invented() -> None:
    """Of 8 B and 1 MiB the knee may be anywhere between them; a curve that is as fast from its first size on has it
    there or below.
    """
    assert of(point("m", 8, 1000), point("m", 1 << 20, 100_000)).knee_size_bytes is None
    assert of(point("m", 512, 512), point("m", 1024, 1024)).knee_size_bytes is None
    assert of(point("m", 1024, 1024)).knee_size_bytes is None
    assert of(point("m", 512, 700), point("m", 1024, 1024)).knee_size_bytes == 1024


def test_a_run_that_stopped_before_the_curve_bent_has_no_half_of_the_peak_and_no_knee() -> None:
    """With t = 1000 ns + n / 1 B/ns, Hockney's n½ is 1000 bytes. Of a run to 16 B half of the peak is
    reached at 8 B, which says nothing of the layer.
    """

    def until(last: int) -> Summary:
        sizes = [1 << power for power in range(last.bit_length())]
        return of(*(point("m", size, 1000 + size) for size in sizes))

    for last in (8, 16, 256):
        assert (until(last).half_size_bytes, until(last).knee_size_bytes) == (None, None)
        assert until(last).peak_size_bytes == last
    assert until(1 << 20).half_size_bytes == pytest.approx(1000, rel=0.05)
    assert until(1 << 20).knee_size_bytes == 16384
    flat = [point("m", size, 1000) for size in (1, 2, 3, 4, 6, 8, 12, 13)]
    assert of(*flat, point("m", 16, 1000), point("m", 19, 1250)).half_size_bytes is None, (
        "16 B is at the end too"
    )


def test_what_did_not_settle_and_what_was_verified_is_counted() -> None:
    points = (point("m", 8, 10, verified_bytes=80), point("m", 16, 10, 0.04), point("m", 32, 10, 0.02))
    got = of(*points)
    assert (got.points, got.converged, got.verified) == (3, 1, 1)
    assert got.worst_half_width == pytest.approx(0.04)
    assert got.worst_size_bytes == 16


def test_of_an_imported_curve_nobody_knows_whether_it_settled() -> None:
    got = of(Point(variant="np", pattern="pingpong", size_bytes=8, median_ns=1000.0, bytes_per_s=8e6))
    assert got.converged is None
    assert got.worst_half_width is None
    assert got.latency_ns is not None
    assert got.latency_ns.low == got.latency_ns.high == 1000


def unsure_point(size_bytes: int, time_ns: float) -> Point:
    few = point("m", size_bytes, time_ns, samples=1)
    few.half_width = None
    return few


def test_a_lucky_sample_is_no_peak_beside_a_rate_with_an_interval() -> None:
    got = of(point("m", 8, 8), unsure_point(64, 64 / 1.1))
    assert got.peak_size_bytes == 8
    assert got.peak_bytes_per_s is not None
    assert got.peak_bytes_per_s.known
    assert got.unsure == 1


def test_one_slow_size_with_an_interval_is_no_peak() -> None:
    got = of(point("m", 8, 8), unsure_point(64, 8), unsure_point(128, 8))
    assert got.peak_size_bytes == 128
    assert got.peak_bytes_per_s is not None
    assert got.peak_bytes_per_s.value == pytest.approx(16e9)
    assert not got.peak_bytes_per_s.known


def test_the_pattern_decides_which_bytes_count() -> None:
    """A bidirectional pattern moves twice the size in the time; its rate and the limits of it follow `bytes_per_s`."""
    got = of(point("m", 8, 1000, 0.1, bytes_per_s=16e6))
    assert got.peak_bytes_per_s is not None
    assert got.peak_bytes_per_s.value == pytest.approx(16e6)
    assert got.peak_bytes_per_s.low == pytest.approx(16e6 / 1.1)
    assert got.peak_bytes_per_s.high == pytest.approx(16e6 / 0.9)


@given(
    st.lists(st.floats(1, 1e6), min_size=2, max_size=20),
    st.floats(0.1, 10),
)
def test_a_machine_twice_as_slow_has_twice_the_latency_half_the_peak_and_the_same_sizes(
    times: list[float], factor: float
) -> None:
    sizes = [2**power for power in range(len(times))]
    one = of(*(point("m", size, time) for size, time in zip(sizes, times, strict=True)))
    other = of(*(point("m", size, factor * time) for size, time in zip(sizes, times, strict=True)))
    assert one.latency_ns is not None
    assert other.latency_ns is not None
    assert other.latency_ns.value == pytest.approx(factor * one.latency_ns.value)
    assert one.peak_bytes_per_s is not None
    assert other.peak_bytes_per_s is not None
    assert other.peak_bytes_per_s.value == pytest.approx(one.peak_bytes_per_s.value / factor)
    assert (other.half_size_bytes is None) == (one.half_size_bytes is None)
    assert one.peak_size_bytes is not None
    if one.half_size_bytes is not None and other.half_size_bytes is not None:
        assert other.half_size_bytes == pytest.approx(one.half_size_bytes)
        assert sizes[0] <= other.half_size_bytes <= one.peak_size_bytes * (1 + 1e-9)


def test_curves_come_in_the_order_of_the_plan() -> None:
    from synthetic import run

    made = run(sizes=[8])
    made.points.reverse()
    assert [s.variant for s in Reading(made).summaries] == [
        planned.variant for planned in made.plans[0].variants
    ]


def test_curves_of_several_patterns_come_pattern_by_pattern() -> None:
    planned = [PlannedVariant(variant=name, module=name) for name in ("shm", "tcp")]
    made = Run(
        [
            Plan(variants=planned, patterns=["window:in_flight=64", "pingpong"]),
            *(
                point(variant, 8, 10, pattern=pattern)
                for pattern in ("pingpong", "window:in_flight=64")
                for variant in ("tcp", "shm")
            ),
        ]
    )
    assert [(s.pattern, s.variant) for s in Reading(made).summaries] == [
        ("window:in_flight=64", "shm"),
        ("window:in_flight=64", "tcp"),
        ("pingpong", "shm"),
        ("pingpong", "tcp"),
    ]


def test_what_did_not_settle_is_counted_over_the_patterns() -> None:
    made = Run([point("tcp", 8, 10, 0.2, pattern=pattern) for pattern in ("pingpong", "stream")])
    (found,) = [finding for finding in judge(Reading(made)).findings if finding.rule == "target-missed"]
    assert found.what.startswith("No interval is within the target. Half of the intervals are within ±20 %.")
    assert found.evidence["missed"].value == 2


def test_a_size_of_0_bytes_with_a_rate_is_no_place_on_the_way_to_the_peak() -> None:
    """An imported table may have one; between it and the next size there is no logarithm."""
    made = Run([point("x", 0, 10, bytes_per_s=1e6), point("x", 8, 10)])
    (found,) = Reading(made).summaries
    assert found.half_size_bytes is None
    assert found.peak_size_bytes == 8
