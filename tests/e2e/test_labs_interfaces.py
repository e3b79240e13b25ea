# SPDX-License-Identifier: Apache-2.0
"""Hosts of a lab with a second interface that the other host does not reach: a library that takes it does not start or
answer, the finding says so with the library's own variable, and with that it runs. netpipe's own layers do not take it.
"""

from __future__ import annotations

import json
import shlex

import pytest
from mpi import Mpis
from test_labs import COMMAND, Labs, labs  # noqa: F401  (a fixture)

pytestmark = [pytest.mark.module("mpi"), pytest.mark.deep]

BRIDGE = "docker0"


def add_bridges(labs: Labs, *, with_port: bool = False) -> None:  # noqa: F811
    """As container systems make them, with one address on every host. With a port, as that of a container that runs,
    they have a link; without one they have none.
    """
    for host in ("lab1", "lab2"):
        labs.on(host, "ip", "link", "add", BRIDGE, "type", "bridge")
        labs.on(host, "ip", "address", "add", "172.17.0.1/16", "dev", BRIDGE)
        labs.on(host, "ip", "link", "set", BRIDGE, "up")
        if with_port:
            labs.on(host, "ip", "link", "add", "port0", "type", "veth", "peer", "name", "inside0")
            labs.on(host, "ip", "link", "set", "port0", "master", BRIDGE, "up")
            labs.on(host, "ip", "link", "set", "inside0", "up")


def test_open_mpi_takes_the_bridge_of_a_container_system_until_it_is_told_another(
    labs: Labs,  # noqa: F811
    with_mpis: Mpis,
) -> None:
    with_mpis.need("openmpi")
    labs.up()
    add_bridges(labs)
    plain = "mpi@openmpi:transport=tcp"
    done = labs.measure(plain, "--sizes", "8", "--budget", "0.3", "--launches", "1", "--timeout", "8")
    assert done.code == 4, done.said
    assert not done.of("point")
    code, out, err = labs.call("explain", "run.jsonl", "--json")
    assert code == 0, err
    (found,) = [one for one in json.loads(out) if one["rule"] == "unreachable-interface"]
    assert found["variant"] == plain
    assert {BRIDGE, "eth0"} <= set(found["what"].replace(",", " ").replace(".", " ").split())
    assert "OMPI_MCA_btl_tcp_if_include=eth0" in found["remedy"]
    # Longer than it needs: a yardstick on a busy machine has the same deadline.
    told = shlex.split(found["experiment"].removeprefix("netpipe "))
    again = [*COMMAND, *(word if told[place - 1] != "--timeout" else "60" for place, word in enumerate(told))]
    code, out, err = labs.call(
        "lab", "exec", "lab1", "--", *again, "--budget", "0.3", "-o", "told.jsonl", limit_s=200
    )
    assert code == 0, out + err
    records = [json.loads(line) for line in (labs.folder / "told.jsonl").read_text().splitlines()]
    points = [one for one in records if one["type"] == "point"]
    assert [one["variant"] for one in points] == [f"{plain},env=OMPI_MCA_btl_tcp_if_include=eth0"]


@pytest.mark.parametrize(
    "layer",
    [
        pytest.param("ucx:tls=tcp", marks=pytest.mark.module("ucx")),
        pytest.param("libfabric", marks=pytest.mark.module("libfabric")),
    ],
)
def test_a_layer_of_netpipe_takes_the_interface_by_which_the_hosts_met(labs: Labs, layer: str) -> None:  # noqa: F811
    """Both libraries would choose among all interfaces: why the rule says nothing of them over TCP."""
    made = labs.up()
    add_bridges(labs, with_port=True)
    assert labs.on("lab1", "cat", f"/sys/class/net/{BRIDGE}/operstate") == "up\n"
    done = labs.measure(layer, "--sizes", "8,65536", "--budget", "0.3", "--launches", "1", "--verify")
    assert done.code == 0, done.said
    assert len(done.of("point")) == 2
    (opened,) = done.of("variant")
    for rank, host in zip(opened["ranks"], made["hosts"], strict=True):
        said = " ".join(rank["settings"].values())
        assert host["address"] in said
        assert "172.17." not in said


@pytest.mark.module("ucx")
def test_ucx_takes_the_bridge_where_it_may_take_all_devices_until_it_is_told_one(labs: Labs) -> None:  # noqa: F811
    labs.up()
    add_bridges(labs, with_port=True)
    done = labs.measure("ucx:tls=tcp,devices=all", "--sizes", "8", "--budget", "0.3", "--launches", "1")
    assert done.code == 3, done.said
    code, out, err = labs.call("explain", "run.jsonl", "--json")
    assert code == 0, err
    (found,) = [one for one in json.loads(out) if one["rule"] == "unreachable-interface"]
    assert BRIDGE in found["what"]
    assert "devices=eth0 (UCX: UCX_NET_DEVICES=eth0)" in found["remedy"]
    told = [*COMMAND, *shlex.split(found["experiment"].removeprefix("netpipe "))]
    code, out, err = labs.call(
        "lab", "exec", "lab1", "--", *told, "--budget", "0.3", "-o", "told.jsonl", limit_s=200
    )
    assert code == 0, out + err
