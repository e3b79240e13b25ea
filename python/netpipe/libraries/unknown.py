# SPDX-License-Identifier: Apache-2.0
"""An MPI of no family known here. It works with the options that every MPI has, and its settings go through env."""

from __future__ import annotations

from netpipe.libraries import ANY_INTERFACE, Family, Header, family

family(
    Family(
        name="mpi",
        title="an unknown implementation of MPI",
        headers=(Header("MPI_VERSION", ("MPI_VERSION", "MPI_SUBVERSION")),),
        precedence=-2,  # every mpi.h defines it
        interface=ANY_INTERFACE,
    )
)
