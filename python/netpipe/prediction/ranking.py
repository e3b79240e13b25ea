# SPDX-License-Identifier: Apache-2.0
"""Which variant is faster for a program, two at a time.

The predictions of two variants are wrong in the same way for the most part: both replay the same calls with the same
waiting, by the same model, and both carry over what the model does not explain of the profile. So the ratio of two
predictions is known better than either of them, and two variants may differ surely although their intervals meet.

The interval of a ratio has, added in quadrature as those of independent errors are:

    curves     of both variants, each with the ends of its own intervals (reading/estimate.py: MOVER)
    launches   how far the ratio differs between the launches of the profile, each of which is replayed over both
    the model  at least LEAST_RATIO: how far ratios of predictions were from ratios of measured times

How much of what was carried over belongs to the library of the profile is not known: for the other variants the ratio
is computed with half of it, with all and with one and a half, the same for both, and the interval has all three.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from netpipe.prediction.costs import BOUNDS, Bound
from netpipe.reading.estimate import Estimate, ratio

# ln of a factor, 1.35: of 36 ratios of predictions 32 were within it of the ratios that were measured, half of them
# within 1.16 (decision 21).
LEAST_RATIO = 0.3
SHARES = (0.5, 1.0, 1.5)  # of what was carried over, for another library than that of the profile
LEAST_S = 1e-12  # seconds: what takes no time in the replay has a ratio too


@dataclass(frozen=True, slots=True)
class Replays:
    """Of one variant: the seconds in MPI of each launch, as the replay has them, by end of the curves' intervals."""

    variant: str
    seconds: dict[Bound, list[float]]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two variants. `times` is how many times as long `slower` takes as `faster`; which is which may be undecided."""

    faster: str
    slower: str
    times: Estimate

    @property
    def decided(self) -> bool:
        return self.times.low > 1.0


def carried(replayed: float, beyond: float, least: float = 0.5) -> float:
    """What a model says too much is taken off down to this share of what it says."""
    return max(replayed + beyond, least * replayed)


def spread(values: Sequence[float]) -> float:
    """|ln| of the ratio to their median that half of the launches exceed; 0 for one."""
    middle = median(values)
    if len(values) < 2 or middle <= 0:
        return 0.0
    return median(abs(math.log(one / middle)) if one > 0 else 0.0 for one in values)


def pairs(several: Sequence[Replays], beyond: Sequence[float], own: str | None) -> list[Pair]:
    """Of all variants. `beyond`: what each launch spent in MPI beyond the replay over its `own` variant, in seconds."""
    return [_pair(one, other, beyond, own) for one, other in combinations(several, 2)]


def tiers(variants: Sequence[str], found: Sequence[Pair]) -> list[tuple[str, ...]]:
    """The variants in tiers: in the first are those that are surely slower than no other, in the next those that are
    surely slower only than some of the tiers before.
    """
    decided = [(pair.faster, pair.slower) for pair in found if pair.decided]
    left = list(variants)
    made: list[tuple[str, ...]] = []
    while left:
        slower = {slow for fast, slow in decided if fast in left}
        tier = tuple(one for one in left if one not in slower) or tuple(left)
        made.append(tier)
        left = [one for one in left if one not in tier]
    return made


def _pair(one: Replays, other: Replays, beyond: Sequence[float], own: str | None) -> Pair:
    first, second = _with_rest(one, beyond, own, 1.0), _with_rest(other, beyond, own, 1.0)
    each = [b / a for a, b in zip(first["value"], second["value"], strict=True)]
    value = median(each)
    if value < 1.0:
        one, other, value, each = other, one, 1 / value, [1 / times for times in each]
    shares = [
        ratio(_ends(_with_rest(other, beyond, own, share)), _ends(_with_rest(one, beyond, own, share)))
        for share in SHARES
    ]
    # The median of ratios is not the ratio of medians: the limits are those of the latter, around the former.
    around = value / shares[SHARES.index(1.0)].value
    low = min([value, *(share.low * around for share in shares)])
    high = max([value, *(share.high * around for share in shares)])
    error = max(LEAST_RATIO, spread(each))
    times = Estimate(
        value,
        value / math.exp(math.hypot(math.log(value / low), error)),
        value * math.exp(math.hypot(math.log(high / value), error)),
    )
    return Pair(one.variant, other.variant, times)


def _with_rest(
    one: Replays, beyond: Sequence[float], own: str | None, share: float
) -> dict[Bound, list[float]]:
    """With this share of what was carried over; over the profile's own library it is all of it."""
    of = 1.0 if one.variant == own else share
    return {
        bound: [
            max(carried(time, of * more), LEAST_S)
            for time, more in zip(one.seconds[bound], beyond, strict=True)
        ]
        for bound in BOUNDS
    }


def _ends(seconds: dict[Bound, list[float]]) -> Estimate:
    """The medians over the launches."""
    value, *ends = (median(seconds[bound]) for bound in BOUNDS)
    return Estimate(value, min(value, *ends), max(value, *ends))
