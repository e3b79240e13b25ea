# SPDX-License-Identifier: Apache-2.0
"""Times over a number other than the message size: the value of a setting, or the number of ranks. A view for each of a
few sizes; once the times themselves, with p99 beside the median, and once over the time at the first value, where a
difference of some percent shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from netpipe.reading.curves import CurvePoint
from netpipe.reading.estimate import unsure
from netpipe.render.drawing.axes import line, near_one_axis, number_axis, picture
from netpipe.render.drawing.picture import Line, Panel, Picture
from netpipe.render.drawing.scope import MOST_VIEWS, Member, Scope
from netpipe.units import size_text


@dataclass(frozen=True, slots=True)
class Series:
    """One line: a curve for each value."""

    label: str
    color: int
    dash: int
    members: Sequence[tuple[float, Member]]  # by rising value


def over_values(
    scope: Scope, what: str, titles: tuple[str, str], several: Sequence[Series], pattern: str
) -> list[Panel]:
    """`what` names the value. Series without a point at a size are left out there."""
    numbers = sorted({value for one in several for value, _ in one.members})
    x = number_axis(numbers, what)
    of = {
        id(member): {point.size_bytes: point for point in member.curve.points}
        for one in several
        for _, member in one.members
    }
    times: list[Picture] = []
    ratios: list[Picture] = []
    for size in scope.few_sizes(size for by_size in of.values() for size in by_size)[:MOST_VIEWS]:
        absolute: list[Line] = []
        relative: list[Line] = []
        for one in several:
            there = [(value, of[id(member)].get(size)) for value, member in one.members]
            points = [
                (value, point) for value, point in there if point is not None and point.time_ns.value > 0
            ]
            if points:
                absolute += _times(one, points, what)
                first = points[0][1].time_ns.value
                values = [(value, point.time_ns.scaled(1 / first)) for value, point in points]
                relative.append(line(one.label, one.color, values, "1", what, one.dash))
        if absolute:
            times.append(picture(size_text(size), absolute, x, "ns"))
            drawn = picture(size_text(size), relative, x, "1")
            ratios.append(replace(drawn, y=near_one_axis((y for one in relative for y in one.y), "")))
    return [
        Panel(title, tuple(views), pattern)
        for title, views in zip(titles, (times, ratios), strict=True)
        if views
    ]


def _times(one: Series, points: Sequence[tuple[float, CurvePoint]], what: str) -> list[Line]:
    """The median, and p99 where it is known."""
    median = line(
        one.label, one.color, [(value, point.time_ns) for value, point in points], "ns", what, one.dash
    )
    tails = [(value, point.shown.p99_ns) for value, point in points]
    known = [(value, unsure(tail)) for value, tail in tails if tail is not None]
    if not known:
        return [median]
    return [median, line(f"{one.label}, p99", one.color, known, "ns", what, one.dash, faint=True)]
