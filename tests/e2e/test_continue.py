# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  (fixtures that are imported and then named as parameters)
"""netpipe run --continue: more launches for a run that is there, of the same plan on the same hosts."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mpi import Mpis
from test_hosts import FAR, QUICK, Site, site  # noqa: F401
from test_two_hosts import two_namespaces  # noqa: F401

from netpipe.findings import judge
from netpipe.reading import Reading
from netpipe.records import Run

WORDS = ("pipe", "unix", "--sizes", "8,1k", "--budget", "0.3", "--launches", "2")


def netpipe(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "netpipe", "run", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("continue")
    done = netpipe(folder, *WORDS)
    assert done.returncode == 0, done.stderr
    assert "% takes about" not in done.stdout, "two launches do not tell how far launches lie apart"
    return folder / "run.jsonl"


@pytest.fixture
def here(measured: Path, tmp_path: Path) -> Path:
    """A copy of a run of two launches."""
    return Path(shutil.copy(measured, tmp_path / "run.jsonl"))


def test_launches_are_added_to_the_run(here: Path) -> None:
    before = here.read_bytes()
    old = Run.read(here)
    done = netpipe(here.parent, "--continue", "run.jsonl")
    assert done.returncode == 0, done.stderr
    assert here.read_bytes().startswith(before), "what was there stays"
    assert [path.name for path in here.parent.iterdir()] == ["run.jsonl"]
    run = Run.read(here)
    assert [(plan.launch, plan.budget_s, plan.launches) for plan in run.plans] == [
        (launch, 0.3, 2) for launch in range(4)
    ]
    assert old.end is not None
    assert run.end is not None
    assert (run.end.exit, run.end.reason) == (0, "done")
    assert (run.end.seconds or 0) > (old.end.seconds or 0)
    for curve in Reading(run).curves:
        assert [point.size_bytes for point in curve.points] == [8, 1024]
        assert all(len(point.by_launch) == 4 for point in curve.points)
    assert "4 points of 4 launches" in done.stdout
    if "half of their intervals wider than" not in done.stdout:
        assert "more: netpipe run --continue run.jsonl --launches " in done.stdout
    # As many launches as are asked for, each as long as those that are there, or with its part of the budget.
    assert netpipe(here.parent, "--continue", "run.jsonl", "--launches", "1", "-q").returncode == 0
    assert netpipe(here.parent, "--continue", "run.jsonl", "--budget", "0.2", "-q").returncode == 0
    assert [(plan.launch, plan.budget_s, plan.launches) for plan in Run.read(here).plans[4:]] == [
        (4, 0.15, 1),
        (5, 0.2, 2),
        (6, 0.2, 2),
    ]


Record = dict[str, Any]


def _set(kind: str, *path: str) -> Callable[[Record, Any], None]:
    def change(record: Record, value: Any) -> None:
        if record["type"] == kind:
            at = record
            for name in path[:-1]:
                at = at[name]
            at[path[-1]] = value

    return change


def _without_visits(record: Record, _: Any) -> None:
    record.pop("visits", None)


@pytest.mark.parametrize(
    ("change", "value", "said"),
    [
        (_set("run", "host"), "node17", "it was measured with host node17, and now it would be "),
        (_set("run", "netpipe"), "0.0.1", "it was measured with netpipe 0.0.1, and now it would be "),
        (
            _set("environment", "facts", "kernel", "release"),
            "5.4",
            "it was measured with kernel.release 5.4, and now it would be ",
        ),
        (
            _set("environment", "facts", "network", "tcp", "congestion_control"),
            "other",
            "it was measured with network.tcp.congestion_control other, and now it would be ",
        ),
        (_set("variant", "version"), "Linux 5.4", "it was measured with the library of pipe Linux 5.4"),
        (_set("plan", "sizes"), [8], "it was measured with sizes 8, and now it would be 8, 1024"),
        (_set("plan", "variants"), [], "it was measured with variants none, and now it would be pipe, unix"),
        (_set("plan", "timeout_s"), 77, "it was measured with timeout_s 77"),
        (_set("run", "argv"), ["memory", "mpi"], "it was measured by netpipe memory, not by netpipe run"),
        (_set("run", "argv"), [], "it was imported or measured by another program"),
        (_without_visits, None, "it was measured by an older netpipe, whose points have no visits"),
    ],
)
def test_what_would_be_measured_differently_is_refused(
    here: Path, change: Callable[[Record, Any], None], value: Any, said: str
) -> None:
    records = [json.loads(line) for line in here.read_text().splitlines()]
    for record in records:
        change(record, value)
    here.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    before = here.read_bytes()
    done = netpipe(here.parent, "--continue", "run.jsonl")
    assert done.returncode == 2
    assert f"netpipe: run.jsonl cannot be continued: {said}" in done.stderr
    assert here.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("tcp",), "leave VARIANT out"),
        (("--sizes", "8"), "leave --sizes out"),
        (("-o", "other.jsonl"), "leave --output out"),
    ],
)
def test_the_plan_is_that_of_the_run(here: Path, words: tuple[str, ...], said: str) -> None:
    done = netpipe(here.parent, "--continue", "run.jsonl", *words)
    assert (done.returncode, done.stderr) == (
        2,
        f"netpipe: --continue repeats the plan of the run; {said}\n",
    )


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello\n")
    assert netpipe(tmp_path, "--continue", "notes.txt").returncode == 2
    assert netpipe(tmp_path, "--continue", "nothing.jsonl").returncode == 2
    assert netpipe(tmp_path, "--continue", "/dev/null").returncode == 2
    assert (tmp_path / "notes.txt").read_text() == "hello\n"


def test_a_run_that_is_still_being_written_is_left_alone(here: Path) -> None:
    with here.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        done = netpipe(here.parent, "--continue", "run.jsonl")
    assert done.returncode == 2
    assert "another run is being written to run.jsonl" in done.stderr


def test_a_run_that_was_cut_off_is_continued_after_its_last_record(here: Path) -> None:
    lines = here.read_bytes().splitlines(keepends=True)
    whole = b"".join(lines[:-4])
    here.write_bytes(whole + lines[-4][:20])
    assert Run.read(here).end is None
    assert netpipe(here.parent, "--continue", "run.jsonl", "-q").returncode == 0
    assert here.read_bytes().startswith(whole + b'{"type":"plan"')
    assert Run.read(here).end is not None


def test_what_a_launch_that_was_cut_off_had_not_done_is_said_when_the_run_went_on(here: Path) -> None:
    lines = here.read_bytes().splitlines(keepends=True)
    records = list(map(json.loads, lines))
    first = next(
        place for place, one in enumerate(records) if (one["type"], one.get("launch")) == ("point", 1)
    )
    here.write_bytes(b"".join(lines[:first]))
    assert netpipe(here.parent, "--continue", "run.jsonl", "--launches", "1", "-q").returncode == 0
    found = judge(Reading(Run.read(here, samples=False))).findings
    (lost,) = [one for one in found if one.rule == "launch-cut-off"]
    assert lost.what.startswith("Launch 1 was cut off before 4 points were done")


def test_a_run_that_is_killed_while_it_is_continued_is_a_valid_shorter_one(here: Path) -> None:
    before = here.read_bytes()
    words = [sys.executable, "-m", "netpipe", "run", "--continue", "run.jsonl", "--launches", "40", "-q"]
    running = subprocess.Popen(words, cwd=here.parent, start_new_session=True)
    deadline = time.monotonic() + 60
    while here.read_bytes().count(b'"type":"point"') < before.count(b'"type":"point"') + 4:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait(timeout=30)
    run = Run.read(here)
    assert run.end is None, "it did not come to its end, although it once had"
    assert here.read_bytes().startswith(before)
    assert len(run.points) >= before.count(b'"type":"point"') + 4
    for _ in range(100):  # the workers end with their connection, and hold the lock until then
        done = netpipe(here.parent, "--continue", "run.jsonl", "--launches", "1", "-q")
        if "is being written" not in done.stderr:
            break
        time.sleep(0.1)
    assert done.returncode == 0, done.stderr
    assert Run.read(here).end is not None


def _inside(namespace: str, *words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["ip", "netns", "exec", namespace, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.deep
@pytest.mark.module("tcp")
def test_a_run_between_hosts_goes_on_until_the_other_host_is_changed(site: Site) -> None:
    path = site.folder / "run.jsonl"
    assert site.run("tcp", *QUICK).code == 0

    def go_on() -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "netpipe", "run", "--continue", "run.jsonl", "-q"]
        return _inside(site.near, *words, folder=site.folder)

    done = go_on()
    assert done.returncode == 0, done.stderr
    run = Run.read(path)
    assert [plan.launch for plan in run.plans] == [0, 1]
    assert [one.ranks[1].host for one in run.variants] == [FAR, FAR]
    (curve,) = Reading(run).curves
    assert all(len(point.by_launch) == 2 for point in curve.points)

    control = "net.ipv4.tcp_congestion_control"
    was = _inside(site.far, "sysctl", "-n", control).stdout.strip()
    others = _inside(site.far, "sysctl", "-n", "net.ipv4.tcp_allowed_congestion_control").stdout.split()
    other = next((one for one in others if one != was), None)
    if other is None:
        pytest.skip("this kernel has one congestion control alone")
    before = path.read_bytes()
    assert _inside(site.far, "sysctl", "-w", f"{control}={other}").returncode == 0
    done = go_on()
    assert done.returncode == 2
    what = f"network.tcp.congestion_control of host {FAR} (rank 1) {was}, and now it would be {other}"
    assert f"netpipe: run.jsonl cannot be continued: it was measured with {what}" in done.stderr
    assert path.read_bytes() == before
    site.sees_nothing_left()
    assert _inside(site.far, "sysctl", "-w", f"{control}={was}").returncode == 0
    assert go_on().returncode == 0
    assert [plan.launch for plan in Run.read(path).plans] == [0, 1, 2]


@pytest.mark.deep
def test_a_run_of_an_mpi_goes_on_unless_its_ranks_were_elsewhere(with_mpis: Mpis, tmp_path: Path) -> None:
    with_mpis.need("mpich")
    done = netpipe(tmp_path, "mpi@mpich", "pipe", *WORDS[2:])
    assert done.returncode == 0, done.stderr
    done = netpipe(tmp_path, "--continue", "run.jsonl", "--launches", "1")
    assert done.returncode == 0, done.stderr
    path = tmp_path / "run.jsonl"
    run = Run.read(path)
    assert [plan.launch for plan in run.plans] == [0, 1, 2]
    assert len({one.version for one in run.variants if one.variant == "mpi@mpich"}) == 1
    assert all(len(point.by_launch) == 3 for curve in Reading(run).curves for point in curve.points)

    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records:
        if record["type"] == "variant" and record["variant"] == "mpi@mpich":
            record["ranks"][1]["host"] = "node17"
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    before = path.read_bytes()
    done = netpipe(tmp_path, "--continue", "run.jsonl")
    assert done.returncode == 2
    assert "it was measured with the hosts of mpi@mpich " in done.stderr
    assert ", node17, and now it would be " in done.stderr
    assert path.read_bytes() == before
