# SPDX-License-Identifier: Apache-2.0
"""Curves as the tables that the Intel MPI Benchmarks print, so that scripts which read those read ours.

Times are means in microseconds, and megabytes are 10^6 bytes, as in IMB. Where IMB prints three times, t_max is the
mean of the slowest rank of each operation, t_avg the mean over the ranks, and t_min the median of the fastest rank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netpipe.reading.curves import Curve, CurvePoint

    RowOf = Callable[[CurvePoint], list[float]]

RULE = "#" + "-" * 80
# The benchmark of a pattern, and how many messages of the size IMB counts for its rate. Those with 1 have one time.
BENCHMARKS = {
    "pingpong": ("PingPong", 1),
    "bidirectional": ("PingPing", 1),
    "ring": ("Sendrecv", 2),
    "exchange": ("Exchange", 4),
}
WINDOWS = {False: "Uniband", True: "Biband"}
TIMES = ("t_min[usec]", "t_max[usec]", "t_avg[usec]")
OF_OVERLAP = ("t_ovrl[usec]", "t_pure[usec]", "t_CPU[usec]", "overlap[%]")  # IMB-NBC


class NotThere(ValueError):  # noqa: N818  (it reads as what it says)
    """No benchmark of IMB does what the pattern does."""


def write(curves: Sequence[Curve], title: str, operations: Mapping[str, str], ranks: int) -> str:
    """Each curve as a benchmark. `operations`: of the patterns that are collectives. Raises NotThere where IMB has none
    of them.
    """
    parts = [part for curve in curves if (part := _benchmark(curve, operations, ranks))]
    if not parts:
        raise NotThere("no benchmark of IMB does what these patterns do")
    head = f"#    Intel(R) MPI Benchmarks, format of MPI-1 part; measured by netpipe: {title}\n"
    return head + "\n".join(parts)


def _benchmark(curve: Curve, operations: Mapping[str, str], ranks: int) -> str:
    name = curve.pattern.partition(":")[0]
    operation = operations.get(curve.pattern, "") or curve.pattern.partition("what=")[2].partition(",")[0]
    if name == "collective":
        return _table(operation.capitalize(), ranks, TIMES, curve, _slow)
    if name == "collective_overlap":
        return _table(f"I{operation}", ranks, OF_OVERLAP, curve, _overlap)
    if name == "window":
        both = "directions=both" in curve.pattern
        return _table(WINDOWS[both], ranks, ("Mbytes/sec", "Msg/sec"), curve, _window(2 if both else 1))
    if name not in BENCHMARKS:
        return ""
    title, messages = BENCHMARKS[name]
    if messages == 1:
        return _table(title, ranks, ("t[usec]", "Mbytes/sec"), curve, _simple)
    return _table(title, ranks, (*TIMES, "Mbytes/sec"), curve, lambda at: [*_slow(at), _rate(at, messages)])


def _table(title: str, ranks: int, columns: Sequence[str], curve: Curve, row: RowOf) -> str:
    lines = [RULE, f"# Benchmarking {title} ", f"# #processes = {ranks} ", RULE]
    barrier = title == "Barrier"
    lines.append(
        "".join(f"{name:>13}" for name in (*([] if barrier else ["#bytes"]), "#repetitions", *columns))
    )
    for at in list(curve.points)[: 1 if barrier else None]:  # a barrier has no sizes
        if not (numbers := row(at)):
            continue
        done = sum((point.samples or 1) * (point.ops or 1) for point in at.by_launch)
        cells = [*([] if barrier else [f"{at.size_bytes:>13}"]), f"{done:>13}"]
        lines.append("".join([*cells, *(f"{value:>13.2f}" for value in numbers)]))
    return "\n".join(lines) + "\n"


def _mean_us(at: CurvePoint) -> float:
    return (at.mean_ns or at.time_ns.value) / 1e3


def _rate(at: CurvePoint, messages: int) -> float:
    """In 10^6 bytes per second."""
    return messages * at.size_bytes / _mean_us(at)


def _simple(at: CurvePoint) -> list[float]:
    return [_mean_us(at), _rate(at, 1)]


def _window(directions: int) -> RowOf:
    return lambda at: [_rate(at, directions), directions * 1e6 / _mean_us(at)]


def _overlap(at: CurvePoint) -> list[float]:
    """Medians, because the parts of a sample have no other number; without them nothing. The share is that of the
    longer one, operation or computation, for which both went on at once.
    """
    together, work = _measure(at, "together"), _measure(at, "computation")
    if together is None or work is None:
        return []
    alone = at.time_ns.value / 1e3
    hidden = (alone + work - together) / max(alone, work)
    return [together, alone, work, 100 * min(1.0, max(0.0, hidden))]


def _measure(at: CurvePoint, name: str) -> float | None:
    """In microseconds, the median over the launches."""
    known = [
        one.median / 1e3
        for point in at.by_launch
        for one in point.measures
        if one.name == name and one.median is not None
    ]
    return median(known) if known else None


def _slow(at: CurvePoint) -> list[float]:
    """Fastest, slowest and mean rank. Of a rank alone no mean is recorded: the fastest is the least median."""
    slowest = _mean_us(at)
    mean = _measure(at, "rank_mean")
    cells = [cell.median_ns / 1e3 for point in at.by_launch for cell in point.cells if cell.median_ns]
    average = slowest if mean is None else mean
    return [min([*cells, average]), max(slowest, average), average]
