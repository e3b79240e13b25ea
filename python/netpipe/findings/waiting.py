# SPDX-License-Identifier: Apache-2.0
"""Two layers that were compared wait for messages in different ways, so their difference is not the layer's alone."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from netpipe.findings import AS_RECORDED, NOTE, Finding, examples, rule
from netpipe.reading import Reading
from netpipe.reading.across.merge import name_of
from netpipe.records import Run


@rule("waits-differ", "Different waiting", needs=("losses",), mark="*")
def judge(reading: Reading) -> Iterator[Finding]:
    """One finding for each such pair; it explains the * in the table of losses."""
    pairs = dict.fromkeys((loss.variant, loss.below, loss.waits) for loss in reading.losses if loss.waits)
    for upper, below, waits in pairs:
        assert waits is not None
        measured = f"{name_of(below).partition(':')[0]}:wait={waits[0]}"
        yield Finding(
            severity=NOTE,
            variant=upper,
            what=(
                f"{upper} and {below} wait in different ways ({waits[0]} and {waits[1]}); also measure "
                f"{measured}, to compare the layers rather than how they wait."
            ),
            certainty=AS_RECORDED,
            cause="A process that blocks pays for its wake-up; one that polls does not.",
            experiment=shlex.join(["netpipe", "run", measured, name_of(upper)]),
        )


def _waiting(lower: str) -> Run:
    return examples.run(
        examples.point("shm", 8, 100.0),
        examples.point("pipe", 8, 9000.0),
        variants=["shm", "pipe"],
        stack={"pipe": "shm"},
        waits={"shm": lower, "pipe": "block"},
    )


def fires() -> Run:
    return _waiting("poll")


def silent() -> Run:
    return _waiting("block")
