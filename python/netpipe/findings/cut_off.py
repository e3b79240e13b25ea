# SPDX-License-Identifier: Apache-2.0
"""Launches that were cut off in a run that went on, or came to its end all the same (`netpipe run --continue` after the
machine went down, a worker that was killed). A point is recorded when a size needs no more visits; the visits of a size
that had not come so far are in the file as samples, and in no number. `incomplete-run` is about runs without an end.
"""

from __future__ import annotations

from collections.abc import Iterator

from netpipe.findings import AS_RECORDED, NOTE, CannotJudge, Finding, Quantity, examples, rule
from netpipe.findings.experiments.going_on import command_here
from netpipe.reading import Reading
from netpipe.records import Plan, Point, Run
from netpipe.units import counted, listed


@rule("launch-cut-off", "A launch was cut off", needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """One finding for all launches without their last record of which a size has no point."""
    run = reading.run
    ended = {one.launch for one in run.launches}
    if not ended:
        raise CannotJudge("no launch of the run came to its end")
    going_on = max((plan.launch for plan in run.plans), default=0) if run.end is None else None
    cut = [plan for plan in run.plans if plan.launch not in ended and plan.launch != going_on]
    lost = {plan.launch: number for plan in cut if (number := _without_point(run, plan))}
    if not lost:
        return
    total = sum(lost.values())
    which = (
        f"Launch{'es' if len(lost) > 1 else ''} {listed(map(str, lost))} {'were' if len(lost) > 1 else 'was'}"
    )
    yield Finding(
        severity=NOTE,
        what=f"{which} cut off before {counted(total, 'point')} {'was' if total == 1 else 'were'} done: the visits "
        f"made for {'it' if total == 1 else 'them'} are in no number.",
        evidence={"launches": Quantity(len(lost), "launches"), "lost": Quantity(total, "points")},
        certainty=AS_RECORDED,
        cause="A point is recorded when its size needs no more visits, and what was killed records none.",
        remedy="where intervals are too wide, add launches (netpipe run --continue)",
        experiment=command_here(run, len(lost)),
    )


def _without_point(run: Run, plan: Plan) -> int:
    """How many planned sizes of curves have neither a point of this launch nor a reason why not."""
    left_out = {
        (one.variant, one.pattern, one.size_bytes) for one in run.skipped if one.launch == plan.launch
    }
    there = {
        (one.variant, one.pattern, one.size_bytes) for one in run.points if one.launch == plan.launch
    } | left_out
    return sum(
        there.isdisjoint(((name, pattern, size), (name, pattern, None), (name, None, None)))
        for name in (one.variant for one in plan.variants)
        for pattern in plan.patterns
        for size in plan.sizes
    )


def _run(*points: Point) -> Run:
    """Of two sizes; launch 0 has no end."""
    made = examples.run(*points)
    made.launches[:] = [one for one in made.launches if one.launch]
    for plan in made.plans:
        plan.sizes = [8, 64]
    return made


def fires() -> Run:
    return _run(*(examples.point("tcp", size, 1000.0, launch=1) for size in (8, 64)))


def silent() -> Run:
    """All of its points were done."""
    return _run(
        *(examples.point("tcp", size, 1000.0, launch=launch) for launch in (0, 1) for size in (8, 64))
    )
