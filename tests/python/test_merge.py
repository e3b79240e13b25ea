# SPDX-License-Identifier: Apache-2.0
"""Runs laid over each other: every variant says which run it is of, and nothing is mixed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import synthetic
from click.testing import CliRunner

from netpipe.cli.report import command as report
from netpipe.cli.show import command as show
from netpipe.findings import again, judge
from netpipe.findings.floor import floors
from netpipe.reading import Reading
from netpipe.reading.across.merge import labels, merged, name_of
from netpipe.records import Record, Run, encode
from netpipe.render.page.page import page

SIZES = [8, 1024, 65536]


def placed(placement: str | None, path: str | None = None, seed: int = 1, launches: int = 1) -> Run:
    run = synthetic.run(sizes=SIZES, seed=seed, launches=launches)
    run.plans = [msgspec.structs.replace(plan, placement=placement) for plan in run.plans]
    run.path = Path(path) if path else None
    return run


NEAR, FAR = placed("cache", "a.jsonl", launches=2), placed("sockets", "b.jsonl", seed=2)


def test_the_place_tells_runs_apart_else_the_file_else_a_number() -> None:
    assert labels([NEAR, FAR]) == ("cache", "sockets")
    assert labels([placed("auto", "x/before.jsonl"), placed("auto", "x/after.jsonl")]) == ("before", "after")
    assert labels([placed(None, "x/run.jsonl"), placed(None, "y/run.jsonl")]) == ("x/run", "y/run")
    assert labels([placed(None, "run.jsonl"), placed(None, "run.jsonl")]) == ("run 1", "run 2")
    assert labels([placed("auto"), placed("cache"), placed("auto")]) == ("run 1", "run 2", "run 3")


def test_ranks_on_several_hosts_are_a_place() -> None:
    far = placed("auto")
    far.variants = [
        msgspec.structs.replace(
            variant,
            ranks=[msgspec.structs.replace(rank, host=f"host{rank.rank}") for rank in variant.ranks],
        )
        for variant in far.variants
    ]
    assert labels([placed("auto"), far]) == ("auto", "hosts")


def test_one_run_is_itself() -> None:
    assert merged([NEAR]) is NEAR


def test_every_curve_is_there_under_the_name_of_its_run_and_as_it_was() -> None:
    before = {curve.variant: curve for run in (NEAR, FAR) for curve in Reading(run).curves}
    assert len(before) == len(synthetic.LAYERS)
    whole = Reading(merged([NEAR, FAR])).curves
    assert [curve.variant for curve in whole] == [
        f"{layer.name} @{label}" for label in ("cache", "sockets") for layer in synthetic.LAYERS
    ]
    for run, label in ((NEAR, "cache"), (FAR, "sockets")):
        for curve in Reading(run).curves:
            (same,) = [one for one in whole if one.variant == f"{curve.variant} @{label}"]
            assert [point.time_ns for point in same.points] == [point.time_ns for point in curve.points]


def test_what_was_merged_is_left_as_it_was() -> None:
    names = [point.variant for point in FAR.points]
    merged([NEAR, FAR])
    assert [point.variant for point in FAR.points] == names
    assert {point.launch for point in FAR.points} == {0}


def test_losses_are_read_within_a_run_only() -> None:
    whole = {(loss.variant, loss.pattern): loss for loss in Reading(merged([NEAR, FAR])).losses}
    for run, label in ((NEAR, "cache"), (FAR, "sockets")):
        for loss in Reading(run).losses:
            same = whole[f"{loss.variant} @{label}", loss.pattern]
            assert same.below == f"{loss.below} @{label}"
            assert same.sizes == loss.sizes
    assert len(whole) == len(Reading(NEAR).losses) + len(Reading(FAR).losses)


def test_states_and_floors_stay_those_of_their_launches() -> None:
    whole = merged([NEAR, FAR])
    assert {yardstick.launch for yardstick in whole.yardsticks} == {0, 1, 2}
    reading = Reading(whole)
    assert not reading.states.changes
    assert reading.idle == {"null @cache", "null @sockets"}
    assert not any(name_of(floor.variant) == "null" for floor in floors(reading))
    said = " ".join(finding.what for finding in judge(reading).findings)
    assert " @cache:wait=" not in said


@pytest.mark.parametrize("cut", [0, 1])
def test_the_worst_end_is_the_end(cut: int) -> None:
    runs = [placed("cache"), placed("sockets")]
    whole = merged(runs)
    assert whole.end is not None
    assert (whole.end.exit, whole.end.reason) == (0, "done")
    assert whole.end.seconds == pytest.approx(sum(run.end.seconds or 0 for run in runs if run.end))
    end = runs[cut].end
    assert end is not None
    runs[cut].end = msgspec.structs.replace(end, exit=130, reason="interrupted")
    whole = merged(runs)
    assert whole.end is not None
    assert (whole.end.exit, whole.end.reason) == (130, "interrupted")
    runs[cut].end = None
    assert merged(runs).end is None


def test_the_command_of_one_run_is_not_that_of_all() -> None:
    runs = [placed("cache"), placed("sockets")]
    assert again(Reading(merged(runs))) == "netpipe run"
    assert runs[1].header is not None
    runs[1].header = msgspec.structs.replace(runs[1].header, argv=["run", "tcp"])
    assert again(Reading(merged(runs))) is None
    assert again(Reading(runs[1])) == "netpipe run tcp"
    assert again(Reading(runs[1]), "--budget", "6") == "netpipe run tcp --budget 6"
    for words in (["--budget", "3"], ["--budget=3"]):
        runs[1].header.argv[:] = ["run", *words, "tcp"]
        assert again(Reading(runs[1]), "--budget", "6") == "netpipe run tcp --budget 6", "once, and not twice"
    runs[1].header.argv[:] = ["run", "tcp"]
    runs[1].header = None
    assert again(Reading(merged(runs))) is None


def written(run: Run, path: Path) -> Path:
    records: list[Record | None] = [
        run.header,
        *run.plans,
        *run.variants,
        *run.yardsticks,
        *run.points,
        run.end,
    ]
    path.write_bytes(b"".join(encode(record) for record in records if record is not None))
    return path


def test_the_commands_take_several_runs(tmp_path: Path) -> None:
    near, far = written(NEAR, tmp_path / "near.jsonl"), written(FAR, tmp_path / "far.jsonl")
    done = CliRunner().invoke(show, [str(near), str(far)])
    assert done.exit_code == 0, done.output
    assert "shm @cache" in done.output
    assert "shm @sockets" in done.output
    done = CliRunner().invoke(show, [str(near), str(far), "--variant", "shm @sockets"])
    assert done.exit_code == 0, done.output
    assert "shm @cache" not in done.output
    done = CliRunner().invoke(report, [str(near), str(far)])
    assert done.exit_code == 0, done.output
    assert "shm @sockets" in (tmp_path / "near.html").read_text()
    assert not (tmp_path / "far.html").exists()
    broken = tmp_path / "broken.jsonl"
    broken.write_text("{}\n")
    assert CliRunner().invoke(show, [str(near), str(broken)]).exit_code != 0


def test_the_page_of_two_runs_has_both_plans() -> None:
    text = page(Reading(merged([NEAR, FAR])))
    assert "cache (launch 0, 1)" in text
    assert "sockets (launch 2)" in text
