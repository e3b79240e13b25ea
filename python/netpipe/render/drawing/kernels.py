# SPDX-License-Identifier: Apache-2.0
"""Results of application kernels over the number of processes: a view for each kernel with its class, and a line for
each library and, on several hosts, for each mapping of ranks to them. The figures are `speedup` and `times` in
render/figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from netpipe.kernels.table import Estimate as Median
from netpipe.kernels.table import Row
from netpipe.reading.estimate import Estimate, unsure
from netpipe.render.drawing.axes import QUANTITY, line, number_axis, value_axis
from netpipe.render.drawing.picture import MEDIAN_BAND, Bound, NothingToDraw, Picture
from netpipe.units import listed

PROCESSES = "processes"
Values = Sequence[tuple[float, Estimate]]


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


def estimate_of(median: Median) -> Estimate:
    """As the estimates of curves."""
    if median.low is None or median.high is None:
        return unsure(median.value)
    return Estimate(median.value, median.low, median.high)


def views(
    rows: Iterable[Row],
    values: Callable[[Sequence[Row]], Values],
    unit: str,
    label: str,
    nothing: str,
    ideal: bool = False,
) -> tuple[Picture, ...]:
    """A view for each kernel with its class. `values` makes a line of the rows of one library, by rising number of
    processes, in `unit` (ns, 1/s or 1). `label` is that of the axis, where {fewest} stands for the fewest processes.
    `ideal`: beside a line in proportion to the processes. Raises NothingToDraw with `nothing`.
    """
    found: dict[str, dict[tuple[str, str], list[Row]]] = {}
    for row in rows:
        lines_of = found.setdefault(f"{row.cell.kernel} {row.cell.problem}", {})
        lines_of.setdefault((row.cell.variant, row.cell.mapping), []).append(row)
    variants = list(dict.fromkeys(variant for each in found.values() for variant, _ in each))
    mappings = list(dict.fromkeys(mapping for each in found.values() for _, mapping in each))
    made = []
    for name, lines_of in found.items():
        lines = []
        for (variant, mapping), some in lines_of.items():
            drawn = values(sorted(some, key=lambda row: row.cell.ranks))
            if drawn:
                named = f"{variant}, {mapping}" if mapping else variant
                dash = mappings.index(mapping)
                lines.append(line(named, variants.index(variant), drawn, unit, PROCESSES, dash))
        if lines:
            numbers = sorted({at for one in lines for at in one.x})
            x = number_axis(numbers, PROCESSES)
            reach = [value for one in lines for value in (*one.low, *one.high)]
            bounds: tuple[Bound, ...] = ()
            if ideal:
                proportion = tuple(at / numbers[0] for at in numbers)
                reach += proportion
                bounds = (Bound("in proportion", "kept", tuple(numbers), proportion),)
            text = label.format(fewest=f"{numbers[0]:g}")
            y = value_axis(QUANTITY.get(unit, "number"), reach, text, False)
            sure = any(one.low != one.high for one in lines)
            made.append(Picture(name, x, y, tuple(lines), bounds, band=MEDIAN_BAND if sure else ""))
    if not made:
        raise NothingToDraw(nothing)
    return tuple(made)
