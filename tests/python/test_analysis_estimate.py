# SPDX-License-Identifier: Apache-2.0
"""Estimates: the arithmetic of numbers with intervals."""

from __future__ import annotations

import math
import random
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netpipe.reading.estimate import (
    Estimate,
    Estimates,
    across,
    difference,
    differences,
    ratio,
    ratios,
    unsure,
)

VALUES = st.floats(1e-3, 1e9)
WIDTHS = st.floats(0, 0.9)


@st.composite
def estimates(draw: st.DrawFn) -> Estimate:
    value = draw(VALUES)
    return Estimate(value, value * (1 - draw(WIDTHS)), value * (1 + draw(WIDTHS)))


def close(a: Estimate, b: Estimate) -> bool:
    return all(
        math.isclose(x, y, rel_tol=1e-9, abs_tol=1e-9)
        for x, y in ((a.value, b.value), (a.low, b.low), (a.high, b.high))
    )


@given(estimates())
def test_of_two_equal_estimates_no_difference_is_seen(a: Estimate) -> None:
    assert ratio(a, a).value == 1
    assert ratio(a, a).covers(1)
    assert difference(a, a).covers(0)


@given(estimates(), estimates(), st.floats(0.01, 100))
def test_a_ratio_scales_with_its_numerator(a: Estimate, b: Estimate, factor: float) -> None:
    assert close(ratio(a.scaled(factor), b), ratio(a, b).scaled(factor))


@given(estimates(), estimates())
def test_turning_a_ratio_round_is_its_inverse(a: Estimate, b: Estimate) -> None:
    assert close(ratio(a, b), ratio(b, a).inverse())


@given(estimates(), estimates())
def test_a_difference_turned_round_is_its_negative(a: Estimate, b: Estimate) -> None:
    one, other = difference(a, b), difference(b, a)
    assert close(one, Estimate(-other.value, -other.high, -other.low))


@given(estimates(), estimates(), st.floats(0, 0.05))
def test_a_less_certain_part_makes_a_less_certain_ratio(a: Estimate, b: Estimate, more: float) -> None:
    looser = Estimate(b.value, b.low * (1 - more), b.high * (1 + more))
    assert ratio(a, looser).low <= ratio(a, b).low * (1 + 1e-12)
    assert ratio(a, looser).high >= ratio(a, b).high * (1 - 1e-12)


def test_a_difference_by_hand() -> None:
    # 100 (97 to 103) less 60 (56 to 64): the sides are 3 and 4, so 5.
    assert close(difference(Estimate(100, 97, 103), Estimate(60, 56, 64)), Estimate(40, 35, 45))


def test_a_ratio_keeps_a_lopsided_interval_lopsided() -> None:
    exact = Estimate(10, 10, 10)
    assert close(ratio(Estimate(20, 19, 30), exact), Estimate(2, 1.9, 3))


def test_a_ratio_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        ratio(Estimate(1, 0, 2), Estimate(1, 1, 1))


def test_the_interval_of_a_ratio_covers_as_often_as_it_claims() -> None:
    """Medians whose errors are lognormal with known spread, each with its own 95 % interval: of 4000 ratios 95 %
    (within four standard errors) cover the true one."""
    draw = random.Random(7)
    covered = 0
    for _ in range(4000):
        parts = []
        for true, spread in ((30_000.0, 0.02), (25_000.0, 0.005)):
            value = true * math.exp(draw.gauss(0, spread))
            reach = math.exp(1.959964 * spread)
            parts.append(Estimate(value, value / reach, value * reach))
        covered += ratio(*parts).covers(1.2)
    assert 0.936 <= covered / 4000 <= 0.964


@given(st.lists(estimates(), min_size=1, max_size=7))
def test_launches_together_are_no_surer_than_each_of_them(several: list[Estimate]) -> None:
    whole = across(several)
    assert whole.low <= whole.value <= whole.high
    assert all(whole.low <= e.low and e.high <= whole.high for e in several)


@given(estimates(), VALUES)
def test_without_an_interval_nothing_is_excluded(a: Estimate, value: float) -> None:
    for combined in (ratio(a, unsure(value)), ratio(unsure(value), a), difference(a, unsure(value))):
        assert not combined.known
        assert combined.covers(1)
        assert combined.half_width == math.inf
    assert not across([a, unsure(value)]).known
    assert not unsure(value).scaled(2).inverse().known


def test_limits_that_no_float_can_hold_are_no_warning_on_the_terminal() -> None:
    wide = Estimates.of(Estimate(1e-9, 1e-300, 1e304), Estimate(1e18, 1e-300, 1e18))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert wide.half_width.tolist() == [math.inf, 0.5]
        assert all(one.covers(1) for one in ratios(wide, wide).each())
        assert differences(wide, wide).covers(0).all()
