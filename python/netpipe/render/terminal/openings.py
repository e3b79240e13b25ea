# SPDX-License-Identifier: Apache-2.0
"""What opening the libraries costs, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.measure import Measurement

from netpipe.reading.openings import Opening
from netpipe.render.openings import COLUMNS, cells, remark
from netpipe.render.terminal.rows import WIDEST, Rows, print_paragraph

NAMES = COLUMNS[:2]  # variant and ranks begin every table
HALVES = (range(2, 6), range(6, len(COLUMNS)))  # memory, and time


def table(
    found: Sequence[Opening], places: Sequence[int] = range(2, len(COLUMNS)), limits: bool = True
) -> Rows:
    """A row for each library and number of ranks, with these of COLUMNS."""
    made = Rows(*NAMES, *(COLUMNS[place] for place in places))
    for opening in found:
        whole = cells(opening, limits)
        made.add_row(*whole[:2], *(whole[place] for place in places))
    return made


def print_openings(out: Console, found: Sequence[Opening]) -> None:
    """The table; one for memory and one for time where there is no room for it, and without brackets where even these
    are too wide; and what the numbers mean.
    """

    def fits(made: Rows) -> bool:
        return Measurement.get(out, out.options.update(max_width=WIDEST), made).maximum <= out.width

    whole = table(found)
    parts = [whole] if fits(whole) else [table(found, half) for half in HALVES]
    if not all(map(fits, parts)):
        parts = [table(found, half, limits=False) for half in HALVES]
    for part in parts:
        out.print()
        out.print(part)
    out.print()
    print_paragraph(out, "·", "dim", remark(found), faint=True)
