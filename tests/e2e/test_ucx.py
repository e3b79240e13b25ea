# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  (fixtures that are imported and then named as parameters)
"""Module ucx: its transports, what it says of them, what it refuses, how it waits, and peers that die. Every pattern
with it is in test_conformance.py.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import Outcome, Runner, Starter, parse, wait_for_samples
from machines import wait_until
from test_hosts import FAR, NEAR, Site, site  # noqa: F401
from test_two_hosts import Serve, plan, serve, token, two_namespaces  # noqa: F401

pytestmark = pytest.mark.module("ucx")

QUICK_RUN = ("--sizes", "1,8,65536", "--budget", "0.3")
QUICK = ("pattern pingpong", "schedule list", "budget 0.05", "verify yes")


@pytest.fixture(autouse=True)
def there(listing: dict[str, Any]) -> dict[str, Any]:
    found = [one for one in listing["modules"] if one["name"] == "ucx"]
    if not found:
        pytest.skip("module ucx is not built: apt install libucx-dev")
    if found[0].get("unavailable"):
        pytest.skip(f"module ucx cannot be used here: {found[0]['unavailable']}")
    (module,) = found
    return dict(module)


def settings(done: Outcome, variant: str, rank: int = 0) -> dict[str, Any]:
    (one,) = done.of("variant", variant=variant)
    (found,) = [r["settings"] for r in one["ranks"] if r["rank"] == rank]
    return {"below": one["below"], **found}


def counted(done: Outcome, variant: str, counter: str) -> int:
    return sum(int(p["counters"][counter]) for p in done.of("point", variant=variant))


def test_what_ucx_has_chosen_is_recorded(measure: Runner) -> None:
    variants = {
        "shared": "ucx:tls=posix",
        "tcp": "ucx:tls=tcp,rndv=64k,sndbuf=100k",
        "new": "ucx:tls=tcp,protocols=v2,set=TCP_NODELAY=n",
    }
    done = measure(*(f"variant {one}" for one in variants.values()), *QUICK, "sizes 0,1,8,65536,300001")
    assert done.code == 0, done.said
    assert {p["size_bytes"] for p in done.of("point")} == {0, 1, 8, 65536, 300001}
    found = {name: settings(done, variant) for name, variant in variants.items()}
    assert re.fullmatch(r"posix/memory \([^()]*\)", found["shared"]["transports"])
    assert found["shared"]["below"] == "shm"
    assert "local_address" not in found["shared"]
    assert re.fullmatch(r"tcp/lo \([^()]*\)", found["tcp"]["transports"])
    assert found["tcp"]["below"] == "tcp"
    assert found["tcp"]["local_address"] == found["tcp"]["peer_address"] == "127.0.0.1"
    assert int(found["tcp"]["sndbuf_kernel_bytes"]) == 2 * 100 * 1024
    assert "rndv from 65536" in found["tcp"]["protocols_tag"]
    # The other protocols, and a setting that UCX does not know would have been refused.
    assert "over tcp/lo" in found["new"]["protocols_tag"]
    assert found["new"]["UCX_TCP_NODELAY"] == "n"


STEP = re.compile(r"(?:lane \d+: )?(\S[^,;]*) from (\d+)([KMG]?)(?: over (\S[^,;]*))?")


def steps(fact: str) -> dict[str, int]:
    """The first size of each protocol of a fact. Those of a lane begin with 0 and grow."""
    first: dict[str, int] = {}
    for lane in fact.split("; "):
        found = [STEP.fullmatch(step) for step in lane.split(", ")]
        sizes = [int(one[2]) << 10 * " KMG".index(one[3] or " ") for one in found if one]
        assert len(sizes) == len(found), fact
        assert sizes[0] == 0, fact
        assert sizes == sorted(set(sizes)), fact
        first |= {one[1]: size for one, size in zip(found, sizes, strict=True) if one}
    return first


@pytest.mark.parametrize("tls", ["posix", "tcp"])
@pytest.mark.parametrize("protocols", ["v1", "v2"])
def test_the_protocols_of_every_operation_are_recorded(measure: Runner, protocols: str, tls: str) -> None:
    """Newer ones are chosen when an operation is first used, those of puts and gets too."""
    by_api = {
        api: f"ucx:api={api},tls={tls},protocols={protocols}".replace("api=tag,", "")
        for api in ("tag", "stream", "am")
    }
    patterns = ("pattern pingpong", "pattern put", "pattern get")
    done = measure(
        *(f"variant {one}" for one in by_api.values()), *patterns, "schedule list", "sizes 8", "budget 0.02"
    )
    assert done.code == 0, done.said
    found = {api: settings(done, variant) for api, variant in by_api.items()}
    for api in by_api:
        if (api, protocols) == ("stream", "v2") and "protocols_stream" not in found[api]:
            continue  # UCX 1.13 has no newer protocols of streams
        assert any("short" in name for name in steps(found[api][f"protocols_{api}"])), found[api]
    for one in ("protocols_put", "protocols_get"):
        if (tls, protocols) == ("tcp", "v1"):  # made of active messages, of which UCX says nothing
            assert one not in found["tag"]
            continue
        assert steps(found["tag"][one]), found["tag"]
        assert (" over " in found["tag"][one]) == (protocols == "v2")


@pytest.mark.parametrize("tls", ["posix", "tcp"])
def test_puts_and_gets_that_are_waited_for_by_requests_arrive(measure: Runner, tls: str) -> None:
    patterns = [f"{way}:sync=wait{more}" for way in ("put", "get") for more in ("", ",in_flight=7")]
    done = measure(
        *(f"variant ucx:tls={tls}", *(f"pattern {one}" for one in patterns), "buffers cold"),
        *("schedule list", "sizes 1,4097,300001", "budget 0.05", "verify yes"),
    )
    assert done.code == 0, done.said
    for pattern in patterns:
        points = done.of("point", pattern=pattern)
        assert len(points) == 3, pattern
        width = 7 if "in_flight" in pattern else 1
        assert all(point["verified_bytes"] >= 2 * width * point["size_bytes"] for point in points), pattern


def test_an_empty_message_is_nothing_in_a_stream_and_something_otherwise(measure: Runner) -> None:
    done = measure("variant ucx:api=stream", "variant ucx:api=am", *QUICK, "sizes 0,8")
    assert done.code == 0, done.said
    (skipped,) = done.of("skipped")
    assert (skipped["variant"], skipped["size_bytes"]) == ("ucx:api=stream", 0)
    assert {p["size_bytes"] for p in done.of("point", variant="ucx:api=am")} == {0, 8}


@pytest.mark.parametrize(("way", "code"), [("copy", 0), ("leave", 3)])
def test_what_is_left_where_it_came_is_not_verified(measure: Runner, way: str, code: int) -> None:
    """Messages that come before their receive, too, and larger ones, which come by rendezvous."""
    done = measure(
        f"variant ucx:api=am,deliver={way},tls=posix",
        "pattern pingpong",
        "pattern burst",
        "schedule list",
        "sizes 0,4096,300001",
        "budget 0.05",
        "verify yes",
    )
    assert done.code == code, done.said
    assert ("not verified: its bytes arrive nowhere" in done.said) == (way == "leave")
    points = done.of("point")
    assert len(points) == 6
    verified = [point["verified_bytes"] > 0 for point in points if point["size_bytes"] > 0]
    assert all(verified) if way == "copy" else not any(verified)
    (opened,) = done.of("variant")
    assert {rank["settings"]["deliver"] for rank in opened["ranks"]} == {way}


def test_it_sleeps_or_polls_as_it_is_told(measure: Runner) -> None:
    """hybrid sleeps once it has polled for its time, and never where the message comes within it."""
    block, poll, hybrid, at_once, patient = (
        f"ucx:tls=tcp,wait={way}"
        for way in ("block", "poll", "hybrid", "hybrid,spin_us=0", "hybrid,spin_us=1000000")
    )
    variants = (block, poll, hybrid, at_once, patient)
    done = measure(*(f"variant {one}" for one in variants), *QUICK, "sizes 8")
    assert done.code == 0, done.said
    assert counted(done, block, "sleeps") > 0
    assert counted(done, poll, "sleeps") == 0
    assert counted(done, at_once, "sleeps") > 0
    assert counted(done, patient, "sleeps") == 0
    assert counted(done, patient, "empty_polls") > 0
    assert settings(done, block)["wait"] == "block"
    assert settings(done, hybrid)["wait"] == "hybrid"
    assert [settings(done, one)["spin_us"] for one in (hybrid, at_once, patient)] == ["50", "0", "1000000"]


def test_ranks_on_one_processor_take_turns(measure: Runner) -> None:
    done = measure("variant ucx", "variant ucx:wait=block", *QUICK, "sizes 8,65536", "pin 0,0")
    assert done.code == 0, done.said
    assert settings(done, "ucx")["wait"] == "yield"
    assert settings(done, "ucx:wait=block")["wait"] == "block"


REFUSED = [
    ("tls=carrier", 3, ["tls=carrier", "posix", "tcp"]),
    ("tls=tcp+carrier", 3, ["carrier", "please use one or more of"]),
    ("devices=nodev0,tls=tcp", 3, ["nodev0", "'lo'"]),
    ("tls=self", 3, ["no way from rank", "tls=tcp"]),
    ("tls=posix,errors=peer", 3, ["errors=peer", "tls=tcp"]),
    ("sndbuf=64k,tls=posix", 2, ["sndbuf=64k", "not joined by tcp"]),
    ("zcopy=1k,tls=posix", 2, ["zcopy=1k has no effect", "egr/short from 0"]),
    ("set=NO_SUCH=1", 2, ["NO_SUCH", "ucx_info -cf"]),
    ("set=TCP_NO_SUCH=1,tls=tcp", 2, ["TCP_NO_SUCH", "ucx_info -cf"]),
    ("set=POSIX_SEG_SIZE=16k,tls=tcp", 2, ["POSIX_SEG_SIZE"]),
    ("set=RNDV_THRESH=much", 2, ["RNDV_THRESH", "much"]),
    ("set=RNDV_THRESH=1k,rndv=2k", 2, ["rndv=2k", "leave one of them out"]),
    ("set=RNDV_THRESH", 2, ["write NAME=VALUE"]),
    ("rndv=64k,api=stream", 2, ["rndv=64k", "a stream has no rendezvous"]),
    ("spin_us=10", 2, ["spin_us=10"]),
    ("deliver=leave", 2, ["deliver=leave with api=tag", "UCX itself copies"]),
    ("deliver=leave,api=stream", 2, ["deliver=leave with api=stream", "UCX itself copies"]),
]


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [pytest.param(*one, id=one[0], marks=pytest.mark.deep if i % 3 else []) for i, one in enumerate(REFUSED)],
)
def test_what_is_not_there_is_refused_before_anything_is_measured(
    measure: Runner, options: str, code: int, says: list[str]
) -> None:
    done = measure(f"variant ucx:{options}", *QUICK, "sizes 8")
    assert done.code == code, done.said
    assert all(word in done.said for word in says), done.said
    assert not done.of("sample")


def test_the_environment_holds_where_no_option_says_otherwise(
    measure: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UCX_TLS", "tcp")
    monkeypatch.setenv("UCX_RNDV_THRESH", "9k")
    done = measure("variant ucx", "variant ucx:tls=posix,rndv=64k", *QUICK, "sizes 8")
    assert done.code == 0, done.said
    assert settings(done, "ucx")["below"] == "tcp"
    assert "rndv from 9216" in settings(done, "ucx")["protocols_tag"]
    chosen = settings(done, "ucx:tls=posix,rndv=64k")
    assert chosen["below"] == "shm"
    assert "rndv from 65536" in chosen["protocols_tag"]


def test_ucx_prints_nothing(measure: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has something to say of a variable that it does not know, and of everything on this level."""
    monkeypatch.setenv("UCX_NO_SUCH_VARIABLE", "1")
    monkeypatch.setenv("UCX_LOG_LEVEL", "info")
    done = measure("variant ucx", *QUICK, "sizes 8")
    assert done.code == 0
    assert done.said == ""  # and standard output was JSON, or it could not have been read


@pytest.mark.parametrize(
    "variant", ["ucx:ranks=4", pytest.param("ucx:ranks=4,api=am,tls=tcp", marks=pytest.mark.deep)]
)
def test_four_ranks_talk_in_pairs(measure: Runner, variant: str) -> None:
    patterns = ("pattern pairs", "pattern incast")
    done = measure(
        f"variant {variant}", *patterns, "schedule list", "sizes 1,4097", "budget 0.05", "verify yes"
    )
    assert done.code == 0, done.said
    assert len(done.of("point")) == 2 * 2
    assert all(p["verified_bytes"] > 0 for p in done.of("point"))


@pytest.mark.parametrize(
    ("variant", "way"),
    [
        ("ucx", "self/memory"),
        ("ucx:ranks=4", "self/memory"),
        ("ucx:tls=posix", "posix/memory"),
        ("ucx:api=am,tls=tcp,wait=block", "tcp/lo"),
        pytest.param("ucx:api=stream", "self/memory", marks=pytest.mark.deep),
        pytest.param("ucx:protocols=v2", "self/memory", marks=pytest.mark.deep),
        pytest.param("ucx:tls=tcp,errors=peer", "tcp/lo", marks=pytest.mark.deep),
    ],
)
def test_a_rank_sends_to_itself_by_the_transport_that_is_named(
    measure: Runner, variant: str, way: str
) -> None:
    """Also by rendezvous, and after messages to others."""
    patterns = ("pattern pingpong", "pattern itself")
    done = measure(
        f"variant {variant}", *patterns, "schedule list", "sizes 1,4097,300001", "budget 0.05", "verify yes"
    )
    assert done.code == 0, done.said
    assert len(done.of("point", pattern="itself")) == 3
    assert all(point["verified_bytes"] > 0 for point in done.of("point"))
    for rank in (0, 1):
        assert settings(done, variant, rank)["transports_to_itself"].startswith(way)


def test_without_a_way_to_itself_only_that_pattern_is_left_out(
    measure: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    made = tmp_path / "not_itself.so"
    source = Path(__file__).with_name("not_itself.c")
    libraries = ["-Wl,--no-as-needed", "-lucp"]  # else it is loaded before the function that it looks for
    subprocess.run([compiler, "-shared", "-fPIC", "-o", made, source, *libraries], check=True, timeout=120)
    monkeypatch.setenv("LD_PRELOAD", str(made))
    patterns = ("pattern pingpong", "pattern itself")
    done = measure("variant ucx", *patterns, "schedule list", "sizes 8", "budget 0.05", "verify yes")
    assert done.code == 0, done.said
    assert [point["pattern"] for point in done.of("point")] == ["pingpong"]
    (skipped,) = done.of("skipped")
    assert "no way from rank 0 to rank 0 over" in skipped["reason"]
    assert settings(done, "ucx")["transports_to_itself"] == ""


def children(process: int) -> list[int]:
    done = subprocess.run(
        ["ps", "--ppid", str(process), "-o", "pid="], capture_output=True, text=True, check=False
    )
    return [int(word) for word in done.stdout.split()]


@pytest.mark.parametrize(
    "variant",
    [
        "ucx:tls=posix",
        "ucx:tls=tcp,errors=peer",
        pytest.param("ucx:tls=tcp", marks=pytest.mark.deep),
        pytest.param("ucx:tls=posix+cma,wait=block", marks=pytest.mark.deep),
        pytest.param("ucx:tls=tcp,wait=block,api=am", marks=pytest.mark.deep),
    ],
)
def test_a_rank_that_is_killed_ends_the_run(started: Starter, variant: str) -> None:
    worker, path = started(
        f"variant {variant}", "pattern pingpong", "schedule list", "sizes 64,65536", "budget 30", "timeout 5"
    )
    wait_for_samples(path)
    (rank,) = children(worker.pid)
    os.kill(rank, signal.SIGKILL)
    assert worker.wait(30) == 4
    (error,) = [r for r in parse(path.read_text()) if r["type"] == "error"]
    assert "rank 1 has gone" in error["message"]


def test_its_signal_handlers_are_not_left_to_the_process(started: Starter) -> None:
    """UCX's constructor takes SIGHUP, SIGSEGV and others."""
    worker, path = started("variant ucx", "schedule list", "sizes 64", "budget 30")
    wait_for_samples(path)
    for process in (worker.pid, *children(worker.pid)):
        (line,) = [
            line for line in Path(f"/proc/{process}/status").read_text().splitlines() if "SigCgt" in line
        ]
        caught = int(line.split()[1], 16)
        for one in (signal.SIGHUP, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL):
            assert not caught >> (one - 1) & 1, f"{one.name} of process {process} is caught"
    worker.send_signal(signal.SIGINT)
    assert worker.wait(20) == 130
    wait_until(lambda: not children(worker.pid), "a rank is left")


def running(namespace: str) -> bool:
    links = subprocess.run(["ip", "-n", namespace, "-o", "link"], capture_output=True, text=True, check=True)
    return "state UP" in links.stdout


def test_two_hosts_measure_over_their_own_link(site: Site) -> None:
    """Without tls UCX goes from one namespace to the other through shared memory, and then the record says so."""
    for name in (site.near, site.far):  # UCX leaves out an interface whose kernel has not seen its link yet
        wait_until(partial(running, name), f"the link of {name} is down")
    variants = ("ucx:tls=tcp", "ucx:api=am,tls=tcp,wait=block", "ucx")
    done = site.run(*variants, "--pattern", "pingpong", "--pattern", "put", "--verify", *QUICK_RUN)
    assert done.code == 0, done.said
    for variant in variants:
        assert len(done.of("point", variant=variant, pattern="pingpong")) == 3
        # A put is no message, so no label may say which kind of message it was.
        puts = done.of("skipped" if "api=" in variant else "point", variant=variant, pattern="put")
        assert len(puts) == (1 if "api=" in variant else 3)
    assert all(point["verified_bytes"] > 0 for point in done.of("point"))
    over_tcp = settings(done, "ucx:tls=tcp")
    assert (over_tcp["local_address"], over_tcp["peer_address"]) == (NEAR, FAR)
    assert over_tcp["below"] == "tcp"
    assert re.match(r"tcp/va\w+ \(", over_tcp["transports"]), over_tcp
    by_itself = settings(done, "ucx")
    assert by_itself["below"] == ("tcp" if by_itself["transports"].startswith("tcp/") else "shm")
    site.sees_nothing_left()


def test_a_server_that_confines_its_ranks_is_said(serve: Serve, measure: Runner) -> None:
    done = measure(*plan(serve(), "variant ucx:tls=tcp", *QUICK, "sizes 8"))
    assert done.code == 3, done.said
    assert "use --hosts instead" in done.said
    assert not done.of("sample")
