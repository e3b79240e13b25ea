# SPDX-License-Identifier: Apache-2.0
"""The run has no yardsticks, so nothing says whether the machine changed under it (docs/method.md)."""

from __future__ import annotations

from collections.abc import Iterator

from netpipe.findings import AS_RECORDED, NOTE, Finding, examples, rule
from netpipe.reading import Reading
from netpipe.records import Run


@rule("no-yardsticks", "No yardsticks", needs=("points",), brief=False)
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires for imported runs, and for runs that died before the first yardstick."""
    if not reading.states.states:
        yield Finding(
            severity=NOTE,
            what="No yardstick was recorded: nothing says whether the machine changed during the run.",
            certainty=AS_RECORDED,
        )


def fires() -> Run:
    return examples.run(examples.point("tcp", 8, 1000.0))


def silent() -> Run:
    return examples.run(examples.yardstick(0), examples.point("tcp", 8, 1000.0))
