# SPDX-License-Identifier: Apache-2.0
"""What a collective operation costs on top of the messages of the same library: the last step of a chain of layers.

The time of an operation (pattern `collective`: until the slowest rank is done) is divided by that of a message of the
same size under the same variant (pattern `pingpong`: half a round trip; of more than two ranks all pairs exchange
messages at once, and the slowest pair counts). The two are compared within each block, where they were measured back to
back (visits.py). A size that they have no block in common at is left out, so runs without blocks have no such step.

The size of both is what one rank has for one other: an allgather of P ranks brings each rank P - 1 times its size.

Beside it stands the least number of messages that the operation takes by the textbook, where ranks send and receive one
message at a time (`least`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from netpipe.reading.blocks.chains import Bar
from netpipe.reading.blocks.common_sizes import large_size, small_size
from netpipe.reading.blocks.visits import TRUTH, Seen, Sized, estimates_of_each, paired
from netpipe.reading.curves import place_in_plan
from netpipe.reading.estimate import Estimate
from netpipe.reading.summary import LATENCY_MOST_BYTES
from netpipe.reading.sweeps import COLLECTIVE, OPERATION

if TYPE_CHECKING:
    from netpipe.reading.explained.decision import InStates
    from netpipe.records import PlannedMode, Run

Name = tuple[str, str]  # variant and pattern

MESSAGE = "pingpong"
BARRIER = "barrier"  # it has no size, and is measured at the first one of the run

# By operation, what one of P ranks sends or receives at least, in messages of the size of the operation. Sources: E.
# Chan, M. Heimlich, A. Purkayastha and R. van de Geijn, "Collective communication: theory, practice, and experience",
# Concurrency and Computation: Practice and Experience 19 (2007) 1749-1783, the section on lower bounds; of alltoall J.
# Bruck, C.-T. Ho, S. Kipnis, E. Upfal and D. Weathersby, "Efficient algorithms for all-to-all communications in
# multiport message-passing systems", IEEE TPDS 8 (1997) 1143-1156. The last rank of a scan receives one vector.
# Of operations among neighbours no bound is known here: it depends on who is whose neighbour.
LEAST_VOLUMES: Mapping[str, Callable[[int], float]] = {
    BARRIER: lambda _: 0.0,
    "bcast": lambda _: 1.0,
    "reduce": lambda _: 1.0,
    "scan": lambda _: 1.0,
    "exscan": lambda _: 1.0,
    "allreduce": lambda ranks: 2 * (ranks - 1) / ranks,
    "gather": lambda ranks: ranks - 1.0,
    "gatherv": lambda ranks: ranks - 1.0,
    "scatter": lambda ranks: ranks - 1.0,
    "scatterv": lambda ranks: ranks - 1.0,
    "allgather": lambda ranks: ranks - 1.0,
    "allgatherv": lambda ranks: ranks - 1.0,
    "reduce_scatter": lambda ranks: ranks - 1.0,
    "reduce_scatter_block": lambda ranks: ranks - 1.0,
    "alltoall": lambda ranks: ranks - 1.0,
    "alltoallv": lambda ranks: ranks - 1.0,
    "alltoallw": lambda ranks: ranks - 1.0,
    "alltoalls": lambda ranks: ranks - 1.0,
}


def least(operation: str, ranks: int, start: float) -> float | None:
    """How many messages of one size an operation of so many ranks (2 or more) takes at least; None: no bound is known.
    `start` is what a small message takes, as a share of the time of one of this size: above 0, at most 1.

    The larger of two bounds. In each round of messages at most twice as many ranks as before can know of a rank's
    contribution, so there are ceil(log2 ranks) rounds, and each takes as long as a small message. And the bytes of an
    operation take as long as in messages, whose bytes have the rest of the time.
    """
    volume = LEAST_VOLUMES.get(operation)
    if volume is None:
        return None
    rounds = (ranks - 1).bit_length()
    return max(rounds * start, volume(ranks) * (1 - start))


class CollectiveSize(msgspec.Struct, frozen=True, gc=False):
    """An operation at one size."""

    size_bytes: int
    time_ns: Estimate  # of one operation
    messages: Estimate  # this time over that of one message of this size
    least: float | None  # messages that it takes at least; None: not known

    @property
    def over_least(self) -> Estimate | None:
        """How many times the least number of messages it takes."""
        return None if self.least is None else self.messages.scaled(1 / self.least)

    @property
    def bar_ns(self) -> Bar:
        """What it adds to one message, as a part of its time."""
        end, of = self.time_ns.value, self.messages
        message = end / of.value
        begin, low, high = (end - message * (ratio - 1) for ratio in (of.value, of.high, of.low))
        return Bar(begin, end, max(0.0, low), high)


@dataclass(frozen=True, slots=True)
class Collective:
    """An operation of one variant."""

    pattern: str
    operation: str  # with the settings of its pattern: "allreduce", "bcast, rotate=yes"
    sizes: tuple[CollectiveSize, ...]  # by rising size
    small: (
        CollectiveSize | None
    )  # at the small size of the run, else at its own nearest to 8 bytes; at most 64
    large: CollectiveSize | None  # at the large size of the run


@dataclass(frozen=True, slots=True)
class Collectives:
    """The operations of one variant, and the messages that they are held against."""

    variant: str
    ranks: int
    message: str  # the pattern
    # The same for all of a run: the one that most operations have, and of several
    small_bytes: int | None  # the nearest to 8 bytes, at most 64
    large_bytes: int | None  # the largest, above 64 bytes
    small_ns: Estimate | None  # time of a message of this size
    large_ns: Estimate | None
    each: tuple[Collective, ...]  # in the order of the plan


class _Held(NamedTuple):
    """An operation, and the message that it is held against."""

    variant: str
    ranks: int
    operation: PlannedMode
    message: PlannedMode

    @property
    def what(self) -> str:
        return self.operation.options.get(OPERATION, "")

    @property
    def names(self) -> tuple[Name, Name]:
        return (self.variant, self.operation.pattern), (self.variant, self.message.pattern)


def collectives(
    run: Run,
    visits: Mapping[Name, Seen],
    times: Mapping[Name, Sized],
    in_states: Mapping[Name, InStates],
) -> tuple[Collectives, ...]:
    """One for each variant that has both patterns, in the order of the plan. `times` is what the visits of each curve
    say of its time; curves that are not in `visits` are left out.
    """
    held = tuple(_held(run, visits))
    both = (paired(*map(visits.__getitem__, one.names)) for one in held)
    sizes: dict[Name, list[tuple[_Held, tuple[CollectiveSize, ...]]]] = {}
    for one, ratios in zip(held, estimates_of_each(both, TRUTH), strict=True):
        apart = {size for name in one.names if name in in_states for size in in_states[name].missing}
        if found := tuple(_sizes(one, ratios, times, apart)):
            sizes.setdefault((one.variant, one.message.pattern), []).append((one, found))
    found_all = [one for of in sizes.values() for one in of]
    with_sizes = [found for one, found in found_all if one.what != BARRIER] or [
        found for _, found in found_all
    ]
    every = Counter(size.size_bytes for found in with_sizes for size in found)
    small, large = small_size(every), large_size(every)
    made = []
    for (variant, message), of in sizes.items():
        of_message = times[variant, message].by_size()
        made.append(
            Collectives(
                variant=variant,
                ranks=of[0][0].ranks,
                message=message,
                small_bytes=small,
                large_bytes=large,
                small_ns=None if small is None else of_message.get(small),
                large_ns=None if large is None else of_message.get(large),
                each=tuple(_collective(one.operation, found, small, large) for one, found in of),
            )
        )
    return tuple(made)


def _held(run: Run, visits: Collection[Name]) -> Iterator[_Held]:
    # By variant too: overlaid runs may have patterns of one name with other defaults.
    modes = {
        (one.variant, mode.pattern): mode
        for plan in run.plans
        for one in plan.variants
        for mode in plan.modes
        if mode.name in (MESSAGE, COLLECTIVE)
    }
    ranks = {opened.variant: len(opened.ranks) for opened in run.variants}
    place = place_in_plan(run)
    by_variant: dict[str, dict[str, list[PlannedMode]]] = {}
    for variant, pattern in sorted(visits, key=lambda name: place(*name)):
        mode = modes.get((variant, pattern))
        if mode is not None and ranks.get(variant, 0) > 1:
            by_variant.setdefault(variant, {}).setdefault(mode.name, []).append(mode)
    for variant, of in by_variant.items():
        for operation in of.get(COLLECTIVE, ()) if MESSAGE in of else ():
            yield _Held(variant, ranks[variant], operation, _most_alike(of[MESSAGE], operation))


def _most_alike(messages: Sequence[PlannedMode], operation: PlannedMode) -> PlannedMode:
    """The one that agrees with the operation in most options: in its buffers, where messages were measured with
    several; of equals the first.
    """

    def alike(message: PlannedMode) -> int:
        return sum(operation.options.get(name) == value for name, value in message.options.items())

    return max(messages, key=alike)


def _sizes(
    of: _Held, ratios: Sized, times: Mapping[Name, Sized], apart: Collection[int]
) -> Iterator[CollectiveSize]:
    """Without the sizes `apart`, at which one of the two was not visited in the state of its curve."""
    own, message = (times[name].by_size() for name in of.names)
    even = of.operation.options.get("counts", "even") == "even"
    latency = small_size(dict.fromkeys(message, 1))
    for size, ratio in ratios.by_size().items():
        if size in apart or size not in message or (of.what == BARRIER and size > LATENCY_MOST_BYTES):
            continue
        bound = None
        if even and latency is not None:
            small = size <= LATENCY_MOST_BYTES
            start = 1.0 if small else min(1.0, message[latency].value / message[size].value)
            bound = least(of.what, of.ranks, start)
        yield CollectiveSize(size, own[size], ratio, bound)


def _collective(
    mode: PlannedMode, sizes: Sequence[CollectiveSize], small: int | None, large: int | None
) -> Collective:
    at = {size.size_bytes: size for size in sizes}
    own = small_size(dict.fromkeys(at, 1))
    near = small if small in at else own
    settings = [one for one in mode.pattern.partition(":")[2].split(",") if one]
    besides = [one for one in settings if one.partition("=")[0] != OPERATION]
    return Collective(
        mode.pattern,
        ", ".join([mode.options.get(OPERATION, ""), *besides]),
        tuple(sizes),
        None if near is None else at[near],
        None if large is None else at.get(large),
    )
