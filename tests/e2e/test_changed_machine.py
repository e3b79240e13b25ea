# SPDX-License-Identifier: Apache-2.0
"""What happens to a machine in the middle of a run: it is suspended, its processes are stopped, a processor is taken
away, its clock is read from elsewhere. What was measured before is kept, and nothing becomes a number in silence.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Starter, parse, wait_for_samples
from guests import IN_GUEST
from machines import wait_until

from netpipe.reading.machine.clock_changes import SMALLEST_FACTOR

HERE = Path(__file__).parent
CGROUPS = Path("/sys/fs/cgroup")
usable = sorted(os.sched_getaffinity(0))
several = pytest.mark.skipif(len(usable) < 2, reason="with one processor there is none to be moved to")


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def of(records: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [one for one in records if one["type"] == kind]


def samples_in(path: Path) -> int:
    return path.read_text().count('"type":"sample"')


def stand_still(pids: list[int], seconds: float) -> None:
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in pids:
            os.kill(pid, number)
        if number == signal.SIGSTOP:
            time.sleep(seconds)


# ---------------------------------------------------------------------------------------------------------- stopped


# Longer than its deadline. A stop may also fall between two visits, where it disturbs nothing: so there are several.
def test_a_run_whose_processes_stand_still_goes_on_and_says_so(started: Starter) -> None:
    process, path = started(
        "variant tcp", "schedule list", "sizes 8,64", "budget 1.5", "target 0.001%", "timeout 2"
    )
    wait_for_samples(path, 10)
    for _ in range(5):
        stand_still([process.pid, *children_of(process.pid)], 3)
        if '"type":"pause"' in path.read_text():
            break
        wait_for_samples(path, samples_in(path) + 3)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    records = parse(path.read_text())
    pause, *_ = of(records, "pause")
    assert (pause["variant"], pause["pattern"], pause["cause"]) == ("tcp", "pingpong", "stopped")
    assert pause["size_bytes"] in (8, 64)
    assert 1 <= pause["seconds"] < 60
    assert not of(records, "error")
    assert {one["size_bytes"] for one in of(records, "point")} == {8, 64}
    longest_ns = max(ns for one in of(records, "sample") for ns in (*one["ns"], *one["dropped_ns"]))
    assert longest_ns < 1e9, "a stop became a sample"


# -------------------------------------------------------------------------------------------------------- suspended


@pytest.fixture(scope="module")
def suspended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What makes the clocks of a process tell that the machine was suspended."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("there is no C compiler")
    made = tmp_path_factory.mktemp("suspended") / "suspended.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", made, HERE / "suspended.c"], check=True, timeout=60
    )
    return made


def test_a_suspended_machine_is_said_and_its_visit_does_not_count(
    suspended: Path, started: Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asleep = tmp_path / "asleep"
    monkeypatch.setenv("LD_PRELOAD", str(suspended))
    monkeypatch.setenv("SUSPENDED", str(asleep))
    process, path = started("variant tcp", "schedule list", "sizes 8,64", "budget 2", "target 0.001%")
    wait_for_samples(path, 10)
    asleep.touch()
    wait_until(lambda: '"type":"pause"' in path.read_text(), "nothing was said")
    before = len(of(parse(path.read_text()), "pause"))
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    records = parse(path.read_text())
    pause, *more = of(records, "pause")
    assert before == 1
    assert not more, "it was suspended once"
    assert pause["cause"] == "suspended"
    assert pause["seconds"] == pytest.approx(37, abs=0.1)
    assert {one["size_bytes"] for one in of(records, "point")} == {8, 64}


# ------------------------------------------------------------------------------------------------- processors taken


TARGET = 1e-5  # half width, relative: 0.001 %


def check_what_is_left(records: list[dict[str, Any]], kept: int, rank: int) -> None:
    (error,) = of(records, "error")
    assert error["code"] == 4
    assert f"rank {rank} was placed on processor" in error["message"]
    assert "somebody else changed that" in error["message"]
    samples = [one for one in of(records, "sample") if one["pass"] >= 0]
    assert len(of(records, "sample")) >= kept
    points = of(records, "point")
    assert {one["size_bytes"] for one in points} == {one["size_bytes"] for one in samples if one["ns"]}
    # Times of a few nanoseconds can agree to the last digit; then a size reaches the target before the rank is moved.
    early = [one for one in points if one["half_width"] is not None and one["half_width"] <= TARGET]
    assert {one["stop"] for one in points if one not in early} == {"error"}
    assert {one["stop"] for one in early} <= {"error", "precision"}
    for point in points:
        mine = [one for one in samples if one["size_bytes"] == point["size_bytes"]]
        assert len(point["visits"]["block"]) <= len(mine)
    assert records[-1]["type"] == "launch"


@several
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_is_moved_ends_the_launch_with_what_there_was(started: Starter, rank: int) -> None:
    process, path = started(
        "variant tcp", "schedule list", "sizes 8,64", "budget 30", "target 0.001%", "timeout 5"
    )
    wait_for_samples(path, 60)
    kept = samples_in(path)
    (pid,) = [process.pid] if rank == 0 else children_of(process.pid)
    (own,) = os.sched_getaffinity(pid)
    os.sched_setaffinity(pid, {cpu for cpu in usable if cpu != own})
    _, said = process.communicate(timeout=30)
    assert process.returncode == 4
    assert f"rank {rank} was placed on processor {own} and may now run on " in said
    check_what_is_left(parse(path.read_text()), kept, rank)


# Two ranks that poll on one processor may take longer for a visit than its deadline.
@several
def test_a_rank_that_is_moved_to_another_that_polls_is_said_to_have_moved(started: Starter) -> None:
    process, path = started(
        "variant shm", "schedule list", "sizes 8,64", "budget 30", "target 0.001%", "timeout 0.5"
    )
    wait_for_samples(path, 60)
    kept = samples_in(path)
    (pid,) = children_of(process.pid)
    os.sched_setaffinity(pid, os.sched_getaffinity(process.pid))
    _, said = process.communicate(timeout=30)
    assert process.returncode == 4, said
    check_what_is_left(parse(path.read_text()), kept, 1)


@several
def test_a_rank_that_is_pinned_nowhere_says_when_it_loses_processors(started: Starter) -> None:
    process, path = started(
        "variant tcp",
        "pin none",
        "schedule list",
        "sizes 8,64",
        "budget 30",
        "target 0.001%",
        "timeout 2",
    )
    wait_for_samples(path, 60)
    (pid,) = children_of(process.pid)
    os.sched_setaffinity(pid, usable[:1])
    _, said = process.communicate(timeout=30)
    assert process.returncode == 4
    assert f"may now run on processor {usable[0]}:" in said


def cpusets() -> Path:
    """Where groups with processors of their own can be made, of version 1 or 2. Skips where they cannot."""
    first, second = CGROUPS / "cpuset", CGROUPS / "cgroup.subtree_control"
    if (first / "cpuset.cpus").is_file():
        return first
    if not second.is_file():
        pytest.skip(f"{CGROUPS} has no cpusets")
    if "cpuset" not in second.read_text().split():
        second.write_text("+cpuset")
    return CGROUPS


@pytest.fixture
def cpuset() -> Iterator[Path]:
    """A group of processes whose processors this test decides. This process is in it, and so are those it starts."""
    own = f"{os.getpid()}\n"
    try:
        above = cpusets()
        group = above / f"netpipe-test-{os.getpid()}"
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no cpuset can be made here: {error}")
    try:
        (group / "cpuset.cpus").write_text(",".join(map(str, usable)))
        if (above / "cpuset.mems").is_file():  # of version 1; in version 2 they are those above
            (group / "cpuset.mems").write_text((above / "cpuset.mems").read_text())
        (group / "cgroup.procs").write_text(own)
        yield group
    finally:
        (above / "cgroup.procs").write_text(own)
        os.sched_setaffinity(0, usable)
        wait_until(lambda: not (group / "cgroup.procs").read_text(), "processes were left in the cpuset")
        group.rmdir()


@several
def test_a_processor_that_is_taken_from_the_cpuset_ends_the_launch(cpuset: Path, started: Starter) -> None:
    process, path = started(
        "variant tcp", "schedule list", "sizes 8,64", "budget 30", "target 0.001%", "timeout 5"
    )
    wait_for_samples(path, 60)
    (pid,) = children_of(process.pid)
    (own,) = os.sched_getaffinity(pid)
    kept = samples_in(path)
    (cpuset / "cpuset.cpus").write_text(",".join(str(cpu) for cpu in usable if cpu != own))
    _, said = process.communicate(timeout=30)
    assert process.returncode == 4, said
    check_what_is_left(parse(path.read_text()), kept, 1)


@several
@pytest.mark.deep
def test_the_next_launch_is_placed_anew(tmp_path: Path) -> None:
    words = "run tcp --launches 2 --sizes 8,64 --budget 4 --target 0.001% -o run.jsonl"
    netpipe = subprocess.Popen(
        [sys.executable, "-m", "netpipe", *words.split()],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    path = tmp_path / "run.jsonl"
    try:
        wait_for_samples(path, 60)
        (worker,) = children_of(netpipe.pid)
        (pid,) = children_of(worker)
        (own,) = os.sched_getaffinity(pid)
        os.sched_setaffinity(pid, {cpu for cpu in usable if cpu != own})
        shown, said = netpipe.communicate(timeout=90)
    finally:
        netpipe.kill()
        netpipe.wait(10)
    assert netpipe.returncode == 4, said
    records = parse(path.read_text())
    stops = {(one["launch"], one["stop"]) for one in of(records, "point")}
    assert {launch for launch, stop in stops if stop == "error"} == {0}
    assert {launch for launch, _ in stops} == {0, 1}
    assert "rank 1 was placed on processor" in " ".join(shown.split())


# ----------------------------------------------------------------------------------------------------- another clock


CLOCK = Path("/sys/devices/system/clocksource/clocksource0")


# As when the kernel finds its clock source unstable. Here it is told to take another one, which is a machine's own.
@pytest.mark.skipif(
    not IN_GUEST, reason="it changes the clock of the machine: it needs the guest of tests/guest"
)
def test_samples_are_longer_once_the_clock_takes_longer_to_read(started: Starter) -> None:
    source = CLOCK / "current_clocksource"
    before = source.read_text().strip()
    after = next(one for one in ("hpet", "acpi_pm") if one in (CLOCK / "available_clocksource").read_text())
    assert before == "tsc", "the guest begins with a clock that is read without leaving the processor"
    process, path = started("variant shm", "schedule list", "sizes 8", "budget 300", "target 0.001%")

    def later() -> list[dict[str, Any]]:
        """Samples behind the first yardstick that found the other source. The first two of them find the length."""
        records = parse(path.read_text().rpartition("\n")[0])
        found = next((n for n, one in enumerate(records) if one.get("clock_source") == after), len(records))
        return of(records[found:], "sample")[2:]

    wait_for_samples(path, 10)
    try:
        source.write_text(after)
        wait_until(lambda: len(later()) >= 5, "nothing was measured with the other source", 120)
    finally:
        source.write_text(before)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    records = parse(path.read_text())
    costs_ns = {one["clock_source"]: one["clock_ns"] for one in of(records, "yardstick")}
    assert costs_ns[after] > 3 * costs_ns[before], f"no change that a sample has to follow: {costs_ns}"
    early, late = of(records, "sample")[2:8], later()
    enough_ns = SMALLEST_FACTOR * costs_ns[after]
    assert min(ns for one in late for ns in one["ns"]) >= enough_ns
    if min(ns for one in early for ns in one["ns"]) < enough_ns:
        assert max(one["ops"] for one in early) < min(one["ops"] for one in late)
