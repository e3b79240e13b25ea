# SPDX-License-Identifier: Apache-2.0
"""Modes of distributions that were made up, so that it is known how many there are."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from synthetic import bucketed, patterned

from netpipe.reading import Reading
from netpipe.reading.modes import LEAST_SAMPLES, modes
from netpipe.records import Histogram

Draw = Callable[[random.Random], float]


def drawn(draw: Draw, count: int, seed: int = 1) -> list[float]:
    source = random.Random(seed)
    return [draw(source) for _ in range(count)]


def mixed(*parts: tuple[float, float, float]) -> Draw:
    """Parts of (share, median, relative width)."""

    def draw(source: random.Random) -> float:
        at = source.random()
        for share, median, width in parts:
            if at < share:
                return median * source.lognormvariate(0, width)
            at -= share
        return parts[-1][1]

    return draw


ONE_MODE: dict[str, Draw] = {
    "narrow": mixed((1, 500, 0.004)),
    "wide": mixed((1, 500, 0.3)),
    "exponential above a floor": lambda source: 500 + source.expovariate(1 / 100),
    "Pareto": lambda source: 500 * source.paretovariate(1.5),
    "Pareto without a mean": lambda source: 500 * source.paretovariate(0.8),
    "a few slow ones that lie together": mixed((0.97, 500, 0.02), (0.03, 5000, 0.02)),
    "a shoulder": mixed((0.7, 500, 0.05), (0.3, 550, 0.05)),
    "a tail on both sides": lambda source: 500 * math.exp(source.gauss(0, 0.02) / max(0.05, source.random())),
    "uniform": lambda source: source.uniform(400, 800),
}


def test_a_damaged_clock_or_histogram_has_modes_too() -> None:
    wide = Histogram(low_ns=[1e-300, 1e18], count=[2**63 - 1, 2**63 - 1])
    assert len(modes(wide)) == 2
    assert len(modes(wide, clock_ns=1e18)) == 1
    assert modes(Histogram(low_ns=[-1.0, 5.0], count=[500])) == ()


@pytest.mark.parametrize("what", ONE_MODE)
@pytest.mark.parametrize("count", [300, 3_000, pytest.param(30_000, marks=pytest.mark.deep)])
def test_one_mode_stays_one(what: str, count: int) -> None:
    for seed in range(8):
        found = modes(bucketed(drawn(ONE_MODE[what], count, seed)))
        assert len(found) == 1, (seed, found)
        assert found[0].share == 1


@pytest.mark.parametrize("count", [1_000, 4_000, pytest.param(40_000, marks=pytest.mark.deep)])
@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("second", [600, 1000, 20_000])
def test_two_modes_are_found_where_they_are(count: int, share: float, second: float) -> None:
    for seed in range(10):
        found = modes(bucketed(drawn(mixed((1 - share, 500, 0.03), (share, second, 0.03)), count, seed)))
        assert len(found) == 2, (seed, found)
        assert [mode.at_ns for mode in found] == pytest.approx([500, second], rel=0.02)
        assert found[1].share == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / count) + 0.01)
        assert found[0].high_ns == found[1].low_ns


def test_three_modes_of_different_widths() -> None:
    found = modes(bucketed(drawn(mixed((0.5, 57, 0.02), (0.3, 110, 0.1), (0.2, 900, 0.04)), 5_000)))
    assert [mode.at_ns for mode in found] == pytest.approx([57, 110, 900], rel=0.04)
    assert [mode.share for mode in found] == pytest.approx([0.5, 0.3, 0.2], abs=0.04)


def test_a_clock_that_ticks_makes_no_modes() -> None:
    """A counter of 24 MHz has a step of 42 ns: five buckets lie between two times that it can tell."""
    ticked = [42 * round(value / 42) for value in drawn(mixed((1, 800, 0.1)), 5_000)]
    assert len(modes(bucketed(ticked), clock_ns=42)) == 1
    assert len(modes(bucketed(ticked))) > 1, "else the clock need not be named"
    two = [42 * round(value / 42) for value in drawn(mixed((0.6, 800, 0.05), (0.4, 3000, 0.05)), 5_000)]
    assert len(modes(bucketed(two), clock_ns=42)) == 2


@pytest.mark.parametrize(
    "given",
    [
        None,
        Histogram(),
        bucketed([500.0] * (LEAST_SAMPLES - 1)),
        Histogram(resolution=0.01, low_ns=[0.0], count=[10_000]),
    ],
)
def test_too_few_samples_have_no_modes(given: Histogram | None) -> None:
    assert modes(given) == ()


def test_one_bucket_is_one_mode() -> None:
    (mode,) = modes(bucketed([500.0] * LEAST_SAMPLES))
    assert mode.at_ns == pytest.approx(500, rel=0.01)
    assert mode.share == 1


def test_the_curves_with_several_modes_are_named() -> None:
    found = {
        (one.variant, one.pattern): one
        for one in Reading(patterned()).several_modes
        if one.pattern != "pingpong"
    }
    assert {pattern for _, pattern in found} == {f"offered:rate={rate}" for rate in (30, 50, 70, 90, 95)}
    one = found["shm", "offered:rate=90"]
    assert one.point.size_bytes == 8
    assert one.other_sizes == (1 << 10, 64 << 10, 1 << 20)
    assert one.modes[1].at_ns / one.modes[0].at_ns == pytest.approx(2.2, rel=0.05)
    assert one.modes[1].share == pytest.approx(0.3, abs=0.06)


def test_a_kernel_is_never_wider_than_the_distribution() -> None:
    """A damaged file may have a resolution at which the clock's step would be 10^10 cells."""
    (mode,) = modes(Histogram(resolution=1e-12, low_ns=[500.0], count=[1000]), clock_ns=10.0)
    assert mode.share == 1
