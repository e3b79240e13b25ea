# SPDX-License-Identifier: Apache-2.0
"""Runs made up for the tests of analysis and pictures: shaped like real ones, the same every time, nothing
measured.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from netpipe.records import (
    Buffers,
    End,
    Environment,
    Header,
    Histogram,
    Launch,
    Plan,
    PlannedVariant,
    Point,
    Rank,
    Record,
    Run,
    Schedule,
    Variant,
    Yardstick,
)


@dataclass(frozen=True)
class Layer:
    """Latency in ns; rates in bytes per second up to each size, the last one beyond."""

    name: str
    below: str | None
    adds: str | None
    latency_ns: float
    rates: tuple[tuple[float, float], ...]
    wait: str | None = None

    @property
    def module(self) -> str:
        return self.name.split(":")[0]

    def time_ns(self, size_bytes: int) -> float:
        """Moves smoothly (in log size) from one rate to the next."""
        rate = self.rates[0][1]
        for (until, _), (_, following) in zip(self.rates, self.rates[1:], strict=False):
            weight = 1 / (1 + (until / size_bytes) ** 3)
            rate = rate ** (1 - weight) * following**weight
        return self.latency_ns + size_bytes / rate * 1e9


LAYERS = (
    Layer("null", None, None, 1.8, ((1, 1e15),)),
    Layer("memcpy", None, None, 4.2, ((3e4, 9e10), (1.2e6, 4.4e10), (8e6, 2.1e10), (math.inf, 1.1e10))),
    Layer("shm", "memcpy", "another process", 118, ((6e4, 1.6e10), (math.inf, 9.4e9)), "hybrid"),
    Layer("pipe", "shm", "the kernel", 24_800, ((6.5e4, 4.8e9), (math.inf, 2.6e9)), "block"),
    Layer("unix", "pipe", "sockets", 25_900, ((2e5, 5.5e9), (math.inf, 4.1e9)), "block"),
    Layer("tcp", "unix", "TCP/IP", 27_300, ((5e5, 5.1e9), (math.inf, 3.6e9)), "block"),
    Layer("tcp:wait=poll", "unix", "TCP/IP", 5_050, ((5e5, 5.0e9), (math.inf, 3.5e9)), "poll"),
)


def classic_sizes(end_bytes: int = 8 << 20, perturbation_bytes: int = 3) -> list[int]:
    """NetPIPE's sizes (facts: 124 of them up to 8 MiB)."""
    sizes, increment, length, step = [], 1, 1, 0
    while length <= end_bytes:
        if step > 2 and step % 2 == 1:
            increment *= 2
        wide = increment > perturbation_bytes + 1
        sizes += [length + d for d in ((-perturbation_bytes, 0, perturbation_bytes) if wide else (0,))]
        step += 1
        length += increment
    return sizes


def point(
    variant: str, size_bytes: int, median_ns: float, half_width: float = 0.005, **other: object
) -> Point:
    """A point with everything that follows from these."""
    fields: dict[str, object] = {
        "pattern": "pingpong",
        "state": 0,
        "samples": 240,
        "ops": 24_000,
        "low_ns": median_ns * (1 - half_width),
        "high_ns": median_ns * (1 + half_width),
        "half_width": half_width,
        "min_ns": median_ns * 0.96,
        "max_ns": median_ns * 3.1,
        "mean_ns": median_ns * 1.01,
        "p90_ns": median_ns * 1.04,
        "p99_ns": median_ns * 1.3,
        "bytes_per_s": size_bytes / median_ns * 1e9,
        "correlation": 1.6,
        "converged": half_width <= 0.01,
        "stop": "precision" if half_width <= 0.01 else "budget",
        "passes": 6,
        "dropped": 3,
        "other_states": 0,
        "verified_bytes": 0,
    }
    return Point(variant=variant, size_bytes=size_bytes, median_ns=median_ns, **(fields | other))  # type: ignore[arg-type]


def histogram(median_ns: float, draw: random.Random, count: int = 4_000) -> Histogram:
    """Log buckets of one percent, with a tail and a second mode."""
    buckets: dict[int, int] = {}
    for _ in range(count):
        slow = draw.random()
        value = median_ns * draw.lognormvariate(0, 0.03) * (1 if slow < 0.93 else 1.45 if slow < 0.99 else 4)
        bucket = math.floor(math.log(value) / math.log1p(0.01))
        buckets[bucket] = buckets.get(bucket, 0) + 1
    edges = sorted(buckets)
    return Histogram(
        resolution=0.01,
        low_ns=[math.exp(e * math.log1p(0.01)) for e in edges],
        count=[buckets[e] for e in edges],
    )


def run(
    layers: Sequence[Layer] = LAYERS,
    sizes: Sequence[int] | None = None,
    launches: int = 1,
    seed: int = 1,
    moved: bool = False,
    facts: Mapping[str, object] | None = None,
) -> Run:
    """A whole run. `moved`: the cores were moved apart in the middle of it, and the points were taken again."""
    sizes = classic_sizes() if sizes is None else sizes
    draw = random.Random(seed)
    records: list[Record] = [
        Header(
            schema=1,
            run=f"{seed:032x}",
            netpipe="0.1.0",
            started="2026-03-01T12:00:00Z",
            host="node17",
            argv=["netpipe", "run"],
        )
    ]
    for launch in range(launches):
        records += _launch(launch, layers, sizes, draw, moved, dict(facts or FACTS))
    records.append(End(exit=0, reason="done", seconds=27.4 * launches))
    return Run(records)


FACTS: dict[str, object] = {
    "cpu": {"model": "AMD EPYC 9454 48-Core Processor", "cores": 2, "frequency": {"governor": None}},
    "memory": {"total_bytes": 16 << 30},
    "kernel": {"release": "6.18.5", "system": "Linux"},
    "software": {"netpipe": "0.1.0", "distribution": "Debian GNU/Linux 12"},
    "spoilers": [
        {
            "what": "a virtual machine",
            "why": "the hypervisor moves its cores, and latency with them",
            "fix": "measure on the bare machine, or compare within one run only",
            "severity": "high",
        }
    ],
}


def _launch(
    launch: int,
    layers: Sequence[Layer],
    sizes: Sequence[int],
    draw: random.Random,
    moved: bool,
    facts: dict[str, object],
) -> list[Record]:
    records: list[Record] = [
        Plan(
            launch=launch,
            hash="5a" * 32,
            variants=[
                PlannedVariant(
                    variant=layer.name,
                    module=layer.module,
                    options={"wait": layer.wait} if layer.wait else {},
                )
                for layer in layers
            ],
            patterns=["pingpong"],
            schedule=Schedule(kind="classic", start_bytes=1, end_bytes=8 << 20, perturbation_bytes=3),
            sizes=list(sizes),
            buffers=Buffers(policy="warm", pool_bytes=0),
            target=0.01,
            confidence=0.95,
            budget_s=3.5,
            verify=False,
            timeout_s=10,
            seed=1,
            pin=[0, 1],
        )
    ]
    records += [Environment(launch=launch, rank=rank, host="node17", facts=facts) for rank in (0, 1)]
    records += [
        Variant(
            launch=launch,
            variant=layer.name,
            module=layer.module,
            version="glibc 2.36",
            below=layer.below,
            adds=layer.adds,
            ranks=[
                Rank(rank=r, host="node17", cpu=r, settings={"wait": layer.wait} if layer.wait else {})
                for r in (0, 1)
            ],
        )
        for layer in layers
    ]
    for place in range(8):
        away = moved and place in (4, 5)
        records.append(
            Yardstick(
                launch=launch,
                at_s=place * 4.1,
                state=1 if away else 0,
                clock_ns=19.5,
                clock_resolution_ns=1,
                bounce_ns=(278 if away else 54) * draw.lognormvariate(0, 0.02),
                copy_bytes_per_s=1.12e10 * draw.lognormvariate(0, 0.02),
                wakeup_ns=24_000 * draw.lognormvariate(0, 0.1),
            )
        )
    drift = draw.lognormvariate(0, 0.01)
    for layer in layers:
        for size in sizes:
            median = layer.time_ns(size) * draw.lognormvariate(0, 0.004) * drift
            width = draw.uniform(0.025, 0.06) if draw.random() < 0.05 else draw.uniform(0.003, 0.0098)
            records.append(
                point(
                    layer.name,
                    size,
                    median,
                    width,
                    launch=launch,
                    single=median > 400,
                    histogram=histogram(median, draw, 400) if median > 400 else None,
                    other_states=40 if moved and draw.random() < 0.04 else 0,
                )
            )
    records.append(
        Launch(
            launch=launch, seconds=27.4, passes=7, rss_bytes=41 << 20, buffer_bytes=32 << 20, states=1 + moved
        )
    )
    return records
