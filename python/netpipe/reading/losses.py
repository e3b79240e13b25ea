# SPDX-License-Identifier: Apache-2.0
"""What each layer loses of the layer below it.

Every module names the module below it. If a run has both under the same pattern, their curves are compared at every
size that both have: how many times longer the upper one takes, how many nanoseconds it adds, how much of the
throughput it keeps. The two are compared within each block, where they were measured back to back, so
that what the machine does to both cancels (blocks/visits.py); a size that was added to each of them at another time,
so that no block has both, is left out. Of curves in states only blocks in the state of both
curves count, so that their ratio is that of the numbers beside it (explained/decision.py); a size without such a block
is left out and counted. Intervals are for one size at a time: of many sizes without any difference, one in twenty shows
one by chance.

Older runs recorded no blocks. Their points are paired within one launch and one state of the machine only; a size whose
two points are in different states is left out and counted, and intervals are those of `estimate.ratio` and
`estimate.difference`.

Which variant below: waiting matters as much as the layer does, so it is the nearest layer down the stack that was
measured with the same waiting (option `wait`). If there is none, it is the nearest layer, and `waits` says how the two
wait. Of several variants of that layer it is the plain one (named as its module), else the first. A layer that knows
what the one below stands on in turn, as an MPI whose messages go through UCX, is compared only with variants of it that
stand on the same (shared memory or TCP); without any, with that one itself.

A layer between two hosts is never compared with one inside a host: that would be a loss of the link.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from netpipe.reading import waiting
from netpipe.reading.blocks.beside import copies
from netpipe.reading.blocks.common_sizes import large_size, small_size
from netpipe.reading.blocks.visits import TRUTH, Seen, Sized, estimates_of_each, groups, in_both, paired
from netpipe.reading.columns.by_curve import SETTLED
from netpipe.reading.columns.rows import Rows, together
from netpipe.reading.curves import WIDE, place_in_plan
from netpipe.reading.estimate import Bools, Estimate, Estimates, Ints, across, differences, ratios
from netpipe.reading.layers import Below, may_stand_below

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from netpipe.reading.columns.by_curve import ByCurve, CurveRecords
    from netpipe.reading.explained.decision import InStates
    from netpipe.records import Run, Variant


class SizeLoss(msgspec.Struct, frozen=True, gc=False):
    """The loss at one size."""

    size_bytes: int
    times: Estimate  # time of the layer over time of the one below: 2 is twice as long
    added_ns: Estimate  # per operation
    # is the interval narrow? In older runs: both points, in every launch; None: not recorded
    converged: bool | None
    apart: bool = False  # one of the two curves was not visited in its state here: no line joins this

    @property
    def kept(self) -> Estimate:
        """The fraction of the throughput of the layer below that remains."""
        return self.times.inverse()

    @property
    def seen(self) -> bool:
        """Was a difference seen? Not if the interval contains 1, or if there is none."""
        return not self.times.covers(1)


@dataclass(frozen=True, eq=False)
class LossSizes(Rows[SizeLoss]):
    """The sizes of a loss."""

    times: Estimates
    added: Estimates  # ns
    converged: list[bool | None]
    apart: Bools

    def made(self) -> Iterable[SizeLoss]:
        columns = self.size.tolist(), self.times.each(), self.added.each(), self.converged
        return map(SizeLoss, *columns, self.apart.tolist())

    @property
    def seen(self) -> Bools:
        """As `SizeLoss.seen`."""
        return ~self.times.covers(1)


@dataclass(frozen=True, slots=True)
class Loss:
    variant: str
    pattern: str
    below: str  # the variant it is compared with
    adds: str | None  # what the layer adds, in its module's words
    absent: tuple[str, ...]  # layers between the two that this run did not measure with this waiting
    # the library that its messages go through and what carries them there, where this run did not measure that
    through: tuple[str, str] | None
    waits: tuple[str, str] | None  # how the two wait, if they do so differently
    wait: str | None  # how this layer waits
    below_wait: str | None  # how the one below does; None: it never waits, or did not say
    sizes: LossSizes
    # Each at one size for all losses of a pattern: the one that most of them have, and of several
    small: SizeLoss | None  # the nearest to 8 bytes, at most 64
    large: SizeLoss | None  # the largest, above 64 bytes
    other_state_sizes: int  # sizes not compared: measured in different states of the machine


@dataclass(frozen=True, slots=True)
class _Layer:
    variant: str
    module: str
    told: tuple[str, ...]  # the modules below that its own module found, the nearest first
    down: tuple[str, ...]  # the modules below, the nearest first
    adds: str | None
    wait: str | None
    hosts: frozenset[str | None]
    ranks: int


class _Compared(NamedTuple):
    """A layer and the one below it."""

    layer: _Layer
    below: _Layer
    pattern: str
    absent: tuple[str, ...]
    through: tuple[str, str] | None
    in_states: bool  # either of them
    apart: Collection[int]  # sizes at which either was not visited in the state of its curve

    @property
    def names(self) -> tuple[tuple[str, str], tuple[str, str]]:
        return (self.layer.variant, self.pattern), (self.below.variant, self.pattern)


def losses(
    run: Run,
    curves: ByCurve,
    visits: Mapping[tuple[str, str], Seen],
    by_visits: Mapping[tuple[str, str], Sized],
    in_states: Mapping[tuple[str, str], InStates],
) -> tuple[Loss, ...]:
    """Every loss that the run can show, in the order of the plan (`curves` is `by_curve(run.points)`, `visits` is
    `seen` of each, and `by_visits` is what these say). The stack that it recorded includes modules that it did not
    open, so that a layer whose neighbour is absent is compared with the next one down.
    """
    layers = _layers(run)
    launches = {name: frozenset(curve.launch.tolist()) for name, curve in curves.items()}
    by_module: dict[tuple[str, str], list[_Layer]] = {}  # (pattern, module) -> what was measured of it
    beside = copies(run)
    for variant, pattern in curves:
        if variant in layers and variant not in beside:
            by_module.setdefault((pattern, layers[variant].module), []).append(layers[variant])

    @cache  # hundreds of variants of one module ask the same
    def at(
        module: str,
        pattern: str,
        on: tuple[str, ...],
        wait: str | None,
        hosts: frozenset[str | None],
        ranks: int,
        own: frozenset[int],
    ) -> tuple[bool, _Layer] | None:
        """What was measured of this module, standing on `on` (empty: on any layer), together with such a layer, if
        possible with as many ranks, and whether it waits as that does.
        """
        there = [
            other
            for other in by_module.get((pattern, module), [])
            if may_stand_below(on, other.told)
            and other.hosts == hosts
            and not own.isdisjoint(launches[other.variant, pattern])
        ]
        there = [other for other in there if other.ranks == ranks] or there
        alike = [other for other in there if wait in (None, other.wait)]
        return (bool(alike), _plain(alike or there)) if there else None

    compared = []
    for variant, pattern in curves:
        layer = layers.get(variant)
        if layer is None:
            continue
        own = launches[variant, pattern]
        below = [
            at(
                module,
                pattern,
                layer.told[place + 1 :],
                layer.wait,
                layer.hosts,
                layer.ranks,
                own,
            )
            for place, module in enumerate(layer.down)
        ]
        some = [(place, *of) for place, of in enumerate(below) if of is not None]
        if some:
            # The nearest one that waits in the same way, else the nearest.
            place, _, other = next((one for one in some if one[1]), some[0])
            names = (variant, pattern), (other.variant, pattern)
            split = [in_states[name] for name in names if name in in_states]
            apart = {size for one in split for size in one.missing}
            through = (layer.told[0], layer.told[1]) if len(layer.told) > 1 and below[0] is None else None
            absent = layer.down[:place]
            compared.append(_Compared(layer, other, pattern, absent, through, bool(split), apart))
    both = (paired(*map(visits.__getitem__, one.names)) for one in compared)
    found = [
        _loss(one, curves, (by_visits[one.names[0]], by_visits[one.names[1]]), by_blocks)
        for one, by_blocks in zip(compared, estimates_of_each(both, TRUTH), strict=True)
    ]
    order = place_in_plan(run)
    return tuple(sorted(_at_one_size(found), key=lambda loss: order(loss.variant, loss.pattern)))


def _at_one_size(losses: Iterable[Loss]) -> Iterator[Loss]:
    """The losses with `small` and `large`."""
    patterns: dict[str, list[Loss]] = {}
    for loss in losses:
        patterns.setdefault(loss.pattern, []).append(loss)
    for alike in patterns.values():
        sizes, number = np.unique(
            np.concatenate([loss.sizes.size[~loss.sizes.apart] for loss in alike]), return_counts=True
        )
        count = dict(zip(sizes.tolist(), number.tolist(), strict=True))
        chosen = small_size({size: number for size, number in count.items() if size > 0}), large_size(count)
        for loss in alike:
            both = (None if size is None else loss.sizes.of_size(size) for size in chosen)
            small_loss, large_loss = (None if one is None or one.apart else one for one in both)
            yield replace(loss, small=small_loss, large=large_loss)


def _layers(run: Run) -> dict[str, _Layer]:
    options = {variant.variant: variant.options for plan in run.plans for variant in plan.variants}
    below = Below(run)
    return {
        opened.variant: _Layer(
            opened.variant,
            opened.module,
            below.told(opened),
            below.down(opened),
            opened.adds,
            _wait(opened, options.get(opened.variant, {}).get("wait")),
            frozenset(rank.host for rank in opened.ranks),
            len(opened.ranks),
        )
        for opened in run.variants
    }


def _wait(opened: Variant, option: str | None) -> str | None:
    """The word under which a layer's waiting is compared: what its option says; without one, or where the option has a
    word of its own, what its module found out.
    """
    found = opened.ranks[0].settings.get("wait") if opened.ranks else None
    return waiting.alike(found if found in waiting.VERBS and option not in waiting.VERBS else option or found)


def _differ(layer: _Layer, other: _Layer) -> bool:
    return layer.wait is not None and other.wait is not None and layer.wait != other.wait


def _plain(there: Sequence[_Layer]) -> _Layer:
    return next((other for other in there if other.variant == other.module), there[0])


def _loss(
    of: _Compared,
    records: ByCurve,
    visited_ns: tuple[Sized, Sized],
    by_blocks: Sized,
) -> Loss:
    """By size: `visited_ns` are the times of the layer and of the one below by their visits, and `by_blocks` the ratios
    that the blocks of both say. Other sizes are of older runs, were never in one block, or not in the state of both.
    """
    layer, below = of.layer, of.below
    upper, lower = map(records.__getitem__, of.names)
    parts = [_by_blocks(*visited_ns, by_blocks, of.apart)]
    other_state = 0
    if of.in_states:
        other_state = len(np.intersect1d(upper.size, lower.size)) - len(by_blocks.size)
    elif len(recorded := np.intersect1d(visited_ns[0].size, visited_ns[1].size)) < len(upper.first):
        by_points, other_state = _by_points(upper, lower, recorded)
        parts = [by_points] if not len(by_blocks.size) else [*parts, by_points]
    return Loss(
        variant=layer.variant,
        pattern=of.pattern,
        below=below.variant,
        adds=layer.adds,
        absent=of.absent,
        through=of.through,
        waits=(layer.wait or "", below.wait or "") if _differ(layer, below) else None,
        wait=layer.wait,
        below_wait=below.wait,
        sizes=together(parts),
        small=None,
        large=None,
        other_state_sizes=other_state,
    )


def _by_blocks(own_ns: Sized, below_ns: Sized, ratios: Sized, apart: Collection[int]) -> LossSizes:
    """From the ratios within blocks. The two times beside a ratio are not paired, and theirs may be another one. What
    is added is taken from the larger time: so no layer adds more than it takes itself, and none saves more than the one
    below takes.
    """
    own, below = (of.each.value[np.searchsorted(of.size, ratios.size)] for of in (own_ns, below_ns))
    times = ratios.each
    with np.errstate(over="ignore"):
        unit = np.where(times.value > 1, own / times.value, below)
        value, low, high = (unit * (limit - 1) for limit in (times.value, times.low, times.high))
    added = Estimates(value, low, high, times.known)
    settled = (times.half_width <= WIDE).tolist()
    return LossSizes(ratios.size, times, added, settled, np.isin(ratios.size, list(apart)))


def _by_points(upper: CurveRecords, lower: CurveRecords, but: Ints) -> tuple[LossSizes, int]:
    """The losses at the sizes that both have, but for some, from their points in the same launch and state of the
    machine; and at how many sizes there are none because the states differ.
    """
    if np.array_equal(upper.size, lower.size) and np.array_equal(upper.launch, lower.launch):
        a = b = np.arange(len(upper.size))
    else:
        a, b = in_both((upper.size, upper.launch), (lower.size, lower.launch))
    if len(but):
        asked = ~np.isin(upper.size[a], but)
        a, b = a[asked], b[asked]
    alike = upper.state[a] == lower.state[b]
    sizes = upper.size[a]
    usable = alike & (upper.times.low[a] > 0) & (lower.times.low[b] > 0)
    other_state = len(np.setdiff1d(sizes[~alike], sizes[usable]))
    a, b, sizes = a[usable], b[usable], sizes[usable]
    over, under = upper.times.at(a), lower.times.at(b)
    times, added = ratios(over, under), differences(over, under)
    converged = np.minimum(upper.converged[a], lower.converged[b])
    first = groups(sizes).first
    if len(first) < len(sizes):  # several launches
        converged = np.minimum.reduceat(converged, first)
        times, added = (_across(one, first) for one in (times, added))
    settled = [SETTLED[one] for one in converged.tolist()]
    return LossSizes(sizes[first], times, added, settled, np.zeros(len(first), np.bool_)), other_state


def _across(each: Estimates, first: Ints) -> Estimates:
    """`across` of those that lie together."""
    whole = each.each()
    return Estimates.of(*(across(whole[a:b]) for a, b in pairwise([*first.tolist(), len(whole)])))
