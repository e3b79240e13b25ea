# SPDX-License-Identifier: Apache-2.0
"""Nagle's algorithm waits for an acknowledgement that the receiver delays: a flat 40 ms (RFC 896, RFC 1122 4.2.3.2)."""

from __future__ import annotations

from collections.abc import Iterator

from netpipe.findings import SEVERE, Confirm, Finding, examples, quantity, rule
from netpipe.findings.curves import command, opened, with_setting
from netpipe.reading import Reading
from netpipe.records import Rank, Run
from netpipe.units import size_text, time_text

LEAST_NS, MOST_NS = (
    15e6,
    60e6,
)  # Linux delays by 40 ms, a message of two writes waits half of it in a ping-pong


@rule("delayed-acknowledgement", "Delayed acknowledgement", needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires where TCP_NODELAY is off and a message takes the time of a delayed acknowledgement."""
    for one in opened(reading):
        if one.settings.get("nodelay") != "no":
            continue
        slow = [at for at in one.curve.points if LEAST_NS <= at.time_ns.value <= MOST_NS]
        if not slow:
            continue
        worst = max(slow, key=lambda at: at.time_ns.value)
        variant = one.curve.variant
        confirm = Confirm(
            variant, with_setting(variant, "nodelay", "yes"), one.curve.pattern, [worst.size_bytes]
        )
        yield Finding(
            severity=SEVERE,
            variant=variant,
            pattern=one.curve.pattern,
            size_bytes=worst.size_bytes,
            what=f"{variant} takes {time_text(worst.time_ns.value)} for {size_text(worst.size_bytes)}: the time of a "
            "delayed acknowledgement, not of the network.",
            evidence={"time": quantity(worst.time_ns, "ns")},
            certainty="The setting is certain; that it is the cause is shown by the experiment.",
            cause="TCP_NODELAY is off, so the kernel holds a small segment back until the one before is acknowledged, "
            "and the receiver delays that acknowledgement by up to 40 ms.",
            remedy="switch Nagle's algorithm off: nodelay=yes, TCP_NODELAY in a program",
            experiment=command(confirm),
            confirm=confirm,
        )


def _run(nodelay: str) -> Run:
    made = examples.run(examples.point("tcp", 8, 2e4), examples.point("tcp", 4096, 2.04e7))
    for variant in made.variants:
        variant.ranks[:] = [Rank(rank=0, settings={"nodelay": nodelay})]
    return made


def fires() -> Run:
    return _run("no")


def silent() -> Run:
    return _run("yes")
