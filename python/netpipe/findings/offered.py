# SPDX-License-Identifier: Apache-2.0
"""A layer did not keep up with the rate at which messages were offered to it.

A pattern that offers messages at a given rate records that rate (`offered`) and the rate at which they arrived
(`reached`). Where the two differ, messages queue, and their latency is that of a growing queue: it depends on how long
the batch was, and says nothing about the layer.
"""

from __future__ import annotations

from collections.abc import Iterator

from netpipe.findings import WARNING, CannotJudge, Finding, Quantity, examples, quantity, rule
from netpipe.reading import Reading
from netpipe.records import Run
from netpipe.units import per_second_text, size_text

HELD = 0.95  # of the offered rate: from here on it counts as held


@rule("rate-not-held", "Offered rate not held", needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """One finding for each curve that missed its rate at a size: the one that fell behind most."""
    offering = False
    for curve in reading.curves:
        said = {measure.name: measure.values for measure in reading.measures_of(curve)}
        offered, reached = said.get("offered", {}), said.get("reached", {})
        both = [size_bytes for size_bytes in offered if size_bytes in reached]
        offering = offering or bool(both)
        short = [size for size in both if reached[size].value < HELD * offered[size].value]
        if not short:
            continue
        worst = min(short, key=lambda size: reached[size].value)
        behind = f" ({len(short)} of {len(both)} sizes fell behind, this one most)" if len(both) > 1 else ""
        yield Finding(
            severity=WARNING,
            variant=curve.variant,
            pattern=curve.pattern,
            size_bytes=worst,
            what=(
                f"Offered {per_second_text(offered[worst].value)}, {curve.variant} held "
                f"{per_second_text(reached[worst].value)} at {size_text(worst)}{behind}: messages queued there, and "
                "their latency is that of a growing queue."
            ),
            evidence={
                "offered": quantity(offered[worst], "1/s"),
                "reached": quantity(reached[worst], "1/s"),
                "sizes_behind": Quantity(len(short), "sizes"),
                "sizes": Quantity(len(both), "sizes"),
            },
            certainty="Medians over the batches, with their 95 % intervals if there were enough.",
            cause="The layer moves fewer messages a second than were offered.",
            remedy="offer less (offered:rate=...), or read the rate that was reached as the limit of the layer",
        )
    if not offering:
        raise CannotJudge("no pattern offered messages at a rate")


def _offered(reached: float) -> Run:
    measures = [examples.measure("offered", "1/s", 1e6, 0), examples.measure("reached", "1/s", reached)]
    return examples.run(examples.point("tcp", 1024, 5000.0, pattern="offered", measures=measures))


def fires() -> Run:
    return _offered(3e5)


def silent() -> Run:
    return _offered(9.9e5)
