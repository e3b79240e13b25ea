# SPDX-License-Identifier: Apache-2.0
"""Results of application kernels as panels: times, and speed-ups, over the number of processes; a view for each kernel
with its class, and a line for each library and, on several hosts, for each mapping of ranks to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from netpipe.kernels.table import Estimate as Median
from netpipe.kernels.table import Row
from netpipe.reading.estimate import Estimate, ratio, unsure
from netpipe.render.drawing.axes import line, number_axis, value_axis
from netpipe.render.drawing.picture import MEDIAN_BAND, Bound, NothingToDraw, Panel, Picture
from netpipe.units import listed

PROCESSES = "processes"
Values = Sequence[tuple[float, Estimate]]


def times(rows: Iterable[Row], title: str) -> list[Panel]:
    """Seconds over the number of processes. Raises NothingToDraw."""

    def values(some: Sequence[Row]) -> Values:
        return [(float(row.cell.ranks), of(row.seconds).scaled(1e9)) for row in some if row.seconds]

    return [Panel(title, _views(rows, values, "ns"))]


def speedup(rows: Iterable[Row], title: str) -> list[Panel]:
    """The time on the fewest processes over the time on more, with an ideal line. Raises NothingToDraw."""

    def values(some: Sequence[Row]) -> Values:
        known = [(float(row.cell.ranks), of(row.seconds)) for row in some if row.seconds]
        if len(known) < 2:
            return []
        first = known[0][1]
        return [(known[0][0], Estimate(1.0, 1.0, 1.0)), *((at, ratio(first, one)) for at, one in known[1:])]

    return [Panel(title, _views(rows, values, "1"))]


def subtitle(rows: Sequence[Row]) -> str:
    """class A on 2 and 4 processes of one host; medians of 6 launches; oversubscribed on 4"""
    classes = listed(dict.fromkeys(row.cell.problem for row in rows))
    ranks = listed(str(one) for one in sorted({row.cell.ranks for row in rows}))
    launches = max(row.launches for row in rows)
    shared = sorted({row.cell.ranks for row in rows if row.oversubscribed})
    more = f"; oversubscribed on {listed(map(str, shared))}" if shared else ""
    hosts = len({name for row in rows for name in row.hosts})
    where = f"{hosts} hosts" if hosts > 1 else "one host"
    return f"class {classes} on {ranks} processes of {where}; medians of {launches} launches{more}"


def of(median: Median) -> Estimate:
    """As the estimates of curves."""
    if median.low is None or median.high is None:
        return unsure(median.value)
    return Estimate(median.value, median.low, median.high)


def _views(rows: Iterable[Row], values: Callable[[Sequence[Row]], Values], unit: str) -> tuple[Picture, ...]:
    found: dict[str, dict[tuple[str, str], list[Row]]] = {}
    for row in rows:
        lines_of = found.setdefault(f"{row.cell.kernel} {row.cell.problem}", {})
        lines_of.setdefault((row.cell.variant, row.cell.mapping), []).append(row)
    variants = list(dict.fromkeys(variant for each in found.values() for variant, _ in each))
    mappings = list(dict.fromkeys(mapping for each in found.values() for _, mapping in each))
    views = []
    for name, lines_of in found.items():
        lines = []
        for (variant, mapping), some in lines_of.items():
            drawn = values(sorted(some, key=lambda row: row.cell.ranks))
            if drawn:
                label = f"{variant}, {mapping}" if mapping else variant
                dash = mappings.index(mapping)
                lines.append(line(label, variants.index(variant), drawn, unit, PROCESSES, dash))
        if lines:
            numbers = sorted({at for one in lines for at in one.x})
            x = number_axis(numbers, PROCESSES)
            reach = [value for one in lines for value in (*one.low, *one.high)]
            bounds: tuple[Bound, ...] = ()
            if unit == "1":  # in proportion to the processes
                ideal = tuple(at / numbers[0] for at in numbers)
                reach += ideal
                bounds = (Bound("in proportion", "kept", tuple(numbers), ideal),)
            quantity = "time" if unit == "ns" else "number"
            y = value_axis(
                quantity, reach, "time" if unit == "ns" else f"speed-up over {numbers[0]:g}", False
            )
            sure = any(one.low != one.high for one in lines)
            views.append(Picture(name, x, y, tuple(lines), bounds, band=MEDIAN_BAND if sure else ""))
    if not views:
        why = "no kernel has a time" if unit == "ns" else "no kernel has times on two numbers of processes"
        raise NothingToDraw(why)
    return tuple(views)
