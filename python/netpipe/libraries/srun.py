# SPDX-License-Identifier: Apache-2.0
"""srun of Slurm, in the place of a library's own launcher."""

from __future__ import annotations

import ctypes.util
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from netpipe.failure import FAILED, INTERRUPTED, UNAVAILABLE, Failure
from netpipe.launch.condense import condense
from netpipe.launch.description import Description
from netpipe.libraries import Family, Start, Task, family

# The process management interface that each library was built to find, by the family of its own launcher or, where it
# has none but srun, by what it calls itself.
INTERFACES = {"openmpi": "pmix", "mpich": "pmi2", "intel": "pmi2"}
PMI2_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib64/slurm",
    "/usr/lib",
)


ROOM_S = 45  # to wait for nodes: the worker waits a minute for the processes


@family("srun")
class Srun(Family):
    """srun of Slurm. All jobs of a run are there at the same time, so they are steps of one allocation that share its
    processors: the one in which netpipe itself runs, or one that is asked for.
    """

    shared = True

    def __init__(self) -> None:
        self._allocation: str | None = None  # that we asked for

    def boot(self, task: Task, given_up: Callable[[], bool]) -> None:
        if self._allocation is not None or os.environ.get("SLURM_JOB_ID"):
            return
        argv = ["salloc", "--no-shell", "--job-name=netpipe", "--exclusive", "--overcommit"]
        argv += [f"--immediate={ROOM_S}", f"--ntasks={task.ranks}"]
        if task.hosts:
            argv += [f"--nodes={len(task.hosts)}", f"--nodelist={','.join(host.name for host in task.hosts)}"]
        said = waited_for(Start(tuple(argv), task.variables), task.scratch / "salloc.log", given_up)
        found = re.search(r"Granted job allocation (\d+)", said)
        if found is None:
            raise Failure(
                FAILED,
                f"Slurm gave no nodes within {ROOM_S} s: {condense(said) or 'it said nothing'}; wait for them yourself "
                "with salloc, and run netpipe in it",
            )
        self._allocation = found.group(1)

    def halt(self) -> None:
        if self._allocation is not None:
            subprocess.run(
                ["scancel", self._allocation],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=30,
                check=False,
            )
            self._allocation = None

    def check(self, description: Description, program: tuple[str, ...]) -> None:  # noqa: ARG002
        if library(description) is None:
            raise Failure(
                UNAVAILABLE, f"{description.name} cannot be started by srun; leave --launcher away for it"
            )
        if shutil.which(srun(description)) is None:
            raise Failure(UNAVAILABLE, "there is no srun here; leave --launcher away, or load Slurm")

    def command(self, task: Task) -> Start:
        description = task.description
        name = library(description)
        argv = [srun(description), f"--mpi={INTERFACES[name or 'mpich']}", f"--ntasks={task.ranks}"]
        # No binding: the worker pins itself. A rank that ends badly ends the job, as under the libraries' launchers.
        argv += [
            "--overlap",
            "--overcommit",
            "--cpu-bind=none",
            "--export=ALL",
            "--input=none",
            "--kill-on-bad-exit=1",
        ]
        environment = dict(task.variables)
        if self._allocation is not None:
            argv.append(f"--jobid={self._allocation}")
        if task.hosts:
            lines = [f"{host.name}\n" * host.ranks for host in task.hosts]
            environment["SLURM_HOSTFILE"] = str(task.file("srun-hosts", "".join(lines)))
            argv += ["--distribution=arbitrary", f"--nodes={len(task.hosts)}"]
        if name == "intel":
            environment |= {"I_MPI_PIN": "0", "I_MPI_PMI_LIBRARY": pmi2_library()}
        return Start((*argv, *task.extra, *task.program), environment)


def waited_for(start: Start, log: Path, given_up: Callable[[], bool]) -> str:
    """What a command said until it ended, or until its time was over. Raises Failure where it was given up."""
    with log.open("wb") as output:
        process = start.popen(subprocess.DEVNULL, output)
    deadline = time.monotonic() + ROOM_S + 5
    while process.poll() is None and time.monotonic() < deadline and not given_up():
        time.sleep(0.02)
    if process.poll() is None:
        process.send_signal(signal.SIGINT)  # it gives back what it was about to get
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if given_up():
        raise Failure(INTERRUPTED, "interrupted while Slurm was asked for nodes")
    return log.read_text(errors="replace")


def library(description: Description) -> str | None:
    """One of INTERFACES, or None for one that srun cannot start."""
    if description.family in INTERFACES:
        return description.family
    if description.family != "srun":
        return None
    version = description.version.lower()
    return "openmpi" if "open mpi" in version else "intel" if "intel" in version else "mpich"


def srun(description: Description) -> str:
    return str(description.launcher) if description.family == "srun" else "srun"


def pmi2_library() -> str:
    """Intel MPI wants to be told where it is. Raises Failure (3) where there is none."""
    said = os.environ.get("I_MPI_PMI_LIBRARY")
    if said:
        return said
    name = ctypes.util.find_library("pmi2") or "libpmi2.so.0"
    for folder in PMI2_FOLDERS:
        if (Path(folder) / name).is_file():
            return str(Path(folder) / name)
    raise Failure(
        UNAVAILABLE,
        "Intel MPI under srun needs libpmi2.so of Slurm, which is in no usual place (Debian: apt install libpmi2-0); "
        "set I_MPI_PMI_LIBRARY to it",
    )
