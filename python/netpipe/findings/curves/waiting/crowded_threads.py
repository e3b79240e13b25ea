# SPDX-License-Identifier: Apache-2.0
"""Threads of ranks that share processors, in patterns in which each rank has several. Where the ranks alone are too
many, `oversubscribed-job` and `oversubscribed` say so.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from netpipe.findings import (
    AS_RECORDED,
    CURVES,
    SEVERE,
    CannotJudge,
    Finding,
    Quantity,
    examples,
    quantity,
    rule,
)
from netpipe.findings.curves import without_settings
from netpipe.findings.experiments import words
from netpipe.findings.library import library_of, own_remedy
from netpipe.reading import Reading
from netpipe.reading.curves import Curve
from netpipe.reading.estimate import Estimate
from netpipe.reading.machine.crowding import BESIDE_RANK, WHERE, threads_of
from netpipe.records import Environment, PlannedMode, Rank, Run
from netpipe.units import percent_text, size_text

WAITING = "waiting"  # the measure of these patterns
# Of the time of the threads: with a processor for each of them a few percent are the kernel's and other programs'
# (docs/patterns.md#threads).
LEAST_WAITING = 0.05


@rule("oversubscribed-threads", "More threads than processors", about=CURVES, needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires where the threads of a host's ranks are more than the processors that they may run on, and, if that was
    measured, they waited for one. One finding for each curve.
    """
    several = {
        mode.pattern: mode for plan in reading.run.plans for mode in plan.modes if threads_of(mode) > 1
    }
    curves = [one for one in reading.curves if one.pattern in several and one.variant not in reading.copies]
    if not curves:
        raise CannotJudge("no pattern in which a rank has several threads was measured")
    if not any(rank.processors for one in reading.run.variants for rank in one.ranks):
        raise CannotJudge("the ranks did not record their processors")
    for curve in curves:
        crowd = reading.crowded_by_threads.get((curve.variant, curve.pattern))
        if crowd is None or curve.variant in reading.crowded:
            continue
        mode = several[curve.pattern]
        evidence = {
            "ranks": Quantity(crowd.ranks, "ranks"),
            "threads": Quantity(crowd.ranks * crowd.threads, "threads"),
            "processors": Quantity(crowd.processors, "processors"),
        }
        most = _most_waiting(reading, curve)
        waited = ""
        if most is not None:
            size, share = most
            if share.value < LEAST_WAITING:
                continue
            evidence["waiting"] = quantity(share, "1")
            waited = f" At {size_text(size)} they waited for one {percent_text(min(share.value, 1))} of their time."
        yield Finding(
            severity=SEVERE,
            variant=curve.variant,
            pattern=curve.pattern,
            size_bytes=most[0] if most else None,
            host=crowd.host,
            what=f"{curve.variant} {curve.pattern} was measured by {crowd}: the threads take turns, so its times "
            f"contain context switches.{waited}",
            evidence=evidence,
            certainty=AS_RECORDED,
            cause="A thread that polls for its message holds the processor that another one needs, until its time "
            "slice ends. A program has the same where its launcher binds a rank with several threads to one core.",
            remedy=_remedy(reading, curve, mode),
            experiment=_experiment(reading, curve, mode),
        )


def _most_waiting(reading: Reading, curve: Curve) -> tuple[int, Estimate] | None:
    """The size at which the threads waited longest, and for which share of their time; None: that is not known."""
    shares = next((one.values for one in reading.measures_of(curve) if one.name == WAITING), {})
    return max(shares.items(), key=lambda each: each[1].value, default=None)


def _beside_rank(mode: PlannedMode) -> bool:
    return mode.options.get(WHERE) == BESIDE_RANK


def _experiment(reading: Reading, curve: Curve, mode: PlannedMode) -> str | None:
    """Where the pattern keeps the threads of a rank together: the same without that, beside it."""
    if not _beside_rank(mode) or reading.run.header is None:
        return None
    free = without_settings(curve.pattern, WHERE)
    size = min(point.size_bytes for point in curve.points)
    return words.side_by_side(curve.variant, (curve.pattern, free), size, reading.run.header.argv)


def _remedy(reading: Reading, curve: Curve, mode: PlannedMode) -> str:
    kept = f"leave {WHERE}={BESIDE_RANK} out, or " if _beside_rank(mode) else ""
    library, own = (
        library_of(reading, curve.variant),
        own_remedy(reading, curve.variant, "oversubscribed-threads"),
    )
    program = f"; for a program with {library.title}: {own}" if library and own else ""
    return f"{kept}measure fewer threads, or ranks on more hosts (--hosts), or allow more processors{program}"


def _run(threads: int) -> Run:
    pattern = f"threads:threads={threads}"
    made = examples.run(
        Environment(host="node17", facts={"limits": {"allowed_cpus": "0-3"}}),
        examples.point("mpi@x", 8, 4e6, pattern=pattern, measures=[examples.measure(WAITING, "1", 0.6)]),
        variants=("mpi@x",),
    )
    mode = PlannedMode(pattern=pattern, name="threads", options={"threads": str(threads), WHERE: "any"})
    made.plans[:] = [msgspec.structs.replace(plan, patterns=[pattern], modes=[mode]) for plan in made.plans]
    for variant in made.variants:
        variant.ranks[:] = [Rank(rank=n, host="node17", cpu=n, processors=str(n)) for n in range(2)]
    return made


def fires() -> Run:
    return _run(4)


def silent() -> Run:
    return _run(2)
