# SPDX-License-Identifier: Apache-2.0
"""Where an axis has its ticks, and how they read: sizes at powers of two, the rest at 1, 2 and 5 times powers of ten,
each with its unit.
"""

from __future__ import annotations

import math

from netpipe.render.drawing.picture import Axis
from netpipe.units import COUNT_STEPS, RATE_STEPS, SIZE_STEPS, TIME_STEPS

MOST = 9  # ticks of one axis
LARGEST = 1e300  # nothing that was measured: a damaged run file says so, and products of it are infinite

# From the unit of the axis to the one that people count in: bits for bytes per second, percent for fractions.
SCALE = {"size": 1.0, "time": 1.0, "rate": 8.0, "kept": 100.0, "count": 1.0, "number": 1.0, "seconds": 1.0}
_STEPS = {
    "size": (SIZE_STEPS, "B"),
    "time": (TIME_STEPS, "ns"),
    "rate": (RATE_STEPS, "bps"),
    "kept": ((), "%"),
    "count": (COUNT_STEPS, "/s"),
    "number": ((), ""),
    "seconds": ((), "s"),
}
_FACTORS = ((1.0,), (1.0, 2.0, 5.0), (1.0, 1.2, 1.4, 1.7, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0))


def ticks(axis: Axis) -> list[tuple[float, str]]:
    """(value in the unit of the axis, text); none on an axis without sense."""
    if not max(abs(axis.low), abs(axis.high)) < LARGEST:
        return []
    if axis.at:
        return [(value, number_text(value)) for value in axis.at]
    values = (
        (_octaves(axis) if axis.quantity in ("size", "number") else _decades(axis))
        if axis.log
        else _even(axis)
    )
    return [(value, tick_text(axis.quantity, value)) for value in values]


def number_text(value: float) -> str:
    """The value of an option as the worker writes it: 65536 is 64k."""
    if value != int(value) or value == 0:
        return f"{value:g}"
    for step, unit in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "k")):
        if value % step == 0:
            return f"{int(value) // step}{unit}"
    return f"{int(value)}"


def tick_text(quantity: str, value: float) -> str:
    """As short as it can be: "16 KiB", "500 ns", "2.5 Gbps"."""
    if value == 0:
        return "0"
    steps, smallest = _STEPS[quantity]
    shown = value * SCALE[quantity]
    step, unit = next(
        ((step, unit) for step, unit in steps if abs(shown) >= step * (1 - 1e-9)), (1, smallest)
    )
    number = shown / step
    # Beyond the largest unit an exponent would be nothing to read on an axis.
    return (f"{number:.4g} {unit}" if abs(number) < 1000 else f"{number:,.0f} {unit}").rstrip()


def _octaves(axis: Axis) -> list[float]:
    """At powers of two; where the axis has fewer than three, at multiples of one."""
    first, last = math.ceil(math.log2(axis.low)), math.floor(math.log2(axis.high))
    if axis.quantity == "size" and last - first < 2:
        apart = 2.0 ** math.floor(math.log2((axis.high - axis.low) / 4))
        numbers = range(math.ceil(axis.low / apart), math.floor(axis.high / apart) + 1)
        return [number * apart for number in numbers]
    step = next(step for step in (1, 2, 3, 4, 5, 10, 20) if (last - first) / step < MOST or step == 20)
    return [2.0**power for power in range(first, last + 1) if power % step == 0]


def _decades(axis: Axis) -> list[float]:
    """At powers of ten; on a shorter axis at multiples of them, so many that there are three ticks."""
    scale = SCALE[axis.quantity]
    low, high = axis.low * scale, axis.high * scale
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found: list[float] = []
    for factors in _FACTORS:
        found = [f * 10.0**power for power in powers for f in factors if low <= f * 10.0**power <= high]
        if len(found) >= 3:
            break
    if factors == _FACTORS[0]:
        every = math.ceil(len(found) / MOST)
        found = [value for value in found if round(math.log10(value)) % every == 0]
    return [value / scale for value in found]


def _even(axis: Axis) -> list[float]:
    scale = SCALE[axis.quantity]
    span = (axis.high - axis.low) * scale
    rough = span / 6
    if axis.quantity == "size":  # in binary units only a power of two is round
        step = 2.0 ** math.ceil(math.log2(rough))
    else:
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(f * power for f in (1, 2, 5, 10) if f * power >= rough)
    first = math.ceil(axis.low * scale / step)
    return [number * step / scale for number in range(first, math.floor(axis.high * scale / step) + 1)]
