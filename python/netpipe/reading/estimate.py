# SPDX-License-Identifier: Apache-2.0
"""A number with its 95 % interval, and the arithmetic that keeps the interval honest.

Two estimates are combined with MOVER, the method of variance estimates recovery: the distances from each
value to its own limits are added in quadrature, the lower limit of the result taking the side of each that
pulls it down. It needs no normality and keeps intervals that are lopsided lopsided, as those of a median of
waiting times are.

Sources: R. G. Newcombe, "Interval estimation for the difference between independent proportions", Statistics
in Medicine 17 (1998) 873-890 ("square and add"); G. Y. Zou and A. Donner, "Construction of confidence limits
about effect measures: a general approach", Statistics in Medicine 27 (2008) 1693-1702. A ratio is a
difference of logarithms, so it is done there.

Both assume that the two are independent. Curves of one run are measured interleaved, so drift affects both: their
errors are correlated positively, if at all, and the intervals here are then too wide rather than too narrow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

Ints = NDArray[np.int64]
Reals = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Estimate(msgspec.Struct, frozen=True, gc=False):  # a dataclass takes five times as long to make
    """A value and its 95 % interval, low <= value <= high, all in one unit that the owner names.

    With too few samples for an interval, or without one in the file, `known` is False and both limits are the value:
    such an estimate excludes nothing.
    """

    value: float
    low: float
    high: float
    known: bool = True

    def covers(self, number: float) -> bool:
        return not self.known or self.low <= number <= self.high

    def scaled(self, factor: float) -> Estimate:
        """Times a positive factor that is known exactly."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor, self.known)

    def inverse(self) -> Estimate:
        """The reciprocal; the limits change places. All three must be above 0."""
        return Estimate(1 / self.value, 1 / self.high, 1 / self.low, self.known)

    def negative(self) -> Estimate:
        """With the other sign; the limits change places."""
        return Estimate(-self.value, -self.high, -self.low, self.known)

    @property
    def half_width(self) -> float:
        """Half the interval over the value, which is compared with the target. Infinite without an interval."""
        return (self.high - self.low) / 2 / self.value if self.value and self.known else math.inf


def unsure(value: float) -> Estimate:
    """A value without an interval."""
    return Estimate(value, value, value, known=False)


@dataclass(frozen=True, slots=True)
class Estimates:
    """Many estimates: what `Estimate` has, an entry each in every array."""

    value: Reals
    low: Reals
    high: Reals
    known: Bools

    @classmethod
    def of(cls, *each: Estimate) -> Estimates:
        value, low, high = (
            np.array([getattr(one, name) for one in each], np.float64) for name in ("value", "low", "high")
        )
        return cls(value, low, high, np.array([one.known for one in each], np.bool_))

    @classmethod
    def joined(cls, parts: Sequence[Estimates]) -> Estimates:
        value, low, high = (
            np.concatenate([getattr(one, name) for one in parts]) for name in ("value", "low", "high")
        )
        return cls(value, low, high, np.concatenate([one.known for one in parts]))

    def one(self, place: int) -> Estimate:
        return Estimate(
            float(self.value[place]), float(self.low[place]), float(self.high[place]), bool(self.known[place])
        )

    def at(self, places: NDArray[Any] | slice) -> Estimates:
        return Estimates(self.value[places], self.low[places], self.high[places], self.known[places])

    def __len__(self) -> int:
        return len(self.value)

    @property
    def half_width(self) -> Reals:
        """As `Estimate.half_width`."""
        sure = self.known & (self.value != 0)
        with np.errstate(over="ignore"):
            width = (self.high - self.low) / 2 / np.where(sure, self.value, 1.0)
        return np.where(sure, width, np.inf)

    def covers(self, number: float) -> Bools:
        """As `Estimate.covers`."""
        return ~self.known | ((self.low <= number) & (number <= self.high))

    def each(self) -> list[Estimate]:
        columns = self.value, self.low, self.high, self.known
        return list(map(Estimate, *(column.tolist() for column in columns)))


def differences(a: Estimates, b: Estimates) -> Estimates:
    """a - b by MOVER, one by one. A difference has an interval if both have one."""
    value, known = a.value - b.value, a.known & b.known
    low = value - np.hypot(a.value - a.low, b.high - b.value)
    high = value + np.hypot(a.high - a.value, b.value - b.low)
    return Estimates(value, np.where(known, low, value), np.where(known, high, value), known)


def ratios(a: Estimates, b: Estimates) -> Estimates:
    """a / b by MOVER on the logarithms, one by one. Raises ValueError unless all intervals lie above 0."""
    if min(a.low.min(initial=1), b.low.min(initial=1)) <= 0:
        raise ValueError("a ratio of times needs times above 0")
    with np.errstate(over="ignore"):
        value, known = a.value / b.value, a.known & b.known
    (log_a, low_a, high_a), (log_b, low_b, high_b) = (np.log((of.value, of.low, of.high)) for of in (a, b))
    low = log_a - log_b - np.hypot(log_a - low_a, high_b - log_b)
    high = log_a - log_b + np.hypot(high_a - log_a, log_b - low_b)
    low, high = np.exp(np.minimum((low, high), 700.0))  # e^710 is no float
    return Estimates(value, np.where(known, low, value), np.where(known, high, value), known)


def difference(a: Estimate, b: Estimate) -> Estimate:
    """`differences` of one."""
    return differences(Estimates.of(a), Estimates.of(b)).each()[0]


def ratio(a: Estimate, b: Estimate) -> Estimate:
    """`ratios` of one."""
    return ratios(Estimates.of(a), Estimates.of(b)).each()[0]


def across(estimates: Sequence[Estimate]) -> Estimate:
    """One estimate from several launches: the median of their values, and the envelope of their intervals.

    A handful of launches gives no 95 % interval of its own (a non-parametric one needs six values), so the envelope is
    the honest choice: it contains the spread between the launches and the uncertainty inside each.
    """
    if len(estimates) == 1:
        return estimates[0]
    return Estimate(
        median(e.value for e in estimates),
        min(e.low for e in estimates),
        max(e.high for e in estimates),
        known=all(e.known for e in estimates),
    )
