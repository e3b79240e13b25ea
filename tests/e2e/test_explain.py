# SPDX-License-Identifier: Apache-2.0
"""netpipe explain: a pathology that is provoked for real is found, and its experiment confirms the cause."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import WORKER
from mpi import Mpis

from netpipe.libraries import family_of_version
from netpipe.libraries.settings import PROGRESSES, Setting

ON_DISK = "shared_mapping_on_disk"  # what the module records

pytestmark = pytest.mark.skipif(not WORKER.is_file(), reason="netpipe-worker was not built")


def netpipe(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "netpipe", *words],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=folder,
        check=False,
        env=os.environ,
    )


def test_small_buffers_are_found_and_confirmed(tmp_path: Path) -> None:
    small = "tcp:sndbuf=4k,rcvbuf=4k"
    sizes = ("--sizes", "8,64k,1M", "--budget", "1", "-q", "-o", "run.jsonl")
    done = netpipe(tmp_path, "run", "unix", "tcp", small, *sizes)
    assert done.returncode == 0, done.stderr
    plain = json.loads(netpipe(tmp_path, "explain", "--json").stdout)
    (found,) = [one for one in plain if one["rule"] == "small-buffers"]
    assert found["variant"] == small
    # At the size at which it is most certainly slower, which need not be the largest.
    worst = found["size_bytes"]
    assert worst in (65536, 1048576)
    assert found["experiment"] == f"netpipe run tcp:sndbuf=4k,rcvbuf=4k tcp --sizes {worst}"
    assert found["outcome"] is None

    confirmed = netpipe(tmp_path, "explain", "--confirm", "--budget", "2", "--variant", small, "--json")
    assert confirmed.returncode == 0, confirmed.stderr
    answer: list[dict[str, Any]] = json.loads(confirmed.stdout)
    (found,) = [one for one in answer if one["rule"] == "small-buffers"]
    assert found["outcome"]["outcome"] == "confirmed", found
    assert found["outcome"]["gain"]["value"] > 1.5
    assert (tmp_path / found["outcome"]["path"]).is_file()

    later = netpipe(tmp_path, "show", "--json")
    (shown,) = [one for one in json.loads(later.stdout)["findings"] if one["rule"] == "small-buffers"]
    assert shown["outcome"] == found["outcome"]


def test_messages_that_a_small_buffer_loses_arrive_with_a_larger_one(tmp_path: Path) -> None:
    """Its experiment judges the fraction of messages lost, and not the time."""
    small = "udp:rcvbuf=4k"
    measure = ("--pattern", "stream", "--sizes", "1k", "--budget", "1", "-q", "-o", "run.jsonl")
    done = netpipe(tmp_path, "run", small, *measure)
    assert done.returncode == 0, done.stderr
    explain = ("explain", "--variant", small, "--json")
    (found,) = [
        one for one in json.loads(netpipe(tmp_path, *explain).stdout) if one["rule"] == "messages-lost"
    ]
    assert found["confirm"]["judged"]["measure"] == "loss"
    assert found["confirm"]["remedied"].startswith("udp:rcvbuf=")
    tried = netpipe(tmp_path, *explain, "--confirm", "--budget", "2")
    assert tried.returncode == 0, tried.stderr
    (found,) = [one for one in json.loads(tried.stdout) if one["rule"] == "messages-lost"]
    outcome = found["outcome"]
    assert (outcome["outcome"], outcome["gain"], found["gain"]) == ("confirmed", None, None), outcome
    shares = outcome["shares"]
    assert 0 <= shares["after"]["value"] < shares["before"]["value"] <= 1
    assert shares["got_back"]["low"] > 0
    said = " ".join(netpipe(tmp_path, "explain").stdout.split())
    assert "outcome: Confirmed: the fraction of messages lost is " in said


@pytest.mark.module("mpi")
def test_memory_that_ranks_share_through_a_disk_is_found(with_mpis: Mpis, tmp_path: Path) -> None:
    with_mpis.need("openmpi")
    system = subprocess.run(
        ["stat", "-f", "-c", "%T", tmp_path], capture_output=True, text=True, timeout=10, check=True
    ).stdout.strip()
    if system in ("tmpfs", "ramfs"):
        pytest.skip(f"{tmp_path} is on a {system}, so nothing of it is on a disk")
    folder = f"OMPI_MCA_btl_sm_backing_directory={tmp_path}"
    on_disk = f"mpi@openmpi:env=OMPI_MCA_pml=ob1;OMPI_MCA_btl=self|sm;{folder}"
    in_memory = "mpi@openmpi:env=OMPI_MCA_pml=ob1;OMPI_MCA_btl=self|sm"
    sizes = ("--sizes", "8,4k", "--budget", "0.3", "-q", "-o", "run.jsonl")
    done = netpipe(tmp_path, "run", on_disk, in_memory, *sizes)
    assert done.returncode == 0, done.stderr
    said = json.loads(netpipe(tmp_path, "explain", "--json").stdout)
    (found,) = [one for one in said if one["rule"] == "backing-file"]
    assert found["variant"] == on_disk
    assert str(tmp_path) in found["what"]
    assert "btl_sm_backing_directory=/dev/shm" in found["remedy"]
    # What the disk costs depends on it, so the outcome is not known here; that the experiment runs is.
    tried = netpipe(tmp_path, "explain", "--confirm", "--budget", "0.3", "--variant", on_disk, "--json")
    assert tried.returncode == 0, tried.stderr
    outcomes = [one["outcome"] for one in json.loads(tried.stdout) if one["rule"] == "backing-file"]
    assert [one["outcome"] for one in outcomes] != ["failed"], outcomes
    (kept,) = tmp_path.glob("run.confirm-*.jsonl")
    disks = {one["variant"] for one in records(kept, "variant") if disk_of(one) is not None}
    assert disks == {on_disk}


def records(run: Path, kind: str) -> list[dict[str, Any]]:
    """Those of one type in a run file."""
    found = [json.loads(line) for line in run.read_text().splitlines()]
    return [one for one in found if one["type"] == kind]


def disk_of(variant: dict[str, Any]) -> str | None:
    """The file on a disk through which the ranks of a variant share memory."""
    return next((file for rank in variant["ranks"] if (file := rank["settings"].get(ON_DISK))), None)


@pytest.mark.module("mpi")
def test_ranks_that_were_told_not_to_yield_do_so_in_the_experiment(with_mpis: Mpis, tmp_path: Path) -> None:
    with_mpis.need("openmpi")
    ranks = str(2 * len(os.sched_getaffinity(0)))
    keeps = "mpi@openmpi:transport=shm,yield=no"
    sizes = ("--pattern", "collective", "--ranks", ranks, "--sizes", "8", "--budget", "0.5")
    done = netpipe(tmp_path, "run", keeps, *sizes, "--launches", "1", "-q", "-o", "run.jsonl")
    assert done.returncode == 0, done.stderr
    tried = netpipe(tmp_path, "explain", "--confirm", "--budget", "0.5", "--json")
    assert tried.returncode == 0, tried.stderr
    (found,) = [one for one in json.loads(tried.stdout) if one["rule"] == "oversubscribed-job"]
    yields = "mpi@openmpi:transport=shm,yield=yes"
    assert found["confirm"]["remedied"] == yields
    # How much that gains is the machine's: beside other work that never sleeps a yield may gain nothing.
    assert found["outcome"]["outcome"] != "failed", found["outcome"]
    told = {
        (one["variant"], word)
        for one in records(tmp_path / found["outcome"]["path"], "variant")
        for word in one["ranks"][0]["settings"]["environment"].split()
        if "yield" in word
    }
    variable = "OMPI_MCA_mpi_yield_when_idle"
    assert told == {(keeps, f"{variable}=0"), (yields, f"{variable}=1")}


@pytest.mark.module("mpi")
def test_the_progress_thread_of_an_experiment_is_in_force(with_mpis: Mpis, tmp_path: Path) -> None:
    """What it gains takes a processor for each thread, so that is not known here; that the library started it is: its
    calls are then open to several threads.
    """
    (added,) = with_mpis.need("mpich")
    family = family_of_version(added.version)
    assert family is not None
    ((name, value),) = family.settings(Setting(*PROGRESSES, added.version, "shm")).items()
    plain = "mpi@mpich:transport=shm"
    thread = f"{plain},env={name}={value}"
    sizes = ("--pattern", "overlap", "--sizes", "64k", "--budget", "0.3", "--launches", "1")
    done = netpipe(tmp_path, "run", plain, thread, *sizes, "-q", "-o", "run.jsonl")
    assert done.returncode == 0, done.stderr
    given = {
        one["variant"]: {rank["settings"]["thread_given"] for rank in one["ranks"]}
        for one in records(tmp_path / "run.jsonl", "variant")
    }
    assert given == {plain: {"single"}, thread: {"multiple"}}


@pytest.mark.module("mpi")
def test_threads_of_a_rank_that_share_its_processor_are_found(with_mpis: Mpis, tmp_path: Path) -> None:
    """As under a launcher that binds each rank to a core."""
    with_mpis.need("mpich")
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two ranks share the only processor already")
    kept = "threads:processors=rank"
    sizes = ("--pattern", kept, "--sizes", "8", "--budget", "0.5", "--launches", "1", "-q", "-o", "run.jsonl")
    done = netpipe(tmp_path, "run", "mpi@mpich:thread=multiple", *sizes)
    assert done.returncode == 0, done.stderr
    said = json.loads(netpipe(tmp_path, "explain", "--json").stdout)
    (found,) = [one for one in said if one["rule"] == "oversubscribed-threads"]
    assert "2 ranks with 2 threads each on 2 processors" in found["what"]
    assert found["evidence"]["waiting"]["value"] > 0.05
    assert found["experiment"].endswith(f"--pattern {kept} --pattern threads --sizes 8 --launches 1")
