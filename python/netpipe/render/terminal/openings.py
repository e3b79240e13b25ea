# SPDX-License-Identifier: Apache-2.0
"""What opening the libraries costs, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from netpipe.reading.openings import Opening
from netpipe.render.openings import COLUMNS, cells, remark
from netpipe.render.terminal.rows import Rows


def table(found: Sequence[Opening]) -> Rows:
    """A row for each library and number of ranks."""
    made = Rows(*COLUMNS)
    for opening in found:
        made.add_row(*cells(opening))
    return made


def print_openings(out: Console, found: Sequence[Opening]) -> None:
    """The table, and what its numbers mean."""
    out.print()
    out.print(table(found))
    out.print()
    out.print(remark(found), soft_wrap=True)
