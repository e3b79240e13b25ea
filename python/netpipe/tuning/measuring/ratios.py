# SPDX-License-Identifier: Apache-2.0
"""From a run to the scores of its variants: each against the one that it is compared with, within the same blocks.

The statistics are those of every comparison (reading/blocks/visits.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

from netpipe.reading.blocks.visits import TRUTH, Seen, estimates, paired, seen, student_t
from netpipe.reading.columns.by_curve import by_curve
from netpipe.reading.estimate import Estimate, unsure
from netpipe.records import Run
from netpipe.tuning.search.goals import Goal, Place
from netpipe.tuning.search.halving import LEAST_GAIN

BY_LAUNCH = 6  # launches whose own scores say how far they lie apart


@dataclass(frozen=True)
class Scores:
    """Of one run. Ratios are times: below 1 is faster than the reference."""

    of: Mapping[str, Estimate]  # by variant, over the goal; those that have all its places
    places: Mapping[str, Mapping[Place, Estimate]]  # by variant, at each place
    times_ns: Mapping[Place, float]  # of the reference

    def apart(self, variant: str, goal: Goal) -> float:
        """How far a variant lies from the reference at the places of the goal, in either direction: the mean factor."""
        each = {
            place: unsure(max(one.value, 1 / one.value))
            for place, one in self.places.get(variant, {}).items()
            if place in self.times_ns
        }
        score = goal.score(each, self.times_ns)
        return 1.0 if score is None else score.value


def scores(
    run: Run,
    reference: str,
    patterns: Sequence[str],
    goal: Goal,
    places: Sequence[Place],
    tests: int = 1,
    copy: str = "",
) -> Scores:
    """`patterns` as they were asked for. Of `tests` variants the scores hold together with 95 %. `copy`: the reference
    beside itself; the score of a launch is the middle of those against both, as each is off by itself.
    """
    visits = _visits(run, patterns)
    base = {pattern: of for (variant, pattern), of in visits.items() if variant == reference}
    times = {
        (pattern, size): math.exp(one)
        for pattern, of in base.items()
        for size, one in _middles(of).items()
        if (pattern, size) in places
    }
    found: dict[str, dict[Place, Estimate]] = {}
    launches: dict[str, dict[int, dict[Place, float]]] = {}
    for (variant, pattern), of in visits.items():
        if variant == reference or pattern not in base:
            continue
        ratios = paired(of, base[pattern])
        for size, ratio in estimates(ratios, TRUTH, tests).items():
            if (pattern, size) in times:
                found.setdefault(variant, {})[pattern, size] = ratio
        against = [ratios]
        if copy != variant and (beside := visits.get((copy, pattern))) is not None:
            against.append(paired(of, beside))
        for launch, middles in _by_launch(against).items():
            at = {(pattern, size): middle for size, middle in middles.items() if (pattern, size) in times}
            launches.setdefault(variant, {}).setdefault(launch, {}).update(at)
    whole = {}
    for variant, each in found.items():
        if set(each) == set(times) and (score := goal.score(each, times)) is not None:
            whole[variant] = _over_launches(launches[variant], goal, times, tests) or score
    return Scores(whole, found, times)


def _over_launches(
    launches: Mapping[int, Mapping[Place, float]], goal: Goal, times: Mapping[Place, float], tests: int
) -> Estimate | None:
    """The score of each launch by itself, and how far these lie apart: launches are independent, and whatever moves all
    sizes of one together, or one alone, is in them. None where they are too few to say so.
    """
    made = [
        score.value
        for places in launches.values()
        if set(places) == set(times)
        and (score := goal.score({place: unsure(one) for place, one in places.items()}, times)) is not None
    ]
    if len(made) < BY_LAUNCH:
        return None
    logs = [math.log(one) for one in made]
    middle = fmean(logs)
    reach = student_t(len(logs) - 1, tests) * stdev(logs) / math.sqrt(len(logs))
    value, low, high = (math.exp(min(one, 700.0)) for one in (middle, middle - reach, middle + reach))
    return Estimate(value, low, high)


def _by_launch(against: Sequence[Seen]) -> dict[int, dict[int, float]]:
    """The median ratio of each size, by launch; the middle of several."""
    found: dict[tuple[int, int], list[float]] = {}
    for of in against:
        each: dict[tuple[int, int], list[float]] = {}
        for launch, size, log in zip(of.launch.tolist(), of.size.tolist(), of.log.tolist(), strict=True):
            each.setdefault((launch, size), []).append(log)
        for at, logs in each.items():
            found.setdefault(at, []).append(median(logs))
    launches: dict[int, dict[int, float]] = {}
    for (launch, size), middles in found.items():
        launches.setdefault(launch, {})[size] = math.exp(fmean(middles))
    return launches


def _visits(run: Run, patterns: Sequence[str]) -> dict[tuple[str, str], Seen]:
    """By variant and pattern as it was asked for; the record writes it in its own way."""
    given = dict(zip(run.plans[0].patterns, patterns, strict=False)) if run.plans else {}
    return {
        (variant, given.get(pattern, pattern)): seen(records)
        for (variant, pattern), records in by_curve(run.points).items()
    }


def _middles(of: Seen) -> dict[int, float]:
    return {size: math.log(one.value) for size, one in estimates(of, TRUTH).items()}


@dataclass(frozen=True)
class Verdict:
    """Whether settings gain anything."""

    times_as_fast: Estimate
    floor: float  # times as fast: what the start beside itself shows in the same run

    @property
    def gains(self) -> bool:
        return self.times_as_fast.known and self.times_as_fast.low > max(self.floor, LEAST_GAIN)

    @property
    def loses(self) -> bool:
        return self.times_as_fast.known and self.times_as_fast.high < 1


def verdict(score: Estimate, copy: Estimate | None, apart: float = 1.0) -> Verdict:
    """`copy`: the start beside itself, and `apart` how far it lies from itself at the sizes of the goal, in the mean:
    this is what the run takes for a difference where there is none (reading/blocks/beside.py). Without a copy that has
    an interval nothing is a gain.
    """
    if copy is None or not copy.known:
        return Verdict(score.inverse(), math.inf)
    return Verdict(score.inverse(), max(copy.value, 1 / copy.value, apart))
