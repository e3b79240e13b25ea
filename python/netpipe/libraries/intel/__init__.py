# SPDX-License-Identifier: Apache-2.0
"""Intel MPI, which is derived from MPICH and has a Hydra of its own."""

from __future__ import annotations

import ctypes.util
import os
from collections.abc import Mapping
from pathlib import Path

from netpipe.failure import UNAVAILABLE, Failure
from netpipe.libraries import Family, Header, family, launcher
from netpipe.libraries.intel import presets
from netpipe.libraries.mpich import Hydra
from netpipe.libraries.settings import (
    INTERFACE,
    OFI,
    OFI_INTERFACE,
    ONE_COPY,
    PROGRESSES,
    SHARED,
    SHM,
    TWO_COPIES,
    YIELDS,
    Setting,
)
from netpipe.libraries.tunables import Parameter, Tunables

NO_PINNING = {"I_MPI_PIN": "0"}  # the worker pins itself
PMI2_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib64/slurm",
    "/usr/lib",
)


@launcher
class IntelHydra(Hydra):
    """mpiexec.hydra of Intel MPI"""

    name = "intel"
    title = "Intel MPI"
    says = r"\bIntel\(R\) MPI"
    precedence = 1  # it also says that it is HYDRA
    # mpirun is a script that looks for a batch system first and then starts mpiexec.hydra.
    programs = ("mpiexec.hydra", "mpiexec", "mpirun")
    hosts_option = "-machine"
    unbound = ()
    environment = NO_PINNING


def under_slurm() -> dict[str, str]:
    """Under srun it must be told where Slurm's PMI library is. Raises Failure (3) where there is none."""
    return {**NO_PINNING, "I_MPI_PMI_LIBRARY": pmi2_library()}


def pmi2_library() -> str:
    chosen = os.environ.get("I_MPI_PMI_LIBRARY")
    if chosen:
        return chosen
    name = ctypes.util.find_library("pmi2") or "libpmi2.so.0"
    for folder in PMI2_FOLDERS:
        if (Path(folder) / name).is_file():
            return str(Path(folder) / name)
    raise Failure(
        UNAVAILABLE,
        "Intel MPI under srun needs Slurm's libpmi2.so, which was not found (Debian: apt install libpmi2-0); set "
        "I_MPI_PMI_LIBRARY to its path",
    )


def settings(one: Setting) -> Mapping[str, str]:
    """As family.h has them."""
    if one.said == SHARED:
        return {"I_MPI_FABRICS": one.value}
    if one.said == YIELDS:
        return {"I_MPI_THREAD_YIELD": "2"}
    if one.said == PROGRESSES:
        return {"I_MPI_ASYNC_PROGRESS": "1"}
    if one.name == INTERFACE:
        return {OFI_INTERFACE: one.value}
    if one.said in (ONE_COPY, TWO_COPIES) and one.below == SHM:
        return {"I_MPI_SHM_CMA": "1" if one.said == ONE_COPY else "0"}
    names = {SHM: "I_MPI_SHM_EAGER_THRESHOLD", OFI: "FI_OFI_RXM_BUFFER_SIZE"}
    return {names[one.below]: one.value} if one.name == "eager" and one.below in names else {}


family(
    Family(
        name="intel",
        title="Intel MPI",
        module="impi",
        headers=(Header("I_MPI_VERSION", ("I_MPI_VERSION",)),),
        precedence=1,  # its mpi.h also says that it is MPICH
        launcher=IntelHydra,
        interface="pmi2",
        environment=lambda prefix: {"I_MPI_ROOT": str(prefix)},
        places=("opt/intel/oneapi/mpi/*/bin",),
        marker="bin/impi_info",  # installed by pip, its mpicc does not know where it is
        slurm=under_slurm,
        has_abi=True,
        settings=settings,
        tunables=Tunables(
            prefix="I_MPI_",
            known=f"{presets.ADJUST}BCAST",
            ask=presets.ask,
            read_back=presets.read_back,
            parameters=(
                # Intel MPI Developer Reference, "Shared Memory Control". The library does not say what they are set to.
                Parameter("I_MPI_SHM_CELL_FWD_SIZE", "auto|shm", 1024, 1 << 20, (16384, 131072, 524288)),
                Parameter("I_MPI_SHM_CELL_FWD_NUM", "auto|shm", 4, 1024, (8, 32, 128)),
            ),
            algorithm=lambda operation: f"{presets.ADJUST}{operation.upper()}",
            rules=presets.rules,
        ),
        remedies={
            "oversubscribed-job": "I_MPI_THREAD_YIELD=2, by which ranks that wait give their processor away",
            "oversubscribed-threads": "I_MPI_PIN_DOMAIN=N for N threads of each rank, or I_MPI_PIN=0",
            "no-overlap": "I_MPI_ASYNC_PROGRESS=1, a thread that wants a processor of its own",
        },
    )
)
