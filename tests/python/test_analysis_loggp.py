# SPDX-License-Identifier: Apache-2.0
"""The parameters of LogGP from points of known parameters."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import point

from netpipe.reading import Reading
from netpipe.reading.estimate import Estimate
from netpipe.reading.models.loggp import LINES, LogGP, Range, fit, told_from_zero
from netpipe.records import Measure, Point, Run
from netpipe.render.page.loggp import table

SIZES = [2**k for k in range(18)]


@dataclass(frozen=True)
class Model:
    latency: float = 20_000
    per_byte: float = 1.0  # G, and of the transfer as well
    gap: float = 5_000
    o_s: float = 2_000
    o_r: float = 3_000
    overhead_per_byte: float = 0.25

    def values(self, size: int) -> dict[str, float]:
        return {
            "o_s": self.o_s + (size - 1) * self.overhead_per_byte,
            "o_r": self.o_r + (size - 1) * self.overhead_per_byte,
            "gap": self.gap + (size - 1) * self.per_byte,
            "transfer": self.latency + (size - 1) * self.per_byte,
        }


def points(
    values: Callable[[int], Mapping[str, float]],
    sizes: Sequence[int] = SIZES,
    noise: float = 0.005,
    seed: int = 1,
    launch: int = 0,
) -> list[Point]:
    """Each value is off by `noise` as one standard deviation, and its interval says so."""
    draw = random.Random(seed)
    made = []
    for size in sizes:
        measures = []
        for name, value in values(size).items():
            seen = value * (1 + noise * draw.gauss(0, 1))
            width = 1.96 * noise * abs(value)
            measures.append(Measure(name=name, unit="ns", median=seen, low=seen - width, high=seen + width))
        made.append(point("far", size, 1e4, pattern="loggp", measures=measures, launch=launch))
    return made


def only(records: Sequence[Point]) -> LogGP:
    (found,) = Reading(Run(records)).loggp
    return found


def near(estimate: Estimate, truth: float, share: float = 0.03) -> bool:
    return abs(estimate.value - truth) <= share * truth


def fits(found: Range, model: Model, share: float = 0.03) -> bool:
    return (
        near(found.transfer.fixed_ns, model.latency, share)
        and near(found.transfer.per_byte_ns, model.per_byte, share)
        and near(found.gap.fixed_ns, model.gap, share)
        and near(found.gap.per_byte_ns, model.per_byte, share)
        and near(found.o_s.fixed_ns, model.o_s, share)
        and near(found.o_r.fixed_ns, model.o_r, share)
        and near(found.o_r.per_byte_ns, model.overhead_per_byte, share)
    )


def test_one_protocol_is_one_range_with_its_parameters() -> None:
    model = Model()
    found = only(points(model.values))
    (whole,) = found.ranges
    assert (found.variant, found.pattern) == ("far", "loggp")
    assert (whole.from_bytes, whole.to_bytes, whole.sizes) == (1, SIZES[-1], len(SIZES))
    assert fits(whole, model)
    assert whole.gap.at(1025) == pytest.approx(model.values(1025)["gap"], rel=0.02)
    for line in (whole.o_s, whole.o_r, whole.gap, whole.transfer):
        assert told_from_zero(line.fixed_ns)
        assert line.misfit < 0.05


def test_a_change_of_protocol_is_found_where_it_is() -> None:
    eager = Model()
    rendezvous = Model(latency=60_000, per_byte=0.4, gap=30_000, overhead_per_byte=0.01)
    sizes = [2**k for k in range(21)]
    found = only(points(lambda s: (eager if s <= 16384 else rendezvous).values(s), sizes))
    assert [(r.from_bytes, r.to_bytes) for r in found.ranges] == [(1, 16384), (32768, sizes[-1])]
    assert fits(found.ranges[0], eager, 0.05)
    assert near(found.ranges[1].gap.per_byte_ns, 0.4)
    assert near(found.ranges[1].transfer.fixed_ns, 60_000, 0.05)


def test_intervals_hold_the_truth_as_often_as_they_claim() -> None:
    model = Model()
    held = tried = 0
    for seed in range(40):
        (whole,) = only(points(model.values, noise=0.02, seed=seed)).ranges
        for estimate, truth in (
            (whole.transfer.fixed_ns, model.latency),
            (whole.transfer.per_byte_ns, model.per_byte),
            (whole.gap.fixed_ns, model.gap),
            (whole.gap.per_byte_ns, model.per_byte),
            (whole.o_s.fixed_ns, model.o_s),
        ):
            held += estimate.covers(truth)
            tried += 1
    assert held / tried > 0.88, f"{held} of {tried}"


@pytest.mark.parametrize("transfer", [lambda place: -100.0 if place % 2 else 90.0, lambda place: -100.0])
def test_what_is_not_there_is_not_told_from_zero_and_never_negative(
    transfer: Callable[[int], float],
) -> None:
    """Where a layer sends and receives at the same time, what is left as transfer lies around 0, or below."""
    model = Model()

    def values(size: int) -> dict[str, float]:
        return model.values(size) | {"transfer": transfer(SIZES.index(size))}

    (whole,) = only(points(values, noise=0.5)).ranges
    assert not told_from_zero(whole.transfer.fixed_ns)
    assert not told_from_zero(whole.transfer.per_byte_ns)
    assert whole.transfer.fixed_ns.high > 0, "nor is it known to be nothing"


def test_one_size_far_off_makes_no_range_of_its_own() -> None:
    model = Model()

    def values(size: int) -> dict[str, float]:
        return model.values(size) | ({"gap": 90_000.0} if size == 256 else {})

    (whole,) = only(points(values)).ranges
    (undisturbed,) = only(points(model.values)).ranges
    assert whole.gap.misfit > 0.5, "what is far off is said"
    assert whole.gap.fixed_ns.half_width > 5 * undisturbed.gap.fixed_ns.half_width, "and widens the interval"


def test_points_without_intervals_give_parameters_without() -> None:
    made = points(Model().values)
    for one in made:
        for measure in one.measures:
            measure.low = measure.high = None
    (whole,) = only(made).ranges
    assert not whole.gap.fixed_ns.known
    assert not told_from_zero(whole.gap.fixed_ns)
    assert near(whole.gap.fixed_ns, 5_000)


def test_launches_are_taken_together() -> None:
    model = Model()
    made = [p for launch in range(3) for p in points(model.values, seed=launch, launch=launch)]
    (whole,) = only(made).ranges
    assert fits(whole, model)
    assert whole.sizes == len(SIZES)


def test_a_run_without_the_pattern_or_with_one_size_has_none() -> None:
    assert Reading(Run([point("far", 8, 100)])).loggp == ()
    assert Reading(Run(points(Model().values, sizes=[8]))).loggp == ()
    incomplete = points(Model().values)
    for one in incomplete:
        one.measures = [measure for measure in one.measures if measure.name != "gap"]
    assert Reading(Run(incomplete)).loggp == ()


def test_two_sizes_are_a_line() -> None:
    (whole,) = only(points(Model().values, sizes=[1, 1025], noise=1e-6)).ranges
    assert fits(whole, Model(), 0.001)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(*[st.floats(-1e6, 1e9)] * len(LINES)), min_size=2, max_size=9),
    st.floats(0, 2),
)
def test_any_numbers_give_ranges_that_cover_all_sizes_and_are_never_negative(
    rows: list[tuple[float, ...]], noise: float
) -> None:
    sizes = [3**k for k in range(len(rows))]
    by_size = dict(zip(sizes, rows, strict=True))
    found = only(points(lambda s: dict(zip(LINES, by_size[s], strict=True)), sizes, noise))
    assert found.ranges[0].from_bytes == sizes[0]
    assert found.ranges[-1].to_bytes == sizes[-1]
    assert sum(r.sizes for r in found.ranges) == len(sizes)
    for one in found.ranges:
        for line in (one.o_s, one.o_r, one.gap, one.transfer):
            for estimate in (line.fixed_ns, line.per_byte_ns):
                assert 0 <= estimate.low <= estimate.value <= estimate.high


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.floats(-1e3, 1e4), st.floats(0.1, 100)), min_size=2, max_size=8))
def test_the_line_is_that_of_lawson_and_hanson(rows: list[tuple[float, float]]) -> None:
    import numpy as np
    from scipy.optimize import nnls

    sizes = np.array([2.0**k for k in range(len(rows))])
    values, sigma = np.array(rows).T
    matrix = np.column_stack([1 / sigma, (sizes - 1) / sigma])
    peer, residual = nnls(matrix, values / sigma)
    ours = np.array([float(one) for one in fit(sizes, values, sigma)])
    assert float(np.linalg.norm(matrix @ ours - values / sigma)) == pytest.approx(
        residual, rel=1e-6, abs=1e-6
    )
    assert (ours >= 0).all()
    assert (peer >= 0).all()


def test_the_table_names_every_parameter_and_what_cannot_be_told_from_zero() -> None:
    told = Reading(Run(points(Model().values))).loggp
    (row,) = table(told).rows  # type: ignore[union-attr]
    assert row[0] == "far"
    assert row[1] == "1 B to 128 KiB"
    for cell, unit in zip(row[2:6], ("µs", "µs", "µs", "µs"), strict=True):
        assert unit in cell
        assert "[" in cell
    assert row[2].startswith(("19.", "20."))
    assert "Gbps" in row[6]

    def free_sends(size: int) -> dict[str, float]:
        return Model().values(size) | {"o_s": 0.0}

    (row,) = table(Reading(Run(points(free_sends))).loggp).rows  # type: ignore[union-attr]
    assert row[3].startswith("< ") or row[3].startswith("0")
    assert table(()) is None
