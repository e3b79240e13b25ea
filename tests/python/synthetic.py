# SPDX-License-Identifier: Apache-2.0
"""Runs made up for the tests of analysis and pictures: shaped like real ones, the same every time, nothing
measured.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from netpipe.findings.examples import point
from netpipe.records import (
    Buffers,
    Cell,
    End,
    Environment,
    Header,
    Histogram,
    Launch,
    Measure,
    Plan,
    PlannedMode,
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
            weight = 1 / (1 + (until / max(size_bytes, 1)) ** 3)
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


def histogram(median_ns: float, draw: random.Random, count: int = 4_000) -> Histogram:
    """Log buckets of one percent, with a tail and a second mode."""

    def value() -> float:
        slow = draw.random()
        return median_ns * draw.lognormvariate(0, 0.03) * (1 if slow < 0.93 else 1.45 if slow < 0.99 else 4)

    return bucketed([value() for _ in range(count)])


def bucketed(values: Sequence[float], resolution: float = 0.01) -> Histogram:
    buckets: dict[int, int] = {}
    for value in values:
        bucket = math.floor(math.log(value) / math.log1p(resolution))
        buckets[bucket] = buckets.get(bucket, 0) + 1
    return Histogram(
        resolution=resolution,
        low_ns=[math.exp(bucket * math.log1p(resolution)) for bucket in sorted(buckets)],
        count=[buckets[bucket] for bucket in sorted(buckets)],
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


# ------------------------------------------------------------------------------------------------ other patterns


def mode(pattern: str, **defaults: str) -> PlannedMode:
    """A pattern as the plan has it: `defaults` of the options that its name does not set."""
    name, _, settings = pattern.partition(":")
    given = dict(setting.partition("=")[::2] for setting in settings.split(",") if setting)
    return PlannedMode(pattern=pattern, name=name, options=defaults | given)


def measure(name: str, unit: str, median: float | None, half_width: float | None = 0.02) -> Measure:
    if median is None or half_width is None:
        return Measure(name=name, unit=unit, median=median)
    return Measure(
        name=name, unit=unit, median=median, low=median * (1 - half_width), high=median * (1 + half_width)
    )


def ranks(
    nranks: int, time_ns: float, slow: int | None = None, times: float = 1.4, share: float = 0.87
) -> list[Cell]:
    """Cells of so many ranks, one of which may be slow."""
    return _cells([(rank, None) for rank in range(nranks)], time_ns, slow, times, share)


def pairs(
    nranks: int, time_ns: float, slow: int | None = None, times: float = 1.4, share: float = 0.87
) -> list[Cell]:
    """Cells of all pairs of so many ranks; `slow` is a place in their list."""
    return _cells([(a, b) for a in range(nranks) for b in range(a + 1, nranks)], time_ns, slow, times, share)


def _cells(
    who: Sequence[tuple[int, int | None]], time_ns: float, slow: int | None, times: float, share: float
) -> list[Cell]:
    samples = 1000
    chance = round(samples / len(who)) if slow is None else round(samples * (1 - share) / (len(who) - 1))
    return [
        Cell(
            rank=rank,
            peer=peer,
            median_ns=time_ns * (times if place == slow else 1 + 0.01 * (place % 3)),
            slowest=round(samples * share) if place == slow else chance,
        )
        for place, (rank, peer) in enumerate(who)
    ]


def patterned(
    sizes: Sequence[int] = (8, 1 << 10, 64 << 10, 1 << 20), layers: Sequence[Layer] = LAYERS[2:6:3]
) -> Run:
    """A run of two layers with everything that patterns can say: measures, ranks, pairs, sweeps, several modes, and
    times that are no time of a message.
    """
    whole = run(layers, sizes)
    draw = random.Random(5)
    plan = whole.plans[0]
    plan.modes = [mode("pingpong", send_offset="0"), mode("overlap"), mode("overhead"), mode("pairs")]
    plan.modes += [mode("collective", what="allreduce"), mode("collective:what=barrier", what="allreduce")]
    plan.modes += [
        mode("window" if n == 16 else f"window:in_flight={n}", in_flight="16") for n in (1, 4, 16, 64)
    ]
    plan.modes += [mode(f"pingpong:send_offset={n}", send_offset="0") for n in range(8, 65, 8)]
    plan.modes += [mode(f"offered:rate={n}", rate="50") for n in (10, 30, 50, 70, 90, 95)]
    plan.patterns = [one.pattern for one in plan.modes]
    for layer in layers:
        for size in sizes:
            time = layer.time_ns(size)
            for one in plan.modes[1:]:
                if one.name == "collective" and "barrier" in one.pattern and size != sizes[0]:
                    continue
                whole.points.append(_patterned(layer.name, one, size, time, draw))
    return whole


def _patterned(variant: str, one: PlannedMode, size: int, time: float, draw: random.Random) -> Point:
    more: dict[str, object] = {"single": True, "ops": 1}
    second = 0.0  # mode, its share
    if one.name == "overlap":
        hidden = 1 - 1 / (1 + size / 4096)
        more["measures"] = [
            measure("overlap", "1", hidden),
            measure("computed", "ns", time * 1.5),
            measure("tested", "1/s", 2.5e6, None),
            measure("unknown", "ns", None),
        ]
    elif one.name == "overhead":
        more |= {
            "bytes_per_s": None,
            "measures": [measure("send", "ns", 180.0), measure("receive", "ns", 95.0)],
        }
    elif one.name == "pairs":
        time *= 2.5
        more |= {"cells": pairs(4, time, 2), "measures": [measure("one_pair", "bytes/s", size / time * 1e9)]}
    elif one.name == "collective":
        time *= 3
        more |= {
            "bytes_per_s": None if "barrier" in one.pattern else size / time * 1e9,
            "cells": ranks(4, time, 3 if size < 1 << 16 else None),
            "measures": [measure("start_skew", "ns", 43.0), measure("clock_error", "ns", 0.0, None)],
        }
    elif one.name == "window":
        time /= 1 + math.log2(float(one.options["in_flight"]))
        more |= {"single": False, "ops": 128}
    elif one.name == "offered":
        load = float(one.options["rate"]) / 100
        time *= 1 + load**2 / (2 * (1 - load))
        more |= {f"p{name}_ns": time * (1 + tail * load) for name, tail in
                 (("90", 1), ("99", 3), ("999", 8), ("9999", 20))}  # fmt: skip
        second = load / 3
    elif one.name == "pingpong":
        time *= 1 if int(one.options["send_offset"]) % 64 == 0 else 1.12
    values = [
        time * draw.lognormvariate(0, 0.03) * (2.2 if draw.random() < second else 1) for _ in range(1000)
    ]
    more["histogram"] = bucketed(values)
    return point(variant, size, time, **({"pattern": one.pattern} | more))
