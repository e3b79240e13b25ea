# SPDX-License-Identifier: Apache-2.0
"""How far launches lie apart where some are wild: held against made-up launches whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from netpipe.reading.blocks.visits import student_t
from netpipe.reading.blocks.whole import trimmed

LAUNCHES, SIZES, RUNS = 16, 8, 400


def test_of_four_launches_it_is_the_variance() -> None:
    means = np.array([0.1, -0.2, 0.4, 0.0])
    variance, degrees = trimmed(means)
    assert variance == pytest.approx(means.var(ddof=1))
    assert degrees == 3


def test_a_wild_launch_counts_as_far_off_as_the_next_one() -> None:
    tame = np.linspace(-1, 1, 20)
    wild = tame.copy()
    wild[-1] = 50.0
    assert trimmed(wild) == trimmed(tame)


@pytest.mark.parametrize("tails", [False, True], ids=["normal", "tails"])
def test_intervals_hold_and_are_narrower_where_launches_are_wild(tails: bool) -> None:
    random = np.random.default_rng(7)
    held, ours, plain = 0, [], []
    for _ in range(RUNS):
        common = random.standard_t(2, LAUNCHES) if tails else random.normal(0, 1, LAUNCHES)
        launches = common[:, None] + random.normal(0, 0.5, (LAUNCHES, SIZES))
        value = np.median(launches, axis=0).mean()  # the ratio of each size is a median
        means = launches.mean(axis=1)
        variance, degrees = trimmed(means)
        ours.append(student_t(degrees, 1) * np.sqrt(variance / LAUNCHES))
        plain.append(student_t(LAUNCHES - 1, 1) * np.sqrt(means.var(ddof=1) / LAUNCHES))
        held += abs(value) <= ours[-1]
    assert 0.92 <= held / RUNS <= 0.98
    assert (np.median(ours) < 0.85 * np.median(plain)) == tails
