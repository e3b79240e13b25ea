# SPDX-License-Identifier: Apache-2.0
"""tcp with TLS 1.3 by OpenSSL and by the kernel. Where this kernel has none, test_in_guest.py runs this file in
a guest that has it.
"""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest
from conftest import Outcome, Runner, Starter, parse, wait_for_samples
from guests import IN_GUEST

pytestmark = pytest.mark.module("tcp")


def kernel_has_it() -> bool:
    """The kernel looks for its part before it sees that the socket is not connected."""
    with socket.socket() as one:
        try:
            one.setsockopt(socket.IPPROTO_TCP, 31, b"tls")  # TCP_ULP
        except FileNotFoundError:
            return False
        except OSError:
            return True
    return True


BY = ("openssl", "kernel")
HAS = {"openssl": True, "kernel": kernel_has_it()}
QUICK = ("schedule list", "verify yes", "budget 1" if IN_GUEST else "budget 0.05", "timeout 20")
by_each = pytest.mark.parametrize(
    "by",
    [
        "openssl",
        pytest.param("kernel", marks=pytest.mark.skipif(not HAS["kernel"], reason="this kernel has no TLS")),
    ],
)


def verified(done: Outcome) -> Outcome:
    assert done.code == 0, done.said + str(done.of("error"))
    assert done.of("point")
    assert all(point["verified_bytes"] > 0 for point in done.of("point"))
    return done


def settings(done: Outcome) -> list[dict[str, Any]]:
    return [rank["settings"] for rank in done.of("variant")[0]["ranks"]]


@by_each
def test_every_byte_arrives_by_every_pattern(measure: Runner, by: str) -> None:
    """Around the 16 KiB of a record."""
    patterns = ("pingpong", "stream", "bidirectional", "window", "burst")
    done = measure(
        f"variant tcp:tls={by}", *(f"pattern {one}" for one in patterns), "sizes 1,16384,16385,60001", *QUICK
    )
    verified(done)
    assert {point["pattern"] for point in done.of("point")} == set(patterns)
    for rank in settings(done):
        assert (rank["tls"], rank["tls_suite"]) == (by, "TLS_AES_128_GCM_SHA256")
        assert rank["tls_library"].startswith("3.")


@by_each
def test_what_is_sent_is_records(measure: Runner, by: str) -> None:
    """Each of up to 16 KiB, with 22 bytes of its own: 5 of header, 1 of type and 16 of the tag (RFC 8446, 5.2)."""

    done = verified(measure(f"variant tcp:tls={by}", "sizes 8", *QUICK))
    counters = [one["counters"] for one in done.of("sample") if one["counters"].get("segments_delivered")]
    sent, segments = (
        sum(int(one[name]) for one in counters) for name in ("bytes_sent", "segments_delivered")
    )
    assert sent / segments == pytest.approx(8 + 22, rel=0.1), "a message is a segment"


@by_each
@pytest.mark.parametrize(
    "more", ["wait=poll,streams=3,stripe=5000", "wait=hybrid", "reopen=no,connections=one"]
)
def test_with_other_settings(measure: Runner, by: str, more: str) -> None:
    verified(
        measure(f"variant tcp:tls={by},{more}", "pattern pingpong", "pattern stream", "sizes 1,40001", *QUICK)
    )


@by_each
def test_four_ranks(measure: Runner, by: str) -> None:
    verified(
        measure(f"variant tcp:tls={by}", "ranks 4", "pattern ring", "pattern window", "sizes 1,40001", *QUICK)
    )


@by_each
def test_a_rank_that_is_killed_ends_the_run_in_a_sentence(started: Starter, by: str) -> None:
    process, path = started(f"variant tcp:tls={by}", "schedule list", "sizes 8", "budget 30", "timeout 10")
    wait_for_samples(path)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)
    assert process.wait(30) == 4
    errors = [r["message"] for r in parse(path.read_text()) if r["type"] == "error"]
    assert any("rank 1" in message for message in errors), errors


def test_an_interrupt_ends_it(started: Starter) -> None:
    process, path = started("variant tcp:tls=openssl", "schedule list", "sizes 1000003", "budget 30")
    wait_for_samples(path)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130


@pytest.mark.skipif(HAS["kernel"], reason="this kernel has it")
def test_a_kernel_without_it_says_so(measure: Runner) -> None:
    done = measure("variant tcp:tls=kernel", "sizes 8", *QUICK)
    assert done.code == 3
    assert "tls=kernel: this kernel has no TLS" in done.said
    assert "modprobe tls" in done.said
