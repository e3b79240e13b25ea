# SPDX-License-Identifier: Apache-2.0
"""The figures of the classic NetPIPE and their kin: every curve is a line over size or time, between bounds that no
curve should cross (the memory copy rate, the rate of the link, and the floor of the harness).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from netpipe import theory
from netpipe.reading.estimate import Estimate
from netpipe.records import Theory
from netpipe.render.drawing.picture import Axis, Bound, Line, Panel, Picture
from netpipe.render.drawing.scope import Member, Scope
from netpipe.units import rate_text, time_text

LOG_FROM = 8.0  # rates whose best values differ by more than this are drawn on a logarithmic axis
# a bound farther from the nearest curve than this factor does not stretch a logarithmic axis
BOUND_WITHIN = 100.0
BOUND_WITHIN_LINEAR = 4.0
LEAST_SPAN = 16.0  # of a logarithmic axis
BOUND_STEPS = 64  # a bound is straight on logarithmic axes and bent on others
_LABELS = {
    "size": "message size",
    "time": "time of one operation",
    "rate": "throughput",
    "kept": "throughput kept",
}


Model = tuple[Theory, theory.Traffic]  # and of which messages it speaks


@dataclass(frozen=True, slots=True)
class Level:
    """A bound before it is drawn: the best rate, the shortest time or the whole of the layer below."""

    label: str
    quantity: str
    value: float


def curve_panel(scope: Scope, title: str, x: str, y: str, log: bool | None = True) -> list[Panel]:
    """Every chosen curve as a line of y over x: two of size, time and rate. `log`: the y axis; None: by its range."""
    lines = tuple(
        line
        for member in (*scope.members, *scope.others)
        for apart in (False, True)
        if (line := _line(scope, member, x, y, apart)) is not None
    )
    if not lines:
        raise scope.nothing(f"no chosen curve has a {_LABELS[y if y != 'size' else x]}")
    if scope.fitted:
        fits = [line for member in scope.members for line in _fitted(scope, member, x, y)]
        lines = (*(replace(line, joined=False) for line in lines), *fits)
    tops = [max(line.y) for line in lines]
    wide = max(tops) > LOG_FROM * min(tops)  # a linear axis would press some curves flat
    y_log = (wide if scope.log is None else scope.log) if log is None else log
    made = panel(title, x, y, y_log, lines, levels(scope), theories(scope))
    return [_said_fitted(one) for one in made] if scope.fitted else made


def panel(
    title: str,
    x: str,
    y: str,
    y_log: bool,
    lines: tuple[Line, ...],
    bounds: Sequence[Level],
    models: Sequence[Model] = (),
) -> list[Panel]:
    """Lines and bounds inside axes that hold all lines."""
    sizes = [size for line in lines for size in line.size_bytes if size > 0]
    ends = [end for model in models for end in _ends(model, sizes)] if sizes else []
    x_axis = _axis(x, True, [value for line in lines for value in line.x], (*bounds, *ends))
    y_axis = _axis(y, y_log, [value for line in lines for value in line.y], (*bounds, *ends))
    drawn = [_bound(level, x_axis, y_axis) for level in bounds]
    if sizes:
        drawn += [_model(model, place, x_axis, y_axis, sizes) for place, model in enumerate(models)]
    picture = Picture(
        label="",
        x=x_axis,
        y=y_axis,
        lines=lines,
        bounds=tuple(bound for bound in drawn if bound.x),
        beyond=tuple(bound.label for bound in drawn if not bound.x),
        band_on_x=y == "size",
        level_ends=y == "size",
    )
    return [Panel(title, (picture,))]


def _line(scope: Scope, member: Member, x: str, y: str, apart: bool) -> Line | None:
    """`apart`: the points of the curve that no line joins, because they are of another state of the machine."""
    # A time that the error of two clocks makes negative has no place on a logarithmic axis either.
    points = [
        point
        for point in member.points(rates="rate" in (x, y))
        if point.time_ns.value > 0 and point.apart == apart
    ]
    if not points:
        return None
    values: dict[str, list[Estimate]] = {
        "size": [Estimate(point.size_bytes, point.size_bytes, point.size_bytes) for point in points],
        "time": [point.time_ns for point in points],
        "rate": [point.rate_bytes_per_s for point in points if point.rate_bytes_per_s is not None],
    }
    band = values[x if y == "size" else y]
    return Line(
        label="" if apart else scope.label(member),
        color=scope.color(member.variant),
        dash=scope.dash_of(member),
        x=tuple(value.value for value in values[x]),
        y=tuple(value.value for value in values[y]),
        low=tuple(value.low for value in band),
        high=tuple(value.high for value in band),
        loose=tuple(point.loose for point in points),
        mute=tuple(point.mute for point in points),
        joined=not apart,
        curve=(member.name, member.pattern),
        size_bytes=tuple(point.size_bytes for point in points),
    )


def _said_fitted(one: Panel) -> Panel:
    views = tuple(replace(view, band="") if isinstance(view, Picture) else view for view in one.views)
    return replace(one, title=f"{one.title}, fitted by pieces", views=views)


FIT_STEPS = 48  # of a piece: a straight line bends on logarithmic axes


def _fitted(scope: Scope, member: Member, x: str, y: str) -> list[Line]:
    """A line for each piece of the curve."""
    fit = member.reading.fit_of(member.curve)
    made = []
    for piece in fit.pieces if fit else ():
        first, last = piece.from_bytes, piece.to_bytes
        sizes = [first * (last / first) ** (step / FIT_STEPS) for step in range(FIT_STEPS + 1)]
        known = [(size, piece.at(size)) for size in sizes if piece.at(size) > 0]
        values = {
            "size": tuple(size for size, _ in known),
            "time": tuple(time for _, time in known),
            "rate": tuple(size / time * 1e9 * member.moved for size, time in known),
        }
        if len(known) > 1 and (member.moved or "rate" not in (x, y)):
            made.append(
                Line(
                    label="",
                    color=scope.color(member.variant),
                    dash=scope.dash_of(member),
                    x=values[x],
                    y=values[y],
                    low=values[y],
                    high=values[y],
                    curve=(member.name, member.pattern),
                )
            )
    return made


def levels(scope: Scope) -> tuple[Level, ...]:
    """The bounds of the runs: the memory copy rate, the rates of their links and the floor of the harness."""
    found = []
    rates = [
        y.copy_bytes_per_s for reading in scope.readings for y in reading.run.yardsticks if y.copy_bytes_per_s
    ]
    if rates:
        found.append(Level(f"memory copy {rate_text(median(rates))}", "rate", median(rates)))
    # Messages in one direction at a time: of others nobody knows how many share the link.
    crossed = (
        member.reading.links.get(member.variant) for member in scope.members if round(member.moved) == 1
    )
    found += [
        Level(f"link {link.interface} {rate_text(link.bytes_per_s)}", "rate", link.bytes_per_s)
        for link in dict.fromkeys(filter(None, crossed))
    ]
    floor = [
        point.time_ns.value
        for reading in scope.readings
        for curve in reading.curves
        if reading.is_idle(curve.variant)
        for point in curve.points
    ]
    only_floor = all(member.reading.is_idle(member.variant) for member in scope.members)
    if floor and median(floor) > 0 and not only_floor:
        found.append(Level(f"harness floor {time_text(median(floor))}", "time", median(floor)))
    return tuple(found)


def theories(scope: Scope) -> tuple[Model, ...]:
    """The models that were given, once for each kind of traffic among the curves. Curves of several pairs of ranks are
    left out: nobody knows which of them share the link.
    """
    kinds = dict.fromkeys(
        kind
        for member in scope.members
        if (kind := theory.traffic(member.pattern)) is not None
        and round(member.moved) in (0, kind.directions)
    )
    found = {one.theory: one for reading in scope.readings for one in theory.of(reading.run)}
    return tuple(
        (one, kind)
        for one in found.values()
        for kind in dict.fromkeys(theory.told_apart(one, kind) for kind in kinds)
    )


def _ends(model: Model, sizes: Sequence[int]) -> tuple[Level, Level]:
    """What the axes have room for: its shortest time and its best rate."""
    of, kind = model
    return (
        Level("", "time", theory.time_ns(of, min(sizes), kind)),
        Level("", "rate", theory.rate_bytes_per_s(of, max(sizes), kind)),
    )


def _model(model: Model, place: int, x: Axis, y: Axis, sizes: Sequence[int]) -> Bound:
    """The part of the model inside the axes, over the sizes that were measured."""
    of, kind = model
    quantities: dict[str, Callable[[float], float]] = {
        "size": lambda size: size,
        "time": lambda size: theory.time_ns(of, size, kind),
        "rate": lambda size: theory.rate_bytes_per_s(of, size, kind),
    }
    points = [
        (quantities[x.quantity](size), quantities[y.quantity](size))
        for size in theory.sizes(of, min(sizes), max(sizes))
    ]
    inside = [(a, b) for a, b in points if x.holds(a) and y.holds(b)]
    ways = tuple(a for a, _ in inside), tuple(b for _, b in inside)
    return Bound(theory.label(of, kind), theory.NAME, *ways, model=place)


def _axis(quantity: str, log: bool, values: Sequence[float], bounds: Sequence[Level]) -> Axis:
    """Room for all curves, and for the bounds that are near enough not to press them together."""
    low, high = min(values), max(values)
    within = BOUND_WITHIN if log else BOUND_WITHIN_LINEAR
    near = [
        level.value
        for level in bounds
        if level.quantity == quantity and low / within <= level.value <= high * within
    ]
    low, high = min([low, *near]), max([high, *near])
    if not log:
        return Axis(quantity, _LABELS[quantity], log, 0.0, high * 1.06)
    # A single point stands in the middle of an axis, not on one of no length.
    margin = max(1.12 if quantity == "size" else 1.3, (LEAST_SPAN * low / high) ** 0.5)
    return Axis(quantity, _LABELS[quantity], log, low / margin, high * margin)


def _bound(level: Level, x: Axis, y: Axis) -> Bound:
    """The part of the level inside the axes: nothing, or a line of points. It is followed over sizes, as the curves
    are: a quantity is the same at every size, or it grows in proportion to it.
    """
    per_byte = {"size": 1.0, "rate": 1e9 / level.value, "time": 1e9 / level.value}
    first, last = 0.0, math.inf
    for axis in (x, y):
        if axis.quantity == level.quantity:
            first = first if axis.holds(level.value) else math.inf
        else:
            first = max(first, axis.low / per_byte[axis.quantity])
            last = min(last, axis.high / per_byte[axis.quantity])
    if first >= last:
        return Bound(level.label, level.quantity, (), ())
    first = max(first, last * 1e-12)  # a linear axis begins at 0, which no logarithmic step reaches
    sizes = [first * (last / first) ** (step / BOUND_STEPS) for step in range(BOUND_STEPS + 1)]
    coordinates = (
        tuple(
            level.value if axis.quantity == level.quantity else size * per_byte[axis.quantity]
            for size in sizes
        )
        for axis in (x, y)
    )
    return Bound(level.label, level.quantity, *coordinates)
