# SPDX-License-Identifier: Apache-2.0
"""A dip: the throughput falls at a threshold and comes back for larger messages.

Where the layer has a setting for its eager limit, `eager-limit` says the same of that limit.
"""

from __future__ import annotations

from collections.abc import Iterator

from netpipe.findings import NOTE, CannotJudge, Finding, Quantity, examples, quantity, rule
from netpipe.findings.curves import eager_limit, odd_sizes, segment_step
from netpipe.findings.curves.thresholds import back_at
from netpipe.reading import Reading
from netpipe.reading.blocks.steps import Step
from netpipe.records import Run
from netpipe.units import percent_text, size_text


@rule("dip", "A dip", needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires at a step up at which the throughput certainly falls by a tenth, if it comes back at a larger size."""
    if not any(point.visits for point in reading.run.points):
        raise CannotJudge("the run did not record its visits")
    for step, back in _dips(reading):
        kept = step.above_bytes / step.below_bytes / step.times.value
        yield Finding(
            severity=NOTE,
            variant=step.variant,
            pattern=step.pattern,
            size_bytes=step.above_bytes,
            what=f"{step.variant} {step.pattern}: the throughput falls to {percent_text(kept)} from "
            f"{step.below_bytes} to {step.above_bytes} bytes, and is back at {size_text(back)}.",
            evidence={
                "times": quantity(step.times, "1"),
                "kept": Quantity(kept, "1"),
                "back": Quantity(back, "bytes"),
            },
            certainty="All steps of the curve together are certain to 95 %.",
            cause="The layer begins something there that costs the same for every message, such as a handshake, and "
            "only larger messages repay it.",
            remedy=f"messages of at most {step.below_bytes} bytes, or of {size_text(back)} and more",
        )


def steps_of(reading: Reading) -> tuple[Step, ...]:
    """Those at which a dip begins."""
    return tuple(step for step, _ in _dips(reading))


def _dips(reading: Reading) -> Iterator[tuple[Step, int]]:
    """Each such step with the size at which the throughput is back."""
    others = {id(step) for step in (*eager_limit.steps_of(reading), *segment_step.steps_of(reading))}
    spikes = odd_sizes.valleys(reading)
    for step in reading.steps:
        if id(step) not in others and (step.variant, step.pattern) not in spikes:
            back = back_at(reading, step)
            if back is not None:
                yield step, back


def _run(last_ns: float) -> Run:
    sizes = ((4096, 1000.0), (4277, 1400.0), (8192, last_ns))
    return examples.run(
        *(examples.visited("tcp", size, ns, launch) for launch in range(4) for size, ns in sizes)
    )


def fires() -> Run:
    return _run(1700.0)


def silent() -> Run:
    return _run(2800.0)  # it stays as slow
