# SPDX-License-Identifier: Apache-2.0
"""The parameters of the LogGP model, for the report."""

from __future__ import annotations

from collections.abc import Sequence

from netpipe.reading.models.loggp import LogGP
from netpipe.render.loggp import COLUMNS, cells, curve_name
from netpipe.render.page.tables import Column, Table


def table(found: Sequence[LogGP]) -> Table | None:
    """A row for each range of sizes; None if there are none."""
    rows = tuple((curve_name(one), *cells(part)) for one in found for part in one.ranges)
    return Table((Column("variant", left=True), *map(Column, COLUMNS)), rows) if rows else None
