# SPDX-License-Identifier: Apache-2.0
"""A layer that copies memory falls off where a message no longer fits into a cache of the processor."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from netpipe.findings import CURVES, NOTE, CannotJudge, Finding, Quantity, examples, quantity, rule
from netpipe.findings.curves import Opened, opened
from netpipe.findings.machine import Facts
from netpipe.reading import Reading
from netpipe.reading.estimate import Estimate, ratio
from netpipe.records import Environment, PlannedVariant, Rank, Run
from netpipe.units import digits, rate_text, size_text

COPIES = ("memcpy",)  # the layer that does nothing else
INSIDE = (1 / 16, 1 / 4)  # of a cache: both ends of a message are in it, with room for others
OUTSIDE = (1, 8)
FALLS = 1.5  # times: less is not worth a word


@rule("cache-cliff", "Out of a cache", about=CURVES, needs=("environment",), brief=False)
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires where the best rate of messages that fit into a cache is 1.5 times as high as the lowest rate of messages
    that do not, with certainty. Of several caches the one with the largest fall.
    """
    caches = _caches(reading)
    if not caches:
        raise CannotJudge("no host recorded the caches of its processors")
    copies = [one for one in opened(reading) if one.module in COPIES]
    if not copies:
        raise CannotJudge(f"no layer that only copies memory was measured (netpipe run {COPIES[0]})")
    if not any(_places(one, bytes_) for one in copies for bytes_ in caches.values()):
        raise CannotJudge(f"{COPIES[0]} has no sizes with an interval both inside and outside of a cache")
    for one in copies:
        found = [
            (falls, level, bytes_, inside, outside)
            for level, bytes_ in caches.items()
            if (fall := _fall(one, bytes_)) is not None
            for falls, inside, outside in [fall]
        ]
        if not found:
            continue
        falls, level, bytes_, inside, outside = max(found, key=lambda each: each[0].low)
        yield Finding(
            severity=NOTE,
            variant=one.curve.variant,
            pattern=one.curve.pattern,
            size_bytes=outside[0],
            what=f"{one.curve.variant} falls from {rate_text(inside[1].value)} at {size_text(inside[0])} to "
            f"{rate_text(outside[1].value)} at {size_text(outside[0])}, where a message no longer fits into the level "
            f"{level} cache of {size_text(bytes_)}.",
            evidence={"falls": quantity(falls, "1"), "cache": Quantity(bytes_, "bytes")},
            certainty="The intervals of the two rates do not meet.",
            cause=f"Beyond it each byte comes from farther away: {digits(falls.value)} times as slowly.",
            remedy="work on parts of a message that fit into the cache; compare layers with --buffers cold, which no "
            "cache helps",
        )


def _caches(reading: Reading) -> dict[int, int]:
    """Level -> bytes of the data cache of one processor, of the first host."""
    for environment in reading.run.environments:
        found: dict[int, int] = {}
        for cache in Facts(environment.facts).value("cpu.caches") or []:
            facts = Facts(cache if isinstance(cache, dict) else {})
            level, bytes_ = facts.number("level"), facts.number("size_bytes")
            if level and bytes_ and facts.text("type") != "Instruction":
                found.setdefault(int(level), int(bytes_))
        if found:
            return found
    return {}


Place = tuple[int, Estimate]


def _places(one: Opened, cache: int) -> tuple[list[Place], list[Place]] | None:
    """The sizes with their rates that are inside of a cache (bytes), and those outside; None where either lacks."""
    rates = [
        (at.size_bytes, at.rate_bytes_per_s) for at in one.curve.points if at.rate_bytes_per_s is not None
    ]

    def of(limits: tuple[float, float]) -> list[Place]:
        low, high = (limit * cache for limit in limits)
        return [(size, rate) for size, rate in rates if low <= size <= high and rate.known]

    inside, outside = of(INSIDE), of(OUTSIDE)
    return (inside, outside) if inside and outside else None


def _fall(one: Opened, cache: int) -> tuple[Estimate, Place, Place] | None:
    """How many times as fast messages inside of a cache are as those outside, and where."""
    places = _places(one, cache)
    if places is None:
        return None
    inside, outside = places
    best, worst = max(inside, key=lambda at: at[1].low), min(outside, key=lambda at: at[1].high)
    falls = ratio(best[1], worst[1])
    return (falls, best, worst) if best[1].low > FALLS * worst[1].high else None


def _run(falls: float) -> Run:
    caches = [{"level": 2, "type": "Unified", "size_bytes": 1 << 20}]
    made = examples.run(
        Environment(host="node17", facts={"cpu": {"caches": caches}}),
        *(
            examples.point("memcpy", size, size / 40 * (falls if size > 1 << 20 else 1))
            for size in (8, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 23)
        ),
        variants=("memcpy",),
    )
    planned = PlannedVariant(variant="memcpy", module="memcpy", options={})
    made.plans[:] = [msgspec.structs.replace(plan, variants=[planned]) for plan in made.plans]
    for variant in made.variants:
        variant.ranks[:] = [Rank(rank=0, host="node17", settings={})]
    return made


def fires() -> Run:
    return _run(3.0)


def silent() -> Run:
    return _run(1.2)
