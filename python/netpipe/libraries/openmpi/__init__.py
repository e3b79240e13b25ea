# SPDX-License-Identifier: Apache-2.0
"""Open MPI 4 (whose launcher is ORTE) and 5 (PRRTE)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from netpipe.libraries import Command, Family, Header, Job, Launcher, family, launcher
from netpipe.libraries.openmpi import rules
from netpipe.libraries.openmpi.rules import MCA
from netpipe.libraries.settings import (
    FILES_IN_MEMORY,
    INTERFACE,
    NO_NAGLE,
    OFI,
    OFI_INTERFACE,
    ONE_COPY,
    PROGRESSES,
    SHARED,
    SHM,
    TCP,
    TWO_COPIES,
    UCX,
    YIELDS,
    Setting,
    of_ucx,
)
from netpipe.libraries.starting.hosts import joined
from netpipe.libraries.tunables import Parameter, Tunables

# In the environment, because the option's place differs between 4 and 5, and some front ends do not know it.
ROOT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}


@launcher
class OpenMpi(Launcher):
    """mpirun of Open MPI 4 and 5"""

    name = "openmpi"
    title = "Open MPI"
    says = r"\(Open MPI\)|\bOpen MPI\b|\bOpenRTE\b|\bPRRTE\b|\bprte"
    programs: ClassVar[tuple[str, ...]] = ("mpirun", "mpiexec")

    def command(self, job: Job) -> Command:
        recent = job.description.major >= 5
        # No binding: the worker pins itself. In network namespaces the mpiruns of both hosts would bind to processor 0.
        argv = [str(job.description.launcher), "-n", str(job.ranks), "--bind-to", "none"]
        by = "node" if job.cyclic else "slot"
        argv += ["--map-by", f"{by}:OVERSUBSCRIBE"] if recent else ["--map-by", by, "--oversubscribe"]
        argv += ["--rank-by", by] if job.cyclic else []
        for name in job.variables:
            argv += ["-x", name]
        if job.hosts:
            argv += ["--host", joined(job.hosts)]
        if job.remote_shell is not None and recent:
            argv += ["--prtemca", "plm", "ssh", "--prtemca", "plm_ssh_agent", str(job.remote_shell)]
        elif job.remote_shell is not None:
            argv += ["--mca", "plm", "rsh", "--mca", "plm_rsh_agent", str(job.remote_shell)]
        return Command((*argv, *job.extra, *job.program), {**ROOT, **job.variables})

    @classmethod
    def passing(cls, variables: Mapping[str, str]) -> list[str]:
        return [word for name, value in variables.items() for word in ("-x", f"{name}={value}")]


def flags(version: str) -> tuple[str, ...]:
    """5 claims to be MPI 3.1 and has these parts of MPI 4."""
    major = int(version.partition(".")[0] or 0)
    return ("-DHAVE_PARTITIONED=1", "-DHAVE_PERSISTENT_COLLECTIVES=1") if major >= 5 else ()


def settings(one: Setting) -> Mapping[str, str]:
    """As family.h has them."""
    components = {SHM: "sm" if one.major >= 5 else "vader", TCP: TCP}
    if one.said == SHARED:
        return {f"{MCA}pml": "ob1", f"{MCA}btl": f"self,{components[SHM]}"}
    if one.said == YIELDS:
        return {f"{MCA}mpi_yield_when_idle": "1"}
    if one.below == UCX:
        return of_ucx(one)
    if one.name == INTERFACE:
        return {OFI_INTERFACE if one.below == OFI else f"{MCA}btl_tcp_if_include": one.value}
    if (one.said, one.below) == (FILES_IN_MEMORY, SHM):
        return {f"{MCA}btl_{components[SHM]}_backing_directory": one.value}
    if one.said in (ONE_COPY, TWO_COPIES):
        if one.major < 5:
            return {f"{MCA}btl_vader_single_copy_mechanism": one.value}
        return {f"{MCA}smsc": one.value if one.said == ONE_COPY else "^cma,knem,xpmem"}
    if (one.name, one.below) == ("eager", OFI):
        return {"FI_OFI_RXM_BUFFER_SIZE": one.value}
    if (one.said, one.below) == (NO_NAGLE, TCP):
        return {f"{MCA}btl_tcp_use_nagle": "0"}
    if (one.said, one.below) == (PROGRESSES, TCP):
        return {f"{MCA}btl_tcp_progress_thread": "1"}
    limits = {"eager": "eager_limit", "rndv": "rndv_eager_limit"}
    buffers = {"sndbuf": "sndbuf", "rcvbuf": "rcvbuf"}
    parameter = (limits | (buffers if one.below == TCP else {})).get(one.name)
    component = components.get(one.below or "")
    return {f"{MCA}btl_{component}_{parameter}": one.value} if parameter and component else {}


IN_MEMORY, OVER_TCP = "auto|shm", "auto|tcp"
BETWEEN_HOSTS = "auto|tcp|ucx|ucx_tcp|ofi|ofi_tcp"


def segments(operation: str) -> Parameter:
    """The bytes into which HAN cuts the messages of a collective between hosts. Open MPI 5.0 takes 64 KiB, and its
    developers measured 512 KiB to be faster (open-mpi/ompi#11360). In 4.1 HAN stands behind the other components.
    """
    variable = f"{MCA}coll_han_{operation}_segsize"
    return Parameter(variable, BETWEEN_HOSTS, 1 << 12, 1 << 24, operation=operation, since=rules.HAN_FROM)


TUNABLES = Tunables(
    prefix=MCA,
    bare=True,
    known=f"{MCA}pml",
    parameters=(
        Parameter(f"{MCA}btl_tcp_links", OVER_TCP, 1, 8),
        Parameter(f"{MCA}btl_tcp_max_send_size", OVER_TCP, 4096, 4 << 20),
        Parameter(f"{MCA}btl_tcp_endpoint_cache", OVER_TCP, 1024, 1 << 20),
        Parameter(f"{MCA}btl_sm_max_send_size", IN_MEMORY, 4096, 1 << 20),  # of 5
        Parameter(f"{MCA}btl_vader_max_send_size", IN_MEMORY, 4096, 1 << 20),  # of 4
        Parameter(f"{MCA}btl_sm_fbox_size", IN_MEMORY, 1024, 1 << 18),
        Parameter(f"{MCA}btl_vader_fbox_size", IN_MEMORY, 1024, 1 << 18),
        *map(segments, ("allreduce", "bcast", "reduce")),
    ),
    algorithm=lambda operation: f"{MCA}coll_tuned_{operation}_algorithm",
    rules=rules.rules,
    with_algorithm=lambda _, version: rules.needed(version),
    settings_file="openmpi-mca-params.conf",
    settings_place="~/.openmpi/mca-params.conf",
)

family(
    Family(
        name="openmpi",
        title="Open MPI",
        headers=(
            Header(
                "OMPI_MAJOR_VERSION", ("OMPI_MAJOR_VERSION", "OMPI_MINOR_VERSION", "OMPI_RELEASE_VERSION")
            ),
        ),
        launcher=OpenMpi,
        interface="pmix",
        flags=flags,
        tunables=TUNABLES,
        settings=settings,
        remedies={
            # Seen in 4.1.4 and 5.0.11: the segments are then those of shm_open.
            "backing-file": f"or {MCA}shmem_posix_priority=100, which takes POSIX shared memory instead of files; a "
            "build with CUDA also keeps a pool in TMPDIR, which then belongs on a tmpfs",
            "oversubscribed-job": f"{MCA}mpi_yield_when_idle=1, by which ranks that wait give their processor away",
            # ompi#13009: by default a job of one or two ranks binds each to one core.
            "oversubscribed-threads": "mpirun --bind-to none, or --map-by slot:PE=N for N threads of each rank",
            "unreachable-interface": "if mpirun itself does not get through, it is told by --launcher-args '--mca "
            "oob_tcp_if_include eth0', from 5 on '--prtemca prte_if_include eth0'",
            "no-overlap": f"{MCA}btl_tcp_progress_thread=1 over TCP; for shared memory it has no such thread",
        },
    )
)
