# SPDX-License-Identifier: Apache-2.0
"""verbs between two hosts. Soft-RoCE sends and receives in the first network namespace alone, so its two devices lie
there, at the ends of a cable. The ranks run in two other namespaces, as on two hosts, and each takes the device that
has its address. test_verbs.py runs this file in a guest.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import Outcome
from guests import IN_GUEST
from machines import wait_until
from test_hosts import FAR, NEAR, Site, site
from test_two_hosts import two_namespaces

__all__ = ["site", "two_namespaces"]  # fixtures

pytestmark = [
    pytest.mark.module("verbs"),
    pytest.mark.skipif(not IN_GUEST, reason="it needs the devices of tests/guest"),
]
LIMIT_S = 300.0  # of a run: in the guest starting Python alone takes many seconds
QUICK = ("--verify", "--budget", "1", "--timeout", "30")
ENDS = {NEAR: "cable1", FAR: "cable2"}
# GIDs of the link alone: between two IPv4 addresses of one namespace packets would not take the cable.
OWN_LINK = "gid=0"


def call(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
    return done.stdout


def is_settled(device: str) -> bool:
    """Whether it has an IPv6 address of its link that the kernel found to be nobody else's."""
    said = call("ip", "-6", "-o", "address", "show", "dev", device, "scope", "link")
    return bool(said) and "tentative" not in said


@pytest.fixture
def cable() -> Iterator[None]:
    """Two devices, rxe_cable1 and rxe_cable2, with the addresses of the two hosts."""
    near, far = ENDS.values()
    call("ip", "link", "add", near, "type", "veth", "peer", "name", far)
    try:
        for address, end in ENDS.items():
            call("ip", "address", "add", f"{address}/32", "dev", end)
            call("ip", "link", "set", end, "up")
        for end in ENDS.values():
            wait_until(partial(is_settled, end), f"{end} has an address")
            call("rdma", "link", "add", f"rxe_{end}", "type", "rxe", "netdev", end)
        yield
    finally:
        call("ip", "link", "del", near)  # its other end and both devices go with it


def carried_bytes(end: str) -> int:
    return int(Path(f"/sys/class/net/{end}/statistics/tx_bytes").read_text())


def run(site: Site, *words: str) -> Outcome:
    done = site.end(site.start(*words, *QUICK), LIMIT_S)
    assert done.code == 0, done.said + str(done.of("error"))
    assert all(point["verified_bytes"] > 0 for point in done.of("point"))
    return done


def settings(opened: dict[str, Any]) -> list[dict[str, Any]]:
    return [rank["settings"] for rank in opened["ranks"]]


@pytest.mark.usefixtures("cable")
def test_two_hosts_measure_over_their_own_link(site: Site) -> None:
    variants = [f"verbs:{OWN_LINK}{more}" for more in ("", ",op=write", ",op=write_imm,wait=block")]
    before = {end: carried_bytes(end) for end in ENDS.values()}
    patterns = ("--pattern", "pingpong", "--pattern", "stream")
    done = run(site, *variants, *patterns, "--sizes", "1,4097,300001", "--pin", "0,1")
    assert len(done.of("point")) == len(variants) * 2 * 3
    for opened in done.of("variant"):
        near, far = settings(opened)
        assert (near["device"], far["device"]) == ("rxe_cable1", "rxe_cable2")
        assert near["gid_address"].startswith("fe80:")
        assert far["gid_address"].startswith("fe80:")
        assert near["gid_address"] != far["gid_address"]
    for end, bytes_before in before.items():
        assert carried_bytes(end) - bytes_before > len(variants) * 300_001, f"{end} carried too little"
    site.sees_nothing_left()


@pytest.mark.usefixtures("cable")
def test_two_hosts_measure_over_queue_pairs_that_may_lose_messages(site: Site) -> None:
    more = ("qp=ud", "qp=uc", "qp=uc,op=write_imm")
    variants = [f"verbs:{OWN_LINK},{one},wait=block" for one in more]
    patterns = ("--pattern", "pingpong", "--pattern", "stream")
    done = run(site, *variants, *patterns, "--sizes", "1,1000", "--pin", "0,1")
    assert len(done.of("point")) == len(variants) * 2 * 2
    for opened in done.of("variant"):
        assert [one["device"] for one in settings(opened)] == ["rxe_cable1", "rxe_cable2"]


@pytest.mark.usefixtures("cable")
def test_puts_and_messages_of_two_ranks_on_each_of_two_hosts(site: Site) -> None:
    patterns = [word for one in ("ring", "put", "itself") for word in ("--pattern", one)]
    words = (f"verbs:{OWN_LINK},wait=block", "--ranks", "4", *patterns, "--sizes", "8,4097")
    done = run(site, *words)
    assert len(done.of("point")) == 3 * 2
    (opened,) = done.of("variant")
    hosts = [rank["host"] for rank in opened["ranks"]]
    assert hosts == [hosts[0], hosts[0], FAR, FAR]
    assert [one["device"] for one in settings(opened)] == ["rxe_cable1"] * 2 + ["rxe_cable2"] * 2
