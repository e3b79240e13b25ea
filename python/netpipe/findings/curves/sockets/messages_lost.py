# SPDX-License-Identifier: Apache-2.0
"""A layer that sends nothing again loses messages: the receiver has no room for them, or the way drops them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import msgspec

from netpipe.findings import (
    CURVES,
    WARNING,
    CannotJudge,
    Confirm,
    Finding,
    Quantity,
    examples,
    quantity,
    rule,
)
from netpipe.findings.curves import with_setting
from netpipe.findings.experiments import LOWER, Judged
from netpipe.findings.machine import Facts
from netpipe.reading import Reading
from netpipe.reading.blocks.visits import FEWEST_LAUNCHES
from netpipe.reading.measures import LOSS, Measured
from netpipe.records import Environment, Measure, Point, Rank, Run, Skipped
from netpipe.units import percent_text, size_text

DROPS, GONE = "kernel_drops", "datagrams_lost"
LEAST = 0.001  # of the messages
JUDGED = Judged(LOSS, "fraction of messages lost", LOWER, 0.0)
LIMIT = "network.core.rmem_max_bytes"  # what a host says of itself
BUFFER, RATE = "rcvbuf", "rate"  # the settings that get messages back
MOST_BUFFER = 8 << 20  # bytes that the experiment asks for
SLOWER = 0.5  # the rate of the experiment, of what arrived
OVERTAKEN = " The layer keeps no order, so some may have been overtaken, and have come too late."


@rule("messages-lost", "Messages were lost", about=CURVES)
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires where every launch lost some, and one message of a thousand or more did not arrive. One finding for each
    curve: the size that loses most, which may have no time at all.
    """
    opened = {one.variant for one in reading.run.variants if one.ranks}
    unordered = {one.variant for one in reading.run.variants if one.promises and one.promises.unordered}
    options = {one.variant: one.options for plan in reading.run.plans for one in plan.variants}
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
        drops, mostly = _drops(reading.run, measured, size)
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
            if mostly
            else "They were dropped on the way, or by an interface whose queue was full."
            + (OVERTAKEN if measured.variant in unordered else ""),
            remedy=_remedy(options[measured.variant], bool(drops)),
            confirm=_confirm(reading, measured, size, options[measured.variant]) if mostly else None,
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


def _drops(run: Run, of: Measured, size: int) -> tuple[int, bool]:
    """How many datagrams the kernel dropped, and whether in most launches that is half of the lost ones or more."""
    at = (of.variant, of.pattern, size)
    records: tuple[Point | Skipped, ...] = (*run.points, *run.skipped)
    counted = [one.counters for one in records if (one.variant, one.pattern, one.size_bytes) == at]
    dropped = [one.get(DROPS, 0) for one in counted]
    most = [drops > 0 and 2 * drops >= one.get(GONE, 0) for drops, one in zip(dropped, counted, strict=True)]
    return sum(dropped), 2 * sum(most) > len(most)


def _remedy(options: Collection[str], dropped: bool) -> str:
    larger = ["a larger rcvbuf (net.core.rmem_max bounds it)"] if dropped and BUFFER in options else []
    slower = ["a rate (Mbit/s) that the receiver and the way can carry"] if RATE in options else []
    return (
        ", or ".join([*larger, *slower])
        or "fewer messages on their way at a time, or a layer that sends again"
    )


def _confirm(reading: Reading, of: Measured, size: int, options: Mapping[str, str]) -> Confirm | None:
    """Of messages for which a receiver had no room: the variant with a buffer at least twice as large, at half the rate
    at which messages arrived. Both, because a flood fills any buffer, and a small one loses bursts at any rate. None:
    it has neither setting, or the kernel gives no more and no rate is known.
    """
    remedied = of.variant
    for name, value in (
        (BUFFER, _larger(reading.run, of.variant)),
        (RATE, _slower(reading, of, size, options)),
    ):
        if name in options and value is not None:
            remedied = with_setting(remedied, name, value)
    if remedied == of.variant:
        return None
    return Confirm(of.variant, remedied, of.pattern, [size], judged=JUDGED)


def _larger(run: Run, variant: str) -> str | None:
    """The largest buffer that every host gives; None where that is not known, or not twice what the ranks have. The
    kernel counts twice what is asked for, for its own bookkeeping (socket(7)).
    """
    limits = [Facts(one.facts).number(LIMIT) or 0 for one in run.environments]
    ranks = [rank for one in run.variants if one.variant == variant for rank in one.ranks]
    given = [text for rank in ranks if (text := rank.settings.get("rcvbuf_kernel_bytes", "")).isdigit()]
    if not limits or not given or len(given) < len(ranks):
        return None
    asked = int(min(MOST_BUFFER, *limits))
    if asked < min(map(int, given)):  # of the kernel's bytes it becomes twice as many
        return None
    if asked % (1 << 20) == 0:
        return f"{asked >> 20}M"
    return str(asked) if asked % 1024 else f"{asked >> 10}k"


def _slower(reading: Reading, of: Measured, size: int, options: Mapping[str, str]) -> str | None:
    """In Mbit/s, and below the rate that was set; None where no sample has a time."""
    curve = reading.by_name.get((of.variant, of.pattern))
    at = next((point for point in curve.points if point.size_bytes == size), None) if curve else None
    if at is None or at.rate_bytes_per_s is None:
        return None
    arrived, text = 8e-6 * at.rate_bytes_per_s.value, options.get(RATE, "0")
    asked = int(text) if text.isdigit() and int(text) > 0 else arrived
    return str(max(1, int(SLOWER * min(arrived, asked))))


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
    facts = {"network": {"core": {"rmem_max_bytes": 4 << 20}}}
    made = examples.run(Environment(host="node17", facts=facts), *points, variants=("udp",))
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
