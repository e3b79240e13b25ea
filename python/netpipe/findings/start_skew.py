# SPDX-License-Identifier: Apache-2.0
"""How far apart the ranks of a collective start, beside the time of a sample."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from netpipe.findings import NOTE, WARNING, CannotJudge, Finding, Quantity, examples, quantity, rule
from netpipe.reading import Reading
from netpipe.reading.cells import CLOCK_ERROR
from netpipe.reading.estimate import Estimate
from netpipe.records import Run
from netpipe.units import percent_text, size_text, time_text

SKEW = "start_skew"  # the measure of patterns that compare the clocks of the ranks
SKEWED = 0.1  # of the time of a sample: a larger skew is a warning


@dataclass(frozen=True, slots=True)
class StartSkew:
    """The curve and size of one variant at which the ranks started furthest apart, relative to a sample."""

    variant: str
    pattern: str
    size_bytes: int
    skew_ns: Estimate
    clock_error_ns: Estimate | None
    share: float  # skew over the time of a sample (all its operations)
    asked: bool  # the ranks were to start when a barrier lets them go


def start_skews(reading: Reading) -> tuple[StartSkew, ...]:
    """One for each variant whose patterns measured it."""
    worst: dict[str, StartSkew] = {}
    modes = (mode for plan in reading.run.plans for mode in plan.modes)
    asked = {mode.pattern for mode in modes if mode.options.get("start") == "barrier"}
    for curve in reading.curves:
        said = {measure.name: measure.values for measure in reading.measures_of(curve)}
        for point in curve.points if SKEW in said else ():
            skew = said[SKEW].get(point.size_bytes)
            if skew is None or point.time_ns.value <= 0:
                continue
            share = skew.value / (point.time_ns.value * (point.shown.ops or 1))
            if curve.variant not in worst or share > worst[curve.variant].share:
                error = said.get(CLOCK_ERROR, {}).get(point.size_bytes)
                worst[curve.variant] = StartSkew(
                    curve.variant, curve.pattern, point.size_bytes, skew, error, share, curve.pattern in asked
                )
    return tuple(worst.values())


@rule("late-start", "Ranks start apart", needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Always one finding for each variant: how well the ranks start together belongs to the numbers."""
    found = start_skews(reading)
    if not found:
        raise CannotJudge(f"no pattern measured {SKEW}")
    yield from _findings(found)


def _findings(found: Iterable[StartSkew]) -> Iterator[Finding]:
    for one in found:
        clocks = (
            f"; their clocks agree to {time_text(one.clock_error_ns.value)}"
            if one.clock_error_ns is not None
            else ""
        )
        error = {"clock_error": quantity(one.clock_error_ns, "ns")} if one.clock_error_ns else {}
        bad = one.share > SKEWED and not one.asked
        yield Finding(
            severity=WARNING if bad else NOTE,
            variant=one.variant,
            pattern=one.pattern,
            size_bytes=one.size_bytes,
            what=(
                f"The ranks of {one.variant} start within {time_text(one.skew_ns.value)} of each other (median), at "
                f"most {percent_text(one.share)} of the time of a sample ({one.pattern} at {size_text(one.size_bytes)})"
                f"{clocks}."
            ),
            evidence={"start_skew": quantity(one.skew_ns, "ns"), "share": Quantity(one.share, "1"), **error},
            certainty="Median over the samples; the clocks of the ranks are compared with the error stated.",
            cause="A barrier lets the ranks go one after the other, which start=barrier asks for."
            if one.asked
            else "The slowest rank counts, so what a rank starts late is added to the time.",
            remedy="a quieter machine, or a processor for each rank" if bad else "",
        )


def fires() -> Run:
    measures = [examples.measure(SKEW, "ns", 400.0), examples.measure(CLOCK_ERROR, "ns", 5.0)]
    return examples.run(examples.point("tcp", 8, 1000.0, ops=1, pattern="collective", measures=measures))


def silent() -> Run:
    return examples.run(examples.point("tcp", 8, 1000.0))
