# SPDX-License-Identifier: Apache-2.0
"""netpipe explain: what it prints, and what experiments come to. e2e/test_explain.py measures."""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
import polars
import pytest
from rich.console import Console
from test_comparing import call

from netpipe.cli import group
from netpipe.cli.run import command as run_command
from netpipe.cli.run import session_of
from netpipe.command import confirming
from netpipe.failure import Failure
from netpipe.findings import (
    MACHINE,
    Confirm,
    Confirmed,
    Finding,
    Quantity,
    examples,
    judge,
    launches_apart,
    rules,
)
from netpipe.findings.curves import broken_guideline, small_buffers, with_setting, without_settings
from netpipe.findings.experiments import outcomes, words
from netpipe.notebook import findings
from netpipe.reading import Reading
from netpipe.reading.estimate import Estimate, unsure
from netpipe.records import Plan, Run, encode
from netpipe.render.evidence import evidence_texts, quantity_text
from netpipe.render.page.page import page
from netpipe.render.terminal.summary import print_summary
from netpipe.session import Session
from pages import Page


def test_a_setting_is_put_into_a_variant_and_taken_out_of_it() -> None:
    assert with_setting("tcp", "nodelay", "yes") == "tcp:nodelay=yes"
    assert with_setting("tcp:wait=poll,nodelay=no", "nodelay", "yes") == "tcp:wait=poll,nodelay=yes"
    assert without_settings("tcp:sndbuf=8k,wait=poll,rcvbuf=8k", "sndbuf", "rcvbuf") == "tcp:wait=poll"
    assert without_settings("tcp:sndbuf=8k", "sndbuf") == "tcp"


def test_an_experiment_is_a_command() -> None:
    confirm = Confirm("tcp:x=a b", "tcp", "stream", [8, 64])
    assert words.command(confirm) == "netpipe run 'tcp:x=a b' tcp --pattern stream --sizes 8,64"


def test_an_experiment_keeps_where_and_how_the_run_was_measured() -> None:
    argv = ["run", "tcp", "--hosts", "a,b", "-qo", "x.jsonl", "--pin=0,1", "--pattern", "stream", "--verify"]
    argv += [
        "mpi",
        "--ranks",
        "4",
        "--launches",
        "3",
        "--budget",
        "60",
        "--launcher-args",
        "--mca x y",
        "-ox.jsonl",
    ]
    kept = ["--hosts", "a,b", "--pin=0,1", "--verify", "--ranks", "4", "--launches", "3"]
    assert words.kept(argv) == [*kept, "--launcher-args", "--mca x y"]
    # Several numbers of ranks are in the names of the variants: mpi:ranks=4.
    assert words.kept(["run", "--ranks", "2,4", "mpi", "-o", "--hosts", "--", "--hosts", "a,b"]) == []
    assert words.kept(["memory", "--hosts", "a,b"]) == words.kept([]) == []
    confirm = Confirm("tcp:nodelay=no", "tcp:nodelay=yes", "pingpong", [8], kept)
    assert words.command(confirm).endswith(f"--sizes 8 {' '.join(kept)}")


def test_the_command_of_an_experiment_is_planned_as_by_netpipe_run() -> None:
    line = [
        "tcp:nodelay=no",
        "tcp:nodelay=yes",
        "--sizes",
        "64",
        "--pin",
        "0,0",
        "--buffers",
        "cold",
        "--budget",
        "2",
    ]
    with click.Context(group, info_name="netpipe").scope():
        session = session_of(line)
        with pytest.raises(Failure):
            session_of(["nonsuch", "tcp", "--sizes", "8"])
        with pytest.raises(click.UsageError):
            session_of(["tcp", "--nonsuch"])
    assert session.variants == ["tcp:nodelay=no", "tcp"]  # a default has no name
    assert (session.plan.sizes, session.plan.placement, session.plan.budget_s) == ([64], "0,0", 2)
    assert session.plan.buffers is not None
    assert session.plan.buffers.policy == "cold"
    assert session.request.launches == 4


def test_every_option_of_a_run_is_kept_by_an_experiment_or_is_not() -> None:
    context = click.Context(run_command, info_name="run")
    options = [one for one in run_command.get_params(context) if isinstance(one, click.Option)]
    names = {one.opts[-1].removeprefix("--"): one.is_flag for one in options}
    del names["help"]
    assert {name for name, flag in names.items() if flag} == words.KEPT_FLAGS | words.LEFT_FLAGS
    assert {name for name, flag in names.items() if not flag} == words.KEPT_VALUES | words.LEFT_VALUES
    letters = {opt[1:]: one.opts[-1][2:] for one in options for opt in one.opts if len(opt) == 2}
    letters.pop("h", None)
    assert letters == words.LETTERS


@pytest.mark.parametrize(
    ("gain", "outcome"),
    [
        (Estimate(1.3, 1.2, 1.4), "confirmed"),
        (Estimate(1.3, 1.01, 1.7), "undecided"),
        (Estimate(1.0, 0.97, 1.03), "withdrawn"),
        (Estimate(0.5, 0.4, 0.6), "withdrawn"),
        (Estimate(1.0, 0.8, 1.3), "undecided"),
        (unsure(3.0), "undecided"),
    ],
)
def test_a_finding_is_confirmed_by_what_is_certain(gain: Estimate, outcome: str) -> None:
    assert outcomes.outcome(gain) == outcome


def test_only_collectives_that_move_the_same_buffer_are_compared() -> None:
    for operation, others in broken_guideline.GUIDELINES.items():
        whole = {"allreduce", "reduce", "bcast"}
        same = broken_guideline.same_size(operation, others)
        assert same == ({operation, *others} <= whole or not {operation, *others} & whole)
    assert broken_guideline.same_size("allreduce", ("reduce", "bcast"))
    assert not broken_guideline.same_size("allgather", ("gather", "bcast"))


def written(made: Run, path: Path, **header: object) -> Path:
    assert made.header is not None
    first = msgspec.structs.replace(made.header, **{"host": socket.gethostname(), "argv": ["run"]} | header)
    path.write_bytes(b"".join(encode(record) for record in (first, *made.body(), made.end) if record))
    return path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    made = small_buffers.fires()
    return written(made, tmp_path / "run.jsonl", argv=["run", "unix", "tcp:sndbuf=8k", "--pin", "0,1", "-q"])


def test_findings_are_explained_with_the_experiment_that_would_confirm_them(run: Path) -> None:
    said = " ".join(call("explain", run).stdout.split())
    assert "! Small socket buffers. tcp:sndbuf=8k reaches" in said
    assert "cause: A buffer that was set switches the kernel's autotuning off" in said
    assert "to confirm: netpipe run tcp:sndbuf=8k tcp --sizes 1048576 --pin 0,1" in said
    assert "1 experiment can be run: netpipe explain --confirm" in said
    assert "rules could not judge this run; netpipe explain --all says why." in said
    (found,) = [
        one for one in json.loads(call("explain", run, "--json").stdout) if one["rule"] == "small-buffers"
    ]
    assert found["confirm"]["remedied"] == "tcp"
    assert "Small socket" not in call("explain", run, "--variant", "unix").stdout


def test_the_evidence_is_said_with_units_and_intervals(run: Path) -> None:
    (found,) = [one for one in small(run) if one.rule == "small-buffers"]
    said = " ".join(call("explain", run).stdout.split())
    assert len(found.evidence) > 1
    texts = [f"{name.replace('_', ' ')} {quantity_text(of)}" for name, of in found.evidence.items()]
    assert f"evidence: {' '.join('; '.join(texts).split())} " in said
    assert quantity_text(Quantity(1020, "ns", 1010, 1030)) == "1.02 µs (1.01 to 1.03 µs)"


def test_evidence_that_is_its_own_unit_is_named_once(tmp_path: Path) -> None:
    run = written(launches_apart.fires(), tmp_path / "run.jsonl")
    said = " ".join(call("explain", run).stdout.split())
    assert "evidence: 3 launches; typical spread 0.200; " in said


def test_of_much_evidence_the_rest_is_a_number() -> None:
    many = {f"curve_{place}": Quantity(place, "points") for place in range(11)}
    assert evidence_texts(many, 2) == (
        ("curve 0", "0 points"),
        ("curve 1", "1 points"),
        ("and", "9 more; netpipe show --json has all"),
    )
    assert len(evidence_texts(many, 11)) == 11


def test_rules_that_could_not_judge_are_grouped_by_their_reason(run: Path) -> None:
    """Each reason is said once, with `--all` alone; rules about the machine are no part of it."""
    judgement = judge(Reading(Run.read(run)))
    of_the_run = [one for one in judgement.skipped if rules()[one.rule].about != MACHINE]
    brief = call("explain", run).stdout
    whole = call("explain", run, "--all").stdout
    assert f"{len(of_the_run)} rules could not judge this run" in brief
    assert f"{len(of_the_run)} rules could not judge this run:" in whole
    listed = " ".join(whole.split())
    for reason in {one.reason for one in of_the_run}:
        assert listed.count(f"- {reason}: ") == 1
        assert reason not in " ".join(brief.split())
    titles = [rules()[one.rule].title for one in of_the_run if one.reason == NO_LIMIT]
    assert len(titles) == 2
    assert f"- {NO_LIMIT}: {', '.join(titles)}" in listed
    assert len(of_the_run) < len(judgement.skipped)


NO_LIMIT = "no layer has a setting for its eager limit"


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (
            Confirmed("confirmed", "tcp", Estimate(2.5, 2.0, 3.0), "", "run.confirm-1.jsonl"),
            "outcome: Confirmed: 2.50 (2.00 to 3.00) times as fast with tcp; run.confirm-1.jsonl.",
        ),
        (
            Confirmed("withdrawn", "tcp", Estimate(1.0, 0.98, 1.02), "", "run.confirm-1.jsonl"),
            "outcome: Withdrawn: 1.00",
        ),
        (
            Confirmed("failed", "tcp", None, "rank 1: the peer has gone", None),
            "outcome: The experiment failed: rank 1: the peer has gone.",
        ),
    ],
)
def test_what_an_experiment_came_to_is_said(
    run: Path, monkeypatch: pytest.MonkeyPatch, outcome: Confirmed, words: str
) -> None:
    asked: list[tuple[str, str]] = []

    def experiment(confirm: Confirm, of: Run, _: object, output: Path, budget: str) -> Confirmed:
        asked.append((output.name, budget))
        assert confirm.variant == "tcp:sndbuf=8k"
        assert of.path == run
        return outcome

    monkeypatch.setattr(confirming, "measure", experiment)
    done = call("explain", run, "--confirm", "--budget", "1")
    assert words in " ".join(done.stdout.split())
    assert asked == [("run.confirm-1.jsonl", "1")]


class Planned:
    """A session that measures nothing: what it is asked for, and an experiment in which tcp takes this share."""

    def __init__(self, plan: Plan, share: float = 0.5) -> None:
        self.plan, self.share = plan, share
        self.asked: list[list[str]] = []

    def __call__(self, line: Sequence[str]) -> Session:
        self.asked.append(list(line))
        return self  # type: ignore[return-value]

    def measure(self, output: Path, *, argv: Sequence[str], confirms: str | None) -> object:
        from netpipe.session import Result

        written(experiment(self.share), output, argv=list(argv), confirms=confirms)
        return Result(Reading(Run.read(output)), 0, output, None)


EXPERIMENT = ["run", "tcp:sndbuf=8k", "tcp", "--sizes", "1048576"]


def experiment(share: float) -> Run:
    """tcp beside tcp:sndbuf=8k: it takes this share of its time."""
    times = {"tcp:sndbuf=8k": 40_000.0, "tcp": 40_000.0 * share}
    points = [
        examples.visited(variant, 1 << 20, ns, launch) for launch in range(4) for variant, ns in times.items()
    ]
    return examples.run(*points, variants=tuple(times))


def test_an_experiment_is_measured_as_the_run_was(run: Path) -> None:
    measured = Run.read(run)
    (found,) = [one for one in judge(Reading(measured)).findings if one.confirm]
    assert found.confirm is not None
    planned = Planned(measured.plans[0])
    output = outcomes.file_of(run, 1)
    came = confirming.measure(found.confirm, measured, planned, output, "2")
    assert planned.asked == [
        ["tcp:sndbuf=8k", "tcp", "--sizes", "1048576", "--pin", "0,1", "--budget", "2"],
    ]
    assert (came.outcome, came.path) == ("confirmed", str(output))
    kept = Run.read(output).header
    assert kept is not None
    assert measured.header is not None
    assert (kept.argv, kept.confirms) == (["run", *planned.asked[0]], measured.header.run)


def test_what_would_be_another_experiment_is_not_measured(run: Path) -> None:
    measured = Run.read(run)
    measured.plans[0] = msgspec.structs.replace(measured.plans[0], placement="auto")
    planned = Planned(msgspec.structs.replace(measured.plans[0], placement="none"))
    came = confirming.measure(Confirm("a", "b", "pingpong", [8]), measured, planned, run, "2")
    assert came.outcome == "failed"
    assert came.reason == "the run was measured with placement auto, and now it would be none"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"host": "elsewhere"}, "it was measured on elsewhere, and this is "),
        ({"argv": ["memory"]}, "it was measured by netpipe memory, not by netpipe run"),
        ({"argv": []}, "it was imported or measured by another program, and does not say how"),
        ({"argv": ["import", "np.out"]}, "it was measured by netpipe import, not by netpipe run"),
    ],
)
def test_experiments_of_a_run_that_cannot_be_repeated_are_refused(
    run: Path, changed: dict[str, object], why: str
) -> None:
    confirming.check(Run.read(run))
    written(small_buffers.fires(), run, **changed)
    done = call("explain", run, "--confirm")
    assert isinstance(done.exception, Failure)
    assert done.exception.sentence.startswith(f"the experiments for {run} cannot be run: {why}")
    assert not list(run.parent.glob("*.confirm-*"))


def tried(share: float, path: Path, **header: object) -> Path:
    return written(experiment(share), path, **{"argv": EXPERIMENT} | header)


def test_the_worker_may_call_the_variants_of_an_experiment_otherwise() -> None:
    made = experiment(0.5)
    assert made.header is not None
    made.header.argv = ["run", "tcp:sndbuf=8192", "tcp:nodelay=yes", "--sizes", "1048576"]
    confirm = Confirm("tcp:sndbuf=8192", "tcp:nodelay=yes", "pingpong", [1 << 20])
    gain = outcomes.gained(Reading(made), confirm)
    assert gain is not None
    assert gain.value == pytest.approx(2.0, rel=0.01)
    turned = Confirm("tcp:nodelay=yes", "tcp:sndbuf=8192", "pingpong", [1 << 20])
    other = Confirm("tcp:sndbuf=8192", "tcp:nodelay=yes", "pingpong", [8])
    assert outcomes.gained(Reading(made), turned) is outcomes.gained(Reading(made), other) is None


def small(run: Path) -> list[Finding]:
    return [one for one in judge(Reading(Run.read(run))).findings if one.rule == "small-buffers"]


def on_terminal(run: Path) -> str:
    stream = io.StringIO()
    print_summary(Console(file=stream, width=200), Reading(Run.read(run)))
    return " ".join(stream.getvalue().split())


def test_a_confirmed_finding_says_so_wherever_it_is_shown(run: Path) -> None:
    assert small(run)[0].outcome is None
    path = tried(0.5, outcomes.file_of(run, 1), confirms="0" * 32)
    run = run.rename(run.with_name("run-of-then.jsonl"))  # as one is when another run takes its name
    (found,) = small(run)
    assert found.outcome is not None
    assert (found.outcome.outcome, found.outcome.path) == ("confirmed", str(path))
    assert found.gain is not None
    assert found.gain.value == pytest.approx(2.0, rel=0.01)
    said = "Confirmed: 2.00"
    assert f"outcome: {said}" in on_terminal(run)
    assert "to confirm" not in on_terminal(run)
    assert said in Page(page(Reading(Run.read(run)))).text
    assert f"outcome: {said}" in " ".join(call("explain", run).stdout.split())
    shown = json.loads(call("show", run, "--json").stdout)
    assert [one["outcome"]["outcome"] for one in shown["findings"] if one["rule"] == "small-buffers"] == [
        "confirmed"
    ]


def test_a_withdrawn_finding_is_left_out_wherever_findings_are_shown(run: Path) -> None:
    tried(1.0, outcomes.file_of(run, 1), confirms="0" * 32)
    assert small(run) == []
    said = "1 finding was withdrawn by its experiment."
    assert said in on_terminal(run)
    assert said in Page(page(Reading(Run.read(run)))).text
    explained = " ".join(call("explain", run).stdout.split())
    assert said in explained
    assert "Small socket buffers" not in explained + on_terminal(run)
    shown = json.loads(call("show", run, "--json").stdout)
    assert [one["rule"] for one in shown["withdrawn"]] == ["small-buffers"]
    # The experiment can be run again, and this one is the latest.
    later = tried(0.5, outcomes.file_of(run, 2), confirms="0" * 32, started="2027-01-01T00:00:00Z")
    assert small(run)[0].outcome is not None
    later.write_text("no run")
    assert small(run) == []


def test_from_python_a_finding_has_what_its_experiment_came_to(run: Path) -> None:
    assert [row["outcome"] for row in rows_of(findings(run))] == [None]
    assert findings(run, "withdrawn").height == 0
    path = tried(0.5, outcomes.file_of(run, 1), confirms="0" * 32)
    (found,) = rows_of(findings(run))
    assert (found["outcome"], found["outcome_path"]) == ("confirmed", str(path))
    assert found["gain"] == pytest.approx(2.0, rel=0.01)
    tried(1.0, path, confirms="0" * 32)
    assert rows_of(findings(run)) == []
    (withdrawn,) = rows_of(findings(run, "withdrawn"))
    assert withdrawn["outcome"] == "withdrawn"
    assert findings(run, "withdrawn").columns == findings(run).columns


def rows_of(found: polars.DataFrame) -> list[dict[str, Any]]:
    return found.filter(polars.col("rule") == "small-buffers").to_dicts()


def test_an_experiment_for_another_run_says_nothing_about_this_one(run: Path) -> None:
    tried(1.0, outcomes.file_of(run, 1), confirms="f" * 32)
    tried(1.0, outcomes.file_of(run, 2))
    assert small(run)[0].outcome is None


def test_a_variant_that_cannot_be_measured_is_an_outcome(run: Path) -> None:
    def refuses(_: Sequence[str]) -> Session:
        raise Failure(3, "there is no module nonsuch")

    came = confirming.measure(Confirm("nonsuch", "x", "pingpong", [8]), Run.read(run), refuses, run, "1")
    assert (came.outcome, came.gain, came.reason) == ("failed", None, "there is no module nonsuch")


def test_explain_of_what_is_no_run_is_a_sentence(tmp_path: Path) -> None:
    done = call("explain", tmp_path / "none.jsonl")
    assert isinstance(done.exception, (Failure, OSError))


def test_every_experiment_of_a_rule_about_curves_is_said_as_a_command() -> None:
    for rule in rules().values():
        for found in judge(Reading(rule.fires())).findings:
            if found.confirm is not None:
                assert found.experiment == words.command(found.confirm)
                assert found.confirm.variant != found.confirm.remedied
