# SPDX-License-Identifier: Apache-2.0
"""netpipe from Python over made-up runs: what a script asks of them, and what it is told where that is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from synthetic import LAYERS, classic_sizes, run

import netpipe
from netpipe import cli, notebook
from netpipe.failure import Failure
from netpipe.findings import judge
from netpipe.notebook import compare, findings, load, plot
from netpipe.reading import Reading
from netpipe.records import Run, encode

MADE = run(LAYERS, classic_sizes())


def test_a_run_is_a_file_or_what_was_read(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"".join(encode(record) for record in (MADE.header, *MADE.body()) if record is not None))
    assert load(path).equals(load(Run.read(path)))
    assert findings(path).equals(findings(Run.read(path)))
    with pytest.raises(ValueError, match="there is no record type 'pint'; there are"):
        load(MADE, "pint")


@pytest.mark.parametrize(
    ("settings", "options", "kind"),
    [
        ({"end_size": "64"}, ("--end", "64"), "adaptive"),
        ({"sizes": "8,64"}, ("--sizes", "8,64"), "list"),
    ],
)
def test_what_is_not_given_is_as_netpipe_run_has_it(
    fake: Path, settings: dict[str, str], options: tuple[str, ...], kind: str
) -> None:
    from netpipe.command.presets import PRESETS

    one = netpipe.measure("shm", **settings)
    assert cli.call(("run", "shm", *options, "--quiet")) == 0
    other = Run.read("run.jsonl")
    assert len(one.plans) == len(other.plans) == int(PRESETS["default"]["launches"])
    for mine, theirs in zip(one.plans, other.plans, strict=True):
        assert mine.schedule == theirs.schedule
        assert mine.schedule is not None
        assert mine.schedule.kind == kind
        assert (mine.sizes, mine.budget_s, mine.target) == (theirs.sizes, theirs.budget_s, theirs.target)
    assert len(netpipe.measure("shm", sizes="8", launches=1).plans) == 1


def test_findings_are_what_the_command_shows() -> None:
    found = findings(MADE)
    assert {"rule", "severity", "what", "remedy", "experiment"} <= set(found.columns)
    assert found.height > 0
    assert set(found["severity"]) <= {"severe", "warning", "note"}


def test_a_finding_has_its_evidence_and_what_the_remedy_gains() -> None:
    found = findings(MADE)
    truth = judge(Reading(MADE)).findings
    assert found["experiment"].to_list() == [one.experiment for one in truth]
    assert found["gain"].to_list() == [one.gain and one.gain.value for one in truth]
    assert any(one.evidence for one in truth)
    for row, one in zip(found.rows(named=True), truth, strict=True):
        assert {of["name"]: (of["value"], of["unit"]) for of in row["evidence"]} == {
            name: (of.value, of.unit) for name, of in one.evidence.items()
        }


def test_rules_that_could_not_judge_say_why() -> None:
    skipped = findings(MADE, "skipped")
    truth = judge(Reading(MADE)).skipped
    assert skipped.columns == ["rule", "title", "reason"]
    assert skipped.select("rule", "reason").rows() == [(one.rule, one.reason) for one in truth]
    assert ("posting-cost", "Cost of posting receives") in skipped.select("rule", "title").rows()
    assert netpipe.findings(MADE, "skipped").equals(skipped)
    with pytest.raises(ValueError, match="there are no findings 'lost'; there are found, withdrawn, skipped"):
        findings(MADE, "lost")


def test_the_functions_have_short_names_and_the_package_of_findings_is_still_there() -> None:
    import netpipe.findings as package

    for name in notebook.__all__:
        assert name in netpipe.__all__
    assert netpipe.load is load
    assert netpipe.findings is package
    assert netpipe.findings(MADE).equals(findings(MADE))
    assert package.judge is judge
    types = (Path(netpipe.__file__).parent / "__init__.pyi").read_text()
    for name in netpipe.__all__:
        assert callable(getattr(netpipe, name))
        assert f" as {name}\n" in types or f"def {name}(" in types


def test_the_program_begins_without_what_it_does_not_need() -> None:
    code = "import sys, netpipe; print(any(name.startswith('netpipe.') for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_figure_has_its_title_and_its_curves() -> None:
    drawn = plot("throughput", MADE, title="Of two layers")
    assert drawn.get_label() == "Of two layers"
    assert drawn.axes[0].lines


@pytest.mark.parametrize(
    ("figure", "runs", "said"),
    [
        ("curve", (MADE,), "there is no figure 'curve' of runs; there are"),
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
