# SPDX-License-Identifier: Apache-2.0
"""A TCP sender that waits for the receiver's window, though no buffer was set: the kernel's own limit is too small.

TCP counts how long it had something to send and was held back by the window of the receiver (tcp_info of Linux:
tcpi_busy_time and tcpi_rwnd_limited). Of runs over loopback and over links without a fixed buffer this was at most
16 %, of those with a receive buffer of 4 to 8 KiB 49 to 100 %.
"""

from __future__ import annotations

from collections.abc import Iterator

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
from netpipe.findings.curves import opened, with_setting
from netpipe.reading import Reading
from netpipe.reading.curves import CurvePoint
from netpipe.records import Rank, Run
from netpipe.units import percent_text, rate_text, size_text

BUSY, LIMITED = "busy_us", "rwnd_limited_us"
LEAST_BYTES = 65536
SHARE = 0.3  # of the time in which there was something to send
LEAST_BUSY_US = 8000  # the kernel counts in ticks of its timer, of 1 to 10 ms
LARGER = "8M"  # that the experiment asks for


@rule("receive-window", "Receiver's window", about=CURVES, needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires where the receive buffer was left to the kernel, and at the largest size the sender waited for the window
    for 30 % of the time. Fixed buffers are what `small-buffers` judges.
    """
    left = [one for one in opened(reading) if one.settings.get("rcvbuf_autotuned") == "yes"]
    if not left:
        raise CannotJudge("no layer left its receive buffer to the kernel and recorded that")
    for one in left:
        last = one.curve.points[-1] if len(one.curve.points) else None
        if last is None or last.size_bytes < LEAST_BYTES or last.rate_bytes_per_s is None:
            continue
        share = _share(last)
        if share is None or share < SHARE:
            continue
        variant, pattern = one.curve.variant, one.curve.pattern
        confirm = Confirm(variant, with_setting(variant, "rcvbuf", LARGER), pattern, [last.size_bytes])
        yield Finding(
            severity=WARNING,
            variant=variant,
            pattern=pattern,
            size_bytes=last.size_bytes,
            what=f"{variant} reaches {rate_text(last.rate_bytes_per_s.value)} at {size_text(last.size_bytes)}, and in "
            f"{percent_text(share)} of the time its sender waits for the receiver's window.",
            evidence={"share": Quantity(share, "1"), "rate": quantity(last.rate_bytes_per_s, "bytes/s")},
            certainty="TCP counted that time; what a larger window gains is shown by the experiment.",
            cause="The largest receive buffer that the kernel allows holds less than the way does, or the receiver "
            "reads too slowly.",
            remedy="a larger third number of net.ipv4.tcp_rmem (above rate x round-trip time), or rcvbuf, which "
            "net.core.rmem_max bounds",
            confirm=confirm,
        )


def _share(point: CurvePoint) -> float | None:
    """Over all launches; None where TCP did not count long enough."""
    counted = [record.counters for record in point.by_launch]
    busy = sum(counters.get(BUSY, 0) for counters in counted)
    return sum(counters.get(LIMITED, 0) for counters in counted) / busy if busy >= LEAST_BUSY_US else None


def _run(limited_us: int) -> Run:
    counters = {BUSY: 100_000, LIMITED: limited_us}
    made = examples.run(examples.point("tcp", 1 << 20, 1e6, counters=counters), variants=("tcp",))
    for plan in made.plans:
        plan.variants[:] = [msgspec.structs.replace(one, options={"rcvbuf": "0"}) for one in plan.variants]
    for variant in made.variants:
        variant.ranks[:] = [Rank(rank=0, settings={"rcvbuf_autotuned": "yes"})]
    return made


def fires() -> Run:
    return _run(60_000)


def silent() -> Run:
    return _run(16_000)
