# SPDX-License-Identifier: Apache-2.0
"""A layer that sends nothing again loses messages: the receiver has no room for them, or the way drops them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from netpipe.findings import (
    CURVES,
    WARNING,
    CannotJudge,
    Finding,
    Quantity,
    examples,
    quantity,
    rule,
)
from netpipe.reading import Reading
from netpipe.reading.blocks.visits import FEWEST_LAUNCHES
from netpipe.reading.measures import LOSS, Measured
from netpipe.records import Measure, Point, Rank, Run, Skipped
from netpipe.units import percent_text, size_text

DROPS = "kernel_drops"
LEAST = 0.001  # of the messages
OVERTAKEN = " The layer keeps no order, so some may have been overtaken, and have come too late."


@rule("messages-lost", "Messages were lost", about=CURVES)
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires where every launch lost some, and one message of a thousand or more did not arrive. One finding for each
    curve: the size that loses most, which may have no time at all.
    """
    opened = {one.variant for one in reading.run.variants if one.ranks}
    unordered = {one.variant for one in reading.run.variants if one.promises and one.promises.unordered}
    options = {one.variant: frozenset(one.options) for plan in reading.run.plans for one in plan.variants}
    counted = [one for one in reading.measures if one.name == LOSS]
    if not counted:
        raise CannotJudge("no layer counted lost messages")
    for measured in counted:
        least = _least(reading.run, measured)
        lost = {size: share for size, share in measured.values.items() if least.get(size, 0.0) > 0}
        known = measured.variant in opened and measured.variant in options
        if not known or measured.variant in reading.copies or not lost:
            continue
        size = max(lost, key=lambda size: lost[size].value)
        if lost[size].value < LEAST:
            continue
        drops = _drops(reading.run, measured, size)
        where = f"; the kernel of a receiver dropped {drops} datagrams for want of room" if drops else ""
        yield Finding(
            severity=WARNING,
            variant=measured.variant,
            pattern=measured.pattern,
            size_bytes=size,
            what=f"{measured.variant} {measured.pattern} loses {percent_text(lost[size].value)} of the messages of "
            f"{size_text(size)}{where}.",
            evidence={"loss": quantity(lost[size], "1"), "kernel drops": Quantity(drops, "datagrams")},
            certainty="The messages were counted.",
            cause="The receiver's socket buffer was full: messages came faster than they were taken out."
            if drops
            else "They were dropped on the way, or by an interface whose queue was full."
            + (OVERTAKEN if measured.variant in unordered else ""),
            remedy=_remedy(options[measured.variant], bool(drops)),
        )


def _least(run: Run, of: Measured) -> dict[int, float]:
    """By size, what the launch that lost least has lost. Losses wander: launches may differ so much that the interval
    of all of them holds 0, and so do visits of one. Of few launches each has to be sure of its own.
    """
    found: dict[int, list[Measure]] = {}
    records: tuple[Point | Skipped, ...] = (*run.points, *run.skipped)
    for one in records:
        if (one.variant, one.pattern) == (of.variant, of.pattern) and one.size_bytes is not None:
            found.setdefault(one.size_bytes, []).extend(
                each for each in one.measures if each.name == LOSS and each.median is not None
            )
    return {size: min(_lost(one, len(some)) for one in some) for size, some in found.items() if some}


def _lost(one: Measure, launches: int) -> float:
    counted = one.median or 0.0
    return counted if one.low is None or launches >= FEWEST_LAUNCHES else one.low


def _drops(run: Run, of: Measured, size: int) -> int:
    at = (of.variant, of.pattern, size)
    records: tuple[Point | Skipped, ...] = (*run.points, *run.skipped)
    return sum(
        one.counters.get(DROPS, 0) for one in records if (one.variant, one.pattern, one.size_bytes) == at
    )


def _remedy(options: frozenset[str], dropped: bool) -> str:
    larger = ["a larger rcvbuf (net.core.rmem_max bounds it)"] if dropped and "rcvbuf" in options else []
    slower = ["a rate (Mbit/s) that the receiver and the way can carry"] if "rate" in options else []
    return (
        ", or ".join([*larger, *slower])
        or "fewer messages on their way at a time, or a layer that sends again"
    )


def _run(share: float) -> Run:
    points = [
        examples.point(
            "udp",
            size,
            2e3,
            pattern="stream",
            measures=[examples.measure(LOSS, "1", share if size > 8 else 0.0)],
            counters={DROPS: int(24_000 * share)},
        )
        for size in (8, 65536)
    ]
    made = examples.run(*points, variants=("udp",))
    for plan in made.plans:
        plan.variants[:] = [
            msgspec.structs.replace(one, options={"rcvbuf": "0", "rate": "0"}) for one in plan.variants
        ]
    for variant in made.variants:
        variant.ranks[:] = [Rank(rank=0, settings={"rcvbuf_kernel_bytes": "425984"})]
    return made


def fires() -> Run:
    return _run(0.08)


def silent() -> Run:
    return _run(0.0002)
