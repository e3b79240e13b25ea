# SPDX-License-Identifier: Apache-2.0
"""UDP beside sockperf, qperf and iperf3. They print what they measured at their end, so netpipe and they run one after
the other. Every netpipe datagram has 24 bytes of header more than theirs. of_sockets.py has TCP beside the first two.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import time
from collections.abc import Iterator
from functools import partial

from measured import LIMIT_S, Result, Shown, beside_a_tool, peer_program, points, worker

SECONDS = 2
SERVER, CLIENT = ("taskset", "-c", "1"), ("taskset", "-c", "0")


@contextlib.contextmanager
def server(*words: str) -> Iterator[None]:
    process = subprocess.Popen([*SERVER, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(0.4)
        yield
    finally:
        process.kill()
        process.wait(10)


def client(*words: str) -> str:
    done = subprocess.run([*CLIENT, *words], capture_output=True, text=True, check=True, timeout=LIMIT_S)
    return done.stdout


def number(text: str, pattern: str) -> float:
    found = re.search(pattern, text)
    if found is None:
        raise RuntimeError(f"no {pattern!r} in: {text[-500:]}")
    return float(found[1].replace(",", ""))


def sockperf_ns(layer: str, size: int, wait: str) -> float:
    """Mean half round trip."""
    program = peer_program("sockperf")
    way = ["-i", "127.0.0.1", "-p", "15112", *(["--tcp"] if layer == "tcp" else [])]
    way += ["--nonblocked", "--recv_looping_num", "1"] if wait == "poll" else []
    with server(program, "sr", *way):
        said = client(program, "pp", *way, "-m", str(size), "-t", str(SECONDS))
    return number(said, r"avg-latency=([\d.]+)") * 1e3


def qperf(test: str, size: int) -> str:
    """What it prints, with all figures in one unit; it only blocks."""
    program = peer_program("qperf")
    port = "15113"
    with server(program, "-lp", port):
        return client(
            program, "-lp", port, "-m", str(size), "-t", str(SECONDS), "-e", "6", "-uu", "127.0.0.1", test
        )


def qperf_ns(layer: str, size: int) -> float:
    """Mean half round trip."""
    return number(qperf(f"{layer}_lat", size), r"latency\s+=\s+([\d.,]+)\s+ns")


def netpipe_ns(variant: str, size: int, pattern: str = "pingpong") -> float:
    """Mean time of one message: the median of single ones, as tools time them, is another number than that of many."""
    records = worker(
        f"variant {variant}",
        f"pattern {pattern}",
        "schedule list",
        f"sizes {size}",
        f"budget {SECONDS}",
    )
    return float(points(records)[size]["mean_ns"])


def latencies(layer: str, rounds: int) -> list[Result]:
    """14 bytes is the least that sockperf sends."""
    name, times, rounds = f"{layer}-latency", Shown(0, " ns"), min(rounds, 5)
    results = []
    for wait in ("block", "poll"):
        for size in (14, 1400):
            what = f"{size} B over {layer.upper()}, {wait}: netpipe / sockperf"
            ours = partial(netpipe_ns, f"{layer}:wait={wait}", size)
            results.append(
                beside_a_tool(name, what, rounds, ours, partial(sockperf_ns, layer, size, wait), times)
            )
    what = f"14 B over {layer.upper()}, block: netpipe / qperf {layer}_lat"
    ours, peer = partial(netpipe_ns, layer, 14), partial(qperf_ns, layer, 14)
    return [*results, beside_a_tool(name, what, rounds, ours, peer, times)]


def udp_latency(rounds: int) -> list[Result]:
    """A ping-pong beside sockperf and qperf udp_lat."""
    return latencies("udp", rounds)


def iperf3_ns(payload: int) -> float:
    """Time of a datagram that arrived, as fast as they go."""
    program = peer_program("iperf3")
    port = "15114"
    with server(program, "-s", "-1", "-p", port, "-B", "127.0.0.1"):
        words = ["-c", "127.0.0.1", "-p", port, "-u", "-b", "0", "-l", str(payload), "-t", str(SECONDS), "-J"]
        end = json.loads(client(program, *words, "-w", "4M"))["end"]["sum_received"]
    arrived = end["packets"] - end["lost_packets"]
    return float(1e9 * end["seconds"] / arrived)


def udp_stream(rounds: int) -> list[Result]:
    """A stream of datagrams beside iperf3 -u: one message in each; time of those that arrived."""
    return [
        beside_a_tool(
            "udp-stream",
            f"datagrams of {payload} B that arrive: netpipe stream / iperf3 -u -b 0, rate",
            min(rounds, 5),
            partial(netpipe_ns, f"udp:payload={payload}", payload - 24, "stream"),
            partial(iperf3_ns, payload),
            Shown(0, " k/s", lambda ns: 1e6 / ns, rate=True),
        )
        for payload in (200, 1472, 60000)
    ]


COMPARISONS = {"udp-latency": udp_latency, "udp-stream": udp_stream}
