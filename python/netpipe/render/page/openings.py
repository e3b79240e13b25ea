# SPDX-License-Identifier: Apache-2.0
"""What opening the libraries costs, for the report."""

from __future__ import annotations

from collections.abc import Sequence

from netpipe.reading.openings import Opening
from netpipe.render.openings import COLUMNS, cells
from netpipe.render.page.tables import Column, Table


def table(found: Sequence[Opening]) -> Table:
    """A row for each library and number of ranks."""
    return Table(tuple(Column(name, left=kind == "name") for name, kind in COLUMNS), tuple(map(cells, found)))
