# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  (fixtures that are imported and then named as parameters)
"""udp to groups of IPv6, of all ranks and of two: over a loopback that has the route which Linux does not give it, and
between two hosts.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import Callable, Iterator
from pathlib import Path as File

import pytest
from conftest import Outcome, Runner
from lossy_path import FAR_ADDRESS_6, NEAR_ADDRESS_6, Path, goes_to_a_group, has_ipv6, ip, losing
from test_two_hosts import Serve, namespaces_work, serve, token  # noqa: F401
from test_udp import PINGPONG, STREAM, between, path, settings, shared_path  # noqa: F401
from test_udp import pytestmark as of_udp
from test_udp_cast import CAST, RANKS, SENDS, skipped, to_groups

pytestmark = [
    *of_udp,
    pytest.mark.skipif(not has_ipv6() or not namespaces_work(), reason="needs root, iproute2 and IPv6"),
]

ROUTE = "route add local ff00::/8 dev lo table local"


@contextlib.contextmanager
def loopback(*commands: str) -> Iterator[tuple[str, ...]]:
    """A network namespace with nothing else, after these commands of ip; what enters it."""
    name = f"np{secrets.token_hex(3)}"
    ip("netns", "add", name)
    try:
        ip("-n", name, "link", "set", "lo", "up")
        for command in commands:
            ip("-6", "-n", name, *command.split())
        yield ("ip", "netns", "exec", name)
    finally:
        ip("netns", "del", name)


Alone = Callable[..., Outcome]


@pytest.fixture
def alone(measure: Runner) -> Iterator[Alone]:
    """A plan with ranks that reach each other at ::1."""
    with loopback(ROUTE) as inside:
        yield lambda options, sizes, *lines: measure(
            f"variant udp:ip=6,{options}",
            "schedule list",
            f"sizes {sizes}",
            "verify yes",
            "budget 0.1",
            "timeout 20",
            *lines,
            inside=inside,
        )


def all_arrived(done: Outcome, points: int) -> bool:
    whole = [point for point in done.of("point") if point["verified_bytes"] > 0 or point["size_bytes"] == 0]
    return len(whole) == len(done.of("point")) == points


@pytest.mark.parametrize(
    ("options", "group", "ttl"),
    [
        ("wait=block", "ff15::", "1"),
        ("cast_group=ff12::1:2:3", "ff12::1:2:3", "1"),
        pytest.param("ttl=4,wait=poll", "ff15::", "4", marks=pytest.mark.deep),
        pytest.param("payload=1472,gso=yes,gro=yes", "ff15::", "1", marks=pytest.mark.deep),
    ],
)
def test_what_is_cast_arrives_at_all_others(alone: Alone, options: str, group: str, ttl: str) -> None:
    patterns = (CAST,) if "ttl" in options or "group" in options else (CAST, SENDS)
    done = alone(options, "0,8,70001", *patterns, f"ranks {RANKS}")
    assert done.code == 0, done.said
    assert all_arrived(done, 3 * len(patterns))
    found = settings(done)
    assert (found["ip"], found["interface"], found["cast_ttl"]) == ("6", "lo", ttl)
    assert found["cast_group"].startswith(group)
    assert len({settings(done, rank)["cast_group"] for rank in range(RANKS)}) == 1
    (point,) = done.of("point", pattern="cast", size_bytes=8)
    assert point["counters"]["strangers"] == 0
    if point["counters"]["messages_lost"] == 0:
        # A cast and three answers leave; each of the three arrives, and so does each answer.
        assert point["counters"]["datagrams_sent"] * 6 == point["counters"]["datagrams_received"] * 4


@pytest.mark.parametrize("group", ["ff15::1:2:3", "ff12::1:2:3"])
def test_what_two_ranks_send_to_a_group_arrives_whole(alone: Alone, group: str) -> None:
    done = alone(f"multicast={group},connected=no", "0,1,70001", PINGPONG, STREAM)
    assert done.code == 0, done.said
    assert all_arrived(done, 6)
    found = settings(done)
    assert found["multicast_group"] == group
    assert found["local"].startswith(f"{group} port ")
    assert (found["interface"], found["multicast_ttl"]) == ("lo", "1")


def test_a_group_of_pairs_is_that_of_casts_too(alone: Alone) -> None:
    done = alone("multicast=ff15::1:2:3,connected=no,ttl=3", "8", PINGPONG, CAST)
    assert done.code == 0, done.said
    found = settings(done)
    assert {found["multicast_group"], found["cast_group"]} == {"ff15::1:2:3"}
    assert {found["multicast_ttl"], found["cast_ttl"]} == {"3"}


def test_a_loopback_without_the_route_is_named_with_the_remedy(measure: Runner) -> None:
    lines = ("schedule list", "sizes 8", CAST, PINGPONG, "budget 0.1")
    with loopback() as inside:
        done = measure("variant udp:ip=6", *lines, inside=inside)
        assert done.code == 0, done.said
        assert f"add the route: ip -6 {ROUTE}" in skipped(done, "cast")
        assert done.of("point", pattern="pingpong")
        refused = measure("variant udp:ip=6,multicast=ff15::1,connected=no", *lines, inside=inside)
    assert refused.code == 3
    assert f"lo sends to no IPv6 group (Network is unreachable); add the route: ip -6 {ROUTE}" in refused.said


# ------------------------------------------------------------------------------------------------------ two hosts


def test_casts_that_are_lost_between_two_hosts_are_a_measure(
    path: Path, serve: Serve, tmp_path: File
) -> None:
    path.treat = to_groups(losing(0.2))
    lines = ("schedule list", "sizes 0,8,5000", CAST, SENDS, "verify yes", "budget 0.4", "timeout 20")
    done = between(path, serve, tmp_path, "variant udp", *lines, far=FAR_ADDRESS_6)
    assert done.code == 0, done.said
    assert (settings(done)["ip"], settings(done)["interface"]) == ("6", path.near)
    lost = {
        pattern: sum(one["lost"] for one in done.of("sample", pattern=pattern))
        for pattern in ("cast", "cast:by=sends")
    }
    assert lost["cast"] > 0
    assert lost["cast:by=sends"] == 0, "no message to a single rank goes to the group"


@pytest.mark.parametrize("group", ["ff15::1:2:3", "ff12::1:2:3"])
def test_pairs_on_two_hosts_send_from_the_address_that_they_were_given(
    path: Path, serve: Serve, tmp_path: File, group: str
) -> None:
    """Their interfaces have an address of the link too, which the kernel would choose for a group of the link."""
    sources = set()

    def look(packet: bytes) -> list[bytes]:
        if goes_to_a_group(packet):
            sources.add(packet[8:24])
        return [packet]

    path.treat = look
    lines = ("schedule list", "sizes 8,5000", PINGPONG, "verify yes", "budget 0.1", "timeout 20")
    variant = f"variant udp:multicast={group},connected=no"
    done = between(path, serve, tmp_path, variant, *lines, far=FAR_ADDRESS_6)
    assert done.code == 0, done.said
    assert all_arrived(done, 2)
    assert sources == {socket.inet_pton(socket.AF_INET6, one) for one in (NEAR_ADDRESS_6, FAR_ADDRESS_6)}


def test_a_path_without_multicast_is_named(path: Path, serve: Serve, tmp_path: File) -> None:
    path.treat = to_groups(losing(1.1))
    lines = ("schedule list", "sizes 8", CAST, PINGPONG, "budget 0.1", "timeout 3")
    done = between(path, serve, tmp_path, "variant udp", *lines, far=FAR_ADDRESS_6)
    assert done.code == 0, done.said
    assert "or a switch what goes to the group, in between?" in skipped(done, "cast")
    assert done.of("point", pattern="pingpong")
