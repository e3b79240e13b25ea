# SPDX-License-Identifier: Apache-2.0
"""The Intel MPI benchmarks: for each benchmark its name, the number of processes, column names, rows."""

from __future__ import annotations

import re
from collections.abc import Iterator

from netpipe.peers import MEGA, US, Given, NotReadable, Number, Result, numbered, peer, rows, timed, whole

NAME = re.compile(r"^# Benchmarking (\S+)")
RANKS = re.compile(r"^# #processes = (\d+)")
COLUMNS = re.compile(r"^\s*#bytes\s+#repetitions\s+(.*)")

PATTERNS = {
    "pingpong": "pingpong:buffers=apart",
    "sendrecv": "ring:call=sendrecv,buffers=apart",
    "exchange": "exchange:call=recv,buffers=apart",
    "uniband": "window:in_flight=64,places=one",
    "biband": "window:in_flight=64,places=one,directions=both",
}
COLLECTIVES = re.compile(
    r"bcast|reduce(_scatter(_block)?)?|allreduce|(all)?gatherv?|scatterv?|alltoallv?|(ex)?scan|barrier"
)
SOURCE = "IMB: the mean over repetitions; buffers of sending and receiving apart"
OF_RANKS = "IMB: the mean over repetitions, the average over ranks"


@peer("Intel MPI benchmarks", r"^# Benchmarking \S+")
def read(text: str, given: Given) -> Iterator[Result]:
    """Every benchmark in the text."""
    lines = numbered(text, given)
    starts = [place for place, (_, line) in enumerate(lines) if NAME.match(line)]
    if not starts:
        raise NotReadable("it has no line '# Benchmarking NAME'")
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        name = NAME.match(lines[start][1])
        assert name
        found = _one(name[1], lines[start:end], given)
        if found.numbers:
            yield found


def _one(name: str, lines: list[tuple[int, str]], given: Given) -> Result:
    ranks = next((whole(found[1]) for _, line in lines if (found := RANKS.match(line))), None)
    columns = next((found[1].split() for _, line in lines if (found := COLUMNS.match(line))), [])
    numbers: list[Number | None] = []
    if "t[usec]" in columns:
        at = 2 + columns.index("t[usec]")
        numbers = [timed(row[0], row[at], mean_ns=row[at] * US) for row in rows(lines, at + 1, given)]
    elif {"t_min[usec]", "t_max[usec]", "t_avg[usec]"} <= set(columns):
        least, most, mean = (2 + columns.index(f"t_{which}[usec]") for which in ("min", "max", "avg"))
        numbers = [
            timed(row[0], row[mean], mean_ns=row[mean] * US, min_ns=row[least] * US, max_ns=row[most] * US)
            for row in rows(lines, mean + 1, given)
        ]
    elif "t_pure[usec]" in columns:  # a non-blocking collective: the operation without computation
        at = 2 + columns.index("t_pure[usec]")
        numbers = [timed(row[0], row[at], mean_ns=row[at] * US) for row in rows(lines, at + 1, given)]
    elif "Mbytes/sec" in columns:
        at = 2 + columns.index("Mbytes/sec")
        numbers = [
            Number(int(row[0]), row[0] / (row[at] * MEGA) * 1e9, row[at] * MEGA)
            for row in rows(lines, at + 1, given)
            if row[0] > 0 and row[at] > 0
        ]
    lower = name.lower()
    overlaps = COLLECTIVES.fullmatch(lower.removeprefix("i")) if "t_pure[usec]" in columns else None
    pattern = PATTERNS.get(lower) or (
        f"collective_overlap:what={overlaps[0]},work=100"
        if overlaps
        else f"collective:what={lower},start=barrier"
        if COLLECTIVES.fullmatch(lower)
        else f"imb {lower}"
    )
    source = OF_RANKS if COLLECTIVES.fullmatch(lower) or "t_avg[usec]" in columns else SOURCE
    return Result(pattern, source, [number for number in numbers if number], ranks)
