# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  (fixtures that are imported and then named as parameters)
"""tcp over several rails: messages dealt out to links of their own, between two network namespaces that two veth pairs
join; and what is refused on one host.
"""

from __future__ import annotations

import re
import secrets
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import WORKER, Outcome, Runner, parse, wait_for_samples
from machines import clear
from test_hosts import Site
from test_two_hosts import Serve, Server, namespaces_work, plan, serve, token  # noqa: F401

pytestmark = pytest.mark.module("tcp")

# The same devices on both hosts, each a network of its own, over both versions of IP.
NEAR = {"rail0": ("10.79.0.1", "fd79::1"), "rail1": ("10.79.1.1", "fd79:1::1")}
FAR = {"rail0": ("10.79.0.2", "fd79::2"), "rail1": ("10.79.1.2", "fd79:1::2")}


def ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=20).stdout


@dataclass(frozen=True)
class Hosts:
    near: str
    far: str

    def sent_bytes(self, rail: str) -> int:
        """By both ends of this rail so far."""
        file = f"/sys/class/net/{rail}/statistics/tx_bytes"
        return sum(
            int(
                subprocess.run(
                    ["ip", "netns", "exec", host, "cat", file], check=True, capture_output=True, timeout=20
                ).stdout
            )
            for host in (self.near, self.far)
        )


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    if not namespaces_work():
        pytest.skip("network namespaces need root, iproute2 and a kernel that lets us make them")
    tag = secrets.token_hex(3)
    made = Hosts(f"npa{tag}", f"npb{tag}")
    try:
        for name in (made.near, made.far):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        for rail in NEAR:
            ip(*f"link add {rail} netns {made.near} type veth peer name {rail} netns {made.far}".split())
        for name, addresses in ((made.near, NEAR), (made.far, FAR)):
            for rail, (v4, v6) in addresses.items():
                ip("-n", name, "addr", "add", f"{v4}/24", "dev", rail)
                ip("-n", name, "addr", "add", f"{v6}/64", "dev", rail, "nodad")
                ip("-n", name, "link", "set", rail, "up")
        yield made
    finally:
        for name in (made.near, made.far):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=20, check=False)


@pytest.fixture
def server(serve: Serve, hosts: Hosts) -> Server:
    return serve("--bind", "10.79.0.2", inside=("ip", "netns", "exec", hosts.far))


def between(hosts: Hosts, server: Server, tmp_path: Path, *lines: str, near: str | None = None) -> Outcome:
    path = tmp_path / "rails.jsonl"
    path.unlink(missing_ok=True)
    text = "\n".join(["netpipe-plan 1", f"record {path}", *plan(server, *lines), "end", ""])
    done = subprocess.run(
        ["ip", "netns", "exec", near or hosts.near, WORKER, "run"],
        input=text,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    records = parse(path.read_text()) if path.exists() else []
    return Outcome(done.returncode, done.stderr, parse(done.stdout), records)


def facts(done: Outcome) -> list[dict[str, Any]]:
    (variant,) = done.of("variant")
    return [rank["settings"] for rank in variant["ranks"]]


QUICK = ("schedule list", "sizes 1,65536,1000003", "budget 0.1", "timeout 5")


def test_both_rails_carry_their_share_and_every_byte_arrives(
    hosts: Hosts, server: Server, tmp_path: Path
) -> None:
    before = {rail: hosts.sent_bytes(rail) for rail in NEAR}
    patterns = ("pattern pingpong", "pattern stream", "pattern bidirectional")
    large = ("schedule list", "sizes 1000003", "verify yes", "budget 0.1", "timeout 5")
    variant = "variant tcp:rails=rail0+rail1,streams=2,stripe=4k"
    done = between(hosts, server, tmp_path, variant, *patterns, *large)
    assert done.code == 0, done.said
    points = done.of("point")
    assert len(points) == 3
    assert all(p["verified_bytes"] > 0 for p in points)
    carried = {rail: hosts.sent_bytes(rail) - before[rail] for rail in NEAR}
    assert 0.8 < carried["rail0"] / carried["rail1"] < 1.25, carried
    for own, peer, rank in ((NEAR, FAR, facts(done)[0]), (FAR, NEAR, facts(done)[1])):
        assert (rank["rails"], rank["streams"]) == ("2", "2")
        for i, rail in enumerate(NEAR):
            assert rank[f"rail_{i + 1}_interface"] == rail
            assert rank[f"rail_{i + 1}_local"].startswith(own[rail][0] + " port ")
            assert rank[f"rail_{i + 1}_peer"].startswith(peer[rail][0] + " port ")


@pytest.fixture
def site(hosts: Hosts, tmp_path: Path) -> Iterator[Site]:
    """For `netpipe run` from the near host, whose ssh enters the far one."""
    yield Site(hosts.near, hosts.far, tmp_path)
    for name in (hosts.near, hosts.far):
        clear(name)


BOTH = "10.79.0.1,10.79.0.2"  # for --hosts: as they are called on the first rail


def test_netpipe_run_between_hosts_deals_its_messages_out_to_both_rails(hosts: Hosts, site: Site) -> None:
    before = {rail: hosts.sent_bytes(rail) for rail in NEAR}
    variant = "tcp:rails=rail0+rail1,streams=2,stripe=4k"
    patterns = ("--pattern", "pingpong", "--pattern", "stream")
    few = ("--sizes", "65536,1000003", "--budget", "0.1", "--verify")
    done = site.run(variant, *patterns, *few, hosts=BOTH)
    assert done.code == 0, done.said
    points = done.of("point")
    assert len(points) == 4
    assert all(p["verified_bytes"] > 0 for p in points)
    carried = {rail: hosts.sent_bytes(rail) - before[rail] for rail in NEAR}
    assert sum(carried.values()) > sum(p["verified_bytes"] for p in points)
    assert 0.8 < carried["rail0"] / carried["rail1"] < 1.25, carried
    assert [call.split()[0] for call in site.calls] == ["10.79.0.2"]
    for own, peer, rank in ((NEAR, FAR, facts(done)[0]), (FAR, NEAR, facts(done)[1])):
        for i, rail in enumerate(NEAR):
            assert rank[f"rail_{i + 1}_interface"] == rail
            assert rank[f"rail_{i + 1}_local"].startswith(own[rail][0] + " port ")
            assert rank[f"rail_{i + 1}_peer"].startswith(peer[rail][0] + " port ")
    site.sees_nothing_left()


def test_rails_that_one_of_the_hosts_lacks_end_netpipe_run_with_its_rank(hosts: Hosts, site: Site) -> None:
    ip("-n", hosts.near, "link", "add", "only", "type", "veth", "peer", "name", "here")
    try:
        ip("-n", hosts.near, "addr", "add", "10.80.0.1/24", "dev", "only")
        ip("-n", hosts.near, "link", "set", "only", "up")
        done = site.run("tcp:rails=rail0+only", "--sizes", "8", hosts=BOTH)
    finally:
        ip("-n", hosts.near, "link", "del", "only")
    assert done.code == 3, done.said
    (error,) = done.of("error")
    assert "rank 1 on 10.79.0.2: module tcp" in error["message"]
    assert "'only' is neither a device of this host nor an IP address; it has" in error["message"]
    assert not done.of("sample")
    site.sees_nothing_left()


@pytest.fixture
def multipath(hosts: Hosts) -> Iterator[None]:
    """Where the far host names its address on the second rail, and the near one connects to it. The kernel listens
    there itself, at a port of its own, because rank 1 listens at one address.
    """
    limits = ["mptcp", "limits", "set", "subflows", "2", "add_addr_accepted", "2"]
    named = ["mptcp", "endpoint", "add", "10.79.1.2", "dev", "rail1", "port", "45079", "signal"]
    for name, words in ((hosts.near, limits), (hosts.far, limits), (hosts.far, named)):
        done = subprocess.run(
            ["ip", "-n", name, *words], capture_output=True, text=True, timeout=20, check=False
        )
        if done.returncode != 0:
            pytest.skip(
                f"needs Multipath TCP (Linux 5.16, iproute2 5.17): ip {' '.join(words)}: {done.stderr}"
            )
    yield
    ip("-n", hosts.far, "mptcp", "endpoint", "flush")


def test_multipath_tcp_takes_both_links(
    hosts: Hosts, multipath: None, server: Server, tmp_path: Path
) -> None:
    before = {rail: hosts.sent_bytes(rail) for rail in NEAR}
    lines = ("pattern stream", "schedule list", "sizes 1000003", "verify yes", "budget 0.3", "timeout 5")
    done = between(hosts, server, tmp_path, "variant tcp:protocol=mptcp", *lines)
    assert done.code == 0, done.said
    (point,) = done.of("point")
    assert point["verified_bytes"] > 0
    assert point["counters"]["subflows"] == 2
    assert [rank["mptcp_fell_back"] for rank in facts(done)] == ["no", "no"]
    carried = {rail: hosts.sent_bytes(rail) - before[rail] for rail in NEAR}
    assert sum(carried.values()) > point["verified_bytes"]
    assert min(carried.values()) > 1_000_003, carried


@pytest.mark.parametrize(
    ("rails", "device", "address"),
    [
        ("rail1", "rail1", NEAR["rail1"][0]),
        ("10.79.1.1", "rail1", NEAR["rail1"][0]),  # its own address
        ("10.79.1.2", "rail1", NEAR["rail1"][0]),  # that of the other end of the link
        ("10.79.1.0/24", "rail1", NEAR["rail1"][0]),
        ("fd79:1::2", "rail1", NEAR["rail1"][1]),
        ("rail1,ip=6", "rail1", NEAR["rail1"][1]),
    ],
)
def test_a_rail_is_named_by_device_network_or_address(
    hosts: Hosts, server: Server, tmp_path: Path, rails: str, device: str, address: str
) -> None:
    done = between(hosts, server, tmp_path, f"variant tcp:rails={rails}", *QUICK)
    assert done.code == 0, done.said
    assert facts(done)[0]["rail_1_interface"] == device
    assert facts(done)[0]["rail_1_local"].startswith(address + " port ")
    assert facts(done)[0]["local"] == facts(done)[0]["rail_1_local"]


def test_several_streams_go_over_each_rail(hosts: Hosts, server: Server, tmp_path: Path) -> None:
    variant = "variant tcp:rails=rail1+rail0,streams=4,stripe=1000,wait=poll"
    done = between(hosts, server, tmp_path, variant, "pattern stream", "verify yes", *QUICK)
    assert done.code == 0, done.said
    assert all(p["verified_bytes"] > 0 for p in done.of("point"))
    rank = facts(done)[0]
    assert (rank["rails"], rank["streams"]) == ("2", "4")
    assert (rank["rail_1_interface"], rank["rail_2_interface"]) == ("rail1", "rail0")


@pytest.mark.parametrize("end", ["near", pytest.param("far", marks=pytest.mark.deep)])
def test_a_rail_that_goes_down_ends_the_run_with_its_name(
    hosts: Hosts, server: Server, tmp_path: Path, end: str
) -> None:
    path = tmp_path / "down.jsonl"
    variant = "variant tcp:rails=rail0+rail1,streams=2,stripe=4k"
    lines = (variant, "pattern pingpong", "schedule list", "sizes 65536", "budget 30", "timeout 1")
    process = subprocess.Popen(
        ["ip", "netns", "exec", hosts.near, WORKER, "run"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    host = getattr(hosts, end)
    assert process.stdin is not None
    assert process.stderr is not None
    try:
        process.stdin.write("\n".join(["netpipe-plan 1", f"record {path}", *plan(server, *lines), "end", ""]))
        process.stdin.flush()
        wait_for_samples(path)
        ip("-n", host, "link", "set", "rail1", "down")
        assert process.wait(30) == 4
    finally:
        process.kill()
        process.wait(10)
        process.stdin.close()
        process.stderr.close()
        ip("-n", host, "link", "set", "rail1", "up")
        if end == "near":
            ip("-n", host, "addr", "replace", f"{NEAR['rail1'][1]}/64", "dev", "rail1", "nodad")
        else:
            ip("-n", host, "addr", "replace", f"{FAR['rail1'][1]}/64", "dev", "rail1", "nodad")
    (error,) = [r for r in parse(path.read_text()) if r["type"] == "error"]
    where = "is down" if end == "near" else "has no carrier: the other end is down"
    assert f"rail 2 (10.79.1.1 on rail1) {where}" in error["message"]


def test_a_rail_that_is_down_is_refused(hosts: Hosts, server: Server, tmp_path: Path) -> None:
    ip("-n", hosts.near, "link", "add", "idle", "type", "veth", "peer", "name", "idler")
    try:
        ip("-n", hosts.near, "addr", "add", "10.80.0.1/24", "dev", "idle")
        done = between(hosts, server, tmp_path, "variant tcp:rails=rail0+10.80.0.1", *QUICK)
    finally:
        ip("-n", hosts.near, "link", "del", "idle")
    assert done.code == 3, done.said
    (error,) = done.of("error")
    assert "device idle of 10.80.0.1 is down; `ip link set idle up`" in error["message"]
    assert not done.of("sample")


@pytest.mark.deep
def test_a_rail_that_leads_nowhere_is_named(hosts: Hosts, server: Server, tmp_path: Path) -> None:
    """Both ends have the address, and no packet comes through."""
    drop = (
        "tc",
        "qdisc",
        "replace",
        "dev",
        "rail1",
        "root",
        "tbf",
        "rate",
        "8bit",
        "burst",
        "1",
        "limit",
        "1",
    )
    done_drop = subprocess.run(
        ["ip", "netns", "exec", hosts.far, *drop], capture_output=True, text=True, timeout=20, check=False
    )
    if done_drop.returncode != 0:
        pytest.skip(f"needs tc with tbf: {done_drop.stderr.strip()}")
    try:
        variant = "variant tcp:rails=rail0+rail1"
        done = between(hosts, server, tmp_path, variant, "schedule list", "sizes 8", "timeout 1")
    finally:
        stop = ("tc", "qdisc", "del", "dev", "rail1", "root")
        subprocess.run(
            ["ip", "netns", "exec", hosts.far, *stop], capture_output=True, timeout=20, check=False
        )
    assert done.code == 4, done.said
    (error,) = done.of("error")
    assert re.search(r"rail 2 \(10\.79\.1\.\d on rail1\)", error["message"]), error["message"]


@pytest.mark.parametrize(
    ("variant", "code", "says"),
    [
        ("tcp:rails=nosuch+lo", 3, "'nosuch' is neither a device of this host nor an IP address; it has lo 127.0.0.1"),
        ("tcp:rails=lo+", 3, "'' is neither a device of this host nor an IP address"),
        ("tcp:rails=203.0.113.9", 3, "203.0.113.9 is no address of this host, nor in the network of one; it has lo"),
        ("tcp:rails=10.0.0.0/33", 3, "'10.0.0.0/33' is neither a device of this host nor an IP address"),
        ("tcp:rails=lo+127.0.0.1", 2, "names 127.0.0.1 twice"),
        ("tcp:rails=127.0.0.1+127.0.0.2,streams=3", 2, "give a multiple of 2"),
        ("tcp:rails=127.0.0.1,ip=6", 2, "127.0.0.1 is not an address of ip=6"),
    ],
)  # fmt: skip
def test_rails_that_cannot_be_are_refused_with_what_there_is(
    measure: Runner, variant: str, code: int, says: str
) -> None:
    done = measure(f"variant {variant}", *QUICK)
    assert done.code == code, done.said
    (error,) = done.of("error")
    assert says in error["message"]
    assert not done.of("sample")


def test_a_rail_that_would_not_leave_the_host_is_refused(hosts: Hosts, tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    text = "\n".join(["netpipe-plan 1", f"record {path}", "variant tcp:rails=rail0", *QUICK, "end", ""])
    done = subprocess.run(
        ["ip", "netns", "exec", hosts.near, WORKER, "run"],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    (error,) = [r for r in parse(path.read_text()) if r["type"] == "error"]
    assert (
        "rail 1 (10.79.0.1 on rail0) would carry nothing: rank 1, at 10.79.0.1, is on this host"
        in error["message"]
    )


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.deep)])
def test_addresses_of_loopback_are_rails_on_one_host(measure: Runner, ranks: int) -> None:
    variant = "variant tcp:rails=127.0.0.1+127.0.0.2+127.0.0.3,stripe=10k,streams=3"
    done = measure(variant, f"ranks {ranks}", "pattern pingpong", "verify yes", *QUICK)
    assert done.code == 0, done.said
    assert all(p["verified_bytes"] > 0 for p in done.of("point"))
    for rank in facts(done):
        assert [rank[f"rail_{i}_local"].split()[0] for i in (1, 2, 3)] == [f"127.0.0.{i}" for i in (1, 2, 3)]
        assert [rank[f"rail_{i}_peer"].split()[0] for i in (1, 2, 3)] == [f"127.0.0.{i}" for i in (1, 2, 3)]
        assert rank["rail_2_interface"] == "lo"
