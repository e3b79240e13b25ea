# SPDX-License-Identifier: Apache-2.0
"""cma: one copy by the kernel between processes, in both directions, and what is said where it is not allowed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import WORKER, Outcome, Runner, Starter, parse, wait_for_samples
from test_conformance import LISTING

pytestmark = [
    pytest.mark.module("cma"),
    pytest.mark.skipif(
        "cma" not in [one["name"] for one in LISTING["modules"]], reason="module cma is not built here"
    ),
]

WAYS = ("pattern pingpong", "pattern stream", "pattern bidirectional", "pattern window")


def listed(measure: Runner, options: str, sizes: str, *lines: str) -> Outcome:
    variant = f"cma:{options}" if options else "cma"
    return measure(f"variant {variant}", "schedule list", f"sizes {sizes}", *lines)


def settings(done: Outcome) -> dict[str, Any]:
    (variant,) = done.of("variant")
    answer: dict[str, Any] = variant["ranks"][0]["settings"]
    return answer


@pytest.mark.parametrize("wait", ["poll", "block", "hybrid"])
@pytest.mark.parametrize("direction", ["read", "write"])
def test_every_byte_arrives_in_each_direction_and_wait(measure: Runner, direction: str, wait: str) -> None:
    done = listed(
        measure,
        f"direction={direction},wait={wait}",
        "0,1,65537,1000003",
        *WAYS,
        "verify yes",
        "budget 0.2",
    )
    assert done.code == 0, done.said
    found = settings(done)
    assert (found["direction"], found["wait"]) == (direction, wait)
    assert found["messages_by"] == {"read": "process_vm_readv", "write": "process_vm_writev"}[direction]
    assert len(done.of("point")) == 4 * len(WAYS)
    assert all(point["verified_bytes"] > 0 for point in done.of("point") if point["size_bytes"] > 0)


@pytest.mark.parametrize("more", ["", ",direction=get"])
def test_blocks_that_lie_apart_arrive_and_nothing_else_is_touched(measure: Runner, more: str) -> None:
    """More of them than a call of the kernel takes (1024), and some of 2 MiB in flight together."""
    shapes = (
        "block=8,stride=16",
        "block=100,stride=300",
        "block=64k,stride=64k,in_flight=3",
        "block=8,sync=fence",
    )
    patterns = [f"strided:{shape}{more}" for shape in shapes]
    done = listed(
        *(measure, "", "8,100,20000,65536,196608", *(f"pattern {one}" for one in patterns)),
        *("verify yes", "budget 0.2"),
    )
    assert done.code == 0, done.said
    found = {(one["pattern"], one["size_bytes"]) for one in done.of("point")}
    assert len(found) == 4 + 2 + 2 + 4, found
    assert all(one["verified_bytes"] >= 2 * one["size_bytes"] for one in done.of("point"))
    reasons = {one["reason"] for one in done.of("skipped")}
    assert reasons == {f"no multiple of {block} bytes" for block in (8, 100, 65536)}


def test_blocks_that_lie_on_each_other_are_refused(measure: Runner) -> None:
    done = listed(measure, "", "64", "pattern strided:block=64,stride=32", "budget 0.1")
    assert done.code == 3, done.said
    (skipped,) = done.of("skipped")
    assert "blocks of 64 bytes that begin every 32" in skipped["reason"]


def test_each_message_is_copied_once_and_an_empty_one_not_at_all(measure: Runner) -> None:
    done = listed(measure, "", "0,8,100000", "pattern pingpong", "budget 0.1")
    assert done.code == 0, done.said
    for point in done.of("point"):
        copies = point["counters"]["copies"]
        assert (copies == 0) == (point["size_bytes"] == 0)
        assert copies % 2 == 0, "a round trip has two messages"


@pytest.mark.parametrize("pattern", ["put", "get"])
def test_memory_of_the_peer_is_written_and_read(measure: Runner, pattern: str) -> None:
    done = listed(measure, "", "1,4097,1000003", f"pattern {pattern}", "verify yes", "budget 0.1")
    assert done.code == 0, done.said
    assert len(done.of("point")) == 3
    assert all(point["verified_bytes"] > 0 for point in done.of("point"))


def test_a_direction_is_refused_where_it_is_not_in_force(measure: Runner) -> None:
    done = listed(measure, "direction=write", "8", "pattern put", "pattern pingpong", "budget 0.1")
    (skipped,) = done.of("skipped")
    assert skipped["pattern"] == "put"
    assert "does not obey direction=write of module cma" in skipped["reason"]
    assert {point["pattern"] for point in done.of("point")} == {"pingpong"}


@pytest.mark.parametrize("wait", ["poll", "block"])
def test_four_ranks_each_reach_all_others(measure: Runner, wait: str) -> None:
    done = listed(
        measure,
        f"wait={wait}",
        "8,70000",
        "pattern pingpong",
        "pattern incast",
        "pattern put",
        "ranks 4",
        "verify yes",
        "budget 0.2",
    )
    assert done.code == 0, done.said
    assert len(done.of("point")) == 6


@pytest.mark.parametrize("wait", ["poll", "block"])
def test_two_ranks_on_one_processor_let_each_other_run(measure: Runner, wait: str) -> None:
    done = listed(measure, f"wait={wait}", "8,70000", *WAYS, "pin 0,0", "verify yes", "budget 0.1")
    assert done.code == 0, done.said
    assert settings(done)["wait"] == ("yield" if wait == "poll" else wait)
    sleeps = sum(point["counters"]["sleeps"] for point in done.of("point"))
    assert (sleeps > 0) == (wait == "block")


@pytest.mark.parametrize("options", ["", ":wait=block", ":direction=write"])
def test_a_peer_that_is_killed_is_named(started: Starter, options: str) -> None:
    process, path = started(f"variant cma{options}", "pattern pingpong", "budget 30", "timeout 5")
    wait_for_samples(path, 5)
    (peer,) = (
        int(child) for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    )
    os.kill(peer, signal.SIGKILL)
    assert process.wait(8) == 4
    (error,) = [one for one in parse(path.read_text()) if one["type"] == "error"]
    assert "rank 1 has gone" in error["message"]


def test_an_interrupt_ends_it(started: Starter) -> None:
    process, path = started("variant cma:wait=block", "budget 30")
    wait_for_samples(path, 5)
    process.send_signal(signal.SIGINT)
    assert process.wait(5) == 130


REFUSING = """
#include <errno.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/syscall.h>
#include <unistd.h>
ssize_t process_vm_readv(pid_t pid, const struct iovec* l, unsigned long m, const struct iovec* r, unsigned long n,
                         unsigned long flags) {
  if (pid != getpid() || getenv("REFUSE_ALL") != NULL) {
    errno = EPERM;
    return -1;
  }
  return syscall(SYS_process_vm_readv, pid, l, m, r, n, flags);
}
"""


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that stands for a kernel that does not allow it."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("refusing")
    (folder / "refusing.c").write_text(REFUSING)
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", folder / "refusing.so", folder / "refusing.c"],
        check=True,
        timeout=60,
    )
    return folder / "refusing.so"


@pytest.mark.parametrize("who", ["all", "others"])
def test_a_kernel_that_does_not_allow_it_is_named_with_the_remedy(refusing: Path, who: str) -> None:
    text = "netpipe-plan 1\nrecord -\nvariant cma\nschedule list\nsizes 8\nend\n"
    done = subprocess.run(
        [WORKER, "run"],
        input=text,
        env={**os.environ, "LD_PRELOAD": str(refusing), **({"REFUSE_ALL": "1"} if who == "all" else {})},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert "Operation not permitted" in done.stderr
    assert "set kernel.yama.ptrace_scope to 1 or 0" in done.stderr
    if who == "others":
        assert "does not let rank" in done.stderr
