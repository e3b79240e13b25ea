# SPDX-License-Identifier: Apache-2.0
"""Patterns in which all ranks exchange messages at once: ring, exchange, halo and random pairs."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import Outcome, Runner

SIZES = (1, 4097, 70001)
ALL = ("ring", "exchange", "halo", "halo:dims=3", "random", "random:traffic=both")
# Messages of all ranks together in the time of one operation, by the number of ranks.
MESSAGES = {
    "ring": lambda n: n,
    "exchange": lambda n: 2 * n,
    "halo": lambda n: 4 * n,
    "halo:dims=3": lambda n: 6 * n,
    "random": lambda n: n // 2,
    "random:traffic=both": lambda n: n,
}


def possible(ranks: int) -> set[str]:
    grids = {"halo": {4, 6, 8, 9}, "halo:dims=3": {8}}
    return {one for one in ALL if ranks in grids.get(one, {ranks})} - (
        {"random", "random:traffic=both"} if ranks % 2 else set()
    )


def run(measure: Runner, variant: str, ranks: int, *lines: str) -> Outcome:
    done = measure(f"variant {variant}", f"ranks {ranks}", "schedule list", *lines)
    assert done.code == 0, done.said
    return done


def measured(point: dict[str, Any], name: str) -> float:
    (value,) = [one["median"] for one in point["measures"] if one["name"] == name]
    return float(value)


@pytest.mark.parametrize(
    ("variant", "ranks"),
    [
        ("shm", 2),
        ("shm", 4),
        pytest.param("shm", 3, marks=pytest.mark.deep),
        pytest.param("shm", 6, marks=pytest.mark.deep),
        pytest.param("shm", 8, marks=pytest.mark.deep),
        pytest.param("shm:wait=block", 9, marks=pytest.mark.deep),
        ("tcp", 2),
        pytest.param("unix", 2, marks=pytest.mark.deep),
    ],
)
def test_every_byte_among_all_ranks_arrives(measure: Runner, variant: str, ranks: int) -> None:
    done = run(
        measure,
        variant,
        ranks,
        *(f"pattern {pattern}" for pattern in ALL),
        "sizes " + ",".join(str(size) for size in SIZES),
        "verify yes",
        "budget 0.05",
        "timeout 60",
    )
    assert {one["pattern"] for one in done.of("skipped")} == set(ALL) - possible(ranks)
    for pattern in possible(ranks):
        points = done.of("point", pattern=pattern)
        assert {point["size_bytes"] for point in points} == set(SIZES), pattern
        for point in points:
            assert point["verified_bytes"] > 0, pattern
            # The rate is that of all ranks, each message once.
            bytes_moved = point["bytes_per_s"] * point["median_ns"] * 1e-9
            assert bytes_moved == pytest.approx(MESSAGES[pattern](ranks) * point["size_bytes"]), pattern
            assert {cell["rank"] for cell in point["cells"]} == set(range(ranks))
            assert measured(point, "imbalance") >= 1
            assert measured(point, "clock_error") == 0


def test_a_number_of_ranks_that_makes_no_grid_is_refused_with_one_that_does(measure: Runner) -> None:
    done = run(
        measure,
        "shm",
        5,
        "pattern halo",
        "pattern halo:dims=3",
        "pattern random",
        "pattern ring",
        "sizes 8",
        "budget 0.05",
    )
    reasons = {one["pattern"]: one["reason"] for one in done.of("skipped")}
    assert "grid of 2 dimensions, as 4, 6 or 9; there are 5" in reasons["halo"]
    assert "grid of 3 dimensions, as 8, 12 or 18; there are 5" in reasons["halo:dims=3"]
    assert "needs a multiple of 2 ranks, there are 5" in reasons["random"]


def test_random_pairs_say_how_unlike_they_are(measure: Runner) -> None:
    done = run(measure, "shm", 4, "pattern random", "sizes 8", "verify yes", "seed 7", "budget 0.1")
    (point,) = done.of("point")
    assert point["verified_bytes"] > 0
    assert measured(point, "pair_fastest") <= measured(point, "pair_median") <= point["max_ns"]
    assert measured(point, "imbalance") >= 1


def test_an_exchange_over_one_processor_ends(measure: Runner) -> None:
    done = run(
        measure,
        "shm",
        4,
        "pattern exchange",
        "pattern halo",
        "pin 0,0,0,0",
        "sizes 8",
        "verify yes",
        "budget 0.2",
    )
    assert len(done.of("point")) == 2
