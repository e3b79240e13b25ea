# SPDX-License-Identifier: Apache-2.0
"""The parameters of the LogGP model from what the pattern `loggp` measured at each size.

    gap(s)      = g + (s - 1) G         from one message to the next
    transfer(s) = L + (s - 1) G'        a message under way, without the processors' part; G' is G where nothing is
                                        stored and forwarded
    o_s(s), o_r(s)                      the processors' part, each with a fixed part and one per byte

Each is a straight line over a range of sizes. Libraries change their protocol with the size, so the ranges are found
from the data: of all ways to cut the sizes the one with the smallest sum of squared residuals, of all four lines
together and in units of their uncertainty, plus a price for each further range (ranges.py). A line takes two sizes at
least, a range of its own three.

No parameter of the model can be below 0, so lines are fitted by least squares without negative coefficients (Lawson
and Hanson, "Solving least squares problems", 1974, chapter 23). Intervals come from fits to what the points might
have been as well (a parametric bootstrap): drawn around the line by their own intervals, which are widened where the
points lie farther from it than these allow. A limit of 0 says that the parameter cannot be told from 0.

Source of the model's measurement: Hoefler, Lichei, Rehm, "Low-overhead LogGP parameter assessment for modern
interconnection networks" (2007).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from netpipe.reading.estimate import Estimate, unsure
from netpipe.reading.measures import measures_of
from netpipe.reading.models.ranges import cuts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    import numpy.typing as npt

    from netpipe.reading.curves import Curve

    Array = npt.NDArray[np.float64]

PATTERN = "loggp"
LINES = ("o_s", "o_r", "gap", "transfer")
PRECISION = 0.02  # of its value: nearer than this no real layer keeps to a line
OUTLIER = 5  # in units of its uncertainty: a point farther off is no reason for a range of its own
DRAWS = 2_000
TINY = 1e-3  # ns, less than anything here


@dataclass(frozen=True, slots=True)
class Line:
    """fixed_ns + (s - 1) per_byte_ns; neither is below 0."""

    fixed_ns: Estimate
    per_byte_ns: Estimate
    misfit: float  # the largest distance of a measured size from it, relative to what was measured

    def at(self, size_bytes: int) -> float:
        return self.fixed_ns.value + (size_bytes - 1) * self.per_byte_ns.value


@dataclass(frozen=True, slots=True)
class Range:
    """Sizes under one protocol, as far as the data can tell."""

    from_bytes: int
    to_bytes: int
    sizes: int
    o_s: Line
    o_r: Line
    gap: Line  # g and G
    transfer: Line  # L, and what a byte adds


@dataclass(frozen=True, slots=True)
class LogGP:
    """The parameters of one curve; ranges by rising size."""

    variant: str
    pattern: str
    ranges: tuple[Range, ...]


def told_from_zero(parameter: Estimate) -> bool:
    return parameter.known and parameter.low > 0


def loggp(curves: Iterable[Curve]) -> tuple[LogGP, ...]:
    """One for each curve of the pattern `loggp` that has two sizes or more."""
    found = []
    for curve in curves:
        if curve.pattern.split(":")[0] != PATTERN:
            continue
        said = {measure.name: measure.values for measure in measures_of(curve)}
        lines = [said.get(name, {}) for name in LINES]
        # Sizes at which one of the four is missing say nothing, and the model begins at the first byte.
        sizes = {
            size: tuple(line[size] for line in lines)
            for size in lines[0]
            if size > 0 and all(size in of for of in lines)
        }
        if len(sizes) >= 2:
            found.append(LogGP(curve.variant, curve.pattern, _ranges(sizes)))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Column:
    """One of the four over all sizes."""

    value: Array
    below: Array  # one standard deviation to either side
    above: Array

    @property
    def sigma(self) -> Array:
        import numpy as np

        sigma: Array = np.maximum((self.below + self.above) / 2, PRECISION * np.abs(self.value))
        return np.maximum(sigma, TINY)

    def part(self, begin: int, end: int) -> _Column:
        return _Column(self.value[begin:end], self.below[begin:end], self.above[begin:end])


def _ranges(sizes: dict[int, tuple[Estimate, ...]]) -> tuple[Range, ...]:
    import numpy as np

    bytes_ = np.array(list(sizes), dtype=np.float64)
    columns = []
    for k in range(len(LINES)):
        own = [measured[k] for measured in sizes.values()]
        columns.append(
            _Column(
                np.array([e.value for e in own]),
                np.array([(e.value - e.low) / 1.96 for e in own]),
                np.array([(e.high - e.value) / 1.96 for e in own]),
            )
        )
    made = []
    for begin, end in pairwise(_cuts(bytes_, columns)):
        lines = [_line(bytes_[begin:end], column.part(begin, end)) for column in columns]
        made.append(Range(int(bytes_[begin]), int(bytes_[end - 1]), end - begin, *lines))
    return tuple(made)


def _cuts(bytes_: Array, columns: Sequence[_Column]) -> list[int]:
    """Where ranges begin, and the end of the last one."""
    count = len(bytes_)
    # A range more is two coefficients for each line, and where it begins.
    price = (2 * len(columns) + 1) * math.log(len(columns) * count)

    def cost(begin: int, end: int, most: float) -> float:
        total = 0.0
        for column in columns:
            if total >= most:
                break
            total += _sum_of_squares(bytes_[begin:end], column.part(begin, end))
        return total

    return cuts(count, price, cost)


def _sum_of_squares(bytes_: Array, column: _Column) -> float:
    """Of the residuals, in units of their uncertainty."""
    import numpy as np

    fixed, per_byte = fit(bytes_, column.value, column.sigma)
    residuals = (column.value - fixed - (bytes_ - 1) * per_byte) / column.sigma
    return float(np.minimum(residuals**2, OUTLIER**2).sum())


def fit(bytes_: Array, values: Array, sigma: Array) -> tuple[Array, Array]:
    """Fixed part and part per byte of the line nearest to the values (or to each row of them), neither below 0.

    Where the nearest line of all has a negative coefficient, the nearest that is allowed has one of them at 0: of those
    two the one that takes more from the sum of squares.
    """
    import numpy as np

    x = bytes_ - 1
    weight = sigma**-2
    middle = (weight @ x) / weight.sum()
    slope = values @ (weight * (x - middle)) / (weight @ (x - middle) ** 2)
    fixed = values @ weight / weight.sum() - slope * middle
    only_fixed = np.maximum(values @ weight, 0) / weight.sum()
    only_slope = np.maximum(values @ (weight * x), 0) / (weight @ x**2)
    flat = only_fixed**2 * weight.sum() >= only_slope**2 * (weight @ x**2)
    allowed = (fixed >= 0) & (slope >= 0)
    return (
        np.where(allowed, fixed, np.where(flat, only_fixed, 0.0)),
        np.where(allowed, slope, np.where(flat, 0.0, only_slope)),
    )


def _line(bytes_: Array, column: _Column) -> Line:
    import numpy as np

    sigma = column.sigma
    fixed, per_byte = (float(one) for one in fit(bytes_, column.value, sigma))
    fitted = fixed + (bytes_ - 1) * per_byte
    # As far as the points lie from the line, relative to their uncertainty (Birge, 1932).
    freedom = len(bytes_) - 2
    own = np.maximum((column.below + column.above) / 2, TINY)
    birge = math.sqrt(float((((column.value - fitted) / sigma) ** 2).sum()) / freedom) if freedom > 0 else 0.0
    wide = np.maximum(own, birge * sigma)
    draws = np.random.default_rng(1).standard_normal((DRAWS, len(bytes_)))
    known = bool((column.below + column.above > 0).any())
    estimates = []
    for value, drawn in zip((fixed, per_byte), fit(bytes_, fitted + draws * wide, sigma), strict=True):
        low, high = (float(limit) for limit in np.quantile(drawn, (0.025, 0.975)))
        estimates.append(Estimate(value, min(low, value), max(high, value)) if known else unsure(value))
    distance = np.abs(column.value - fitted) / np.maximum(np.abs(column.value), TINY)
    return Line(estimates[0], estimates[1], float(distance.max()))
