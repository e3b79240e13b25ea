# SPDX-License-Identifier: Apache-2.0
"""Nothing ran for a while: the machine was suspended, or processes of the run were stopped."""

from __future__ import annotations

from collections.abc import Iterator

from netpipe.findings import AS_RECORDED, WARNING, Finding, Quantity, again, examples, rule
from netpipe.findings.moments import moment
from netpipe.reading import Reading
from netpipe.records import Pause, Run
from netpipe.units import counted, size_text, span_text

MOST = 3  # named; the run file has all
SUSPENDED = "suspended"
AWAKE = "keep the machine awake: systemd-inhibit netpipe run ..."
UNDISTURBED = (
    "let nothing stop the run or take its processors: other work, a paused container or virtual machine"
)


@rule("paused", "Paused")
def judge(reading: Reading) -> Iterator[Finding]:
    """One finding for all pauses of the run."""
    pauses = reading.run.pauses
    if not pauses:
        return
    said = [_sentence(reading, pause) for pause in pauses[:MOST]]
    if more := len(pauses) - len(said):
        said.append(f"There {'was' if more == 1 else 'were'} {counted(more, 'more pause')}.")
    yield Finding(
        severity=WARNING,
        what=" ".join(said),
        evidence={
            "pauses": Quantity(len(pauses), "pauses"),
            "visits that do not count": Quantity(sum(one.variant is not None for one in pauses), "visits"),
            "paused": Quantity(sum(one.seconds or 0.0 for one in pauses), "s"),
        },
        certainty=AS_RECORDED,
        cause="Something stopped the processes, suspended or paused the machine, or took all of its processors. "
        "Deadlines do not run meanwhile.",
        remedy=AWAKE if all(one.cause == SUSPENDED for one in pauses) else UNDISTURBED,
        experiment=again(reading),
    )


def _sentence(reading: Reading, pause: Pause) -> str:
    what = "The machine was suspended" if pause.cause == SUSPENDED else "The processes of the run stood still"
    said = f"{what} for {span_text(pause.seconds)}, {moment(reading, pause.launch, pause.at_s)}"
    if pause.variant is None:
        return f"{said}, between two visits."
    return f"{said}: the visit of {pause.variant} at {size_text(pause.size_bytes)} that it fell into does not count."


def _pause(cause: str, variant: str | None, seconds: float) -> Pause:
    return Pause(
        launch=0,
        variant=variant,
        pattern="pingpong" if variant else None,
        size_bytes=64 if variant else None,
        at_s=12.0,
        seconds=seconds,
        cause=cause,
    )


def fires() -> Run:
    pauses = (
        _pause("suspended", "tcp", 37.0),
        _pause("stopped", "tcp", 4.0),
        _pause("suspended", None, 90.0),
    )
    return examples.run(*pauses, examples.point("tcp", 8, 1000.0))


def silent() -> Run:
    return examples.run(examples.point("tcp", 8, 1000.0))
