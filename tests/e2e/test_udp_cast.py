# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  (fixtures that are imported and then named as parameters)
"""udp to all ranks at once: a datagram leaves once and arrives everywhere, each receiver loses its own, and where no
multicast gets through somebody says so.
"""

from __future__ import annotations

from pathlib import Path as File
from typing import Any

import pytest
from conftest import Outcome, Runner
from lossy_path import Path, Treat, goes_to_a_group, losing
from test_two_hosts import Serve, serve, token  # noqa: F401
from test_udp import NO_SAMPLE_WHOLE, between, listed, loss_of, path, settings, shared_path  # noqa: F401
from test_udp import pytestmark as of_udp

pytestmark = of_udp

CAST, SENDS = "pattern cast", "pattern cast:by=sends"
RANKS = 4


def losses_of_ranks(point: dict[str, Any]) -> dict[str, float]:
    return {
        one["name"]: float(one["median"])
        for one in point["measures"]
        if str(one["name"]).startswith("loss_rank_")
    }


def skipped(done: Outcome, pattern: str) -> str:
    (one,) = done.of("skipped", pattern=pattern)
    return str(one["reason"])


@pytest.mark.gate
@pytest.mark.parametrize(
    "options",
    [
        "",
        pytest.param("wait=poll", marks=pytest.mark.deep),
        pytest.param("payload=1472,gso=yes,gro=yes", marks=pytest.mark.deep),
    ],
)
def test_a_datagram_leaves_once_and_arrives_at_all_others(measure: Runner, options: str) -> None:
    done = listed(
        measure, options, "0,8,70001", CAST, SENDS, f"ranks {RANKS}", "verify yes", "budget 0.2", "timeout 20"
    )
    assert done.code == 0, done.said
    points = done.of("point")
    assert len(points) == 6
    assert all(point["verified_bytes"] > 0 for point in points if point["size_bytes"] > 0)
    whole = [point for point in points if loss_of(point) == 0 and point["size_bytes"] == 8]
    for point in whole:
        counted = point["counters"]
        answers = messages = RANKS - 1
        left = messages if point["pattern"] == "cast:by=sends" else 1
        if counted["messages_lost"] == 0:
            sent, received = counted["datagrams_sent"], counted["datagrams_received"]
            assert sent * (messages + answers) == received * (left + answers), point["pattern"]
        assert counted["strangers"] == 0
        assert point["bytes_per_s"] == pytest.approx(messages * 8e9 / point["median_ns"])
        assert set(losses_of_ranks(point)) == {f"loss_rank_{rank}" for rank in range(1, RANKS)}


def test_each_receiver_loses_its_own(measure: Runner) -> None:
    """Two datagrams and a half fit into the buffer of each, and eight leave before anybody answers."""
    done = listed(
        measure,
        "rcvbuf=2304",
        "8",
        "pattern cast:in_flight=8",
        f"ranks {RANKS}",
        "pin 0,0,0,0",
        "verify yes",
        "budget 0.3",
        "timeout 20",
    )
    assert done.code == 0, done.said
    samples = done.of("sample")
    assert sum(one["lost"] for one in samples) > 0
    (one,) = (*done.of("point"), *done.of("skipped"))
    assert one["type"] == "point" or one["reason"] == NO_SAMPLE_WHOLE
    of_ranks = losses_of_ranks(one)
    assert len(of_ranks) == RANKS - 1
    assert sum(of_ranks.values()) / len(of_ranks) == pytest.approx(loss_of(one), abs=1e-9)


def test_the_group_is_recorded_and_obeyed_by_casts_alone(measure: Runner) -> None:
    done = listed(
        measure,
        "cast_group=239.7.8.9,ttl=2",
        "8",
        CAST,
        "pattern pingpong",
        SENDS,
        "verify yes",
        "budget 0.1",
    )
    assert done.code == 0, done.said
    assert [point["pattern"] for point in done.of("point")] == ["cast"]
    found = settings(done)
    assert (found["cast_group"], found["cast_ttl"]) == ("239.7.8.9", "2")
    for pattern in ("pingpong", "cast:by=sends"):
        assert "does not obey cast_group=239.7.8.9 of module udp" in skipped(done, pattern)


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        ("cast_group=10.0.0.1", 2, "cast_group=10.0.0.1 is no group for programs"),
        ("cast_group=224.0.0.5", 2, "cast_group=224.0.0.5 is no group for programs"),
        ("cast_group=239.7.8.9,ip=6", 2, "is an IPv4 group, and the ranks reach each other over IPv6"),
        ("cast_group=ff15::1", 2, "is an IPv6 group, and the ranks reach each other over IPv4"),
        ("cast_group=ff02::1,ip=6", 2, "cast_group=ff02::1 is no group for programs"),
        ("cast_group=ff11::1,ip=6", 2, "cast_group=ff11::1 is no group for programs"),
        ("cast_group=ff15::1%lo,ip=6", 2, "cast_group=ff15::1%lo is no group for programs"),
        ("cast_group=ff12::1,ttl=2,ip=6", 2, "ttl=2: no router forwards what goes to cast_group=ff12::1"),
        ("port=65531", 3, "port=65531 leaves no room for 2 more ports to cast; give a lower one"),
    ],
)
def test_what_cannot_be_in_force_is_refused(measure: Runner, options: str, code: int, sentence: str) -> None:
    done = listed(measure, options, "8", CAST, "budget 0.1")
    assert done.code == code, done.said
    assert sentence in done.said
    assert not done.of("sample")


def test_another_layer_says_that_it_cannot_and_how_to_do_without(measure: Runner) -> None:
    done = measure(
        "variant tcp", CAST, SENDS, "schedule list", "sizes 8,70001", "ranks 3", "verify yes", "budget 0.1"
    )
    assert done.code == 0, done.said
    reason = "pattern cast needs cast and recv_cast, which module tcp lacks; by=sends needs neither"
    assert skipped(done, "cast") == reason
    points = done.of("point", pattern="cast:by=sends")
    assert len(points) == 2
    assert all(point["verified_bytes"] > 0 for point in points)


# ------------------------------------------------------------------------------------------------------ two hosts


def to_groups(treat: Treat) -> Treat:
    return lambda packet: treat(packet) if goes_to_a_group(packet) else [packet]


def test_casts_that_are_lost_between_two_hosts_are_a_measure(
    path: Path, serve: Serve, tmp_path: File
) -> None:
    path.treat = to_groups(losing(0.2))
    lines = ("schedule list", "sizes 0,8,5000", CAST, SENDS, "verify yes", "budget 0.4", "timeout 20")
    done = between(path, serve, tmp_path, "variant udp", *lines)
    assert done.code == 0, done.said
    assert settings(done)["interface"] == path.near
    lost = {
        pattern: sum(one["lost"] for one in done.of("sample", pattern=pattern))
        for pattern in ("cast", "cast:by=sends")
    }
    assert lost["cast"] > 0
    assert lost["cast:by=sends"] == 0, "no message to a single rank goes to the group"
    assert all(point["verified_bytes"] > 0 for point in done.of("point") if point["size_bytes"] > 0)


def test_a_path_without_multicast_is_named(path: Path, serve: Serve, tmp_path: File) -> None:
    path.treat = to_groups(losing(1.1))
    more = "pattern cast:in_flight=2"
    lines = ("schedule list", "sizes 8", CAST, more, "pattern pingpong", "budget 0.1", "timeout 3")
    done = between(path, serve, tmp_path, "variant udp", *lines)
    assert done.code == 0, done.said
    for pattern in ("cast", "cast:in_flight=2"):
        assert "or a switch what goes to the group, in between?" in skipped(done, pattern)
    assert done.of("point", pattern="pingpong")
