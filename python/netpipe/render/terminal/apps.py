# SPDX-License-Identifier: Apache-2.0
"""Results of application kernels, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from netpipe.render.terminal.rows import Rows
from netpipe.units import TIME_STEPS, UNKNOWN, bracketed_text, digits

if TYPE_CHECKING:
    from rich.console import Console

    from netpipe.kernels.table import Row


def print_table(out: Console, rows: Sequence[Row], processors: int | None) -> None:
    """A block of rows for each kernel and class."""
    table = Rows(
        ("kernel", "left"),
        ("ranks", "right"),
        ("over", "name"),
        ("time", "right"),
        ("Mop/s", "right"),
        ("speed-up", "right"),
        ("of fastest", "right"),
    )
    last = ""
    for row in sorted(rows, key=lambda one: (one.name, one.problem, one.ranks)):
        kernel = f"{row.name} {row.problem}"
        table.add_row(
            kernel if kernel != last else "",
            str(row.ranks),
            row.variant,
            time_text(row),
            UNKNOWN if row.mops is None else digits(row.mops),
            UNKNOWN if row.speedup is None else f"{digits(row.speedup)} ×",
            behind_text(row),
            style="dim" if row.seconds is None else "",
        )
        last = kernel
    out.print(table)
    if processors is not None and any(row.ranks > processors for row in rows):
        out.print(
            f"Ranks share processors, of which there are {processors}: what is called faster is faster at that.",
            style="dim",
        )


def time_text(row: Row) -> str:
    """The median and its 95 % interval, in one unit."""
    if row.seconds is None:
        return UNKNOWN
    value, low, high = (1e9 * (part or 0.0) for part in (row.seconds, row.low, row.high))
    return bracketed_text(value, low, high, TIME_STEPS, "ns")


def behind_text(row: Row) -> str:
    """How far it is behind the fastest; ~ where the intervals meet, so that nobody knows."""
    if row.behind is None:
        return UNKNOWN
    if row.behind == 1:
        return "fastest"
    return f"{'~' if row.tied else ''}{digits(row.behind)} ×"


def failures(rows: Sequence[Row]) -> list[str]:
    """A sentence for each reason why a cell has no result."""
    return [
        f"{row.name} class {row.problem} on {row.ranks} ranks over {row.variant}: {why}"
        for row in rows
        for why in row.failures
    ]
