# SPDX-License-Identifier: Apache-2.0
"""No point has an interval: the run was imported from a format that has none."""

from __future__ import annotations

from collections.abc import Iterator

from netpipe.findings import AS_RECORDED, WARNING, Finding, examples, rule
from netpipe.reading import Reading
from netpipe.records import Run, Visits


@rule("no-intervals", "No intervals", needs=("points",), brief=False)
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires if not a single point has the limits of an interval, within a launch or over all of them."""
    if all(point.low_ns is None and point.visits is None for point in reading.run.points):
        yield Finding(
            severity=WARNING,
            what="No point has an interval: nothing says how certain these numbers are.",
            certainty=AS_RECORDED,
            cause="The file that the run was imported from has no intervals.",
            remedy="measure again with netpipe run",
        )


def fires() -> Run:
    return examples.run(examples.point("np.out", 8, 1000.0, low_ns=None, high_ns=None), variants=["np.out"])


def silent() -> Run:
    """Too few samples for an interval within the launch, but visits, which give the run one."""
    visits = Visits(block=[0], at_s=[0.0], state=[0], samples=[3], median_ns=[1000.0])
    return examples.run(examples.point("tcp", 8, 1000.0, low_ns=None, high_ns=None, visits=visits))
