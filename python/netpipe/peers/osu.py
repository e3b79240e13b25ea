# SPDX-License-Identifier: Apache-2.0
"""The OSU micro-benchmarks: a title with the test's name, a line that names the columns, rows of numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from netpipe.peers import MEGA, US, Given, NotReadable, Number, Result, numbered, peer, rated, rows, timed

TITLE = re.compile(
    r"^# OSU (?:MPI|OpenSHMEM|UPC\+?\+?|NCCL|XCCL|ROCm)?[^\S\n]*(.*?) (?:Test|test)\b", re.MULTILINE
)
COLUMN = re.compile(r"\s{2,}")

# What a title says -> the pattern of ours that does the same.
PATTERNS = {
    "latency": "pingpong:buffers=apart",
    "bandwidth": "window:in_flight=64,places=one",
    "bidirectional bandwidth": "window:in_flight=64,places=one,directions=both",
    "bi directional bandwidth": "window:in_flight=64,places=one,directions=both",
    "put bandwidth": "put:in_flight=64",
    "get bandwidth": "get:in_flight=64",
    "put latency": "put",
    "get latency": "get",
    "one sided put latency": "put",
    "one sided get latency": "get",
    "accumulate latency": "accumulate",
    "get accumulate latency": "accumulate:fetch=yes",
    "fetch and op latency": "atomic",
    "compare and swap latency": "atomic:op=compare_swap",
}
SOURCE = "OSU: the mean over all iterations; buffers of sending and receiving apart"
OF_WINDOWS = (
    "OSU: the mean over all windows of 64 messages, one buffer for all; acknowledged; MB = 10^6 bytes"
)
OF_PUTS = "OSU: the mean over all windows of 64 operations, a place for each; MB = 10^6 bytes"
OF_RANKS = "OSU: the mean over iterations and ranks"


@peer("OSU micro-benchmarks", r"^# OSU ")
def read(text: str, given: Given) -> Iterator[Result]:
    """All tests in the text, as several outputs one after the other may be."""
    lines = numbered(text, given)
    starts = [place for place, (_, line) in enumerate(lines) if TITLE.match(line)]
    if not starts:
        raise NotReadable("it has no line '# OSU MPI ... Test', so nothing says which test it is")
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        title = TITLE.match(lines[start][1])
        assert title
        yield _one(title[1].strip(), lines[start + 1 : end], given)


def _one(test: str, lines: list[tuple[int, str]], given: Given) -> Result:
    header = next((line for _, line in lines if line.startswith(("# Size", "# Message"))), "")
    names = [name.lower() for name in COLUMN.split(header.lstrip("# ").strip())] or [""]
    if len(names) < 2:
        raise NotReadable(f"the test '{test}' has no line '# Size ...' that names its columns")
    found: list[Number | None]
    pattern, source = _pattern(test)
    alone = _column(names, "pure comm")  # of a non-blocking collective: the operation without computation
    if "mb/s" in names[1]:
        found = [rated(row[0], row[1] * MEGA) for row in rows(lines, 2, given)]
        source = OF_PUTS if "in_flight=64" in pattern and not pattern.startswith("window") else OF_WINDOWS
    else:
        least, most = _column(names, "min"), _column(names, "max")
        found = [
            timed(
                row[0],
                row[alone or 1],
                mean_ns=row[alone or 1] * US,
                min_ns=row[least] * US if least else None,
                max_ns=row[most] * US if most else None,
            )
            for row in rows(lines, max(2, least + 1, most + 1, alone + 1), given)
        ]
    return Result(pattern, source, [number for number in found if number])


def _column(names: list[str], word: str) -> int:
    """Where a column stands; 0: nowhere."""
    return next((place for place, name in enumerate(names) if place and name.startswith(word)), 0)


def _pattern(test: str) -> tuple[str, str]:
    name = test.lower().removeprefix("mpi_").replace("-", "").replace("_", " ").strip()
    if name in PATTERNS:
        return PATTERNS[name], SOURCE
    if overlap := re.fullmatch(r"nonblocking (\w+) latency", name.replace("all to all", "alltoall")):
        return f"collective_overlap:what={overlap[1]},work=100", OF_RANKS
    if collective := re.fullmatch(
        r"(\w+?)(?: personalized exchange)? (?:collective )?latency", name.replace("all to all", "alltoall")
    ):
        return f"collective:what={collective[1]},start=barrier", OF_RANKS
    return f"osu {name}", SOURCE
