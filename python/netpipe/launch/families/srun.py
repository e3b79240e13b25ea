# SPDX-License-Identifier: Apache-2.0
"""srun of Slurm, in the place of a library's own launcher."""

from __future__ import annotations

import ctypes.util
import os
import shutil
from pathlib import Path

from netpipe.failure import UNAVAILABLE, Failure
from netpipe.launch.description import Description
from netpipe.launch.families import Family, Start, Task, family

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


@family("srun")
class Srun(Family):
    """srun of Slurm"""

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
        argv += ["--overcommit", "--cpu-bind=none", "--export=ALL", "--input=none", "--kill-on-bad-exit=1"]
        environment = dict(task.variables)
        if task.hosts:
            lines = [f"{host.name}\n" * host.ranks for host in task.hosts]
            environment["SLURM_HOSTFILE"] = str(task.file("srun-hosts", "".join(lines)))
            argv += ["--distribution=arbitrary", f"--nodes={len(task.hosts)}"]
        if name == "intel":
            environment |= {"I_MPI_PIN": "0", "I_MPI_PMI_LIBRARY": pmi2_library()}
        return Start((*argv, *task.extra, *task.program), environment)


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
