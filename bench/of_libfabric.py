# SPDX-License-Identifier: Apache-2.0
"""libfabric beside fi_pingpong, its own ping-pong: the same provider, endpoint type, calls and processors."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
from dataclasses import dataclass
from functools import partial

from measured import LIMIT_S, WORKER, MissingError, Result, Shown, beside_a_tool, peer_program, worker


@dataclass(frozen=True)
class Way:
    provider: str
    ep: str
    sizes: tuple[tuple[int, int], ...]  # bytes, and how many round trips take half a second or so
    # fi_pingpong has one to send and another to receive. A row of anything else has no target.
    buffers: str = "apart"


WAYS = (
    Way("tcp", "msg", ((8, 20000), (64 << 10, 6000), (1 << 20, 400))),
    Way("tcp;ofi_rxm", "rdm", ((8, 20000), (64 << 10, 4000), (1 << 20, 400))),
    Way("shm", "rdm", ((8, 400000), (64 << 10, 20000), (1 << 20, 2000))),
    Way("shm", "rdm", ((64 << 10, 20000), (1 << 20, 2000)), "warm"),
    Way("udp", "dgram", ((8, 20000), (1024, 20000))),
)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        port: int = one.getsockname()[1]
        return port


def fi_pingpong(way: Way, size: int, rounds: int) -> float:
    """Mean time of one way, in ns. It prints that (usec/xfer) once, when all round trips are done."""
    program, pin, port = peer_program("fi_pingpong"), peer_program("taskset"), str(free_port())
    words = ["-p", way.provider, "-e", way.ep, "-S", str(size), "-I", str(rounds)]
    server = subprocess.Popen(
        [pin, "-c", "1", program, *words, "-B", port],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        time.sleep(0.4)
        client = subprocess.run(
            [pin, "-c", "0", program, *words, "-P", port, "127.0.0.1"],
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        row = re.search(rf"^{shown_size(size)}\s.*$", client.stdout, re.MULTILINE)
        if client.returncode != 0 or row is None:
            raise RuntimeError(f"fi_pingpong {' '.join(words)}: {client.stdout} {client.stderr}")
        return float(row[0].split()[6]) * 1000
    finally:
        server.terminate()
        server.wait(10)


def shown_size(size: int) -> str:
    """As fi_pingpong writes it."""
    return f"{size >> 20}m" if size >= 1 << 20 else f"{size >> 10}k" if size >= 1 << 10 else str(size)


def netpipe(way: Way, size: int) -> float:
    """The same mean, over all samples: fi_pingpong has no median."""
    # fi_pingpong does not use tags, unless it is asked to.
    api = "" if way.ep == "dgram" else ",api=untagged"
    records = worker(
        f"variant libfabric:provider={way.provider},ep={way.ep}{api}",
        f"pattern pingpong:buffers={way.buffers}",
        "schedule list",
        f"sizes {size}",
        "budget 0.5",
        "timeout 20",
    )
    samples = [r for r in records if r["type"] == "sample" and r["pass"] >= 0]
    operations = sum(r["ops"] * len(r["ns"]) for r in samples)
    if operations == 0:
        raise RuntimeError(f"libfabric:provider={way.provider},ep={way.ep} measured nothing at {size} bytes")
    spent_ns: float = sum(sum(r["ns"]) for r in samples)
    return spent_ns / float(operations)


def row(way: Way, size: int, trips: int, rounds: int) -> Result:
    text = f"{size} B" if size < 1 << 10 else f"{size >> 10} KiB"
    alike = way.buffers == "apart"
    mine_is = "netpipe" if alike else f"netpipe, buffers={way.buffers}"
    what = f"{text} over {way.provider}, ep={way.ep}: {mine_is} / fi_pingpong"
    rate = Shown(2, " GB/s", lambda ns: size / ns, rate=True)
    printed = Shown(0, " ns") if size < 64 << 10 else rate
    ours, peer = partial(netpipe, way, size), partial(fi_pingpong, way, size, trips)
    return beside_a_tool("libfabric", what, rounds, ours, peer, printed, wanted=alike)


def libfabric(rounds: int) -> list[Result]:
    """Latency and rate of a ping-pong."""
    listed = subprocess.run([WORKER, "list"], capture_output=True, check=True, timeout=LIMIT_S)
    modules = {m["name"] for m in json.loads(listed.stdout)["modules"] if m["available"]}
    if "libfabric" not in modules:
        raise MissingError("the module libfabric cannot be used here: netpipe doctor says why")
    return [row(way, size, trips, rounds) for way in WAYS for size, trips in way.sizes]


COMPARISONS = {"libfabric": libfabric}
