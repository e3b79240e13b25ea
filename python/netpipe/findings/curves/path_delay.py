# SPDX-License-Identifier: Apache-2.0
"""The path between two hosts is long: most of a small message's time is its way there."""

from __future__ import annotations

from collections.abc import Iterator

from netpipe.findings import CURVES, NOTE, CannotJudge, Finding, Quantity, quantity, rule
from netpipe.findings.curves import opened
from netpipe.findings.curves.links import between_hosts, shortest_round_trip_us
from netpipe.findings.curves.waiting import timer_interval
from netpipe.reading import Reading
from netpipe.reading.summary import latency_place
from netpipe.records import Run
from netpipe.units import percent_text, size_text, time_text

LEAST_RTT_US = 300  # longer than a local network with its hosts takes
OF_LATENCY = 0.5


@rule("path-delay", "A long path", about=CURVES, needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires where the shortest round trip that TCP saw is long, and half of it is most of a small message's time."""
    counted = judged = False
    for one in opened(reading):
        rtt_us = shortest_round_trip_us(one)
        counted = counted or rtt_us is not None
        place = latency_place(one.curve.points)
        if rtt_us is None or place is None or one.curve.pattern != "pingpong":
            continue
        judged = True
        at = one.curve.points[place]
        share = rtt_us * 1e3 / 2 / at.time_ns.value
        # What an interface holds back for its timer is in the round trip that TCP sees, and has a setting.
        if rtt_us < LEAST_RTT_US or share < OF_LATENCY or timer_interval.of_interface(reading, one):
            continue
        yield Finding(
            severity=NOTE,
            variant=one.curve.variant,
            pattern=one.curve.pattern,
            size_bytes=at.size_bytes,
            what=f"{one.curve.variant} takes {time_text(at.time_ns.value)} for {size_text(at.size_bytes)}, "
            f"{percent_text(min(share, 1))} of which the path itself takes: its round trip is never below "
            f"{time_text(rtt_us * 1e3)}.",
            evidence={"round trip": Quantity(rtt_us * 1e3, "ns"), "time": quantity(at.time_ns, "ns")},
            certainty="The kernel measured the round trip of the same connection.",
            cause="Distance, or something on the way that holds packets back. No setting of the layer changes it.",
            remedy="keep more messages on their way (pattern window), send fewer and larger ones, and give sockets "
            "buffers above rate x round-trip time",
        )
    if not judged:
        lacking = "no pingpong of a layer that counts round trips was measured"
        raise CannotJudge(lacking if counted else "no layer counted round trips")


def fires() -> Run:
    return between_hosts({}, {"min_rtt_us": 1800}, {8: 1e6})


def silent() -> Run:
    return between_hosts({}, {"min_rtt_us": 90}, {8: 1e6})
