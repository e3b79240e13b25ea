# SPDX-License-Identifier: Apache-2.0
"""A curve steps: a message that is a little longer takes much longer, or less. reading/blocks/steps.py has the test."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from shlex import quote

from netpipe.findings import NOTE, CannotJudge, Finding, Quantity, examples, rule
from netpipe.findings.curves import eager_limit, odd_sizes, segment_step
from netpipe.findings.curves.thresholds import dip, late_switch
from netpipe.reading import Reading
from netpipe.reading.blocks.steps import Step, nearest_power
from netpipe.reading.estimate import Estimate
from netpipe.records import Run
from netpipe.units import digits, size_text


@rule("step", "A threshold", needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """One finding for each step of each curve; steps of one direction that follow on each other are one."""
    if not any(point.visits for point in reading.run.points):
        raise CannotJudge("the run did not record its visits")
    explained = _explained(reading)
    inline = {one.variant: one.promises.max_inline_bytes for one in reading.run.variants if one.promises}
    for steps in _in_a_row([step for step in reading.steps if id(step) not in explained]):
        first, whole = steps[0], _whole(steps)
        yield Finding(
            severity=NOTE,
            variant=first.variant,
            pattern=first.pattern,
            size_bytes=first.above_bytes,
            what=f"{first.variant} {first.pattern}: {_sentence(whole, len(steps))}",
            evidence={
                "below": Quantity(whole.below_bytes, "bytes"),
                "above": Quantity(whole.above_bytes, "bytes"),
                "times": Quantity(whole.times.value, "1", whole.times.low, whole.times.high),
            },
            certainty="All steps of the curve together are certain to 95 %.",
            cause=_cause(whole, inline.get(first.variant, 0)),
            remedy="see which setting moves the threshold (netpipe list), and measure with another value of it"
            + (_closer(first) if len(steps) == 1 else ""),
        )


def _cause(step: Step, inline_bytes: int) -> str:
    if step.below_bytes <= inline_bytes < step.above_bytes:
        return (
            f"Messages of up to {size_text(inline_bytes)} travel inside their request; of a longer one the device or "
            "the library fetches the bytes."
        )
    return (
        "The layer does something else from here on: another protocol (eager, rendezvous), another way of copying, "
        "or a cache that no longer holds the message."
    )


def _explained(reading: Reading) -> set[int]:
    """Steps of which another rule says more."""
    spikes = odd_sizes.valleys(reading)
    rough = (step for step in reading.steps if (step.variant, step.pattern) in spikes)
    others = (eager_limit, segment_step, dip, late_switch)
    return {id(step) for step in (*(step for one in others for step in one.steps_of(reading)), *rough)}


def _in_a_row(steps: Sequence[Step]) -> list[list[Step]]:
    """Steps of a curve, each of which begins where the one before ends and goes in its direction."""
    rows: list[list[Step]] = []
    for step in steps:
        last = rows[-1][-1] if rows else None
        if (
            last is not None
            and (last.variant, last.pattern, last.above_bytes)
            == (step.variant, step.pattern, step.below_bytes)
            and (last.times.value > 1) == (step.times.value > 1)
        ):
            rows[-1].append(step)
        else:
            rows.append([step])
    return rows


def _whole(steps: Sequence[Step]) -> Step:
    """From the first to the last. All steps of a curve together are certain, and so is the product of their limits."""
    times = Estimate(
        math.prod(step.times.value for step in steps),
        math.prod(step.times.low for step in steps),
        math.prod(step.times.high for step in steps),
    )
    return replace(steps[0], above_bytes=steps[-1].above_bytes, times=times)


def _sentence(step: Step, count: int) -> str:
    times = (
        f"{digits(step.times.value)} ({digits(step.times.low)} to {digits(step.times.high)}) times as long"
    )
    power = nearest_power(step)
    near = f", near {size_text(power)}" if power is not None else ""
    several = f", in {count} steps" if count > 1 else ""
    return f"{step.above_bytes} bytes take {times} as {step.below_bytes}{near}{several}."


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
