# SPDX-License-Identifier: Apache-2.0
"""How the labelled set of bench/ is scored: what counts as found, missed, false, and in no way."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))

from labelled.cases import CASES, Case, Labelled  # noqa: E402
from labelled.score import Score, graded, scored  # noqa: E402

from netpipe.findings import CURVES, examples, rules  # noqa: E402
from netpipe.records import Rank, Run  # noqa: E402

STEP_BYTES = 4200  # between the sizes of examples.stepping


def stepping(times: float, segment: int) -> Run:
    """A curve with a step at 4200 bytes, of a layer whose packets carry `segment` bytes of a message."""
    made = examples.stepping(times)
    for variant in made.variants:
        variant.ranks[:] = [Rank(rank=0, settings={"snd_mss_bytes": str(segment)})]
    return made


def case(*curves: Labelled, allows: tuple[str, ...] = ()) -> Case:
    return Case("made-up", curves, allows=allows)


def packets(limit: int = STEP_BYTES, *, repeats: bool = False) -> Labelled:
    return Labelled("tcp", ("segment-step",), limit_bytes=limit, repeats=repeats)


def test_a_cause_that_is_named_at_its_threshold_is_found_and_located() -> None:
    score = scored(case(packets()), stepping(1.4, STEP_BYTES))
    assert (score.hits, score.missed, score.false, score.located) == (1, [], [], [True])
    assert (score.precision, score.recall) == (1.0, 1.0)
    assert (score.provoked, score.clean) == (1, 0)


def test_a_cause_that_is_not_named_is_missed() -> None:
    score = scored(case(packets()), stepping(1.01, STEP_BYTES))
    assert (score.hits, len(score.missed), score.false, score.located) == (0, 1, [], [False])
    assert score.recall == 0


def test_a_cause_that_is_named_elsewhere_is_false() -> None:
    """It was named, so it is no miss; but what it says of the size is wrong."""
    score = scored(case(packets(2000)), stepping(1.4, STEP_BYTES))
    assert (score.hits, len(score.false), score.located) == (1, 1, [False])
    assert "elsewhere" in score.false[0]
    assert score.precision == 0.5


def test_a_threshold_that_repeats_may_be_seen_at_a_multiple_and_is_located_only_at_itself() -> None:
    half = STEP_BYTES // 2
    assert scored(case(packets(half)), stepping(1.4, STEP_BYTES)).false
    score = scored(case(packets(half, repeats=True)), stepping(1.4, STEP_BYTES))
    assert (score.false, score.located) == ([], [False])


def test_what_is_said_of_a_clean_curve_is_false_unless_it_is_allowed() -> None:
    run = stepping(1.4, STEP_BYTES)
    score = scored(case(Labelled("tcp")), run)
    assert len(score.false) == 1
    assert (score.provoked, score.clean) == (0, 1)
    assert scored(case(Labelled("tcp"), allows=("segment-step",)), run).false == []
    assert scored(case(Labelled("tcp", allows=("segment-step",))), run).false == []
    assert scored(case(Labelled("tcp")), stepping(1.01, STEP_BYTES)).false == []


def test_a_cause_that_cost_nothing_counts_in_no_way() -> None:
    made = examples.run(
        examples.point("tcp", 8, 1000.0), examples.point("shm", 8, 990.0), variants=("tcp", "shm")
    )
    score = scored(case(Labelled("tcp", ("small-buffers",), without="shm")), made)
    assert (score.hits, score.missed, score.curves) == (0, [], 0)
    assert len(score.not_bitten) == 1


def test_a_threshold_that_costs_nothing_today_counts_in_no_way() -> None:
    """By the first size above it, whatever lies further up."""
    for above, bites in ((1020.0, False), (1300.0, True)):
        made = examples.run(
            *(
                examples.point("tcp", size, time)
                for size, time in ((4096, 1000.0), (8192, above), (16384, 9000.0))
            ),
            *(examples.point("shm", size, 1000.0) for size in (4096, 8192, 16384)),
            variants=("tcp", "shm"),
        )
        score = scored(case(Labelled("tcp", ("eager-limit",), without="shm", limit_bytes=4200)), made)
        assert (len(score.not_bitten), score.provoked) == ((0, 1) if bites else (1, 0))


def test_a_curve_that_was_not_measured_is_no_score() -> None:
    with pytest.raises(RuntimeError, match="udp pingpong was not measured"):
        scored(case(Labelled("udp")), stepping(1.4, STEP_BYTES))


def test_every_rule_about_curves_counts_and_rules_that_state_numbers_do_not() -> None:
    known = {one.id for one in rules().values() if one.about == CURVES}
    assert known < graded()
    assert "slowest-rank" in graded()
    assert not graded() & {"step", "several-modes", "stolen-time"}


def test_scores_add_up() -> None:
    one = Score(hits=2, missed=["a"], false=["b"], located=[True], provoked=3)
    whole = Score()
    whole.add(one)
    whole.add(one)
    assert (whole.hits, whole.precision, whole.recall, whole.curves) == (4, 4 / 6, 4 / 6, 6)


def test_the_cases_name_rules_that_exist_and_curves_once() -> None:
    for one in CASES:
        assert {rule for curve in one.curves for rule in curve.finds} <= set(rules()), one.name
        assert set(one.allows) | set(one.finds_host) <= set(rules()), one.name
        names = [curve.name for curve in one.curves]
        assert len(set(names)) == len(names), one.name
    assert len({one.name for one in CASES}) == len(CASES)
