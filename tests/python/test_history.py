# SPDX-License-Identifier: Apache-2.0
"""The history of a host: what is kept, its trends and changes, and baselines from it."""

from __future__ import annotations

import json
import random
import sqlite3
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from test_comparing import call, made, same, written

from netpipe.cli import group
from netpipe.failure import Failure
from netpipe.history import INDEX, History
from netpipe.history.changes import changes
from netpipe.records import Run


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NETPIPE_HISTORY", str(tmp_path / "history"))
    return tmp_path / "history"


def runs(folder: Path, factors: list[float], host: str = "node17") -> list[Path]:
    """A run a day."""
    return [
        written(
            made({"tcp": lambda _, f=factor: f, "shm": same}, 7 * day),  # type: ignore[misc]
            folder / f"{host}-{day}.jsonl",
            started=f"2026-11-{day + 1:02}T10:00:00Z",
            host=host,
        )
        for day, factor in enumerate(factors)
    ]


def test_a_change_of_level_is_found_where_it_is_and_noise_is_none() -> None:
    draw = random.Random(3)
    level = [draw.lognormvariate(0, 0.02) for _ in range(10)] + [
        1.1 * draw.lognormvariate(0, 0.02) for _ in range(8)
    ]
    (one,) = changes(level)
    assert one.place == 10
    assert one.factor == pytest.approx(1.1, rel=0.03)
    told = sum(bool(changes([draw.lognormvariate(0, 0.05) for _ in range(20)])) for _ in range(100))
    assert told <= 10
    assert changes([1.0] * 12) == ()
    assert changes([1.0, 2.0, 1.0, 2.0, 1.0]) == ()


def test_two_changes_are_two() -> None:
    draw = random.Random(5)
    level = [base * draw.lognormvariate(0, 0.01) for base in (1.0,) * 8 + (1.3,) * 8 + (1.0,) * 8]
    assert [one.place for one in changes(level)] == [8, 16]


def test_runs_are_kept_once_and_without_their_samples(tmp_path: Path, place: Path) -> None:
    (path,) = runs(tmp_path, [1.0])
    with path.open("ab") as file:  # before the last line, as a run has them
        file.close()
    lines = path.read_bytes().splitlines(keepends=True)
    sample = b'{"type":"sample","launch":0,"variant":"tcp","pattern":"pingpong","size_bytes":1,"ops":1,"ns":[5.0]}\n'
    path.write_bytes(b"".join([*lines[:-1], sample, lines[-1]]))
    assert call("history", "add", path, path).exception is None
    (kept,) = place.glob("*.jsonl")
    assert b'"sample"' not in kept.read_bytes()
    assert len(Run.read(kept, samples=False).points) == len(Run.read(path, samples=False).points)
    (one,) = json.loads(call("history", "list", "--json").stdout)
    assert (one["host"], one["curves"]) == ("node17", 2)


def test_trends_name_the_day_of_a_change(tmp_path: Path) -> None:
    files = runs(tmp_path, [1.0] * 6 + [1.4] * 6)
    runs_of_another = runs(tmp_path, [3.0], host="node18")
    assert call("history", "add", *files, *runs_of_another).exception is None
    shown = call("history", "show", "--host", "node17").stdout
    said = " ".join(shown.split())
    assert "tcp at 1 B: since 2026-11-07 10:00 1.4" in said
    assert "shm at" not in said
    answer = json.loads(call("history", "show", "--host", "node17", "--variant", "tcp", "--json").stdout)
    assert {len(trend["moments"]) for trend in answer["trends"]} == {12}
    assert {change["place"] for trend in answer["trends"] for change in trend["changes"]} == {6}


def offered(*words: str) -> list[str]:
    """What the shell completes of the last word."""
    shell = ShellComplete(group, {}, "netpipe", "_NETPIPE_COMPLETE")
    return [one.value for one in shell.get_completions(list(words[:-1]), words[-1])]


def test_names_are_completed_from_the_runs_that_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    show = ("history", "show")
    assert offered(*show, "--variant", "") == []  # there is no history yet
    (other,) = runs(tmp_path, [1.0], host="node18")
    call("history", "add", *runs(tmp_path, [1.0]))
    written(made({"pipe": same}, 1), Path("run.jsonl"), host="node17")  # which is not kept
    assert offered(*show, "--variant", "") == ["shm", "tcp"]
    assert offered(*show, "--variant", "s") == ["shm"]
    assert offered(*show, "--variant", "tcp", "--pattern", "") == ["pingpong"]
    assert offered(*show, "--host", "node18", "--variant", "") == []
    call("history", "add", other)
    assert offered(*show, "--host", "node18", "--variant", "") == ["shm", "tcp"]
    assert offered("show", "--variant", "") == ["pipe"]


def test_the_last_and_the_best_run_of_the_host_are_baselines(tmp_path: Path) -> None:
    files = runs(tmp_path, [1.2, 1.0, 1.3, 1.3])
    call("history", "add", *files[:3], *runs(tmp_path, [0.5], host="node18"))
    same_as_last = call("check", files[3], "--baseline", "last", "--slower", "all=5%")
    assert same_as_last.return_value == 0
    assert "the last run, of 2026-11-03 10:00" in same_as_last.stdout
    best = call("check", files[3], "--baseline", "best", "--slower", "all=5%")
    assert best.return_value == 1
    assert "the best run, of 2026-11-02 10:00" in best.stdout


def test_a_removed_run_is_gone(tmp_path: Path, place: Path) -> None:
    files = runs(tmp_path, [1.0, 1.0])
    call("history", "add", *files)
    first, second = json.loads(call("history", "list", "--json").stdout)
    assert call("history", "remove", first["id"][:12]).exception is None
    assert [one["id"] for one in json.loads(call("history", "list", "--json").stdout)] == [second["id"]]
    assert len(list(place.glob("*.jsonl"))) == 1
    with History.open() as history:
        assert len(history.moments("node17", "tcp", "pingpong", 1)) == 1


def refused(*words: object) -> str:
    done = call(*words)
    assert isinstance(done.exception, Failure), done
    return done.exception.sentence


def test_what_cannot_be_kept_is_refused(tmp_path: Path, place: Path) -> None:
    assert "there is no history" in refused("history", "list")
    (path,) = runs(tmp_path, [1.0])
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    assert "incomplete" in refused("history", "add", cut)
    foreign = tmp_path / "foreign.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    foreign.write_bytes(b"".join([lines[0].replace(b'"run":"', b'"run":"../'), *lines[1:]]))
    assert "not a word" in refused("history", "add", foreign)
    assert not list(place.glob("*.jsonl"))
    assert "empty" in refused("history", "show")
    call("history", "add", path)
    assert "no run of host node99; it has node17" in refused("history", "show", "--host", "node99")
    assert "begin with 'zz'" in refused("history", "remove", "zz")


def test_a_damaged_index_is_named(tmp_path: Path, place: Path) -> None:
    place.mkdir()
    (place / INDEX).write_bytes(b"no database " * 100)
    assert "is damaged" in refused("history", "list")


def test_another_that_writes_is_waited_for_and_then_named(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = runs(tmp_path, [1.0])
    call("history", "add", *runs(tmp_path, [1.0], host="node18"))
    monkeypatch.setattr("netpipe.history.WAIT_S", 0.1)
    with sqlite3.connect(place / INDEX) as other:
        other.execute("begin immediate")
        assert "cannot be used: database is locked" in refused("history", "add", path)
