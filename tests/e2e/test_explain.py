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
