# SPDX-License-Identifier: Apache-2.0
"""A library between hosts that does not start or answer, and a host with several interfaces: a possible cause, and the
variable by which each library is told."""

from __future__ import annotations

import pytest

from netpipe.findings import Finding, examples, judge
from netpipe.reading import Reading
from netpipe.records import Environment, Error, PlannedVariant, Rank, Run, Variant

ETH, DOCKER, LO = {"name": "eth0", "driver": "x"}, {"name": "docker0", "driver": "bridge"}, {"name": "lo"}
SPARE = {"name": "eth1", "driver": "x", "state": "down"}
OPENING = "a process: the module did not return from opening or connecting"
HANG = "0 of 2 processes joined within 45 s; try the launcher by hand"
SLOW = "rank 0: module mpi@openmpi did not complete within 10.0 s and was stopped"


def run(
    *interfaces: dict[str, str],
    module: str = "mpi@openmpi",
    message: str = HANG,
    code: int = 4,
    hosts: tuple[str, ...] = ("--hosts", "node17,node18"),
    size: int | None = None,
    version: str = "",
    below: str | None = None,
    env: str | None = "",
    transport: str = "auto",
    rdma: tuple[str, ...] = (),
    also: dict[str, str] | None = None,
) -> Run:
    """`version`: of a variant that was opened before it failed. `also`: more of its options."""
    devices = [{"name": name} for name in rdma]
    facts = {"network": {"interfaces": list(interfaces), "rdma_devices": devices}}
    where = [Rank(rank=n, host=f"node{17 + n}") for n in range(2)]
    opened = (
        [Variant(variant=module, module=module, version=version, below=below, ranks=where)] if version else []
    )
    failed = Error(variant=module, size_bytes=size, code=code, message=message)
    made = examples.run(Environment(host="node17", facts=facts), failed)
    made.variants[:] = opened
    options = {"transport": transport} | ({} if env is None else {"env": env}) | (also or {})
    for plan in made.plans:
        plan.variants[:] = [PlannedVariant(variant=module, module=module, options=options)]
        plan.sizes[:] = [8, 4096]
    assert made.header is not None
    made.header.argv = ["run", module, *hosts, "--timeout", "9"]
    return made


def found(made: Run) -> list[Finding]:
    return [one for one in judge(Reading(made)).findings if one.rule == "unreachable-interface"]


def test_a_job_that_does_not_start_between_hosts_with_several_interfaces_is_told_to_name_one() -> None:
    (one,) = found(run(LO, ETH, DOCKER))
    assert (one.severity, one.variant, one.host) == ("warning", "mpi@openmpi", "node17")
    assert one.what.startswith(
        "mpi@openmpi did not start or answer between hosts, and node17 has 2 interfaces: eth0 and docker0."
    )
    assert one.certainty.startswith("Possible, and not shown")
    assert "such as eth0: OMPI_MCA_btl_tcp_if_include=eth0 (Open MPI)" in one.remedy
    assert "oob_tcp_if_include" in one.remedy, "mpirun itself may be what does not get through"
    assert one.experiment == (
        "netpipe run mpi@openmpi:env=OMPI_MCA_btl_tcp_if_include=eth0 --sizes 8 --hosts node17,node18 --timeout 9"
    )


def test_a_message_that_hangs_is_measured_again_at_its_size() -> None:
    (one,) = found(run(DOCKER, ETH, message=SLOW, size=65536, version="Open MPI 5.0.11", below="tcp"))
    assert one.size_bytes == 65536
    assert "--sizes 65536" in (one.experiment or "")


@pytest.mark.parametrize(
    "message", [HANG, SLOW, OPENING, "MPI_Send: Unreachable", "connect failed: No route to host"]
)
def test_a_library_that_is_silent_or_reaches_nobody_may_have_taken_another_interface(message: str) -> None:
    assert len(found(run(ETH, DOCKER, message=message))) == 1


Asked = tuple[str, str, str | None, str, str]  # module, version, below, transport, the variables

LIBRARIES: list[Asked] = [
    ("mpi@openmpi4", "", None, "auto", "OMPI_MCA_btl_tcp_if_include=eth0"),
    ("mpi@openmpi", "", None, "tcp", "OMPI_MCA_btl_tcp_if_include=eth0"),
    ("mpi@openmpi", "", None, "ucx_tcp", "UCX_NET_DEVICES=eth0"),
    ("mpi@openmpi", "", None, "ofi_tcp", "FI_TCP_IFACE=eth0"),
    ("mpi@mpich", "", None, "auto", "FI_TCP_IFACE=eth0 UCX_NET_DEVICES=eth0"),
    ("mpi@mpich", "MPICH 5.0.2", "libfabric", "auto", "FI_TCP_IFACE=eth0"),
    ("mpi@mpich4", "MPICH 4.0.2", "ucx", "auto", "UCX_NET_DEVICES=eth0"),
    ("mpi@impi", "", None, "auto", "FI_TCP_IFACE=eth0"),
    ("mpi@mine", "Open MPI 5.0.11", "ucx", "auto", "UCX_NET_DEVICES=eth0"),
]


@pytest.mark.parametrize(("module", "version", "below", "transport", "words"), LIBRARIES)
def test_each_library_is_told_by_its_own_variable(
    module: str, version: str, below: str | None, transport: str, words: str
) -> None:
    (one,) = found(run(ETH, DOCKER, module=module, version=version, below=below, transport=transport))
    assert f": {words} (" in one.remedy
    assert ";".join(words.split()) in (one.experiment or "")


def test_the_interface_of_a_layer_that_was_measured_between_the_hosts_is_no_guess() -> None:
    made = run(DOCKER, {"name": "ens3"}, ETH)
    ranks = [Rank(rank=n, host=f"node{17 + n}", settings={"interface": "eth0"}) for n in range(2)]
    made.variants.append(Variant(variant="tcp", module="tcp", ranks=ranks))
    assert "such as ens3" in found(made)[0].remedy
    made.points.append(examples.point("tcp", 8, 1000.0))
    (one,) = found(made)
    assert "the other host, eth0: OMPI_MCA_btl_tcp_if_include=eth0" in one.remedy


def test_variables_that_were_given_stay_in_the_experiment() -> None:
    (one,) = found(run(ETH, DOCKER, env="OMPI_MCA_pml=ob1"))
    assert "'mpi@openmpi:env=OMPI_MCA_pml=ob1;OMPI_MCA_btl_tcp_if_include=eth0'" in (one.experiment or "")


def test_a_layer_without_the_option_for_variables_has_no_experiment() -> None:
    (one,) = found(run(ETH, DOCKER, module="shmem@openmpi", env=None))
    assert one.experiment is None


def test_nccl_chooses_its_interface_itself_and_is_told_by_its_own_variable() -> None:
    said = "nccl: ncclCommInitRank did not return in time on rank 0 of 2"
    (one,) = found(run(ETH, DOCKER, module="nccl", message=said, env=None))
    assert "such as eth0: NCCL_SOCKET_IFNAME=eth0 in the environment of every rank (NCCL)" in one.remedy
    assert one.experiment is None, "the module has no option for it"
    assert not found(run(ETH, module="nccl", message=said, env=None))


def test_ucx_may_take_an_rdma_device_though_netpipe_names_its_interface_for_tcp() -> None:
    made = run(ETH, DOCKER, module="ucx", message=SLOW, env=None, rdma=("mlx5_0",), size=4096)
    (one,) = found(made)
    assert "node17 has 3 interfaces: eth0, docker0 and mlx5_0." in one.what
    assert "devices that are not TCP's" in one.cause
    assert "such as eth0: devices=eth0 (UCX: UCX_NET_DEVICES=eth0)" in one.remedy
    assert one.experiment == ("netpipe run ucx:devices=eth0 --sizes 4096 --hosts node17,node18 --timeout 9")


def of_ucx(rdma: tuple[str, ...] = ("mlx5_0",), **options: str) -> Run:
    return run(ETH, DOCKER, module="ucx", message=SLOW, env=None, rdma=rdma, also=options)


NO_WAY = (
    "rank 0 on lab1: module ucx, connecting: ucx: no way from rank 0 to rank 1 over {} (Destination is unreachable); "
    "UCX says: connect(fd=15, dest_addr=172.17.0.1:48761) failed: Connection refused"
)


def test_ucx_that_was_given_all_devices_is_told_to_take_one() -> None:
    """By devices=all, or by a variable of the user's environment: its message names them."""
    for options in ({"devices": "all"}, {"devices": ""}):
        said = NO_WAY.format("tcp/docker0, tcp/lo, tcp/eth0")
        (one,) = found(run(ETH, DOCKER, module="ucx", message=said, code=3, env=None, also=options))
        assert "docker0" in one.cause
        assert "such as eth0: devices=eth0 (UCX: UCX_NET_DEVICES=eth0)" in one.remedy
        assert one.experiment == "netpipe run ucx:devices=eth0 --sizes 8 --hosts node17,node18 --timeout 9"


def test_ucx_with_tcp_among_its_transports_may_take_the_interface_all_the_same() -> None:
    assert found(of_ucx(tls="rc+tcp"))


@pytest.mark.parametrize(
    "made",
    [
        of_ucx(rdma=()),  # over TCP it has the interface by which the ranks met
        of_ucx(devices="mlx5_0:1"),
        of_ucx(set="MAX_RNDV_RAILS=1+NET_DEVICES=eth0"),
        run(ETH, DOCKER, module="ucx", message=NO_WAY.format("tcp/lo, tcp/eth0"), code=3, env=None),
        of_ucx(tls="rc"),  # an interface for TCP is no remedy
        run(ETH, DOCKER, module="libfabric", message=SLOW, env=None, rdma=("mlx5_0",)),
        run(ETH, DOCKER, module="zmq", message=SLOW, env=None),
    ],
)
def test_a_layer_that_has_no_choice_or_was_told_took_no_other_interface(made: Run) -> None:
    assert not found(made)


@pytest.mark.parametrize(
    "made",
    [
        run(LO, ETH),  # there is no other interface
        run(LO, ETH, SPARE),
        run(ETH, DOCKER, hosts=()),  # all ranks here
        run(ETH, DOCKER, hosts=("--hosts=node17:2",)),
        run(ETH, DOCKER, code=3),
        run(ETH, DOCKER, message="rank 1: byte 17 is wrong"),
        run(ETH, DOCKER, message="rank 1 on node18 has gone"),
        run(
            ETH,
            DOCKER,
            message="a rank did not return in time from measuring a yardstick, so its process ended",
        ),
        run(ETH, DOCKER, env="OMPI_MCA_btl_tcp_if_include=eth0"),
        run(ETH, DOCKER, module="tcp"),  # netpipe chose its addresses itself
        run(ETH, DOCKER, module="mpi@simgrid"),
        run(ETH, DOCKER, module="mpi@unheard"),
    ],
)
def test_elsewhere_nothing_is_said_of_interfaces(made: Run) -> None:
    assert not found(made)
