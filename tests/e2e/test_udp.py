# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  (fixtures that are imported and then named as parameters)
"""udp: what is cut arrives whole, what is lost is counted and stops nobody, strangers are dropped, and a setting is in
force or refused.
"""

from __future__ import annotations

import math
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path as File
from typing import Any

import pytest
from conftest import WORKER, Outcome, Runner, Starter, parse, wait_for_samples
from lossy_path import FAR_ADDRESS, Path, Swapping, doubling, holding, losing, lossy_path
from machines import free_port
from test_conformance import LISTING
from test_two_hosts import Serve, plan, serve, token  # noqa: F401

pytestmark = [
    pytest.mark.module("udp"),
    pytest.mark.skipif(
        "udp" not in [one["name"] for one in LISTING["modules"]], reason="module udp is not built here"
    ),
]

PINGPONG, STREAM = "pattern pingpong", "pattern stream"
NO_SAMPLE_WHOLE = "messages were lost in every sample, so none has a time"


def listed(measure: Runner, options: str, sizes: str, *lines: str) -> Outcome:
    variant = f"udp:{options}" if options else "udp"
    return measure(f"variant {variant}", "schedule list", f"sizes {sizes}", *lines)


def settings(done: Outcome, rank: int = 0) -> dict[str, Any]:
    (variant,) = done.of("variant")
    answer: dict[str, Any] = variant["ranks"][rank]["settings"]
    return answer


def measure_of(point: dict[str, Any], name: str) -> dict[str, Any]:
    said: dict[str, Any]
    (said,) = (one for one in point["measures"] if one["name"] == name)
    return said


def loss_of(point: dict[str, Any]) -> float:
    return float(measure_of(point, "loss")["median"])


def counted(done: Outcome, point: dict[str, Any]) -> tuple[int, int]:
    """Messages of the samples of a point, or of a size without a time, and how many of them were lost."""
    where = {name: point[name] for name in ("variant", "pattern", "size_bytes")}
    visits = [one for one in done.of("sample", **where) if one["pass"] >= 0]
    return sum(one["messages"] for one in visits), sum(one["lost"] for one in visits)


# ------------------------------------------------------------------------------------------------------ one host


@pytest.mark.gate
@pytest.mark.parametrize(
    "more", ["wait=poll", pytest.param("payload=1472,gso=yes,ttl=3", marks=pytest.mark.deep)]
)
def test_what_goes_to_a_group_arrives_whole(measure: Runner, more: str) -> None:
    done = listed(
        measure,
        f"multicast=239.1.2.3,connected=no,{more}",
        "0,1,70001",
        PINGPONG,
        STREAM,
        "verify yes",
        "budget 0.1",
    )
    assert done.code == 0, done.said
    assert len(done.of("point")) == 6
    assert all(point["verified_bytes"] > 0 for point in done.of("point") if point["size_bytes"] > 0)
    found = settings(done)
    assert (found["multicast_group"], found["interface"]) == ("239.1.2.3", "lo")
    assert found["multicast_ttl"] == ("3" if "ttl=3" in more else "1")
    assert found["local"].startswith("239.1.2.3 port ")


@pytest.mark.deep
def test_pairs_of_ranks_share_a_group(measure: Runner) -> None:
    """Each of them has ports of its own there, so that nobody hears what is for another."""
    done = listed(
        measure, "multicast=239.1.2.3,connected=no", "8", PINGPONG, "ranks 4", "verify yes", "budget 0.1"
    )
    assert done.code == 0, done.said
    assert all(point["counters"].get("strangers", 0) == 0 for point in done.of("point"))


def test_what_is_in_force_is_recorded(measure: Runner) -> None:
    done = listed(measure, "", "8", "budget 0.1")
    assert done.code == 0, done.said
    found = settings(done)
    assert found["wait"] == "block"
    assert (found["ip"], found["interface"], found["connected"]) == ("4", "lo", "yes")
    assert int(found["path_mtu_bytes"]) <= int(File("/sys/class/net/lo/mtu").read_text())
    assert int(found["message_bytes_per_datagram"]) == int(found["payload_bytes"]) - 24
    assert (found["ip_fragments"], found["gso"], found["gro"], found["pacing"]) == ("no", "no", "no", "none")


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        pytest.param("wait=poll", {"wait": "poll"}, marks=pytest.mark.deep),
        ("wait=hybrid,spin_us=20", {"wait": "hybrid", "spin_us": "20"}),
        pytest.param("connected=no", {"connected": "no"}, marks=pytest.mark.deep),
        ("payload=1472", {"payload_bytes": "1472", "message_bytes_per_datagram": "1448", "batch": "64"}),
        pytest.param("payload=1472,batch=3", {"batch": "3"}, marks=pytest.mark.deep),
        ("gso=yes", {"gso": "yes", "payload_bytes": "1472", "batch": "44"}),
        ("gso=yes,gro=yes,connected=no", {"gso": "yes", "gro": "yes"}),
        ("rate=500", {"pacing": "clock", "rate_mbit_per_s": "500", "batch": "1"}),
        pytest.param("rcvbuf=100k", {"rcvbuf_kernel_bytes": "204800"}, marks=pytest.mark.deep),
        ("sndbuf=100k", {"sndbuf_kernel_bytes": "204800"}),
    ],
)
def test_a_setting_is_in_force_and_every_byte_arrives(
    measure: Runner, options: str, facts: dict[str, str]
) -> None:
    done = listed(measure, options, "0,8,1449,20000", PINGPONG, "verify yes", "budget 0.1")
    assert done.code == 0, done.said
    assert facts.items() <= settings(done).items()
    assert all(point["verified_bytes"] > 0 for point in done.of("point") if point["size_bytes"] > 0)
    assert {point["size_bytes"] for point in done.of("point")} == {0, 8, 1449, 20000}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            "payload=31",
            "payload=31: it leaves no room behind netpipe's header of 24 bytes, so give 32 to 65507",
        ),
        ("gso=yes,batch=1", "gso=yes with batch=1: a call takes one datagram, so there is nothing to cut"),
        (
            "gso=yes,payload=40000",
            "gso=yes with payload=40000: a call takes one datagram, so there is nothing to cut",
        ),
        ("port=65534", "port=65534 leaves no room for the 2 x 2 ports of this run; give a lower one"),
        ("multicast=10.0.0.1,connected=no", "multicast=10.0.0.1 is no group for programs"),
        ("multicast=224.0.0.1,connected=no", "multicast=224.0.0.1 is no group for programs"),
        ("multicast=fd81::1,connected=no,ip=6", "multicast=fd81::1 is no group for programs"),
        ("multicast=ff15::1,connected=no", "an IPv6 group, and the ranks reach each other over IPv4"),
        ("multicast=239.1.2.3,connected=no,ip=6", "an IPv4 group, and the ranks reach each other over IPv6"),
        (
            "multicast=239.1.2.3",
            "connected to a group takes nothing from its members, so give connected=no too",
        ),
    ],
)
def test_what_cannot_be_in_force_is_refused(measure: Runner, options: str, sentence: str) -> None:
    done = listed(measure, options, "8")
    assert done.code == 2
    assert sentence in done.said
    assert not done.of("sample")


def test_a_range_of_groups_is_refused_where_no_datagram_goes_to_one(measure: Runner) -> None:
    done = listed(measure, "ttl=2", "8", PINGPONG)
    assert done.code == 3
    assert "ttl=2 is of datagrams to a group, and there are none: give multicast=GROUP" in done.said
    assert not done.of("sample")


def test_a_buffer_that_the_kernel_does_not_give_is_refused(measure: Runner) -> None:
    """Root is given any; so this runs without its capability."""
    if os.geteuid() != 0:
        done = listed(measure, "rcvbuf=512M", "8")
        code, said = done.code, done.said
    else:
        text = "netpipe-plan 1\nrecord -\nvariant udp:rcvbuf=512M\nschedule list\nsizes 8\nend\n"
        ran = subprocess.run(
            ["setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin", WORKER, "run"],
            input=text,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        code, said = ran.returncode, ran.stderr
    most = File("/proc/sys/net/core/rmem_max").read_text().strip()
    assert code == 3, said
    assert f"rcvbuf=512M: the kernel gives no more than {most} bytes; ask for less, raise net.core" in said


def test_a_port_that_is_taken_is_named(measure: Runner) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        if port > 65532:
            pytest.skip("the port is too high for the others of the run")
        done = listed(measure, f"port={port}", "8")
    assert done.code == 3
    assert f"cannot bind to 127.0.0.1 port {port}: Address already in use; give another port" in done.said


@pytest.mark.parametrize("options", ["payload=1472", "payload=1472,gso=yes,gro=yes", "payload=100,batch=7"])
def test_a_message_is_cut_into_so_many_datagrams(measure: Runner, options: str) -> None:
    done = listed(measure, options, "10000", PINGPONG, "verify yes", "budget 0.1")
    assert done.code == 0, done.said
    (point,) = done.of("point")
    room = int(settings(done)["message_bytes_per_datagram"])
    each = -(-10000 // room)
    # Whole round trips, of all visits.
    assert point["counters"]["datagrams_sent"] % (2 * each) == 0
    assert point["counters"]["datagrams_sent"] >= 2 * each


def test_loss_in_a_full_buffer_is_counted_by_both_and_the_same(measure: Runner) -> None:
    """Two datagrams and a half fit in."""
    done = listed(measure, "rcvbuf=2304", "8,1000,20000", STREAM, "verify yes", "budget 0.5", "pin 0,0")
    assert done.code == 0, done.said
    points = [point for point in done.of("point") if loss_of(point) > 0]
    assert points, "a sender on the processor of its receiver fills its buffer"
    for point in done.of("point"):
        found = point["counters"]
        assert found["datagrams_sent"] - found["datagrams_received"] == found["datagrams_lost"]
        # An answer to a question may have been dropped as well.
        assert found["kernel_drops"] >= found["datagrams_lost"] >= found["messages_lost"]
        # The first message of each visit is in no sample.
        lost = sum(
            one["lost"] for one in done.of("sample", size_bytes=point["size_bytes"]) if one["pass"] >= 0
        )
        assert lost <= found["messages_lost"]
        assert (found["messages_lost"] == 0) == (loss_of(point) == 0) or lost == 0


@pytest.mark.deep
def test_a_rate_is_not_exceeded(measure: Runner) -> None:
    """100,000 bytes and their headers take 80 ms at 10 Mbit/s. Half of that leaves room for a receiver that was held up
    and catches up.
    """
    done = listed(measure, "rate=10", "100000", PINGPONG, "budget 1")
    assert done.code == 0, done.said
    (point,) = done.of("point")
    assert point["median_ns"] > 40e6


def test_a_pattern_that_needs_every_message_is_skipped(measure: Runner) -> None:
    done = listed(measure, "", "8", "pattern loaded", PINGPONG, "budget 0.1")
    (skipped,) = done.of("skipped")
    assert skipped["reason"] == "messages of this variant may be lost, and pattern loaded needs each of them"


WINDOWS = ("window:in_flight=4", "window:in_flight=4,directions=both")
INCASTS = ("incast", "incast:arrivals=yes")


@pytest.mark.parametrize(
    "options",
    ["", *(pytest.param(one, marks=pytest.mark.deep) for one in ("wait=poll", "wait=hybrid", "gro=yes"))],
)
def test_windows_and_incasts_bring_every_byte(measure: Runner, options: str) -> None:
    lines = [f"pattern {pattern}" for pattern in (*WINDOWS, *INCASTS)]
    done = listed(measure, options, "0,8,20000", *lines, "ranks 4", "verify yes", "budget 0.1", "timeout 20")
    assert done.code == 0, done.said
    assert not done.of("skipped")
    for pattern in (*WINDOWS, *INCASTS):
        points = done.of("point", pattern=pattern)
        assert {point["size_bytes"] for point in points} == {0, 8, 20000}, pattern
        assert all(point["verified_bytes"] > 0 for point in points if point["size_bytes"] > 0), pattern
        for point in points:
            assert 0 <= loss_of(point) < 1
            assert 0 <= measure_of(point, "reordered")["median"] < 1
            assert not [one for one in point["measures"] if str(one["name"]).startswith("loss_rank_")]
    for point in done.of("point", pattern="incast:arrivals=yes"):
        assert [cell["rank"] for cell in point["cells"]] == [1, 2, 3]


@pytest.mark.parametrize(("pattern", "size"), [("window:in_flight=8", 8), ("incast", 70000)])
def test_a_sample_of_a_window_or_an_incast_that_lost_a_message_has_no_time(
    measure: Runner, pattern: str, size: int
) -> None:
    """Two datagrams and a half fit into each buffer. A window has eight, and a message of an incast two large ones."""
    lines = (f"pattern {pattern}", "ranks 4", "pin 0,0,0,0", "verify yes", "budget 0.3", "timeout 20")
    done = listed(measure, "rcvbuf=2304", str(size), *lines)
    assert done.code == 0, done.said
    visits = [one for one in done.of("sample") if one["pass"] >= 0]
    assert sum(one["lost"] for one in visits) > 0
    for one in visits:
        samples = one["messages"] // (one["ops"] * (3 if pattern == "incast" else 2))
        kept = len(one["ns"]) + len(one["dropped_ns"])
        assert kept <= samples
        assert kept < samples or one["lost"] == 0
    (one,) = (*done.of("point"), *done.of("skipped"))
    messages, lost = counted(done, one)
    assert loss_of(one) == pytest.approx(lost / messages)
    if one["type"] == "skipped":
        assert one["reason"] == NO_SAMPLE_WHOLE


def test_four_ranks_measure_in_pairs(measure: Runner) -> None:
    done = listed(measure, "", "8,70000", PINGPONG, STREAM, "ranks 4", "verify yes", "budget 0.2")
    assert done.code == 0, done.said
    assert len(done.of("point")) == 4
    assert all(point["verified_bytes"] > 0 for point in done.of("point"))


@pytest.mark.parametrize(
    "wait", ["poll", *(pytest.param(wait, marks=pytest.mark.deep) for wait in ("block", "hybrid"))]
)
def test_two_ranks_on_one_processor_let_each_other_run(measure: Runner, wait: str) -> None:
    done = listed(measure, f"wait={wait}", "8,70000", PINGPONG, "pin 0,0", "verify yes", "budget 0.1")
    assert done.code == 0, done.said
    assert settings(done)["wait"] == ("yield" if wait == "poll" else wait)
    assert len(done.of("point")) == 2


@pytest.mark.parametrize("connected", ["yes", "no"])
def test_datagrams_of_strangers_are_dropped_and_counted(started: Starter, connected: str) -> None:
    port = min(free_port(), 65000)
    process, path = started(
        f"variant udp:port={port},connected={connected}",
        "schedule list",
        "sizes 8,70000",
        "verify yes",
        "budget 1",
    )
    wait_for_samples(path)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        while process.poll() is None:
            for junk in (b"", b"x", bytes(24), bytes(32), os.urandom(24), os.urandom(1000)):
                for each in range(4):
                    stranger.sendto(junk, ("127.0.0.1", port + each))
            time.sleep(0.02)
    assert process.wait(30) == 0
    points = [one for one in parse(path.read_text()) if one["type"] == "point"]
    assert len(points) == 2
    # Sockets that are connected never see them, but the clerks' do.
    assert sum(point["counters"]["strangers"] for point in points) > 0
    assert all(point["verified_bytes"] > 0 and loss_of(point) == 0 for point in points)


# ------------------------------------------------------------------------------------------------------ faults


@pytest.mark.parametrize("options", ["", pytest.param(":wait=poll", marks=pytest.mark.deep), ":connected=no"])
def test_a_peer_that_is_killed_is_named(started: Starter, options: str) -> None:
    process, path = started(f"variant udp{options}", PINGPONG, "budget 30", "timeout 5")
    wait_for_samples(path, 5)
    (peer,) = (
        int(child) for child in File(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    )
    os.kill(peer, signal.SIGKILL)
    assert process.wait(8) == 4
    (error,) = [one for one in parse(path.read_text()) if one["type"] == "error"]
    assert "rank 1 has gone" in error["message"]


@pytest.mark.parametrize("pattern", [PINGPONG, pytest.param(STREAM, marks=pytest.mark.deep)])
def test_an_interrupt_ends_it(started: Starter, pattern: str) -> None:
    process, path = started("variant udp", pattern, "budget 30")
    wait_for_samples(path, 5)
    process.send_signal(signal.SIGINT)
    assert process.wait(5) == 130


# ------------------------------------------------------------------------------------------------------ two hosts


@pytest.fixture(scope="module")
def shared_path() -> Iterator[Path]:
    with lossy_path() as made:
        yield made


@pytest.fixture
def path(shared_path: Path) -> Path:
    shared_path.treat = lambda packet: [packet]
    return shared_path


def between(path: Path, serve: Serve, folder: File, *lines: str, far: str = FAR_ADDRESS) -> Outcome:
    """A plan of one namespace with the other."""
    server = serve("--bind", far, inside=path.inside(path.far))
    record = folder / "run.jsonl"
    text = "\n".join(["netpipe-plan 1", f"record {record}", *plan(server, *lines), "end", ""])
    done = subprocess.run(
        [*path.inside(path.near), WORKER, "run"],
        input=text,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    records = parse(record.read_text()) if record.exists() else []
    return Outcome(done.returncode, done.stderr, parse(done.stdout), records)


def test_between_two_hosts_datagrams_fit_the_path(path: Path, serve: Serve, tmp_path: File) -> None:
    before = path.packets
    done = between(
        path, serve, tmp_path, "variant udp", "schedule list", "sizes 8,20000", "verify yes", "budget 0.2"
    )
    assert done.code == 0, done.said
    found = settings(done)
    assert (found["path_mtu_bytes"], found["payload_bytes"], found["ip_fragments"]) == ("1500", "1472", "no")
    assert {settings(done, rank)["peer"].split()[0] for rank in (0, 1)} == {"10.81.0.1", FAR_ADDRESS}
    sent = sum(point["counters"]["datagrams_sent"] for point in done.of("point"))
    assert sent <= path.packets - before, "not all datagrams took the path between the hosts"
    assert all(point["verified_bytes"] > 0 for point in done.of("point"))


@pytest.mark.deep
def test_datagrams_that_the_path_cannot_take_whole_are_fragments(
    path: Path, serve: Serve, tmp_path: File
) -> None:
    lines = ("schedule list", "sizes 20000", "verify yes", "budget 0.1")
    done = between(path, serve, tmp_path, "variant udp:payload=4000", *lines)
    assert done.code == 0, done.said
    assert settings(done)["ip_fragments"] == "yes"
    refused = between(path, serve, tmp_path, "variant udp:payload=4000,gso=yes", *lines)
    assert refused.code == 2
    assert "payload=4000 do not fit the path's MTU of 1500 bytes" in refused.said


def test_half_of_all_datagrams_lost_ends_in_a_measure(path: Path, serve: Serve, tmp_path: File) -> None:
    """Of a window of 16 none arrives whole, so that it has no time. The rate is one that the relay can carry."""
    path.treat = losing(0.5)
    lines = ("schedule list", "sizes 8", PINGPONG, STREAM, "pattern window", "verify yes", "budget 0.2")
    done = between(path, serve, tmp_path, "variant udp:rate=1", *lines, "timeout 20")
    assert done.code == 0, done.said
    assert {one["pattern"] for one in done.of("point")} == {"pingpong", "stream"}
    (skipped,) = done.of("skipped")
    assert (skipped["pattern"], skipped["reason"]) == ("window", NO_SAMPLE_WHOLE)
    for one in (*done.of("point"), skipped):
        messages, lost = counted(done, one)
        assert loss_of(one) == pytest.approx(lost / messages)
        four_errors = 4 * math.sqrt(0.25 / messages)
        assert abs(loss_of(one) - 0.5) < four_errors, f"{one['pattern']}: {lost} of {messages}"
        assert one["counters"]["messages_lost"] >= lost


@pytest.mark.deep
def test_a_message_of_many_datagrams_hardly_survives_half_of_them_lost(
    path: Path, serve: Serve, tmp_path: File
) -> None:
    path.treat = losing(0.5)
    lines = ("schedule list", "sizes 60000", STREAM, "budget 0.2", "timeout 20")
    done = between(path, serve, tmp_path, "variant udp", *lines)
    assert done.code == 0, done.said
    (skipped,) = done.of("skipped")
    assert skipped["reason"] == NO_SAMPLE_WHOLE
    messages, lost = counted(done, skipped)
    assert loss_of(skipped) == pytest.approx(lost / messages)
    assert loss_of(skipped) > 0.99


def test_datagrams_that_come_twice_count_once(path: Path, serve: Serve, tmp_path: File) -> None:
    path.treat = doubling
    lines = ("schedule list", "sizes 8,20000", PINGPONG, "verify yes", "budget 0.2")
    done = between(path, serve, tmp_path, "variant udp", *lines)
    assert done.code == 0, done.said
    assert len(done.of("point")) == 2
    for point in done.of("point"):
        assert loss_of(point) == 0
        assert point["counters"]["duplicates"] > 0


def test_datagrams_that_overtake_each_other_are_put_in_order(
    path: Path, serve: Serve, tmp_path: File
) -> None:
    path.treat = Swapping()
    lines = ("schedule list", "sizes 20000", STREAM, "verify yes", "budget 0.2")
    done = between(path, serve, tmp_path, "variant udp", *lines)
    assert done.code == 0, done.said
    (point,) = done.of("point")
    assert point["counters"]["messages_reordered"] > 0
    assert point["verified_bytes"] > 0


@pytest.mark.parametrize(("pattern", "least"), [("stream", 0.4), ("window:in_flight=8", 0.2)])
def test_of_messages_that_change_places_each_second_one_comes_out_of_order(
    path: Path, serve: Serve, tmp_path: File, pattern: str, least: float
) -> None:
    """Of an odd number one keeps its place. Of a window the acknowledgement does, and a question may take the place of
    a message.
    """
    path.treat = Swapping()
    lines = ("schedule list", "sizes 8", f"pattern {pattern}", "verify yes", "budget 1")
    done = between(path, serve, tmp_path, "variant udp:rate=1", *lines, "timeout 20")
    assert done.code == 0, done.said
    (point,) = done.of("point")
    share = measure_of(point, "reordered")
    assert share["unit"] == "1"
    messages, reordered = (point["counters"][name] for name in ("messages_received", "messages_reordered"))
    assert share["median"] == pytest.approx(reordered / messages)
    assert least < share["median"] <= 0.5
    assert share["low"] <= share["median"] <= share["high"] < 0.6
    assert loss_of(point) == 0


def test_a_path_that_holds_up_every_second_message_with_a_time_has_that_jitter(
    path: Path, serve: Serve, tmp_path: File
) -> None:
    """One message in 16 says when it left, one in 16 ms at this rate; of these each second one is 8 ms late. Nothing
    else of the path lasts as long, so what such a delay differs from the one before it is about that.
    """
    held_ns = 8e6
    path.treat = holding(held_ns * 1e-9, every=32)
    lines = ("schedule list", "sizes 100", STREAM, "verify yes", "budget 1", "timeout 20")
    done = between(path, serve, tmp_path, "variant udp:rate=1", *lines)
    assert done.code == 0, done.said
    (point,) = done.of("point")
    jitter = measure_of(point, "jitter")
    assert jitter["unit"] == "ns"
    changes_ns, delays = (point["counters"][name] for name in ("delay_changes_ns", "delays_compared"))
    assert jitter["median"] == pytest.approx(changes_ns / delays)
    assert 0.8 * held_ns < jitter["median"] < 1.5 * held_ns
    assert jitter["low"] < jitter["median"] < jitter["high"]
    assert measure_of(point, "reordered")["median"] == 0


def test_a_path_that_no_datagram_gets_through_is_named(path: Path, serve: Serve, tmp_path: File) -> None:
    path.treat = losing(1.1)
    done = between(path, serve, tmp_path, "variant udp", "schedule list", "sizes 8", "timeout 2")
    assert done.code in (3, 4)
    assert "no answer from rank" in done.said
    assert "does a firewall drop UDP in between?" in done.said


@pytest.mark.deep
@pytest.mark.parametrize("options", ["", ":gso=yes,gro=yes", ":connected=no,wait=poll", ":reorder=0"])
@pytest.mark.parametrize("share", [0.01, 0.2])
def test_every_byte_of_what_arrives_is_right_whatever_is_lost(
    path: Path, serve: Serve, tmp_path: File, options: str, share: float
) -> None:
    path.treat = losing(share)
    lines = ("schedule list", "sizes 0,8,1449,5000", PINGPONG, STREAM, "verify yes", "budget 2", "timeout 20")
    done = between(path, serve, tmp_path, f"variant udp{options}", *lines)
    assert done.code == 0, done.said
    assert sum(point["counters"]["messages_lost"] for point in done.of("point")) > 0
