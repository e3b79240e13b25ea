# SPDX-License-Identifier: Apache-2.0
"""libfabric: its providers, endpoint types and ways to complete, what it refuses, and what it records."""

from __future__ import annotations

import os
import re
import secrets
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Netpipe, Outcome, Runner, Starter, parse, wait_for_samples
from test_conformance import LISTING
from test_hosts import Site, site
from test_two_hosts import Serve, plan, serve, token, two_namespaces
from test_udp import counted

__all__ = ["serve", "site", "token", "two_namespaces"]  # fixtures

MODULE: dict[str, Any] = next((m for m in LISTING["modules"] if m["name"] == "libfabric"), {})
REASON = MODULE.get("reason") or "libfabric is not built: apt install libfabric-dev"
pytestmark = pytest.mark.skipif(not MODULE.get("available", False), reason=REASON)

deep = pytest.mark.deep
QUICK = ("schedule list", "verify yes", "budget 0.05", "timeout 10")


def facts(done: Outcome, rank: int = 0) -> dict[str, Any]:
    (variant,) = done.of("variant")
    settings: dict[str, Any] = variant["ranks"][rank]["settings"]
    return settings


def assert_verified(done: Outcome, points: int) -> None:
    assert done.code == 0, done.said
    assert len(done.of("point")) == points
    assert all(p["verified_bytes"] > 0 for p in done.of("point") if p["size_bytes"] > 0)


# ------------------------------------------------------------------------------- providers and endpoints


@pytest.mark.parametrize(
    ("settings", "provider", "ep", "api", "below"),
    [
        ("", "tcp;ofi_rxm", "rdm", "tagged", "tcp"),
        (":ep=msg", "tcp", "msg", "untagged", "tcp"),
        (":provider=shm", "shm", "rdm", "tagged", "shm"),
        pytest.param(":provider=shm,api=untagged", "shm", "rdm", "untagged", "shm", marks=deep),
        pytest.param(":provider=net", "net", "rdm", "tagged", "tcp", marks=deep),
        pytest.param(":provider=net,ep=msg", "net", "msg", "untagged", "tcp", marks=deep),
        pytest.param(":provider=udp;ofi_rxd", "udp;ofi_rxd", "rdm", "tagged", "udp", marks=deep),
        pytest.param(":provider=sockets", "sockets", "rdm", "tagged", "tcp", marks=deep),
    ],
)
def test_each_provider_moves_every_byte_and_says_what_it_is(
    measure: Runner, settings: str, provider: str, ep: str, api: str, below: str
) -> None:
    needs_provider(measure, provider, ep)
    done = measure(
        f"variant libfabric{settings}", "pattern pingpong", "pattern window", "sizes 0,1,65537", *QUICK
    )
    assert_verified(done, 6)
    for rank in (0, 1):
        said = facts(done, rank)
        assert (said["provider"], said["ep"], said["api"]) == (provider, ep, api)
        assert said["wait"] == "poll"
        assert said["completion"] == "queue"
    (variant,) = done.of("variant")
    assert variant["below"] == below


def needs_provider(measure: Runner, provider: str, ep: str = "rdm") -> None:
    """Other machines have others."""
    done = measure(f"variant libfabric:ep={ep},provider=no_such", "sizes 8", *QUICK)
    offered = re.search(r"what is offered: (.*?) \(quote", done.said)
    assert offered, done.said
    if provider not in offered[1].split(", "):
        pytest.skip(f"no provider {provider} for ep={ep} here: {offered[1]}")


def test_datagrams_are_lossy_numbered_and_bounded(measure: Runner) -> None:
    needs_provider(measure, "udp", "dgram")
    done = measure(
        "variant libfabric:ep=dgram",
        "pattern pingpong",
        "pattern stream",
        "pattern put",
        "sizes 0,1,1000,65536",
        *QUICK,
    )
    assert_verified(done, 6)
    said = facts(done)
    assert said["provider"] == "udp"
    most = int(said["max_msg_size"]) - 16
    (opened,) = done.of("variant")
    promises = opened["promises"]
    assert (promises["lossy"], promises["unordered"], promises["max_message_bytes"]) == (True, True, most)
    assert promises["max_inline_bytes"] == most, "the provider injects whole datagrams"
    assert {s["reason"] for s in done.of("skipped", pattern="pingpong")} == {
        f"the largest message of this variant is {most} bytes"
    }
    assert "may be lost" in done.of("skipped", pattern="put")[0]["reason"]
    for point in done.of("point"):
        messages, lost = counted(done, point)
        assert messages > 0
        (loss,) = (one for one in point["measures"] if one["name"] == "loss")
        assert loss["median"] == pytest.approx(lost / messages)
        assert loss["low"] is None or loss["low"] <= loss["median"] < loss["high"] < 1


@deep
def test_windows_and_incasts_of_datagrams_bring_every_byte(measure: Runner) -> None:
    needs_provider(measure, "udp", "dgram")
    patterns = ("window:in_flight=4", "window:in_flight=4,directions=both", "incast", "incast:arrivals=yes")
    lines = [f"pattern {pattern}" for pattern in patterns]
    done = measure("variant libfabric:ep=dgram", "ranks 4", *lines, "sizes 1,1000", *QUICK)
    assert_verified(done, 8)
    for point in done.of("point"):
        assert [one["name"] for one in point["measures"] if str(one["name"]).startswith("loss")] == ["loss"]


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param("ep=rdm", marks=deep),
        pytest.param("ep=rdm,api=untagged", marks=deep),
        "ep=msg",
        pytest.param("provider=shm", marks=deep),
        pytest.param("ep=dgram", marks=deep),
    ],
)
def test_four_ranks(measure: Runner, settings: str) -> None:
    done = measure(f"variant libfabric:{settings}", "ranks 4", "pattern pingpong", "sizes 1,4097", *QUICK)
    assert done.code == 0, done.said
    assert done.of("point")


@pytest.mark.parametrize(
    ("settings", "provider"),
    [
        ("", "tcp;ofi_rxm"),
        (":api=untagged", "tcp;ofi_rxm"),
        (":provider=shm", "shm"),
        pytest.param(":ranks=4", "tcp;ofi_rxm", marks=deep),
        pytest.param(":ranks=4,api=untagged", "tcp;ofi_rxm", marks=deep),
        pytest.param(":provider=shm,completion=counter", "shm", marks=deep),
        pytest.param(":wait=block,inject=0", "tcp;ofi_rxm", marks=deep),
        pytest.param(":provider=udp;ofi_rxd", "udp;ofi_rxd", marks=deep),
    ],
)
def test_a_rank_sends_to_itself(measure: Runner, settings: str, provider: str) -> None:
    """Injected, in one piece and by rendezvous; and others still get theirs."""
    needs_provider(measure, provider)
    patterns = ("pattern itself", "pattern pingpong")
    done = measure(f"variant libfabric{settings}", *patterns, "sizes 0,1,4097,300001", *QUICK)
    assert_verified(done, 8)


def test_a_connection_is_between_two_ranks(measure: Runner) -> None:
    done = measure("variant libfabric:ep=msg", "pattern itself", "pattern pingpong", "sizes 8", *QUICK)
    assert_verified(done, 1)
    (skipped,) = done.of("skipped")
    assert skipped["pattern"] == "itself"
    assert "none of a rank to itself; take ep=rdm" in skipped["reason"]


# ------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("variant", "code", "sentence"),
    [
        ("provider=no_such", 3, r"provider=no_such is not offered for ep=rdm here; what is offered: \S+"),
        ("inject=65536", 2, r"inject=65536: provider \S+ injects at most \d+ bytes"),
        ("patience_us=500", 2, r"only messages of ep=dgram may be lost"),
        pytest.param(
            "provider=shm,ep=msg", 3, r"provider=shm is not offered for ep=msg here; .*tcp", marks=deep
        ),
        pytest.param("provider=tcp", 3, r"provider=tcp is not offered for ep=rdm .*tcp;ofi_rxm", marks=deep),
        pytest.param(
            "provider=shm,wait=block",
            2,
            r"provider shm has no descriptor to sleep on .*wait=poll",
            marks=deep,
        ),
        pytest.param(
            "inject=8,complete=delivery",
            2,
            r"message has no completion, so leave one of them out",
            marks=deep,
        ),
        pytest.param(
            "inject=8,completion=counter",
            2,
            r"message has no completion, so leave one of them out",
            marks=deep,
        ),
        pytest.param("ep=dgram,api=tagged", 2, r"datagrams have no tags, so choose api=untagged", marks=deep),
        pytest.param("ep=dgram,completion=counter", 2, r"does not say which datagram arrived", marks=deep),
        pytest.param("spin_us=5", 2, r"only wait=hybrid polls for a time", marks=deep),
    ],
)
def test_what_is_not_there_is_refused_before_anything_is_measured(
    measure: Runner, variant: str, code: int, sentence: str
) -> None:
    for provider, ep in (("shm", "rdm"), ("udp", "dgram")):
        if f"provider={provider}" in variant or f"ep={ep}" in variant:
            needs_provider(measure, provider, ep)
    done = measure(f"variant libfabric:{variant}", "sizes 8", *QUICK)
    assert done.code == code, done.said
    assert re.search(sentence, done.said), done.said
    assert not done.of("sample")


@deep
def test_counters_are_for_two_ranks(measure: Runner) -> None:
    done = measure("variant libfabric:completion=counter", "ranks 4", "sizes 8", *QUICK)
    assert done.code == 2
    assert "completion=counter with ranks=4: one counter cannot tell from whom a message came" in done.said


# ------------------------------------------------------------------------------- how it completes and waits


@pytest.mark.parametrize(
    ("ep", "wait"),
    [
        ("rdm", "block"),
        *(
            pytest.param(ep, wait, marks=deep)
            for ep in ("rdm", "msg")
            for wait in ("hybrid", "block")
            if (ep, wait) != ("rdm", "block")
        ),
    ],
)
def test_each_wait_is_in_force(measure: Runner, ep: str, wait: str) -> None:
    done = measure(f"variant libfabric:ep={ep},wait={wait}", "pattern pingpong", "sizes 8,65537", *QUICK)
    assert_verified(done, 2)
    assert facts(done)["wait"] == wait
    counted = [p["counters"] for p in done.of("point") if p.get("counters")]
    if wait == "block" and counted:
        assert all(int(one.get("empty_polls", 0)) == 0 for one in counted)


def test_ranks_that_share_a_processor_yield(measure: Runner) -> None:
    done = measure("variant libfabric", "pin 0,0", "pattern pingpong", "sizes 8,65537", *QUICK)
    assert_verified(done, 2)
    assert facts(done)["wait"] == "yield"


@pytest.mark.parametrize(("provider", "ep"), [pytest.param("shm", "rdm", marks=deep), ("tcp", "msg")])
def test_a_counter_tells_what_has_completed(measure: Runner, provider: str, ep: str) -> None:
    needs_provider(measure, provider, ep)
    done = measure(
        f"variant libfabric:provider={provider},ep={ep},completion=counter",
        "pattern pingpong",
        "pattern window",
        "pattern put",
        "pattern get",
        "sizes 1,65537",
        *QUICK,
    )
    assert_verified(done, 8)
    assert facts(done)["completion"] == "counter"


@pytest.mark.parametrize(
    ("settings", "fact", "value"),
    [
        ("inject=8", "inject_bytes", "8"),
        ("register=always", "registered", "yes"),
        pytest.param("inject=0", "inject_bytes", "0", marks=deep),
        pytest.param("complete=delivery", "complete", "delivery", marks=deep),
        pytest.param("complete=delivery", "inject_bytes", "0", marks=deep),
        pytest.param("complete=transmit", "complete", "transmit", marks=deep),
        pytest.param("register=needed", "registered", "no", marks=deep),
    ],
)
def test_a_setting_is_in_force_and_recorded(measure: Runner, settings: str, fact: str, value: str) -> None:
    done = measure(
        f"variant libfabric:{settings}", "pattern pingpong", "pattern window", "sizes 8,9,4097", *QUICK
    )
    assert_verified(done, 6)
    assert facts(done)[fact] == value
    (opened,) = done.of("variant")
    assert opened["promises"]["max_inline_bytes"] == int(facts(done)["inject_bytes"])


@deep
def test_registered_memory_cannot_be_new_to_the_layer(measure: Runner) -> None:
    done = measure(
        "variant libfabric:register=always", "buffers fresh", "pattern pingpong", "sizes 8", *QUICK
    )
    reasons = [one["reason"] for one in done.of("skipped")]
    assert any("cannot be registered" in reason for reason in reasons), (done.said, reasons)


# ------------------------------------------------------------------------------- one-sided


@pytest.mark.parametrize(
    "settings",
    [
        ":ep=msg",
        pytest.param("", marks=deep),
        pytest.param(":provider=shm", marks=deep),
        pytest.param(":wait=block", marks=deep),
        pytest.param(":ep=msg,wait=block", marks=deep),
        pytest.param(":ep=msg,completion=counter", marks=deep),
        pytest.param(":provider=udp;ofi_rxd", marks=deep),
    ],
)
def test_puts_and_gets_arrive(measure: Runner, settings: str) -> None:
    """Several in flight, too: of ep=msg the answers to gets must not queue behind a message that nobody awaits."""
    if "shm" in settings or "ofi_rxd" in settings:
        needs_provider(measure, settings.partition("=")[2])
    patterns = (
        "put",
        "get",
        "put:in_flight=7",
        "get:in_flight=7",
        "put:sync=fence",
        "get:sync=fence,in_flight=7",
        "put:sync=wait",
        "get:sync=wait",
        "put:sync=wait,in_flight=7",
        "get:sync=wait,in_flight=7",
    )
    lines = [f"pattern {pattern}" for pattern in patterns]
    done = measure(f"variant libfabric{settings}", *lines, "sizes 1,4097,65537", *QUICK)
    assert_verified(done, 30)
    assert facts(done)["rma"] == "yes"


def has_pattern(name: str) -> bool:
    return name in {pattern["name"] for pattern in LISTING["patterns"]}


@pytest.mark.skipif(not has_pattern("atomic"), reason="there is no pattern atomic")
def test_atomics_where_the_provider_has_them(measure: Runner) -> None:
    """With messages behind them: the provider shm of 1.17 would spoil those after an atomic complete when delivered."""
    needs_provider(measure, "shm")
    atomics = ("atomic", "atomic:op=add,in_flight=16", "atomic:op=compare_swap")
    lines = [f"pattern {pattern}" for pattern in (*atomics, "window", "burst")]
    done = measure("variant libfabric:provider=shm", *lines, "sizes 8,512,2048", *QUICK)
    assert done.code == 0, done.said
    assert all(done.of("point", pattern=pattern) for pattern in atomics)
    assert facts(done)["atomics"] == "yes"
    done = measure("variant libfabric:ep=msg", "pattern pingpong", "pattern atomic", "sizes 8", *QUICK)
    assert done.code == 0, done.said
    assert not done.of("point", pattern="atomic")
    assert "has no atomic" in done.of("skipped", pattern="atomic")[0]["reason"]
    assert facts(done)["atomics"] == "no"


@pytest.mark.parametrize(
    ("settings", "provider"),
    [
        pytest.param("", "tcp;ofi_rxm", marks=deep),
        (":ep=msg", "tcp"),
        pytest.param(":ep=msg,completion=counter", "tcp", marks=deep),
        pytest.param(":provider=shm", "shm", marks=deep),
        pytest.param(":provider=udp;ofi_rxd", "udp;ofi_rxd", marks=deep),
    ],
)
def test_every_block_of_a_strided_transfer_arrives(measure: Runner, settings: str, provider: str) -> None:
    """Numbers of blocks that fill the lists of the provider, and that do not."""
    needs_provider(measure, provider, "msg" if "ep=msg" in settings else "rdm")
    shapes = ("", "stride=8", "block=17,stride=40", "sync=fence", "in_flight=5")
    patterns = [f"strided:direction={way},{shape}".rstrip(",") for way in ("put", "get") for shape in shapes]
    lines = [f"pattern {pattern}" for pattern in patterns]
    done = measure(f"variant libfabric{settings}", *lines, "sizes 8,24,136,4080", *QUICK)
    assert_verified(done, 2 * (4 * 4 + 2))  # of the sizes two are multiples of 17
    assert int(facts(done)["rma_blocks"]) >= 1


@pytest.mark.skipif(not has_pattern("accumulate"), reason="there is no pattern accumulate")
@pytest.mark.parametrize("provider", ["shm", pytest.param("tcp;ofi_rxm", marks=deep)])
def test_sums_are_right_with_many_in_flight(measure: Runner, provider: str) -> None:
    needs_provider(measure, provider)
    more = ("in_flight=16", "sync=fence", "fetch=yes", "in_flight=16,fetch=yes", "sync=fence,fetch=yes")
    lines = [f"pattern accumulate:{one}" for one in more]
    done = measure(f"variant libfabric:provider={provider}", *lines, "sizes 8,2048,65536", *QUICK)
    assert_verified(done, 15)


@pytest.mark.skipif(not has_pattern("accumulate"), reason="there is no pattern accumulate")
def test_sums_that_a_provider_does_not_have_are_named(measure: Runner) -> None:
    """The provider tcp has no atomics."""
    needs_provider(measure, "tcp", "msg")
    lines = ("pattern pingpong", "pattern accumulate", "pattern accumulate:fetch=yes")
    done = measure("variant libfabric:ep=msg", *lines, "sizes 8", *QUICK)
    assert_verified(done, 1)
    plain, fetching = done.of("skipped")
    assert "provider tcp with these settings adds no doubles" in plain["reason"]
    assert "does not fetch the doubles that it adds to" in fetching["reason"]


@pytest.mark.skipif(not has_pattern("signal"), reason="there is no pattern signal")
@pytest.mark.parametrize("settings", ["", ":ep=msg", pytest.param(":wait=block", marks=deep)])
def test_a_signal_comes_after_its_bytes(measure: Runner, settings: str) -> None:
    done = measure(f"variant libfabric{settings}", "pattern signal", "sizes 8,4097,65536", *QUICK)
    assert_verified(done, 3)


# ------------------------------------------------------------------------------- faults


@pytest.mark.parametrize(
    "settings",
    [
        "",
        *(pytest.param(one, marks=deep) for one in (":ep=msg", ":provider=shm", ":ep=dgram", ":wait=block")),
    ],
)
def test_a_rank_that_is_killed_ends_the_run_in_a_sentence(
    started: Starter, measure: Runner, settings: str
) -> None:
    if "shm" in settings:
        needs_provider(measure, "shm")
    process, path = started(
        f"variant libfabric{settings}", "pattern pingpong", "budget 20", "timeout 20", "sizes 8"
    )
    wait_for_samples(path)
    victim = ranks_of(process.pid)[-1]
    os.kill(victim, 9)
    assert process.wait(20) == 4
    errors = [r["message"] for r in parse(path.read_text()) if r["type"] == "error"]
    assert any("rank 1" in message for message in errors), errors
    for left in Path("/dev/shm").glob(f"{victim}:*"):  # what the provider shm cannot take away itself
        left.unlink()


def ranks_of(worker: int) -> list[int]:
    """The processes that the worker has forked, and that have forked no other."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found = []
    waiting = children.get(worker, [])
    while waiting:
        one = waiting.pop()
        found += [] if one in children else [one]
        waiting += children.get(one, [])
    return sorted(found)


def test_an_interrupt_ends_it_quietly(started: Starter) -> None:
    """No handler of a library below prints a backtrace."""
    process, path = started("variant libfabric", "pattern pingpong", "budget 20", "timeout 20")
    wait_for_samples(path)
    process.send_signal(2)
    assert process.wait(20) == 130
    assert process.stderr is not None
    assert "Backtrace" not in process.stderr.read()


@deep
def test_strangers_do_not_get_in(started: Starter) -> None:
    """Whoever knows the address of a datagram endpoint, but no token, is counted and changes nothing."""
    process, path = started(
        "variant libfabric:ep=dgram", "pattern pingpong", "schedule list", "sizes 8,64", "budget 3"
    )
    wait_for_samples(path)
    (variant,) = [r for r in parse(path.read_text()) if r["type"] == "variant"]
    ports = [int(rank["settings"]["address"].rpartition(" ")[2]) for rank in variant["ranks"]]
    stop = threading.Event()

    def flood() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            while not stop.is_set():
                for port in ports:
                    one.sendto(secrets.token_bytes(secrets.choice([1, 16, 40, 1472])), ("127.0.0.1", port))
                stop.wait(0.001)

    flooding = threading.Thread(target=flood)
    flooding.start()
    try:
        assert process.wait(40) == 0
    finally:
        stop.set()
        flooding.join()
    records = parse(path.read_text())
    assert not [r for r in records if r["type"] == "error"]
    assert '"strangers":"' in path.read_text()


# ------------------------------------------------------------------------------- two hosts


@pytest.mark.parametrize(
    "settings",
    [
        ":ep=msg",
        pytest.param("", marks=deep),
        pytest.param(":ep=dgram", marks=deep),
        pytest.param(":provider=udp;ofi_rxd", marks=deep),
        pytest.param(":wait=block", marks=deep),
    ],
)
def test_two_namespaces_measure_over_their_own_link(site: Site, settings: str) -> None:
    variant = f"libfabric{settings}"
    done = site.run(variant, "--sizes", "1,1000", "--budget", "0.2", "--timeout", "10", "--verify")
    assert_verified(done, 2)
    for rank, address in enumerate(("10.77.0.1", "10.77.0.2")):
        said = facts(done, rank)
        # An interface, or the provider's own name where it could not list them.
        assert said["domain"].startswith(("va", "vb", "tcp", "udp"))
        # Of ep=msg only the rank that listens has one.
        assert said.get("address", address).startswith(address)
    site.sees_nothing_left()


@deep
def test_a_server_says_what_it_does_not_allow(serve: Serve, measure: Runner) -> None:
    """What measures for a client makes no pairs of sockets, and most providers wake themselves with those."""
    server = serve()
    done = measure(*plan(server, "variant libfabric", "sizes 8", *QUICK))
    if done.code == 0:
        pytest.skip("this kernel, or this server, does not confine what it measures")
    assert done.code == 3, done.said
    assert "measure with --hosts" in done.said


# ------------------------------------------------------------------------------- the command


@deep
def test_the_command_takes_a_provider_with_a_semicolon(netpipe: Netpipe) -> None:
    done = netpipe("libfabric:provider=tcp;ofi_rxm", "--sizes", "8", "--budget", "0.2")
    assert done.code == 0, done.said
    assert facts(done)["provider"] == "tcp;ofi_rxm"


@pytest.fixture
def fi_environment() -> Iterator[None]:
    before = os.environ.get("FI_TCP_IFACE")
    os.environ["FI_TCP_IFACE"] = "lo"
    yield
    if before is None:
        del os.environ["FI_TCP_IFACE"]
    else:
        os.environ["FI_TCP_IFACE"] = before


@deep
@pytest.mark.usefixtures("fi_environment")
def test_the_environment_of_the_library_is_left_and_recorded(measure: Runner) -> None:
    done = measure("variant libfabric", "pattern pingpong", "sizes 8", *QUICK)
    assert_verified(done, 1)
    assert "FI_TCP_IFACE=lo" in facts(done)["environment"]
