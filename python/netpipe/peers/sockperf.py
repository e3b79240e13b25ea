# SPDX-License-Identifier: Apache-2.0
"""sockperf: one size, which it does not print, and its latency with percentiles, or its rate."""

from __future__ import annotations

import re
from collections.abc import Iterator

from netpipe.peers import ESCAPES, US, Given, NotReadable, Number, Result, peer, real

LATENCY = re.compile(r"avg-(?:latency|lat)=\s*([\d.]+)|Latency is ([\d.]+) usec")
PERCENTILE = re.compile(r"percentile ([\d.]+)\s*=\s*([\d.]+)")
EXTREME = re.compile(r"<(MIN|MAX)> observation\s*=\s*([\d.]+)")
RATE = re.compile(r"Message Rate is ([\d.]+) \[msg/sec\]")


@peer("sockperf", r"^sockperf: ")
def read(text: str, given: Given) -> Iterator[Result]:
    """Half of the round trip, as sockperf prints it."""
    if given.size_bytes is None:
        raise NotReadable(
            "sockperf does not print the size of its messages; give it with --size (its default is 14)"
        )
    plain = ESCAPES.sub("", text)
    percentiles = {real(which): real(value) * US for which, value in PERCENTILE.findall(plain)}
    if rate := RATE.search(plain):
        messages = real(rate[1])
        if not messages > 0:
            raise NotReadable("it has no rate above 0")
        number = Number(given.size_bytes, 1e9 / messages, given.size_bytes * messages or None)
        yield Result("stream", "sockperf throughput: messages sent a second", [number])
        return
    mean = LATENCY.search(plain)
    extremes = {which: real(value) * US for which, value in EXTREME.findall(plain)}
    if mean is None or 50.0 not in percentiles:
        raise NotReadable(
            "it has neither a message rate nor a latency with its median; was sockperf interrupted?"
        )
    middle = percentiles[50.0]
    yield Result(
        "pingpong",
        "sockperf ping-pong: the median of half the round trips",
        [
            Number(
                given.size_bytes,
                middle,
                given.size_bytes / middle * 1e9 if given.size_bytes and middle else None,
                mean_ns=real(mean[1] or mean[2]) * US,
                min_ns=extremes.get("MIN"),
                max_ns=extremes.get("MAX"),
                p90_ns=percentiles.get(90.0),
                p99_ns=percentiles.get(99.0),
                p999_ns=percentiles.get(99.9),
            )
        ],
    )
