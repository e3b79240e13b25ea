#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""netpipe beside its peers, in turn and in one call. Machines are shared and change: only ratios of what was measured
within the same seconds mean something, so every comparison alternates its sides and reports the median of the ratios
with its 95 % interval.

    python bench/compare.py [NAME ...] [--rounds N] [--json FILE] [--gate]

Needs a build with -DNETPIPE_BENCH=ON (and -DNETPIPE_TESTS=ON for `overlap`, `overhead` and `loggp`; make bench does
both) and, for `curve` and `peak`, NPtcp (Debian netpipe-tcp) and iperf3. With --gate the exit code is 1 when a target
is missed. A comparison whose peer is not installed is skipped, and says so.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parent.parent
NATIVE = Path(os.environ.get("NETPIPE_NATIVE", ROOT / "build"))
WORKER = NATIVE / "bin" / "netpipe-worker"
PEERS = NATIVE / "bench"
LIMIT_S = 300


class MissingError(Exception):
    """A peer that is not installed."""


@dataclass(frozen=True)
class Result:
    name: str
    what: str
    ours: str
    peer: str
    figure: str  # the ratio or difference, with its interval
    target: str
    met: bool


def peer_program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise MissingError(f"{name} is not installed")
    return found


def built(name: str, *arguments: str) -> dict[str, Any]:
    path = PEERS / name
    if not path.is_file():
        raise MissingError(f"{path.relative_to(NATIVE)} is not built: cmake -B build -DNETPIPE_BENCH=ON")
    done = subprocess.run([path, *arguments], capture_output=True, text=True, check=True, timeout=LIMIT_S)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def worker(*lines: str) -> list[dict[str, Any]]:
    """The records of one plan."""
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "run.jsonl"
        pin = [] if any(line.startswith("pin ") for line in lines) else ["pin 0,1"]
        plan = "\n".join(["netpipe-plan 1", f"record {record}", *pin, *lines, "end", ""])
        subprocess.run(
            [WORKER, "run"], input=plan, capture_output=True, text=True, check=True, timeout=LIMIT_S
        )
        return [json.loads(line) for line in record.read_text().splitlines()]


def points(records: Iterable[dict[str, Any]], variant: str | None = None) -> dict[int, dict[str, Any]]:
    return {r["size_bytes"]: r for r in records if r["type"] == "point" and variant in (None, r["variant"])}


def interval(values: list[float]) -> tuple[float, float, float]:
    """Median and its 95 % interval by order statistics (minimum and maximum below six values)."""
    ordered = sorted(values)
    n = len(ordered)
    reach = 1.96 * math.sqrt(n) / 2
    low = max(0, math.floor(n / 2 - reach))
    high = min(n - 1, math.ceil(n / 2 + reach))
    return statistics.median(ordered), ordered[low], ordered[high]


def shown(values: list[float], digits: int = 3, unit: str = "") -> str:
    middle, low, high = interval(values)
    return f"{middle:.{digits}f}{unit} [{low:.{digits}f} {high:.{digits}f}]"


Measured = TypeVar("Measured")


def in_turn(
    rounds: int, ours: Callable[[], Measured], peer: Callable[[], Measured]
) -> tuple[list[Measured], list[Measured]]:
    """Pairs; every other one begins with the peer, so that neither side is always the second."""
    mine: list[Measured] = []
    theirs: list[Measured] = []
    for i in range(rounds):
        if i % 2:
            theirs.append(peer())
            mine.append(ours())
        else:
            mine.append(ours())
            theirs.append(peer())
    return mine, theirs


def one_size(variant: str, size: int, seconds: float) -> float:
    records = worker(
        f"variant {variant}", "schedule list", f"sizes {size}", f"budget {seconds}", "target 0.00001"
    )
    return float(points(records)[size]["median_ns"])


def harness_tcp(rounds: int) -> list[Result]:
    results = []
    for wait in ("block", "poll"):
        mine, theirs = in_turn(
            rounds,
            lambda wait=wait: one_size(f"tcp:wait={wait}", 8, 0.5),  # type: ignore[misc]
            lambda wait=wait: float(  # type: ignore[misc]
                built("tcp_pingpong", "--cpus", "0,1", "--bytes", "8", "--seconds", "0.5", "--wait", wait)[
                    "half_round_trip_ns"
                ]
            ),
        )
        ratios = [a / b for a, b in zip(mine, theirs, strict=True)]
        results.append(
            Result(
                "harness-tcp",
                f"8 B over TCP, {wait}: netpipe / hand-written C",
                shown(mine, 0, " ns"),
                shown(theirs, 0, " ns"),
                shown(ratios),
                "<= 1.01",
                interval(ratios)[0] <= 1.01,
            )
        )
    return results


def harness_shm(rounds: int) -> list[Result]:
    mine, theirs = in_turn(
        rounds,
        lambda: one_size("shm", 8, 0.3),
        lambda: float(
            built("shm_pingpong", "--cpus", "0,1", "--bytes", "8", "--seconds", "0.3")["oneway_ns"]
        ),
    )
    more = [a - b for a, b in zip(mine, theirs, strict=True)]
    return [
        Result(
            "harness-shm",
            "8 B over the same shared-memory cells: netpipe - hand-written",
            shown(mine, 1, " ns"),
            shown(theirs, 1, " ns"),
            shown(more, 1, " ns"),
            "<= 3 ns",
            interval(more)[0] <= 3,
        )
    ]


def shm_floor(rounds: int) -> list[Result]:
    mine, theirs = in_turn(
        rounds,
        lambda: one_size("shm", 8, 0.3),
        lambda: float(built("shm_bounce", "--cpus", "0,1", "--bytes", "8", "--seconds", "0.3")["oneway_ns"]),
    )
    ratios = [a / b for a, b in zip(mine, theirs, strict=True)]
    return [
        Result(
            "shm-floor",
            "8 B over shm / bare flag bounce",
            shown(mine, 1, " ns"),
            shown(theirs, 1, " ns"),
            shown(ratios),
            "<= 1.3",
            interval(ratios)[0] <= 1.3,
        )
    ]


def shm_copy(rounds: int) -> list[Result]:
    """Against one copy between the two processes, by hand, and against one within a process, whose data need not change
    hands: where two cores share no cache that is another thing.
    """
    sizes = [1 << 20, 2 << 20, 4 << 20, 8 << 20]
    rates: dict[tuple[str, int], list[float]] = {}
    for _ in range(rounds):
        for size in sizes:
            records = worker(
                "variant memcpy",
                "variant shm",
                "schedule list",
                f"sizes {size}",
                "budget 0.3",
                "target 0.001",
            )
            for variant in ("memcpy", "shm"):
                rate = points(records, variant)[size]["bytes_per_s"] / 1e9
                rates.setdefault((variant, size), []).append(rate)
            by_hand = built("shm_copy", "--cpus", "0,1", "--bytes", str(size), "--seconds", "0.3")
            rates.setdefault(("by hand", size), []).append(size / float(by_hand["oneway_ns"]))
    results = []
    for size in sizes:
        for peer, what, least in (
            ("by hand", "one memcpy between the processes", 0.9),
            ("memcpy", "one memcpy within a process", 0.0),
        ):
            ratios = [a / b for a, b in zip(rates["shm", size], rates[peer, size], strict=True)]
            results.append(
                Result(
                    "shm-copy",
                    f"{size >> 20} MiB: shm / {what}, rate",
                    shown(rates["shm", size], 2, " GB/s"),
                    shown(rates[peer, size], 2, " GB/s"),
                    shown(ratios),
                    f">= {least}" if least else "none",
                    interval(ratios)[0] >= least,
                )
            )
    return results


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


def netpipe_curve() -> tuple[float, dict[int, float]]:
    """The same with the command that a user types: everything that it does counts."""
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "run.jsonl"
        begin = time.monotonic()
        subprocess.run(
            [sys.executable, "-m", "netpipe", "run", "tcp", "--quiet", "--output", str(record)],
            cwd=folder,
            check=True,
            capture_output=True,
            timeout=LIMIT_S,
        )
        seconds = time.monotonic() - begin
        records = [json.loads(line) for line in record.read_text().splitlines()]
        return seconds, {size: p["median_ns"] for size, p in points(records).items()}


def spread(curves: list[dict[int, float]]) -> float:
    """Median over the sizes of largest over smallest."""
    return statistics.median(max(c[s] for c in curves) / min(c[s] for c in curves) for s in curves[0])


def curve(rounds: int) -> list[Result]:
    """Both on two processors, which is where netpipe puts its ranks by itself: NPtcp, left alone, is moved about by the
    kernel, and then its runs differ by where they were.
    """
    runs = min(rounds, 5)
    mine, theirs = in_turn(runs, netpipe_curve, lambda: nptcp("1", "0"))
    faster = [b[0] / a[0] for a, b in zip(mine, theirs, strict=True)]
    ours_spread = spread([c for _, c in mine])
    peer_spread = spread([c for _, c in theirs])
    return [
        Result(
            "curve",
            "seconds of a full TCP curve: NPtcp / netpipe run tcp",
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
    """As NPtcp comes to its own: of each size the best of three trials, and of the sizes the best. A visit, of which
    the mean counts, is a trial.
    """
    trials: dict[tuple[str, int], list[float]] = {}
    for r in records:
        if r["type"] == "sample" and r["pass"] >= 0 and r["ns"]:
            one = statistics.fmean(r["ns"]) / r["ops"]
            trials.setdefault((r["pattern"], r["size_bytes"]), []).append(one)
    return max(size * 8 / min(ns[:3]) for (_, size), ns in trials.items())


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


def honesty(_: int) -> list[Result]:
    """300 points of one size of a real layer, measured at once, each with its own interval. Their common median stands
    for the long run.
    """
    results = []
    for variant, size in (("tcp:wait=poll", 64), ("memcpy", 65536)):
        records = worker(
            f"variant {variant}",
            "schedule list",
            "sizes " + ",".join([str(size)] * 300),
            "budget 25",
            "timeout 20",
        )
        measured = [r for r in records if r["type"] == "point" and r["half_width"] is not None]
        samples = sorted(
            ns / r["ops"] for r in records if r["type"] == "sample" and r["pass"] >= 0 for ns in r["ns"]
        )
        truth = statistics.median(samples)
        covered = sum(p["low_ns"] <= truth <= p["high_ns"] for p in measured)
        share = covered / len(measured)
        results.append(
            Result(
                "honesty",
                f"95 % intervals of {len(measured)} points of {variant} at {size} B that cover the long-run median",
                f"{100 * share:.1f} %",
                f"median {truth:.1f} ns",
                f"{100 * share:.1f} %",
                "92 to 98 %",
                0.92 <= share <= 0.98 and len(measured) >= 300,
            )
        )
    return results


def memory(_: int) -> list[Result]:
    records = worker("variant tcp")
    (launch,) = [r for r in records if r["type"] == "launch"]
    beyond = (launch["rss_bytes"] - launch["buffer_bytes"]) / 2**20
    return [
        Result(
            "memory",
            "worker, 124 sizes to 8 MiB, resident beyond its buffers",
            f"{beyond:.1f} MiB",
            f"buffers {launch['buffer_bytes'] / 2**20:.1f} MiB",
            f"{beyond:.1f} MiB",
            "< 64 MiB",
            beyond < 64,
        )
    ]


def through_the_command(*arguments: str) -> list[dict[str, Any]]:
    """The records of `netpipe run`, which starts the launchers of the MPIs."""
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "run.jsonl"
        subprocess.run(
            [
                sys.executable,
                "-m",
                "netpipe",
                "run",
                *arguments,
                "--quiet",
                "--pin",
                "0,1",
                "-o",
                str(record),
            ],
            capture_output=True,
            text=True,
            check=True,
            timeout=LIMIT_S,
        )
        return [json.loads(line) for line in record.read_text().splitlines()]


class OfMpi:
    """Programs of one MPI library, started as netpipe starts its own, in the environment that the module has set."""

    def __init__(self, module: str, environment: str) -> None:
        from netpipe.launch import description
        from netpipe.mpi import added

        self.added = added.one(module)
        self.description = description.read(self.added.path)
        self.environment = {
            **self.description.environment,
            **dict(word.split("=", 1) for word in environment.split() if "=" in word),
        }

    def build(self, folder: Path, name: str) -> Path:
        """One of bench/mpi."""
        program = folder / name
        subprocess.run(
            [str(self.added.mpicc), "-O3", "-o", str(program), str(ROOT / f"bench/mpi/{name}.c")],
            env={**os.environ, **self.description.environment},
            check=True,
            timeout=LIMIT_S,
        )
        return program

    def run(self, folder: Path, *program: str) -> str:
        from netpipe.launch import families

        task = families.Task(self.description, program, 2, (), self.environment, (), None, folder)
        start = families.find(self.description, None)().command(task)
        done = subprocess.run(
            start.argv,
            env=start.whole_environment(),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
            timeout=LIMIT_S,
        )
        return done.stdout


def one_mpi(rounds: int, module: str, transport: str) -> list[Result]:
    """The curve of two sizes by netpipe, by the loop that anybody would write, and by the packaged NetPIPE where there
    is one for this library.
    """
    variant = f"{module}:transport={transport}"
    sizes = {8: "8 B", 1 << 20: "1 MiB"}
    times: dict[tuple[str, int], list[float]] = {}

    # One size a process on either side: what a TCP connection carried before shapes what it carries next.
    def ours(size: int) -> str:
        records = through_the_command(variant, "--sizes", str(size), "--target", "0.01%", "--budget", "0.7")
        times.setdefault(("ours", size), []).append(points(records)[size]["median_ns"])
        (opened,) = [r for r in records if r["type"] == "variant"]
        return str(opened["ranks"][0]["settings"].get("environment", ""))

    environment = ours(8)
    times.clear()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        library = OfMpi(module, environment)
        program = library.build(folder, "pingpong")
        version = library.description.version
        built_for = {"Open MPI 4.1": "NPopenmpi", "MPICH 4.0": "NPmpich2"}
        classic = next((name for built, name in built_for.items() if version.startswith(built)), "")

        def by_hand(size: int) -> None:
            said = library.run(folder, str(program), "0.7", str(size))
            (row,) = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
            times.setdefault(("by hand", size), []).append(row["oneway_ns"])

        def by_netpipe_classic() -> None:
            out = folder / "np.out"
            library.run(folder, shutil.which(classic) or "", "-o", str(out), "-u", str(1 << 20), "-l", "8")
            for line in out.read_text().splitlines():
                size, _, seconds = line.split()[:3]
                if int(size) in sizes:
                    times.setdefault(("classic", int(size)), []).append(float(seconds) * 1e9)

        for i in range(rounds):
            for size in sizes:
                for side in (ours, by_hand) if i % 2 else (by_hand, ours):
                    side(size)
            if shutil.which(classic) and i < 3:
                by_netpipe_classic()
    results = []
    for size, text in sizes.items():
        for peer, what, target in (
            ("by hand", "40 lines of MPI", "<= 1.01"),
            ("classic", classic, "<= 1.0 or within the noise"),
        ):
            theirs = times.get((peer, size), [])
            if not theirs:
                continue
            mine = times["ours", size]
            ratios = [a / b for a, b in zip(mine, theirs, strict=False)]
            middle, low, _ = interval(ratios)
            met = middle <= 1.01 if peer == "by hand" else low <= 1.0
            results.append(
                Result(
                    "mpi",
                    f"{text} over {version}, {transport}: netpipe / {what}",
                    shown(mine, 0, " ns"),
                    shown(theirs, 0, " ns"),
                    shown(ratios),
                    target,
                    met,
                )
            )
    return results


def mpi(rounds: int) -> list[Result]:
    """Every Open MPI and MPICH that was added."""
    from netpipe.mpi import added

    chosen = [one.name for one in added.all_() if one.version.startswith(("Open MPI", "MPICH"))]
    if not chosen:
        raise MissingError("no MPI was added: netpipe modules add")
    return [r for name in chosen for transport in ("shm", "tcp") for r in one_mpi(rounds, name, transport)]


def beside_by_hand(
    rounds: int,
    name: str,
    program: str,
    shapes: list[tuple[str, list[str], int, str]],
    settings: tuple[str, ...] = ("transport=shm", "transport=tcp"),
) -> list[Result]:
    """Patterns over the first Open MPI that was added, with each of these settings, beside a program of bench/mpi. A
    shape is the pattern, the program's words behind its size, the size in bytes, and what it is.
    """
    from netpipe.mpi import added

    module = next((one.name for one in added.all_() if one.version.startswith("Open MPI")), None)
    if module is None:
        raise MissingError("no Open MPI was added: netpipe modules add")
    results = []
    with tempfile.TemporaryDirectory() as where:
        folder = Path(where)
        for setting in settings:
            variant = f"{module}:{setting}"
            transport = setting.rpartition("=")[2]
            (opened,) = [r for r in through_the_command(variant, "--sizes", "8") if r["type"] == "variant"]
            library = OfMpi(module, str(opened["ranks"][0]["settings"].get("environment", "")))
            built_program = str(library.build(folder, program))
            for pattern, words, size, what in shapes:
                options = ["--pattern", pattern, "--sizes", str(size), "--target", "0.01%", "--budget", "0.7"]

                def ours(options: list[str] = options, size: int = size, variant: str = variant) -> float:
                    return float(points(through_the_command(variant, *options))[size]["median_ns"])

                def by_hand(
                    words: list[str] = words,
                    size: int = size,
                    library: OfMpi = library,
                    start: str = built_program,
                ) -> float:
                    said = library.run(folder, start, "0.7", str(size), *words)
                    (row,) = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
                    return float(row["operation_ns"])

                mine, theirs = in_turn(rounds, ours, by_hand)
                ratios = [a / b for a, b in zip(mine, theirs, strict=True)]
                unit = {8: "8 B", 1024: "1 KiB", 1 << 20: "1 MiB"}[size]
                results.append(
                    Result(
                        name,
                        f"{what}, {unit} over {library.description.version}, {transport}: netpipe / by hand",
                        shown(mine, 1, " ns"),
                        shown(theirs, 1, " ns"),
                        shown(ratios),
                        "within 2 %",
                        abs(interval(ratios)[0] - 1) <= 0.02,
                    )
                )
    return results


def mpi_patterns(rounds: int) -> list[Result]:
    """Many messages at once."""
    return beside_by_hand(
        rounds,
        "mpi-patterns",
        "window",
        [
            ("window", ["window", "16"], 8, "message rate, 16 in flight"),
            ("window:in_flight=64", ["window", "64"], 8, "message rate, 64 in flight"),
            ("window", ["window", "16"], 1 << 20, "throughput, 16 in flight"),
            ("bidirectional", ["bidirectional", "1"], 8, "both directions"),
            ("bidirectional", ["bidirectional", "1"], 1 << 20, "both directions"),
        ],
    )


def mpi_collectives(rounds: int) -> list[Result]:
    """The slowest rank of a collective operation."""
    return beside_by_hand(
        rounds,
        "mpi-collectives",
        "collective",
        [
            (f"collective:what={what}", [what], size, what)
            for what in ("allreduce", "alltoall", "bcast")
            for size in (8, 1 << 20)
        ],
    )


def mpi_put(rounds: int) -> list[Result]:
    """A put and a flush, beside MPI_Put and MPI_Win_flush, in both kinds of window."""
    return [
        result
        for window in ("allocate", "create")
        for result in beside_by_hand(
            rounds,
            "mpi-put",
            "put",
            [("put", [window], size, f"put and flush, window={window}") for size in (8, 1 << 20)],
            (f"window={window},transport=shm",),
        )
    ]


def shm_put(rounds: int) -> list[Result]:
    """A put into memory that two processes share is one memcpy and one fence instruction."""
    results = []
    for size, text in ((8, "8 B"), (1 << 20, "1 MiB")):
        times: dict[str, list[float]] = {"shm": [], "memcpy": []}
        for _ in range(rounds):
            records = worker(
                "variant memcpy",
                "variant shm",
                "pattern put",
                "schedule list",
                f"sizes {size}",
                "budget 0.3",
                "target 0.001",
            )
            for variant, values in times.items():
                values.append(float(points(records, variant)[size]["median_ns"]))
        ratios = [a / b for a, b in zip(times["shm"], times["memcpy"], strict=True)]
        results.append(
            Result(
                "shm-put",
                f"put, {text}: shm / memcpy within a process",
                shown(times["shm"], 1, " ns"),
                shown(times["memcpy"], 1, " ns"),
                shown(ratios),
                "within 2 %" if size > 8 else "none",
                size == 8 or abs(interval(ratios)[0] - 1) <= 0.02,
            )
        )
    return results


def mpi_all(_: int) -> list[Result]:
    """The whole command over every MPI that was added, shared memory and TCP, all sizes."""
    begin = time.monotonic()
    records = through_the_command("mpi", "--timeout", "5")
    seconds = time.monotonic() - begin
    measured = {r["variant"] for r in records if r["type"] == "point"}
    libraries = {variant.partition(":")[0] for variant in measured}
    if not measured:
        raise MissingError("no MPI was added: netpipe modules add")
    count = sum(r["type"] == "point" for r in records)
    return [
        Result(
            "mpi-all",
            f"{len(libraries)} MPIs, {len(measured)} variants, {count} points in one run",
            f"{seconds:.0f} s",
            "-",
            f"{seconds:.0f} s",
            "< 180 s for six",
            seconds < 180 and len(libraries) >= 6 and count == 124 * len(measured),
        )
    ]


def mpi_many(_: int) -> list[Result]:
    """64 ranks on the processors that there are, in 32 pairs, and 1024 on a simulated machine."""
    from netpipe.mpi import added

    results = []
    there = {one.name for one in added.all_()}
    shapes = [
        ("mpi@openmpi", ":transport=shm", 64),
        ("mpi@mpich", ":transport=shm", 64),
        ("mpi@simgrid", "", 1024),
    ]
    for name, setting, ranks in shapes:
        if name not in there:
            continue
        begin = time.monotonic()
        records = through_the_command(
            name + setting, "--ranks", str(ranks), "--sizes", "8,1k", "--budget", "2"
        )
        seconds = time.monotonic() - begin
        (launch,) = [r for r in records if r["type"] == "launch"]
        beyond = (launch["rss_bytes"] - launch["buffer_bytes"]) / 2**20
        done = sum(r["type"] == "point" for r in records)
        simulated = name == "mpi@simgrid"
        results.append(
            Result(
                "mpi-many",
                f"{ranks} ranks of {name} in {ranks // 2} pairs on "
                + ("a simulated machine" if simulated else f"{os.cpu_count()} processors"),
                f"{seconds:.0f} s",
                f"{beyond:.2g} MiB a rank beyond its buffers, the library's own included",
                f"{done} of 2 sizes",
                "completes" + (", < 8 MiB" if simulated else ""),
                done == 2 and (not simulated or beyond < 8),
            )
        )
    if not results:
        raise MissingError("no MPI was added: netpipe modules add")
    return results


SYNTHETIC = {
    "latency": 20_000,
    "send_overhead": 2_000,
    "recv_overhead": 3_000,
    "overhead_per_kib": 400,
    "gap": 5_000,
    "gap_per_kib": 1_000,
}  # ns; the defaults of tests/modules/synthetic.c, written out


def known(name: str, per_kib: str, size: int) -> float:
    return SYNTHETIC[name] + size * SYNTHETIC[per_kib] / 1024


def over_synthetic(pattern: str, sizes: list[int], overlap: int = 100) -> list[dict[str, Any]]:
    """The records of a pattern over the layer that behaves as a model says."""
    module = NATIVE / "test-modules" / "synthetic.so"
    if not module.is_file():
        raise MissingError(f"{module.relative_to(NATIVE)} is not built: cmake -B build -DNETPIPE_TESTS=ON")
    options = ",".join(f"{name}={value}" for name, value in SYNTHETIC.items())
    return worker(
        f"module-file {module}",
        f"variant synthetic:{options},overlap={overlap}",
        f"pattern {pattern}",
        "schedule list",
        "sizes " + ",".join(map(str, sizes)),
        "budget 3",
        "target 0.002",
    )


def measures(records: Iterable[dict[str, Any]], name: str) -> dict[int, float]:
    """By size; of sizes without a single sample nothing."""
    return {
        r["size_bytes"]: m["median"]
        for r in records
        if r["type"] == "point"
        for m in r["measures"]
        if m["name"] == name
    }


def against_known(
    name: str, what: str, found: list[dict[int, float]], truth: Callable[[int], float]
) -> Result:
    """Of several rounds the median at each size; the size that is farthest from the truth is the figure."""
    ratios = {size: [one[size] / truth(size) for one in found if size in one] for size in sorted(found[0])}
    worst = max(ratios, key=lambda size: abs(statistics.median(ratios[size]) - 1))
    return Result(
        name,
        f"{what}, {len(ratios)} sizes, {min(ratios)} B to {max(ratios) >> 10} KiB",
        shown([one[worst] for one in found if worst in one], 0, " ns"),
        f"{truth(worst):.0f} ns",
        f"{shown(ratios[worst])} at {worst} B, the farthest",
        "within 5 % at every size",
        all(abs(statistics.median(values) - 1) <= 0.05 for values in ratios.values()),
    )


SYNTHETIC_SIZES = [1, 64, 1024, 8192, 65536, 262144]


def overlap(rounds: int) -> list[Result]:
    results = []
    for share in (100, 60, 20):
        for computes in ("both", "one"):
            found = [
                measures(over_synthetic(f"overlap:computes={computes}", SYNTHETIC_SIZES, share), "overlap")
                for _ in range(rounds)
            ]

            def truth(size: int, share: int = share, computes: str = computes) -> float:
                transfer = known("latency", "gap_per_kib", size)
                calls = known("send_overhead", "overhead_per_kib", size)
                calls += known("recv_overhead", "overhead_per_kib", size)
                # The way there and the other rank's calls are hidden as well.
                return transfer * share / 100 + (transfer + calls if computes == "one" else 0)

            what = (
                f"overlap of {share} % of each transfer, {computes} of the ranks with work: measured / known"
            )
            results.append(against_known("overlap", what, found, truth))
    return results


def overhead(rounds: int) -> list[Result]:
    results = []
    for side in ("send", "recv"):
        for call in ("request", "blocking"):
            found = []
            for _ in range(rounds):
                records = over_synthetic(f"overhead:side={side},call={call}", SYNTHETIC_SIZES)
                found.append({size: p["median_ns"] for size, p in points(records).items()})
            results.append(
                against_known(
                    "overhead",
                    f"overhead of {side}, {call}: measured / known",
                    found,
                    lambda size, side=side: known(f"{side}_overhead", "overhead_per_kib", size),  # type: ignore[misc]
                )
            )
    return results


def loggp(rounds: int) -> list[Result]:
    """Each size by itself, and what is fitted over all of them."""
    from netpipe.analysis import loggp as analysis
    from netpipe.records import Run, decode

    runs = [over_synthetic("loggp", SYNTHETIC_SIZES) for _ in range(rounds)]
    results = []
    for name, fixed, per_kib in (
        ("o_s", "send_overhead", "overhead_per_kib"),
        ("o_r", "recv_overhead", "overhead_per_kib"),
        ("gap", "gap", "gap_per_kib"),
        ("transfer", "latency", "gap_per_kib"),
    ):

        def truth(size: int, fixed: str = fixed, per_kib: str = per_kib) -> float:
            return known(fixed, per_kib, size)

        what = f"LogGP, {name}: measured / known"
        results.append(against_known("loggp", what, [measures(records, name) for records in runs], truth))
    fitted: dict[str, list[float]] = {}
    ranges = []
    for records in runs:
        decoded = [decode(json.dumps(record).encode()) for record in records]
        (found,) = analysis.loggp(Run(record for record in decoded if record is not None))
        ranges.append(len(found.ranges))
        one = found.ranges[0]
        for name, value, actual in (
            ("L", one.transfer.fixed_ns, SYNTHETIC["latency"]),
            ("o_s", one.o_s.fixed_ns, SYNTHETIC["send_overhead"]),
            ("o_r", one.o_r.fixed_ns, SYNTHETIC["recv_overhead"]),
            ("g", one.gap.fixed_ns, SYNTHETIC["gap"]),
            ("G", one.gap.per_byte_ns, SYNTHETIC["gap_per_kib"] / 1024),
        ):
            fitted.setdefault(name, []).append(value.value / actual)
    results.extend(
        Result(
            "loggp",
            f"LogGP, {name} fitted over all sizes: measured / known",
            f"{statistics.median(ranges):.0f} range of sizes found",
            "1 range",
            shown(values),
            "within 5 %",
            abs(statistics.median(values) - 1) <= 0.05,
        )
        for name, values in fitted.items()
    )
    return results


COMPARISONS: dict[str, Callable[[int], list[Result]]] = {
    "harness-tcp": harness_tcp,
    "harness-shm": harness_shm,
    "shm-floor": shm_floor,
    "shm-copy": shm_copy,
    "shm-put": shm_put,
    "curve": curve,
    "peak": peak,
    "honesty": honesty,
    "memory": memory,
    "mpi": mpi,
    "mpi-patterns": mpi_patterns,
    "mpi-collectives": mpi_collectives,
    "mpi-put": mpi_put,
    "mpi-all": mpi_all,
    "mpi-many": mpi_many,
    "overlap": overlap,
    "overhead": overhead,
    "loggp": loggp,
}


def table(results: list[Result]) -> list[str]:
    rows = [
        f"| {r.what} | {r.ours} | {r.peer} | {r.figure} | {r.target} | {'met' if r.met else 'missed'} |"
        for r in results
    ]
    return ["| what | netpipe | peer | ratio or difference | target | |", "|---|---|---|---|---|---|", *rows]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(COMPARISONS)}; default all")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path, help="write the results there as well")
    parser.add_argument("--table", type=Path, help="and there as a table in Markdown")
    parser.add_argument("--gate", action="store_true", help="exit 1 when a target is missed")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in COMPARISONS]
    if unknown:
        parser.error(f"there is no comparison {', '.join(unknown)}; there are {', '.join(COMPARISONS)}")
    results: list[Result] = []
    for name in arguments.names or COMPARISONS:
        try:
            found = COMPARISONS[name](arguments.rounds)
        except MissingError as missing:
            print(f"{name}: skipped, {missing}", flush=True)
            continue
        for r in found:
            print(f"{'met   ' if r.met else 'MISSED'} {r.name}: {r.what}", flush=True)
            print(f"         ours {r.ours} | peer {r.peer} | {r.figure} (target {r.target})", flush=True)
        results += found
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(r) for r in results], indent=1) + "\n")
    if arguments.table:
        arguments.table.write_text("".join(f"{line}\n" for line in table(results)))
    missed = [r for r in results if not r.met]
    print(f"{len(results) - len(missed)} met, {len(missed)} missed")
    return 1 if missed and arguments.gate else 0


if __name__ == "__main__":
    sys.exit(main())
