# SPDX-License-Identifier: Apache-2.0
"""A remedy names the setting of netpipe and the variable of the library that was measured, and of no other.

tests/e2e/test_words_of_libraries.py holds these variables to what the modules set.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from netpipe.findings import Finding, judge
from netpipe.findings.curves import backing_file, eager_limit, extra_copy, small_buffers, wrong_transport
from netpipe.findings.curves.thresholds import late_switch
from netpipe.findings.curves.waiting import delayed_acknowledgement
from netpipe.reading import Reading
from netpipe.records import Run

OPENMPI5, OPENMPI4, MPICH5, MPICH4 = "Open MPI 5.0.11", "Open MPI 4.1.4", "MPICH 5.0.2", "MPICH 4.0.2"
INTEL, LAM, UNKNOWN = "Intel MPI 2021.13", "LAM/MPI 7.1.4", "Unheard MPI 1.2"


def found(rule: str, made: Run) -> Finding:
    (one,) = [one for one in judge(Reading(made)).findings if one.rule == rule]
    return one


def of(made: Run, version: str, below: str | None, module: str | None = None) -> Run:
    """The run, whose upper variant is of this version of a library, on this layer."""
    for variant in made.variants:
        if variant.module not in ("unix", "shm"):
            variant.version, variant.below = version, below
            variant.module = module or variant.module
    return made


Remedy = tuple[str, str | None, str]  # version, what its messages stand on, the remedy in brackets; "": none

LIMITS: list[Remedy] = [
    (OPENMPI5, "tcp", "Open MPI: OMPI_MCA_btl_tcp_eager_limit={}"),
    (OPENMPI5, "shm", "Open MPI: OMPI_MCA_btl_sm_eager_limit={}"),
    (OPENMPI4, "shm", "Open MPI: OMPI_MCA_btl_vader_eager_limit={}"),
    (OPENMPI5, "ucx", "Open MPI: UCX_RNDV_THRESH={next}"),
    (OPENMPI5, "libfabric", "Open MPI: FI_OFI_RXM_BUFFER_SIZE={}"),
    (MPICH5, "shm", "MPICH: MPIR_CVAR_CH4_IPC_CMA_P2P_THRESHOLD={next}"),
    (MPICH4, "shm", ""),  # its shared memory has no limit
    (MPICH5, "libfabric", "MPICH: MPIR_CVAR_CH4_OFI_EAGER_THRESHOLD={} FI_OFI_RXM_BUFFER_SIZE={}"),
    (MPICH4, "libfabric", "MPICH: MPIR_CVAR_CH4_OFI_EAGER_MAX_MSG_SIZE={} FI_OFI_RXM_BUFFER_SIZE={}"),
    (MPICH4, "ucx", "MPICH: UCX_RNDV_THRESH={next}"),
    (INTEL, "shm", "Intel MPI: I_MPI_SHM_EAGER_THRESHOLD={}"),
    (INTEL, "libfabric", "Intel MPI: FI_OFI_RXM_BUFFER_SIZE={}"),
    (LAM, "tcp", "LAM/MPI: LAM_MPI_SSI_rpi_tcp_short={}"),
    (UNKNOWN, "tcp", ""),
    (OPENMPI5, None, ""),  # of an older run nobody knows what its messages stood on
]


@pytest.mark.parametrize(("version", "below", "words"), LIMITS)
@pytest.mark.parametrize(
    ("rule", "fires", "limit"),
    [("eager-limit", eager_limit.fires, 16384), ("late-switch", late_switch.fires, 1024)],
)
def test_a_limit_is_named_as_netpipe_and_as_the_library_have_it(
    rule: str, fires: Callable[[], Run], limit: int, version: str, below: str | None, words: str
) -> None:
    remedy = found(rule, of(fires(), version, below)).remedy
    assert f"eager={limit}" in remedy
    in_brackets = f" ({words.format(limit, limit, next=limit + 1)})"
    assert (in_brackets in remedy) if words else ("(" not in remedy)


def test_a_layer_that_calls_ucx_itself_has_the_variable_of_ucx() -> None:
    made = of(eager_limit.fires(), "UCX 1.18.0", "tcp", module="ucx")
    for plan in made.plans:
        plan.variants[:] = [
            msgspec.structs.replace(one, module="ucx", options={"rndv": "0"}) for one in plan.variants
        ]
    assert "rndv=16384 (UCX: UCX_RNDV_THRESH=16384)" in found("eager-limit", made).remedy


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (OPENMPI5, "Open MPI: OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,sm"),
        (OPENMPI4, "Open MPI: OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader"),
        (MPICH5, "MPICH: MPIR_CVAR_NOLOCAL=0"),
        (INTEL, "Intel MPI: I_MPI_FABRICS=shm"),
        (LAM, "LAM/MPI: LAM_MPI_SSI_rpi=usysv"),
    ],
)
def test_the_way_through_memory_is_named_as_both_have_it(version: str, words: str) -> None:
    made = of(wrong_transport.fires(), version, "tcp")
    assert found("wrong-transport", made).remedy == f"transport=shm ({words})"


@pytest.mark.parametrize(
    ("below", "way"),
    [("tcp", "TCP"), ("ucx", "UCX over TCP"), ("libfabric", "libfabric over TCP"), (None, "TCP")],
)
def test_the_library_that_took_the_messages_to_the_network_is_named(below: str | None, way: str) -> None:
    one = found("wrong-transport", of(wrong_transport.fires(), OPENMPI5, below))
    assert one.what.startswith(f"mpi@x sends through {way} although its ranks share a host: ")
    assert one.remedy == "transport=shm (Open MPI: OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,sm)"


@pytest.mark.parametrize(
    ("env", "remedied"),
    [
        ("OMPI_MCA_pml=ob1;OMPI_MCA_btl=^sm", "mpi@x:transport=shm"),
        ("OMPI_MCA_btl=^sm;OMPI_MCA_x=1", "mpi@x:env=OMPI_MCA_x=1,transport=shm"),
        ("", "mpi@x:transport=shm"),
    ],
)
def test_the_experiment_leaves_out_variables_that_would_win_over_its_setting(env: str, remedied: str) -> None:
    made = of(wrong_transport.fires(), OPENMPI5, "tcp")
    options = {"transport": "auto", "env": env}
    for plan in made.plans:
        plan.variants[:] = [msgspec.structs.replace(one, options=options) for one in plan.variants]
    confirm = found("wrong-transport", made).confirm
    assert confirm is not None
    assert confirm.remedied == remedied


def test_of_an_unknown_library_its_own_setting_is_left_to_its_user() -> None:
    remedy = found("wrong-transport", of(wrong_transport.fires(), UNKNOWN, "tcp")).remedy
    assert remedy == "transport=shm, or the library's own setting"


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (OPENMPI5, " (Open MPI: OMPI_MCA_smsc=cma)"),
        (OPENMPI4, " (Open MPI: OMPI_MCA_btl_vader_single_copy_mechanism=cma)"),
        (MPICH5, " (MPICH: MPIR_CVAR_CH4_CMA_ENABLE=1)"),
        (MPICH4, ""),
        (INTEL, " (Intel MPI: I_MPI_SHM_CMA=1)"),
    ],
)
def test_one_copy_is_named_as_both_have_it(version: str, words: str) -> None:
    made = extra_copy.run_of("mpi@x", {"single_copy": "none"}, {}, below="shm")
    remedy = found("extra-copy", of(made, version, "shm")).remedy
    assert remedy == f"single_copy=cma{words}; in a container --cap-add=SYS_PTRACE"


@pytest.mark.parametrize(
    ("version", "begins"),
    [
        (OPENMPI5, "OMPI_MCA_btl_sm_backing_directory=/dev/shm; or OMPI_MCA_shmem_posix_priority=100, "),
        (OPENMPI4, "OMPI_MCA_btl_vader_backing_directory=/dev/shm; or OMPI_MCA_shmem_posix_priority=100, "),
        (MPICH5, backing_file.REMEDY),
        (UNKNOWN, backing_file.REMEDY),
    ],
)
def test_shared_memory_without_a_file_on_a_disk_is_named_as_the_library_has_it(
    version: str, begins: str
) -> None:
    assert found("backing-file", of(backing_file.fires(), version, "shm")).remedy.startswith(begins)


@pytest.mark.parametrize(
    ("version", "below", "words"),
    [
        (OPENMPI5, "tcp", " (Open MPI: without OMPI_MCA_btl_tcp_sndbuf and OMPI_MCA_btl_tcp_rcvbuf),"),
        (MPICH4, "ucx", " (MPICH: without UCX_TCP_SNDBUF and UCX_TCP_RCVBUF),"),
        (LAM, "tcp", " (LAM/MPI: without LAM_MPI_SSI_rpi_tcp_sockbuf),"),
        (MPICH5, "libfabric", ","),
        (UNKNOWN, "tcp", ","),
    ],
)
def test_buffers_that_are_left_to_the_kernel_are_named_by_the_variables_that_set_them(
    version: str, below: str, words: str
) -> None:
    made = small_buffers.fires()
    for variant in made.variants:
        if variant.module == "tcp":
            variant.version = version
    reading = Reading(made)
    assert reading.losses  # against the layer that the example has below
    for variant in made.variants:
        if variant.module == "tcp":
            variant.below = below
    (one,) = [one for one in judge(reading).findings if one.rule == "small-buffers"]
    assert one.remedy.startswith(
        f"leave the buffers to the kernel{words} or set them above rate x round-trip time"
    )


def late(env: str = "", version: str = OPENMPI5, below: str = "tcp") -> Finding:
    """Of a library whose sockets are under Nagle's algorithm; netpipe has no option for that."""
    made = of(delayed_acknowledgement.fires(), version, below)
    for plan in made.plans:
        plan.variants[:] = [msgspec.structs.replace(one, options={"env": env}) for one in plan.variants]
    return found("delayed-acknowledgement", made)


@pytest.mark.parametrize(
    ("version", "below", "variable"),
    [
        (OPENMPI5, "tcp", "Open MPI: OMPI_MCA_btl_tcp_use_nagle=0 (here env=OMPI_MCA_btl_tcp_use_nagle=0)"),
        (MPICH4, "ucx", "MPICH: UCX_TCP_NODELAY=y (here env=UCX_TCP_NODELAY=y)"),
        (MPICH5, "libfabric", "TCP_NODELAY, or the library's own setting"),
    ],
)
def test_nagles_algorithm_is_switched_off_by_the_variable_of_the_library(
    version: str, below: str, variable: str
) -> None:
    one = late(version=version, below=below)
    assert one.remedy == f"switch Nagle's algorithm off: {variable}"
    assert (one.confirm is not None) == ("=" in variable)


def test_the_experiment_puts_the_variable_in_place_of_the_one_that_was_set() -> None:
    confirm = late("OMPI_MCA_pml=ob1;OMPI_MCA_btl_tcp_use_nagle=1").confirm
    assert confirm is not None
    assert confirm.remedied == "tcp:env=OMPI_MCA_pml=ob1;OMPI_MCA_btl_tcp_use_nagle=0"
