# SPDX-License-Identifier: Apache-2.0
"""A network card that gathers packets before it interrupts: a lone small message waits for its timer."""

from __future__ import annotations

from collections.abc import Iterator

from netpipe.findings import CURVES, WARNING, CannotJudge, Finding, Quantity, quantity, rule
from netpipe.findings.curves import opened
from netpipe.findings.curves.links import between_hosts, interfaces
from netpipe.findings.machine import Facts
from netpipe.reading import Reading
from netpipe.reading.summary import latency_place
from netpipe.records import Run
from netpipe.units import size_text, time_text

LEAST_WAIT = 0.2  # of a small message's time


@rule("interrupt-coalescing", "Interrupt coalescing", about=CURVES, needs=("environment",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires where the card may hold back the interrupt for a packet for a fifth of a small message's time or longer."""
    judged = False
    for one in opened(reading):
        place = latency_place(one.curve.points)
        if place is None or one.curve.pattern != "pingpong":
            continue
        at = one.curve.points[place]
        for name, facts in interfaces(reading, one):
            judged = judged or facts.number("coalescing.rx_us") is not None
            wait_ns = held_back_ns(facts, at.time_ns.value)
            if wait_ns is None:
                continue
            yield Finding(
                severity=WARNING,
                variant=one.curve.variant,
                pattern=one.curve.pattern,
                size_bytes=at.size_bytes,
                what=f"{one.curve.variant} takes {time_text(at.time_ns.value)} for {size_text(at.size_bytes)}, and "
                f"{name} may hold the interrupt for a packet back for {time_text(wait_ns)}.",
                evidence={"wait": Quantity(wait_ns, "ns"), "time": quantity(at.time_ns, "ns")},
                certainty="The setting is certain; its effect on this curve was not measured.",
                cause="The card gathers packets so that fewer interrupts cost processor time. A lone small message "
                "waits for the timer.",
                remedy=f"ethtool -C {name} adaptive-rx off rx-usecs 0, and measure again",
            )
            break
    if not judged:
        raise CannotJudge("no host recorded how the network card of a pingpong holds interrupts back")


def held_back_ns(facts: Facts, time_ns: float) -> float | None:
    """How long an interface, of which these are the facts, may hold the interrupt for a packet back; None where that is
    little beside this time of a small message.
    """
    wait_us, frames = facts.number("coalescing.rx_us"), facts.number("coalescing.rx_frames")
    # One frame that is enough for an interrupt makes the time irrelevant.
    if not wait_us or frames == 1 or wait_us * 1e3 < LEAST_WAIT * time_ns:
        return None
    return wait_us * 1e3


def _run(rx_us: int) -> Run:
    return between_hosts({"coalescing": {"rx_us": rx_us, "rx_frames": 64}}, {}, {8: 6e4})


def fires() -> Run:
    return _run(50)


def silent() -> Run:
    return _run(3)
