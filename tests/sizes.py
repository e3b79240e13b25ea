# SPDX-License-Identifier: Apache-2.0
"""The sizes that the conformance suite promises for each cell, and those that a cell leaves out, with the reason."""

from __future__ import annotations

from collections.abc import Iterable

from cells import Cells

AROUND = "around thresholds"
LARGE = "8 MiB + 3 B"
MIB = "1 MiB"
# An odd size is one that no word divides and that is no power of two; of each list of sizes it is this one.
PROMISED = {
    "0 B": 0,
    "1 B": 1,
    "an odd size": 9,
    "a page": 4096,
    MIB: 1 << 20,
    LARGE: (8 << 20) + 3,
    AROUND: None,
}

Cell = tuple[str, str]  # a variant and a pattern


def named(sizes: str) -> set[str]:
    """Which of the promised sizes are among these, which are bytes with commas between them."""
    run = {int(size) for size in sizes.split(",")}
    return {name for name, size in PROMISED.items() if size in run}


class Run:
    """The sizes with which each cell is run, by all tests together."""

    def __init__(self) -> None:
        self.sizes: dict[Cell, set[str]] = {}

    def add(self, cells: Iterable[Cell], sizes: set[str]) -> None:
        for cell in cells:
            self.sizes.setdefault(cell, set()).update(sizes)

    def missing(self, cell: Cell) -> str:
        """The promised sizes that no test runs, in their order; empty: every one is run."""
        return ", ".join(name for name in PROMISED if name not in self.sizes[cell])

    def leave_out(self, cells: Cells, cell: Cell, reason: str) -> None:
        if missing := self.missing(cell):
            cells.leave_out(f"{', '.join(cell)}: {missing}", reason)
