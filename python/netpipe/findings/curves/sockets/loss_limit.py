# SPDX-License-Identifier: Apache-2.0
"""The rate that lost packets leave to a congestion control that takes each loss for a full link, and whether a curve is
at it, by what TCP counted.

Where a share p of the segments is lost at random, the window of such a control is on average sqrt(3/2) / sqrt(p)
segments (Mathis et al., "The Macroscopic Behavior of the TCP Congestion Avoidance Algorithm", 1997); that of CUBIC is
(C (3 + b) / (4 (1 - b)))^(1/4) (RTT / p)^(3/4) segments where this is more, with RTT in seconds, C = 0.4 and b = 0.7
(RFC 9438, section 5.1). Between two hosts of a lab with 1 Gb/s, a round trip of 4 ms and 1 % of losses, CUBIC had three
quarters of that (tests/kept/link-lossy.jsonl), and a fortieth of the link.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from netpipe.findings.curves import Opened
from netpipe.findings.curves.links import interfaces
from netpipe.reading import Reading

CUBIC = "cubic"
CONTROLS = (CUBIC, "reno")
RETRANSMITS, AGAIN, SENT = "retransmits", "bytes_retransmitted", "bytes_sent"
BUSY, HELD_BACK = "busy_us", ("rwnd_limited_us", "sndbuf_limited_us")
RTT, MIN_RTT = "rtt_us", "min_rtt_us"
LEAST_BYTES = 1 << 16
LEAST_LOST = 10  # segments: of fewer the share is not known well enough
MOST_HELD_BACK = (
    0.3  # of the busy time: the window of the receiver, or a buffer, is what holds the sender back
)
# Times the shortest round trip: longer ones say that a queue stands before the link, so that the link is full.
QUEUED = 2.0
NEAR = (1 / 3, 2.0)  # times the rate that losses leave: in between they are what limits
FULL = 0.6  # of the rate of the link, as far as that is known: the link is what limits


@dataclass(frozen=True, slots=True)
class Limit:
    """What TCP counted of a curve that is at the limit."""

    sent_again: float  # the share of its bytes
    round_trip_ns: float  # the shortest
    reached_bytes_per_s: float  # the rate of one connection while it had something to send
    left_bytes_per_s: float  # what losses leave of that


def counted(one: Opened) -> bool:
    """Does the layer count what it sent, so that no retransmits mean that there were none?"""
    return any(counters.get(SENT) for counters in _counters(one, 0))


def limit(reading: Reading, one: Opened, control: str) -> Limit | None:
    """Of a curve between hosts with one connection for each two ranks. None: losses are not what limits it, or that is
    not known.
    """
    last = one.curve.points[-1] if len(one.curve.points) else None
    mss = one.settings.get("snd_mss_bytes", "")
    if last is None or last.size_bytes < LEAST_BYTES or last.rate_bytes_per_s is None or not mss.isdigit():
        return None
    if one.settings.get("streams", "1") != "1":  # that was done against it
        return None
    link = min(_rates(reading, one), default=math.inf)
    if last.rate_bytes_per_s.value >= FULL * link:
        return None
    all_counted = list(_counters(one, LEAST_BYTES))
    total = {
        name: sum(counters.get(name, 0) for counters in all_counted)
        for name in (RETRANSMITS, AGAIN, SENT, BUSY, *HELD_BACK)
    }
    shortest_us = min((counters[MIN_RTT] for counters in all_counted if counters.get(MIN_RTT)), default=0)
    if total[RETRANSMITS] < LEAST_LOST or not all((total[AGAIN], total[SENT], total[BUSY], shortest_us)):
        return None
    if sum(total[name] for name in HELD_BACK) > MOST_HELD_BACK * total[BUSY]:
        return None
    # Of each launch it is the longest of its visits: in one launch of several nothing else may have delayed any.
    least_us = min((point.counters[RTT] for point in last.by_launch if point.counters.get(RTT)), default=0)
    if least_us > QUEUED * shortest_us:
        return None
    share, round_trip_s = total[AGAIN] / total[SENT], shortest_us * 1e-6
    left = window(control, share, round_trip_s) * int(mss) / round_trip_s
    # All bytes and times are sums over the connections, so this is the rate of one.
    reached = (total[SENT] - total[AGAIN]) / (total[BUSY] * 1e-6)
    if not NEAR[0] * left <= reached <= NEAR[1] * left:
        return None
    return Limit(share, round_trip_s * 1e9, reached, left)


def window(control: str, lost: float, round_trip_s: float) -> float:
    """The average window, in segments, where this share of them is lost."""
    reno = math.sqrt(1.5 / lost)
    if control != CUBIC:
        return reno
    return max(reno, math.pow(0.4 * 3.7 / 1.2, 0.25) * math.pow(round_trip_s / lost, 0.75))


def _counters(one: Opened, least_bytes: int) -> Iterator[Mapping[str, int]]:
    """Of each launch, at the sizes from this one on."""
    for at in one.curve.points:
        if at.size_bytes >= least_bytes:
            yield from (point.counters for point in at.by_launch)


def _rates(reading: Reading, one: Opened) -> Iterator[float]:
    """Bytes per second of the interfaces that the curve used, or of the shaper on them."""
    for _, facts in interfaces(reading, one):
        bits_per_s = facts.number("qdisc.bits_per_s") or facts.number("bits_per_s")
        if bits_per_s:
            yield bits_per_s / 8
