# SPDX-License-Identifier: Apache-2.0
"""Sizes at which a layer was not compared with the one below: the machine was in different states (docs/method.md)."""

from __future__ import annotations

from collections.abc import Iterator

from netpipe.findings import AS_RECORDED, NOTE, Finding, Quantity, again, examples, rule
from netpipe.reading import Reading
from netpipe.records import Run
from netpipe.units import counted


@rule("not-compared", "Sizes not compared", needs=("losses",), brief=False)
def judge(reading: Reading) -> Iterator[Finding]:
    """One finding for each pair of layers. On the terminal the finding on the machine's states says how many."""
    for loss in reading.losses:
        if loss.other_state_sizes:
            yield Finding(
                severity=NOTE,
                variant=loss.variant,
                pattern=loss.pattern,
                what=(
                    f"{loss.variant} and {loss.below} were not compared at "
                    f"{counted(loss.other_state_sizes, 'size')} ({loss.pattern})."
                ),
                evidence={"sizes": Quantity(loss.other_state_sizes, "sizes")},
                certainty=AS_RECORDED,
                cause="Their points were measured in different states of the machine.",
                remedy="run it again",
                experiment=again(reading),
            )


def _two_layers(state: int) -> Run:
    return examples.run(
        examples.yardstick(0),
        examples.yardstick(9, state=1, bounce_ns=278),
        *(examples.point("unix", size, 1000.0) for size in (8, 64)),
        examples.point("tcp", 8, 1200.0),
        examples.point("tcp", 64, 1200.0, state=state),
        variants=["unix", "tcp"],
        stack={"tcp": "unix"},
    )


def fires() -> Run:
    return _two_layers(state=1)


def silent() -> Run:
    return _two_layers(state=0)
