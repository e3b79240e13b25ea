# SPDX-License-Identifier: Apache-2.0
"""Times over a number other than the message size: the value of a setting, or the number of ranks. A view for each of a
few sizes; once the times themselves, with p99 beside the median, and once over the time at the first value, where a
difference of some percent shows.

The ratio to the first value is that of the times within blocks, with the interval that verdicts have; in runs without
blocks it is made of the two intervals, as if they were independent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from netpipe.reading.curves import CurvePoint
from netpipe.reading.estimate import Estimate, ratio, unsure
from netpipe.render.drawing.axes import limits, line, near_one_axis, number_axis, picture
from netpipe.render.drawing.picture import Line, Panel, Picture
from netpipe.render.drawing.scope import MOST_VIEWS, Member, Scope
from netpipe.units import size_text

BAND = "95 % interval of the ratio"


@dataclass(frozen=True, slots=True)
class Series:
    """One line: a curve for each value."""

    label: str
    color: int
    dash: int
    members: Sequence[tuple[float, Member]]  # by rising value


@dataclass(frozen=True, slots=True)
class _Value:
    """A curve of a series, at one size."""

    value: float
    member: Member
    point: CurvePoint


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
    blocks = _Blocks()
    times: list[Picture] = []
    ratios: list[Picture] = []
    for size in scope.few_sizes(size for by_size in of.values() for size in by_size)[:MOST_VIEWS]:
        absolute: list[Line] = []
        relative: list[Line] = []
        shown: list[float] = []  # what the axis of ratios has room for
        for one in several:
            points = [
                _Value(value, member, point)
                for value, member in one.members
                if (point := of[id(member)].get(size)) is not None and point.time_ns.value > 0
            ]
            if points:
                absolute += _times(one, points, what)
                values = [(at.value, blocks.ratio(at, points[0])) for at in points]
                relative.append(line(one.label, one.color, values, "1", what, one.dash))
                for _, times_as_long in values:
                    told = not times_as_long.covers(1)
                    shown += limits(times_as_long) if told else [times_as_long.value]
        if absolute:
            times.append(picture(size_text(size), absolute, x, "ns"))
            drawn = picture(size_text(size), relative, x, "1")
            ratios.append(replace(drawn, y=near_one_axis(shown, ""), band=BAND))
    return [
        Panel(title, tuple(views), pattern)
        for title, views in zip(titles, (times, ratios), strict=True)
        if views
    ]


class _Blocks:
    """Ratios of curves, each pair of which is read once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], Mapping[int, Estimate]] = {}

    def ratio(self, of: _Value, first: _Value) -> Estimate:
        """How many times as long it takes as the first."""
        if of.member is first.member:
            return unsure(1.0)
        pair = id(of.member), id(first.member)
        if pair not in self._known:
            reading = of.member.reading
            names = [(one.member.variant, one.member.pattern) for one in (of, first)]
            self._known[pair] = reading.ratios_of(*names) if first.member.reading is reading else {}
        by_blocks = self._known[pair].get(of.point.size_bytes)
        if by_blocks is not None:
            return by_blocks
        own, base = of.point.time_ns, first.point.time_ns
        return ratio(own, base) if min(own.low, base.low) > 0 else unsure(own.value / base.value)


def _times(one: Series, points: Sequence[_Value], what: str) -> list[Line]:
    """The median, and p99 where it is known."""
    median = line(one.label, one.color, [(at.value, at.point.time_ns) for at in points], "ns", what, one.dash)
    tails = [(at.value, at.point.shown.p99_ns) for at in points]
    known = [(value, unsure(tail)) for value, tail in tails if tail is not None]
    if not known:
        return [median]
    return [median, line(f"{one.label}, p99", one.color, known, "ns", what, one.dash, faint=True)]
