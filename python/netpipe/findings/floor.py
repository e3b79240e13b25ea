# SPDX-License-Identifier: Apache-2.0
"""How much of a layer's time is netpipe itself. An idle module moves nothing: the time that it takes, the loop, the
calls through the module's table and the clock take in every layer too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from netpipe.findings import NOTE, CannotJudge, Finding, Quantity, examples, quantity, rule
from netpipe.reading import Reading
from netpipe.reading.estimate import Estimate, ratio, unsure
from netpipe.records import Run
from netpipe.units import percent_text, size_text, time_text

NOTABLE = 0.1  # of the time; a smaller share is not reported


@dataclass(frozen=True, slots=True)
class Floor:
    """The floor under one curve, at the size where its share is the largest."""

    variant: str
    pattern: str
    size_bytes: int
    floor_ns: float  # per operation
    share: float  # of the time
    share_interval: Estimate
    to_bytes: int | None  # the largest size at which the share is notable; None: nowhere


def floors(reading: Reading) -> tuple[Floor, ...]:
    """One for each curve whose pattern was measured with an idle module too."""
    ground = {
        (curve.pattern, point.size_bytes): point.time_ns
        for curve in reading.curves
        if reading.is_idle(curve.variant)
        for point in curve.points
    }
    made = []
    for curve in reading.curves if ground else ():
        if reading.is_idle(curve.variant):
            continue
        both = [
            (ground[curve.pattern, point.size_bytes], point)
            for point in curve.points
            if (curve.pattern, point.size_bytes) in ground and point.time_ns.value > 0
        ]
        if not both:
            continue
        shares = [(floor.value / point.time_ns.value, point.size_bytes) for floor, point in both]
        share, size_bytes = max(shares)
        floor, time = next((floor, point.time_ns) for floor, point in both if point.size_bytes == size_bytes)
        made.append(
            Floor(
                variant=curve.variant,
                pattern=curve.pattern,
                size_bytes=size_bytes,
                floor_ns=floor.value,
                share=share,
                share_interval=ratio(floor, time) if min(floor.low, time.low) > 0 else unsure(share),
                to_bytes=max((size for one, size in shares if one > NOTABLE), default=None),
            )
        )
    return tuple(made)


@rule("harness-floor", "Harness floor", needs=("points", "idle"))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires for curves of which the harness takes more than a tenth at any size."""
    found = floors(reading)
    if not found:
        raise CannotJudge("no layer was measured at a size and with a pattern of the idle module")
    for floor in found:
        if floor.to_bytes is None:
            continue
        yield Finding(
            severity=NOTE,
            variant=floor.variant,
            pattern=floor.pattern,
            size_bytes=floor.size_bytes,
            what=(
                f"{floor.variant} ({floor.pattern}): up to {size_text(floor.to_bytes)}, netpipe itself takes more than "
                f"{percent_text(NOTABLE)} of the time ({time_text(floor.floor_ns)}), at most "
                f"{percent_text(floor.share)}."
            ),
            evidence={
                "floor": Quantity(floor.floor_ns, "ns"),
                "share": quantity(floor.share_interval, "1"),
                "up_to": Quantity(floor.to_bytes, "bytes"),
            },
            certainty="The share is a ratio of two medians, with its 95 % interval if both have one.",
            cause="The layer is so fast that the measuring loop and the clock show.",
        )


def _beside_null(time_ns: float) -> Run:
    return examples.run(
        examples.point("null", 8, 2.0), examples.point("shm", 8, time_ns), variants=["null", "shm"]
    )


def fires() -> Run:
    return _beside_null(10.0)


def silent() -> Run:
    return _beside_null(100.0)
