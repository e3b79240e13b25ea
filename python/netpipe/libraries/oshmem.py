# SPDX-License-Identifier: Apache-2.0
"""OpenSHMEM as Open MPI has it. Its launcher is Open MPI's own under another name."""

from __future__ import annotations

from netpipe.libraries import Family, Header, family, launcher
from netpipe.libraries.openmpi import OpenMpi


@launcher
class OshRun(OpenMpi):
    """oshrun of Open MPI"""

    name = "oshmem"
    title = "OpenSHMEM of Open MPI"
    says = r"\boshrun\b"
    precedence = 1  # it says that it is of Open MPI as well
    programs = ("oshrun",)


family(
    Family(
        name="oshmem",
        title="OpenSHMEM of Open MPI",
        headers=(
            Header(
                "OSHMEM_SPEC_VERSION",
                ("OMPI_MAJOR_VERSION", "OMPI_MINOR_VERSION", "OMPI_RELEASE_VERSION"),
                include="mpi.h",
            ),
        ),
        layer="shmem",
        module="openmpi",
        launcher=OshRun,
        interface="pmix",
        compilers=("oshcc",),
        files=("liboshmem*.so*",),
    )
)
