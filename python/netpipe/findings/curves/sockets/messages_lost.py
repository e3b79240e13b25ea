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
from netpipe.findings.curves import Opened, opened
from netpipe.reading import Reading
from netpipe.records import Rank, Run
from netpipe.units import percent_text, size_text

MEASURE, DROPS = "loss", "kernel_drops"
LEAST = 0.001  # of the messages


@rule("messages-lost", "Messages were lost", about=CURVES, needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires where every launch lost some, and one message of a thousand or more did not arrive. One finding for each
    curve: the size that loses most.
    """
    of = {(one.curve.variant, one.curve.pattern): one for one in opened(reading)}
    counted = [one for one in reading.measures if one.name == MEASURE]
    if not counted:
        raise CannotJudge("no layer counted lost messages")
    for measured in counted:
        # Losses wander. Without an interval, `low` is that of the launch that lost least, and what it lost was counted.
        lost = {size: share for size, share in measured.values.items() if share.low > 0}
        one = of.get((measured.variant, measured.pattern))
        if one is None or not lost:
            continue
        size = max(lost, key=lambda size: lost[size].value)
        if lost[size].value < LEAST:
            continue
        drops = _drops(one, size)
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
            else "They were dropped on the way, or by an interface whose queue was full.",
            remedy=_remedy(one, bool(drops)),
        )


def _drops(one: Opened, size: int) -> int:
    records = (record for point in one.curve.points if point.size_bytes == size for record in point.by_launch)
    return sum(record.counters.get(DROPS, 0) for record in records)


def _remedy(one: Opened, dropped: bool) -> str:
    larger = ["a larger rcvbuf (net.core.rmem_max bounds it)"] if dropped and "rcvbuf" in one.has else []
    slower = ["a rate (Mbit/s) that the receiver and the way can carry"] if "rate" in one.has else []
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
            measures=[examples.measure(MEASURE, "1", share if size > 8 else 0.0)],
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
