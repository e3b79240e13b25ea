# SPDX-License-Identifier: Apache-2.0
"""The parameters of the LogGP model, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from netpipe.reading.models.loggp import LogGP
from netpipe.render.loggp import COLUMNS, NAME, cells, curve_name
from netpipe.render.terminal.rows import Rows


def table(found: Sequence[LogGP]) -> Rows:
    """A row for each range of sizes; the curve is named in its first row."""
    made = Rows((NAME, "name"), *((column, "right") for column in COLUMNS))
    for one in found:
        for number, part in enumerate(one.ranges):
            made.add_row(curve_name(one) if number == 0 else "", *cells(part))
    return made
