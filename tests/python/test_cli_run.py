# SPDX-License-Identifier: Apache-2.0
"""netpipe run: what was asked for is measured, said on the right stream, and kept whatever happens."""

from __future__ import annotations

import io
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from netpipe import cli, run_file, session
from netpipe.records import End, Plan, Record, Run
from netpipe.render.terminal.plan import print_plan

if TYPE_CHECKING:
    from conftest import Netpipe

SMALL = ("--sizes", "8,64k")
ESCAPE = "\x1b["


def test_without_options_all_layers_are_measured(netpipe: Netpipe) -> None:
    said = netpipe("run")
    assert said.code == 0
    run = Run.read("run.jsonl")
    usual = (
        "null",
        "memcpy",
        "shm",
        "shm:wait=block",
        "pipe",
        "unix",
        "unix:wait=poll",
        "tcp",
        "tcp:wait=poll",
    )
    assert [one.variant for one in run.variants] == list(usual), "the lowest layers first"
    assert len(run.points) == len(usual) * 124
    assert run.header is not None
    assert run.header.argv == ["run"]
    assert run.end is not None
    assert (run.end.exit, run.end.reason) == (0, "done")
    for variant in usual:
        assert re.search(rf"^{re.escape(variant)} .* [\d.]+ %$", said.out, re.MULTILINE)
    assert "tcp (TCP/IP) adds the most latency" in said.out
    assert "1116 points are in run.jsonl" in said.out


def test_options_reach_the_worker_as_they_were_written(netpipe: Netpipe) -> None:
    said = netpipe(
        *(
            "run",
            "tcp:wait=poll",
            "shm",
            "--pattern",
            "stream",
            "--pattern",
            "pingpong",
            "--schedule",
            "powers",
        ),
        *(
            "--start",
            "16",
            "--end",
            "64k",
            "--target",
            "2%",
            "--budget",
            "0.5",
            "--seed",
            "7",
            "--buffers",
            "cold",
        ),
        *("--send-offset", "1", "--recv-offset", "2", "--timeout", "3", "--verify", "--launches", "2"),
    )
    assert said.code == 0
    run = Run.read("run.jsonl")
    plan = run.plans[0]
    assert [one.variant for one in plan.variants] == ["tcp:wait=poll", "shm"]
    assert plan.patterns == ["stream", "pingpong"]
    assert plan.schedule is not None
    assert (plan.schedule.kind, plan.schedule.start_bytes, plan.schedule.end_bytes) == ("powers", 16, 65536)
    assert plan.buffers is not None
    assert (plan.buffers.policy, plan.buffers.send_offset_bytes, plan.buffers.recv_offset_bytes) == (
        "cold",
        1,
        2,
    )
    assert (plan.target, plan.budget_s, plan.seed, plan.timeout_s, plan.verify) == (0.02, 0.5, 7, 3, True)
    assert [one.launch for one in run.launches] == [0, 1]


def test_a_preset_gives_way_to_what_is_said(netpipe: Netpipe) -> None:
    netpipe("run", "tcp", "--preset", "thorough", *SMALL, "--budget", "9")
    run = Run.read("run.jsonl")
    assert len(run.launches) == 6
    assert (run.plans[0].target, run.plans[0].budget_s) == (0.005, 9)


# ------------------------------------------------------------------------------------------------ three sources


def test_command_line_before_environment_before_file(
    netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("netpipe.toml").write_text(
        '[run]\ntarget = "3%"\nbudget = 1.5\nseed = 5\nvariants = ["tcp"]\nsizes = "8"\n'
    )
    monkeypatch.setenv("NETPIPE_RUN_TARGET", "4%")
    monkeypatch.setenv("NETPIPE_RUN_SEED", "6")
    said = netpipe("run", "--seed", "7")
    assert said.code == 0, said.err
    plan = Run.read("run.jsonl").plans[0]
    assert (plan.budget_s, plan.target, plan.seed) == (1.5, 0.04, 7)
    assert [one.variant for one in plan.variants] == ["tcp"]
    assert "options from netpipe.toml in this folder" in said.err


def test_lists_come_from_the_environment_too(netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETPIPE_RUN_VARIANTS", "tcp shm")
    monkeypatch.setenv("NETPIPE_RUN_PATTERN", "stream pingpong")
    monkeypatch.setenv("NETPIPE_RUN_SIZES", "8")
    monkeypatch.setenv("NETPIPE_RUN_VERIFY", "1")
    assert netpipe("run").code == 0
    plan = Run.read("run.jsonl").plans[0]
    assert [one.variant for one in plan.variants] == ["tcp", "shm"]
    assert plan.patterns == ["stream", "pingpong"]
    assert plan.verify is True


@pytest.mark.parametrize("place", ["before", "behind"])
def test_the_file_can_be_named(netpipe: Netpipe, place: str) -> None:
    Path("mine.toml").write_text('[run]\nvariants = ["shm"]\nsizes = "8"\npattern = "stream"\nquiet = true\n')
    arguments = ("--config", "mine.toml", "run") if place == "before" else ("run", "--config", "mine.toml")
    said = netpipe(*arguments)
    assert (said.code, said.out, said.err) == (0, "", "")
    plan = Run.read("run.jsonl").plans[0]
    assert ([one.variant for one in plan.variants], plan.patterns) == (["shm"], ["stream"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[run]\ntraget = "1%"\n', "[run] has an unknown key 'traget'; did you mean 'target'?"),
        ("[rum]\n", "there is no command 'rum'; did you mean 'run'?"),
        ("run = 3\n", "'run' is not a table; write [run]"),
        ("[run]\ntarget = [1, 2]\n", "[run] target must be one value"),
        ("[run\n", "is not valid TOML"),
        ("[run]\nlaunches = 0\n", "invalid value for '--launches'"),
        ('[run]\npreset = "fast"\n', "invalid value for '--preset'"),
    ],
)
def test_a_wrong_file_is_a_sentence(netpipe: Netpipe, text: str, says: str) -> None:
    Path("netpipe.toml").write_text(text)
    said = netpipe("run", "tcp")
    assert said.code == 2
    assert says in said.err
    assert not Path("run.jsonl").exists()


def test_tables_of_two_commands_do_not_mix(netpipe: Netpipe) -> None:
    Path("netpipe.toml").write_text(
        '[memory]\ntimeout = 5\nranks = "2"\n[run]\nvariants = ["tcp"]\nsizes = "8"\ntarget = "3%"\nranks = 2\n'
    )
    said = netpipe("run")
    assert said.code == 0, said.err
    assert Run.read("run.jsonl").plans[0].target == 0.03
    Path("netpipe.toml").write_text('[memory]\ntarget = "3%"\n')
    said = netpipe("run", "tcp")
    assert said.code == 2
    assert "[memory] has an unknown key 'target'" in said.err


def test_a_missing_file_is_a_sentence(netpipe: Netpipe) -> None:
    said = netpipe("--config", "gone.toml", "run")
    assert (said.code, said.err) == (
        2,
        "netpipe: the configuration gone.toml cannot be read: No such file or directory\n",
    )


# -------------------------------------------------------------------------------------------------- wrong input


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("run", "tpc"), "there is no module 'tpc'"),
        (("run", "tcp:wiat=poll"), "module tcp has no option 'wiat'"),
        (("run", "--pattern", "pingpang"), "there is no pattern 'pingpang'"),
        (("run", "--sizes", "8Q"), "'8Q' is not a size"),
        (("run", "--sizes", "-1"), "'-1' is not a size"),
        (("run", "--start", "2k", "--end", "1k"), "below its start"),
        (("run", "--target", "much"), "'much' is not a number"),
        (("run", "--traget", "1%"), "no such option"),
        (("run", "--launches", "0"), "invalid value for '--launches'"),
        (("run", "--host", "a\nb"), "the value of host must be one line"),
        (("run", "--host", ""), "the value of host must be one line and not empty"),
        (("rum",), "there is no command 'rum'; did you mean 'run'?"),
    ],
)
def test_wrong_input_is_one_sentence_and_nothing_is_written(
    netpipe: Netpipe, arguments: tuple[str, ...], says: str
) -> None:
    said = netpipe(*arguments)
    assert said.code == 2
    assert says in said.err
    assert said.err.startswith("netpipe: ")
    assert said.err.count("\n") == 1
    assert said.out == ""
    assert not Path("run.jsonl").exists()


def test_without_a_worker_it_says_how_to_get_one(netpipe: Netpipe, fake: Path) -> None:
    fake.unlink()
    said = netpipe("run", "tcp")
    assert said.code == 3
    assert said.err.startswith("netpipe: there is no netpipe-worker in ")


# ------------------------------------------------------------------------------------------------- what is said


def test_dry_run_shows_the_plan_and_its_time(netpipe: Netpipe) -> None:
    said = netpipe("run", "tcp", "shm:wait=poll", "null", "--dry-run", "--launches", "3", "--budget", "10")
    assert said.code == 0
    for line in ("tcp +pingpong +2 +124", "shm:wait=poll +pingpong +2 +124", "null +pingpong +1 +124"):
        assert re.search(rf"^{line}", said.out, re.MULTILINE)
    assert re.search(r"^tcp +sndbuf=0 wait=block", said.out, re.MULTILINE)
    assert re.search(r"^shm:wait=poll +wait=poll", said.out, re.MULTILINE)
    assert re.search(
        r"^time +about 90 s of measuring in 3 launches, and starting the ranks;\n"
        r" +less where the target is reached sooner, more for the first visits of slow sizes$",
        said.out,
        re.MULTILINE,
    )
    assert not Path("run.jsonl").exists()


def test_a_dry_run_ends_as_a_run_that_measures_nothing(netpipe: Netpipe) -> None:
    for more in ((), ("--json",)):
        said = netpipe("run", "tcp", "--dry-run", *more, fake="foreseen=tcp")
        assert (said.code, said.err) == (3, "netpipe: nothing could be measured: it has no sends\n")
        assert "it has no sends" in said.out, "the plan is shown all the same"
        assert "at most" not in said.out
    assert netpipe("run", "tcp", "shm", "--dry-run", fake="foreseen=tcp").code == 0, "something is measured"


@pytest.mark.gate
def test_a_dry_run_refuses_an_output_that_a_run_refuses(netpipe: Netpipe, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text("[1]\n")
    (tmp_path / "folder").mkdir()
    for output in ("absent/x.jsonl", "other.json", "folder"):
        words = ("run", "null", "--sizes", "8", "-o", str(tmp_path / output))
        said = netpipe(*words, "--dry-run")
        assert said.code == 2, output
        assert said.err == netpipe(*words).err, "the same sentence"
    assert {one.name for one in tmp_path.iterdir()} >= {"other.json", "folder"}
    for output in ("-", "/dev/null", str(tmp_path / "new.jsonl")):
        assert netpipe("run", "null", "--dry-run", "-o", output).code == 0, output
    assert other.read_text() == "[1]\n"
    assert not list(tmp_path.glob("new.jsonl*"))


@pytest.mark.parametrize(
    ("placement", "pin", "says"),
    [
        ("auto", [], "chosen automatically"),
        (None, [], "chosen automatically"),
        ("none", [], "not pinned"),
        ("cache", [], "two processors: cache"),
        ("0,1", [0, 1], "0 1"),
    ],
)
def test_dry_run_says_how_ranks_are_pinned(placement: str | None, pin: list[int], says: str) -> None:
    out = io.StringIO()
    plan = Plan(variants=[], target=0.01, confidence=0.95, placement=placement, pin=pin)
    print_plan(Console(file=out, width=100), plan, {"expected_s": 1.0}, 1)
    assert re.search(rf"^pin +{says}$", out.getvalue(), re.MULTILINE), out.getvalue()


def test_a_list_of_ranks_is_refused_when_nothing_takes_it(netpipe: Netpipe) -> None:
    said = netpipe("run", "memcpy", "--ranks", "2,4")
    assert said.code == 2
    assert said.err.startswith("netpipe: --ranks 2,4: memcpy cannot have these ranks, because it stays in")


def test_dry_run_as_json(netpipe: Netpipe) -> None:
    answer = json.loads(netpipe("run", "tcp", "--dry-run", "--json").out)
    assert (answer["expected_s"], answer["launches"], len(answer["sizes"])) == (3, 1, 124)


def test_json_is_the_run_file_on_standard_output(netpipe: Netpipe) -> None:
    said = netpipe("run", "tcp", *SMALL, "--json")
    assert said.out == Path("run.jsonl").read_text()
    assert json.loads(said.out.splitlines()[-1])["type"] == "end"
    assert re.search(r"^tcp .* [\d.]+ %$", said.err, re.MULTILINE)  # people are told elsewhere


@pytest.mark.gate
def test_output_to_standard_output_is_the_records_and_no_file(netpipe: Netpipe) -> None:
    said = netpipe("run", "tcp", *SMALL, "-o", "-")
    assert said.code == 0
    records = [json.loads(line)["type"] for line in said.out.splitlines()]
    assert (records[0], records[-1], records.count("point")) == ("run", "end", 2)
    assert re.search(r"^tcp .* [\d.]+ %$", said.err, re.MULTILINE)
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("option", ["--launcher", "--launcher-args", "--remote-shell"])
def test_an_option_of_launchers_that_has_no_effect_is_named(netpipe: Netpipe, option: str) -> None:
    said = netpipe("run", "tcp", *SMALL, option, "ssh")
    assert said.code == 0
    assert f"netpipe: {option} has no effect: these variants are forked on this host" in said.err


def test_the_report_needs_no_run_file(netpipe: Netpipe) -> None:
    assert netpipe("run", "tcp", *SMALL, "-o", "-", "-q", "--report", "report.html").code == 0
    assert [path.name for path in Path().iterdir()] == ["report.html"]
    assert "<html" in Path("report.html").read_text()


def test_one_is_not_called_several(netpipe: Netpipe) -> None:
    said = netpipe("run", "tcp", "--sizes", "8")
    assert said.err.startswith("netpipe: 1 variant, 1 point, about 3.0 s\n")
    assert "1 point is in run.jsonl" in said.out


def test_the_end_counts_settled_points_as_the_progress_does(netpipe: Netpipe) -> None:
    said = netpipe("run", "tcp", fake="noisy passes=1")
    settled = sum(point.converged is True for point in Run.read("run.jsonl").points)
    assert 0 < settled < 124
    assert f"124 points: 124 sampled, {settled} settled" in said.err
    typical = r"half of their intervals within ±[\d.]+ %, are in run.jsonl"
    assert re.search(rf"^124 points, {settled} of them settled, {typical}", said.out, re.MULTILINE)


def test_the_end_of_several_launches_says_how_wide_their_intervals_are(netpipe: Netpipe) -> None:
    said = netpipe("run", "tcp", *SMALL, "--launches", "3", fake="noisy")
    assert len(Run.read("run.jsonl").points) == 6
    # The fake worker records no visits, so the interval is that of all launches.
    assert re.search(
        r"^2 points of 3 launches, half of their intervals within ±[\d.]+ %, are in run.jsonl;",
        said.out,
        re.MULTILINE,
    )


def test_quiet_says_nothing(netpipe: Netpipe) -> None:
    assert netpipe("run", "tcp", *SMALL, "--quiet").out == ""
    said = netpipe("run", "tcp", *SMALL, "-q")
    assert (said.code, said.out, said.err) == (0, "", "")


def test_quiet_still_says_what_went_wrong(netpipe: Netpipe) -> None:
    said = netpipe("run", "tcp", *SMALL, "--quiet", fake="blame=tcp")
    assert (said.code, said.out, said.err) == (4, "", "netpipe: tcp: rank 1 on fake has gone\n")


def test_without_a_terminal_progress_is_plain_lines(netpipe: Netpipe) -> None:
    said = netpipe("run", "tcp", "shm", *SMALL)
    assert ESCAPE not in said.out + said.err
    lines = said.err.splitlines()
    assert lines[0] == "netpipe: 2 variants, 4 points, about 6.0 s"
    assert re.fullmatch(r"netpipe: [\d.]+ of about [\d.]+ s, 4 points: 4 sampled, \d settled", lines[1])
    assert len(lines) == 2  # four passes in no time at all are one line


def test_each_launch_says_its_number(netpipe: Netpipe) -> None:
    lines = netpipe("run", "tcp", *SMALL, "--launches", "2").err.splitlines()
    assert [line.partition(", about")[0] for line in lines if "variant" in line] == [
        "netpipe: 1st of 2 launches: 1 variant, 2 points",
        "netpipe: 2nd of 2 launches: 1 variant, 2 points",
    ]


@pytest.mark.parametrize(("variable", "colours"), [("FORCE_COLOR", True), ("NO_COLOR", False)])
def test_colour_is_the_users_choice(
    netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch, variable: str, colours: bool
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv(variable, "1")
    assert (f"{ESCAPE}1" in netpipe("run", "tcp", *SMALL).out) is colours


def test_strict_fails_where_points_are_not_within_the_target(netpipe: Netpipe) -> None:
    loose = netpipe("run", "tcp", "--strict", fake="noisy")
    assert loose.code == 5
    assert re.search(
        r"\d+ of 124 points are not within the target of ±1.0 %; the widest is tcp at .*, ±.*; give more --budget",
        loose.err,
    )
    run = Run.read("run.jsonl")
    assert run.end is not None
    assert (run.end.exit, run.end.reason) == (5, "unstable")
    assert netpipe("run", "tcp", "--strict").code == 0


def test_what_to_distrust_is_said(netpipe: Netpipe) -> None:
    out = netpipe("run", "null", "memcpy", "tcp", fake="noisy states").out
    (notes,) = re.findall(r"· More notes in netpipe explain: (.*?)\.\n", " ".join(out.split(" ")), re.DOTALL)
    assert "target missed" in notes
    assert "The machine changed during the run. The cores moved apart: a cache-line bounce went from 5" in out
    assert "harness floor (memcpy)" in " ".join(notes.split())


# ------------------------------------------------------------------------------------------------ what is kept


def test_an_older_run_is_kept(netpipe: Netpipe) -> None:
    netpipe("run", "tcp", *SMALL)
    first = Path("run.jsonl").read_bytes()
    said = netpipe("run", "shm", *SMALL)
    kept = list(Path().glob("run-*.jsonl"))
    assert [path.read_bytes() for path in kept] == [first]
    assert f"the run that was in run.jsonl is now in {kept[0]}" in said.err


def test_a_run_that_was_never_begun_moves_nothing(netpipe: Netpipe, fake: Path) -> None:
    netpipe("run", "tcp", *SMALL)
    before = Path("run.jsonl").read_bytes()
    script = fake.read_text()
    refuses = 'echo "netpipe-worker: the server is busy" >&2; exit 3'
    fake.write_text(script.replace("exec", f'[ "$1" = run ] && {{ {refuses}; }}\nexec'))
    said = netpipe("run", "shm", *SMALL)
    assert (said.code, said.err) == (3, "netpipe: the server is busy\n")
    assert Path("run.jsonl").read_bytes() == before
    assert [path.name for path in Path().iterdir()] == ["run.jsonl"]


def test_a_file_that_is_no_run_is_not_touched(netpipe: Netpipe) -> None:
    Path("notes").write_text("mine\n")
    said = netpipe("run", "tcp", *SMALL, "-o", "notes")
    assert said.code == 2
    assert "it is not overwritten: choose another name with --output" in said.err
    assert Path("notes").read_text() == "mine\n"


def test_a_lost_variant_does_not_lose_the_others(netpipe: Netpipe) -> None:
    said = netpipe("run", "tcp", "shm", "pipe", *SMALL, fake="die=shm")
    assert said.code == 4
    assert "netpipe-worker was killed by SIGKILL (out of memory, or by" in said.err
    assert "now measuring the 3 variants one by one" in said.err
    assert re.search(r"^tcp .* [\d.]+ %$", said.out, re.MULTILINE)
    assert "✗ shm failed: netpipe-worker was killed by SIGKILL (" in said.out
    run = Run.read("run.jsonl")
    assert run.end is not None
    assert (run.end.exit, run.end.reason) == (4, "failed")


def test_a_full_disk_before_the_first_line(netpipe: Netpipe) -> None:
    said = netpipe("run", "tcp", "-o", "/dev/full")
    assert (said.code, said.err) == (4, "netpipe: /dev/full: No space left on device; free some space\n")


def test_a_disk_that_fills_while_the_worker_writes(netpipe: Netpipe) -> None:
    said = netpipe("run", "tcp", *SMALL, fake="full")
    assert said.code == 4
    assert "No space left on device; what was measured so far is kept, free some space" in said.err
    run = Run.read("run.jsonl")
    assert run.samples
    assert [error.message.partition(": ")[2] for error in run.errors] == [
        "No space left on device; what was measured so far is kept, free some space"
    ]


def test_a_disk_that_fills_before_the_last_line(netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit on the size of a file stands in for a disk: the last line of this side meets it."""
    append = run_file.append

    def fill(file: int, record: Record) -> None:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        if isinstance(record, End):
            resource.setrlimit(resource.RLIMIT_FSIZE, (os.fstat(file).st_size, before[1]))
        try:
            append(file, record)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    monkeypatch.setattr(run_file, "append", fill)
    said = netpipe("run", "tcp", *SMALL)
    assert said.code == 4
    assert "netpipe: run.jsonl: File too large; what was measured so far is kept, free some space" in said.err
    run = Run.read("run.jsonl")
    assert len(run.points) == 2
    assert run.end is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_is_a_valid_shorter_one(fake: Path, number: signal.Signals) -> None:
    environment = {**os.environ, "FAKE_WORKER": "pass_s=0.1 passes=1000"}
    arguments = [sys.executable, "-m", "netpipe", "run", "tcp", "shm", *SMALL]
    process = subprocess.Popen(
        arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 30
    while b'"sample"' not in (Path("run.jsonl").read_bytes() if Path("run.jsonl").exists() else b""):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "netpipe: interrupted; what was measured until then is in run.jsonl" in err
    assert "The run was interrupted; what was measured until then is here." in out
    run = Run.read("run.jsonl")
    assert run.points
    assert run.end is not None
    assert (run.end.exit, run.end.reason) == (130, "interrupted")


def test_the_report_is_made_of_the_run(netpipe: Netpipe) -> None:
    assert netpipe("run", "tcp", "shm", *SMALL, "--report", "report.html").code == 0
    assert "<html" in Path("report.html").read_text()


def test_an_error_of_ours_is_a_sentence_that_names_it(
    netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("a mistake")

    monkeypatch.setattr(session, "_plan", broken)
    said = netpipe("run", "tcp")
    assert said.code == 4
    assert said.err.startswith(
        "netpipe: internal error, please report it: ValueError: a mistake (test_cli_run.py:"
    )
    monkeypatch.setattr("netpipe.cli.sys.flags", SimpleNamespace(dev_mode=True))
    with pytest.raises(ValueError, match="a mistake"):
        cli.call(["run", "tcp"])
