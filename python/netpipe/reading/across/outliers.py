# SPDX-License-Identifier: Apache-2.0
"""Which members of a fleet are slower than the others by more than the others differ among themselves.

The fleet is its own yardstick: times are compared on logarithms with their median, in units of the median absolute
deviation (scaled to a standard deviation), which a few slow members do not move. The limit is the one that the slowest
of so many alike members exceeds in 1 % of all fleets; it is simulated once for each number of members, because in small
fleets the deviation itself is known badly. A member must also take a tenth longer than the median, since a difference
that does not matter is no fault. After Iglewicz and Hoaglin, How to Detect and Handle Outliers (1993), whose limit of
3.5 is that of one member and not of the worst of many.

Of pairs, log time = all + one end + other end + rest, fitted with medians (Tukey's median polish): the ends are judged
first, so that one slow host is not reported as many slow links.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, Generic, TypeVar

import numpy as np

FALSE_ALARMS = 0.01  # of fleets whose members are alike
LEAST_TIMES = 1.1  # the median of the fleet
LEAST_MEMBERS = 4  # of three nobody knows which one is right
# of logarithms: a fleet whose members agree to the last digit is judged as if they did to 1 %
LEAST_SPREAD = 0.01
NORMAL = 1.4826  # median absolute deviation of a normal distribution, as a standard deviation
SIMULATED = 40_000  # fleets
# members; from there on the deviation is known, and the limit that of the normal distribution
MOST_SIMULATED = 256
SIMULATED_PAIRS = 3000  # fleets of pairs, which take longer
MOST_SIMULATED_PAIRS = 20  # members; from there on what the fit takes from the deviation is known well enough
SWEEPS = 8

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Slow(Generic[T]):
    """One that stands out."""

    who: T
    times: float  # its time over the median of the fleet
    score: float  # deviations above the median
    limit: float  # that it exceeds


def slow(
    times: Mapping[T, float],
    chance: float = FALSE_ALARMS,
    lows: Mapping[T, float] | None = None,
    limit: float | None = None,
) -> list[Slow[T]]:
    """Those that stand out, the slowest first. `times` are above 0; of fewer than four nothing is said. `lows`: the
    lower limits of their intervals, which must stand out too. `limit` in place of the simulated one.
    """
    if len(times) < LEAST_MEMBERS:
        return []
    logs = {who: math.log(time) for who, time in times.items()}
    middle = median(logs.values())
    spread = max(NORMAL * median(abs(one - middle) for one in logs.values()), LEAST_SPREAD)
    limit = critical(len(times), chance) if limit is None else limit
    found = []
    for who, log in logs.items():
        least = log if lows is None else min(log, math.log(lows[who]))
        if (least - middle) / spread > limit and least - middle > math.log(LEAST_TIMES):
            found.append(Slow(who, math.exp(log - middle), (log - middle) / spread, limit))
    return sorted(found, key=lambda one: -one.score)


@functools.cache
def critical(members: int, chance: float = FALSE_ALARMS) -> float:
    """The score that the slowest of so many alike members exceeds with this chance."""
    if members > MOST_SIMULATED:
        from scipy.stats import norm

        return float(norm.isf(chance / members))
    random = np.random.default_rng(members)
    return _limit(random.standard_normal((SIMULATED, members)), chance)


@dataclass(frozen=True, slots=True)
class Ends(Generic[T]):
    """What a pair's time is made of, on logarithms."""

    all: float
    ends: dict[T, float]
    rests: dict[tuple[T, T], float]


def polished(times: Mapping[tuple[T, T], float]) -> Ends[T]:
    """Each end's own share, the median over its pairs, and what is left of each pair."""
    logs = {pair: math.log(time) for pair, time in times.items()}
    members = list(dict.fromkeys(one for pair in logs for one in pair))
    whole = median(logs.values())
    ends = dict.fromkeys(members, 0.0)
    partners: dict[T, list[tuple[T, float]]] = {one: [] for one in members}
    for (one, other), log in logs.items():
        partners[one].append((other, log))
        partners[other].append((one, log))
    for _ in range(SWEEPS):
        ends = {
            one: (ends[one] + median(log - whole - ends[other] for other, log in partners[one])) / 2
            for one in members
        }
        shift = median(ends.values())
        ends = {one: end - shift for one, end in ends.items()}
        whole += 2 * shift
    rests = {pair: log - whole - ends[pair[0]] - ends[pair[1]] for pair, log in logs.items()}
    return Ends(whole, ends, rests)


def slow_ends_and_pairs(
    times: Mapping[tuple[T, T], float],
    chance: float = FALSE_ALARMS,
    lows: Mapping[tuple[T, T], float] | None = None,
) -> tuple[list[Slow[T]], list[Slow[tuple[T, T]]]]:
    """Members that are slow with nearly all others, and pairs that are slow although their ends are not. `lows`: the
    lower limits of the pairs' intervals.
    """
    members = {one for pair in times for one in pair}
    if len(members) < LEAST_MEMBERS:
        return [], []
    found = polished(times)
    of_ends, of_pairs = critical_of_pairs(len(members), chance / 2, len(times))
    ends = slow({one: math.exp(end) for one, end in found.ends.items()}, limit=of_ends)
    rests = {pair: math.exp(rest) for pair, rest in found.rests.items()}
    least = None
    if lows is not None:
        least = {pair: rest * lows[pair] / times[pair] for pair, rest in rests.items()}
    pairs = slow(rests, lows=least, limit=of_pairs)
    slow_ends = {one.who for one in ends}
    return ends, [one for one in pairs if slow_ends.isdisjoint(one.who)]


@functools.cache
def critical_of_pairs(members: int, chance: float, measured: int | None = None) -> tuple[float, float]:
    """The scores that the slowest end, and the slowest pair, of so many alike members exceed with this chance. The fit
    takes a part of the pairs' deviation, so the limits of `critical` would be too low. Of many members the number of
    pairs that were measured counts; of few all are taken for measured.

    With k pairs of each member: of the deviation of all rests the fit takes 2 / k, as any fit of so many ends does. A
    rest that stands out moves no median, but has the errors of its two ends in it: pi / (2 k) of the variance each.
    """
    pairs = members * (members - 1) // 2
    if members > MOST_SIMULATED_PAIRS:
        some = pairs if measured is None else measured
        each = 2 * some / members
        taken = math.sqrt((1 + math.pi / each) / (1 - 2 / each)) if each > 2 else math.inf
        return critical(members, chance), critical(some, chance) * taken
    random = np.random.default_rng(members)
    upper = np.triu_indices(members, 1)
    logs = np.full((SIMULATED_PAIRS, members, members), np.nan)
    logs[:, upper[0], upper[1]] = random.standard_normal((SIMULATED_PAIRS, pairs))
    logs[:, upper[1], upper[0]] = logs[:, upper[0], upper[1]]
    ends = np.zeros((SIMULATED_PAIRS, members))
    whole = np.nanmedian(logs[:, upper[0], upper[1]], axis=1)
    for _ in range(SWEEPS):
        ends = (ends + np.nanmedian(logs - whole[:, None, None] - ends[:, None, :], axis=2)) / 2
        shift = np.median(ends, axis=1)
        ends -= shift[:, None]
        whole += 2 * shift
    rests = (logs - whole[:, None, None] - ends[:, None, :] - ends[:, :, None])[:, upper[0], upper[1]]
    return _limit(ends, chance), _limit(rests, chance)


def _limit(logs: np.ndarray[Any, np.dtype[np.float64]], chance: float) -> float:
    middle = np.median(logs, axis=1)
    spread = NORMAL * np.median(np.abs(logs - middle[:, None]), axis=1)
    return float(np.quantile((logs.max(axis=1) - middle) / np.maximum(spread, 1e-12), 1 - chance))
