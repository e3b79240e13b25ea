# SPDX-License-Identifier: Apache-2.0
"""A curve steps: a message that is a little longer takes much longer, or less. reading/blocks/steps.py has the test."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from netpipe.findings import NOTE, CannotJudge, Finding, Quantity, examples, rule
from netpipe.findings.curves import eager_limit, odd_sizes, segment_step
from netpipe.findings.curves.thresholds import dip, late_switch
from netpipe.reading import Reading
from netpipe.reading.blocks.steps import Step, nearest_power
from netpipe.records import Run
from netpipe.units import digits, size_text


@rule("step", "A threshold", needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """One finding for each step of each curve."""
    if not any(point.visits for point in reading.run.points):
        raise CannotJudge("the run did not record its visits")
    explained = _explained(reading)
    for step in reading.steps:
        if id(step) in explained:
            continue
        yield Finding(
            severity=NOTE,
            variant=step.variant,
            pattern=step.pattern,
            size_bytes=step.above_bytes,
            what=f"{step.variant} {step.pattern}: {_sentence(step)}",
            evidence={
                "below": Quantity(step.below_bytes, "bytes"),
                "above": Quantity(step.above_bytes, "bytes"),
                "times": Quantity(step.times.value, "1", step.times.low, step.times.high),
            },
            certainty="All steps of the curve together are certain to 95 %.",
            cause="The layer does something else from here on: another protocol (eager, rendezvous), another way "
            "of copying, or a cache that no longer holds the message.",
            remedy="see which setting moves the threshold (netpipe list), and measure with another value of it"
            + _closer(step),
        )


def _explained(reading: Reading) -> set[int]:
    """Steps of which another rule says more."""
    spikes = odd_sizes.valleys(reading)
    rough = (step for step in reading.steps if (step.variant, step.pattern) in spikes)
    others = (eager_limit, segment_step, dip, late_switch)
    return {id(step) for step in (*(step for one in others for step in one.steps_of(reading)), *rough)}


def _sentence(step: Step) -> str:
    times = (
        f"{digits(step.times.value)} ({digits(step.times.low)} to {digits(step.times.high)}) times as long"
    )
    power = nearest_power(step)
    near = f", near {size_text(power)}" if power is not None else ""
    return f"{step.above_bytes} bytes take {times} as {step.below_bytes}{near}."


def _closer(step: Step) -> str:
    """The command that finds it to the byte: sizes of less than an octave are looked at closely."""
    if not 1 < step.above_bytes - step.below_bytes < step.below_bytes:
        return ""
    pattern = "" if step.pattern == "pingpong" else f" --pattern {step.pattern}"
    sizes = f"--start {step.below_bytes} --end {step.above_bytes}"
    return f"; to the byte: netpipe run {quote(step.variant)}{pattern} {sizes}"


def fires() -> Run:
    return examples.stepping(1.4)


def silent() -> Run:
    return examples.stepping(1.03)
