# SPDX-License-Identifier: Apache-2.0
"""What each layer loses of the layer below it.

Every module names the module below it. If a run has both under the same pattern, their curves are compared at every
size that both have: how many times longer the upper one takes, how many nanoseconds it adds, how much of the
throughput it keeps. The two are compared within each block, where they were measured back to back, so
that what the machine does to both cancels (blocks/visits.py). Of curves in states only blocks in the state of both
curves count, so that their ratio is that of the numbers beside it (explained/decision.py); a size without such a block
is left out and counted. Intervals are for one size at a time: of many sizes without any difference, one in twenty shows
one by chance.

Older runs recorded no blocks. Their points are paired within one launch and one state of the machine only; a size whose
two points are in different states is left out and counted, and intervals are those of `estimate.ratio` and
`estimate.difference`.

Which variant below: waiting matters as much as the layer does, so it is the nearest layer down the stack that was
measured with the same waiting (option `wait`). If there is none, it is the nearest layer, and `waits` says how the two
wait. Of several variants of that layer it is the plain one (named as its module), else the first.

A layer between two hosts is never compared with one inside a host: that would be a loss of the link.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from netpipe.reading.blocks.beside import copies
from netpipe.reading.blocks.visits import TRUTH, Seen, estimates_of_each, paired
from netpipe.reading.curves import WIDE, all_converged, place_in_plan, time_of
from netpipe.reading.estimate import Estimate, across, difference, ratio
from netpipe.reading.layers import stack
from netpipe.reading.summary import LATENCY_BYTES, LATENCY_MOST_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from netpipe.reading.curves import Groups
    from netpipe.reading.explained.decision import InStates
    from netpipe.records import Point, Run, Variant


class SizeLoss(msgspec.Struct, frozen=True, gc=False):
    """The loss at one size."""

    size_bytes: int
    times: Estimate  # time of the layer over time of the one below: 2 is twice as long
    added_ns: Estimate  # per operation
    converged: (
        bool | None
    )  # is the interval narrow? In older runs: both points, in every launch; None: not recorded
    apart: bool = False  # one of the two curves was not visited in its state here: no line joins this

    @property
    def kept(self) -> Estimate:
        """The fraction of the throughput of the layer below that remains."""
        return self.times.inverse()

    @property
    def seen(self) -> bool:
        """Was a difference seen? Not if the interval contains 1, or if there is none."""
        return not self.times.covers(1)


@dataclass(frozen=True, slots=True)
class Loss:
    variant: str
    pattern: str
    below: str  # the variant it is compared with
    adds: str | None  # what the layer adds, in its module's words
    absent: tuple[str, ...]  # layers between the two that this run did not measure with this waiting
    waits: tuple[str, str] | None  # how the two wait, if they do so differently
    sizes: tuple[SizeLoss, ...]  # by rising size
    # Each at one size for all losses of a pattern: the one that most of them have, and of several
    small: SizeLoss | None  # the nearest to 8 bytes, at most 64
    large: SizeLoss | None  # the largest, above 64 bytes
    other_state_sizes: int  # sizes not compared: measured in different states of the machine


@dataclass(frozen=True, slots=True)
class _Layer:
    variant: str
    module: str
    below: str | None
    adds: str | None
    wait: str | None
    hosts: frozenset[str | None]
    ranks: int


class _Pair(NamedTuple):
    """The points of a layer and of the one below it at one size in one launch, and their times."""

    upper: Point
    lower: Point
    time: Estimate
    time_below: Estimate


class _Compared(NamedTuple):
    """A layer and the one below it."""

    layer: _Layer
    below: _Layer
    pattern: str
    absent: tuple[str, ...]
    in_states: bool  # either of them
    apart: Collection[int]  # sizes at which either was not visited in the state of its curve

    @property
    def names(self) -> tuple[tuple[str, str], tuple[str, str]]:
        return (self.layer.variant, self.pattern), (self.below.variant, self.pattern)


def losses(
    run: Run,
    curves: Groups,
    visits: Mapping[tuple[str, str], Seen],
    by_visits: Mapping[tuple[str, str], Mapping[int, Estimate]],
    in_states: Mapping[tuple[str, str], InStates],
) -> tuple[Loss, ...]:
    """Every loss that the run can show, in the order of the plan (`curves` is `grouped(run.points)`, `visits` is `seen`
    of each, and `by_visits` is what these say). The stack that it recorded includes modules that it did not open, so
    that a layer whose neighbour is absent is compared with the next one down.
    """
    layers = _layers(run)
    under = stack(run)
    launches = {name: frozenset(_launches(curve)) for name, curve in curves.items()}
    by_module: dict[tuple[str, str], list[_Layer]] = {}  # (pattern, module) -> what was measured of it
    beside = copies(run)
    for variant, pattern in curves:
        if variant in layers and variant not in beside:
            by_module.setdefault((pattern, layers[variant].module), []).append(layers[variant])

    @cache  # hundreds of variants of one module ask the same
    def at(
        module: str,
        pattern: str,
        wait: str | None,
        hosts: frozenset[str | None],
        ranks: int,
        own: frozenset[int],
    ) -> tuple[bool, _Layer] | None:
        """What was measured of this module together with such a layer, if possible with as many ranks, and whether it
        waits as that does.
        """
        there = [
            other
            for other in by_module.get((pattern, module), [])
            if other.hosts == hosts and not own.isdisjoint(launches[other.variant, pattern])
        ]
        there = [other for other in there if other.ranks == ranks] or there
        alike = [other for other in there if wait in (None, other.wait)]
        return (bool(alike), _plain(alike or there)) if there else None

    @cache  # and are compared with the same one
    def times(name: tuple[str, str]) -> dict[int, Estimate]:
        return {size: time_of(points[0]) for size, points in curves[name].items() if len(points) == 1}

    compared = []
    for variant, pattern in curves:
        layer = layers.get(variant)
        if layer is None:
            continue
        down = _down(layer, under)
        below = [
            at(module, pattern, layer.wait, layer.hosts, layer.ranks, launches[variant, pattern])
            for module in down
        ]
        some = [(place, *of) for place, of in enumerate(below) if of is not None]
        if some:
            # The nearest one that waits in the same way, else the nearest.
            place, _, other = next((one for one in some if one[1]), some[0])
            names = (variant, pattern), (other.variant, pattern)
            split = [in_states[name] for name in names if name in in_states]
            apart = {size for one in split for size in one.missing}
            compared.append(_Compared(layer, other, pattern, tuple(down[:place]), bool(split), apart))
    both = (paired(*map(visits.__getitem__, one.names)) for one in compared)
    found = [
        _loss(one, curves, times(one.names[1]), by_visits[one.names[1]], ratios)
        for one, ratios in zip(compared, estimates_of_each(both, TRUTH), strict=True)
    ]
    order = place_in_plan(run)
    return tuple(sorted(_at_one_size(found), key=lambda loss: order(loss.variant, loss.pattern)))


def _at_one_size(losses: Iterable[Loss]) -> Iterator[Loss]:
    """The losses with `small` and `large`."""
    patterns: dict[str, list[Loss]] = {}
    for loss in losses:
        patterns.setdefault(loss.pattern, []).append(loss)
    for alike in patterns.values():
        count = Counter(size.size_bytes for loss in alike for size in loss.sizes if not size.apart)
        small = _most(count, [size for size in count if 0 < size <= LATENCY_MOST_BYTES], _from_latency)
        large = _most(count, [size for size in count if size > LATENCY_MOST_BYTES], lambda size: -size)
        for loss in alike:
            of = {
                size.size_bytes: size
                for size in loss.sizes
                if size.size_bytes in (small, large) and not size.apart
            }
            yield replace(loss, small=of.get(small), large=of.get(large))


def _most(count: Mapping[int, int], sizes: Iterable[int], rank: Callable[[int], float]) -> int:
    return min(sizes, key=lambda size: (-count[size], rank(size)), default=-1)


def _from_latency(size: int) -> float:
    return abs(math.log(size / LATENCY_BYTES))


def _launches(curve: Mapping[int, Sequence[Point]]) -> set[int]:
    return {point.launch for points in curve.values() for point in points}


def _layers(run: Run) -> dict[str, _Layer]:
    options = {variant.variant: variant.options for plan in run.plans for variant in plan.variants}
    return {
        opened.variant: _Layer(
            opened.variant,
            opened.module,
            opened.below,
            opened.adds,
            options.get(opened.variant, {}).get("wait") or _found_wait(opened),
            frozenset(rank.host for rank in opened.ranks),
            len(opened.ranks),
        )
        for opened in run.variants
    }


def _found_wait(opened: Variant) -> str | None:
    """How a library without such an option waits, as its module found out; "none" is a layer that never waits. Where
    ranks share a processor every layer that polls yields, so `yield` compares with the option's `poll`.
    """
    wait = opened.ranks[0].settings.get("wait") if opened.ranks else None
    return {"none": None, "yield": "poll"}.get(wait, wait) if wait is not None else None


def _down(layer: _Layer, under: Mapping[str, str | None]) -> list[str]:
    """The modules below, the nearest first. A stack with a cycle ends at the first repetition."""
    down: list[str] = []
    module = layer.below
    while module is not None and module not in down:
        down.append(module)
        module = under.get(module)
    return down


def _differ(layer: _Layer, other: _Layer) -> bool:
    return layer.wait is not None and other.wait is not None and layer.wait != other.wait


def _plain(there: Sequence[_Layer]) -> _Layer:
    return next((other for other in there if other.variant == other.module), there[0])


def _loss(
    of: _Compared,
    curves: Mapping[tuple[str, str], Mapping[int, Sequence[Point]]],
    below_ns: Mapping[int, Estimate],
    visited_ns: Mapping[int, Estimate],
    ratios: Mapping[int, Estimate],
) -> Loss:
    """By size: `below_ns` is the time of the layer below, where it has one point, `visited_ns` that by its visits, and
    `ratios` what the blocks of both say.
    """
    layer, below = of.layer, of.below
    upper, lower = map(curves.__getitem__, of.names)
    common = sorted(upper.keys() & lower.keys())
    sizes, other_state = [], 0
    for size in common:
        over, under = upper[size], lower[size]
        if size in ratios:
            sizes.append(_paired_loss(size, visited_ns[size].value, ratios[size], size in of.apart))
            continue
        if of.in_states:
            other_state += 1
            continue
        if len(over) == len(under) == 1 and over[0].launch == under[0].launch:
            (a,), (b,) = over, under
            if a.state != b.state:
                other_state += 1
            elif (pair := _Pair(a, b, time_of(a), below_ns[size])).time.low > 0 and pair.time_below.low > 0:
                sizes.append(_size_loss((pair,)))
            continue
        matching = {point.launch: point for point in under}
        both = [(point, matching[point.launch]) for point in over if point.launch in matching]
        timed = [_Pair(a, b, time_of(a), time_of(b)) for a, b in both if a.state == b.state]
        pairs = [pair for pair in timed if pair.time.low > 0 and pair.time_below.low > 0]
        other_state += any(a.state != b.state for a, b in both) and not pairs
        if pairs:
            sizes.append(_size_loss(pairs))
    return Loss(
        variant=layer.variant,
        pattern=of.pattern,
        below=below.variant,
        adds=layer.adds,
        absent=of.absent,
        waits=(layer.wait or "", below.wait or "") if _differ(layer, below) else None,
        sizes=tuple(sizes),
        small=None,
        large=None,
        other_state_sizes=other_state,
    )


def _paired_loss(size_bytes: int, below_ns: float, times: Estimate, apart: bool) -> SizeLoss:
    """Of one size, from the ratios within its blocks. What the layer adds is a part of what the one below takes."""
    value, low, high = below_ns * (times.value - 1), below_ns * (times.low - 1), below_ns * (times.high - 1)
    added = Estimate(value, low, high, times.known)
    return SizeLoss(size_bytes, times, added, times.half_width <= WIDE, apart)


def _size_loss(pairs: Sequence[_Pair]) -> SizeLoss:
    if len(pairs) == 1:
        (pair,) = pairs
        a, b = pair.upper.converged, pair.lower.converged
        converged = False if False in (a, b) else None if None in (a, b) else True
        times, added = ratio(pair.time, pair.time_below), difference(pair.time, pair.time_below)
        return SizeLoss(pair.upper.size_bytes, times, added, converged)
    return SizeLoss(
        size_bytes=pairs[0].upper.size_bytes,
        times=across([ratio(pair.time, pair.time_below) for pair in pairs]),
        added_ns=across([difference(pair.time, pair.time_below) for pair in pairs]),
        converged=all_converged(point for pair in pairs for point in (pair.upper, pair.lower)),
    )
