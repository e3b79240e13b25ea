# SPDX-License-Identifier: Apache-2.0
"""Axes around values, and lines with their intervals as data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from netpipe.reading.estimate import Estimate
from netpipe.render.drawing.picture import Axis, Line, Picture
from netpipe.render.drawing.ticks import number_text
from netpipe.units import measure_text, size_text

QUANTITY = {"ns": "time", "bytes/s": "rate", "1/s": "count"}  # by the unit of a measure
WIDE = 100.0  # ratios and plain numbers that reach and span more than this get a logarithmic axis
LOG_VALUES = 16.0  # so does a setting whose values span more than this
MOST_MARKED = 9  # values of a setting that all get a tick

Values = Sequence[tuple[float, Estimate]]  # (x, y)


def limits(estimate: Estimate) -> tuple[float, float]:
    return (estimate.low, estimate.high) if estimate.known else (estimate.value, estimate.value)


def value_axis(quantity: str, values: Sequence[float], label: str, log: bool) -> Axis:
    """Around the values. A linear axis includes 0."""
    low, high = min(values), max(values)
    if log:
        # A single point stands in the middle of an axis, not on one of no length.
        margin = max(1.12 if quantity == "size" else 1.3, (4 * low / high) ** 0.5)
        return Axis(quantity, label, True, low / margin, high * margin)
    span = (high - min(low, 0.0)) or abs(high) or 1.0
    return Axis(quantity, label, False, low - 0.05 * span if low < 0 else 0.0, high + 0.06 * span)


def size_axis(sizes: Iterable[float]) -> Axis:
    return value_axis("size", list(sizes), "message size", True)


def number_axis(numbers: Sequence[float], label: str) -> Axis:
    """Over the values of a setting, each with a tick if they are few."""
    low, high = min(numbers), max(numbers)
    few = tuple(sorted(set(numbers)))
    at = few if len(few) <= MOST_MARKED else ()
    if low > 0 and high > LOG_VALUES * low:
        axis = value_axis("number", numbers, label, True)
        return Axis("number", label, True, axis.low, axis.high, at)
    margin = 0.04 * ((high - low) or high or 1.0)
    return Axis("number", label, False, low - margin, high + margin, at)


def near_one_axis(values: Iterable[float], label: str) -> Axis:
    """For ratios that are all near 1: it does not begin at 0."""
    found = [1.0, *values]
    low, high = min(found), max(found)
    margin = max(0.05, 0.15 * (high - low))
    return Axis("number", label, False, max(0.0, low - margin), high + margin)


def line(
    label: str,
    color: int,
    values: Values,
    unit: str,
    x_text: str = "",
    dash: int = 0,
    faint: bool = False,
    loose: tuple[bool, ...] = (),
    mute: tuple[bool, ...] = (),
) -> Line:
    """Values of one unit with their intervals. `x_text` names what x is if it is not a size."""
    return Line(
        label=label,
        color=color,
        dash=dash,
        x=tuple(at for at, _ in values),
        y=tuple(estimate.value for _, estimate in values),
        low=tuple(limits(estimate)[0] for _, estimate in values),
        high=tuple(limits(estimate)[1] for _, estimate in values),
        loose=loose,
        mute=mute,
        texts=tuple(
            f"{f'{x_text} {number_text(at)}' if x_text else size_text(at)}: {_text(estimate, unit)}"
            for at, estimate in values
        ),
        faint=faint,
    )


def picture(label: str, lines: Sequence[Line], x: Axis, unit: str, y_label: str = "") -> Picture:
    """Lines of one unit. Times and rates are logarithmic, for they span as much as sizes do."""
    quantity = QUANTITY.get(unit, "number")
    values = [value for one in lines for value in (*one.low, *one.high)]
    wide = min(values) > 0 and max(values) > WIDE * max(1.0, min(values))
    log = (quantity in ("time", "rate", "count") and min(values) > 0) or wide
    return Picture(label, x, value_axis(quantity, values, y_label, log), tuple(lines))


def _text(estimate: Estimate, unit: str) -> str:
    text = measure_text(estimate.value, unit)
    if not estimate.known:
        return text
    return f"{text} (95 %: {measure_text(estimate.low, unit)} to {measure_text(estimate.high, unit)})"
