# SPDX-License-Identifier: Apache-2.0
"""The program was started once, so the spread between starts is not known (docs/method.md)."""

from __future__ import annotations

from collections.abc import Iterator

from netpipe.findings import AS_RECORDED, NOTE, Finding, Quantity, again, examples, rule
from netpipe.reading import Reading
from netpipe.records import Run


@rule("one-launch", "One launch", needs=("points",), brief=False)
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires if all points are from one launch. Imported runs without intervals have worse to report."""
    points = reading.run.points
    if len({point.launch for point in points}) == 1 and any(point.low_ns is not None for point in points):
        yield Finding(
            severity=NOTE,
            what="The program was started once, so the spread between starts is not known.",
            evidence={"launches": Quantity(1, "launches")},
            certainty=AS_RECORDED,
            cause="Two starts of a program can differ by more than everything that varies inside one.",
            remedy="--launches 5",
            experiment=again(reading, "--launches", "5"),
        )


def fires() -> Run:
    return examples.run(examples.point("tcp", 8, 1000.0))


def silent() -> Run:
    return examples.run(*(examples.point("tcp", 8, 1000.0, launch=launch) for launch in range(2)))
