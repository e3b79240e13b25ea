# SPDX-License-Identifier: Apache-2.0
"""Builders of made-up runs, for the examples of the rules and for tests. Nothing is measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from netpipe.records import (
    End,
    Environment,
    Header,
    Histogram,
    Launch,
    Measure,
    Plan,
    PlannedVariant,
    Point,
    Rank,
    Record,
    Run,
    Variant,
    Visits,
    Yardstick,
)

VARIANTS = ("tcp",)


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


def measure(name: str, unit: str, median: float, half_width: float = 0.02) -> Measure:
    return Measure(
        name=name, unit=unit, median=median, low=median * (1 - half_width), high=median * (1 + half_width)
    )


def yardstick(at_s: float, state: int = 0, bounce_ns: float = 54, launch: int = 0) -> Yardstick:
    return Yardstick(
        launch=launch,
        at_s=at_s,
        state=state,
        clock_ns=19.5,
        clock_resolution_ns=1,
        bounce_ns=bounce_ns,
        copy_bytes_per_s=1.1e10,
        wakeup_ns=24_000,
    )


def histogram(modes: Mapping[float, int]) -> Histogram:
    """So many samples around each of these times (ns), in buckets of 1 %."""
    counts: dict[float, int] = {}
    for at_ns, count in modes.items():
        for step, share in ((-2, 0.1), (-1, 0.2), (0, 0.4), (1, 0.2), (2, 0.1)):
            counts[at_ns * 1.01**step] = round(count * share)
    return Histogram(resolution=0.01, low_ns=sorted(counts), count=[counts[low] for low in sorted(counts)])


def run(
    *records: Record,
    variants: Sequence[str] = VARIANTS,
    stack: Mapping[str, str] | None = None,
    waits: Mapping[str, str] | None = None,
    ended: bool = True,
) -> Run:
    """A whole run around these records. `stack` is module -> module below; `waits` is variant -> how it waits."""
    launches = sorted({0, *(record.launch for record in records if isinstance(record, Point))})
    around: list[Record] = [
        Header(schema=1, run="0" * 32, host="node17", argv=["netpipe", "run", *variants]),
        *(_plan(launch, variants, waits or {}) for launch in launches),
        *(
            Variant(
                launch=launch,
                variant=variant,
                module=_module(variant),
                below=(stack or {}).get(_module(variant)),
            )
            for launch in launches
            for variant in variants
        ),
        *records,
        *(Launch(launch=launch, seconds=1.0) for launch in launches),
    ]
    return Run([*around, End(exit=0, reason="done", seconds=1.0)] if ended else around)


def _plan(launch: int, variants: Sequence[str], waits: Mapping[str, str]) -> Plan:
    planned = [
        PlannedVariant(
            variant=variant,
            module=_module(variant),
            options={"wait": waits[variant]} if variant in waits else {},
        )
        for variant in variants
    ]
    return Plan(launch=launch, variants=planned, patterns=["pingpong"], target=0.01)


def _module(variant: str) -> str:
    return variant.partition(":")[0]


def with_facts(facts: Mapping[str, Any]) -> Run:
    """A run on a host with these facts, named with dots: {"cpu.frequency.governor": "powersave"}."""
    nested: dict[str, Any] = {}
    for path, value in facts.items():
        *groups, name = path.split(".")
        inside = nested
        for group in groups:
            inside = inside.setdefault(group, {})
        inside[name] = value
    return run(Environment(host="node17", facts=nested), point("tcp", 8, 1000.0))


def visited(variant: str, size_bytes: int, median_ns: float, launch: int = 0) -> Point:
    """A point of a launch with nine visits, which wander a little as those of a real run do."""
    medians = [median_ns * math.exp(0.01 * (place % 3 - 1) + 0.02 * launch) for place in range(9)]
    visits = Visits(
        block=list(range(9)),
        at_s=[float(place) for place in range(9)],
        state=[0] * 9,
        samples=[9] * 9,
        median_ns=medians,
    )
    made = point(variant, size_bytes, medians[1], launch=launch)
    return msgspec.structs.replace(made, visits=visits)


def stepping(times: float) -> Run:
    """A run with one curve, in which 4277 bytes take so many times as long as 4096."""
    sizes = ((4096, 1000.0), (4277, 1000.0 * times))
    return run(*(visited("tcp", size, ns, launch) for launch in range(4) for size, ns in sizes))


def stepping_at_limit(times: float) -> Run:
    """The same, of a layer with a setting for its eager limit, which was left alone."""
    made = stepping(times)
    for plan in made.plans:
        plan.variants[:] = [msgspec.structs.replace(one, options={"eager": "0"}) for one in plan.variants]
    for variant in made.variants:
        variant.ranks[:] = [Rank(rank=0, settings={})]
    return made
