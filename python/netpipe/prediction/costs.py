# SPDX-License-Identifier: Apache-2.0
"""What one variant's messages cost, by size, as a run has measured it; with what a user wants to be otherwise ("what
if").

    latency     pingpong              from the call of the sender until the receiver has the message
    exchange    bidirectional         the same with one each way at once
    send_ns     overhead:side=send    processor time of the sender, of a message that is sent at once
    blocking    the same, blocking    and where the call is MPI_Send
    recv_ns     overhead:side=recv    processor time of the receiver, of a message that is there
    gap         window                what a message adds that follows another one at once: of a window of messages
                                      less what the first of them and the answer take
    gap_both    window:directions=both  the same with as many the other way
    collective  collective:what=...   until the last rank leaves, all having begun at once
    itself      itself                a message of a rank to itself: its calls take what they took, times what it takes
                                      over what it takes with the library of the profile
    first       first                 what the first message between two ranks takes besides

A ping-pong sends from where the last message landed, so the data is new at every turn. `bidirectional` sends the same
bytes again and again, which over shared memory may be in the receiver's cache already: an application's are not. So an
exchange takes no less than a message.

A gap is that of LogGP, gap(s) = g + (s - 1) G, here (PRTT(n, 0, s) - PRTT(1, 0, s)) / (n - 1) as in pattern `loggp`
(docs/patterns.md). It is taken for no less than 0, and for no more than a message takes alone.

A variant may have two sets of curves, within a host and between hosts.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from netpipe.prediction.runs import between_hosts, of_program
from netpipe.reading.measures import measures_of

if TYPE_CHECKING:
    from netpipe.profiles.trace.calls import Message
    from netpipe.reading import Reading
    from netpipe.reading.curves import Curve
    from netpipe.reading.estimate import Estimate

Bound = str  # "value", "low" or "high": which end of the intervals
BOUNDS: tuple[Bound, ...] = ("value", "low", "high")
# A send of which more than this is left when the rank comes to wait for it moved nothing by itself: the receiver is
# asked first.
LEFT = 0.3
FIRST = "first"  # not a pattern of the worker: netpipe predict --measure adds it to the run
FEWEST = 2  # ranks, where a run does not say how many it had
GUESSED_EAGER = 4096  # bytes; where no run has measured the overheads
WINDOW = 16  # messages of the pattern `window`, unless told otherwise
# What messages take that follow others, by whether as many go the other way.
TRAINS = {False: "window", True: "window:directions=both"}
PLAIN = {
    "Bcast": "bcast",
    "Reduce": "reduce",
    "Allreduce": "allreduce",
    "Gather": "gather",
    "Scatter": "scatter",
}
OPERATIONS = {  # of MPI -> of the pattern `collective`
    **PLAIN,
    "Allgather": "allgather",
    "Alltoall": "alltoall",
    "Alltoallv": "alltoallv",
    "Allgatherv": "allgatherv",
    "Gatherv": "gatherv",
    "Scatterv": "scatterv",
    "Reduce_scatter": "reduce_scatter",
    "Reduce_scatter_block": "reduce_scatter_block",
    "Scan": "scan",
    "Exscan": "exscan",
    "Barrier": "barrier",
    "Alltoallw": "alltoallw",
}
# bytes are those to all ranks
TO_EACH = {"Alltoall", "Alltoallv", "Alltoallw", "Reduce_scatter", "Reduce_scatter_block"}


@dataclass(frozen=True, slots=True)
class Factors:
    """What is to be otherwise than measured."""

    latency: float = 1.0  # times the time of the smallest message
    bandwidth: float = 1.0  # times the rate of what a message takes beyond that
    overhead: float = 1.0  # times the processor time of the calls
    # Times what the smallest message adds that follows another one: the inverse of their rate.
    gap: float = 1.0
    eager: int | None = None  # bytes: the largest message that is sent without asking the receiver

    @property
    def changed(self) -> bool:
        return self != Factors()


class Sized:
    """A time by size. Between sizes it is a power of the size; beyond the largest it grows as the bytes do."""

    def __init__(self, values: Mapping[int, float]) -> None:
        self.sizes = sorted(values)
        self.times = [max(values[size], 0.0) for size in self.sizes]
        self._known: dict[int, float] = {}

    def __call__(self, size: int) -> float:
        found = self._known.get(size)
        if found is None:
            found = self._known[size] = self._at(size)
        return found

    def _at(self, size: int) -> float:
        sizes, times = self.sizes, self.times
        place = bisect_left(sizes, size)
        if place < len(sizes) and sizes[place] == size:
            return times[place]
        if place == 0:
            return times[0]
        if place == len(sizes):
            return times[-1] * size / max(sizes[-1], 1)
        below, above = place - 1, place
        if sizes[below] <= 0 or times[below] <= 0 or times[above] <= 0:
            share = (size - sizes[below]) / (sizes[above] - sizes[below])
            return times[below] + share * (times[above] - times[below])
        share = math.log(size / sizes[below]) / math.log(sizes[above] / sizes[below])
        return float(times[below] * (times[above] / times[below]) ** share)

    def changed(self, factors: Factors) -> Sized:
        """Latency and bandwidth other than measured."""
        least = self.times[0]
        return Sized(
            {
                size: least * factors.latency + max(time - least, 0.0) / factors.bandwidth
                for size, time in zip(self.sizes, self.times, strict=True)
            }
        )

    def scaled(self, factor: float) -> Sized:
        return Sized({size: time * factor for size, time in zip(self.sizes, self.times, strict=True)})


class Times(Sized):
    """How many times one time is another one, by size."""

    def __init__(self, one: Sized, other: Sized) -> None:
        super().__init__({})
        self.one, self.other = one, other

    def _at(self, size: int) -> float:
        other = self.other(size)
        return self.one(size) / other if other > 0 else 1.0


def larger(one: Sized, other: Sized) -> Sized:
    """At each size of `one`."""
    return Sized({size: max(time, other(size)) for size, time in zip(one.sizes, one.times, strict=True)})


@dataclass(slots=True)
class Costs:
    """Of one variant, with one end of the intervals."""

    variant: str
    latency: Sized
    exchange: Sized
    send: Sized
    recv: Sized
    eager: Callable[[int], bool]
    blocking: Sized | None = None  # as `send`, for MPI_Send
    first: float = 0.0
    gap: Sized | None = None
    gap_both: Sized | None = None
    itself: Sized | None = None  # a message of a rank to itself
    within: Sized | None = None  # and how many times that is what it takes over the library of the profile
    collectives: dict[tuple[str, int], Sized] = field(default_factory=dict)  # by operation of MPI, ranks
    largest: int = 0  # bytes: beyond it nothing was measured
    guessed: list[str] = field(default_factory=list)  # what was not measured
    far: Costs | None = None  # between hosts, where these are within one

    def of(self, far: bool) -> Costs:
        """Those between hosts (`far`), if they were measured apart; else these."""
        return self.far if far and self.far is not None else self

    def takes(self, size: int, returned: bool) -> float:
        """A message, from its send until it is there; `returned`: with one the other way at once."""
        return (self.exchange if returned else self.latency)(size)

    def follows(self, size: int, returned: bool) -> float | None:
        """From the arrival of a message to that of the next one, of this size, if that was sent at once. None: not
        measured.
        """
        curve = self.gap_both if returned else self.gap
        return None if curve is None else curve(size)

    @property
    def has_gap(self) -> bool:
        """Whether a gap was measured, between hosts too if these costs were."""
        here = self.gap is not None or self.gap_both is not None
        return here and (self.far is None or self.far.has_gap)

    def blocks(self, size: int) -> float:
        """Processor time of MPI_Send, of a message that is sent at once."""
        return (self.send if self.blocking is None else self.blocking)(size)

    def collective(self, name: str, ranks: int, size: int) -> float | None:
        """Nanoseconds; None where no curve tells."""
        curve = self.collectives.get((name, ranks))
        if curve is None:
            return None
        return curve(size // ranks if name in TO_EACH and ranks else size)

    def changed(self, factors: Factors) -> Costs:
        """These costs, where they were measured, with what is to be otherwise."""
        limit = factors.eager
        gap = replace(factors, latency=factors.gap)
        return replace(
            self,
            latency=self.latency.changed(factors),
            exchange=self.exchange.changed(factors),
            send=self.send.scaled(factors.overhead),
            recv=self.recv.scaled(factors.overhead),
            eager=self.eager if limit is None else lambda size: size <= limit,
            blocking=None if self.blocking is None else self.blocking.scaled(factors.overhead),
            gap=None if self.gap is None else self.gap.changed(gap),
            gap_both=None if self.gap_both is None else self.gap_both.changed(gap),
            collectives={key: curve.changed(factors) for key, curve in self.collectives.items()},
            far=None if self.far is None else self.far.changed(factors),
        )


def costs(reading: Reading, bound: Bound = "value", factors: Factors | None = None) -> dict[str, Costs]:
    """By variant, of those that have a ping-pong. Where it was measured only within a host, or only between hosts,
    these are the costs of all its messages.
    """
    factors = factors or Factors()
    found: dict[str, Costs] = {}
    ranks, between = _ranks(reading), between_hosts(reading.run)
    by_variant: dict[str, list[Curve]] = {}
    for curve in reading.curves:
        by_variant.setdefault(of_program(curve.variant), []).append(curve)
    for variant, curves in by_variant.items():
        near, far = (
            _of([curve for curve in curves if (curve.variant in between) == apart], variant, bound, ranks)
            for apart in (False, True)
        )
        one = near or far
        if one is None:
            continue
        if near is not None:
            one = replace(one, far=far)
        found[variant] = one.changed(factors) if factors.changed else one
    return found


def train(message: Message) -> str | None:
    """The pattern that tells what a message takes which follows another one; None for those that do not."""
    return TRAINS[message.returned] if message.follows and message.bytes else None


def _of(curves: Sequence[Curve], variant: str, bound: Bound, ranks: Mapping[str, int]) -> Costs | None:
    """The curves of a variant on any number of ranks, of which messages take those on the fewest."""
    curves = sorted(curves, key=lambda curve: -ranks.get(curve.variant, FEWEST))
    by_name = {curve.pattern: curve for curve in curves}
    pingpong = _named(by_name, "pingpong")
    if pingpong is None or not pingpong.points:
        return None
    guessed: list[str] = []
    latency = _times(pingpong, bound)
    both = _named(by_name, "bidirectional")
    if both is None:
        guessed.append("bidirectional")
    exchange = larger(_times(both, bound), latency) if both is not None else latency
    send_curve = _named(by_name, "overhead", "side=send")
    recv_curve = _named(by_name, "overhead", "side=recv")
    if send_curve is None or recv_curve is None:
        guessed.append("overhead")
    send, left = _send(send_curve, latency, bound)
    blocking = _named(by_name, "overhead", "call=blocking")  # the default side is that of the sender
    gaps: list[Sized | None] = []
    for pattern, alone, answer in (
        (TRAINS[False], latency, latency(1)),
        (TRAINS[True], exchange, 0.0),  # what arrives is answer enough
    ):
        window = _named(by_name, pattern)
        gaps.append(None if window is None or not window.points else _gap(window, alone, answer, bound))
        if gaps[-1] is None:
            guessed.append(pattern)
    first = _named(by_name, FIRST)
    itself = _named(by_name, "itself")
    recv = _times(recv_curve, bound) if recv_curve is not None else latency.scaled(0.5)

    def eager(size: int) -> bool:
        return size <= GUESSED_EAGER if left is None else left(size) <= LEFT

    collectives: dict[tuple[str, int], Sized] = {}
    for curve in curves:
        name, _, settings = curve.pattern.partition(":")
        if name != "collective" or not curve.points:
            continue
        what = dict(one.partition("=")[::2] for one in settings.split(",")).get("what", "allreduce")
        for mpi, ours in OPERATIONS.items():
            if ours == what:
                collectives[mpi, ranks.get(curve.variant, FEWEST)] = _times(curve, bound)
    return Costs(
        variant=variant,
        latency=latency,
        exchange=exchange,
        send=send,
        recv=recv,
        eager=eager,
        blocking=_times(blocking, bound) if blocking is not None else None,
        first=0.0 if first is None else _times(first, bound).times[0],
        gap=gaps[0],
        gap_both=gaps[1],
        itself=None if itself is None or not itself.points else _times(itself, bound),
        collectives=collectives,
        largest=max(point.size_bytes for point in pingpong.points),
        guessed=guessed,
    )


def _named(curves: Mapping[str, Curve], name: str, setting: str = "") -> Curve | None:
    """The plain curve of a pattern, or that with this setting."""
    wanted = f"{name}:{setting}" if setting else name
    if wanted in curves:
        return curves[wanted]
    return curves.get(name) if setting == "side=send" else None  # the default side


def _ranks(reading: Reading) -> dict[str, int]:
    """By variant, whose name has the number of ranks where there are several."""
    found: dict[str, int] = {}
    for one in reading.run.variants:
        found[one.variant] = max(len(one.ranks), found.get(one.variant, 0))
    return found


def _end(estimate: Estimate, bound: Bound) -> float:
    value: float = getattr(estimate, bound)
    return value


def _times(curve: Curve, bound: Bound) -> Sized:
    return Sized({point.size_bytes: _end(point.time_ns, bound) for point in curve.points})


def _gap(curve: Curve, alone: Sized, answer: float, bound: Bound) -> Sized:
    """What each message of a window adds to the first one, which takes as long as `alone`, and to the answer."""
    window = _times(curve, bound)
    found = {}
    for size, time in zip(window.sizes, window.times, strict=True):
        added = (WINDOW * time - alone(size) - answer) / (WINDOW - 1)
        found[size] = min(max(added, 0.0), alone(size))
    return Sized(found)


def _send(curve: Curve | None, latency: Sized, bound: Bound) -> tuple[Sized, Sized | None]:
    """Processor time of a send, and how much of a message's time is left when the sender comes to wait for it."""
    if curve is None:
        return latency.scaled(0.5), None
    measured = {one.name: one.values for one in measures_of(curve)}
    whole = _times(curve, bound)
    if "start" not in measured or "finish" not in measured:
        return whole, None
    left = {
        size: _end(estimate, "value") / max(latency(size), 1e-9)
        for size, estimate in measured["finish"].items()
    }
    return whole, Sized(left)
