# SPDX-License-Identifier: Apache-2.0
"""netpipe profile over LAM/MPI, which is MPI 1 with parts of 2: its ranks get the environment of its daemons, and
where we are root its own user runs them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from conftest import NATIVE
from mpi import LIBRARIES, Mpis

from netpipe.libraries import Command, Job
from netpipe.libraries.lam import Lam
from netpipe.libraries.starting import description
from netpipe.profiles import Profile, read

pytestmark = pytest.mark.deep

PROFILED = Path(__file__).parent / "profiled.c"
LIMITS = Path(__file__).parents[1] / "profiler" / "limits.c"
LIMIT_S = 120.0
READS_ALL = "+dac_read_search"  # so that LAM's user finds an interpreter below root's home


@dataclass(frozen=True)
class Daemons:
    """LAM's, booted, and a folder in which its user may write."""

    lam: Lam
    job: Job
    folder: Path
    modules: Path

    def compile(self, source: Path) -> Path:
        program = self.folder / source.stem
        words = ["-O1", "-o", program, source, "-lpthread"]
        subprocess.run([LIBRARIES["lam"][0], *words], check=True, timeout=60)
        return program

    def run(self, *words: str | Path) -> tuple[int, str]:
        """A command as a user of LAM types it; its exit code, and what it said."""
        started = self.lam.command(replace(self.job, program=("true",)))
        environment = {
            **started.environment,
            "NETPIPE_MODULE_PATH": str(self.modules),
            "NETPIPE_NATIVE": str(NATIVE),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
        }
        as_user: list[str] = []
        if started.user is not None:
            as_user = ["setpriv", f"--reuid={started.user.pw_uid}", f"--regid={started.user.pw_gid}"]
            as_user += ["--clear-groups", f"--inh-caps={READS_ALL}", f"--ambient-caps={READS_ALL}"]
        with tempfile.TemporaryFile() as file:
            command = Command((*as_user, *map(str, words)), environment, None, self.folder)
            code = command.popen(subprocess.DEVNULL, file).wait(LIMIT_S)
            file.seek(0)
            return code, file.read().decode(errors="replace")

    def profile(self, ranks: int, *program: str | Path, more: tuple[str, ...] = ()) -> tuple[Profile, str]:
        """Of a program that ends well."""
        launcher = self.job.description.launcher
        launched = [launcher, *more, "-np", str(ranks), *program]
        code, said = self.run(sys.executable, "-m", "netpipe", "profile", "--", *launched)
        assert code == 0, said
        return read(self.folder / "profile.jsonl"), said


@pytest.fixture(scope="module")
def daemons(mpis: Mpis) -> Iterator[Daemons]:
    (module,) = mpis.need("lam")
    folder = Path(tempfile.mkdtemp(prefix="netpipe-test-lam-"))  # pytest's own is closed to LAM's user
    folder.chmod(0o1777)
    lam = Lam()
    job = Job(description.read(module.path), (), 2, (), {}, (), None, folder)
    try:
        lam.boot(job, lambda: False)
        yield Daemons(lam, job, folder, mpis.folder)
    finally:
        lam.halt()
        shutil.rmtree(folder, ignore_errors=True)


def counted(profile: Profile, rank: int) -> Counter[tuple[str, int]]:
    rows = profile.entries[rank]
    found: Counter[tuple[str, int]] = Counter()
    for call, size, times in zip(rows.call, rows.bytes, rows.calls, strict=True):
        found[profile.header.calls[call].name, size] += times
    return found


def test_a_program_of_lam_is_profiled_as_it_is(daemons: Daemons) -> None:
    profile, _ = daemons.profile(2, daemons.compile(PROFILED))
    assert counted(profile, 0) == {("Send", 100): 10, ("Barrier", 0): 1}
    assert counted(profile, 1) == {("Recv", 100): 10, ("Barrier", 0): 1}
    assert [rank.state for rank in profile.ranks] == ["finalized", "finalized"]
    assert (profile.header.library or "").startswith("LAM/MPI 7.")
    assert profile.traces[0].events == 11


def test_what_the_user_exports_is_exported_too(daemons: Daemons) -> None:
    program = daemons.compile(PROFILED)
    script = daemons.folder / "app.sh"
    script.write_text(f'#!/bin/sh\n[ "$OWN" = value ] || exit 9\nexec {program}\n')
    script.chmod(0o755)
    profile, _ = daemons.profile(2, script, more=("-x", "OWN=value"))
    assert counted(profile, 0) == {("Send", 100): 10, ("Barrier", 0): 1}


def test_more_than_the_tables_hold(daemons: Daemons) -> None:
    profile, _ = daemons.profile(1, daemons.compile(LIMITS), daemons.folder)
    found = counted(profile, 0)
    assert found["Irecv", 1] == found["Isend", 1] == found["Wait", 1] == 600
    assert found["Waitall", 9000] == 1
    assert (found["Comm_dup", 0], found["Bcast", 4], found["Barrier", 0]) == (3100, 2000, 5000)
    assert profile.ranks[0].coarse_calls > 0


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user runs LAM himself")
def test_the_first_message_is_measured_as_another_user(daemons: Daemons) -> None:
    """The curves are measured by root, and so are the first messages of a kernel that LAM's user runs."""
    daemons.profile(2, daemons.compile(PROFILED))
    variant = "mpi@lam:transport=tcp"
    words = ["predict", "profile.jsonl", "--measure", variant, "--budget", "0.3", "-o", "root.jsonl"]
    done = subprocess.run(
        [sys.executable, "-m", "netpipe", *words],
        capture_output=True,
        text=True,
        timeout=2 * LIMIT_S,
        check=False,
        cwd=daemons.folder,
        env={**os.environ, "NETPIPE_NATIVE": str(NATIVE), "NETPIPE_MODULE_PATH": str(daemons.modules)},
    )
    assert done.returncode == 0, done.stderr
    assert variant in done.stdout
    assert '"pattern":"first"' in (daemons.folder / "root.jsonl").read_text()
