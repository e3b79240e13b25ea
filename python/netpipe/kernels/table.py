# SPDX-License-Identifier: Apache-2.0
"""Results as rows: the median of the launches of each cell, how far it can be trusted, and how it compares."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from netpipe.kernels.lines import Cell, Load, Pin, Result

CONFIDENCE = 0.95
LEAST = 6  # values of which there is such an interval


@dataclass(frozen=True, slots=True)
class Estimate:
    """A median. `low` and `high` are its 95 % interval; None where there are too few values for one."""

    value: float
    low: float | None
    high: float | None

    def meets(self, other: Estimate) -> bool:
        """Whether it is not known which of the two is less: the intervals meet, or there is none."""
        if self.low is None or self.high is None or other.low is None or other.high is None:
            return True
        return self.low <= other.high and other.low <= self.high


@dataclass(frozen=True, slots=True)
class Row:
    """One cell."""

    cell: Cell
    launches: int  # that were run
    verified: int  # of them
    failures: tuple[str, ...]  # why the others did not, each reason once
    seconds: Estimate | None
    mops: float | None  # 10^6 operations in a second, at the median
    # against the fewest ranks of the same kernel and variant; None for these themselves
    speedup: float | None
    speedup_from: int  # their number
    # the seconds over those of the fastest variant and mapping of this kernel on as many ranks
    behind: float | None
    tied: bool  # of the fastest: another one may be as fast; of the others: this one may be
    pins: tuple[Pin, ...] = ()  # on which processors its ranks were, each once; none: not known
    oversubscribed: bool = False
    hosts: tuple[str, ...] = ()  # the names of its ranks' hosts, each once; empty: one host
    loads: tuple[Load, ...] = ()  # of each launch of which it is known


def rows(results: Iterable[Result]) -> list[Row]:
    """By cell, in the order in which these are first seen."""
    cells: dict[Cell, list[Result]] = {}
    for one in results:
        cells.setdefault(one.cell, []).append(one)
    medians = {
        cell: found
        for cell, some in cells.items()
        if (found := median([one.seconds for one in some if one.verified and one.seconds is not None]))
    }
    return [_row(cell, some, medians) for cell, some in cells.items()]


def _row(cell: Cell, some: Sequence[Result], medians: dict[Cell, Estimate]) -> Row:
    own = medians.get(cell)
    numbers = [other.ranks for other in medians if other._replace(ranks=cell.ranks) == cell]
    fewest = min(numbers, default=cell.ranks)
    base = medians.get(cell._replace(ranks=fewest))
    rivals = {
        other: found
        for other, found in medians.items()
        if other._replace(variant=cell.variant, mapping=cell.mapping) == cell
    }
    speedup = behind = None
    tied = False
    if own is not None and own.value > 0:
        best = min(rivals, key=lambda other: rivals[other].value)
        others = [found for other, found in rivals.items() if other != cell]
        tied = any(map(own.meets, others)) if best == cell else own.meets(rivals[best])
        behind = own.value / rivals[best].value if rivals[best].value > 0 else None
        speedup = base.value / own.value if base is not None and fewest != cell.ranks else None
    good = [one for one in some if one.verified]
    return Row(
        cell=cell,
        launches=len(some),
        verified=len(good),
        failures=_different(one.problem_text for one in some if one.problem_text),
        seconds=own,
        mops=_rate(good, own),
        speedup=speedup,
        speedup_from=fewest,
        behind=behind,
        tied=tied,
        pins=tuple(dict.fromkeys(tuple(one.pin) for one in good if one.pin)),
        oversubscribed=any(one.oversubscribed for one in some),
        hosts=tuple(dict.fromkeys(name for one in good for name in one.places)),
        loads=tuple(one.load for one in some if one.load is not None),
    )


def _different(texts: Iterable[str]) -> tuple[str, ...]:
    """Each once; two that differ in numbers alone, such as those of processes, are the same."""
    found: dict[str, str] = {}
    for text in texts:
        found.setdefault(re.sub(r"\d+", "0", text), text)
    return tuple(found.values())


def _rate(good: Sequence[Result], own: Estimate | None) -> float | None:
    """The operations are the same in every run, so that of one and the median make the rate."""
    for one in good:
        if one.mops and one.seconds and own is not None and own.value > 0:
            return one.mops * one.seconds / own.value
    return None


def median(values: Sequence[float]) -> Estimate | None:
    """None if there are no values."""
    if not values:
        return None
    values = sorted(values)
    low, high = interval(values)
    middle = len(values) // 2
    return Estimate(
        values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2, low, high
    )


def interval(values: Sequence[float]) -> tuple[float | None, float | None]:
    """A 95 % interval of the median of sorted values, from the order of the values alone: (None, None) below six."""
    count = len(values)
    inside = 0.0
    for below, chance in enumerate(_binomial(count)):
        inside += chance
        if inside > (1 - CONFIDENCE) / 2:
            return (values[below - 1], values[count - below]) if below else (None, None)
    return None, None


def _binomial(count: int) -> Iterator[float]:
    """The chances of 0, 1, 2, ... heads of so many coins."""
    for heads in range(count + 1):
        yield math.comb(count, heads) / (1 << count)
