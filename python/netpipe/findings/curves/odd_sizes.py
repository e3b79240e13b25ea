# SPDX-License-Identifier: Apache-2.0
"""Sizes that are a multiple of a word are fast, and those beside them are slow: the spikes of the 2003 paper, where a
copy routine took messages whose size is not divisible by four byte by byte.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import msgspec

from netpipe.findings import (
    CURVES,
    WARNING,
    CannotJudge,
    Confirm,
    Finding,
    Quantity,
    examples,
    quantity,
    rule,
)
from netpipe.findings.curves import Opened, opened, variant_with
from netpipe.reading import Reading
from netpipe.reading.blocks.steps import Step
from netpipe.records import PlannedVariant, Rank, Run
from netpipe.units import counted, digits, size_text

WORDS = (64, 32, 16, 8, 4)  # bytes, the largest first
LEAST_VALLEYS = 3  # one may be a threshold between two sizes
ROUTINE, USUAL = "routine", "glibc"  # the setting of memcpy, and its default


@dataclass(frozen=True, slots=True)
class Valley:
    """A size that is faster than both of its neighbours, which lie within a few bytes."""

    size_bytes: int
    into: Step  # from the size below
    out: Step  # to the size above

    @property
    def times(self) -> float:
        """How many times as long the neighbours take."""
        return math.sqrt(self.out.times.value / self.into.times.value)


@rule("odd-sizes", "Spikes at odd sizes", about=CURVES, needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires where at least three sizes that are a multiple of a word are faster than the size below and the size above,
    each with certainty. Needs a schedule that visits sizes beside others (`--schedule classic`).
    """
    if not any(_has_neighbours(curve.points.size.tolist()) for curve in reading.curves):
        raise CannotJudge(
            "no curve visited sizes within a few bytes of each other (netpipe run --schedule classic)"
        )
    of = {(one.curve.variant, one.curve.pattern): one for one in opened(reading)}
    for (variant, pattern), found in valleys(reading).items():
        worst = max(found, key=lambda valley: min(valley.out.times.low, 1 / valley.into.times.high))
        word = next((word for word in WORDS if all(one.size_bytes % word == 0 for one in found)), 1)
        confirm = _confirm(reading, of.get((variant, pattern)), worst.out.above_bytes)
        typical = median(one.times for one in found)
        yield Finding(
            severity=WARNING,
            variant=variant,
            pattern=pattern,
            size_bytes=worst.out.above_bytes,
            what=f"{variant} {pattern}: at {counted(len(found), 'size')} a message that is a few bytes shorter or "
            f"longer than a multiple of {word} bytes takes {digits(typical)} times as long, such as "
            f"{worst.out.above_bytes} bytes against {size_text(worst.size_bytes)}.",
            evidence={
                "times": quantity(worst.out.times, "1"),
                "typical": Quantity(typical, "1"),
                "sizes": Quantity(len(found), "sizes"),
                "word": Quantity(word, "bytes"),
            },
            certainty="All steps of the curve together are certain to 95 %.",
            cause="The copy, or the layer below, handles whole words and takes the rest of a message byte by byte, or "
            "a size off a boundary touches one cache line more.",
            remedy=f"pad messages to a multiple of {max(word, 4)} bytes"
            + (f", or copy with {ROUTINE}={USUAL}" if confirm else ""),
            gain=quantity(worst.out.times, "1"),
            confirm=confirm,
        )


def valleys(reading: Reading) -> dict[tuple[str, str], list[Valley]]:
    """Those of each curve that has enough of them."""
    found: dict[tuple[str, str], list[Valley]] = {}
    for into, out in pairwise(reading.steps):
        if (into.variant, into.pattern, into.above_bytes) != (out.variant, out.pattern, out.below_bytes):
            continue
        if into.times.high < 1 < out.times.low and into.above_bytes % WORDS[-1] == 0:
            valley = Valley(into.above_bytes, into, out)
            found.setdefault((into.variant, into.pattern), []).append(valley)
    return {name: those for name, those in found.items() if len(those) >= LEAST_VALLEYS}


def _has_neighbours(sizes: list[int]) -> bool:
    return any(above - below <= WORDS[-1] for below, above in pairwise(sizes) if below >= WORDS[0])


def _confirm(reading: Reading, one: Opened | None, size: int) -> Confirm | None:
    if one is None or one.options.get(ROUTINE, USUAL) == USUAL:
        return None
    return Confirm(one.curve.variant, variant_with(reading, one, ROUTINE, USUAL), one.curve.pattern, [size])


def _run(times: float) -> Run:
    sizes = [size + by for size in (128, 256, 512, 1024) for by in (-3, 0, 3)]
    points = [
        examples.visited("memcpy:routine=word4", size, 100.0 * (times if size % 4 else 1), launch)
        for launch in range(4)
        for size in sizes
    ]
    made = examples.run(*points, variants=("memcpy:routine=word4",))
    planned = PlannedVariant(variant="memcpy:routine=word4", module="memcpy", options={"routine": "word4"})
    made.plans[:] = [msgspec.structs.replace(plan, variants=[planned]) for plan in made.plans]
    for variant in made.variants:
        variant.ranks[:] = [Rank(rank=0, settings={})]
    return made


def fires() -> Run:
    return _run(3.0)


def silent() -> Run:
    return _run(1.01)
