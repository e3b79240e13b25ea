# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  (fixtures that are imported and then named as parameters)
"""ZeroMQ: its socket types and settings, what is refused, who may come in, and what becomes of a rank that is gone."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import services
from conftest import Runner, Starter
from test_hosts import Site, site  # noqa: F401
from test_two_hosts import serve, token, two_namespaces  # noqa: F401

pytestmark = pytest.mark.module("zmq")

WAYS = ("pingpong", "stream", "window")
ALONE = ("pingpong",)


@pytest.fixture(scope="module", autouse=True)
def _layer(listing: dict[str, Any]) -> None:
    services.skip_without(listing, "zmq")


@pytest.mark.parametrize(
    ("variant", "patterns"),
    [
        pytest.param("zmq:pattern=dealer,wait=hybrid", WAYS, marks=pytest.mark.deep),
        pytest.param("zmq:pattern=pushpull,transport=ipc,wait=poll", WAYS, marks=pytest.mark.deep),
        ("zmq:zero_copy=yes", WAYS),
        pytest.param("zmq:zero_copy=yes,wait=poll,pattern=pushpull", WAYS, marks=pytest.mark.deep),
        pytest.param("zmq:encrypt=yes,pattern=reqrep", ALONE, marks=pytest.mark.deep),
        pytest.param("zmq:encrypt=yes,transport=ipc,pattern=pushpull", WAYS, marks=pytest.mark.deep),
        pytest.param("zmq:io_place=any,wait=poll", WAYS, marks=pytest.mark.deep),
        pytest.param("zmq:hwm=1,wait=hybrid,spin_us=0", WAYS, marks=pytest.mark.deep),
        pytest.param("zmq:sndbuf=16k,rcvbuf=16k", WAYS, marks=pytest.mark.deep),
    ],
)
def test_every_byte_arrives(measure: Runner, variant: str, patterns: tuple[str, ...]) -> None:
    services.check_all_arrives(measure, variant, patterns=patterns)


@pytest.mark.parametrize("shape", ["pair", pytest.param("pushpull", marks=pytest.mark.deep)])
def test_four_ranks_reach_each_other(measure: Runner, shape: str) -> None:
    services.check_all_arrives(
        measure, f"zmq:pattern={shape},transport=ipc", "ranks 4", patterns=("pairs", "incast")
    )


# Of four ranks that all send to one, those that send cannot, and the one waits: they do not agree why it ends.
def test_a_pattern_that_some_ranks_lack_leaves_the_others(measure: Runner) -> None:
    lines = ("ranks 4", "pattern congestion", "pattern pingpong", "schedule list", "sizes 8,64", "budget 0.1")
    done = measure("variant zmq:pattern=reqrep", *lines)
    assert done.code == 0, done.said
    assert {one["pattern"] for one in done.of("skipped")} == {"congestion"}
    assert {(one["pattern"], one["size_bytes"]) for one in done.of("point")} == {
        ("pingpong", 8),
        ("pingpong", 64),
    }


@pytest.mark.deep
def test_request_and_reply_is_measured_and_leaves_the_next_size_whole(measure: Runner) -> None:
    done = services.check_all_arrives(measure, "zmq:pattern=reqrep", patterns=ALONE)
    assert {one["pattern"] for one in services.settings_of(done)} == {"reqrep"}


def test_what_request_and_reply_cannot_carry_is_left_out_and_the_rest_is_measured(measure: Runner) -> None:
    done = services.one_size(
        measure, "zmq:pattern=reqrep", "pattern stream", "pattern window", "pattern pingpong"
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
        ("transport=ipc,sndbuf=64k", "libzmq sets it on TCP connections only"),
        ("transport=inproc", "'inproc' is not one of its choices"),
        ("pattern=pub", "'pub' is not one of its choices"),
        ("io_threads=2", "io_threads=2 is more than there are connections (1, each served by one thread)"),
        ("pattern=pushpull,io_threads=3", "more than there are connections (2"),
        ("hwm=1000000", "more than an eighth of this host's memory"),
        ("spin_us=7", "only wait=hybrid polls for a time"),
    ],
)
def test_what_would_have_no_effect_or_no_room_is_refused(measure: Runner, settings: str, says: str) -> None:
    done = measure(f"variant zmq:{settings}", "schedule list", "sizes 8,8M", "budget 0.05")
    assert done.code == 2
    assert says in done.said
    assert not done.of("sample")


def test_settings_are_recorded_as_they_are(measure: Runner) -> None:
    done = services.one_size(
        measure, "zmq:pattern=pushpull,io_threads=2,hwm=5,sndbuf=32k,rcvbuf=64k,zero_copy=yes", "pin 0,0"
    )
    assert done.code == 0, done.said
    for rank in services.settings_of(done):
        assert rank["io_threads"] == "2"
        assert rank["hwm_messages"] == "5"
        assert rank["security"] == "PLAIN"
        assert rank["zero_copy"] == "yes"
        assert rank["wait"] == "block"
        assert rank["sndbuf_kernel_bytes"] == "65536", "the kernel doubles it"
        assert rank["rcvbuf_kernel_bytes"] == "131072"


@pytest.mark.parametrize(("transport", "below"), [("tcp", "tcp"), ("ipc", "unix")])
def test_the_layer_below_is_that_of_the_transport(measure: Runner, transport: str, below: str) -> None:
    done = services.one_size(measure, f"zmq:transport={transport}")
    (variant,) = done.of("variant")
    assert variant["below"] == below
    assert variant["version"].startswith("libzmq ")


def test_one_queue_length_for_all_sizes_only_where_it_is_given(measure: Runner) -> None:
    large = ("schedule list", "sizes 8,4M", "budget 0.05")
    (rank, _) = services.settings_of(measure("variant zmq", *large))
    assert rank["hwm_messages"] == "1000"
    assert rank["hwm_large_messages"] == "16", "64 MiB of the largest"
    (rank, _) = services.settings_of(measure("variant zmq:hwm=7", *large))
    assert rank["hwm_messages"] == "7"
    assert "hwm_large_messages" not in rank
    (rank, _) = services.settings_of(services.one_size(measure, "zmq"))
    assert "hwm_large_messages" not in rank


@pytest.mark.parametrize(
    ("wait", "pin", "said"),
    [("poll", "0,0", "yield"), ("block", "0,0", "block"), ("hybrid", "0,0", "hybrid")],
)
def test_how_it_waits_is_said(measure: Runner, wait: str, pin: str, said: str) -> None:
    done = services.one_size(measure, f"zmq:wait={wait}", f"pin {pin}")
    assert done.code == 0, done.said
    assert {rank["wait"] for rank in services.settings_of(done)} == {said}
    (point,) = done.of("point")
    looked = point["counters"].get("empty_polls", 0) > 0
    assert looked == (wait != "block")


def test_nothing_is_printed(measure: Runner) -> None:
    done = services.one_size(measure, "zmq:encrypt=yes")
    assert done.code == 0
    assert done.said == ""


def test_a_rank_that_is_killed_ends_the_run_and_names_it(started: Starter) -> None:
    process, _ = services.endless(started, "zmq")
    (peer,) = services.peers_of(process)
    os.kill(peer, signal.SIGKILL)
    code, said = services.ended(process)
    assert code == 4
    assert "rank 1" in said


@pytest.mark.parametrize(
    "variant", ["zmq", pytest.param("zmq:wait=poll,zero_copy=yes", marks=pytest.mark.deep)]
)
def test_an_interrupt_ends_it_and_keeps_what_was_measured(started: Starter, variant: str) -> None:
    process, path = services.endless(started, variant, 1 << 20)
    process.send_signal(signal.SIGINT)
    code, _ = services.ended(process)
    assert code == 130
    assert '"type":"sample"' in path.read_text()


def test_two_hosts_are_joined_over_their_own_link(site: Site) -> None:
    done = services.between_hosts(site, "zmq:pattern=pushpull", "pingpong", "stream")
    services.check_both_hosts(done, 2 * 5)


@pytest.mark.deep
def test_sockets_of_one_host_are_refused_between_two(site: Site) -> None:
    done = services.between_hosts(site, "zmq:transport=ipc")
    assert done.code == 2
    assert "transport=ipc joins processes of one host and network namespace" in done.said
    assert not done.of("sample")


def test_where_its_threads_cannot_start_it_is_refused_and_the_server_goes_on(
    serve: Callable[..., Any], two_namespaces: tuple[str, str], tmp_path: Path
) -> None:
    code, said, records = services.over_serve(serve, two_namespaces, tmp_path, "zmq")
    assert code == 3
    assert "the threads of libzmq cannot start where a thread may not set its own scheduling" in said
    assert not [one for one in records if one["type"] == "sample"]
