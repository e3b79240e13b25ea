# SPDX-License-Identifier: Apache-2.0
"""Which parts of a curve are drawn and how, on paper and on the page: a stroke is pale where an interval is wide, none
goes through a point that says nothing, and no band folds. templates/report/strokes.js draws by the same rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netpipe.render.drawing.picture import Line


def strokes(line: Line) -> list[tuple[range, bool]]:
    """Places of points that are joined, and whether the stroke is pale. Neighbours in it share an end."""
    found: list[tuple[range, bool]] = []
    for place in range(len(line.x) - 1 if line.joined else 0):
        if line.is_mute(place) or line.is_mute(place + 1):
            continue
        pale = line.is_loose(place) or line.is_loose(place + 1)
        begin = place
        if found and found[-1][0].stop == place + 1 and found[-1][1] == pale:
            begin = found.pop()[0].start
        found.append((range(begin, place + 2), pale))
    return found


def bands(line: Line, along: Sequence[float]) -> list[range]:
    """Places of points between which the interval is filled. `along` are their coordinates on the other axis: it rises
    or falls from the first place of each range to the last. A range of one place is an interval without neighbours.
    """
    found: list[range] = []
    rises: bool | None = None
    for place in range(len(line.x)):
        if line.is_mute(place):
            continue
        if found and line.joined and found[-1].stop == place:
            goes = along[place] >= along[place - 1]
            if rises is None or goes == rises:
                found[-1], rises = range(found[-1].start, place + 1), goes
            else:
                found.append(range(place - 1, place + 1))
                rises = goes
            continue
        found.append(range(place, place + 1))
        rises = None
    return found


def marked(line: Line, most: int) -> list[int]:
    """Of the points that are neither loose nor mute those with a marker: all if there are at most so many, else those
    that no stroke reaches.
    """
    every = [place for place in range(len(line.x)) if not line.is_loose(place)]
    if len(line.x) <= most:
        return every
    reached = {place for places, _ in strokes(line) for place in places}
    return [place for place in every if place not in reached]
