# SPDX-License-Identifier: Apache-2.0
"""What opening the libraries costs: cells of a table for terminal and report. The figures are `memory` and `startup` of
render.figures.
"""

from __future__ import annotations

from collections.abc import Sequence

from netpipe.reading.openings import Opening, Spread
from netpipe.units import SIZE_STEPS, TIME_STEPS, UNKNOWN, Steps, bracketed_text

COLUMNS = (
    ("variant", "name"),
    ("ranks", "right"),
    ("after a barrier", "right"),
    ("all to all", "right"),
    ("private", "right"),
    ("pinned", "right"),
    ("start-up", "right"),
    ("launcher", "right"),
    ("launches", "right"),
)


def remark(found: Sequence[Opening]) -> str:
    """What the numbers mean, and why some are missing."""
    words = (
        "Memory is the growth of a process since before the library was opened: until all ranks had met in a barrier, "
        "and until every rank had exchanged a message with every other. Shared pages count in every process that "
        "touched them; private and pinned pages are part of the second number. Start-up ends when these messages have "
        "arrived, the launcher's part of it when all processes have started. In brackets: the minimum and maximum over "
        "all launches."
    )
    if any(opening.resident_bytes is None for opening in found):
        words += f" {UNKNOWN}: not known; the ranks of a simulated machine are one process."
    elif any(opening.barrier_bytes is None for opening in found):
        words += f" {UNKNOWN}: the module has no barrier, or an older version measured."
    return words


def cells(opening: Opening, limits: bool = True) -> tuple[str, ...]:
    """A text for each of COLUMNS. limits: with the range over all launches, in brackets."""

    def ranged(spread: Spread | None) -> Spread | None:
        return spread if limits else _middle(spread)

    return (
        opening.variant,
        str(opening.ranks),
        _text(ranged(opening.barrier_bytes), SIZE_STEPS, "B"),
        _text(ranged(opening.resident_bytes), SIZE_STEPS, "B"),
        _text(_middle(opening.private_bytes), SIZE_STEPS, "B"),
        _text(_middle(opening.pinned_bytes), SIZE_STEPS, "B"),
        _text(ranged(opening.start_s), TIME_STEPS, "ns", 1e9),
        _text(_middle(opening.launcher_s), TIME_STEPS, "ns", 1e9),
        str(opening.launches),
    )


def _middle(spread: Spread | None) -> Spread | None:
    """Without the extremes: a part of a number whose range is in the table already."""
    return None if spread is None else Spread(spread.value, spread.value, spread.value)


def _text(spread: Spread | None, steps: Steps, smallest: str, scale: float = 1.0) -> str:
    if spread is None:
        return UNKNOWN
    value, low, high = (number * scale for number in (spread.value, spread.low, spread.high))
    return bracketed_text(value, low, high, steps, smallest)
