# SPDX-License-Identifier: Apache-2.0
"""The run is less than was asked for: it was interrupted, or has no end record."""

from __future__ import annotations

from collections.abc import Iterator

from netpipe.findings import AS_RECORDED, WARNING, CannotJudge, Finding, again, examples, rule
from netpipe.findings.experiments.going_on import INTERRUPTED, command_here, lacking
from netpipe.reading import Reading
from netpipe.records import End, Run


@rule("incomplete-run", "Incomplete run", needs=("header",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires without an end record, or if that says that the run was interrupted."""
    run = reading.run
    if run.points and not run.plans and not run.launches:
        raise CannotJudge("an imported run has no end")
    if run.end is None:
        what = "The run is incomplete: interrupted, or still running."
    elif run.end.reason == INTERRUPTED:
        what = "The run was interrupted; what was measured until then is here."
    else:
        return
    command = command_here(run, lacking(run))
    yield Finding(
        severity=WARNING,
        what=what,
        certainty=AS_RECORDED,
        remedy="run it again"
        if command is None
        else "add the launches that it lacks (netpipe run --continue)",
        experiment=command or again(reading),
    )


def fires() -> Run:
    return examples.run(examples.point("tcp", 8, 1000.0), ended=False)


def silent() -> Run:
    run = examples.run(examples.point("tcp", 8, 1000.0))
    run.end = End(exit=4, reason="failed")  # said by the rule on failures
    return run
