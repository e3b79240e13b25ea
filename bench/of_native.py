# SPDX-License-Identifier: Apache-2.0
"""The layers of one host beside the least that anybody could write by hand."""

from __future__ import annotations

import statistics

from measured import Result, built, in_turn, interval, points, shown, worker


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


COMPARISONS = {
    "harness-tcp": harness_tcp,
    "harness-shm": harness_shm,
    "shm-floor": shm_floor,
    "shm-copy": shm_copy,
    "shm-put": shm_put,
    "honesty": honesty,
    "memory": memory,
}
