# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  (fixtures that are imported and then named as parameters)
"""nng: its protocols and settings, what is refused, who may come in, and what becomes of a rank that is gone."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import services
from conftest import Runner, Starter
from test_hosts import Site, site  # noqa: F401
from test_two_hosts import serve, token, two_namespaces  # noqa: F401

pytestmark = pytest.mark.module("nng")

WAYS = ("pingpong", "stream", "window")
ALONE = ("pingpong",)


@pytest.fixture(scope="module", autouse=True)
def _layer(listing: dict[str, Any]) -> None:
    services.skip_without(listing, "nng")


@pytest.mark.parametrize(
    ("variant", "patterns"),
    [
        pytest.param("nng:wait=hybrid,sendbuf=4,recvbuf=2", WAYS, marks=pytest.mark.deep),
        ("nng:pattern=pushpull,transport=ipc,wait=poll", WAYS),
        pytest.param("nng:pattern=pushpull,sendbuf=8", WAYS, marks=pytest.mark.deep),
        pytest.param("nng:pattern=reqrep,wait=poll", ALONE, marks=pytest.mark.deep),
        pytest.param("nng:pattern=reqrep,transport=ipc,wait=hybrid,spin_us=0", ALONE, marks=pytest.mark.deep),
        pytest.param("nng:transport=ipc,wait=hybrid", WAYS, marks=pytest.mark.deep),
        pytest.param("nng:nodelay=no", ALONE, marks=pytest.mark.deep),
    ],
)
def test_every_byte_arrives(measure: Runner, variant: str, patterns: tuple[str, ...]) -> None:
    services.check_all_arrives(measure, variant, patterns=patterns)


@pytest.mark.parametrize("shape", ["pair", pytest.param("pushpull", marks=pytest.mark.deep)])
def test_four_ranks_reach_each_other(measure: Runner, shape: str) -> None:
    services.check_all_arrives(
        measure, f"nng:pattern={shape},transport=ipc", "ranks 4", patterns=("pairs", "incast")
    )


@pytest.mark.deep
def test_request_and_reply_is_measured_and_leaves_the_next_size_whole(measure: Runner) -> None:
    done = services.check_all_arrives(measure, "nng:pattern=reqrep", patterns=ALONE)
    assert {one["pattern"] for one in services.settings_of(done)} == {"reqrep"}


def test_a_reply_that_takes_long_is_waited_for(started: Starter) -> None:
    """A receive with a time limit would give the request up."""
    process, _ = services.endless(started, "nng:pattern=reqrep", 1 << 20)
    (peer,) = services.peers_of(process)
    os.kill(peer, signal.SIGSTOP)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
    finally:
        os.kill(peer, signal.SIGCONT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.3)
    process.send_signal(signal.SIGINT)
    code, said = services.ended(process)
    assert code == 130, said
    assert "state" not in said


def test_what_request_and_reply_cannot_carry_is_left_out_and_the_rest_is_measured(measure: Runner) -> None:
    done = services.one_size(
        measure, "nng:pattern=reqrep", "pattern stream", "pattern window", "pattern pingpong"
    )
    assert done.code == 0, done.said
    (stream,) = done.of("skipped", pattern="stream")
    assert "each request is followed by its reply" in stream["reason"]
    (window,) = done.of("skipped", pattern="window")
    assert "no two messages are on their way" in window["reason"]
    assert len(done.of("point", pattern="pingpong")) == 1


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("transport=ipc,nodelay=no", "it is an option of TCP"),
        ("transport=inproc", "'inproc' is not one of its choices"),
        ("pattern=bus", "'bus' is not one of its choices"),
        ("pattern=reqrep,sendbuf=2", "one request at a time is all that there is to wait"),
        ("pattern=reqrep,recvbuf=2", "one request at a time is all that there is to wait"),
        ("pattern=pushpull,recvbuf=2", "a pull socket takes the number and ignores it"),
        ("sendbuf=8192", "more than an eighth of this host's memory"),
        ("sendbuf=8193", "8193 is outside 0 to 8192"),
        ("spin_us=7", "only wait=hybrid polls for a time"),
    ],
)
def test_what_would_have_no_effect_or_no_room_is_refused(measure: Runner, settings: str, says: str) -> None:
    done = measure(f"variant nng:{settings}", "schedule list", "sizes 8,64M", "budget 0.05")
    assert done.code == 2
    assert says in done.said
    assert not done.of("sample")


def test_settings_are_recorded_as_they_are(measure: Runner) -> None:
    done = services.one_size(measure, "nng:sendbuf=3,recvbuf=5,nodelay=no", "pin 0,0")
    assert done.code == 0, done.said
    for rank in services.settings_of(done):
        assert rank["sendbuf_messages"] == "3"
        assert rank["recvbuf_messages"] == "5"
        assert rank["nodelay"] == "no"
        assert rank["wait"] == "block"


@pytest.mark.parametrize(("transport", "below"), [("tcp", "tcp"), ("ipc", "unix")])
def test_the_layer_below_is_that_of_the_transport(measure: Runner, transport: str, below: str) -> None:
    done = services.one_size(measure, f"nng:transport={transport}")
    (variant,) = done.of("variant")
    assert variant["below"] == below
    assert variant["version"].startswith("libnng ")


@pytest.mark.parametrize(("wait", "said"), [("poll", "yield"), ("block", "block"), ("hybrid", "hybrid")])
def test_how_it_waits_is_said(measure: Runner, wait: str, said: str) -> None:
    done = services.one_size(measure, f"nng:wait={wait}", "pin 0,0")
    assert done.code == 0, done.said
    assert {rank["wait"] for rank in services.settings_of(done)} == {said}
    (point,) = done.of("point")
    looked = point["counters"].get("empty_polls", 0) > 0
    assert looked == (wait != "block")


def test_nothing_is_printed(measure: Runner) -> None:
    done = services.one_size(measure, "nng:pattern=pushpull")
    assert done.code == 0
    assert done.said == ""


@pytest.mark.parametrize("variant", ["nng", "nng:pattern=reqrep,wait=poll"])
def test_a_rank_that_is_killed_ends_the_run_and_names_it(started: Starter, variant: str) -> None:
    process, _ = services.endless(started, variant)
    (peer,) = services.peers_of(process)
    os.kill(peer, signal.SIGKILL)
    code, said = services.ended(process)
    assert code == 4
    assert "rank 1" in said


@pytest.mark.parametrize("variant", ["nng", pytest.param("nng:wait=poll", marks=pytest.mark.deep)])
def test_an_interrupt_ends_it_and_keeps_what_was_measured(started: Starter, variant: str) -> None:
    process, path = services.endless(started, variant, 1 << 20)
    process.send_signal(signal.SIGINT)
    code, _ = services.ended(process)
    assert code == 130
    assert '"type":"sample"' in path.read_text()


def test_two_hosts_are_joined_over_their_own_link(site: Site) -> None:
    done = services.between_hosts(site, "nng:pattern=pushpull", "pingpong", "stream")
    services.check_both_hosts(done, 2 * 5)


def test_a_served_rank_is_measured(
    serve: Callable[..., Any], two_namespaces: tuple[str, str], tmp_path: Path
) -> None:
    code, said, records = services.over_serve(serve, two_namespaces, tmp_path, "nng")
    assert code == 0, said
    assert len([one for one in records if one["type"] == "point" and one["verified_bytes"]]) == 2


@pytest.mark.deep
def test_sockets_of_one_host_are_refused_between_two(site: Site) -> None:
    done = services.between_hosts(site, "nng:transport=ipc")
    assert done.code == 2
    assert "transport=ipc joins processes of one host and network namespace" in done.said
    assert not done.of("sample")
