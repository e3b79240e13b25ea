# SPDX-License-Identifier: Apache-2.0
"""Where a curve steps, by the visits of all launches; and what a launch is told of those before it."""

from __future__ import annotations

import math
import random

import msgspec
import pytest

from netpipe.findings.examples import run, visited
from netpipe.measurement import _size_seen
from netpipe.reading import Reading
from netpipe.reading.blocks.steps import _outside

BELOW, ABOVE = 62757, 65536


def disturbed(times: float, launches: int, seed: int = 1) -> Reading:
    """One curve of nine visits in each launch, one in five of which met the scheduler."""
    draw = random.Random(seed)
    points = []
    for size, ns in ((32768, 6000.0), (BELOW, 10000.0), (ABOVE, 10000.0 * times), (131072, 20000.0 * times)):
        for launch in range(launches):
            point = visited("tcp", size, ns, launch)
            times_of = point.visit_times()
            assert times_of is not None
            for place in range(9):
                if draw.random() < 0.2:
                    times_of.median_ns[place] *= math.exp(draw.uniform(1, 5))
            points.append(point)
    return Reading(run(*points))


@pytest.mark.parametrize("launches", [2, 4])
def test_a_step_is_found_among_disturbed_visits(launches: int) -> None:
    found = [bool(disturbed(1.8, launches, seed).steps) for seed in range(20)]
    assert sum(found) >= 12


@pytest.mark.parametrize("launches", [1, 2, 4])
def test_disturbed_visits_are_no_step(launches: int) -> None:
    assert not [seed for seed in range(20) if disturbed(1.0, launches, seed).steps]


def test_the_interval_of_a_median_leaves_out_what_the_binomial_distribution_says() -> None:
    assert _outside(9, 0.025) == 1  # Conover, table A3: 1 of 9 with 0.0195
    assert _outside(20, 0.025) == 5
    assert _outside(5, 0.025) is None
    assert _outside(10_000, 0.025) in range(4895, 4905), "no overflow"


def test_a_launch_is_told_median_error_and_number_of_visits() -> None:
    point = visited("tcp", 1024, 100.0)
    assert point.visits is not None
    name, _, numbers = _size_seen(point).partition("=")
    median, error, visits = map(float, numbers.split("/"))
    assert (name, median, visits) == ("1024", pytest.approx(100), 9)
    assert 0.5 < error < 1
    assert _size_seen(msgspec.structs.replace(point, visits=None)) == "1024", "of an older run"
