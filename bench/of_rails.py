# SPDX-License-Identifier: Apache-2.0
"""tcp over two links beside tcp over one of them, and beside two iperf3 that have a link each (channel bonding, figure
2 of the capabilities paper). The hosts are two network namespaces, each link a veth pair that tbf limits: needs root.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measured import LIMIT_S, WORKER, MissingError, Result, interval, peer_program, points, shown

RATE = "1gbit"
RAILS = ("rail0", "rail1")


def run(*words: str) -> None:
    try:
        subprocess.run(words, check=True, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.CalledProcessError) as wrong:
        said = wrong.stderr.strip() if isinstance(wrong, subprocess.CalledProcessError) else str(wrong)
        raise MissingError(f"{' '.join(words)}: {said}") from wrong


def inside(host: str, *words: str | Path) -> list[str | Path]:
    return ["ip", "netns", "exec", host, *words]


@contextlib.contextmanager
def two_hosts() -> Iterator[tuple[str, str]]:
    """10.79.0.1 and .2 over the first link, 10.79.1.1 and .2 over the second."""
    tag = secrets.token_hex(3)
    hosts = (f"npa{tag}", f"npb{tag}")
    try:
        for host in hosts:
            run("ip", "netns", "add", host)
        for rail in RAILS:
            run(*f"ip link add {rail} netns {hosts[0]} type veth peer name {rail} netns {hosts[1]}".split())
        for number, host in enumerate(hosts, 1):
            for network, rail in enumerate(RAILS):
                run("ip", "-n", host, "addr", "add", f"10.79.{network}.{number}/24", "dev", rail)
                run("ip", "-n", host, "link", "set", rail, "up")
                limit = f"dev {rail} root tbf rate {RATE} burst 128k latency 20ms".split()
                run("ip", "netns", "exec", host, "tc", "qdisc", "replace", *limit)
        yield hosts
    finally:
        for host in hosts:
            subprocess.run(["ip", "netns", "del", host], capture_output=True, check=False, timeout=30)


@contextlib.contextmanager
def ended(process: subprocess.Popen[Any]) -> Iterator[subprocess.Popen[Any]]:
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(10)
        if process.stdout is not None:
            process.stdout.close()


def netpipe(hosts: tuple[str, str], size: int, *variants: str) -> dict[str, float]:
    """Gbps of a stream of messages of this size, by variant."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        token, record = folder / "token", folder / "run.jsonl"
        token.touch(0o600)
        token.write_text(secrets.token_hex(16))
        words = (WORKER, "serve", "--port", "0", "--bind", "10.79.0.2", "--token-file", token)
        server = subprocess.Popen(
            inside(hosts[1], *words),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        with ended(server):
            assert server.stdout is not None
            port = json.loads(server.stdout.readline())["port"]
            lines = (
                *("netpipe-plan 1", f"record {record}", "host 10.79.0.2", f"port {port}"),
                *(f"token-file {token}", *(f"variant {one}" for one in variants), "pattern stream"),
                *("schedule list", f"sizes {size}", "budget 2", "end", ""),
            )
            subprocess.run(
                inside(hosts[0], WORKER, "run"),
                input="\n".join(lines),
                capture_output=True,
                text=True,
                check=True,
                timeout=LIMIT_S,
            )
        records = [json.loads(line) for line in record.read_text().splitlines()]
        return {one: points(records, one)[size]["bytes_per_s"] * 8e-9 for one in variants}


def iperf3(hosts: tuple[str, str], rails: int, seconds: float = 2) -> float:
    """Gbps, one on each of the first so many links at once."""
    program = peer_program("iperf3")
    total = 0.0
    with contextlib.ExitStack() as stack:
        for network in range(rails):
            words = (program, "-s", "-1", "-B", f"10.79.{network}.2")
            server = subprocess.Popen(
                inside(hosts[1], *words),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            stack.enter_context(ended(server))
        time.sleep(0.3)
        clients = []
        for network in range(rails):
            asks = (program, "-c", f"10.79.{network}.2", "-t", str(seconds), "-J")
            client = subprocess.Popen(
                inside(hosts[0], *asks), stdout=subprocess.PIPE, text=True, start_new_session=True
            )
            clients.append(stack.enter_context(ended(client)))
        for client in clients:
            said, _ = client.communicate(timeout=LIMIT_S)
            total += float(json.loads(said)["end"]["sum_received"]["bits_per_second"]) / 1e9
    return total


def rails(rounds: int) -> list[Result]:
    """Rates that a queue limits stand still within 1 %, so a few rounds will do."""
    size = 4 << 20
    one, two = "tcp:rails=rail0", "tcp:rails=rail0+rail1"
    mine: list[dict[str, float]] = []
    theirs: list[float] = []
    with two_hosts() as hosts:
        for _ in range(min(rounds, 5)):
            mine.append(netpipe(hosts, size, one, two))
            theirs.append(iperf3(hosts, len(RAILS)))
    doubled = [found[two] / found[one] for found in mine]
    beside = [found[two] / peer for found, peer in zip(mine, theirs, strict=True)]
    both = shown([found[two] for found in mine], 2, " Gbps")
    return [
        Result(
            "rails",
            f"stream of 4 MiB over links of {RATE}: two rails / one rail",
            both,
            shown([found[one] for found in mine], 2, " Gbps"),
            shown(doubled),
            ">= 1.9",
            interval(doubled)[0] >= 1.9,
        ),
        Result(
            "rails",
            f"stream of 4 MiB over two links of {RATE}: two rails / two iperf3 at once, a link each",
            both,
            shown(theirs, 2, " Gbps"),
            shown(beside),
            ">= 0.98",
            interval(beside)[0] >= 0.98,
        ),
    ]


COMPARISONS = {"rails": rails}
