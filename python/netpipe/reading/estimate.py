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
from statistics import median
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence


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

    @property
    def half_width(self) -> float:
        """Half the interval over the value, which is compared with the target. Infinite without an interval."""
        return (self.high - self.low) / 2 / self.value if self.value and self.known else math.inf


def unsure(value: float) -> Estimate:
    """A value without an interval."""
    return Estimate(value, value, value, known=False)


def difference(a: Estimate, b: Estimate) -> Estimate:
    """a - b by MOVER. The difference has an interval if both have one."""
    value = a.value - b.value
    if not (a.known and b.known):
        return unsure(value)
    return Estimate(
        value,
        value - math.hypot(a.value - a.low, b.high - b.value),
        value + math.hypot(a.high - a.value, b.value - b.low),
    )


def ratio(a: Estimate, b: Estimate) -> Estimate:
    """a / b by MOVER on the logarithms. Raises ValueError unless both intervals lie above 0."""
    if min(a.low, b.low) <= 0:
        raise ValueError("a ratio of times needs times above 0")
    if not (a.known and b.known):
        return unsure(a.value / b.value)
    log_a, log_b = math.log(a.value), math.log(b.value)
    low = log_a - log_b - math.hypot(log_a - math.log(a.low), math.log(b.high) - log_b)
    high = log_a - log_b + math.hypot(math.log(a.high) - log_a, log_b - math.log(b.low))
    # e^710 is no float.
    return Estimate(a.value / b.value, math.exp(min(low, 700.0)), math.exp(min(high, 700.0)))


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
