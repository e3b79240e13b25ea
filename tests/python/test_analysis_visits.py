# SPDX-License-Identifier: Apache-2.0
"""Intervals that hold for the next run, and ratios within blocks, on machines whose truth is known."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from statistics import fmean, median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netpipe.findings import examples
from netpipe.reading import Reading
from netpipe.reading.blocks import visits
from netpipe.reading.blocks.visits import (
    NEXT_RUN,
    TRUTH,
    Seen,
    estimates,
    estimates_of_each,
    paired,
    seen,
    student_t,
)
from netpipe.reading.columns.by_curve import by_curve
from netpipe.records import Point, Run, Visits

SIZES = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


Row = tuple[int, int, int, float]  # size, launch, block, logarithm of the time


def visits_of(rows: Sequence[Row]) -> Seen:
    size, launch, block, log = zip(*sorted(rows), strict=True) if rows else ((), (), (), ())
    return Seen(
        np.array(size, np.int64),
        np.array(launch, np.int64),
        np.array(block, np.int64),
        np.array(log, np.float64),
    )


class Machine:
    """Times of one operation, in which everything wanders by a known amount (of the logarithm)."""

    def __init__(self, seed: int, launch: float, slow: float, visit: float, two_speeds: float = 0.0) -> None:
        self.random = random.Random(seed)
        self.launch, self.slow, self.visit, self.two_speeds = launch, slow, visit, two_speeds

    def run(self, launches: int, blocks: int, ratio: float = 1.0) -> tuple[Seen, Seen]:
        """Two curves, the second `ratio` times as long as the first."""
        gauss = self.random.gauss
        curves: tuple[list[Row], list[Row]] = ([], [])
        for launch in range(launches):
            own = gauss(0, self.launch)
            wave = gauss(0, self.slow)
            for block in range(blocks):
                wave = 0.8 * wave + 0.6 * gauss(0, self.slow)  # the next block resembles this one
                for number, size in enumerate(SIZES):
                    speed = self.two_speeds * (self.random.random() < 0.4)
                    for place, curve in enumerate(curves):
                        log = math.log(size) + own + wave + speed + gauss(0, self.visit)
                        log += math.log(ratio) * place
                        curve.append((size, launch, block * 100 + number, log))
        return visits_of(curves[0]), visits_of(curves[1])


def coverage(machine: Machine, launches: int, blocks: int, repetitions: int = 150) -> float:
    """How often the number of the next run lies in the interval of this one."""
    hits = []
    for _ in range(repetitions):
        this, _ = machine.run(launches, blocks)
        following, _ = machine.run(launches, blocks)
        found, then = estimates(this, NEXT_RUN), estimates(following, NEXT_RUN)
        hits += [found[size].covers(then[size].value) for size in SIZES]
    return fmean(hits)


@pytest.mark.parametrize(
    ("name", "machine", "launches", "blocks", "least"),
    [
        ("visits vary", Machine(1, 0.0, 0.0, 0.05), 4, 10, 0.92),
        ("launches vary", Machine(2, 0.06, 0.0, 0.02), 4, 10, 0.88),
        ("it wanders", Machine(3, 0.0, 0.06, 0.02), 4, 10, 0.90),
        # Whole runs fall on one speed or the other; what no run of four launches sees, it cannot say.
        ("two speeds", Machine(4, 0.0, 0.0, 0.02, two_speeds=0.5), 4, 10, 0.80),
        ("one launch", Machine(5, 0.0, 0.0, 0.05), 1, 12, 0.90),
        ("two launches", Machine(6, 0.0, 0.02, 0.05), 2, 8, 0.88),
        ("two visits", Machine(7, 0.0, 0.0, 0.05), 4, 2, 0.90),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_interval_holds_for_the_next_run(
    name: str, machine: Machine, launches: int, blocks: int, least: float
) -> None:
    assert least <= coverage(machine, launches, blocks) <= 0.995, name


def test_the_interval_is_no_wider_than_it_must_be() -> None:
    # The exact one would have t of 3 degrees (3.18); the neighbours make it that of 11 (2.20).
    machine = Machine(8, 0.05, 0.0, 0.0)
    widths = [one.half_width for _ in range(60) for one in estimates(machine.run(4, 4)[0], NEXT_RUN).values()]
    assert 0.04 < median(widths) < 0.10


@pytest.mark.parametrize("ratio", [1.0, 1.31])
def test_a_ratio_within_blocks_is_freed_of_what_the_machine_did_to_both(ratio: float) -> None:
    machine = Machine(9, launch=0.2, slow=0.1, visit=0.02)
    hits, widths, apart = [], [], []
    for _ in range(150):
        lower, upper = machine.run(4, 10, ratio)
        ratios = estimates(paired(upper, lower), TRUTH)
        times = estimates(upper, NEXT_RUN)
        hits += [one.covers(ratio) for one in ratios.values()]
        widths += [one.half_width for one in ratios.values()]
        apart += [one.half_width for one in times.values()]
    assert 0.92 <= fmean(hits) <= 0.98
    assert median(widths) < 0.02 < 0.1 < median(apart)


def test_only_blocks_that_both_have_are_paired() -> None:
    upper = visits_of([(8, 0, 1, 3.0), (8, 0, 2, 4.0), (8, 1, 1, 5.0)])
    lower = visits_of([(8, 0, 2, 1.0), (8, 1, 1, 1.0), (8, 1, 3, 1.0)])
    both = paired(upper, lower)
    found = zip(both.launch.tolist(), both.block.tolist(), both.log.tolist(), strict=True)
    assert sorted(found) == [(0, 2, 3.0), (1, 1, 4.0)]
    assert paired(upper, visits_of([])).log.tolist() == []


def test_a_size_with_one_visit_takes_the_spread_of_its_neighbours_and_alone_has_no_interval() -> None:
    whole, _ = Machine(10, 0.0, 0.0, 0.05).run(4, 6)
    keep = whole.size != 16
    keep[np.flatnonzero(whole.size == 16)[0]] = True
    less = Seen(whole.size[keep], whole.launch[keep], whole.block[keep], whole.log[keep])
    made = estimates(less, NEXT_RUN)
    assert made[16].known
    assert made[16].half_width > 1.5 * made[32].half_width
    one = visits_of([(16, 0, 3, 2.5)])
    (alone,) = estimates(one, NEXT_RUN).values()
    assert not alone.known
    assert alone.value == pytest.approx(math.exp(2.5))
    assert estimates(visits_of([]), NEXT_RUN) == {}


@pytest.mark.parametrize("together", [1, 300, visits.TOGETHER])
def test_curves_that_are_estimated_together_are_not_mixed(
    monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    """Few launches and many, noisy and quiet, none: each as if it were alone."""
    monkeypatch.setattr(visits, "TOGETHER", together)
    quiet, noisy = Machine(21, 0.001, 0.0, 0.001), Machine(22, 0.3, 0.1, 0.2)
    curves = [machine.run(launches, 5)[0] for machine in (quiet, noisy) for launches in (1, 2, 4, 7)]
    curves.insert(2, visits_of([]))
    curves.append(visits_of([(16, 0, 3, 2.5)]))
    alone = [estimates(of, TRUTH, tests=3) for of in curves]
    assert [one.by_size() for one in estimates_of_each(curves, TRUTH, tests=3)] == alone
    assert list(estimates_of_each([], TRUTH)) == []


@given(
    st.lists(
        st.tuples(
            st.sampled_from([8, 64, 65, 4096]), st.integers(0, 4), st.integers(0, 40), st.floats(-3, 9)
        ),
        max_size=60,
    )
)
def test_the_number_is_the_median_of_all_visits_and_lies_in_its_interval(rows: list[Row]) -> None:
    made = estimates(visits_of(rows), NEXT_RUN)
    assert sorted(made) == sorted({row[0] for row in rows})
    for size, one in made.items():
        assert one.value == pytest.approx(math.exp(median(row[3] for row in rows if row[0] == size)))
        assert one.low <= one.value * (1 + 1e-12)
        assert one.value <= one.high * (1 + 1e-12)


def test_the_quantile_of_student() -> None:
    # Abramowitz and Stegun, table 26.10.
    assert student_t(10) == pytest.approx(2.228, abs=5e-4)
    assert student_t(13) == pytest.approx(2.160, abs=5e-4)
    assert student_t(30) == pytest.approx(2.042, abs=5e-4)
    assert student_t(10, tests=50) == pytest.approx(4.587, rel=0.01)  # one-sided 0.9995 of the same table


# ------------------------------------------------------------------------------------------------ of a run


def point(variant: str, size: int, medians: list[float], launch: int = 0, first: int = 0) -> Point:
    number = len(medians)
    return Point(
        variant=variant,
        pattern="pingpong",
        size_bytes=size,
        launch=launch,
        median_ns=median(medians),
        bytes_per_s=size * 1e9 / median(medians),
        converged=True,
        visits=Visits(
            block=list(range(first, first + number)),
            at_s=[float(first + place) for place in range(number)],
            state=[0] * number,
            samples=[10] * number,
            median_ns=medians,
        ),
    )


def test_a_curve_has_the_median_of_all_visits_and_the_rate_of_that() -> None:
    run = Run()
    run.add(point("tcp", 64, [100, 110, 120, 130], launch=0))
    run.add(point("tcp", 64, [200, 210, 220, 230], launch=1))
    (curve,) = Reading(run).curves
    (found,) = curve.points
    assert found.time_ns.value == pytest.approx(math.sqrt(130 * 200))
    assert found.time_ns.known
    assert found.rate_bytes_per_s is not None
    assert found.rate_bytes_per_s.value == pytest.approx(64e9 / math.sqrt(130 * 200))
    assert [one.launch for one in found.by_launch] == [0, 1]


def test_a_point_of_an_older_run_has_the_interval_that_it_recorded() -> None:
    old = Point(
        variant="tcp", pattern="pingpong", size_bytes=8, median_ns=10, low_ns=9, high_ns=12, half_width=0.15
    )
    (curve,) = by_curve([old]).values()
    assert len(seen(curve).log) == 0
    assert curve.times.low.tolist() == [9]


def layered(factor: Callable[[int], float]) -> Run:
    """tcp over unix in five launches, each at its own speed."""
    records = []
    source = random.Random(3)
    for launch in range(5):
        pace = math.exp(source.gauss(0, 0.3))
        for number, size in enumerate((8, 64, 512)):
            base = [1000 * pace * math.exp(source.gauss(0, 0.01)) for _ in range(8)]
            records.append(point("unix", size, base, launch, 100 * number))
            over = [one * factor(size) * math.exp(source.gauss(0, 0.01)) for one in base]
            records.append(point("tcp", size, over, launch, 100 * number))
    return examples.run(*records, variants=("unix", "tcp"), stack={"tcp": "unix"})


def test_a_loss_is_found_although_the_machine_wanders_more_than_it() -> None:
    run = layered(lambda size: 1.1)
    (loss,) = Reading(run).losses
    assert [size.size_bytes for size in loss.sizes] == [8, 64, 512]
    for size in loss.sizes:
        assert size.times.value == pytest.approx(1.1, rel=0.02)
        assert size.seen
        assert size.times.half_width < 0.03
        assert size.added_ns.value == pytest.approx(100, rel=0.5)
        assert size.added_ns.low > 0


def test_no_loss_is_seen_where_there_is_none() -> None:
    (loss,) = Reading(layered(lambda size: 1.0)).losses
    assert sum(size.seen for size in loss.sizes) <= 1
