# SPDX-License-Identifier: Apache-2.0
"""The MPI standard ABI: one build runs with every library that has it, and with the launcher of that library."""

from __future__ import annotations

from netpipe.libraries import ANY_INTERFACE, Family, Header, family

family(
    Family(
        name="abi",
        title="MPI standard ABI",
        headers=(Header("MPI_ABI_VERSION", ("MPI_ABI_VERSION", "MPI_ABI_SUBVERSION")),),
        precedence=-1,  # a library's own mpi.h may define it too
        interface=ANY_INTERFACE,
        compilers=("mpicc_abi",),
        is_abi=True,
    )
)
