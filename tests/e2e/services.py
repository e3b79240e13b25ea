# SPDX-License-Identifier: Apache-2.0
"""What the tests of the layers that services use (zmq, nng, grpc) have in common."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import WORKER, Outcome, Runner, Starter, parse, wait_for_samples
from test_hosts import FAR, NEAR, Site

SIZES = (0, 1, 4097, 65536, 65537, 300001)


def skip_without(listing: dict[str, Any], name: str) -> None:
    found = next((one for one in listing["modules"] if one["name"] == name), None)
    if found is None:
        pytest.skip(f"module {name} was not built")
    if not found["available"]:
        pytest.skip(found["reason"])


def settings_of(done: Outcome) -> list[dict[str, str]]:
    """Of each rank of the only variant."""
    (variant,) = done.of("variant")
    return [rank["settings"] for rank in variant["ranks"]]


def one_size(measure: Runner, variant: str, *lines: str) -> Outcome:
    return measure(f"variant {variant}", "schedule list", "sizes 8", "budget 0.05", *lines)


def check_all_arrives(measure: Runner, variant: str, *lines: str, patterns: Sequence[str]) -> Outcome:
    done = measure(
        f"variant {variant}",
        *(f"pattern {pattern}" for pattern in patterns),
        "schedule list",
        "sizes " + ",".join(map(str, SIZES)),
        "verify yes",
        "budget 0.2",
        *lines,
    )
    assert done.code == 0, done.said
    for pattern in patterns:
        points = done.of("point", pattern=pattern)
        assert {point["size_bytes"] for point in points} == set(SIZES), pattern
        assert all(point["verified_bytes"] > 0 for point in points if point["size_bytes"] > 0), pattern
    return done


def peers_of(worker: subprocess.Popen[str]) -> list[int]:
    """The processes of its ranks but the first, which is the worker itself."""
    children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split()
    return [int(child) for child in children]


def ended(process: subprocess.Popen[str], limit_s: float = 20.0) -> tuple[int, str]:
    """Exit code and what was said, of a worker that was started by `started`."""
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.close()
    process.stdin = None
    said = process.communicate(timeout=limit_s)[1]
    return process.returncode, said


def endless(started: Starter, variant: str, size: int = 8) -> tuple[subprocess.Popen[str], Path]:
    """A run that is measuring and goes on for a minute."""
    process, path = started(
        f"variant {variant}", "schedule list", f"sizes {size}", "target 0.001", "budget 60"
    )
    wait_for_samples(path)
    return process, path


def between_hosts(site: Site, variant: str, *patterns: str) -> Outcome:
    """A run between two network namespaces, whose ranks a stand-in for ssh starts."""
    words = [word for pattern in patterns for word in ("--pattern", pattern)]
    return site.run(variant, *words, "--sizes", "1,8,1500,65536,1048576", "--budget", "0.2", "--verify")


def check_both_hosts(done: Outcome, points: int) -> None:
    assert done.code == 0, done.said
    assert len(done.of("point")) == points
    assert all(point["verified_bytes"] > 0 for point in done.of("point"))
    addresses = [(one["local_address"], one["peer_address"]) for one in settings_of(done)]
    assert addresses == [(NEAR, FAR), (FAR, NEAR)]


def over_serve(
    serve: Callable[..., Any], namespaces: tuple[str, str], folder: Path, variant: str
) -> tuple[int, str, list[dict[str, Any]]]:
    """Exit code, what was said and the records of a run whose rank 1 is a process of netpipe serve."""
    near, far = namespaces
    server = serve("--bind", FAR, inside=("ip", "netns", "exec", far))
    path = folder / "two.jsonl"
    lines = [
        "netpipe-plan 1",
        f"record {path}",
        f"host {server.host}",
        f"port {server.port}",
        f"token-file {server.token}",
        f"variant {variant}",
        "schedule list",
        "sizes 1,65536",
        "verify yes",
        "budget 0.2",
        "end",
        "",
    ]
    done = subprocess.run(
        ["ip", "netns", "exec", near, WORKER, "run"],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    records = parse(path.read_text()) if path.exists() else []
    return done.returncode, done.stderr, records
