# SPDX-License-Identifier: Apache-2.0
"""iperf3 with -J: one JSON object, one size (the length of a write), and a rate for each second."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

import msgspec

from netpipe.peers import MOST_BYTES, Given, NotReadable, Number, Result, peer

SOURCE = (
    "iperf3: the median over its intervals, as the receiver saw it in all; a stream of writes of this length"
)


class _Sum(msgspec.Struct):
    bits_per_second: float = 0.0
    seconds: float = 0.0
    omitted: bool = False


class _Interval(msgspec.Struct):
    sum: _Sum


class _Test(msgspec.Struct):
    blksize: int
    protocol: str = "TCP"
    num_streams: int = 1


class _Start(msgspec.Struct):
    test_start: _Test


class _End(msgspec.Struct):
    sum_received: _Sum | None = None
    sum: _Sum | None = None


class _Output(msgspec.Struct):
    start: _Start
    end: _End
    intervals: list[_Interval] = []
    error: str | None = None


@peer("iperf3 -J", r'"test_start"\s*:|"iperf ')
def read(text: str, given: Given) -> Iterator[Result]:  # noqa: ARG001
    """The one number of a test."""
    try:
        raw: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):  # also an integer of thousands of digits
        raise NotReadable("it is not whole JSON: was iperf3 interrupted, or started without -J?") from None
    if isinstance(raw, dict) and raw.get("error"):
        raise NotReadable(f"iperf3 itself failed: {raw['error']}")
    try:
        output = msgspec.convert(raw, _Output, strict=False)
    except msgspec.ValidationError as error:
        raise NotReadable(f"it is not what iperf3 -J prints: {error}") from None
    whole = output.end.sum_received or output.end.sum
    rates = [one.sum.bits_per_second / 8 for one in output.intervals if not one.sum.omitted]
    size = output.start.test_start.blksize
    rate = median(rates) if rates else whole.bits_per_second / 8 if whole else 0.0
    if not rate > 0 or not 0 < size < MOST_BYTES:
        raise NotReadable("it has no rate above 0, or no length of a write")

    def time_ns(bytes_per_s: float) -> float | None:
        return size / bytes_per_s * 1e9 if bytes_per_s > 0 else None

    number = Number(
        size,
        size / rate * 1e9,
        rate,
        mean_ns=time_ns(whole.bits_per_second / 8) if whole else None,
        min_ns=time_ns(max(rates)) if rates else None,
        max_ns=time_ns(min(rates)) if rates else None,
    )
    test = output.start.test_start
    streams = f", {test.num_streams} streams" if test.num_streams > 1 else ""
    yield Result("stream", f"{SOURCE}; {test.protocol}{streams}", [number])
