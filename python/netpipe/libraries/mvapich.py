# SPDX-License-Identifier: Apache-2.0
"""MVAPICH, which is derived from MPICH and started by Hydra. Its settings go through the option env."""

from __future__ import annotations

from netpipe.libraries import Family, Header, family
from netpipe.libraries.mpich import Hydra

family(
    Family(
        name="mvapich",
        title="MVAPICH",
        headers=(
            Header("MVAPICH_VERSION", ("MVAPICH_VERSION",)),
            Header("MVAPICH2_VERSION", ("MVAPICH2_VERSION",)),
        ),
        precedence=1,  # its mpi.h also says that it is MPICH
        launcher=Hydra,
        interface="pmi2",
        remedies={"no-overlap": "MPIR_CVAR_ASYNC_PROGRESS=1 (MVAPICH2: MV2_ASYNC_PROGRESS=1)"},
    )
)
