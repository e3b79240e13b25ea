# SPDX-License-Identifier: Apache-2.0
"""Where a series of runs changes its level: the stretch whose ranks differ most from those of all others, tested by
permutation, and again within each part. A stretch that reaches to one end is one change; one in the middle (slower for
a week, then mended) is two.

Ranks do not care about the shape of the noise, and permuting the series gives what the best of all stretches comes to
when nothing changed. The stretches are those of circular binary segmentation (A. B. Olshen, E. S. Venkatraman, R.
Lucito, M. Wigler, "Circular binary segmentation for the analysis of array-based DNA copy number data", Biostatistics 5
(2004) 557-572).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

FEWEST = 3  # runs in each part
PERMUTATIONS = 1000
AT_ONCE = 50
MOST = 200  # of a longer series the last so many
SIGNIFICANT = 0.05
SEED = 1


@dataclass(frozen=True, slots=True)
class Change:
    place: int  # of the first run after it
    factor: float  # the median after it over the median before it, each up to the next change
    chance: float  # that a series without a change has a stretch this far apart


def changes(values: Sequence[float]) -> tuple[Change, ...]:
    """By place. Values above 0, in the order of time."""
    whole = np.array([math.log(value) for value in values], np.float64)
    found = dict(sorted(_within(whole, max(0, len(whole) - MOST), len(whole), np.random.default_rng(SEED))))
    bounds = [0, *sorted(found), len(values)]
    return tuple(
        Change(place, median(values[place : bounds[n + 2]]) / median(values[bounds[n] : place]), found[place])
        for n, place in enumerate(bounds[1:-1])
    )


def _within(
    values: NDArray[np.float64], begin: int, end: int, draw: np.random.Generator
) -> Iterator[tuple[int, float]]:
    part = values[begin:end]
    if len(part) < 2 * FEWEST:
        return
    ranks = _ranks(part)
    stretches = _stretches(len(part))
    scores = _scores(ranks[None, :], *stretches)[0]
    best = scores.max()
    reached = sum(
        int(np.count_nonzero(_scores(several, *stretches).max(axis=1) >= best))
        for several in (
            draw.permuted(np.tile(ranks, (AT_ONCE, 1)), axis=1) for _ in range(PERMUTATIONS // AT_ONCE)
        )
    )
    chance = (1 + reached) / (1 + PERMUTATIONS)
    if chance > SIGNIFICANT:
        return
    first, last = (int(of[scores.argmax()]) for of in stretches)
    bounds = [begin, *(begin + at for at in (first, last) if 0 < at < len(part)), end]
    yield from ((at, chance) for at in bounds[1:-1])
    for low, high in pairwise(bounds):
        yield from _within(values, low, high, draw)


def _stretches(n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where each begins and ends: with so many runs in it, and on each side of it or none."""
    first, last = np.triu_indices(n + 1, FEWEST)
    before, after = first, n - last
    fits = ((before == 0) | (before >= FEWEST)) & ((after == 0) | (after >= FEWEST)) & (before + after > 0)
    return first[fits], last[fits]


def _scores(
    ranks: NDArray[np.float64], first: NDArray[np.intp], last: NDArray[np.intp]
) -> NDArray[np.float64]:
    """How far the sum of each stretch of ranks is from 0, over its deviation without a change; a row for each row."""
    n = ranks.shape[1]
    sums = np.zeros((len(ranks), n + 1))
    np.cumsum(ranks, axis=1, out=sums[:, 1:])
    inside = last - first
    return np.asarray(np.abs(sums[:, last] - sums[:, first]) / np.sqrt(inside * (n - inside)))


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """From 0, equal values with the mean of theirs, around 0."""
    _, group, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    mean = last - (count + 1) / 2
    return np.asarray(mean[group] - (len(values) - 1) / 2)
