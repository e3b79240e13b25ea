# SPDX-License-Identifier: Apache-2.0
"""Whoever is killed during a run of an MPI library, nothing of the run is left: at its end, or after the next one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import wait_for_samples
from machines import end, wait_until
from mpi import Mpis

from netpipe.libraries.starting.processes import all_with, shared_memory

pytestmark = pytest.mark.module("mpi")


def command_of(process: int) -> str:
    return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode()


DEEP = ("front", "worker", "launcher", "rank")


@pytest.mark.parametrize(
    "whom", ["all", "ranks", *(pytest.param(one, marks=pytest.mark.deep) for one in DEEP)]
)
def test_nothing_is_left_of_a_killed_run(with_mpis: Mpis, tmp_path: Path, whom: str) -> None:
    with_mpis.need("mpich")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    netpipe = [sys.executable, "-m", "netpipe", "run", "--launches", "1", "--quiet", "--output"]
    run = tmp_path / "run.jsonl"
    front = subprocess.Popen(
        [
            *netpipe,
            str(run),
            "mpi@mpich:transport=shm",
            "--sizes",
            "64k",  # one: of several, those below the one that failed are measured again, for the rest of the budget
            "--budget",
            "60",
            "--target",
            "0.01%",
        ],
        env=environment,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    mark = f"NETPIPE_JOB_FOLDER={temporary}"
    try:
        wait_for_samples(run)
        ranks = [process for process in all_with(mark) if "netpipe-worker" in command_of(process)]
        launchers = [process for process in all_with(mark) if "mpiexec" in command_of(process)]
        files = shared_memory(mark)
        assert files, "this MPICH has no shared memory in /dev/shm: what is this test about?"
        children = Path(f"/proc/{front.pid}/task/{front.pid}/children").read_text().split()
        workers = [int(word) for word in children if "netpipe-worker run" in command_of(int(word))]
        victims = {
            "all": [front.pid, *workers, *launchers, *ranks],
            "ranks": ranks,
            "front": [front.pid],
            "worker": workers,
            "launcher": launchers,
            "rank": ranks[:1],
        }[whom]
        assert victims
        for victim in victims:
            os.kill(victim, signal.SIGSTOP)  # nobody cleans up after another
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
        front.wait(60)
        wait_until(lambda: not list(all_with(mark)), "processes of the job stay")
        if front.pid in victims:
            again = [*netpipe, str(tmp_path / "other.jsonl"), "pipe", "--sizes", "8", "--budget", "0.05"]
            subprocess.run(again, env=environment, check=True, timeout=60)
        else:
            assert front.returncode == 4
        assert [file for file in files if file.exists()] == []
        assert list(temporary.iterdir()) == []
        assert list(tmp_path.glob("*.part")) == []
    finally:
        end(front)
