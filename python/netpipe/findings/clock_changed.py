# SPDX-License-Identifier: Apache-2.0
"""The kernel began to read the time from another clock source during the run."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from netpipe.findings import AS_RECORDED, SEVERE, WARNING, Finding, Quantity, again, examples, rule
from netpipe.findings.moments import moment
from netpipe.reading import Reading
from netpipe.reading.machine.clock_changes import SMALLEST_FACTOR
from netpipe.records import Run
from netpipe.units import counted, listed, sizes_text, time_text


@rule("clock-source-changed", "Clock source changed", needs=("yardsticks",))
def judge(reading: Reading) -> Iterator[Finding]:
    """One finding for each change within a launch; severe where samples have become too short for the clock."""
    for change in reading.clock_changes:
        what = f"The kernel changed the clock source from {change.before} to {change.after}"
        what += f", {moment(reading, change.launch, change.at_s)}"
        if change.cost_ns is not None and change.cost_before_ns is not None:
            what += f": reading the clock took {time_text(change.cost_before_ns)}, then {time_text(change.cost_ns)}"
        what += "."
        points = sum(map(len, change.short.values()))
        if points:
            which = listed(f"{variant} at {sizes_text(sizes)}" for variant, sizes in change.short.items())
            what += (
                f" {counted(points, 'size')} {'has' if points == 1 else 'have'} samples after it that last less than "
                f"{SMALLEST_FACTOR} readings ({which})."
            )
        evidence = {"short": Quantity(points, "points")}
        if change.cost_before_ns is not None:
            evidence["clock_cost_before"] = Quantity(change.cost_before_ns, "ns")
        if change.cost_ns is not None:
            evidence["clock_cost"] = Quantity(change.cost_ns, "ns")
        yield Finding(
            severity=SEVERE if points else WARNING,
            what=what,
            evidence=evidence,
            certainty=AS_RECORDED,
            cause="The kernel leaves a clock source that it finds unstable, and says so in its log. Each sample "
            "contains one reading of the clock.",
            remedy="run it again: each launch chooses its samples for the clock that it finds; dmesg says why the "
            "kernel left the other one",
            experiment=again(reading),
        )


def _run(later: str) -> Run:
    first, last = examples.yardstick(0), examples.yardstick(9)
    return examples.run(
        msgspec.structs.replace(first, clock_source="tsc"),
        msgspec.structs.replace(last, clock_source=later, clock_ns=1200),
        examples.point("tcp", 8, 1000.0),
    )


def fires() -> Run:
    return _run("hpet")


def silent() -> Run:
    return _run("tsc")
