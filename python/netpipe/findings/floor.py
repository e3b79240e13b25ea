# SPDX-License-Identifier: Apache-2.0
"""How much of a layer's time is netpipe itself. An idle module moves nothing: the time that it takes, the loop, the
calls through the module's table and the clock take in every layer too. Where both were measured back to back, the share
is that within their blocks, as it is of any two curves; else it is that of the two medians.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from netpipe.findings import NOTE, CannotJudge, Finding, Quantity, examples, quantity, rule
from netpipe.reading import Reading
from netpipe.reading.curves import Curve
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
    idle = [curve for curve in reading.curves if reading.is_idle(curve.variant)]
    made = []
    for curve in reading.curves if idle else ():
        if reading.is_idle(curve.variant):
            continue
        both = _shares(reading, curve, [one for one in idle if one.pattern == curve.pattern])
        if not both:
            continue
        size_bytes = max(both, key=lambda size: (both[size][1].value, size))
        floor, share = both[size_bytes]
        made.append(
            Floor(
                variant=curve.variant,
                pattern=curve.pattern,
                size_bytes=size_bytes,
                floor_ns=floor.value,
                share=share.value,
                share_interval=share,
                to_bytes=max((size for size, (_, one) in both.items() if one.value > NOTABLE), default=None),
            )
        )
    return tuple(made)


def _shares(reading: Reading, curve: Curve, grounds: Sequence[Curve]) -> dict[int, tuple[Estimate, Estimate]]:
    """By size the time of the idle module, and its share of the time of a curve."""
    found: dict[int, tuple[Estimate, Estimate]] = {}
    for ground in grounds:
        floors = {point.size_bytes: point.time_ns for point in ground.points}
        by_blocks = reading.ratios_of((ground.variant, ground.pattern), (curve.variant, curve.pattern))
        for size, time in ((point.size_bytes, point.time_ns) for point in curve.points):
            floor = floors.get(size)
            if floor is None or time.value <= 0:
                continue
            if size in by_blocks:
                found[size] = floor, by_blocks[size]
            else:
                sure = min(floor.low, time.low) > 0
                found.setdefault(
                    size, (floor, ratio(floor, time) if sure else unsure(floor.value / time.value))
                )
    return found


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
            certainty="The share is that of times measured back to back, or of two medians in a run without blocks. It "
            "has its 95 % interval where there is one.",
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
