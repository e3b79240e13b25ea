# SPDX-License-Identifier: Apache-2.0
"""Latency and rate of curves by pieces, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from netpipe.reading import Reading
from netpipe.reading.models.pieces import Fit
from netpipe.render.pieces import COLUMNS, REMARK, rows
from netpipe.render.terminal.rows import Rows

if TYPE_CHECKING:
    from rich.console import Console


def print_fits(out: Console, reading: Reading, found: Sequence[Fit]) -> None:
    """A table for each curve, with a row for each piece."""
    several = len({one.pattern for one in found}) > 1
    for one in found:
        out.print(f"{one.variant} {one.pattern}" if several else one.variant, style="bold")
        table = Rows(*((column, "right") for column in COLUMNS))
        for row in rows(one, rated=not reading.is_idle(one.variant)):
            table.add_row(*row)
        out.print(table)
        out.print()
    out.print(REMARK, style="dim")
