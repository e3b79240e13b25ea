# SPDX-License-Identifier: Apache-2.0
"""Results as rows: the median of the launches of each cell, how far it can be trusted, and how it compares."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from netpipe.kernels.lines import Result

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Row:
    """One cell. `low` and `high` are a 95 % interval of the median of the seconds; None where there are too few
    launches for one.
    """

    name: str
    problem: str
    variant: str
    ranks: int
    launches: int  # that verified
    failures: tuple[str, ...]  # why others did not
    seconds: float | None
    low: float | None
    high: float | None
    mops: float | None  # at the median
    speedup: float | None  # against the fewest ranks of the same kernel and variant that were run
    speedup_from: int  # their number
    behind: (
        float | None
    )  # times the seconds of the fastest variant of this kernel on as many ranks; 1: it is the fastest
    tied: bool  # its interval meets that of the fastest


def rows(results: Iterable[Result]) -> list[Row]:
    """By kernel, class, ranks and variant, in the order in which they are first seen."""
    cells: dict[tuple[str, str, str, int], list[Result]] = {}
    for one in results:
        cells.setdefault(one.cell, []).append(one)
    middle = {cell: _median_of(some) for cell, some in cells.items()}
    found = []
    for cell, some in cells.items():
        name, problem, variant, ranks = cell
        low, seconds, high = middle[cell]
        same = {
            other[3]: middle[other][1]
            for other in cells
            if other[:3] == cell[:3] and middle[other][1] is not None
        }
        fewest = min(same, default=ranks)
        base = same.get(fewest)
        rivals = [
            (time, other)
            for other in cells
            if (other[0], other[1], other[3]) == (name, problem, ranks)
            and (time := middle[other][1]) is not None
        ]
        best = min(rivals, default=None)
        good = [one for one in some if one.verified and one.mops]
        mops = None
        if good and seconds:
            one = good[0]
            assert one.mops is not None
            assert one.seconds is not None
            mops = one.mops * one.seconds / seconds  # the operations are the same in every run
        found.append(
            Row(
                name=name,
                problem=problem,
                variant=variant,
                ranks=ranks,
                launches=len(good),
                failures=tuple(dict.fromkeys(one.problem_text for one in some if one.problem_text)),
                seconds=seconds,
                low=low,
                high=high,
                mops=mops,
                speedup=base / seconds if base and seconds and fewest != ranks else None,
                speedup_from=fewest,
                behind=seconds / best[0] if seconds and best else None,
                tied=_meet(middle[cell], middle[best[1]]) if best else False,
            )
        )
    return found


def _median_of(some: Sequence[Result]) -> tuple[float | None, float | None, float | None]:
    values = sorted(one.seconds for one in some if one.verified and one.seconds is not None)
    if not values:
        return None, None, None
    low, high = interval(values)
    middle = len(values) // 2
    median = values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2
    return low, median, high


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
        yield math.comb(count, heads) * 0.5**count


def _meet(
    one: tuple[float | None, float | None, float | None],
    other: tuple[float | None, float | None, float | None],
) -> bool:
    if None in one or None in other:
        return True
    (low, _, high), (other_low, _, other_high) = one, other
    assert low is not None
    assert high is not None
    assert other_low is not None
    assert other_high is not None
    return low <= other_high and other_low <= high
