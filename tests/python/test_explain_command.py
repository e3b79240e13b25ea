# SPDX-License-Identifier: Apache-2.0
"""netpipe explain: what it prints, and what experiments come to. e2e/test_explain.py measures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_comparing import call

from netpipe.command import confirming
from netpipe.failure import Failure
from netpipe.findings import Confirm, Confirmed, rules
from netpipe.findings.curves import broken_guideline, command, small_buffers, with_setting, without_settings
from netpipe.reading.estimate import Estimate, unsure
from netpipe.records import Run, encode


def test_a_setting_is_put_into_a_variant_and_taken_out_of_it() -> None:
    assert with_setting("tcp", "nodelay", "yes") == "tcp:nodelay=yes"
    assert with_setting("tcp:wait=poll,nodelay=no", "nodelay", "yes") == "tcp:wait=poll,nodelay=yes"
    assert without_settings("tcp:sndbuf=8k,wait=poll,rcvbuf=8k", "sndbuf", "rcvbuf") == "tcp:wait=poll"
    assert without_settings("tcp:sndbuf=8k", "sndbuf") == "tcp"


def test_an_experiment_is_a_command() -> None:
    confirm = Confirm("tcp:x=a b", "tcp", "stream", [8, 64])
    assert command(confirm) == "netpipe run 'tcp:x=a b' tcp --pattern stream --sizes 8,64"


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
    assert confirming.outcome(gain) == outcome


def test_only_collectives_that_move_the_same_buffer_are_compared() -> None:
    for operation, others in broken_guideline.GUIDELINES.items():
        whole = {"allreduce", "reduce", "bcast"}
        same = broken_guideline.same_size(operation, others)
        assert same == ({operation, *others} <= whole or not {operation, *others} & whole)
    assert broken_guideline.same_size("allreduce", ("reduce", "bcast"))
    assert not broken_guideline.same_size("allgather", ("gather", "bcast"))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "run.jsonl"
    made: Run = small_buffers.fires()
    path.write_bytes(b"".join(encode(record) for record in (made.header, *made.body(), made.end) if record))
    return path


def test_findings_are_explained_with_the_experiment_that_would_confirm_them(run: Path) -> None:
    said = " ".join(call("explain", run).stdout.split())
    assert "! Small socket buffers. tcp:sndbuf=8k reaches" in said
    assert "cause: A buffer that was set switches the kernel's autotuning off" in said
    assert "to confirm: netpipe run tcp:sndbuf=8k tcp --sizes 1048576" in said
    assert "1 experiment can be run: netpipe explain --confirm" in said
    (found,) = [
        one for one in json.loads(call("explain", run, "--json").stdout) if one["rule"] == "small-buffers"
    ]
    assert found["confirm"]["remedied"] == "tcp"
    assert "Small socket" not in call("explain", run, "--variant", "unix").stdout


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

    def experiment(confirm: Confirm, output: Path, budget: str) -> Confirmed:
        asked.append((output.name, budget))
        assert confirm.variant == "tcp:sndbuf=8k"
        return outcome

    monkeypatch.setattr(confirming, "run", experiment)
    done = call("explain", run, "--confirm", "--budget", "1")
    assert words in " ".join(done.stdout.split())
    assert asked == [("run.confirm-1.jsonl", "1")]


def test_a_variant_that_cannot_be_measured_is_an_outcome(tmp_path: Path) -> None:
    found = confirming.run(Confirm("nonsuch", "nonsuch:x=1", "pingpong", [8]), tmp_path / "x.jsonl", "1")
    assert (found.outcome, found.gain) == ("failed", None)
    assert found.reason


def test_explain_of_what_is_no_run_is_a_sentence(tmp_path: Path) -> None:
    done = call("explain", tmp_path / "none.jsonl")
    assert isinstance(done.exception, (Failure, OSError))


def test_every_rule_about_curves_that_has_an_experiment_says_it_as_a_command() -> None:
    from netpipe.findings import judge
    from netpipe.reading import Reading

    for rule in rules().values():
        for found in judge(Reading(rule.fires())).findings:
            if found.confirm is not None:
                assert found.experiment == command(found.confirm)
                assert found.confirm.variant != found.confirm.remedied
