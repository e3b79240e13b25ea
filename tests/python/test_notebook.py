# SPDX-License-Identifier: Apache-2.0
"""netpipe.notebook over made-up runs: what a script asks of them, and what it is told where that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic import LAYERS, classic_sizes, run

from netpipe.failure import Failure
from netpipe.notebook import compare, findings, load, plot
from netpipe.records import Run, encode

MADE = run(LAYERS, classic_sizes())


def test_a_run_is_a_file_or_what_was_read(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"".join(encode(record) for record in (MADE.header, *MADE.body()) if record is not None))
    assert load(path).equals(load(Run.read(path)))
    assert findings(path).equals(findings(Run.read(path)))
    with pytest.raises(ValueError, match="there is no record type 'pint'; there are"):
        load(MADE, "pint")


def test_findings_are_what_the_command_shows() -> None:
    found = findings(MADE)
    assert {"rule", "severity", "what", "remedy", "experiment"} <= set(found.columns)
    assert found.height > 0
    assert set(found["severity"]) <= {"severe", "warning", "note"}


def test_a_figure_has_its_title_and_its_curves() -> None:
    drawn = plot("throughput", MADE, title="Of two layers")
    assert drawn.get_label() == "Of two layers"
    assert drawn.axes[0].lines


@pytest.mark.parametrize(
    ("figure", "runs", "said"),
    [
        ("curve", (MADE,), "there is no figure 'curve'; there are"),
        ("throughput", (), "name a run"),
        ("overlap", (MADE,), "cannot draw overlap"),
    ],
)
def test_a_figure_that_cannot_be_drawn_is_a_sentence(figure: str, runs: tuple[Run, ...], said: str) -> None:
    with pytest.raises(Failure, match=said):
        plot(figure, *runs)


def test_names_that_are_not_there_are_named() -> None:
    with pytest.raises(Failure, match="no points of variant 'pvm'"):
        compare(MADE, variants="pvm")
    with pytest.raises(Failure, match="nothing to compare"):
        compare(MADE, Run())
