# SPDX-License-Identifier: Apache-2.0
"""A step down: above a threshold a layer is faster than just below, so the threshold is too high."""

from __future__ import annotations

from collections.abc import Iterator

from netpipe.findings import CURVES, NOTE, CannotJudge, Confirm, Finding, examples, quantity, rule
from netpipe.findings.curves import Opened, odd_sizes, opened, variant_with
from netpipe.findings.curves.eager_limit import FACTOR, LEAST_BYTES, MOST_BYTES, OPTIONS
from netpipe.findings.library import setting
from netpipe.reading import Reading
from netpipe.reading.blocks.steps import Step, nearest_power
from netpipe.records import Run
from netpipe.units import digits, size_text

FASTER = 0.9  # of the time just below: a step that certainly goes further down counts


@rule("late-switch", "A threshold too high", about=CURVES, needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires at a step down of a tenth, where the layer has a setting for its eager limit. The experiment lowers it."""
    if not any(name in one.options for one in opened(reading) for name in OPTIONS):
        raise CannotJudge("no layer has a setting for its eager limit")
    if all(point.visits is None for point in reading.run.points):
        raise CannotJudge("the run did not record its visits")
    for step, one, name in _steps(reading):
        limit = nearest_power(step) or step.below_bytes
        lower = limit // FACTOR
        less = variant_with(reading, one, name, str(lower))
        confirm = Confirm(step.variant, less, step.pattern, [step.below_bytes])
        gain = quantity(step.times.inverse(), "1")
        yield Finding(
            severity=NOTE,
            variant=step.variant,
            pattern=step.pattern,
            size_bytes=step.below_bytes,
            what=f"{step.variant} takes {digits(gain.value)} times as long for {step.below_bytes} bytes as for "
            f"{step.above_bytes}: what it does from about {size_text(limit)} on is faster.",
            evidence={"times": gain},
            certainty="The step is certain to 95 %; that the setting moves it is shown by the experiment.",
            cause="Above its threshold the layer moves messages in another way, which would be faster below it, too.",
            remedy=f"a lower limit: {setting(reading, step.variant, name, str(lower))}",
            gain=gain,
            confirm=confirm,
        )


def steps_of(reading: Reading) -> tuple[Step, ...]:
    """Those steps down."""
    return tuple(step for step, *_ in _steps(reading))


def _steps(reading: Reading) -> Iterator[tuple[Step, Opened, str]]:
    """Each with its curve and the name of the setting."""
    of = {(one.curve.variant, one.curve.pattern): one for one in opened(reading)}
    spikes = odd_sizes.valleys(reading)
    for step in reading.steps:
        curve = step.variant, step.pattern
        one = of.get(curve)
        name = next((name for name in OPTIONS if one and name in one.options), None)
        large = LEAST_BYTES <= step.above_bytes <= MOST_BYTES
        if (
            one is not None
            and name is not None
            and large
            and step.times.high < FASTER
            and curve not in spikes
        ):
            yield step, one, name


def fires() -> Run:
    return examples.stepping_at_limit(0.7)


def silent() -> Run:
    return examples.stepping_at_limit(0.97)
