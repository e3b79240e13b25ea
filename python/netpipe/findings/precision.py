# SPDX-License-Identifier: Apache-2.0
"""Points whose interval is wider than the target (docs/method.md). `netpipe run --strict` judges the same points."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from statistics import median

from netpipe.findings import AS_RECORDED, NOTE, SEVERE, WARNING, Finding, Quantity, again, examples, rule
from netpipe.findings.experiments.going_on import command_here
from netpipe.reading import Reading
from netpipe.reading.blocks.more import offer
from netpipe.reading.curves import target_of
from netpipe.records import Run
from netpipe.units import capital, counted, listed, percent_text, size_text, width_text

WIDE = 0.2  # intervals that are usually wider than this are a warning
USELESS = 1.0  # and than this, severe: such times say less than they seem to
TARGET_MISSED = "target-missed"
# How a point may end in a launch -> what that says of an interval that is not within the target.
WHY = {
    "budget": "the time was over before the interval was narrow enough",
    "limit": "the point had all the samples that a launch takes (65536)",
    "precision": "the launch had reached the target, and launches differ by more",
}


@rule(TARGET_MISSED, "Target missed", needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """One finding for the whole run. Points of imported runs do not say whether they settled."""
    summaries = reading.summaries
    loose = [
        (summary, summary.points - summary.converged)
        for summary in summaries
        if summary.converged is not None and summary.converged < summary.points
    ]
    if not loose:
        return
    target = target_of(reading.run)
    count, points = sum(number for _, number in loose), sum(summary.points for summary in summaries)
    by_variant: Counter[str] = Counter()
    for summary, number in loose:
        by_variant[summary.variant] += number
    goal = f" of ±{percent_text(target)}" if target else ""
    what = f"{'No' if count == points else 'Not every'} interval is within the target{goal}."
    typical = median(reading.half_widths.tolist()) if len(reading.half_widths) else None
    if typical is not None:
        side = "within" if typical <= USELESS else "wider than"
        what += f" Half of the intervals are {side} {width_text(min(typical, USELESS))}."
    few = sum(summary.unsure for summary, _ in loose)
    if few:
        what += f" {few} of them had too few samples for an interval."
    worst = max((summary for summary, _ in loose), key=lambda summary: summary.worst_half_width or 0)
    evidence = {
        "missed": Quantity(count, "points"),
        "points": Quantity(points, "points"),
        **{f"missed by {variant}": Quantity(number, "points") for variant, number in by_variant.items()},
    }
    if target:
        evidence["target"] = Quantity(target, "1")
    if worst.worst_half_width is not None:
        place = f"{worst.variant} at {size_text(worst.worst_size_bytes)}"
        what += f" The widest interval is that of {place}, {width_text(worst.worst_half_width)}."
        evidence["widest_half_width"] = Quantity(worst.worst_half_width, "1")
    more = _more(reading)
    stops = _stops(reading)
    remedy = "more launches (netpipe run --continue)" if more else "a larger --budget"
    if not more and stops and set(stops) <= {"limit", "precision"}:
        remedy = "more --launches"
    yield Finding(
        severity=_severity(typical or 0.0),
        variant=worst.variant,
        pattern=worst.pattern,
        size_bytes=worst.worst_size_bytes,
        what=what,
        evidence=evidence,
        certainty=AS_RECORDED,
        cause=_cause(stops),
        remedy=f"{remedy}, or a quieter machine (netpipe doctor)",
        experiment=more or _longer(reading),
    )


def _stops(reading: Reading) -> Counter[str]:
    """Why the points that are not within the target ended, in each of their launches; of what is recorded."""
    return Counter(
        one.stop
        for curve in reading.curves
        for settled, launches in zip(curve.points.converged, curve.points.by_launch, strict=True)
        if settled is False
        for one in launches
        if one.stop
    )


def _cause(stops: Mapping[str, int]) -> str:
    """With counts where not all of them ended for the same reason. After an interruption or an error another finding
    speaks.
    """
    known = {stop: stops[stop] for stop in WHY if stops.get(stop)}
    if set(known) <= {"budget"}:
        return "The time for a point was over before its interval was narrow enough."
    if len(known) == 1:
        return f"{capital(WHY[next(iter(known))])}."
    each = listed(f"{WHY[stop]} ({counted(count, 'time')})" for stop, count in known.items())
    return f"Of the launches of these points, by why they ended: {each}."


def _severity(typical: float) -> str:
    return NOTE if typical <= WIDE else WARNING if typical <= USELESS else SEVERE


def _more(reading: Reading) -> str | None:
    """The command that adds launches, where the run can go on here: as many as its last line offers, else as many as
    its command had.
    """
    offered = offer(reading.run, reading.half_widths.tolist())
    return command_here(reading.run, offered.launches if offered else None)


def _longer(reading: Reading) -> str | None:
    """The command that measures all of it again, for twice the time."""
    budget = next((plan.budget_s for plan in reading.run.plans if plan.budget_s), None)
    return again(reading, "--budget", f"{2 * budget:g}") if budget else None


def fires() -> Run:
    return examples.run(examples.point("tcp", 8, 1000.0), examples.point("tcp", 64, 1000.0, half_width=0.04))


def silent() -> Run:
    return examples.run(examples.point("tcp", 8, 1000.0), examples.point("tcp", 64, 1000.0))
