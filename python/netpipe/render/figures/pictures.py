# SPDX-License-Identifier: Apache-2.0
"""The figures as data: which lines, bounds and axes each one has. `figures` draws them with matplotlib,
`html` with plotly, so that both show the same.

The three classic graphs of NetPIPE are the throughput, the signature (rate over time: where a curve starts on
the x axis is its latency) and the saturation (size over time: the knee is the saturation point); latency and
loss join them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from netpipe.reading import Reading
from netpipe.reading.curves import Curve
from netpipe.reading.estimate import Estimate
from netpipe.render.words import when, where
from netpipe.units import rate_text, time_text

LOG_FROM = 8.0  # rates whose best values differ by more than this are drawn on a logarithmic axis
BOUND_WITHIN = (
    100.0  # a bound this many times away from the nearest curve does not stretch the axis to be seen
)
BOUND_WITHIN_LINEAR = 4.0
LEAST_SPAN = 16.0  # of a logarithmic axis
BOUND_STEPS = 64  # a bound is straight on logarithmic axes and bent on others


@dataclass(frozen=True, slots=True)
class Axis:
    quantity: str  # size (bytes), time (ns), rate (bytes per second), kept (fraction), count (1/s), number
    label: str
    log: bool
    low: float  # where the axis begins and ends, in the unit of its quantity
    high: float

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class Line:
    """One curve; the tuples are parallel, by rising size. Colours go by variant, dashes by run and pattern."""

    label: str
    variant: str
    pattern: str
    color: int
    dash: int
    size_bytes: tuple[int, ...]
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...]  # the interval of y; in the saturation figure, where y is exact, that of x
    high: tuple[float, ...]
    hollow: tuple[bool, ...]  # not converged


@dataclass(frozen=True, slots=True)
class Bound:
    """A thin line that no curve is expected beyond, as far as it lies inside the axes."""

    label: str
    quantity: str  # what is bounded: a rate, a time, or what is kept
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    figure: str
    title: str
    subtitle: str
    x: Axis
    y: Axis
    band_on_x: bool  # the intervals are those of x
    lines: tuple[Line, ...]
    bounds: tuple[Bound, ...]
    beyond: tuple[str, ...]  # bounds that lie outside the axes, in words
    band: str = "95 % interval of the median"  # what it is


@dataclass(frozen=True, slots=True)
class Kind:
    title: str
    x: str  # quantities
    y: str
    y_log: bool | None  # None: by the range of the curves


FIGURES: dict[str, Kind] = {
    "throughput": Kind("Throughput over message size", "size", "rate", None),
    "latency": Kind("Time over message size", "size", "time", True),
    "signature": Kind("Signature: throughput over time", "time", "rate", None),
    "saturation": Kind("Saturation: message size over time", "time", "size", True),
    "loss": Kind("Throughput kept of the layer below", "size", "kept", None),
}
_LABELS = {
    "size": "message size",
    "time": "time of one message",
    "rate": "throughput",
    "kept": "throughput kept",
}


class NothingToDraw(ValueError):  # noqa: N818  (it reads as what it says)
    """The runs have no such curve. The sentence says which there are."""


def picture(
    readings: Sequence[Reading],
    figure: str,
    variants: Sequence[str] = (),
    patterns: Sequence[str] = (),
    title: str | None = None,
    log: bool | None = None,
) -> Picture:
    """One figure over one or more runs; `variants` and `patterns` keep only those. `log` says whether the y
    axis of rates is logarithmic, None leaves it to the range of the curves. Raises NothingToDraw.
    """
    kind = FIGURES[figure]
    chosen = [
        (
            reading,
            [
                curve
                for curve in reading.curves
                if (not variants or curve.variant in variants) and (not patterns or curve.pattern in patterns)
            ],
        )
        for reading in readings
    ]
    lines = _loss_lines(chosen) if figure == "loss" else _curve_lines(kind, chosen)
    if not lines:
        raise NothingToDraw(
            _nothing(figure, readings, any(some for _, some in chosen), [*variants, *patterns])
        )
    levels = _levels(figure, readings, lines)
    asked = _spans_much(figure, lines) if log is None else log
    y_log = asked if kind.y_log is None else kind.y_log
    x = _axis(kind.x, True, [value for line in lines for value in line.x], levels)
    y = _axis(kind.y, y_log, [value for line in lines for value in line.y], levels)
    bounds = [_bound(level, x, y) for level in levels]
    return Picture(
        figure=figure,
        title=title or kind.title,
        subtitle="  ·  ".join(
            dict.fromkeys(
                part for reading in readings for part in (where(reading.run), when(reading.run)) if part
            )
        ),
        x=x,
        y=y,
        band_on_x=kind.y == "size",
        lines=lines,
        bounds=tuple(bound for bound in bounds if bound.x),
        beyond=tuple(bound.label for bound in bounds if not bound.x),
    )


def _nothing(figure: str, readings: Sequence[Reading], any_chosen: bool, asked: Sequence[str]) -> str:
    there = ", ".join(
        dict.fromkeys(
            f"{curve.variant} ({curve.pattern})" for reading in readings for curve in reading.curves
        )
    )
    if not there:
        return "there is nothing to draw: no size was finished"
    if any_chosen and figure == "loss":
        return f"there is no loss to draw: no two of the layers stand on each other; there are {there}"
    return f"there is nothing to draw for {' and '.join(asked) or figure}; there are {there}"


# -------------------------------------------------------------------------------------------------------
# lines


class _Styles:
    """Colours by variant and dashes by run and pattern, both in the order of first use."""

    def __init__(self) -> None:
        self._colors: dict[str, int] = {}
        self._dashes: dict[tuple[int, str], int] = {}

    def of(self, reading: Reading, variant: str, pattern: str) -> tuple[int, int]:
        return (
            self._colors.setdefault(variant, len(self._colors)),
            self._dashes.setdefault((id(reading), pattern), len(self._dashes)),
        )


_Chosen = Sequence[tuple[Reading, Sequence[Curve]]]


def _curve_lines(kind: Kind, chosen: _Chosen) -> tuple[Line, ...]:
    name = _namer(chosen)
    only_idle = all(reading.is_idle(curve.variant) for reading, some in chosen for curve in some)
    styles = _Styles()
    lines = []
    for reading, curve in ((reading, curve) for reading, some in chosen for curve in some):
        if reading.is_idle(curve.variant) and not only_idle:
            continue
        color, dash = styles.of(reading, curve.variant, curve.pattern)
        # The rate of 0 bytes is no number, and no place on a logarithmic axis is theirs. Some patterns have no rate.
        points = [
            point
            for point in curve.points
            if point.size_bytes > 0 and (kind.y == "time" or point.rate_bytes_per_s is not None)
        ]
        if not points:
            continue
        values: dict[str, list[Estimate]] = {
            "size": [Estimate(point.size_bytes, point.size_bytes, point.size_bytes) for point in points],
            "time": [point.time_ns for point in points],
            "rate": [point.rate_bytes_per_s for point in points if point.rate_bytes_per_s is not None],
        }
        band = values[kind.x if kind.y == "size" else kind.y]
        lines.append(
            Line(
                label=name(reading, curve.variant, curve.pattern),
                variant=curve.variant,
                pattern=curve.pattern,
                color=color,
                dash=dash,
                size_bytes=tuple(point.size_bytes for point in points),
                x=tuple(value.value for value in values[kind.x]),
                y=tuple(value.value for value in values[kind.y]),
                low=tuple(value.low for value in band),
                high=tuple(value.high for value in band),
                hollow=tuple(point.converged is False for point in points),
            )
        )
    return tuple(lines)


def _loss_lines(chosen: _Chosen) -> tuple[Line, ...]:
    name = _namer(chosen)
    styles = _Styles()
    lines = []
    for reading, some in chosen:
        # Colours as in the other figures: the lowest layer has no loss, but keeps its colour.
        style = {
            (curve.variant, curve.pattern): styles.of(reading, curve.variant, curve.pattern)
            for curve in some
            if not reading.is_idle(curve.variant)
        }
        for loss in reading.losses:
            sizes = [size for size in loss.sizes if size.size_bytes > 0]
            if not sizes or (loss.variant, loss.pattern) not in style:
                continue
            color, dash = style[loss.variant, loss.pattern]
            lines.append(
                Line(
                    label=f"{name(reading, loss.variant, loss.pattern)} of {loss.below}",
                    variant=loss.variant,
                    pattern=loss.pattern,
                    color=color,
                    dash=dash,
                    size_bytes=tuple(size.size_bytes for size in sizes),
                    x=tuple(float(size.size_bytes) for size in sizes),
                    y=tuple(size.kept.value for size in sizes),
                    low=tuple(size.kept.low for size in sizes),
                    high=tuple(size.kept.high for size in sizes),
                    hollow=tuple(size.converged is False for size in sizes),
                )
            )
    return tuple(lines)


def _namer(chosen: _Chosen) -> Callable[[Reading, str, str], str]:
    """Names that tell the curves apart and no longer: the pattern and the run only where there are several."""
    several_patterns = len({curve.pattern for _, some in chosen for curve in some}) > 1
    runs = [reading.run for reading, _ in chosen]
    stems = [run.path.stem if run.path else "" for run in runs]
    places = {id(reading): place for place, (reading, _) in enumerate(chosen)}

    def name(reading: Reading, variant: str, pattern: str) -> str:
        parts = [variant, pattern] if several_patterns else [variant]
        if len(runs) > 1:
            stem = stems[places[id(reading)]]
            parts.append(stem if stem and stems.count(stem) == 1 else f"run {places[id(reading)] + 1}")
        return ", ".join(parts)

    return name


# -------------------------------------------------------------------------------------------- axes and bounds


@dataclass(frozen=True, slots=True)
class _Level:
    """A bound before it is drawn: the best rate, the shortest time or the whole of the layer below."""

    label: str
    quantity: str
    value: float


def _levels(figure: str, readings: Sequence[Reading], lines: Sequence[Line]) -> tuple[_Level, ...]:
    """METHOD rule 16: the memory copy rate and the floor of the harness; in the loss figure, the layer below
    itself.
    """
    if figure == "loss":
        return (_Level("all of it", "kept", 1.0),)
    found = []
    rates = [y.copy_bytes_per_s for reading in readings for y in reading.run.yardsticks if y.copy_bytes_per_s]
    if rates:
        found.append(_Level(f"memory copy {rate_text(median(rates))}", "rate", median(rates)))
    floor = [
        point.time_ns.value
        for reading in readings
        for curve in reading.curves
        if reading.is_idle(curve.variant)
        for point in curve.points
    ]
    idle = {variant for reading in readings for variant in reading.idle}
    if floor and median(floor) > 0 and not all(line.variant in idle for line in lines):
        found.append(_Level(f"harness floor {time_text(median(floor))}", "time", median(floor)))
    return tuple(found)


def _spans_much(figure: str, lines: Sequence[Line]) -> bool:
    """Would a linear axis press some curves flat? Rates are judged by their best, losses by all that they go
    through.
    """
    tops = [max(line.y) for line in lines]
    least = min(min(line.y) for line in lines) if figure == "loss" else min(tops)
    return max(tops) > LOG_FROM * least


def _axis(quantity: str, log: bool, values: Sequence[float], levels: Sequence[_Level]) -> Axis:
    """Room for all curves, and for the bounds that are near enough not to press them together."""
    low, high = min(values), max(values)
    within = BOUND_WITHIN if log else BOUND_WITHIN_LINEAR
    near = [
        level.value
        for level in levels
        if level.quantity == quantity and low / within <= level.value <= high * within
    ]
    low, high = min([low, *near]), max([high, *near])
    if not log:
        return Axis(quantity, _LABELS[quantity], log, 0.0, high * 1.06)
    # A single point stands in the middle of an axis, not on one of no length.
    margin = max(1.12 if quantity == "size" else 1.3, (LEAST_SPAN * low / high) ** 0.5)
    return Axis(quantity, _LABELS[quantity], log, low / margin, high * margin)


def _bound(level: _Level, x: Axis, y: Axis) -> Bound:
    """What of the level lies inside the axes: nothing, or a line of points. It is followed over sizes, as the
    curves are: a quantity is the same at every size, or it grows in proportion to it.
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
