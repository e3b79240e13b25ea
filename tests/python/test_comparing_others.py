# SPDX-License-Identifier: Apache-2.0
"""Comparisons of what is not the same curve in two runs: variants of one run, and patterns of other conventions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from repeated import SIZES, made, same

from netpipe.cli import group
from netpipe.failure import Failure
from netpipe.reading import Reading
from netpipe.reading.across.between import without_conventions
from netpipe.reading.across.merge import merged
from netpipe.reading.blocks.verdicts import Word
from netpipe.records import Header, Rank, Run, Variant, encode

APART = "pingpong:buffers=apart"


def call(*words: object) -> Result:
    return CliRunner().invoke(group, [str(word) for word in words], obj=[], standalone_mode=False)


def written(run: Run, path: Path) -> Path:
    header = Header(schema=1, run="5a" * 16, netpipe="0.1.0", started="2026-11-01T10:00:00Z")
    path.write_bytes(b"".join(encode(record) for record in (header, *run.body())))
    return path


def under(run: Run, pattern: str) -> Run:
    """The same curves under this pattern."""
    run.points[:] = [msgspec.structs.replace(point, pattern=pattern) for point in run.points]
    return run


def of_both(*runs: Run) -> Run:
    """One run with the points of several."""
    whole = runs[0]
    whole.points.extend(point for run in runs[1:] for point in run.points)
    return whole


def imported(variant: str, pattern: str, seed: int = 1) -> Run:
    """As `netpipe import` writes it: points without visits or intervals."""
    run = under(made({variant: same}, seed, launches=1), pattern)
    run.points[:] = [
        msgspec.structs.replace(point, visits=None, low_ns=None, high_ns=None) for point in run.points
    ]
    settings = {"imported_from": "osu.txt", "source": "OSU: the mean over all iterations"}
    run.variants = [Variant(variant=variant, module=variant, ranks=[Rank(rank=0, settings=settings)])]
    return run


def pairs(*runs: Run, conventions: bool = True) -> set[tuple[str, str, str]]:
    """Variant, pattern, and the pattern that it is held against."""
    found = Reading(merged(runs)).between_of((), (), conventions)
    return {(one.variant, one.pattern, one.against_pattern) for one in found}


# ------------------------------------------------------------------------------------------ variants of one run


def test_variants_of_one_run_are_compared_within_their_blocks() -> None:
    """Between two runs of this noise 2 % would be nothing; within blocks the launches cancel."""
    run = made({"tcp": same, "unix": lambda _: 1.02, "shm": same}, 1, launch_noise=0.0005, run_noise=0.1)
    unix, shm = Reading(run).within_of(("tcp", "unix", "shm"), ())
    assert (unix.label, unix.against, unix.word) == ("unix", "tcp", Word.SLOWER)
    assert unix.overall.covers(1.02)
    assert [at.size_bytes for at in unix.sizes] == list(SIZES)
    assert not shm.differs


def test_variants_that_do_not_differ_are_told_apart_in_at_most_one_of_twenty() -> None:
    names = ("tcp", "unix", "shm", "pipe")
    found = [
        one
        for seed in range(60)
        for one in Reading(made(dict.fromkeys(names, same), seed)).within_of(names, ())
    ]
    assert len(found) == 180
    assert sum(one.differs for one in found) <= 0.05 * len(found)


def test_verdicts_of_a_run_report_no_difference_more_often_either() -> None:
    """Each verdict holds with 95 % for all of its sizes, also where launches differ as a whole."""
    names = ("tcp", "tcp:nodelay=no", "tcp:quickack=yes")
    found = [one for seed in range(40) for one in Reading(made(dict.fromkeys(names, same), seed)).verdicts]
    assert len(found) == 80
    differ = [one for one in found if one.of(Word.FASTER) or one.of(Word.SLOWER)]
    assert len(differ) <= 0.05 * len(found)


def test_compare_takes_one_run_and_two_variants(tmp_path: Path) -> None:
    run = written(
        made({"tcp": same, "unix": lambda size: 1.5 if size > 4096 else 1.0, "shm": same}, 1),
        tmp_path / "run.jsonl",
    )
    words = ("compare", run, "--variant", "tcp", "--variant", "unix")
    text = " ".join(call(*words).stdout.split())
    assert "time over that of tcp, with 95 % intervals" in text
    assert "unix against tcp: slower over all sizes" in text
    assert "slower from 16 KiB on" in text
    assert "shm" not in text
    assert "unix: time of unix over time of tcp" in call(*words, "--sizes").stdout
    answer: dict[str, Any] = json.loads(call(*words, "--json").stdout)
    assert answer["against"] == "tcp"
    assert [(one["variant"], one["against"]) for one in answer["curves"]] == [("unix", "tcp")]
    assert call(*words, "--figure", tmp_path / "x.svg").exit_code == 0
    assert "<!-- Time of unix over tcp -->" in (tmp_path / "x.svg").read_text()


def test_what_was_not_measured_by_turns_is_not_compared(tmp_path: Path) -> None:
    both = of_both(imported("tcp", "pingpong"), imported("unix", "pingpong"))
    done = call(
        "compare", written(both, tmp_path / "old.jsonl"), "--variant", "tcp", "--variant", "unix"
    ).exception
    assert isinstance(done, Failure)
    assert "did not measure tcp by turns with unix" in done.sentence


# ------------------------------------------------------------------------------------------ other conventions


@pytest.mark.parametrize(
    ("pattern", "plain"),
    [
        ("pingpong", "pingpong"),
        (APART, "pingpong"),
        ("window:in_flight=64,places=one,directions=both", "window:in_flight=64,directions=both"),
        ("collective:what=bcast,statistic=mean", "collective:what=bcast"),
    ],
)
def test_conventions_are_no_part_of_what_is_measured(pattern: str, plain: str) -> None:
    assert without_conventions(pattern) == plain


def test_a_curve_of_other_conventions_is_compared_where_there_is_no_equal_one() -> None:
    def run(seed: int) -> Run:
        return made({"mpi@made": same, "tcp": same}, seed)

    old = imported("mpi@made", APART)
    assert pairs(old, run(2)) == {("mpi@made", "pingpong", APART)}
    assert pairs(run(2), old) == {("mpi@made", APART, "pingpong")}
    assert not pairs(old, run(2), conventions=False)
    both = of_both(run(2), under(run(3), APART))
    assert pairs(old, both) == {("mpi@made", APART, APART)}
    assert pairs(imported("mpi@made", "window:in_flight=8,places=one"), run(2)) == set()


def test_every_run_is_held_against_the_first_that_has_the_curve() -> None:
    first, second = (made({"tcp": same, "shm": same}, seed) for seed in (2, 3))
    found = Reading(merged([imported("tcp", APART), first, second])).between
    assert [(one.variant, one.against_pattern) for one in found] == [("tcp", APART)] * 2 + [
        ("shm", "pingpong")
    ]
    cold = under(made({"tcp": same}, 4), "pingpong:buffers=cold")
    assert pairs(of_both(made({"tcp": same}, 5), cold), made({"tcp": same}, 6)) == {
        ("tcp", "pingpong", "pingpong")
    }


def test_an_old_result_lies_over_a_new_one_and_the_output_says_what_differs(tmp_path: Path) -> None:
    old = written(imported("mpi@made", APART), tmp_path / "osu.jsonl")
    new = written(made({"mpi@made": same, "tcp": same}, 2), tmp_path / "run.jsonl")
    done = call("compare", old, new)
    assert done.exception is None, done.exception
    text = " ".join(done.stdout.split())
    assert f"mpi@made is pingpong in run and {APART} in osu: these conventions differ" in text
    assert "mpi@made in osu is imported; OSU: the mean over all iterations" in text
    assert call("compare", old, new, "--figure", tmp_path / "x.svg").exit_code == 0
    assert f"mpi@made, pingpong over {APART}" in (tmp_path / "x.svg").read_text()
    gate = call("check", new, "--baseline", old).exception
    assert isinstance(gate, Failure), "a gate compares like with like"
    assert f"the first has mpi@made {APART}; the others have mpi@made pingpong, tcp pingpong" in gate.sentence
