# SPDX-License-Identifier: Apache-2.0
"""A suite as an array of jobs: a task for each run, and one report of all of them."""

from __future__ import annotations

import shlex
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from netpipe.cli.suite.batch import scripts
from netpipe.failure import Failure

if TYPE_CHECKING:
    from conftest import Netpipe

TWO = """summary = "Two"
source = "this test"
[[run]]
name = "one"
variants = ["tcp"]
sizes = "8"
launches = 1
[[run]]
name = "other"
variants = ["shm"]
sizes = "8,64"
launches = 1
[[table]]
title = "First"
run = "one"
[[table]]
title = "Second"
run = "other"
"""
SLURM = ("--scheduler", "slurm", "--minutes", "20", "--array")


@pytest.fixture
def suite(fake: Path) -> Path:
    path = Path("mine.toml")
    path.write_text(TWO)
    return path


def words_of(script: Path, tools: Path, **variables: str) -> list[str]:
    """What the script calls netpipe with."""
    tools.mkdir(exist_ok=True)
    tool = tools / "netpipe"
    tool.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    tool.chmod(0o755)
    text = script.read_text()
    python = shlex.split(next(line for line in text.splitlines() if line.startswith("exec ")))[1]
    script.write_text(text.replace(f"exec {shlex.quote(python)}", f"exec {shlex.quote(str(tool))}"))
    done = subprocess.run(
        ["sh", str(script)], env={"PATH": "/usr/bin:/bin", **variables}, capture_output=True, text=True,
        timeout=20, check=True,
    )  # fmt: skip
    return done.stdout.splitlines()


def test_each_task_of_the_array_measures_one_run(netpipe: Netpipe, suite: Path, tmp_path: Path) -> None:
    said = netpipe("suite", "submit", "./mine.toml", *SLURM)
    assert said.code == 0
    assert "mine.slurm.sh: 2 tasks of 20 minutes; submit it, and mine.slurm.report.sh after it" in said.out
    script = Path("mine.slurm.sh")
    header = script.read_text().splitlines()
    assert "#SBATCH --array=0-1" in header
    assert "#SBATCH --nodes=1" in header
    assert "#SBATCH --output=mine-%A-%a.log" in header
    for task, name in enumerate(("one", "other")):
        words = words_of(script, tmp_path / "tools", SLURM_ARRAY_TASK_ID=str(task))
        assert words[-2:] == ["--run", name]
        assert words[words.index("--output") + 1] == str(Path("mine").absolute())


def test_the_report_is_a_job_that_measures_nothing(netpipe: Netpipe, suite: Path, tmp_path: Path) -> None:
    netpipe("suite", "submit", "./mine.toml", *SLURM, "--option", "--partition=short")
    script = Path("mine.slurm.report.sh")
    header = script.read_text().splitlines()
    assert not any("--array" in line for line in header)
    assert "#SBATCH --job-name=netpipe-mine-report" in header
    assert "#SBATCH --partition=short" in header
    assert words_of(script, tmp_path / "tools")[-1] == "--gather"


def test_the_report_is_submitted_after_the_array(
    netpipe: Netpipe, suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = tmp_path / "asked"
    tool = tmp_path / "sbatch"
    tool.write_text(f'#!/bin/sh\necho "$@" >> {asked}\necho Submitted batch job 7\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert netpipe("suite", "submit", "./mine.toml", *SLURM, "--now").code == 0
    assert asked.read_text().splitlines() == [
        "mine.slurm.sh",
        "--dependency=afterany:7 mine.slurm.report.sh",
    ]


def test_a_scheduler_that_says_no_number_is_an_error() -> None:
    assert scripts.number_of("Submitted batch job 41 on cluster c", Path("x.sh")) == "41"
    with pytest.raises(Failure, match=r"sbatch did not say the number of the job of x\.sh: hello"):
        scripts.number_of("hello", Path("x.sh"))


@pytest.mark.parametrize("words", [("--scheduler", "pbs"), ("--scheduler", "slurm", "--nodes", "2")])
def test_arrays_are_for_slurm_and_one_host(netpipe: Netpipe, suite: Path, words: tuple[str, ...]) -> None:
    said = netpipe("suite", "submit", "./mine.toml", *words, "--minutes", "20", "--array")
    assert (said.code, said.out) == (2, "")
    assert "--array is for Slurm, and for suites on one host" in said.err
    assert not list(Path().glob("mine.*.sh"))


def test_the_time_of_a_task_is_that_of_the_longest_run(netpipe: Netpipe, suite: Path) -> None:
    text = TWO.replace('sizes = "8"', 'sizes = "8"\nbudget = 600')
    suite.write_text(text.replace('sizes = "8,64"', 'sizes = "8,64"\nbudget = 1200'))
    netpipe("suite", "submit", "./mine.toml", "--scheduler", "slurm", "--script", "all.sh")
    netpipe("suite", "submit", "./mine.toml", "--scheduler", "slurm", "--array", "--script", "array.sh")
    times = [
        next(line for line in Path(name).read_text().splitlines() if "--time=" in line)
        for name in ("all.sh", "array.sh")
    ]
    assert times[1] < times[0]


# ------------------------------------------------------------------------------------------------- --run and --gather


def measured_on(host: str, monkeypatch: pytest.MonkeyPatch, netpipe: Netpipe, name: str) -> Any:
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    return netpipe("suite", "run", "./mine.toml", "--run", name)


def test_runs_of_several_hosts_make_one_report(
    netpipe: Netpipe, suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert measured_on("node1", monkeypatch, netpipe, "one").code == 0
    assert sorted(path.name for path in Path("mine").iterdir()) == ["one.jsonl", "suite.json"]
    assert measured_on("node2", monkeypatch, netpipe, "other").code == 0
    before = {path: path.read_bytes() for path in Path("mine").glob("*.jsonl")}
    assert len(before) == 2
    monkeypatch.setattr(socket, "gethostname", lambda: "login")
    said = netpipe("suite", "run", "./mine.toml", "--gather")
    assert said.code == 0, said.err
    assert {path: path.read_bytes() for path in Path("mine").glob("*.jsonl")} == before
    assert {"first.csv", "second.csv", "report.html"} <= {path.name for path in Path("mine").iterdir()}


def test_what_is_missing_is_named_in_the_report(
    netpipe: Netpipe, suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured_on("node1", monkeypatch, netpipe, "one")
    said = netpipe("suite", "run", "./mine.toml", "--gather")
    assert said.code == 4
    assert "run other: not measured: it is not complete in mine" in " ".join(said.out.split())
    assert Path("mine/first.csv").is_file()
    assert not Path("mine/second.csv").exists()


def test_a_run_that_is_complete_is_not_measured_again(
    netpipe: Netpipe, suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured_on("node1", monkeypatch, netpipe, "one")
    before = Path("mine/one.jsonl").read_bytes()
    again = measured_on("node2", monkeypatch, netpipe, "one")
    assert again.code == 0
    assert "run one is complete in mine" in again.err
    assert Path("mine/one.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--run", "three"), "mine has no run 'three'; there are one, other"),
        (("--run", "one", "--gather"), "--run and --gather go with no other"),
        (("--gather",), "mine has no suite.json"),
    ],
)
def test_what_makes_no_sense_is_refused(
    netpipe: Netpipe, suite: Path, words: tuple[str, ...], sentence: str
) -> None:
    said = netpipe("suite", "run", "./mine.toml", *words)
    assert said.code == 2
    assert sentence in said.err


def test_the_folder_of_a_suite_that_changed_is_refused(
    netpipe: Netpipe, suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured_on("node1", monkeypatch, netpipe, "one")
    suite.write_text(TWO.replace('"8,64"', '"8"'))
    for said in (
        measured_on("node2", monkeypatch, netpipe, "other"),
        netpipe("suite", "run", "./mine.toml", "--gather"),
    ):
        assert said.code == 2
        assert "cannot be continued: the suite file (SHA-256) was" in said.err
