# SPDX-License-Identifier: Apache-2.0
"""Intervals of measures over launches, on made-up launches whose truth is known."""

from __future__ import annotations

import random
from statistics import fmean

import pytest

from netpipe.reading.blocks.launched import of_launches, reach
from netpipe.reading.blocks.visits import student_t
from netpipe.reading.estimate import Estimate, across, unsure

RUNS = 1000


def launched(source: random.Random, launches: int, apart: float, inside: float) -> list[Estimate]:
    """A measure of 100 in launches that lie so far apart; each is off by `inside` too, and its interval says so."""
    values = [source.gauss(source.gauss(100.0, apart), inside) for _ in range(launches)]
    return [Estimate(value, value - 1.96 * inside, value + 1.96 * inside) for value in values]


@pytest.mark.parametrize(("apart", "inside"), [(5.0, 0.1), (5.0, 5.0), (0.0, 5.0)])
@pytest.mark.parametrize("launches", [3, 4, 8, 16])
def test_intervals_hold_what_the_next_run_finds(launches: int, apart: float, inside: float) -> None:
    """Rather more often where launches do not differ: then both the spread and the launches' own intervals count."""
    source = random.Random(launches)
    held = []
    for _ in range(RUNS):
        one, following = (launched(source, launches, apart, inside) for _ in range(2))
        held.append(of_launches(one).covers(of_launches(following).value))
    assert 0.935 <= fmean(held) <= (0.98 if inside < apart else 0.998)


def test_they_shrink_with_the_launches_and_the_envelope_grew() -> None:
    source = random.Random(1)

    def width(launches: int) -> float:
        return fmean(of_launches(launched(source, launches, 5.0, 0.1)).half_width for _ in range(200))

    assert width(16) < 0.5 * width(4)
    many = launched(source, 16, 5.0, 0.1)
    assert of_launches(many).half_width < across(many).half_width


def test_one_or_two_launches_have_the_envelope() -> None:
    two = [Estimate(10.0, 9.0, 11.0), Estimate(20.0, 18.0, 22.0)]
    assert of_launches(two[:1]) == two[0]
    assert of_launches(two) == Estimate(15.0, 9.0, 22.0)


def test_a_share_is_not_below_nothing_and_what_may_be_negative_is() -> None:
    loss = [Estimate(value, value, value) for value in (0.0, 0.001, 0.01)]
    assert of_launches(loss).low == 0.0
    left = [Estimate(value, value - 1, value + 1) for value in (-0.5, 0.1, 0.4)]
    assert of_launches(left).low < -1.5


def test_launches_that_agree_are_as_sure_as_each_of_them_says() -> None:
    sure = [Estimate(2.0, 2.0, 2.0)] * 3
    assert of_launches(sure) == Estimate(2.0, 2.0, 2.0)
    assert not of_launches([unsure(2.0)] * 3).known, "nobody knows how far off they are"
    apart = of_launches([unsure(value) for value in (1.0, 2.0, 3.0)])
    assert apart.known
    assert apart.low < 1.0 < 3.0 < apart.high


def test_launches_of_two_runs_have_one_spread() -> None:
    runs = [[Estimate(value, value, value) for value in of] for of in ((1.0, 2.0, 3.0), (11.0, 12.0, 13.0))]
    assert reach(runs) == student_t(4)
    assert reach(runs, tests=10) == student_t(4, 10) > reach(runs)
    wide = [Estimate(value, value - 196.0, value + 196.0) for value in (1.0, 2.0, 3.0)]
    assert reach([wide]) == pytest.approx(196.0, rel=0.001), "not by the quantile of three launches"
