# SPDX-License-Identifier: Apache-2.0
"""Several operations and numbers of ranks: a search for each, and one set of rules for all, in the library's format."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest
from click.shell_completion import CompletionItem
from simulated_tuning import QUIET, Machine, Truth
from test_tuning_files import ALGORITHMS, COMPOSITIONS

from netpipe.cli import tune as command_of
from netpipe.failure import UNAVAILABLE, USAGE, Failure
from netpipe.libraries import families
from netpipe.libraries.intel import presets
from netpipe.libraries.mpich import rules as trees
from netpipe.libraries.openmpi import rules
from netpipe.libraries.tunables import Chosen, Tunables
from netpipe.session import Request
from netpipe.tuning import job as jobs
from netpipe.tuning.job import Job
from netpipe.tuning.library import Library
from netpipe.tuning.measuring.bench import GRACE_S
from netpipe.tuning.measuring.guard import Guard
from netpipe.tuning.search.goals import Goal, goal
from netpipe.tuning.search.variants import START, Start

FAMILIES = {one.name: one.tunables for one in families()}
FOLDER = Path("/tuned")
WORDS = {"1": "linear", "6": "binomial"}
VERSION = (5, 0, 11)
ALLREDUCE, BCAST = 2, 7  # in the classic format


def chosen(
    operation: str, ranks: int, by_size: dict[int, str], version: tuple[int, ...] = VERSION, **more: Any
) -> Chosen:
    return Chosen(operation, ranks, by_size, WORDS, version, **more)


def classic_choice(text: str, operation: int, ranks: int, size: int) -> int | None:
    """What Open MPI 5 takes from a file: the rules of the largest number of ranks that is not above, and of the largest
    size that is not above. None: nothing is said.
    """
    numbers = iter(
        int(word)
        for line in text.splitlines()
        if not line.startswith("rule-file-version")
        for word in line.split("#")[0].split()
    )
    found: int | None = None
    for _ in range(next(numbers)):
        here = next(numbers)
        least = -1
        for _ in range(next(numbers)):
            of = next(numbers)
            assert of > least, "numbers of ranks rise"
            least = of
            rows = [[next(numbers) for _ in range(5)] for _ in range(next(numbers))]
            assert rows[0][0] == 0, "the first rule is for the smallest messages"
            if here == operation and of <= ranks:
                found = [algorithm for start, algorithm, *_ in rows if start <= size][-1]
    assert next(numbers, None) is None, "nothing is left"
    return found


SOME = [
    chosen("bcast", 4, {8: "1", 1024: "6"}),
    chosen("allreduce", 2, {8: "6", 1024: ""}),
    chosen("bcast", 2, {8: "6", 1024: "6"}),
    chosen("bcast", 3, {8: "1", 1024: "1"}),
]


def test_one_file_of_open_mpi_has_all_operations_and_numbers_of_ranks() -> None:
    made = rules.rules(SOME, FOLDER)
    assert made is not None
    ((name, text),) = made.files.items()
    assert made.variables["OMPI_MCA_coll_tuned_dynamic_rules_filename"] == f"/tuned/{name}"
    at = {
        ranks: [classic_choice(text, BCAST, ranks, size) for size in (8, 1024, 8192)] for ranks in range(1, 7)
    }
    assert at == {
        1: [None, None, None],
        2: [6, 6, 0],
        3: [1, 1, 0],
        4: [1, 6, 0],
        5: [0, 0, 0],  # which were not measured
        6: [0, 0, 0],
    }
    assert [classic_choice(text, ALLREDUCE, ranks, 8) for ranks in (1, 2, 3, 4)] == [None, 6, 0, 0]


def test_the_json_of_open_mpi_6_has_an_entry_for_each_number_of_ranks() -> None:
    made = rules.rules(
        [chosen(one.operation, one.ranks, dict(one.by_size), (6, 0, 0)) for one in SOME], FOLDER
    )
    assert made is not None
    (text,) = made.files.values()
    whole = json.loads(text)["collectives"]
    assert set(whole) == {"allreduce", "bcast"}
    spans = [(one["comm_size_min"], one["comm_size_max"]) for one in whole["bcast"]]
    assert spans == [(2, 2), (3, 3), (4, 4)]
    assert [one["alg"] for one in whole["bcast"][2]["rules"]] == ["linear", "binomial"]


def test_one_variable_of_intel_mpi_has_all_numbers_of_ranks() -> None:
    some = [
        chosen("allreduce", 4, {8: "6"}),
        chosen("allreduce", 2, {8: "", 64: "1"}),
        chosen("bcast", 2, {8: "6"}),
    ]
    made = presets.rules(some, FOLDER)
    assert made is not None
    assert made.variables == {
        "I_MPI_ADJUST_ALLREDUCE": "1:23-127@2-2;6:0-15@4-4",
        "I_MPI_ADJUST_BCAST": "6:0-15@2-2",
    }
    assert presets.rules([*some, chosen("gather", 2, {8: "1"})], FOLDER) is None


@pytest.fixture
def mpich(tmp_path: Path) -> Path:
    """As far as a libmpi has trees for two operations in it."""

    def with_bcast(tree: dict[str, Any], end: dict[str, Any]) -> bytes:
        return json.dumps({**tree, "collective=bcast": {"comm_type=intra": end}}).encode()

    parts = [
        with_bcast(COMPOSITIONS, COMPOSITIONS["collective=allreduce"]["comm_type=intra"]),
        with_bcast(ALGORITHMS, {"algorithm=MPIR_Bcast_intra_binomial": {}}),
    ]
    path = tmp_path / "libmpi.so"
    path.write_bytes(b"\0".join([b"\x7fELF", *parts, b"end"]) + b"\0")
    return path


def test_the_trees_of_mpich_are_changed_for_all_of_them(mpich: Path) -> None:
    """And stay as they were for every other operation, number of ranks and size."""
    words = {"linear": "linear", "ring": "ring"}
    some = [
        Chosen("bcast", 4, {8: "linear"}, words, (5, 0, 2), mpich),
        Chosen("allreduce", 4, {8: "", 64: "ring"}, words, (5, 0, 2), mpich),
        Chosen("allreduce", 2, {8: "ring"}, words, (5, 0, 2), mpich),
        Chosen("allreduce", 3, {8: "linear"}, words, (5, 0, 2), mpich),
    ]
    made = trees.rules(some, FOLDER)
    assert made is not None
    levels = {name: json.loads(text) for name, text in made.files.items()}
    assert set(levels) == {"collective-compositions.json", "collective-algorithms.json"}
    assert set(made.variables.values()) == {f"/tuned/{name}" for name in levels}
    own = trees.own_trees(mpich)["algorithm"]

    def at(operation: str, ranks: int, size: int) -> str:
        end = trees.chosen_at(levels["collective-algorithms.json"], operation, ranks, size)
        return "own" if end == trees.chosen_at(own, operation, ranks, size) else end.rpartition("_")[2]

    assert {ranks: at("allreduce", ranks, 8) for ranks in range(1, 6)} == {
        1: "own", 2: "ring", 3: "linear", 4: "own", 5: "own",
    }  # fmt: skip
    assert [at("allreduce", 4, size) for size in (64, 4096)] == ["ring", "own"]
    assert [at("bcast", ranks, 8) for ranks in (2, 3, 4, 5)] == ["own", "own", "linear", "own"]


def test_what_chooses_nothing_is_not_in_the_rules_and_changes_no_names() -> None:
    none = [chosen("allreduce", 2, {8: ""}), chosen("bcast", 4, {8: "6"})]
    made = rules.rules(none, FOLDER)
    assert made is not None
    ((name, text),) = made.files.items()
    assert name == "collective-rules.conf"
    assert classic_choice(text, ALLREDUCE, 2, 8) is None
    assert classic_choice(text, BCAST, 4, 8) == 6


# ------------------------------------------------------------------------------------------------------------ searches


@dataclass(frozen=True)
class Answering(Library):
    """Open MPI, with two algorithms for every operation."""

    def ask(
        self, variables: Sequence[str], set_: Mapping[str, str] | None = None
    ) -> dict[str, dict[str, Any]]:
        choices = {word: int(number) for number, word in WORDS.items()}
        return {one: {"value": "0", "choices": choices, "help": ""} for one in variables}

    def read_back(self, variables: Mapping[str, str]) -> dict[str, tuple[str, str]]:
        return {}


class Planned:
    """In place of a session that is only planned."""

    def __init__(self, request: Request) -> None:
        ranks = int(request.settings.get("ranks", 2))
        self.variants, self.notes = list(request.variants), [f"planned for {ranks} ranks"]
        self.answer = {"curves": [{"variant": one, "ranks": ranks} for one in request.variants]}


def truth_of(operation: str, ranks: int, obeyed: bool) -> Truth:
    """Binomial is twice as fast for a broadcast, linear for an allreduce of 4, and nothing for one of 2. `obeyed`: are
    the rules used for an allreduce of 4?
    """
    best = {("bcast", 2): "6", ("bcast", 4): "6", ("allreduce", 4): "1"}.get((operation, ranks))

    def truth(settings: Mapping[str, str], _size: int) -> float:
        given = settings.get("env", "")
        ruled = "dynamic_rules_filename" in given and (obeyed or (operation, ranks) != ("allreduce", 4))
        forced = f"coll_tuned_{operation}_algorithm={best}" in given
        return 5e3 if best and (forced or ruled) else 1e4

    return truth


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Every search has a machine of its own, and all of them one clock."""
    machines: list[Machine] = []
    said: dict[str, Any] = {"obeyed": True, "machines": machines, "tunables": FAMILIES["openmpi"]}
    began_s = time.monotonic()

    def bench(start: Start, what: Goal, base: Request, launched: bool, guard: Guard) -> Machine:
        operation, ranks = what.name.partition("=")[2], int(base.settings.get("ranks", 2))
        machine = Machine(
            start, what, base, launched, guard,
            truth=truth_of(operation, ranks, said["obeyed"]), noise=QUIET, draw=random.Random(len(machines)),
        )  # fmt: skip
        machines.append(machine)
        machine.clock = lambda: began_s + sum(one.now_s for one in machines)
        return machine

    modules = [{"name": "made", "options": [], "launched": False}]
    monkeypatch.setattr(jobs, "Bench", bench)
    monkeypatch.setattr(jobs, "Session", Planned)
    monkeypatch.setattr(jobs, "library", lambda _: Answering("openmpi", said["tunables"], VERSION))
    monkeypatch.setattr(jobs.native, "list_", lambda _: {"modules": modules})
    monkeypatch.setattr(jobs.native, "keys", lambda: {"plan_keys": [{"name": "ranks", "option": "ranks"}]})
    monkeypatch.setattr(jobs, "restore_left", lambda _: None)
    return said


def tuned(
    folder: Path, what: str = "collective=allreduce,bcast", ranks: str = "2,4", seconds: float = 240.0
) -> Job:
    base = Request(["made"], settings={"ranks": ranks} if ranks else {})
    job = Job(base, goal(what), seconds, folder / "tune")
    job.run()
    return job


def test_each_operation_on_each_number_of_ranks_is_searched_and_one_file_has_all(
    made_up: dict[str, Any], tmp_path: Path
) -> None:
    job = tuned(tmp_path)
    asked = [(one.goal, one.ranks, one.best != START) for one in job.outcomes]
    assert asked == [
        ("collective=allreduce", 2, False),
        ("collective=allreduce", 4, True),
        ("collective=bcast", 2, True),
        ("collective=bcast", 4, True),
    ]
    text = (tmp_path / "tune" / "collective-rules.conf").read_text()
    choices = [
        [classic_choice(text, operation, ranks, 8) for ranks in (2, 3, 4, 5)]
        for operation in (ALLREDUCE, BCAST)
    ]
    assert choices == [[None, None, 1, 0], [6, 0, 6, 0]]
    folders = sorted(path.name for path in (tmp_path / "tune").iterdir() if path.is_dir())
    assert folders == ["allreduce-2", "allreduce-4", "bcast-2", "bcast-4"]
    assert all((tmp_path / "tune" / name / "search.jsonl").is_file() for name in folders)


def test_the_proof_of_each_is_about_the_file_with_all(made_up: dict[str, Any], tmp_path: Path) -> None:
    tuned(tmp_path)
    proofs = [
        variants[2]
        for machine in made_up["machines"]
        for variants, _, _ in machine.sessions
        if variants[1:2] == ("made#2",)
    ]
    assert len(proofs) >= 3
    assert all("collective-rules.conf" in variant for variant in proofs)


def test_the_files_are_for_all_of_them(made_up: dict[str, Any], tmp_path: Path) -> None:
    job = tuned(tmp_path)
    folder = tmp_path / "tune"
    names = {path.name for path in job.written["made"]}
    assert {"tuned.toml", "command.txt", "openmpi-mca-params.conf", "collective-rules.conf"} <= names
    text = (folder / "tuned.toml").read_text()
    assert 'ranks = "2,4"' in text
    assert "collective:what=allreduce" in text
    assert "collective:what=bcast" in text
    assert "goal collective=bcast, 4 ranks" in text
    assert (
        f"coll_tuned_dynamic_rules_filename = {folder / 'collective-rules.conf'}"
        in (folder / "openmpi-mca-params.conf").read_text()
    )
    assert "mpirun -n 4 " in (folder / "command.txt").read_text()


def test_each_answer_names_its_ranks_and_the_files_are_named_once(
    made_up: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tuned(tmp_path)
    command_of.show(job, {"as_json": False, "quiet": False})
    said = " ".join(capsys.readouterr().out.split())
    for ranks in (2, 4):
        assert f"(goal collective=bcast, {ranks} ranks), on fresh launches." in said
    assert said.count("Try: netpipe run --config") == 1
    command_of.show(job, {"as_json": True, "quiet": False})
    outcomes = json.loads(capsys.readouterr().out)["outcomes"]
    assert [one["ranks"] for one in outcomes] == [2, 4, 2, 4]


def test_every_operation_of_a_goal_is_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    def patterns(_context: object, _of: object, begun: str) -> list[CompletionItem]:
        assert begun == "collective:what=b"
        return [CompletionItem("collective:what=bcast")]

    monkeypatch.setattr(command_of, "complete_patterns", patterns)
    context = click.Context(command_of.command)
    found = command_of.complete_goals(context, command_of.command.params[0], "collective=allreduce,b")
    assert [one.value for one in found] == ["collective=allreduce,bcast"]


def test_rules_that_gain_nothing_are_taken_out_again(made_up: dict[str, Any], tmp_path: Path) -> None:
    """The search found them, and the proof did not confirm them."""
    made_up["obeyed"] = False
    job = tuned(tmp_path)
    (outcome,) = (one for one in job.outcomes if (one.goal, one.ranks) == ("collective=allreduce", 4))
    assert outcome.best == START
    assert any(note.startswith("the rules had no effect") for note in outcome.notes)
    text = (tmp_path / "tune" / "collective-rules.conf").read_text()
    assert classic_choice(text, ALLREDUCE, 4, 8) is None
    assert classic_choice(text, BCAST, 4, 8) == 6


def test_where_nothing_gains_there_is_no_file(made_up: dict[str, Any], tmp_path: Path) -> None:
    made_up["obeyed"] = False
    job = tuned(tmp_path, "collective=allreduce")
    assert [one.best for one in job.outcomes] == [START, START]
    assert job.written == {}
    assert [path for path in (tmp_path / "tune").iterdir() if path.is_file()] == []


def test_all_searches_together_end_in_time(made_up: dict[str, Any], tmp_path: Path) -> None:
    tuned(tmp_path, seconds=120.0)
    assert sum(machine.now_s for machine in made_up["machines"]) <= 120.0 + GRACE_S


def test_one_number_of_ranks_and_one_operation_need_no_folder_of_their_own(
    made_up: dict[str, Any], tmp_path: Path
) -> None:
    job = tuned(tmp_path, "collective=bcast", "4", 60.0)
    assert (tmp_path / "tune" / "bcast-rules.conf").is_file()
    assert (tmp_path / "tune" / "search.jsonl").is_file()
    assert [one.ranks for one in job.outcomes] == [4]


@pytest.mark.parametrize(
    ("what", "ranks", "tunables", "code", "sentence"),
    [
        (
            "latency",
            "2,4",
            None,
            USAGE,
            "tune for one number of ranks at a time, or with --goal collective=NAME",
        ),
        ("collective=bcast", "2,x", None, USAGE, "write numbers of processes with commas between them"),
        ("collective=bcast,scan", "", None, UNAVAILABLE, "no rules by size and number of ranks for scan"),
        (
            "collective=bcast",
            "2,4",
            FAMILIES["lam"],
            UNAVAILABLE,
            "no rules by size and number of ranks for bcast",
        ),
    ],
)
def test_what_one_file_cannot_hold_is_refused(
    made_up: dict[str, Any],
    tmp_path: Path,
    what: str,
    ranks: str,
    tunables: Tunables | None,
    code: int,
    sentence: str,
) -> None:
    made_up["tunables"] = tunables or made_up["tunables"]
    with pytest.raises(Failure) as failed:
        tuned(tmp_path, what, ranks)
    assert failed.value.exit_code == code
    assert sentence in failed.value.sentence
    assert not (tmp_path / "tune").exists()


def test_each_search_needs_some_time(made_up: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(Failure, match="--time 19 is too short for 4 searches; give 20 s or more"):
        tuned(tmp_path, seconds=19.0)


def test_a_variant_with_a_number_of_ranks_of_its_own_is_refused(
    made_up: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Fixed(Planned):
        def __init__(self, request: Request) -> None:
            super().__init__(request)
            self.answer = {"curves": [{"variant": one, "ranks": 8} for one in request.variants]}

    monkeypatch.setattr(jobs, "Session", Fixed)
    with pytest.raises(Failure, match="made has a number of ranks of its own"):
        tuned(tmp_path, "collective=bcast")


def test_a_goal_with_several_operations_is_one_goal_for_each() -> None:
    assert [one.name for one in goal("collective=bcast,allreduce,bcast").operations] == [
        "collective=bcast",
        "collective=allreduce",
    ]
    assert goal("latency").operations == (goal("latency"),)
    with pytest.raises(Failure, match="--goal collective needs a name"):
        goal("collective=,")
