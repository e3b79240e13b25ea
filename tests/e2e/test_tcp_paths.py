# SPDX-License-Identifier: Apache-2.0
"""tcp by other paths than a copy in send and recv (MSG_ZEROCOPY, io_uring, splice, sendfile), by Multipath TCP, and
woken by a signal.
"""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import WORKER, Outcome, Runner, Starter, parse, wait_for_samples
from machines import may_lock

pytestmark = pytest.mark.module("tcp")

PATHS = ("zerocopy", "uring", "uring_zc", "splice", "sendfile")
OTHERS = (*(f"path={path}" for path in PATHS), "wait=sigio", "protocol=mptcp")
QUICK = ("schedule list", "sizes 1,8,16383,16384,300001", "budget 0.05", "verify yes", "timeout 10")


def measured(measure: Runner, variant: str, *lines: str, inside: tuple[str, ...] = ()) -> Outcome:
    """Skips where this kernel, or what netpipe was built with, does not have it: the module says so."""
    done = measure(f"variant tcp:{variant}", *QUICK, *lines, inside=inside)
    for error in done.of("error", code=3):
        if "it needs Linux" in error["message"] or "older than Linux" in error["message"]:
            pytest.skip(error["message"])
    assert done.code == 0, done.said + str(done.of("error"))
    assert done.of("point")
    assert all(p["verified_bytes"] > 0 for p in done.of("point"))
    return done


def settings(done: Outcome) -> list[dict[str, Any]]:
    (variant,) = done.of("variant")
    return [rank["settings"] for rank in variant["ranks"]]


def counted(done: Outcome, name: str, size: int) -> int:
    return sum(int(s["counters"].get(name, 0)) for s in done.of("sample", size_bytes=size))


@pytest.mark.parametrize(
    "setting",
    [pytest.param(one, marks=() if one == "path=uring_zc" else pytest.mark.deep) for one in OTHERS],
)
def test_every_way_to_post_a_message_delivers_every_byte(measure: Runner, setting: str) -> None:
    patterns = ("pingpong", "stream", "bidirectional", "window", "burst")
    done = measured(measure, setting, *(f"pattern {one}" for one in patterns))
    assert len(done.of("point")) == 5 * len(patterns)
    option, _, value = setting.partition("=")
    for rank in settings(done):
        assert rank["woken_by" if value == "sigio" else option] == ("SIGIO" if value == "sigio" else value)


@pytest.mark.deep
@pytest.mark.parametrize("wait", ["poll", "hybrid", "hybrid,spin_us=0"])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("streams", ["", ",streams=3,stripe=5000"])
def test_every_path_waits_in_every_way(measure: Runner, path: str, wait: str, streams: str) -> None:
    measured(measure, f"path={path},wait={wait}{streams}", "pattern pingpong", "pattern stream")


@pytest.mark.parametrize(
    "variant",
    [
        "path=uring",
        *(pytest.param(one, marks=pytest.mark.deep) for one in OTHERS if one != "path=uring"),
        *(pytest.param(f"path={one},wait=poll", marks=pytest.mark.deep) for one in PATHS),
    ],
)
def test_four_ranks_on_one_processor_move_at_once(measure: Runner, variant: str) -> None:
    measured(measure, variant, "ranks 4", "pin 0,0,0,0", "pattern pingpong", "pattern window")


@pytest.mark.parametrize("path", ["zerocopy", "uring_zc"])
def test_what_the_kernel_copied_after_all_is_counted(measure: Runner, path: str) -> None:
    """Over loopback that is everything."""
    done = measured(measure, f"path={path}")
    for size, sends in ((16383, False), (16384, True), (300001, True)):
        lent, copied = counted(done, "zerocopy_sends", size), counted(done, "zerocopy_copied", size)
        assert (lent > 0) == sends, size
        assert copied == lent, size
    assert settings(done)[0]["zerocopy_min_bytes"] == "16384"
    registered = [s["counters"].get("registered_bytes", 0) for s in done.of("sample", size_bytes=300001)]
    assert all((held >= 300001) == (path == "uring_zc") for held in registered), registered


@pytest.mark.parametrize(("path", "limit_kib"), [("zerocopy", 0), ("uring_zc", 256)])
def test_what_may_not_be_locked_is_copied_and_counted(measure: Runner, path: str, limit_kib: int) -> None:
    """A message of 300001 bytes does not fit; the rings of io_uring may need some of the 256 KiB."""
    patterns = ("pattern pingpong", "pattern stream", "pattern window")
    done = measured(measure, f"path={path}", *patterns, inside=may_lock(limit_kib))
    assert len(done.of("point")) == 5 * len(patterns)
    for size in (1, 8, 16383):
        assert counted(done, "zerocopy_refused", size) == 0, "it is copied anyway"
    assert counted(done, "zerocopy_refused", 300001) > 0
    assert counted(done, "zerocopy_sends", 300001) == 0
    for size in (16384, 300001):
        assert counted(done, "zerocopy_copied", size) == counted(done, "zerocopy_sends", size), size
    assert counted(done, "registered_bytes", 300001) == 0
    assert (
        sum(counted(measured(measure, f"path={path}"), "zerocopy_refused", s) for s in (16384, 300001)) == 0
    )


def test_rings_that_may_not_be_locked_are_refused_with_the_limit(measure: Runner) -> None:
    """Kernels that do not count them lock nothing else for path=uring."""
    done = measure("variant tcp:path=uring", *QUICK, inside=may_lock(0))
    if done.code == 0:
        assert all(p["verified_bytes"] > 0 for p in done.of("point"))
        return
    assert done.code == 3, done.said
    assert "io_uring" in done.said
    assert "is the limit of locked memory (ulimit -l) too low?" in done.said


@pytest.mark.parametrize("path", ["splice", "sendfile"])
def test_messages_that_the_kernel_reads_from_their_pages_are_counted(measure: Runner, path: str) -> None:
    done = measured(measure, f"path={path}")
    assert counted(done, "zerocopy_sends", 16383) == 0
    assert counted(done, "zerocopy_sends", 16384) > 0
    assert counted(done, "zerocopy_copied", 300001) == 0


@pytest.mark.parametrize("path", ["splice", "sendfile"])
def test_messages_in_new_pages_do_not_go_that_way(measure: Runner, path: str) -> None:
    done = measure(f"variant tcp:path={path}", *QUICK, "buffers fresh")
    reasons = {one["reason"] for one in done.of("skipped")}
    assert {point["size_bytes"] for point in done.of("point")} <= {1, 8, 16383}
    assert reasons
    assert all(f"path={path} needs messages that stay as they are" in reason for reason in reasons)


def test_the_smallest_message_that_is_not_copied_can_be_chosen(measure: Runner) -> None:
    done = measured(measure, "path=zerocopy,zerocopy_min=8")
    assert counted(done, "zerocopy_sends", 1) == 0
    assert counted(done, "zerocopy_sends", 8) > 0


def test_sleeps_that_a_signal_ends_are_counted(measure: Runner) -> None:
    done = measured(measure, "wait=sigio")
    assert settings(done)[0]["wait"] == "block"
    assert settings(done)[0]["moved_by"] == "SIGIO"
    assert sum(counted(done, "signals", size) for size in (1, 8, 16383)) > 0


def test_multipath_tcp_says_whether_both_ends_have_it(measure: Runner) -> None:
    done = measured(measure, "protocol=mptcp,streams=2")
    for rank in settings(done):
        assert (rank["mptcp_fell_back"], rank["mptcp_subflows"]) == ("no", "1")
    plain = measured(measure, "streams=2")
    assert "mptcp_fell_back" not in settings(plain)[0]


@pytest.mark.parametrize(
    ("variant", "says"),
    [
        ("path=uring,wait=sigio", "cannot take path=uring with wait=sigio: there is no signal"),
        ("path=zerocopy,protocol=mptcp", "cannot take path=zerocopy with protocol=mptcp: the kernel has"),
        ("zerocopy_min=1k", "cannot take zerocopy_min=1k with path=copy: every message is copied"),
        ("path=uring,zerocopy_min=1k", "cannot take zerocopy_min=1k with path=uring: every message is copied"),
        ("protocol=mptcp,quickack=yes", "cannot take quickack=yes with protocol=mptcp"),
        ("protocol=mptcp,busy_poll=10", "cannot take busy_poll=10 with protocol=mptcp"),
        ("protocol=mptcp,rails=lo", "cannot take rails=lo with protocol=mptcp: the kernel chooses the paths"),
        ("wait=sigio,spin_us=10", "cannot take spin_us=10 with wait=sigio"),
        ("path=tls", "copy, zerocopy, uring, uring_zc, splice, sendfile"),
        ("path=splice,wait=sigio", "cannot take path=splice with wait=sigio"),
        ("path=sendfile,protocol=mptcp", "cannot take path=sendfile with protocol=mptcp"),
        ("tls=openssl,path=zerocopy", "cannot take path=zerocopy with tls=openssl: what is sent is not the message"),
        ("tls=kernel,path=splice", "cannot take path=splice with tls=kernel"),
        ("tls=openssl,wait=sigio", "cannot take tls=openssl with wait=sigio"),
        ("tls=kernel,protocol=mptcp", "cannot take tls=kernel with protocol=mptcp: the kernel has that for tcp only"),
        ("tls=yes", "no, openssl, kernel"),
    ],
)  # fmt: skip
def test_settings_that_would_not_be_in_force_are_refused(variant: str, says: str) -> None:
    text = f"netpipe-plan 1\nvariant tcp:{variant}\npattern pingpong\nend\n"
    done = subprocess.run(
        [WORKER, "plan"], input=text, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert says in done.stdout + done.stderr


@pytest.mark.parametrize(
    "setting",
    [pytest.param(one, marks=() if one == "path=uring_zc" else pytest.mark.deep) for one in OTHERS],
)
def test_an_interrupt_ends_it_in_the_middle(
    started: Starter, measure: Runner, setting: str, tmp_path: Path
) -> None:
    measured(measure, setting)  # or it is skipped
    (tmp_path / "run.jsonl").unlink()  # both write there
    process, path = started(f"variant tcp:{setting}", "schedule list", "sizes 1000003", "budget 30")
    wait_for_samples(path)
    process.send_signal(signal.SIGINT)
    process.wait(20)
    assert process.returncode == 130
    assert not [r for r in parse(path.read_text()) if r["type"] == "error"]
