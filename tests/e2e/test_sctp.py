# SPDX-License-Identifier: Apache-2.0
"""sctp. Where this kernel has none it is listed with the reason; test_in_guest.py runs this file
in a guest that has it.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from conftest import Runner, Starter, parse, wait_for_samples
from guests import IN_GUEST
from test_hosts import FAR, NEAR, Site, site
from test_tcp_tls import settings, verified
from test_two_hosts import two_namespaces

__all__ = ["site", "two_namespaces"]  # fixtures

pytestmark = pytest.mark.module("sctp")
QUICK = ("schedule list", "verify yes", "budget 0.3" if IN_GUEST else "budget 0.05", "timeout 20")
BETWEEN = ("--verify", "--sizes", "1,1500,100001", "--budget", "1" if IN_GUEST else "0.2", "--timeout", "20")
BETWEEN_S = 300.0  # of a run between hosts in the guest, where starting Python alone takes many seconds


@pytest.fixture
def module(listing: dict[str, Any]) -> dict[str, Any]:
    (found,) = [one for one in listing["modules"] if one["name"] == "sctp"]
    return dict(found)


@pytest.fixture
def present(module: dict[str, Any]) -> None:
    if not module["available"]:
        pytest.skip(module["reason"])


def test_a_kernel_without_it_says_so(measure: Runner, module: dict[str, Any]) -> None:
    if module["available"]:
        pytest.skip("this kernel has SCTP")
    assert "this kernel has no SCTP" in module["reason"]
    assert "modprobe sctp" in module["reason"]
    done = measure("variant sctp", "sizes 8", *QUICK)
    assert done.code == 3
    assert "this kernel has no SCTP" in done.said


@pytest.mark.usefixtures("present")
@pytest.mark.parametrize("wait", ["block", "poll", "hybrid"])
def test_every_byte_arrives_by_every_pattern(measure: Runner, wait: str) -> None:
    """Around the piece that a longer message is sent in."""
    patterns = ("pingpong", "stream", "bidirectional", "window", "burst")
    done = measure(
        f"variant sctp:wait={wait}",
        *(f"pattern {one}" for one in patterns),
        "sizes 1,1500,32768,32769,100001",
        *QUICK,
    )
    verified(done)
    assert {point["pattern"] for point in done.of("point")} == set(patterns)
    assert [rank["wait"] for rank in settings(done)] == [wait, wait]


@pytest.mark.usefixtures("present")
def test_four_ranks(measure: Runner) -> None:
    verified(measure("variant sctp", "ranks 4", "pattern ring", "pattern window", "sizes 1,40001", *QUICK))


@pytest.mark.usefixtures("present")
@pytest.mark.parametrize(
    ("setting", "fact", "value"),
    [
        ("nodelay=no", "nodelay", "no"),
        ("message=1k", "message_bytes", "1024"),
        ("maxseg=500", "fragmentation_bytes", "500"),
        ("ip=6", "ip", "6"),
        ("sndbuf=64k", "sndbuf_kernel_bytes", "131072"),
        ("rcvbuf=64k", "rcvbuf_kernel_bytes", "131072"),
    ],
)
def test_a_setting_is_in_force_and_recorded(measure: Runner, setting: str, fact: str, value: str) -> None:
    done = verified(measure(f"variant sctp:{setting}", "sizes 8,3001", *QUICK))
    assert [rank[fact] for rank in settings(done)] == [value, value]


@pytest.mark.usefixtures("present")
def test_two_hosts_measure_over_their_own_link(site: Site) -> None:
    variants, patterns = ("sctp", "sctp:wait=poll"), ("pingpong", "stream")
    asked = [word for one in patterns for word in ("--pattern", one)]
    done = verified(site.end(site.start(*variants, *asked, "--pin", "0,1", *BETWEEN), BETWEEN_S))
    assert len(done.of("point")) == len(variants) * len(patterns) * 3
    for opened in done.of("variant"):
        near, far = (rank["settings"] for rank in opened["ranks"])
        assert (near["local"].split()[0], near["peer"].split()[0]) == (NEAR, FAR)
        assert (far["local"].split()[0], far["peer"].split()[0]) == (FAR, NEAR)
        assert near["interface"] != far["interface"]
    site.sees_nothing_left()


@pytest.mark.usefixtures("present")
def test_two_ranks_on_each_of_two_hosts(site: Site) -> None:
    words = ("sctp", "--ranks", "4", "--pattern", "ring", "--pattern", "incast", *BETWEEN)
    done = verified(site.end(site.start(*words), BETWEEN_S))
    assert {point["pattern"] for point in done.of("point")} == {"ring", "incast"}
    hosts = [rank["host"] for rank in done.of("variant")[0]["ranks"]]
    assert hosts == [hosts[0], hosts[0], FAR, FAR]
    site.sees_nothing_left()


@pytest.mark.usefixtures("present")
def test_a_rank_that_is_killed_ends_the_run_in_a_sentence(started: Starter) -> None:
    process, path = started("variant sctp", "schedule list", "sizes 8", "budget 30", "timeout 10")
    wait_for_samples(path)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)
    assert process.wait(30) == 4
    errors = [r["message"] for r in parse(path.read_text()) if r["type"] == "error"]
    assert any("rank 1" in message for message in errors), errors
