# SPDX-License-Identifier: Apache-2.0
"""MPICH, and its launcher Hydra, which libraries derived from MPICH have as well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from netpipe.libraries import Command, Family, Header, Job, Launcher, family, launcher
from netpipe.libraries.mpich import rules
from netpipe.libraries.mpich.rules import CVAR
from netpipe.libraries.settings import (
    INTERFACE,
    OFI,
    OFI_INTERFACE,
    ONE_COPY,
    PROGRESSES,
    SHARED,
    SHM,
    TWO_COPIES,
    UCX,
    Setting,
    of_ucx,
)
from netpipe.libraries.tunables import Parameter, Tunables


@launcher
class Hydra(Launcher):
    """mpiexec of MPICH"""

    name = "mpich"
    title = "MPICH"
    says = r"\bHYDRA\b"
    starts = ("pmi2",)
    hosts_option: ClassVar[str] = "-f"
    unbound: ClassVar[tuple[str, ...]] = ("-bind-to", "none")  # the worker pins itself
    environment: ClassVar[Mapping[str, str]] = {}

    def command(self, job: Job) -> Command:
        argv = [str(job.description.launcher)]
        if job.remote_shell is not None:
            argv += ["-launcher", "ssh", "-launcher-exec", str(job.remote_shell)]
        elif not job.hosts:
            argv += ["-launcher", "fork"]  # in a batch job too: the ranks run here
        if job.hosts:
            # Hosts with room for one rank each are gone through again and again: cyclic.
            lines = [f"{host.name}:{1 if job.cyclic else host.ranks}\n" for host in job.hosts]
            argv += [self.hosts_option, str(job.file("hydra-hosts", "".join(lines)))]
        # The whole environment: with other hosts -genvlist loses one of the names, whichever happens to be last.
        argv += [*self.unbound, "-genvall", "-n", str(job.ranks)]
        return Command((*argv, *job.extra, *job.program), {**job.variables, **self.environment})

    @classmethod
    def passing(cls, variables: Mapping[str, str]) -> list[str]:
        return [word for name, value in variables.items() for word in ("-genv", name, value)]


def settings(one: Setting) -> Mapping[str, str]:
    """As family.h has them."""
    if one.said == SHARED:
        return {f"{CVAR}NOLOCAL": "0"}
    if one.said == PROGRESSES:
        return {f"{CVAR}ASYNC_PROGRESS": "1"}
    if one.below == UCX:
        return of_ucx(one)
    if one.name == INTERFACE:
        # A build has one of the two. Which one, a job that did not start has not said.
        return {OFI_INTERFACE: one.value, **({} if one.below == OFI else of_ucx(one))}
    if one.said in (ONE_COPY, TWO_COPIES) and one.below == SHM and one.major >= 5:
        return {f"{CVAR}CH4_CMA_ENABLE": "1" if one.said == ONE_COPY else "0"}
    if (one.name, one.below) == ("eager", SHM) and one.major >= 5:
        return {f"{CVAR}CH4_IPC_CMA_P2P_THRESHOLD": one.after}
    if (one.name, one.below) == ("eager", OFI):
        name = "CH4_OFI_EAGER_THRESHOLD" if one.major >= 5 else "CH4_OFI_EAGER_MAX_MSG_SIZE"
        return {f"{CVAR}{name}": one.value, "FI_OFI_RXM_BUFFER_SIZE": one.value}
    return {}


family(
    Family(
        name="mpich",
        title="MPICH",
        headers=(Header("MPICH_VERSION", ("MPICH_VERSION",)),),
        launcher=Hydra,
        interface="pmi2",
        has_abi=True,
        settings=settings,
        tunables=Tunables(
            prefix=CVAR,
            known=f"{CVAR}BCAST_SHORT_MSG_SIZE",
            parameters=(
                Parameter(f"{CVAR}CH4_SHM_POSIX_IQUEUE_CELL_SIZE", "auto|shm", 2048, 1 << 18),
                Parameter(f"{CVAR}CH4_SHM_POSIX_IQUEUE_NUM_CELLS", "auto|shm", 16, 1024),
            ),
            algorithm=lambda operation: f"{CVAR}{operation.upper()}_INTRA_ALGORITHM",
            rules=rules.rules,
            unruled=rules.UNRULED,
            # Else shared memory comes before the choice (CH4), which is then ignored within a host.
            with_algorithm=lambda operation, _: {f"{CVAR}{operation.upper()}_DEVICE_COLLECTIVE": "0"},
        ),
        remedies={
            "oversubscribed-job": "an MPICH built with --with-device=ch3:sock, which sleeps; with ch4, as it is "
            "usually built, every rank polls, and no setting changes that",
            "oversubscribed-threads": "mpiexec without -bind-to, or with -bind-to core:N for N threads of each rank",
            "unreachable-interface": "if mpiexec itself does not get through, it is told by --launcher-args '-iface "
            "eth0'",
            "no-overlap": f"{CVAR}ASYNC_PROGRESS=1, a thread that wants a processor of its own",
        },
    )
)
