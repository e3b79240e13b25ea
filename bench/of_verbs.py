# SPDX-License-Identifier: Apache-2.0
"""verbs beside perftest: the same device, GID, queue pair, inline size, waits and processors. It needs an RDMA device;
where there is none, a guest with soft-RoCE does:

    python tests/guest/guest.py --limit 1500 -- python bench/compare.py verbs --rounds 8
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

from measured import LIMIT_S, WORKER, MissingError, Result, Shown, beside_a_tool, peer_program, points, worker


@dataclass(frozen=True)
class Way:
    peer: str  # a program of perftest
    options: tuple[str, ...]  # of that program
    variant: str
    pattern: str
    rate: bool
    sizes: tuple[tuple[int, int], ...]  # bytes, and how many times


# ib_write_bw keeps 128 writes in flight and asks for a completion of every hundredth. With `-c UC` it has no row: it
# counts what its sender has posted, without flow control, and netpipe's stream what has arrived.
WAYS = (
    Way("ib_send_lat", ("-I", "220"), "", "pingpong", False, ((8, 4000), (4096, 1000))),
    Way("ib_send_lat", ("-I", "220", "-e"), ",wait=block", "pingpong", False, ((8, 2000),)),
    Way("ib_send_lat", ("-I", "220", "-c", "UD"), ",qp=ud", "pingpong", False, ((8, 4000),)),
    Way("ib_write_lat", ("-I", "220"), ",op=write", "pingpong", False, ((8, 4000), (4096, 1000))),
    Way(
        "ib_write_lat",
        ("-I", "220", "-c", "UC"),
        ",qp=uc,op=write",
        "pingpong",
        False,
        ((8, 4000), (4096, 1000)),
    ),
    Way("ib_read_lat", (), "", "get", False, ((8, 2000),)),
    Way(
        "ib_write_bw", ("-I", "0"), ",inline=0,signal=100,list=1", "put:in_flight=128", True, ((65536, 600),)
    ),
)


def free_port() -> int:
    with socket.create_server(("", 0)) as one:
        port: int = one.getsockname()[1]
        return port


@dataclass(frozen=True)
class Device:
    name: str
    gid: str


def device() -> Device:
    """The one that netpipe takes."""
    listed = subprocess.run([WORKER, "list"], capture_output=True, check=True, timeout=LIMIT_S)
    modules: dict[str, dict[str, Any]] = {m["name"]: m for m in json.loads(listed.stdout)["modules"]}
    verbs = modules.get("verbs")
    if verbs is None or not verbs["available"]:
        why = "it is not built" if verbs is None else verbs["reason"]
        raise MissingError(f"verbs cannot be used here ({why}); bench/of_verbs.py says how to use a guest")
    records = worker("variant verbs", "pattern pingpong", "schedule list", "sizes 8", "budget 0.01")
    (variant,) = [r for r in records if r["type"] == "variant"]
    said = variant["ranks"][0]["settings"]
    return Device(said["device"], str(said.get("gid", "0")))


def perftest(of: Device, way: Way, size: int, times: int) -> float:
    """Mean time of one way in ns, or of one message where a rate is reported. Its typical time is the median of single
    round trips, which is another number than that of many in a row, as netpipe times them.
    """
    program, pin, port = peer_program(way.peer), peer_program("taskset"), str(free_port())
    words = ["-d", of.name, "-x", of.gid, "-F", "-s", str(size), "-n", str(times), "-p", port, *way.options]
    words += ["--report_gbits"] if way.rate else []
    server = subprocess.Popen(
        [pin, "-c", "1", program, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        time.sleep(1)
        client = subprocess.run(
            [pin, "-c", "0", program, *words, "127.0.0.1"],
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        row = re.search(rf"^ *{size} +{times} +(.*)$", client.stdout, re.MULTILINE)
        if client.returncode != 0 or row is None:
            raise RuntimeError(f"{way.peer} {' '.join(words)}: {client.stdout} {client.stderr}")
        columns = [float(one) for one in row[1].split()]
        # Gb/s: peak, average. us: minimum, maximum, typical, average, ...; of a read both ways, as netpipe's get.
        return size * 8 / columns[1] if way.rate else columns[3] * 1000
    finally:
        server.terminate()
        server.wait(10)


def netpipe(of: Device, way: Way, size: int) -> float:
    """The mean of the same."""
    records = worker(
        f"variant verbs:device={of.name},gid={of.gid}{way.variant}",
        f"pattern {way.pattern}",
        *("schedule list", f"sizes {size}", "budget 0.6", "timeout 30"),
    )
    found: dict[int, dict[str, Any]] = points(records)
    if size not in found:
        raise RuntimeError(f"verbs{way.variant} measured nothing at {size} bytes")
    return float(found[size]["mean_ns"])


def row(of: Device, way: Way, size: int, times: int, rounds: int) -> Result:
    text = f"{size} B" if size < 1 << 10 else f"{size >> 10} KiB"
    options = " ".join(way.options)
    what = f"{text}, verbs:{way.variant.removeprefix(',')} {way.pattern} / {way.peer} {options}, {of.name}"
    rate = Shown(1, " MB/s", lambda ns: size / ns * 1000, rate=True)
    printed = rate if way.rate else Shown(0, " ns")
    ours, peer = partial(netpipe, of, way, size), partial(perftest, of, way, size, times)
    return beside_a_tool("verbs", what, rounds, ours, peer, printed)


def verbs(rounds: int) -> list[Result]:
    """Latency of ping-pongs and reads, and rate of writes."""
    of = device()
    return [row(of, way, size, times, rounds) for way in WAYS for size, times in way.sizes]


COMPARISONS = {"verbs": verbs}
