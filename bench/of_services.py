# SPDX-License-Identifier: Apache-2.0
"""ZeroMQ and gRPC beside ping-pongs over them that are written by hand: the same sockets, calls and processors.
netpipe's sockets prove themselves when they connect, which no message pays for; of gRPC's single calls each does.
"""

from __future__ import annotations

import math
import subprocess

from measured import NATIVE, MissingError, Result, worker
from of_native import by_hand
from slices import at_most, compared, netpipe

SMALL, LARGE = 8, 1 << 20


def needs(module: str) -> None:
    """Raises MissingError where netpipe was built without it."""
    listed = subprocess.run(
        [NATIVE / "bin" / "netpipe-worker", "list"], capture_output=True, text=True, check=True, timeout=60
    )
    if f'"name":"{module}"' not in listed.stdout.replace(" ", ""):
        raise MissingError(f"netpipe was built without module {module}")


def zmq_by_hand(rounds: int) -> list[Result]:
    """A message of each kind: latency, and as a time what throughput is."""
    needs("zmq")
    results = []
    for transport in ("tcp", "ipc"):
        for wait in ("block", "poll"):
            for size, text in ((SMALL, "8 B"), (LARGE, "1 MiB")):
                variant = f"zmq:transport={transport},wait={wait}"
                words = ("--bytes", str(size), "--wait", wait, "--transport", transport)
                ours, peer = netpipe(variant, size), by_hand("zmq_pingpong", *words)
                what = f"{text} over ZeroMQ, {transport}, {wait}: netpipe / hand-written C"
                results.append(compared("zmq-by-hand", what, rounds, ours, peer, at_most(1.02), 0))
    return results


def grpc_by_hand(rounds: int) -> list[Result]:
    """A message of each kind, on a stream and in calls of their own, beside gRPC for C++."""
    needs("grpc")
    results = []
    for api in ("stream", "unary"):
        for wait in ("block", "poll"):
            for size, text in ((SMALL, "8 B"), (LARGE, "1 MiB")):
                variant = f"grpc:api={api},wait={wait}"
                words = ("--bytes", str(size), "--wait", wait, "--api", api)
                ours, peer = netpipe(variant, size), by_hand("grpc_pingpong", *words)
                what = f"{text} over gRPC, {api}, {wait}: netpipe / hand-written C++"
                results.append(compared("grpc-by-hand", what, rounds, ours, peer, at_most(1.02), 0))
    return results


def sockets_below(_: int) -> list[Result]:
    """What the queues and threads add to the sockets under them: said, and held against nothing."""
    needs("zmq")
    needs("nng")
    needs("grpc")
    variants = (
        "tcp",
        "zmq",
        "nng",
        "grpc",
        "unix",
        "zmq:transport=ipc",
        "nng:transport=ipc",
        "grpc:transport=unix",
    )
    records = worker(
        *(f"variant {variant}" for variant in variants), "schedule list", "sizes 8,65536,1048576", "budget 6"
    )
    times = {(r["variant"], r["size_bytes"]): r["median_ns"] for r in records if r["type"] == "point"}
    results = []
    for below, above in (("tcp", variants[1:4]), ("unix", variants[5:])):
        for variant in above:
            for size in (8, 65536, 1 << 20):
                ours, under = times.get((variant, size), math.nan), times.get((below, size), math.nan)
                results.append(
                    Result(
                        "sockets-below",
                        f"{size} B: {variant} / {below}",
                        f"{ours / 1e3:.1f} us",
                        f"{under / 1e3:.1f} us",
                        f"{ours / under:.2f}",
                        "none",
                        True,
                    )
                )
    return results


COMPARISONS = {"zmq-by-hand": zmq_by_hand, "grpc-by-hand": grpc_by_hand, "sockets-below": sockets_below}
