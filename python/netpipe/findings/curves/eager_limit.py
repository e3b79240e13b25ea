# SPDX-License-Identifier: Apache-2.0
"""A step of a layer with an eager limit: from some size on a message waits until its receiver is ready (rendezvous).

The dip at 128 kB of the papers' figures. Which library names its limit how, its table of options says: `eager`, `rndv`.
"""

from __future__ import annotations

from collections.abc import Iterator

from netpipe.findings import CURVES, NOTE, CannotJudge, Confirm, Finding, examples, quantity, rule
from netpipe.findings.curves import Opened, opened, variant_with
from netpipe.findings.curves.thresholds import back_at
from netpipe.findings.library import setting
from netpipe.reading import Reading
from netpipe.reading.blocks.steps import Step, nearest_power
from netpipe.records import Run
from netpipe.units import bytes_of, digits, size_text

OPTIONS = ("eager", "rndv")  # names of the setting, the first that the layer has
LEAST_BYTES, MOST_BYTES = 1 << 9, 1 << 20  # where libraries have such limits
SLOWER = 1.1
HEADER_BYTES = 256  # at most, of a library's own in front of a message
FACTOR = 4  # how much higher the experiment sets the limit


@rule("eager-limit", "Eager limit", about=CURVES, needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires at a step up near a power of two, where the layer has a setting for its eager limit."""
    if not any(name in one.options for one in opened(reading) for name in OPTIONS):
        raise CannotJudge("no layer has a setting for its eager limit")
    if all(point.visits is None for point in reading.run.points):
        raise CannotJudge("the run did not record its visits")
    for step, one, name in _limits(reading):
        limit = (nearest_power(step) or step.above_bytes) * FACTOR
        higher = variant_with(reading, one, name, str(limit))
        confirm = Confirm(step.variant, higher, step.pattern, [step.above_bytes])
        times = f"{digits(step.times.value)} ({digits(step.times.low)} to {digits(step.times.high)})"
        gain = quantity(step.times, "1")
        back = back_at(reading, step)
        dip = f" The throughput is back at {size_text(back)}." if back else ""
        yield Finding(
            severity=NOTE,
            variant=step.variant,
            pattern=step.pattern,
            size_bytes=step.above_bytes,
            what=f"{step.variant} takes {times} times as long for {step.above_bytes} bytes as for {step.below_bytes}: "
            f"probably its eager limit, about {size_text(nearest_power(step) or step.above_bytes)}.{dip}",
            evidence={"times": gain},
            certainty="The step is certain to 95 %; that it is the eager limit is shown by the experiment.",
            cause="Up to the limit a message is sent at once and copied on arrival; above it the sender waits until "
            "the receiver has said where it may go.",
            remedy=f"a higher limit, {setting(reading, step.variant, name, str(limit))}, saves the handshake at the "
            "price of memory and a copy",
            gain=gain,
            confirm=confirm,
        )


def _limits(reading: Reading) -> Iterator[tuple[Step, Opened, str]]:
    """Each such step, its curve, and the name of the setting. A curve has one limit: where it was set, the step that is
    there, else the step that is most certainly large. Others are of something else.
    """
    of = {(one.curve.variant, one.curve.pattern): one for one in opened(reading)}
    steps: dict[tuple[str, str], list[Step]] = {}
    for step in reading.steps:
        if LEAST_BYTES <= step.above_bytes <= MOST_BYTES and step.times.low >= SLOWER:
            steps.setdefault((step.variant, step.pattern), []).append(step)
    for curve, found in steps.items():
        one = of.get(curve)
        name = next((name for name in OPTIONS if one and name in one.options), None)
        if one is None or name is None:
            continue
        limit = bytes_of(one.options[name])  # none: it is the library's default
        if limit:
            found = [step for step in found if _near(step, limit)]
        if found:
            yield max(found, key=lambda step: step.times.low), one, name


def _near(step: Step, limit: int) -> bool:
    """Is the step where this limit is? Libraries count their own header with the message, or do not."""
    return step.below_bytes <= limit < step.above_bytes + HEADER_BYTES


def steps_of(reading: Reading) -> tuple[Step, ...]:
    """Those that are probably eager limits."""
    return tuple(step for step, *_ in _limits(reading))


def fires() -> Run:
    return examples.stepping_at_limit(1.4)


def silent() -> Run:
    return examples.stepping_at_limit(1.03)
