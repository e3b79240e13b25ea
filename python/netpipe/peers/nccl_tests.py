# SPDX-License-Identifier: Apache-2.0
"""nccl-tests: rows of size, count, type, operation, root, and for out of place and in place time, two rates, errors."""

from __future__ import annotations

import re
from collections.abc import Iterator

from netpipe.peers import US, Given, NotReadable, Number, Result, numbered, peer, real, whole

ROW = re.compile(r"^\s*(\d+)\s+\d+\s+(\w+)\s+(\w+)\s+(-?\d+)\s+(.*)")
RANK = re.compile(r"^#\s+Rank\s+(\d+)", re.MULTILINE)
TEST = re.compile(r"^# (?:nccl|rccl)-tests.*|^# Collective test starting: (\w+)_perf", re.MULTILINE)
SOURCE = "nccl-tests: the mean over iterations, {}; the rate is its algbw"


@peer("nccl-tests", r"algbw\s+busbw")
def read(text: str, given: Given) -> Iterator[Result]:
    """Out of place and in place, a curve each."""
    ranks = len(set(RANK.findall(text))) or None
    test = next((found[1] for found in TEST.finditer(text) if found[1]), "")
    name = f"collective:what={test.replace('_', '')}" if test else "nccl"
    out: list[Number] = []
    within: list[Number] = []
    for number, line in numbered(text, given):
        if (row := ROW.match(line)) is None:
            continue
        values = row[5].split()
        if len(values) < 4:
            given.notes.append(f"line {number} is cut off and was left out: {line.strip()[:40]!r}")
            continue
        for into, part in ((out, values[:4]), (within, values[4:8])):
            if len(part) < 3 or "N/A" in part[:3]:
                continue
            time, rate = real(part[0]) * US, real(part[1]) * 1e9
            if time > 0:
                into.append(Number(whole(row[1]), time, rate or None, mean_ns=time))
    if not out and not within:
        raise NotReadable("it has no row of size, count, type, operation and root")
    if out:
        yield Result(name, SOURCE.format("out of place"), out, ranks)
    if within:
        yield Result(f"{name},in_place=yes", SOURCE.format("in place"), within, ranks)
