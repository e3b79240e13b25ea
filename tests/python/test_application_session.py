# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  (fixtures that are imported and then named as parameters)
"""A session of application kernels: in what order they run, what is kept of them, and what `netpipe apps` prints."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Said
from rich.console import Console
from two_libraries import Here, here, refused  # noqa: F401

from netpipe import cli
from netpipe.applications import running, session
from netpipe.applications.plan import Planned, Task
from netpipe.failure import FAILED, INTERRUPTED, USAGE, Failure
from netpipe.kernels import read
from netpipe.kernels.lines import Header, Load, Result
from netpipe.render.terminal.apps import Line

# ---------------------------------------------------------------------------------------------------- the session


class Stage:
    """In place of the runner: what each run comes to is said by a test."""

    def __init__(self) -> None:
        self.ran: list[tuple[int, str]] = []
        self.act: Callable[[Task, int], Result] = lambda task, launch: self.result(task, launch, 1.0)

    def result(self, task: Task, launch: int, seconds: float | None, why: str = "") -> Result:
        return Result(
            name=task.cell.name,
            problem=task.cell.problem,
            variant=task.cell.variant,
            ranks=task.cell.ranks,
            options=dict(task.options),
            launch=launch,
            seconds=seconds,
            verified=seconds is not None,
            wall_s=2.0,
            problem_text=why,
            pin=list(task.pin),
            oversubscribed=task.oversubscribed,
        )

    def __call__(self, timeout_s: float, given_up: Callable[[], bool], most_ranks: int) -> Stage:
        return self

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(self, task: Task, launch: int) -> Result:
        self.ran.append((launch, task.cell.text))
        return self.act(task, launch)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Stage]:
    made = Stage()
    monkeypatch.setattr(session, "Runner", made)
    monkeypatch.setattr(session.native, "environment", lambda: {"load": {"average_1": 6.5, "tasks": 9}})
    yield made
    assert list(tmp_path.glob("*.part")) == []


def conduct(
    planned: Planned, output: Path, launches: int = 6, seed: int | None = 1, **more: Any
) -> session.Outcome:
    started = more.pop("started", "2026-11-23T10:00:00+00:00")
    return session.run(planned, launches, output, Header(schema=0, seed=seed, started=started), **more)


def test_each_round_has_every_task_in_another_order(here: Here, stage: Stage, tmp_path: Path) -> None:
    planned = here.plan("cg", "sweep3d", ranks=(2, 4))
    conduct(planned, tmp_path / "a.jsonl")
    texts = [task.cell.text for task in planned.tasks]
    rounds = [[text for launch, text in stage.ran if launch == number] for number in range(1, 7)]
    assert [sorted(one) for one in rounds] == [sorted(texts)] * 6
    assert len({tuple(one) for one in rounds}) == 6
    first = list(stage.ran)
    stage.ran.clear()
    conduct(planned, tmp_path / "b.jsonl")
    assert stage.ran == first, "the seed decides"
    assert read(tmp_path / "b.jsonl").header.seed == 1


def test_the_file_has_the_load_before_each_launch(here: Here, stage: Stage, tmp_path: Path) -> None:
    outcome = conduct(here.plan("cg", ranks=(2,)), tmp_path / "apps.jsonl", launches=1)
    assert read(tmp_path / "apps.jsonl").results == outcome.results
    assert {one.load for one in outcome.results} == {Load(average_1=6.5, other_busy_processes=None)}


@pytest.mark.parametrize("answer", [{}, {"load": None}, {"load": {"average_1": "many"}}, None])
def test_a_load_that_nobody_can_tell_stops_no_session(
    here: Here, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any] | None
) -> None:
    def told() -> dict[str, Any]:
        if answer is None:
            raise Failure(FAILED, "there is no worker")
        return answer

    planned = here.plan("cg", ranks=(2,))
    monkeypatch.setattr(session.native, "environment", told)
    outcome = conduct(planned, tmp_path / "apps.jsonl", launches=1)
    assert outcome.exit_code == 0
    assert {one.load for one in outcome.results} == {None}


def test_the_file_has_what_ran_and_what_ran_it(here: Here, stage: Stage, tmp_path: Path) -> None:
    path = tmp_path / "apps.jsonl"
    outcome = conduct(here.plan("cg", ranks=(2,)), path, launches=2, seed=None)
    found = read(path)
    assert (outcome.exit_code, outcome.output, outcome.kept) == (0, path, None)
    assert found.results == outcome.results
    assert len(found.results) == 8
    assert found.header.libraries == {"mpi@one": "Open MPI 5.0.11", "mpi@two": "MPICH 5.0.2"}
    assert found.header.processors
    assert found.header.placement == "auto"
    assert all(one.pin == [0, 1] and not one.oversubscribed for one in found.results)
    assert found.header.seed is not None
    assert found.end is not None


def test_an_interrupted_session_keeps_what_ran(here: Here, stage: Stage, tmp_path: Path) -> None:
    def act(task: Task, launch: int) -> Result:
        if len(stage.ran) == 4:
            raise Failure(INTERRUPTED, "interrupted")
        return stage.result(task, launch, 1.0)

    stage.act = act
    path = tmp_path / "apps.jsonl"
    outcome = conduct(here.plan("cg", ranks=(2,)), path)
    found = read(path)
    assert outcome.exit_code == INTERRUPTED
    assert len(found.results) == 3
    assert found.end is not None
    assert found.end.exit_code == INTERRUPTED


def test_a_session_without_a_result_leaves_the_older_file_alone(
    here: Here, stage: Stage, tmp_path: Path
) -> None:
    path = tmp_path / "apps.jsonl"
    conduct(here.plan("cg", ranks=(2,)), path, launches=1)
    before = path.read_bytes()

    def act(_: Task, __: int) -> Result:
        raise Failure(INTERRUPTED, "interrupted")

    stage.act = act
    outcome = conduct(here.plan("cg", ranks=(2,)), path)
    assert (outcome.exit_code, outcome.output) == (INTERRUPTED, None)
    assert path.read_bytes() == before


def test_what_ran_is_in_the_file_before_the_next_one_starts(here: Here, stage: Stage, tmp_path: Path) -> None:
    path = tmp_path / "apps.jsonl"

    def act(task: Task, launch: int) -> Result:
        done = len(stage.ran) - 1
        assert (len(read(path).results) if done else path.exists()) == done
        return stage.result(task, launch, 1.0)

    stage.act = act
    assert conduct(here.plan("cg", ranks=(2,)), path, launches=2).exit_code == 0


def test_older_results_are_renamed_and_never_lost(here: Here, stage: Stage, tmp_path: Path) -> None:
    path = tmp_path / "apps.jsonl"
    moments = ("2026-11-23T10:00:00+00:00", "2026-11-23T11:00:00+00:00", "2026-11-23T11:00:00+00:00", None)
    kept = [conduct(here.plan("cg", ranks=(2,)), path, launches=1, started=moment).kept for moment in moments]
    assert [one.name if one else None for one in kept] == [
        None,
        "apps-20261123T1000000.jsonl",
        "apps-20261123T1100000.jsonl",
        "apps-20261123T1100000-2.jsonl",
    ]
    assert all(len(read(one).results) == 4 for one in tmp_path.glob("apps*.jsonl"))
    assert len(list(tmp_path.glob("apps*.jsonl"))) == 4


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.write_text("my thesis"), "exists and holds something else"),
        (lambda path: path.mkdir(), "is a folder"),
    ],
)
def test_another_file_is_never_overwritten(
    here: Here, stage: Stage, tmp_path: Path, make: Callable[[Path], object], words: str
) -> None:
    path = tmp_path / "thesis"
    make(path)
    assert words in refused(USAGE, lambda: conduct(here.plan("cg", ranks=(2,)), path))
    assert "there is no folder" in refused(USAGE, lambda: session.check_output(tmp_path / "none" / "x"))
    assert stage.ran == []


def test_a_device_takes_the_results(here: Here, stage: Stage) -> None:
    outcome = conduct(here.plan("cg", ranks=(2,)), Path("/dev/null"), launches=1)
    assert (outcome.exit_code, len(outcome.results)) == (0, 4)


def test_a_task_that_fails_lets_the_others_go_on_and_is_not_tried_for_ever(
    here: Here, stage: Stage, tmp_path: Path
) -> None:
    def act(task: Task, launch: int) -> Result:
        once = task.cell.variant == "mpi@one:transport=tcp" and launch == 1
        never = task.cell.variant == "mpi@two:transport=tcp"
        return stage.result(
            task, launch, None if once or never else 1.0, "it crashed" if once or never else ""
        )

    stage.act = act
    outcome = conduct(here.plan("cg", ranks=(2,)), tmp_path / "apps.jsonl")
    assert outcome.exit_code == FAILED
    ran = Counter(text.rpartition(" ")[2] for _, text in stage.ran)
    assert ran == {
        "mpi@one:transport=shm": 6,
        "mpi@one:transport=tcp": 6,
        "mpi@two:transport=shm": 6,
        "mpi@two:transport=tcp": session.HOPELESS,
    }


def test_a_failure_in_the_last_run_is_not_forgotten(here: Here, stage: Stage, tmp_path: Path) -> None:
    def act(task: Task, launch: int) -> Result:
        return stage.result(task, launch, 1.0 if launch == 1 else None)

    stage.act = act
    assert conduct(here.plan("cg", ranks=(2,)), tmp_path / "apps.jsonl", launches=2).exit_code == FAILED


def test_the_progress_counts_to_its_end_and_knows_the_time_left(
    here: Here, stage: Stage, tmp_path: Path
) -> None:
    seen: list[session.Progress] = []
    conduct(here.plan("cg", ranks=(2,)), tmp_path / "apps.jsonl", launches=3, watch=seen.append)
    assert [(one.done, one.of) for one in seen] == [(done, 12) for done in range(12)]
    assert [one.left_s for one in seen[:2]] == [None, None]
    # Each took 2 s, of the runs before.
    assert [one.left_s for one in seen[2:]] == [2.0 * (12 - done) for done in range(2, 12)]


def test_the_end_of_a_launcher_is_one_sentence() -> None:
    one = running.Runner(5)
    assert one._ended(None, "") == "it did not end within 5 s; --timeout gives it more"
    assert one._ended(None, "CG: hm").endswith("more; until then it said: CG: hm")
    assert one._ended(-9, "") == "its launcher was killed by SIGKILL, and said nothing"
    assert one._ended(3, "no memory") == "it ended with exit code 3: no memory"
    text = "noise of mpirun\nCG: rank 3 has no memory for 9 bytes\n---\nMPI_ABORT was invoked\n"
    assert running._words("cg", text) == "CG: rank 3 has no memory for 9 bytes"


def test_a_time_counts_only_for_the_placement_that_was_in_force() -> None:
    assert running._elsewhere((0, 1), (0, 1)) == ""
    assert running._elsewhere((None, None), (None, None)) == running._elsewhere((None, None), (3, 4)) == ""
    assert running._elsewhere((0, 1), (0, None)).startswith(
        "rank 1 was bound to processor 1 and could run on several processors at its end; "
    )
    assert "rank 0 was bound to processor 0 and could run on processor 1 " in running._elsewhere(
        (0, 1), (1, 0)
    )
    assert running._elsewhere((0, 1), ()) != "", "a kernel that does not say counts for nothing"


# ------------------------------------------------------------------------------------------------ the command line


@pytest.fixture
def apps(
    here: Here, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> Callable[..., Said]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)

    def call(*words: str) -> Said:
        capsys.readouterr()
        code = cli.call(["apps", *words])
        return Said(code, *capsys.readouterr())

    return call


def test_without_a_kernel_it_lists_them(apps: Callable[..., Said]) -> None:
    said = apps()
    assert (said.code, said.err) == (0, "")
    assert [line.split("  ")[0] for line in said.out.splitlines()[:4]] == ["kernel", "cg", "sp", "sweep3d"]
    assert "Settings of sweep3d: mk (planes of a block) and mmi (angles)." in said.out
    listed = json.loads(apps("--json").out)["kernels"]
    assert listed[0] == {
        "name": "cg",
        "summary": "cg itself",
        "ranks": "a power of two",
        "classes": ["S", "W", "A"],
        "settings": {},
    }


@pytest.mark.parametrize(
    "option",
    [("--ranks", "4"), ("--pin", "0,1"), ("--dry-run",), ("--on", "mpi"), ("-o", "x"), ("-q",)],
)
def test_an_option_of_runs_without_a_kernel_is_refused(
    apps: Callable[..., Said], option: tuple[str, ...]
) -> None:
    said = apps(*option)
    assert (said.code, said.out) == (USAGE, "")
    assert said.err.startswith("netpipe: which kernels should run with --")


def test_a_run_prints_a_table_and_where_its_results_are(apps: Callable[..., Said], stage: Stage) -> None:
    said = apps("cg", "sp", "--ranks", "2,4", "--on", "mpi@one", "--launches", "1")
    assert said.code == 0
    assert [line.split()[:4] for line in said.out.splitlines()[1:4]] == [
        ["cg", "S", "2", "mpi@one"],
        ["4", "mpi@one", "1.00", "s"],
        ["sp", "S", "4", "mpi@one"],
    ]
    assert said.err.splitlines() == [
        "netpipe: sp class S is left out on 2 ranks: it needs a square number of ranks",
        "netpipe: the results are in apps.jsonl",
    ]
    assert read(Path("apps.jsonl")).header.command == [
        *("netpipe", "apps", "cg", "sp", "--ranks", "2,4", "--on", "mpi@one", "--launches", "1")
    ]
    assert "the older ones are in apps-" in apps("cg", "--ranks", "2", "--launches", "1").err


def test_where_ranks_ran_is_told_below_the_table(apps: Callable[..., Said], here: Here) -> None:
    here.processors = 2
    words = ("cg", "--ranks", "2,4", "--on", "mpi@one", "--launches", "1")
    told = " ".join(apps(*words).out.split())
    assert " Bound: 2 ranks to processors 0 and 1. Oversubscribed: 4 ranks on " in told
    assert ", not bound. Such times tell " in told
    assert apps(*words, "--pin", "none").out.count("\nNot bound: 2 ranks.\n") == 1
    assert read(Path("apps.jsonl")).header.placement == "none"
    rows = json.loads(apps(*words, "--pin", "0,1,0,1", "--json").out)["rows"]
    rows.sort(key=lambda row: len(row["pins"][0]))  # cells are measured in random order
    assert [(row["pins"], row["oversubscribed"]) for row in rows] == [
        ([[0, 1]], False),
        ([[0, 1, 0, 1]], True),
    ]


def test_failures_are_told_behind_the_table_even_if_quiet(apps: Callable[..., Said], stage: Stage) -> None:
    stage.act = lambda task, launch: stage.result(task, launch, None, "its result is wrong: zeta is 1")
    said = apps("cg", "-q", "--ranks", "2", "--on", "mpi@one", "--launches", "6")
    assert said.code == FAILED
    assert said.err == "netpipe: cg class S on 2 ranks over mpi@one: its result is wrong: zeta is 1\n"


def test_an_interrupt_is_told(apps: Callable[..., Said], stage: Stage) -> None:
    def act(_: Task, __: int) -> Result:
        raise Failure(INTERRUPTED, "interrupted")

    stage.act = act
    said = apps("cg", "--ranks", "2")
    assert (said.code, said.out) == (INTERRUPTED, "")
    assert said.err == "netpipe: interrupted before the first result\n"
    assert not Path("apps.jsonl").exists()


def test_as_json(apps: Callable[..., Said]) -> None:
    said = apps("sweep3d:mk=3", "--ranks", "2", "--on", "mpi@one", "--launches", "6", "--json", "-q")
    made = json.loads(said.out)
    (row,) = made["rows"]
    assert made["exit_code"] == said.code == 0
    assert row["seconds"] == {"value": 1.0, "low": 1.0, "high": 1.0}
    assert {name: row[name] for name in ("name", "settings", "problem", "variant", "ranks", "verified")} == {
        "name": "sweep3d",
        "settings": "mk=3",
        "problem": "20",
        "variant": "mpi@one",
        "ranks": 2,
        "verified": 6,
    }


def test_a_dry_run_shows_the_memory_and_the_command_and_runs_nothing(
    apps: Callable[..., Said], stage: Stage, tmp_path: Path
) -> None:
    words = ("cg", "--ranks", "2", "--on", "mpi@two:transport=tcp", "--dry-run")
    said = apps(*words)
    first, second = said.out.splitlines()
    cell, _, what = first.partition(": ")
    assert cell == "cg class S on 2 ranks over mpi@two:transport=tcp"
    assert what == "2 MiB of memory, 6 times, bound to processors 0 and 1"
    assert second.startswith("    env 'SETTING=mpi@two:transport=tcp 2' /bin/true ")
    assert second.endswith(f"-n 2 {tmp_path}/mpi@two-cg --class S --pin 0,1"), "as NPB prints, not as JSON"
    made = json.loads(apps(*words, "--json").out)
    (task,) = made["tasks"]
    assert (made["placement"], task["pin"], task["oversubscribed"]) == ("auto", [0, 1], False)
    assert task["command"] == second.strip()
    assert (task["memory_bytes"], task["environment"]) == (2 << 20, {"SETTING": "mpi@two:transport=tcp 2"})
    assert stage.ran == []
    assert not Path("apps.jsonl").exists()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_one_line_on_a_terminal_and_leaves_nothing() -> None:
    stream = Terminal()
    line = Line(Console(file=stream, width=20), lambda _: pytest.fail("a sentence of its own"))
    line.show("3 of 24 done: \x1b[31mcg on 2 ranks")
    assert stream.getvalue() == "\r\x1b[K3 of 24 done: \\x1b["
    line.close()
    line.close()
    assert stream.getvalue().endswith("\r\x1b[K")
    assert stream.getvalue().count("\r") == 2


def test_progress_is_at_most_a_line_in_two_seconds_elsewhere() -> None:
    said: list[str] = []
    now = 0.0
    line = Line(Console(file=io.StringIO()), said.append, lambda: now)
    for second in range(9):
        now = float(second)
        line.show(str(second))
    line.close()
    assert said == ["2", "4", "6", "8"]


@pytest.mark.parametrize("text", ["", ",", "two", "0", "-2", "2;4", "1048577", "9" * 30])
def test_ranks_that_are_no_numbers_are_refused(apps: Callable[..., Said], text: str) -> None:
    said = apps("cg", "--ranks", text)
    assert (said.code, said.out) == (USAGE, "")
    assert (
        said.err == f"netpipe: --ranks takes numbers of processes, separated by commas: 2,4; not '{text}'\n"
    )


def test_the_output_is_checked_before_anything_is_compiled(apps: Callable[..., Said], here: Here) -> None:
    Path("thesis").write_text("chapter one")
    said = apps("cg", "-o", "thesis")
    assert said.code == USAGE
    assert "holds something else" in said.err
    assert here.built == []
