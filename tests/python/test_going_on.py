# SPDX-License-Identifier: Apache-2.0
"""What a run says of going on with it: commands that can be pasted, findings that have them where it can be done here,
and what a launch that was cut off leaves in no number.
"""

from __future__ import annotations

import shlex
import socket
from pathlib import Path

import msgspec
import pytest
from conftest import Netpipe

from netpipe.cli.run import more_text
from netpipe.findings import Finding, cut_off, examples, judge
from netpipe.findings.experiments import going_on
from netpipe.reading import Reading
from netpipe.records import End, Header, Launch, Point, Run, Skipped
from netpipe.session import Result

SPACED = Path("my run.jsonl")


def found_by(rule: str, run: Run) -> list[Finding]:
    return [one for one in judge(Reading(run)).findings if one.rule == rule]


def measured(*launches: float, path: Path | None = SPACED, **header: object) -> Run:
    """Measured here by `netpipe run`, whose command has four launches; these are so many times as slow."""
    points = [
        examples.visited("tcp", size, 1000.0 * pace, launch)
        for launch, pace in enumerate(launches)
        for size in (8, 64, 512)
    ]
    run = examples.run(*points)
    fields = {"host": socket.gethostname(), "argv": ["run", "tcp", "--launches", "4"]} | header
    run.header = Header(schema=1, run="0" * 32, **fields)  # type: ignore[arg-type]
    run.plans[:] = [msgspec.structs.replace(one, launches=4, budget_s=3.0) for one in run.plans]
    run.end = End(exit=0, reason="done", seconds=8.0)
    run.path = path
    return run


def interrupted(run: Run) -> Run:
    """In its last launch, whose points say so."""
    run.end = End(exit=130, reason="interrupted", seconds=8.0)
    last = max(point.launch for point in run.points)
    for point in run.points:
        if point.launch == last:
            point.stop = going_on.INTERRUPTED
    return run


# ------------------------------------------------------------------------------------------------------ the last line


def test_the_command_at_the_end_can_be_pasted(netpipe: Netpipe) -> None:
    words = ("tcp", "--sizes", "8,64,512", "--launches", "3", "-o", str(SPACED))
    said = netpipe("run", *words, fake="visits noisy")
    assert said.code == 0
    report, more = said.out.splitlines()[-2:]
    assert "; netpipe report 'my run.jsonl' writes the report." in report
    first, _, command = more.partition(" more: netpipe ")
    assert first.startswith("If the machine stays like this, ±")
    *rest, launches = shlex.split(command)
    assert rest == ["run", "--continue", str(SPACED), "--launches"]
    assert netpipe(*rest, "1", fake="visits noisy").code == 0
    assert int(launches) >= 1


def test_a_run_that_is_in_no_file_offers_no_command() -> None:
    run = measured(1.0, 1.02, 0.97, 1.05)
    assert "netpipe run --continue 'my run.jsonl' --launches " in (
        more_text(Result(Reading(run), 0, SPACED, None)) or ""
    )
    assert more_text(Result(Reading(run), 0, None, None)) is None


# ----------------------------------------------------------------------------------------------------------- findings


def test_an_interrupted_run_is_continued_by_the_launches_that_it_lacks() -> None:
    (found,) = found_by("incomplete-run", interrupted(measured(1.0, 1.01)))
    assert found.experiment == "netpipe run --continue 'my run.jsonl' --launches 3"
    assert "netpipe run --continue" in found.remedy
    cut = measured(1.0, 1.01, 1.02)
    cut.end = None
    del cut.launches[-1]
    (found,) = found_by("incomplete-run", cut)
    assert found.experiment == "netpipe run --continue 'my run.jsonl' --launches 2"


def test_where_the_record_does_not_tell_how_many_are_lacking_it_is_as_many_as_the_command_had() -> None:
    """The first launch was the only one, or the run had been continued before, or variants were measured in turn."""
    for run in (interrupted(measured(1.0)), interrupted(measured(*[1.0] * 6))):
        (found,) = found_by("incomplete-run", run)
        assert found.experiment == "netpipe run --continue 'my run.jsonl'"
    turns = interrupted(measured(1.0, 1.01))
    turns.plans[1].variants = []
    assert going_on.lacking(turns) is None


def test_a_missed_target_has_the_command_of_the_last_line() -> None:
    run = measured(1.0, 1.04, 0.97, 1.05)
    (found,) = found_by("target-missed", run)
    assert found.experiment is not None
    assert (more_text(Result(Reading(run), 0, SPACED, None)) or "").endswith(f" more: {found.experiment}")
    two = measured(1.0, 1.1)
    (found,) = found_by("target-missed", two)
    assert found.experiment == "netpipe run --continue 'my run.jsonl'", "two launches offer nothing"
    assert found.remedy.startswith("more launches (netpipe run --continue), or ")


@pytest.mark.parametrize(
    "header",
    [
        {"argv": []},
        {"argv": ["memory", "tcp"]},
        {"host": "node17"},
        {"schema": 0},
        {"path": None},
    ],
    ids=["imported", "another-command", "another-host", "older", "in-no-file"],
)
def test_a_run_that_cannot_be_continued_here_is_measured_again(header: dict[str, object]) -> None:
    path = header.pop("path", SPACED)
    schema = header.pop("schema", 1)
    run = interrupted(measured(1.0, 1.1, path=path, **header))  # type: ignore[arg-type]
    assert run.header is not None
    run.header = msgspec.structs.replace(run.header, schema=schema)
    for rule in ("incomplete-run", "target-missed"):
        (found,) = found_by(rule, run)
        assert "--continue" not in f"{found.remedy} {found.experiment}"
    (found,) = found_by("incomplete-run", run)
    assert found.remedy == "run it again"


def test_points_without_visits_are_those_of_an_older_run() -> None:
    run = interrupted(measured(1.0, 1.1))
    run.points[0].visits = None
    (found,) = found_by("incomplete-run", run)
    assert found.remedy == "run it again"


def test_the_run_that_was_just_measured_knows_its_file(netpipe: Netpipe) -> None:
    words = ("tcp", "--sizes", "8,64,512", "--launches", "3", "--report", "report.html", "-q")
    assert netpipe("run", *words, fake="visits noisy").code == 0
    assert "run.jsonl" in Path("report.html").read_text(encoding="utf-8")


# ----------------------------------------------------------------------------------------- a launch that was cut off


def cut(run: Run, launch: int, *kept: Point) -> Run:
    """Its launch was killed when these points of it were done."""
    run.points[:] = [one for one in run.points if one.launch != launch] + list(kept)
    run.launches[:] = [one for one in run.launches if one.launch != launch]
    for plan in run.plans:
        plan.sizes = [8, 64, 512]
    return run


def test_what_a_launch_had_not_done_is_counted() -> None:
    done = examples.visited("tcp", 8, 1000.0, 1)
    (found,) = found_by("launch-cut-off", cut(measured(1.0, 1.0, 1.0), 1, done))
    assert found.what == (
        "Launch 1 was cut off before 2 points were done: the visits made for them are in no number."
    )
    assert found.evidence["lost"].value == 2
    assert found.experiment == "netpipe run --continue 'my run.jsonl' --launches 1"
    two = cut(cut(measured(1.0, 1.0, 1.0), 1, done), 0)
    (found,) = found_by("launch-cut-off", two)
    assert found.what.startswith("Launches 0 and 1 were cut off before 5 points were done: ")


def test_a_size_that_was_skipped_is_not_lost() -> None:
    run = cut(measured(1.0, 1.0), 0, examples.visited("tcp", 8, 1000.0, 0))
    run.add(Skipped(launch=0, variant="tcp", pattern="pingpong", size_bytes=64, reason="too slow"))
    (found,) = found_by("launch-cut-off", run)
    assert "before 1 point was done: the visits made for it are" in found.what
    run.add(Skipped(launch=0, variant="tcp", reason="no such layer"))
    assert not found_by("launch-cut-off", run)


def test_the_last_launch_of_a_run_without_an_end_may_still_run() -> None:
    run = cut(measured(1.0, 1.0), 1)
    run.end = None
    assert not found_by("launch-cut-off", run)
    run.end = End(exit=0, reason="done")
    assert found_by("launch-cut-off", run)


def test_a_run_of_which_no_launch_has_an_end_is_not_judged() -> None:
    run = cut_off.fires()
    run.launches.clear()
    assert not found_by("launch-cut-off", run)
    run.add(Launch(launch=1))
    assert found_by("launch-cut-off", run)
