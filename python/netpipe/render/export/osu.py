# SPDX-License-Identifier: Apache-2.0
"""One curve as the table that an OSU micro-benchmark prints, so that scripts which read those read ours.

Several messages in flight become a table of rates in MB/s (10^6 bytes), of several pairs or threads with their
messages per second; a non-blocking collective the four columns of its overlap; every other pattern a table of times in
microseconds. A number is the mean over all operations, as OSU prints it (of collectives the mean over the ranks too, of
several pairs the mean over these), or the median where no mean was recorded, as of the parts of an overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netpipe.reading.curves import CurvePoint

    Row = Callable[[CurvePoint], str | None]

RATES = ("window", "stream", "bidirectional")
ONE_SIDED = ("put", "get")  # tables of rates where several are in flight
SUMS = "accumulate"
COLLECTIVE, OVERLAP, THREADS = "collective", "collective_overlap", "threads"
SIZE_COLUMN, NUMBER_COLUMN = 10, 18  # as wide as in OSU's
OF_OVERLAP = ("Overall(us)", "Compute(us)", "Pure Comm.(us)", "Overlap(%)")


def write(
    points: Sequence[CurvePoint], pattern: str, options: Mapping[str, str], title: str, ranks: int = 2
) -> str:
    """points: of one curve. options: of its pattern, defaults included; in files without them those of its name. title:
    the variant, in the first line.
    """
    name = pattern.partition(":")[0]
    operation = options.get("what", "")
    pairs = max(1, ranks // 2)
    head: list[str] = []
    if name == OVERLAP:
        test = f"Non-blocking {operation.capitalize()} Latency"
        head = ["# Overall = Coll. Init + Compute + MPI_Test + MPI_Wait", ""]
        return _table(test, title, head, OF_OVERLAP, points, _overlap)
    if name == THREADS:
        threads = int(options.get("threads", 1))
        if options.get("traffic") == "window":
            return _rates(points, title, threads * pairs, options)
        head = [f"# Number of Sender threads: {threads} ", f"# Number of Receiver threads: {threads}"]
        return _table("Multi-threaded Latency", title, head, ("Latency (us)",), points, _time)
    if name == "window" and pairs > 1 and not _both(pattern):
        return _rates(points, title, pairs, options)
    if name in RATES or (name in ONE_SIDED and options.get("in_flight", "1") != "1"):
        test = f"MPI_{name.capitalize()} Bandwidth" if name in ONE_SIDED else "Bandwidth"
        if name != "stream" and _both(pattern):
            test = "Bi-Directional Bandwidth"
        return _table(test, title, head, ("Bandwidth (MB/s)",), points, _bandwidth)
    if name == COLLECTIVE:
        test = f"{operation.capitalize()} Latency"
        return _table(test, title, head, ("Avg Latency(us)",), points, _time)
    if name == SUMS:
        call = "MPI_Get_accumulate" if options.get("fetch") == "yes" else "MPI_Accumulate"
        return _table(f"{call} latency", title, head, ("Latency (us)",), points, _time)
    several = name == "pingpong" and pairs > 1
    test = "Multi Latency" if several else "Latency"
    return _table(test, title, head, ("Latency (us)",), points, _mean_of_pairs if several else _time)


def _table(
    test: str, title: str, head: Sequence[str], columns: Sequence[str], points: Sequence[CurvePoint], row: Row
) -> str:
    names = "".join(f"{column:>{NUMBER_COLUMN}}" for column in columns)
    of = "" if test.startswith("MPI_") else "MPI "
    lines = [f"# OSU {of}{test} Test {title}", *head, f"{'# Size':{SIZE_COLUMN}}{names}"]
    lines += [f"{at.size_bytes:<{SIZE_COLUMN}}{cells}" for at in points if (cells := row(at)) is not None]
    return "\n".join(lines) + "\n"


def _rates(points: Sequence[CurvePoint], title: str, pairs: int, options: Mapping[str, str]) -> str:
    """Of all pairs together."""
    return _table(
        "Multiple Bandwidth / Message Rate",
        title,
        [f"# [ pairs: {pairs} ] [ window size: {options.get('in_flight', '')} ]"],
        ("MB/s", "Messages/s"),
        points,
        _messages,
    )


def _rate(at: CurvePoint) -> float | None:
    """Bytes per second over the mean."""
    if at.rate_bytes_per_s is None:
        return None
    return at.rate_bytes_per_s.value * at.time_ns.value / (at.mean_ns or at.time_ns.value)


def _bandwidth(at: CurvePoint) -> str | None:
    rate = _rate(at)
    return None if rate is None else f"{rate / 1e6:>{NUMBER_COLUMN}.2f}"


def _messages(at: CurvePoint) -> str | None:
    rate = _rate(at)
    if rate is None or at.size_bytes == 0:
        return None
    return f"{rate / 1e6:>{NUMBER_COLUMN}.2f}{rate / at.size_bytes:>{NUMBER_COLUMN}.2f}"


def _microseconds(ns: float) -> str:
    return f"{ns / 1e3:>{NUMBER_COLUMN}.{2 if ns >= 1e3 else 4}f}"


def _time(at: CurvePoint) -> str:
    return _microseconds(_measure(at, "rank_mean") or at.mean_ns or at.time_ns.value)


def _mean_of_pairs(at: CurvePoint) -> str:
    """The time of the pattern is that of the slowest pair, and each pair is a cell."""
    launches = [
        fmean(cell.median_ns for cell in point.cells if cell.median_ns)
        for point in at.by_launch
        if any(cell.median_ns for cell in point.cells)
    ]
    return _microseconds(median(launches)) if launches else _time(at)


def _overlap(at: CurvePoint) -> str | None:
    """OSU's overlap: how much of the operation alone is hidden by as much computation, never less than nothing. All are
    medians, because the parts of a sample have no other number.
    """
    overall, compute = _measure(at, "together"), _measure(at, "computation")
    if overall is None or compute is None:
        return None
    alone = at.time_ns.value
    hidden = max(0.0, 100 - 100 * (overall - compute) / alone)
    times = "".join(map(_microseconds, (overall, compute, alone)))
    return f"{times}{hidden:>{NUMBER_COLUMN}.2f}"


def _measure(at: CurvePoint, name: str) -> float | None:
    """The median over the launches."""
    known = [
        one.median for point in at.by_launch for one in point.measures if one.name == name and one.median
    ]
    return median(known) if known else None


def _both(pattern: str) -> bool:
    return pattern.startswith("bidirectional") or "directions=both" in pattern
