# SPDX-License-Identifier: Apache-2.0
"""Suites over the real worker: kernels and their messages over an MPI library, fleets of hosts that are this machine,
and the whole suites that come with netpipe at their quick size. `acceptance` is in test_labs.py: it wants hosts.
"""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from machines import open_folder, slurm, wait_until  # noqa: F401
from mpi import Mpis

from netpipe import native

SUITES = Path(__file__).resolve().parents[2] / "python" / "netpipe" / "suites"
# Each with what it leaves open. Addresses of loopback are rails on one host.
PAPERS = {
    "cluster-2002": (),
    "e325-2004": (),
    "capabilities-2003": ("--set", "rails=127.0.0.1+127.0.0.2"),
    "interconnects-2003": (),
}
KERNELS = """summary = "Kernels and their messages"
source = "this test"

[[run]]
name = "kernels"
kind = "apps"
kernels = ["is"]
on = ["mpi@openmpi:transport=shm"]
class = "S"
ranks = "1,2"
launches = 1

[[run]]
name = "messages"
kind = "profile"
kernels = ["is"]
on = ["mpi@openmpi:transport=shm"]
class = "S"
ranks = "2"

[[figure]]
title = "Speed-up"
run = "kernels"
figure = "speedup"

[[table]]
title = "Table 1: Messages"
run = "messages"
shows = "message_sizes"
ranks = [2]
class = "S"
[table.published]
"is" = [1, 2, 3, 4]

[[table]]
title = "Table 5: Collectives"
run = "messages"
shows = "collectives"
"""
FLEET = """summary = "A fleet"
source = "this test"

[[run]]
name = "hosts"
kind = "nodes"
variants = ["memcpy"]
sizes = "4096"
budget = 0.05
launches = 1

[[run]]
name = "pairs"
kind = "pairs"
variants = ["tcp"]
sizes = "8"
budget = 0.05
launches = 1

[[figure]]
title = "Pairs"
run = "pairs"
figure = "pairs"

[[table]]
title = "All pairs"
run = "pairs"
shows = "members"
"""
# In place of ssh: a host that is this machine; one that is gone says what ssh says.
SHELL = """#!/bin/sh
host=$1; shift
[ "$host" = 192.0.2.9 ] && { echo "ssh: connect to host $host port 22: No route to host" >&2; exit 255; }
exec sh -c "$*"
"""


def suite(folder: Path, *words: str, limit_s: float = 120.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "netpipe", "suite", *words],
        cwd=folder,
        env={**os.environ, "COLUMNS": "200", "NETPIPE_HISTORY": str(folder / "history")},
        capture_output=True,
        text=True,
        check=False,
        timeout=limit_s,
    )


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def test_kernels_and_their_messages_are_measured(with_mpis: Mpis, tmp_path: Path) -> None:
    with_mpis.need("openmpi")
    (tmp_path / "mine.toml").write_text(KERNELS)
    done = suite(tmp_path, "run", "./mine.toml")
    assert done.returncode == 0, done.stderr
    assert "3 of 3 figures and tables made" in done.stdout
    (messages,) = rows_of(tmp_path / "mine/table-1-messages.csv")
    counts = [int(messages[name]) for name in ("up_to_2k", "2k_to_16k", "16k_to_1m", "over_1m")]
    assert messages["kernel"] == "is"
    assert sum(counts) > 0
    (collectives,) = rows_of(tmp_path / "mine/table-5-collectives.csv")
    assert float(collectives["volume_percent"]) > 90  # IS sends nearly everything in collectives
    beside = {row["what"]: row for row in rows_of(tmp_path / "mine/published.csv")}
    assert float(beside["is, up to 2k"]["here"]) == counts[0]
    assert float(beside["is, 2k to 16k"]["ratio"]) == pytest.approx(counts[1] / 2, rel=1e-3)
    before = (tmp_path / "mine/kernels.jsonl").read_bytes()
    (tmp_path / "mine/messages.is-S-on-2.jsonl").unlink()
    again = suite(tmp_path, "run", "./mine.toml", "--continue")
    assert again.returncode == 0, again.stderr
    assert "run kernels is complete in mine" in again.stderr
    assert (tmp_path / "mine/kernels.jsonl").read_bytes() == before
    assert (tmp_path / "mine/messages.is-S-on-2.jsonl").is_file()


def test_a_fleet_is_measured_in_rounds_and_a_dead_host_costs_its_own_pairs(
    worker: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine.toml").write_text(FLEET)
    shell = tmp_path / "shell"
    shell.write_text(SHELL)
    shell.chmod(0o755)
    hosts = "127.0.0.1,127.0.0.2,127.0.0.3,192.0.2.9"
    site = ("--hosts", hosts, "--launcher", "ssh", "--remote-shell", str(shell), "--bind", "127.0.0.1")
    done = suite(tmp_path, "run", "./mine.toml", *site)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "192.0.2.9 failed with two others: not tried again" in done.stderr
    assert "round 3 of 3, 1 pair\n" in done.stderr
    words = " ".join(done.stdout.split())
    assert (
        "✗ 192.0.2.9 could not be measured: ssh: connect to host 192.0.2.9 port 22: No route to host" in words
    )
    assert "✗ no pair with 192.0.2.9 could be measured: " in words
    measured = {(row["member"], row["peer"]) for row in rows_of(tmp_path / "mine/all-pairs.csv")}
    assert measured == {("127.0.0.1", "127.0.0.2"), ("127.0.0.1", "127.0.0.3"), ("127.0.0.2", "127.0.0.3")}
    assert (tmp_path / "mine/pairs.svg").is_file()
    kept = {path: path.read_bytes() for path in (tmp_path / "mine/pairs").glob("127*127*.jsonl")}
    assert len(kept) == 3
    again = suite(tmp_path, "run", "./mine.toml", *site, "--continue")
    assert again.returncode == 4
    assert "run pairs: round 1 of 3, 1 pair\n" in again.stderr
    assert all(path.read_bytes() == text for path, text in kept.items())


OPTIONAL = """summary = "Pairs that may be missing"
source = "this test"

[[run]]
name = "pairs"
kind = "pairs"
optional = true
variants = VARIANTS
sizes = "8"
budget = 0.05
launches = 1

[[table]]
title = "All pairs"
run = "pairs"
shows = "members"
"""


def optional_pairs(folder: Path, hosts: str, variant: str) -> subprocess.CompletedProcess[str]:
    (folder / "mine.toml").write_text(OPTIONAL.replace("VARIANTS", f'["{variant}"]'))
    shell = folder / "shell"
    shell.write_text(SHELL)
    shell.chmod(0o755)
    site = ("--hosts", hosts, "--launcher", "ssh", "--remote-shell", str(shell), "--bind", "127.0.0.1")
    return suite(folder, "run", "./mine.toml", *site)


def test_a_host_without_an_optional_layer_is_named_and_fails_nothing(worker: Path, tmp_path: Path) -> None:
    done = optional_pairs(tmp_path, "127.0.0.1,127.0.0.2,192.0.2.9", "tcp")
    assert done.returncode == 0, done.stdout + done.stderr
    words = " ".join(done.stdout.split())
    assert "! run pairs: no pair with 192.0.2.9 could be measured: " in words
    assert "No route to host" in words
    (row,) = rows_of(tmp_path / "mine/all-pairs.csv")
    assert (row["member"], row["peer"]) == ("127.0.0.1", "127.0.0.2")


@pytest.mark.module("ucx")
def test_pairs_of_hosts_are_measured_by_ucx(worker: Path, tmp_path: Path) -> None:
    """By MPI libraries they are in test_labs.py: their launchers want hosts with names."""
    if not any(one["name"] == "ucx" and one["available"] for one in native.list_()["modules"]):
        pytest.skip("ucx is not available")
    done = optional_pairs(tmp_path, "127.0.0.1,127.0.0.2,127.0.0.3", "ucx:tls=tcp+self")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = rows_of(tmp_path / "mine/all-pairs.csv")
    assert len({(row["member"], row["peer"]) for row in rows}) == 3
    assert {row["what"] for row in rows} == {"ucx:tls=tcp+self"}


def test_pairs_of_ranks_stand_in_where_there_are_no_hosts(worker: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(FLEET)
    done = suite(tmp_path, "run", "./mine.toml")
    assert done.returncode == 0, done.stderr
    assert len(rows_of(tmp_path / "mine/all-pairs.csv")) == 6
    assert "run hosts leaves out all members: one host has no others" in done.stderr


TINY = """summary = "Tiny"
source = "this test"
[[run]]
name = "one"
variants = ["shm"]
sizes = "8"
budget = 0.05
launches = 1
[[table]]
title = "Points"
run = "one"
"""


@pytest.mark.deep
def test_a_submitted_suite_runs_under_slurm(
    worker: Path,
    slurm: Path,  # noqa: F811
    open_folder: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(slurm))
    folder = open_folder / "submitted"
    folder.mkdir()
    (folder / "tiny.toml").write_text(TINY)
    words = ("--scheduler", "slurm", "--minutes", "5", "--option", "--oversubscribe")
    done = suite(folder, "submit", "./tiny.toml", *words, "--now")
    assert done.returncode == 0, done.stderr
    assert "Submitted batch job " in done.stderr
    wait_until((folder / "tiny" / "report.html").is_file, "the job has written its report", 60)
    assert len(rows_of(folder / "tiny" / "points.csv")) == 1
    again = suite(folder, "submit", "./tiny.toml", *words, "--now")  # goes on: nothing is left to measure
    assert again.returncode == 0, again.stderr
    wait_until(
        lambda: any("run one is complete" in log.read_text() for log in folder.glob("tiny-*.log")),
        "the second job has found the record of the first",
        60,
    )


@pytest.mark.deep
def test_the_runs_of_a_suite_are_tasks_of_an_array_under_slurm(
    worker: Path,
    slurm: Path,  # noqa: F811
    open_folder: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(slurm))
    folder = open_folder / "array"
    folder.mkdir()
    second = TINY.partition("[[run]]")[2].replace("one", "two").replace("Points", "More")
    (folder / "tiny.toml").write_text(f"{TINY}[[run]]{second}")
    words = ("--scheduler", "slurm", "--minutes", "5", "--option", "--oversubscribe", "--array")
    done = suite(folder, "submit", "./tiny.toml", *words, "--now")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Submitted batch job ") == 2
    wait_until((folder / "tiny" / "report.html").is_file, "the last job has written the report", 90)
    assert len(rows_of(folder / "tiny" / "points.csv")) == 1
    assert len(rows_of(folder / "tiny" / "more.csv")) == 1


@pytest.mark.deep
@pytest.mark.parametrize("path", sorted(SUITES.glob("*.toml")), ids=lambda path: path.stem)
def test_what_a_suite_that_is_shipped_plans_can_be_planned(
    with_mpis: Mpis, tmp_path: Path, path: Path
) -> None:
    for size in ("quick", "default", "full"):
        done = suite(tmp_path, "show", path.stem, "--size", size)
        assert done.returncode == 0 or "has no size" in done.stderr, done.stderr


def briefly(name: str, launches: int = 1) -> str:
    """The file of a suite, each of whose runs takes as little time as can be."""
    text = (SUITES / f"{name}.toml").read_text()
    text, budgets = re.subn(r"^budget = .*$", "budget = 0.1", text, flags=re.MULTILINE)
    text, some = re.subn(r"^launches = .*$", f"launches = {launches}", text, flags=re.MULTILINE)
    assert budgets > 0
    return text if some else text.replace("budget = 0.1", f"budget = 0.1\nlaunches = {launches}")


@pytest.mark.deep
@pytest.mark.parametrize("name", PAPERS)
def test_every_figure_and_table_of_a_paper_is_made(with_mpis: Mpis, tmp_path: Path, name: str) -> None:
    with_mpis.need("openmpi", "mpich")
    (tmp_path / f"{name}.toml").write_text(briefly(name))
    done = suite(tmp_path, "run", f"./{name}.toml", "--size", "quick", *PAPERS[name], limit_s=1800)
    assert done.returncode in (0, 4), done.stderr
    assert " was not made" not in done.stdout, done.stdout
    assert (tmp_path / name / "report.html").is_file()
    assert (tmp_path / name / "published.csv").is_file()


def rows_of_osu(text: str) -> list[list[float]]:
    """As scripts read it: comments begin with #, and every other line has a size and numbers."""
    lines = text.splitlines()
    assert re.match(r"# OSU MPI[ _-]", lines[0])
    return [[float(word) for word in line.split()] for line in lines if line and not line.startswith("#")]


@pytest.mark.deep
def test_every_table_of_osu_is_made_as_its_scripts_read_it(with_mpis: Mpis, tmp_path: Path) -> None:
    with_mpis.need("openmpi", "mpich")
    (tmp_path / "osu.toml").write_text(briefly("osu"))
    done = suite(tmp_path, "run", "./osu.toml", "--size", "quick", limit_s=1800)
    assert done.returncode == 0, done.stderr
    assert " was not made" not in done.stdout, done.stdout
    tables = sorted((tmp_path / "osu").glob("osu*.txt"))
    for library in ("openmpi", "mpich"):
        of = [path for path in tables if f".mpi-{library}" in path.name]
        assert len(of) > 40, [path.name for path in tables]
    for path in tables:
        rows = rows_of_osu(path.read_text())
        assert rows, path
        assert all(len(row) == len(rows[0]) and min(row[1:]) >= 0 for row in rows), path


@pytest.mark.deep
def test_every_table_of_imb_is_made_and_read_again(with_mpis: Mpis, tmp_path: Path) -> None:
    with_mpis.need("openmpi", "mpich")
    (tmp_path / "imb.toml").write_text(briefly("imb"))
    done = suite(tmp_path, "run", "./imb.toml", "--size", "quick", limit_s=1800)
    assert done.returncode == 0, done.stderr
    assert " was not made" not in done.stdout, done.stdout
    tables = sorted((tmp_path / "imb").glob("*.txt"))
    assert len(tables) >= 2
    for path in tables:
        again = subprocess.run(
            [sys.executable, "-m", "netpipe", "import", str(path), "-o", str(path.with_suffix(".jsonl"))],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert again.returncode == 0, again.stderr


@pytest.mark.deep
@pytest.mark.parametrize("name", ["netpipe-classic", "nightly"])
def test_every_figure_and_table_of_a_suite_is_made(with_mpis: Mpis, tmp_path: Path, name: str) -> None:
    with_mpis.need("openmpi", "mpich")
    (tmp_path / f"{name}.toml").write_text(briefly(name))
    sizes = ("--size", "quick") if name == "nightly" else ()
    done = suite(tmp_path, "run", f"./{name}.toml", *sizes, limit_s=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " was not made" not in done.stdout, done.stdout
    assert (tmp_path / name / "report.html").is_file()


# Of the health of this machine the gate of these tests says nothing: it may have neighbours, or a governor that saves.
BY_HISTORY = """summary = "Health, by its history alone"
source = "this test"
[[run]]
name = "layers"
variants = ["null", "memcpy", "shm", "tcp"]
sizes = "8,64k"
budget = 0.3
launches = 3
[[check]]
title = "Against the best run of this host"
run = "layers"
baseline = "best"
slower = "latency=200%,throughput=200%,all=100%"
"""


def test_health_passes_twice_and_fails_where_the_best_run_was_far_faster(
    worker: Path, tmp_path: Path
) -> None:
    """As a gate of CI would call it. The limits are those of the suite that comes with netpipe."""
    limits = re.search(r'^slower = ".*"$', (SUITES / "health.toml").read_text(), re.MULTILINE)
    assert limits is not None
    assert limits[0] in BY_HISTORY
    (tmp_path / "mine.toml").write_text(BY_HISTORY)
    first = suite(tmp_path, "run", "./mine.toml")
    assert first.returncode == 0, first.stderr
    assert "there is no earlier run to check against" in " ".join(first.stdout.split())
    second = suite(tmp_path, "run", "./mine.toml")
    assert second.returncode == 0, second.stdout + second.stderr
    assert re.search(
        r"✓ Against the best run of this host: [^✓✗]*none failed", " ".join(second.stdout.split())
    )
    # The best run becomes ten times as fast as it was: the host is far slower than that now.
    faster = [made_faster(line) for line in (tmp_path / "mine/layers.jsonl").read_text().splitlines()]
    (tmp_path / "faster.jsonl").write_text("\n".join(faster) + "\n")
    kept = subprocess.run(
        [sys.executable, "-m", "netpipe", "history", "add", "faster.jsonl"],
        cwd=tmp_path,
        env={**os.environ, "NETPIPE_HISTORY": str(tmp_path / "history")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert kept.returncode == 0, kept.stderr
    third = suite(tmp_path, "run", "./mine.toml", "--quiet")
    assert third.returncode == 1, third.stdout + third.stderr
    assert "Against the best run of this host: failed against the best run" in " ".join(third.stderr.split())


def made_faster(line: str) -> str:
    """A record of another run whose every time is a tenth."""

    def tenth(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: tenth(one, name) for name, one in value.items()}
        if isinstance(value, list):
            return [tenth(one, key) for one in value]
        timed = key.endswith("_ns") and isinstance(value, int | float) and not isinstance(value, bool)
        return value / 10 if timed else value

    record = json.loads(line)
    if record["type"] == "run":
        return json.dumps({**record, "run": "f" * 32})
    return json.dumps(tenth(record) if record["type"] == "point" else record)
