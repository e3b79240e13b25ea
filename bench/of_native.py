# SPDX-License-Identifier: Apache-2.0
"""The layers of one host beside the least that anybody could write by hand."""

from __future__ import annotations

import math
import statistics
from pathlib import Path

from measured import NATIVE, ONLY_SAID, PEERS, MissingError, Result, Target, interval, shown, worker
from slices import (
    MEASURE_S,
    SAID,
    Program,
    Speed,
    Start,
    at_most,
    at_most_ns,
    beside,
    compared,
    from_numbers,
    netpipe,
    usual,
    within,
)

from netpipe.command.presets import PRESETS

# Of a rate: what crosses from one processor to the other may take a little longer than one copy.
NEARLY_AS_FAST = Target(">= 0.9", 0.9, math.inf)
LAUNCHES = int(PRESETS["default"]["launches"])


def by_hand(name: str, *words: str, speed: Speed = usual) -> Start:
    """One of bench/, on the two processors on which netpipe's ranks are."""
    path = PEERS / name
    if not path.is_file():
        raise MissingError(f"{path.relative_to(NATIVE)} is not built: cmake -B build -DNETPIPE_BENCH=ON")

    def program(output: Path) -> Program:
        argv = [str(path), "--output", str(output), "--cpus", "0,1", "--seconds", str(MEASURE_S), *words]
        return Program(argv, output, from_numbers, speed=speed)

    return program


def harness_tcp(rounds: int) -> list[Result]:
    """A ping-pong over a socket, sleeping and polling, beside the same calls by hand."""
    results = []
    for wait in ("block", "poll"):
        peer = by_hand("stream_pingpong", "--bytes", "8", "--wait", wait)
        ours = netpipe(f"tcp:wait={wait}", 8)
        what = f"8 B over TCP, {wait}: netpipe / hand-written C"
        results.append(compared("harness-tcp", what, rounds, ours, peer, at_most(1.01), 0))
    return results


def harness_shm(rounds: int) -> list[Result]:
    """A ping-pong through shared memory, beside the same cells by hand."""
    what = "8 B over the same shared-memory cells: netpipe - hand-written"
    ours, peer = netpipe("shm", 8), by_hand("shm_pingpong", "--bytes", "8")
    return [compared("harness-shm", what, rounds, ours, peer, at_most_ns(3))]


def by_hand_twice(rounds: int) -> list[Result]:
    """Two copies of the same hand-written loop: how far two starts differ because of what each of them finds (physical
    memory, sockets, the state of the machine), whoever measures. A default run has the mean of LAUNCHES launches, and
    so this has of as many starts in a row.
    """
    ways: list[tuple[str, str, int, list[str]]] = []
    ways += [("shared memory", "shm_pingpong", size, []) for size in (8, 512, 8 << 10, 64 << 10)]
    ways += [
        (f"{name}, {wait}", "stream_pingpong", size, ["--over", over, "--wait", wait])
        for over, name in (("tcp", "TCP"), ("unix", "Unix sockets"), ("pipe", "pipes"))
        for wait in ("block", "poll")
        for size in (8, 64 << 10)
    ]
    results = []
    for what, program, size, more in ways:
        words = ["--bytes", str(size), *more]
        found = beside(rounds, by_hand(program, *words), by_hand(program, *words))
        ratios = [math.log(one.ratio) for one in found]
        apart = sorted(map(abs, ratios))
        together = [
            abs(statistics.fmean(ratios[i : i + LAUNCHES])) for i in range(max(1, len(found) - LAUNCHES + 1))
        ]
        results.append(
            Result(
                "by-hand-twice",
                f"{size} B over {what}, two copies of hand-written loops, {len(found)} starts",
                shown([one.ours_ns for one in found], 1, " ns"),
                shown([one.peer_ns for one in found], 1, " ns"),
                f"half within {statistics.median(apart):.2%}, all within {apart[-1]:.2%}; of the means of "
                f"{LAUNCHES} half within {statistics.median(together):.2%}",
                "none",
                True,
            )
        )
    return results


def of_the_best_way(lines: list[list[float]]) -> float:
    ways: list[float] = [statistics.median(way) for way in zip(*lines, strict=True)]
    return min(ways)


def shm_floor(rounds: int) -> list[Result]:
    """A ping-pong through shared memory, beside a flag that is bounced and carries nothing."""
    peer = by_hand("shm_bounce", "--bytes", "8", speed=of_the_best_way)
    what = "8 B over shm / bare flag bounce"
    return [compared("shm-floor", what, rounds, netpipe("shm", 8), peer, at_most(1.3))]


def shm_copy(rounds: int) -> list[Result]:
    """Against one copy between the two processes, by hand, and against one within a process, whose data need not change
    hands: where two cores share no cache that is another thing.
    """
    results = []
    for size in (1 << 20, 2 << 20, 4 << 20, 8 << 20):
        for peer, what, target in (
            (by_hand("shm_copy", "--bytes", str(size)), "one memcpy between the processes", NEARLY_AS_FAST),
            (netpipe("memcpy", size), "one memcpy within a process", ONLY_SAID),
        ):
            found = beside(min(rounds, 8), netpipe("shm", size), peer)
            ratios = [1 / one.ratio for one in found]
            results.append(
                Result(
                    "shm-copy",
                    f"{size >> 20} MiB: shm / {what}, rate",
                    shown([size / one.ours_ns for one in found], 2, " GB/s"),
                    shown([size / one.peer_ns for one in found], 2, " GB/s"),
                    shown(ratios),
                    target.target,
                    *target.judged(*interval(ratios)),
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
    """What the worker takes beyond its buffers for a full curve."""
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


def shm_put(rounds: int) -> list[Result]:
    """A put into memory that two processes share is one memcpy and one fence instruction."""
    results = []
    for size, text in ((8, "8 B"), (1 << 20, "1 MiB")):
        ours, peer = netpipe("shm", size, "put"), netpipe("memcpy", size, "put")
        what = f"put, {text}: shm / memcpy within a process"
        results.append(compared("shm-put", what, rounds, ours, peer, within(0.02) if size > 8 else SAID))
    return results


COMPARISONS = {
    "harness-tcp": harness_tcp,
    "harness-shm": harness_shm,
    "by-hand-twice": by_hand_twice,
    "shm-floor": shm_floor,
    "shm-copy": shm_copy,
    "shm-put": shm_put,
    "honesty": honesty,
    "memory": memory,
}
