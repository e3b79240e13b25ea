# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  (fixtures that are imported and then named as parameters)
"""Every MPI library over a link with a limit, between two hosts, beside TCP over the same link in the same run."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Netpipe, Outcome
from machines import ADDRESSES, TwoHosts, end, on, open_folder, two_hosts, wait_until  # noqa: F401
from mpi import SIX, Mpis

from netpipe.reading import Reading
from netpipe.records import Run

pytestmark = pytest.mark.deep

BITS_PER_S = 200_000_000
BUCKET = 16_384  # more than one packet of the larger MTU
SIZES = (8, 30_001, 300_001)
PATTERNS = ("pingpong", "stream")


@pytest.fixture
def served(two_hosts: TwoHosts, with_mpis: Mpis, tmp_path: Path) -> Iterator[list[str]]:
    """netpipe serve on the far host: what reaches it, as options of netpipe run."""
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text(secrets.token_hex(16))
    assert with_mpis.folder.is_dir()
    command = (sys.executable, "-m", "netpipe", "serve", "--port", "0", "--bind", ADDRESSES[1])
    with (tmp_path / "server.log").open("w") as log:
        server = subprocess.Popen(
            on(two_hosts.far, *command, "--token-file", str(token)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line, (tmp_path / "server.log").read_text()
        port = json.loads(line)["port"]
        yield ["--host", ADDRESSES[1], "--port", str(port), "--token-file", str(token)]
    finally:
        end(server)
        if server.stdout is not None:
            server.stdout.close()


def interfaces(done: Outcome) -> dict[str, dict[str, Any]]:
    """Of all hosts of a run, by name."""
    return {
        interface["name"]: interface
        for environment in done.of("environment")
        for interface in environment["facts"]["network"]["interfaces"]
    }


def least_s(size_bytes: float) -> float:
    """That so many bytes take in one direction, those apart that a full bucket lets through."""
    return (size_bytes - BUCKET) * 8 / BITS_PER_S


@pytest.mark.parametrize("mtu", [1500, 9000])
@pytest.mark.parametrize("library", SIX)
def test_a_library_over_a_link_with_a_limit(
    netpipe: Netpipe,
    with_mpis: Mpis,
    two_hosts: TwoHosts,
    served: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    library: str,
    mtu: int,
) -> None:
    with_mpis.need(library)
    monkeypatch.setenv("NETPIPE_LAM_USER", two_hosts.user)
    variants = ("tcp", f"mpi@{library}:transport=tcp")
    # Either of the two believes that it has the processors of this machine to itself, and they would share the first.
    options = ("--pin", "none", "--verify", "--budget", "0.3", "--sizes", ",".join(map(str, SIZES)))
    patterns = [word for pattern in PATTERNS for word in ("--pattern", pattern)]
    with two_hosts.link(mtu, BITS_PER_S, BUCKET):
        before = two_hosts.carried_bytes()
        done = netpipe(*variants, *served, *two_hosts.options, *options, *patterns, inside=two_hosts.inside)
        carried = two_hosts.carried_bytes() - before
    assert done.code == 0, done.said

    # Both went over this link and no other way, and every byte arrived.
    for variant in variants:
        (opened,) = done.of("variant", variant=variant)
        assert [rank["host"] for rank in opened["ranks"]] == [two_hosts.near, two_hosts.far]
        for pattern in PATTERNS:
            unsteady = {one["size_bytes"] for one in done.of("skipped", variant=variant, pattern=pattern)}
            points = done.of("point", variant=variant, pattern=pattern)
            assert {point["size_bytes"] for point in points} | unsteady == set(SIZES), done.said
            assert all(point["verified_bytes"] > 0 for point in points)
    (opened,) = done.of("variant", variant=variants[1])
    assert {rank["settings"]["transport_found"] for rank in opened["ranks"]} == {"TCP"}
    assert carried > sum(point["verified_bytes"] for point in done.of("point"))

    # Nothing is faster than the link: no message of a ping-pong, and no visit from the end of the one before it on.
    # (The clock of a stream starts when the receiver has seen the first message; the next ones may be there by then.)
    for point in done.of("point", pattern="pingpong"):
        assert point["min_ns"] >= least_s(point["size_bytes"]) * 1e9, point
    before_s = 0.0
    for visit in done.of("sample"):
        messages = visit["ops"] * len(visit["ns"] + visit["dropped_ns"])
        one_way = 1 + messages / (2 if visit["pattern"] == "pingpong" else 1)
        assert visit["at_s"] - before_s >= least_s(one_way * visit["size_bytes"]), visit
        before_s = visit["at_s"]

    # What the library loses is said against TCP over the same link.
    found = Reading(Run.read(tmp_path / "run.jsonl")).losses
    assert {(loss.variant, loss.pattern, loss.below) for loss in found} == {
        (variants[1], pattern, "tcp") for pattern in PATTERNS
    }
    assert f"\n{variants[1]} " in done.said

    # And the record says what the link was.
    known = interfaces(done)
    for name in (two_hosts.near, two_hosts.far):
        link = known[f"v{name}"]
        assert link["mtu_bytes"] == mtu
        assert link["qdisc"] == {"kind": "tbf", "bits_per_s": BITS_PER_S, "burst_bytes": BUCKET}
        assert not any(link["offloads"][one] for one in ("tso", "gso", "gro"))

    wait_until(lambda: len(two_hosts.left()) <= 1, "all but the server has left", 10)
    assert [words for words in two_hosts.left() if " serve " not in words] == []
