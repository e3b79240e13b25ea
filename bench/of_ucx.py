# SPDX-License-Identifier: Apache-2.0
"""UCX beside ucx_perftest, over the same transports and on the same processors."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from measured import LIMIT_S, Result, Shown, beside_a_tool, peer_program, worker

MEASURE_S = 0.4  # each side, each time
WARM_UP = 200  # round trips or messages


@dataclass(frozen=True)
class Way:
    """One thing that both can do."""

    test: str  # ucx_perftest's name of it
    pattern: str  # netpipe's
    options: str = ""  # of the module
    # a target holds for it; otherwise the two do different things, and the row shows what it costs
    wanted: bool = True
    more: tuple[str, ...] = ()  # words for ucx_perftest
    throughput: bool = False  # else a latency


# ucx_perftest sends from one buffer and receives into another, and leaves an active message where UCX has it.
LATENCIES = [
    Way("tag_lat", "pingpong:buffers=apart"),
    Way("stream_lat", "pingpong:buffers=apart", "api=stream"),
    Way("ucp_am_lat", "pingpong:buffers=apart", "api=am,deliver=leave"),
    Way("ucp_am_lat", "pingpong", "api=am", wanted=False),
    Way("ucp_get", "get"),
]
# One message at a time on both sides: the next is sent when UCX has taken the last.
RATES = [
    Way("tag_bw", "stream", "", more=("-O", "1"), throughput=True),
    Way("stream_bw", "stream", "api=stream", more=("-O", "1"), throughput=True),
    Way("ucp_am_bw", "stream", "api=am,deliver=leave", more=("-O", "1"), throughput=True),
]
SLEEPING = [Way("tag_lat", "pingpong:buffers=apart", "wait=block", more=("-E", "sleep"))]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def final_numbers(said: str) -> list[float]:
    """Of the last line: iterations, latency in us (50 %, average, overall), MiB/s and messages/s (both average and
    overall).
    """
    rows = [line.split() for line in said.splitlines() if re.fullmatch(r"(Final:)?[\s\d.]+", line.strip())]
    numbers = [[float(word) for word in row if word != "Final:"] for row in rows]
    whole = [row for row in numbers if len(row) == 8]
    if not whole:
        raise RuntimeError(f"ucx_perftest measured nothing: {said[-1000:]}")
    return whole[-1]


def wait_until_it_listens(port: int) -> None:
    """Without connecting to it: ucx_perftest takes the first connection for its client."""
    for _ in range(200):
        with Path("/proc/net/tcp").open() as table:
            if any(f":{port:04X} 00000000:0000 0A" in line for line in table):
                return
        time.sleep(0.02)
    raise RuntimeError("ucx_perftest does not listen")


def perftest(way: Way, tls: str, size: int, count: int) -> float:
    """Mean ns per one-way message. Its median is that of single round trips, which a clock of coarse steps (10 ns on
    AMD) and a skewed distribution keep far from it: 352 and 446 ns at 4 KiB. netpipe times many in a row.
    """
    program = peer_program("ucx_perftest")
    port = free_port()
    words = ["-p", str(port), "-t", way.test, "-s", str(size), "-n", str(count), "-w", str(WARM_UP), "-f"]
    words += way.more
    environment = {**os.environ, "UCX_TLS": tls, "UCX_NET_DEVICES": "lo"}
    server = subprocess.Popen(
        ["taskset", "-c", "1", program, *words],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until_it_listens(port)
        done = subprocess.run(
            ["taskset", "-c", "0", program, "127.0.0.1", *words],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=LIMIT_S,
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(5)
    finally:
        server.kill()
        server.wait(10)
    numbers = final_numbers(done.stdout)
    if not way.throughput:
        return numbers[2] * 1000
    return 1e9 / numbers[7]


def netpipe(way: Way, tls: str, size: int) -> float:
    options = ",".join(["tls=" + tls.replace(",", "+"), *([way.options] if way.options else [])])
    records = worker(
        f"variant ucx:{options}",
        f"pattern {way.pattern}",
        "schedule list",
        f"sizes {size}",
        f"budget {MEASURE_S}",
    )
    if not way.throughput:
        return next(float(r["mean_ns"]) for r in records if r["type"] == "point")
    samples = [r for r in records if r["type"] == "sample" and r["pass"] >= 0 and r["ns"]]
    operations = sum(len(r["ns"]) * r["ops"] for r in samples)
    return float(sum(sum(r["ns"]) for r in samples) / operations)


def beside(rounds: int, way: Way, tls: str, size: int) -> Result:
    one = netpipe(way, tls, size)
    count = max(100, int(MEASURE_S * 1e9 / one / (1 if way.throughput or way.test == "ucp_get" else 2)))

    what = f"{way.test} {' '.join(way.more)}".strip()
    mine_is = f"netpipe ({way.options})" if way.options else "netpipe"
    return beside_a_tool(
        "ucx",
        f"{size} B over {tls}, {what}: {mine_is} / ucx_perftest, {'rate' if way.throughput else 'time'}",
        rounds,
        lambda: netpipe(way, tls, size),
        lambda: perftest(way, tls, size, count),
        Shown(1 if one < 1000 else 0, " ns", rate=way.throughput),
        way.wanted,
    )


def compare(
    what: str, ways: list[Way], transports: tuple[str, ...], sizes: tuple[int, ...]
) -> Callable[[int], list[Result]]:
    def run(rounds: int) -> list[Result]:
        return [
            beside(rounds, way, tls, size)
            for way in ways
            for tls in transports
            for size in sizes
            if way.test != "ucp_get" or tls != "tcp"  # over TCP a get of UCX is a message and its answer
        ]

    run.__doc__ = what
    return run


COMPARISONS = {
    "ucx-latency": compare(
        "one message at a time, polling, beside ucx_perftest", LATENCIES, ("posix,cma", "tcp"), (8, 4096)
    ),
    "ucx-sleeping": compare(
        "one message at a time, asleep between them, beside ucx_perftest",
        SLEEPING,
        ("posix,cma", "tcp"),
        (8,),
    ),
    "ucx-rate": compare("many in flight, beside ucx_perftest", RATES, ("posix,cma", "tcp"), (65536, 1 << 20)),
}
