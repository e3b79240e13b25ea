# SPDX-License-Identifier: Apache-2.0
"""bench/of_comparison.py counts what comparisons report, on made-up runs whose truth is known."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest
from repeated import made, same

from netpipe.records import Plan, Run
from netpipe.records.parts import PlannedVariant

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))

import of_comparison as bench  # noqa: E402


def run(seed: int, noise: float, copies_take: float = 1.0) -> Run:
    """The layers of the bench, each beside a copy of itself."""
    layers = dict.fromkeys(bench.LAYERS, same)
    both = layers | {f"{name}#2": lambda _: copies_take for name in layers}
    whole = made(both, seed, launch_noise=noise)
    planned = [PlannedVariant(variant=name, module=name.partition(":")[0]) for name in layers]
    planned += [PlannedVariant(variant=f"{name}#2", module=name, copy_of=name) for name in layers]
    plan = {
        "launch": 0,
        "hash": "5a" * 32,
        "patterns": ["pingpong"],
        "schedule": {"kind": "list"},
        "sizes": [],
    }
    whole.plans = [msgspec.convert({"type": "plan", "variants": [], **plan}, Plan)]
    whole.plans[0].variants = planned
    return whole


def test_visits_that_are_made_longer_take_so_much_longer_and_others_do_not() -> None:
    before = run(1, 0.01)
    after = bench.slowed(before, 1.03, ("tcp",))
    for old, new in zip(before.points, after.points, strict=True):
        factor = 1.03 if old.variant == "tcp" else 1.0
        assert new.median_ns == pytest.approx(factor * old.median_ns)
        times = [one.visit_times().median_ns for one in (old, new)]
        assert times[1] == pytest.approx([factor * one for one in times[0]])


def test_quiet_runs_are_equal_and_three_percent_are_found_in_each() -> None:
    runs = [run(seed, 0.0005) for seed in range(3)]
    counts = bench.between_runs(runs)
    assert (counts.comparisons, counts.curves) == (3, 3 * len(bench.LAYERS))
    assert (counts.reported, counts.failed) == (0, 0)
    assert counts.found == counts.over_all == counts.by_gate == counts.curves
    inside = bench.within_runs(runs)
    assert inside.comparisons == inside.curves == 3 * len(bench.LAYERS)
    assert (inside.reported, inside.failed) == (0, 0)
    assert inside.found == inside.over_all == inside.by_gate == inside.curves
    assert inside.precise == inside.precise_found == inside.curves


def test_a_copy_that_differs_is_reported_and_what_noise_hides_is_not_found() -> None:
    wrong = bench.within_runs([run(seed, 0.0005, copies_take=1.05) for seed in range(2)])
    assert wrong.reported == wrong.comparisons
    assert wrong.failed == wrong.comparisons // 2, "a gate fails for what is slower alone"
    noisy = bench.between_runs([run(seed, 0.1) for seed in range(3)])
    assert noisy.over_all < 0.5 * noisy.curves
    assert noisy.precise == 0


def test_rows_say_how_many_of_how_many_and_hold_the_targets() -> None:
    counts = bench.Counts(comparisons=1000, reported=50, failed=51, curves=200, found=190, over_all=189)
    found = list(bench.rows("two runs", counts, "not independent"))
    assert [row.verdict for row in found] == ["met", "missed", "met", "missed", "missed", "missed"]
    assert found[0].ours == "5.0%"
    assert found[0].figure == "50 of 1000; not independent"
    assert {row.verdict for row in bench.rows("nothing", bench.Counts(), "")} == {"missed"}


def test_the_usual_rounds_make_a_thousand_comparisons() -> None:
    runs = bench.count_of(bench.USUAL_ROUNDS)
    assert runs * (runs - 1) // 2 >= 1000
    assert bench.count_of(1) < runs
    assert bench.count_of(0) == 2
