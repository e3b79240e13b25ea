# SPDX-License-Identifier: Apache-2.0
"""ucx_perftest: one size for each run of it, which its server prints and its client does not."""

from __future__ import annotations

import re
from collections.abc import Iterator

from netpipe.peers import MEBI, US, Given, NotReadable, Number, Result, numbered, peer, real, whole

FINAL = re.compile(r"^Final:\s+(.*)")
SIZE = re.compile(r"Message size:\s*(\d+)")
TEST = re.compile(r"\|\s+(?:Test|API):\s+(.*?)\s*\|")
ALL = 8  # columns


@peer("ucx_perftest", r"^\|\s+Stage\s+\| # iterations")
def read(text: str, given: Given) -> Iterator[Result]:
    """Each test in the text."""
    size, test, columns = given.size_bytes, "", ""
    found = False
    for _, line in numbered(text, given):
        if said := SIZE.search(line):
            size = whole(said[1])
        if (said := TEST.search(line)) and line.lstrip("| ").startswith("Test"):
            test = said[1].lower()
        if "(usec)" in line:
            columns = line
        if final := FINAL.match(line):
            words = final[1].split()
            if len(words) < ALL:
                given.notes.append("the last line is cut off and was left out")
                continue
            if size is None:
                raise NotReadable("its client does not print the size of the messages; give it with --size")
            yield _one(size, test, "latency" in columns, [real(word) for word in words])
            found = True
    if not found:
        raise NotReadable("it has no line 'Final:', so the test did not end")


def _one(size: int, test: str, latency: bool, values: list[float]) -> Result:
    _, middle, _, overall, _, overall_rate, *_ = values
    if latency:
        kind = next((kind for kind in ("put", "get") if kind in test), "pingpong")
        number = Number(
            size, middle * US, size / (middle * US) * 1e9 if size and middle else None, mean_ns=overall * US
        )
        return Result(kind, "ucx_perftest: the median; its latency is half of a round trip", [number])
    rate = overall_rate * MEBI
    if not rate > 0:
        raise NotReadable("it has no bandwidth above 0")
    return Result(
        "window:in_flight=32",
        "ucx_perftest: the mean over the whole test, up to 32 messages in flight; MB = 2^20 bytes",
        [Number(size, size / rate * 1e9, rate)],
    )
