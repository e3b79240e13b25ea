# SPDX-License-Identifier: Apache-2.0
"""The stack of layers as trees: what each adds to the one that it stands on, from the memory copy up.

A step is a loss (losses.py), so its number comes from pairs; the times beside it are those of the curves. The bar of a
step ends at its time and is as long as what it adds, so it need not begin where the bar of the layer below ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netpipe.reading.curves import Curve
    from netpipe.reading.estimate import Estimate
    from netpipe.reading.losses import Loss


@dataclass(frozen=True, slots=True)
class Bar:
    """A part of a waterfall, in ns."""

    begin: float  # later than the end: the layer is faster than the one below
    end: float
    low: float  # the interval of what is added: around the begin; of a layer with nothing below, around the end
    high: float


@dataclass(frozen=True, slots=True)
class Step:
    """One layer of a tree."""

    variant: str
    loss: Loss | None  # against the layer below; None: nothing is below
    # of each layer from the root's child down to this one: is it the last on its branch?
    branch: tuple[bool, ...]
    small_ns: Estimate | None  # its time at the small size of the tree
    large_rate: Estimate | None  # bytes/s at the large size

    @property
    def depth(self) -> int:
        return len(self.branch)

    @property
    def bar_ns(self) -> Bar | None:
        """What it adds for a small message, as a part of its time; all of its time, where nothing is below."""
        if self.small_ns is None:
            return None
        end = self.small_ns.value
        if self.loss is None:
            limits = (self.small_ns.low, self.small_ns.high) if self.small_ns.known else (end, end)
            return Bar(0.0, end, *limits)
        if self.loss.small is None:
            return None
        added = self.loss.small.added_ns
        begin = end - added.value
        limits = (max(0.0, end - added.high), end - added.low) if added.known else (begin, begin)
        return Bar(begin, end, *limits)


@dataclass(frozen=True, slots=True)
class Stack:
    """All trees of one pattern, one after the other; each begins at depth 0."""

    pattern: str
    small_bytes: int | None
    large_bytes: int | None
    steps: tuple[Step, ...]

    @property
    def longest_ns(self) -> float:
        """What a scale of the bars reaches to; intervals that are wider than all times leave it."""
        bars = [bar for step in self.steps if (bar := step.bar_ns)]
        return max((max(bar.begin, bar.end) for bar in bars), default=0.0)


def stacks(losses: Sequence[Loss], curves: Mapping[tuple[str, str], Curve]) -> tuple[Stack, ...]:
    """One for each pattern that has losses, in the order of the losses."""
    found = []
    for pattern in dict.fromkeys(loss.pattern for loss in losses):
        of = [loss for loss in losses if loss.pattern == pattern]
        small = _size(loss.small.size_bytes for loss in of if loss.small)
        large = _size(loss.large.size_bytes for loss in of if loss.large)
        steps = tuple(
            _steps(
                of, {name: curve for (name, where), curve in curves.items() if where == pattern}, small, large
            )
        )
        found.append(Stack(pattern, small, large, steps))
    return tuple(found)


def _size(sizes: Iterable[int]) -> int | None:
    """The one that most have."""
    every = list(sizes)
    return max(every, key=every.count) if every else None


def _steps(
    losses: Sequence[Loss], curves: Mapping[str, Curve], small: int | None, large: int | None
) -> Iterator[Step]:
    loss_of = {loss.variant: loss for loss in losses}
    above: dict[str, list[str]] = {}
    for loss in losses:
        above.setdefault(loss.below, []).append(loss.variant)

    def walk(variant: str, branch: tuple[bool, ...], loss: Loss | None) -> Iterator[Step]:
        curve = curves.get(variant)
        time = None if curve is None or small is None else _at(curve, small)
        last = None if curve is None or large is None else _at(curve, large)
        yield Step(variant, loss, branch, time and time[0], last[1] if last else None)
        upper = above.get(variant, [])
        for place, name in enumerate(upper):
            yield from walk(name, (*branch, place == len(upper) - 1), loss_of[name])

    for root in dict.fromkeys(loss.below for loss in losses if loss.below not in loss_of):
        yield from walk(root, (), None)


def _at(curve: Curve, size: int) -> tuple[Estimate, Estimate | None] | None:
    for point in curve.joined:
        if point.size_bytes == size:
            return point.time_ns, point.rate_bytes_per_s
    return None
