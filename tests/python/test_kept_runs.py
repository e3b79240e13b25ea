# SPDX-License-Identifier: Apache-2.0
"""Labelled runs that were measured for real and thinned out (bench/thin.py): of each curve the rules still say what its
label says. A change of a rule, or of the statistics below it, that no made-up run shows may show here.

They were made on a two-core guest by `bench/of_findings.py --keep DIR` on 2026-11-26.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))

from labelled.cases import CASES, Case  # noqa: E402
from labelled.score import Score, measured, scored  # noqa: E402
from of_findings import file_of  # noqa: E402

from netpipe.reading import Reading  # noqa: E402
from netpipe.records import Run  # noqa: E402

KEPT = ROOT / "tests/kept"
FILES = sorted(KEPT.glob("*.jsonl"))
BY_FILE = {file_of(KEPT, case): case for case in CASES}
MOST_BYTES, MOST_OF_ALL = 40_000, 600_000
LEAST_RULES = 18


@functools.cache
def judged(path: Path) -> tuple[Case, Score]:
    run = Run.read(path)
    case = measured(BY_FILE[path], Reading(run))
    return case, scored(case, run)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_rules_say_of_a_kept_run_what_its_label_says(path: Path) -> None:
    case, score = judged(path)
    assert case.curves
    assert (score.missed, score.false, score.not_bitten) == ([], [], [])
    assert score.hits == sum(len(curve.finds) for curve in case.curves) + len(case.finds_host)
    assert all(score.located)


def test_the_kept_runs_hold_causes_and_clean_curves_of_many_rules() -> None:
    cases = [judged(path)[0] for path in FILES]
    rules = {rule for case in cases for curve in case.curves for rule in curve.finds}
    assert len(rules) >= LEAST_RULES, sorted(rules)
    assert sum(not curve.finds for case in cases for curve in case.curves) >= len(rules)
    assert any(case.noise for case in cases)


def test_the_kept_runs_are_small_and_name_no_machine() -> None:
    assert sum(path.stat().st_size for path in FILES) < MOST_OF_ALL
    for path in FILES:
        assert path.stat().st_size < MOST_BYTES, path.name
        text = path.read_text(encoding="utf-8")
        assert '"host":"host0"' in text
        assert "/tmp/" not in text, path.name
