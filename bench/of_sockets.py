# SPDX-License-Identifier: Apache-2.0
"""TCP beside NPtcp, iperf3, sockperf and qperf."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from measured import (
    LIMIT_S,
    Result,
    Shown,
    beside_a_tool,
    best_trials_ns,
    in_turn,
    interval,
    peer_program,
    shown,
    worker,
)
from of_udp import latencies, netpipe_ns, number, qperf

from netpipe.reading import Reading
from netpipe.records import Run


def nptcp(*cpus: str) -> tuple[float, dict[int, float]]:
    """Seconds of a whole curve of the classic NetPIPE, and its one-way times by size: of each, the best of the three
    trials that it makes. cpus: of the receiver and of the sender; none: wherever the kernel puts them.
    """
    program = peer_program("NPtcp")
    where = [["taskset", "-c", cpu] for cpu in cpus] or [[], []]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "np.out"
        begin = time.monotonic()
        receiver = subprocess.Popen(
            [*where[0], program], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            time.sleep(0.2)
            subprocess.run(
                [*where[1], program, "-h", "127.0.0.1", "-o", str(out), "-u", str(8 << 20)],
                cwd=folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=True,
                timeout=LIMIT_S,
            )
            receiver.wait(10)
        finally:
            receiver.kill()
            receiver.wait(10)
        seconds = time.monotonic() - begin - 0.2
        rows = [line.split() for line in out.read_text().splitlines()]
        return seconds, {int(row[0]): float(row[2]) * 1e9 for row in rows}


CURVE = ("run", "tcp", "--schedule", "classic")


def netpipe_curve() -> tuple[float, dict[int, float]]:
    """The same sizes with the command that a user types: everything that it does counts. Of several launches the
    median at each size.
    """
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "run.jsonl"
        begin = time.monotonic()
        subprocess.run(
            [sys.executable, "-m", "netpipe", *CURVE, "--quiet", "--output", str(record)],
            cwd=folder,
            check=True,
            capture_output=True,
            timeout=LIMIT_S,
        )
        seconds = time.monotonic() - begin
        (found,) = Reading(Run.read(record, samples=False)).curves
        return seconds, {p.size_bytes: p.time_ns.value for p in found.points}


def roughness(times: dict[int, float]) -> float:
    """Median over the sizes of how far ln t is from the mean of its neighbours'."""
    logs = [math.log(times[size]) for size in sorted(times)]
    return statistics.median(
        abs(here - (before + after) / 2)
        for before, here, after in zip(logs, logs[1:], logs[2:], strict=False)
    )


def spread(curves: list[dict[int, float]]) -> float:
    """Median over the sizes of largest over smallest."""
    return statistics.median(max(c[s] for c in curves) / min(c[s] for c in curves) for s in curves[0])


def curve(rounds: int) -> list[Result]:
    """Both on two processors, which is where netpipe puts its ranks by itself: NPtcp, left alone, is moved about by the
    kernel, and then its runs differ by where they were.
    """
    runs = max(2, min(rounds, 5))  # one has no spread
    mine, theirs = in_turn(runs, netpipe_curve, lambda: nptcp("1", "0"))
    faster = [b[0] / a[0] for a, b in zip(mine, theirs, strict=True)]
    rough = [(roughness(a[1]), roughness(b[1])) for a, b in zip(mine, theirs, strict=True)]
    rougher = [a / b for a, b in rough]
    ours_spread = spread([c for _, c in mine])
    peer_spread = spread([c for _, c in theirs])
    return [
        Result(
            "curve",
            f"seconds of a full TCP curve: NPtcp / netpipe {' '.join(CURVE)}",
            shown([s for s, _ in mine], 1, " s"),
            shown([s for s, _ in theirs], 1, " s"),
            shown(faster, 1),
            ">= 10",
            interval(faster)[0] >= 10,
        ),
        Result(
            "curve",
            f"spread of {runs} runs (median over sizes of max/min)",
            f"{ours_spread:.3f}",
            f"{peer_spread:.3f}",
            f"{(ours_spread - 1) / (peer_spread - 1):.2f} of the peer's",
            "<= 1",
            ours_spread <= peer_spread,
        ),
        Result(
            "curve",
            "roughness (median over sizes of |ln t - mean of the neighbours'|): netpipe / NPtcp",
            f"{statistics.median(a for a, _ in rough):.2%}",
            f"{statistics.median(b for _, b in rough):.2%}",
            shown(rougher, 2),
            "<= 1",
            interval(rougher)[0] <= 1,
        ),
    ]


def iperf3(seconds: float, cpus: str = "0,1") -> float:
    """Gbps of one stream."""
    program = peer_program("iperf3")
    port = "5311"
    pinned = ["taskset", "-c", cpus, program]
    server = subprocess.Popen(
        [*pinned, "-s", "-1", "-p", port, "-B", "127.0.0.1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        time.sleep(0.3)
        done = subprocess.run(
            [*pinned, "-c", "127.0.0.1", "-p", port, "-t", str(seconds), "-J"],
            capture_output=True,
            text=True,
            check=True,
            timeout=LIMIT_S,
        )
        return float(json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"]) / 1e9
    finally:
        server.kill()
        server.wait(10)


def best_rate_gbps(records: Iterable[dict[str, Any]]) -> float:
    """As NPtcp comes to its own: of the sizes the best."""
    return max(size * 8 / ns for (_, size), ns in best_trials_ns(records).items())


def peak(rounds: int) -> list[Result]:
    """Where the two processes run decides: on one core there is no wake-up across cores, on two there is no switch.
    Both sides are offered both placements, and the best of each is compared.
    """
    runs = min(rounds, 5)
    waits = {"tcp:wait=poll": "best setting of each", "tcp": "all block, which is all that the peers can"}
    mine: dict[str, list[float]] = {variant: [] for variant in waits}
    theirs: list[float] = []
    best_of: set[str] = set()
    schedule = ("start 12k", "end-size 8M", "budget 1.5")
    for _ in range(runs):
        for variant in waits:
            rates = []
            for pin in ("0,1", "0,0"):
                records = worker(
                    f"variant {variant}", "pattern stream", "pattern pingpong", *schedule, f"pin {pin}"
                )
                rates.append(best_rate_gbps(records))
            mine[variant].append(max(rates))
        peers = {
            "NPtcp": max(size * 8 / ns for size, ns in nptcp()[1].items()),
            "iperf3": iperf3(2),
            "iperf3 on one core": iperf3(2, "0"),
        }
        best_of.add(max(peers, key=lambda name: peers[name]))
        theirs.append(max(peers.values()))
    results = []
    for variant, how in waits.items():
        ratios = [a / b for a, b in zip(mine[variant], theirs, strict=True)]
        results.append(
            Result(
                "peak",
                f"peak TCP throughput, {how}: netpipe / best of NPtcp and iperf3",
                shown(mine[variant], 1, " Gbps"),
                shown(theirs, 1, " Gbps") + " " + "/".join(sorted(best_of)),
                shown(ratios),
                ">= 1.0" if variant != "tcp" else "no difference seen",
                interval(ratios)[0 if variant != "tcp" else 2] >= 1.0,
            )
        )
    return results


def tcp_latency(rounds: int) -> list[Result]:
    """A ping-pong beside sockperf --tcp and qperf tcp_lat."""
    return latencies("tcp", rounds)


def qperf_bw_ns(size: int) -> float:
    """Time of a message, by the rate of the receiver."""
    return size * 1e9 / number(qperf("tcp_bw", size), r"bw\s+=\s+([\d.,]+)\s+bytes")


def tcp_stream(rounds: int) -> list[Result]:
    """Messages one behind the other beside qperf tcp_bw, which blocks."""
    return [
        beside_a_tool(
            "tcp-stream",
            f"{size >> 10} KiB over TCP, block: netpipe stream / qperf tcp_bw, rate",
            min(rounds, 5),
            partial(netpipe_ns, "tcp", size, "stream"),
            partial(qperf_bw_ns, size),
            Shown(2, " GB/s", lambda ns, size=size: size / ns, rate=True),  # type: ignore[misc]
        )
        for size in (65536, 1 << 20)
    ]


COMPARISONS = {"curve": curve, "peak": peak, "tcp-latency": tcp_latency, "tcp-stream": tcp_stream}
