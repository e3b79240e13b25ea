# SPDX-License-Identifier: Apache-2.0
"""The rules for the calls of the kernels are those of the measured reference codes."""

from __future__ import annotations

import pytest
from kernel_rules import ADDED, MEASURED, MESSAGES, RULES, sweep_on, written


@pytest.mark.parametrize(("kernel", "problem", "ranks"), MEASURED)
def test_a_rule_is_that_of_the_measured_reference(kernel: str, problem: str, ranks: int) -> None:
    rule = RULES[kernel](0, ranks, problem)
    assert {key: calls for key, calls in rule.items() if key[0] not in ADDED} == written(
        MEASURED[kernel, problem, ranks]
    )


@pytest.mark.parametrize(("kernel", "total"), [("is", 30), ("cg", 447_488), ("mg", 90_144)])
def test_all_ranks_together_make_the_calls_that_the_paper_counts(kernel: str, total: int) -> None:
    """Class B on 16 ranks; half of those of MG are idle on its coarsest level."""
    every = [RULES[kernel](rank, 16, "B") for rank in range(16)]
    assert sum(times for one in every for (name, _), (times, _) in one.items() if name in MESSAGES) == total


def test_the_rule_for_sweep3d_is_that_of_the_measured_reference() -> None:
    """50 cells on a grid of 2 x 4, rank 0: 39 collectives, and as many messages as the paper counts."""
    calls = sweep_on(0, 50, 2, 4)
    assert {key: times for key, (times, _) in calls.items() if key[0] in MESSAGES} == {
        ("Recv", 600): 4800, ("Send", 600): 4800, ("Recv", 312): 4800, ("Send", 312): 4800
    }  # fmt: skip
    assert sum(times for (name, _), (times, _) in calls.items() if name not in MESSAGES) == 39
