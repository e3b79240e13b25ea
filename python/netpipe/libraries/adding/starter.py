# SPDX-License-Identifier: Apache-2.0
"""What starts the processes of an MPI program: the mpirun or mpiexec that belongs to an mpicc."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from netpipe.failure import UNAVAILABLE, USAGE, Failure
from netpipe.libraries.adding.compiler import Library, run

# What a launcher says of itself, and whose it is.
SIGNS = (
    (r"\bIntel\(R\) MPI", "intel"),
    (r"\bHYDRA\b", "mpich"),
    (r"\(Open MPI\)|\bOpen MPI\b|\bOpenRTE\b|\bPRRTE\b|\bprte", "openmpi"),
    (r"\bLAM\b", "lam"),
    (r"\bSimGrid\b", "smpi"),
    (r"\bslurm", "srun"),
)
# Families whose processes find each other in the same way (PMI), so that one's launcher starts the other's programs.
ALIKE = ({"mpich", "intel", "srun"}, {"openmpi", "srun"}, {"lam"}, {"smpi"})
# By family, the best first. Intel's mpirun is a script that also looks for a batch system, and starts mpiexec.hydra.
NAMES = {
    "intel": ("mpiexec.hydra", "mpiexec", "mpirun"),
    "openmpi": ("mpirun", "mpiexec"),
    "lam": ("mpirun",),
    "smpi": ("smpirun",),
}
PATIENCE_S = 20.0
TITLES = {
    "openmpi": "Open MPI",
    "mpich": "MPICH",
    "intel": "Intel MPI",
    "lam": "LAM/MPI",
    "smpi": "SimGrid",
    "srun": "Slurm",
}


@dataclass(frozen=True, slots=True)
class Starter:
    family: str
    path: Path


def family_of(path: Path, environment: Mapping[str, str] | None = None) -> str:
    """Whose launcher this is, by what it says; "" where that is not known. Raises Failure (3) where it cannot run."""
    for question in ("--version", "-h"):  # LAM's has no --version
        done = run([path, question], environment, PATIENCE_S)
        for sign, family in SIGNS:
            if re.search(sign, done.stdout + done.stderr, re.IGNORECASE if family == "srun" else 0):
                return family
    return ""


def beside(mpicc: Path, family: str) -> Iterator[Path]:
    """The launchers in the folder of mpicc that are named as it is: mpirun.lam for mpicc.lam."""
    found = re.fullmatch(r"s?mpicc(?:_abi)?(.*)", mpicc.name)
    if found is None:  # a compiler that is always one for MPI, such as Cray's cc: no launcher is near it
        return
    for name in NAMES.get(family, ("mpiexec", "mpirun")):
        path = mpicc.parent / f"{name}{found.group(1)}"
        if path.is_file() and os.access(path, os.X_OK):
            yield path


def find(library: Library, given: Path | None) -> Starter:
    """The launcher of this library, or the given one. Raises Failure: 2 for what is none or that of another family,
    3 where there is none.
    """
    wanted = library.kind.family
    if given is not None:
        path = given.absolute()
        if not path.is_file() or not os.access(path, os.X_OK):
            raise Failure(USAGE, f"{given} is no program; name the mpiexec or mpirun of {library.title}")
        family = family_of(path, library.environment) or wanted
        if not family:
            raise Failure(USAGE, f"{given} is no launcher that is known here ({', '.join(TITLES.values())})")
        if wanted and not any({family, wanted} <= alike for alike in ALIKE):
            raise Failure(
                USAGE,
                f"{given} is the launcher of {TITLES[family]}, and {library.mpicc} compiles for {library.title}: each "
                "process would believe to be alone; name the launcher of the same library with --mpiexec",
            )
        return Starter(family, path)
    for path in beside(library.mpicc, wanted):
        family = family_of(path, library.environment) or wanted
        if family and (not wanted or any({family, wanted} <= alike for alike in ALIKE)):
            return Starter(family, path)
    raise Failure(
        UNAVAILABLE,
        f"there is no launcher of {library.title} beside {library.mpicc}; install it, or name its mpiexec or mpirun "
        "with --mpiexec",
    )
