# SPDX-License-Identifier: Apache-2.0
"""The bench scores the verdict that a prediction prints: right, wrong or undecided. And what each one is off by."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "bench"))

import of_apps
import pytest
from measured import Result
from of_apps import Compared, judged, ranked, summary

from netpipe.prediction.predict import Predicted
from netpipe.prediction.ranking import Pair
from netpipe.reading.estimate import Estimate

SURE, UNSURE = Estimate(2.0, 1.4, 2.8), Estimate(1.3, 0.9, 1.8)
SAID = Predicted(pairs=[Pair("a", "b", UNSURE), Pair("a", "c", SURE), Pair("b", "c", SURE)])


def test_undecided_is_neither_right_nor_wrong() -> None:
    found = judged(SAID, {"a": 1.2, "b": 1.0, "c": 2.0})  # a and b differ, in the order that was not said
    assert [one.verdict for one in found] == ["undecided", "right", "right"]
    verdicts, inside = ranked(found)
    assert verdicts.ours == "2 right, 0 wrong, 1 undecided of 3"
    assert verdicts.met
    assert inside.ours == "2 of 3", "0.83, 1.67 and 2 times: the first is outside"


def test_a_wrong_verdict_is_counted() -> None:
    verdicts, _ = ranked(judged(SAID, {"a": 3.0, "b": 1.0, "c": 2.0}))
    assert verdicts.ours == "1 right, 1 wrong, 1 undecided of 3"
    assert not verdicts.met


def test_variants_that_are_alike_are_not_counted() -> None:
    verdicts, _ = ranked(judged(SAID, {"a": 1.0, "b": 1.05, "c": 1.0}))
    assert verdicts.ours == "0 right, 0 wrong, 0 undecided of 0"
    assert not verdicts.met, "who decides nothing is not right"


@pytest.mark.parametrize(
    ("predicted", "found", "met"), [([1.1, 0.8, 1.25], "0 of 3", True), ([1.1, 0.74, 1.26], "2 of 3", False)]
)
def test_each_prediction_has_to_be_near(predicted: list[float], found: str, met: bool) -> None:
    rows = {
        row.what: row
        for row in summary([Compared("cg, 2 ranks", "a", 1.0, one, 0.5, 2.0, 0.1) for one in predicted])
    }
    row = rows["predictions that are off by more than 25 %"]
    assert (row.ours, row.target, row.met) == (found, "each <= 25 %", met)
    assert row.figure == ("most 25%" if met else "most 26%")


def test_where_no_kernel_fits_that_is_all_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    knows = Result("predict", "cg on 4 ranks of 2 processors", "", "", "", "it cannot know", True)
    monkeypatch.setattr(of_apps, "libraries", lambda: ["mpi@o", "mpi@m"])
    monkeypatch.setattr(of_apps, "planned", lambda _: ([], ["sweep3d is left out on 4 ranks"]))
    monkeypatch.setattr(of_apps, "oversubscribed", lambda _: knows)
    assert [row.what for row in of_apps.predicted(1)] == [knows.what, "sweep3d is left out on 4 ranks"]
