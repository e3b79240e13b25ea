# SPDX-License-Identifier: Apache-2.0
"""How the labelled set of bench/ is scored: what counts as found, missed, false, and in no way."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))

import of_findings  # noqa: E402
from labelled import measure  # noqa: E402
from labelled.cases import CASES, Case, Labelled  # noqa: E402
from labelled.score import Score, experiments, graded, right, scored  # noqa: E402

from netpipe.findings import CURVES, Confirmed, examples, judge, rules  # noqa: E402
from netpipe.findings.curves import small_buffers, unaligned_buffers  # noqa: E402
from netpipe.findings.experiments import outcomes  # noqa: E402
from netpipe.reading import Reading  # noqa: E402
from netpipe.reading.estimate import Estimate  # noqa: E402
from netpipe.records import Rank, Run, encode  # noqa: E402

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


def test_a_cause_that_is_a_setting_of_the_pattern_is_held_against_the_pattern_without_it() -> None:
    label = Labelled("memcpy", ("unaligned-buffers",), caused_by="pingpong:send_offset=8")
    score = scored(case(label), unaligned_buffers.fires())
    assert (score.hits, score.missed, score.false, score.not_bitten) == (1, [], [], [])
    silent = scored(case(label), unaligned_buffers.silent())
    assert (silent.hits, silent.missed, len(silent.not_bitten)) == (0, [], 1)


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


# ---------------------------------------------------------------------------------------------------------- experiments

SMALL = "tcp:sndbuf=8k"
BUFFERS = case(Labelled(SMALL, ("small-buffers",)), Labelled("unix"))


def came(outcome: str, gain: float = 1.0, reason: str = "") -> Confirmed:
    return Confirmed(outcome, "tcp", None if reason else Estimate(gain, gain, gain), reason, None)


def told(run: Run, *outcome_of_each: Confirmed | None) -> list[dict[str, Any]]:
    """What explain prints: of all findings of a run, and these are the outcomes of those about small buffers."""
    rest = list(outcome_of_each)
    shown = [
        msgspec.structs.replace(one, outcome=rest.pop(0) if one.rule == "small-buffers" else None)
        for one in judge(Reading(run)).findings
    ]
    made: list[dict[str, Any]] = msgspec.json.decode(msgspec.json.encode(shown))
    return made


def counts(score: Score) -> tuple[int, int, int, int, int]:
    lists = (score.withdrawn, score.undecided, score.failed, score.without)
    return (score.confirmed, *map(len, lists))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (came("confirmed", 3.0), (1, 0, 0, 0, 0)),
        (came("withdrawn"), (0, 1, 0, 0, 0)),
        (came("undecided", 1.3), (0, 0, 1, 0, 0)),
        (came("failed", reason="the peer has gone"), (0, 0, 0, 1, 0)),
        (None, (0, 0, 0, 0, 1)),
    ],
)
def test_what_experiments_came_to_of_causes_that_are_there_is_counted(
    outcome: Confirmed | None, expected: tuple[int, ...]
) -> None:
    run = small_buffers.fires()
    (found,) = right(BUFFERS, run)
    score = experiments(BUFFERS, [found], told(run, outcome))
    assert counts(score) == expected
    for line in (*score.withdrawn, *score.undecided, *score.failed, *score.without):
        assert line.startswith(f"made-up: {SMALL} pingpong: small-buffers")
    assert not score.failed or "the peer has gone" in score.failed[0]
    whole = Score()
    whole.add(score)
    whole.add(score)
    assert counts(whole) == tuple(2 * one for one in expected)
    by_name = {row.what: row for row in of_findings.rows_of_experiments(whole)}
    wrong = by_name["wrongly withdrawn: the cause was there"]
    assert (wrong.ours, wrong.target) == (str(2 * expected[1]), "0")
    assert wrong.verdict == ("missed" if expected[1] else "met")


def test_a_finding_that_explain_does_not_have_is_no_outcome() -> None:
    with pytest.raises(RuntimeError, match="netpipe explain has no small-buffers of tcp:sndbuf=8k"):
        experiments(BUFFERS, right(BUFFERS, small_buffers.fires()), [])


def test_only_causes_that_are_there_have_to_be_confirmed() -> None:
    """Not what is said of a clean curve, of a cause without effect, or of a threshold elsewhere."""
    run = small_buffers.fires()
    assert right(case(Labelled(SMALL)), run) == []
    assert right(case(Labelled(SMALL, ("small-buffers",), without=SMALL)), run) == []
    for limit, there in ((STEP_BYTES, 1), (2000, 0)):
        assert len(right(case(packets(limit)), stepping(1.4, STEP_BYTES))) == there


def written(made: Run, path: Path, **header: object) -> Path:
    assert made.header is not None
    first = msgspec.structs.replace(made.header, **header)
    path.write_bytes(b"".join(encode(record) for record in (first, *made.body(), made.end) if record))
    return path


def test_the_score_of_the_rules_is_not_that_of_experiments_beside_the_run(tmp_path: Path) -> None:
    run = written(small_buffers.fires(), tmp_path / "made-up.jsonl")
    points = [examples.visited(name, 1 << 20, 4e4, launch) for launch in range(4) for name in (SMALL, "tcp")]
    argv = ["run", SMALL, "tcp", "--sizes", "1048576"]
    made = examples.run(*points, variants=(SMALL, "tcp"))
    written(made, outcomes.file_of(run, 1), argv=argv, confirms="0" * 32)
    assert [one.rule for one in judge(Reading(Run.read(run))).withdrawn] == ["small-buffers"]
    assert scored(BUFFERS, Run.read(run)).hits == len(right(BUFFERS, Run.read(run))) == 1


@pytest.mark.parametrize("fails", [False, True])
def test_experiments_are_run_for_what_was_found_and_what_stops_them_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    run = small_buffers.fires()
    written(run, of_findings.file_of(tmp_path, BUFFERS))
    asked: list[tuple[list[str], float]] = []

    def explained(_: Case, path: Path, variants: Sequence[str], budget_s: float) -> list[dict[str, Any]]:
        asked.append((list(variants), budget_s))
        if fails:
            raise RuntimeError(f"the experiments for {path.name} cannot be run: it was measured on elsewhere")
        return told(run, came("confirmed", 3.0))

    monkeypatch.setattr(measure, "explained", explained)
    score, left_out = of_findings.total([BUFFERS], tmp_path, None, confirm_s=0.5)
    assert asked == [([SMALL], 0.5)]
    assert (score.hits, left_out) == (1, [])
    assert counts(score) == ((0, 0, 0, 1, 0) if fails else (1, 0, 0, 0, 0))
    of_findings.total([BUFFERS], tmp_path, None)
    of_findings.total([case(Labelled("unix"))], tmp_path, None, confirm_s=0.5)
    assert len(asked) == 1, "none was asked for, or nothing was found"
