# SPDX-License-Identifier: Apache-2.0
"""The communication time of an application over each variant of a run, with an interval, split by call and size.

What the replay over the profile's own library leaves unexplained (colder buffers than a benchmark has, calls that get
in each other's way) is carried over: the prediction for another variant is what the profile measured, and the
difference between the two replays. Of several launches of the same program the median counts: who waits for whom
differs from launch to launch.

The interval has what the curves leave open (the replay with the lower and with the upper ends of their intervals), how
far the launches of the profile are apart, and for another variant half of what was carried over, as nobody knows
how much of it is the library's. It is never less than what the bench has found for programs whose time was then
measured (LEAST_ERROR). Which variant is faster is judged by pairs (ranking.py), and not where nothing is known
(unknown.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from netpipe.prediction.costs import OPERATIONS, TO_EACH, Costs, Factors, Sized, Times, costs, train
from netpipe.prediction.launches import of_library
from netpipe.prediction.ranking import Pair, Replays, carried, pairs, spread, tiers
from netpipe.prediction.replay import Replayed, replay
from netpipe.prediction.runs import BETWEEN
from netpipe.prediction.shares import Key, Rest, shares, took
from netpipe.prediction.together import replay_all
from netpipe.prediction.unknown import (
    LEAST_FIXED,
    MOST_FIXED,
    fits,
    fixed,
    fixed_text,
    host_notes,
    left_out,
    left_out_text,
    lost_notes,
    refuse_threads,
    unknown,
)
from netpipe.prediction.unknown.guessed import beyond, exchanged, guessed
from netpipe.prediction.unknown.residual import Residual
from netpipe.profiles.trace.chosen import MOST_EVENTS
from netpipe.profiles.trace.first_part import FirstPart, measured_time, replayed
from netpipe.units import listed

if TYPE_CHECKING:
    from netpipe.profiles import Profile
    from netpipe.profiles.trace.calls import Calls
    from netpipe.reading import Reading

DOUBLE = 8  # bytes; of which the reductions of the pattern `collective` are whole numbers
SMALL = 8  # bytes: of a program that has only collectives, whose roots send
REDUCTIONS = {"Reduce", "Allreduce", "Reduce_scatter", "Reduce_scatter_block", "Scan", "Exscan"}
POINT_TO_POINT = (
    "pingpong",
    "bidirectional",
    "overhead:side=send",
    "overhead:side=recv",
    "overhead:side=send,call=blocking",
)
# Bytes. All messages of a window are in memory at once; beyond this size a gap grows as the bytes do.
LARGEST_TRAIN = 4 << 20
# ln of a factor, 1.45: with 1.28 23 of 24 intervals held on one data set and 19 of 24 on the next (docs/bench.md,
# applications), whose misses lay up to 1.12 times outside.
LEAST_ERROR = 0.37

Needs = dict[tuple[str, int], set[int]]  # sizes in bytes, by pattern and number of ranks


@dataclass(frozen=True, slots=True)
class Prediction:
    """Seconds are the mean over the ranks of the time in calls of MPI."""

    variant: str
    seconds: float
    low: float
    high: float
    waiting: float  # of `seconds`, for other ranks to come
    wall: float  # of all that is replayed, if the computation takes what it took
    by_call: dict[Key, float]  # mean over the ranks
    guessed: tuple[str, ...]  # patterns that the run lacks
    missing: dict[tuple[str, int], int]  # collectives without a curve: calls, by name and ranks
    beyond: int  # bytes of the largest message, where no curve reaches it; else 0
    beyond_far: int = 0  # the same between hosts, where curves within a host and between hosts are apart


@dataclass(slots=True)
class Predicted:
    """All variants of a run, the fastest first."""

    variants: list[Prediction] = field(default_factory=list)
    residual: Residual | None = None
    # without a residual: the variants of the profile's library
    same_library: tuple[str, ...] = ()
    measured: float = 0.0  # by the profile, or the median of its launches
    launches: int = 1
    part: FirstPart | None = None  # all times are of this part of the program; None: of all of it
    notes: list[str] = field(default_factory=list)
    wanted: dict[str, set[int]] = field(default_factory=dict)  # patterns with sizes that would tell more
    needs_between: Needs = field(default_factory=dict)  # `needs` of what goes between hosts
    unknown: str = ""  # why the numbers are no predictions, and nothing is ranked
    pairs: list[Pair] = field(default_factory=list)  # of all variants
    tiers: list[tuple[str, ...]] = field(default_factory=list)  # names, the fastest first

    @property
    def fastest(self) -> Prediction | None:
        """The one that is surely slower than no other, where it is alone; else None."""
        if len(self.variants) < 2 or not self.tiers or len(self.tiers[0]) > 1:
            return None
        return next(one for one in self.variants if one.variant == self.tiers[0][0])

    def pair(self, one: str, other: str) -> Pair | None:
        """What is said of these two, in either order."""
        return next((pair for pair in self.pairs if {pair.faster, pair.slower} == {one, other}), None)


def predict(
    profile: Profile | Sequence[Profile],
    reading: Reading,
    own: str | None = None,
    factors: Factors | None = None,
    processors: int | None = None,
    most_events: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
    untrusted: str = "",
) -> Predicted:
    """Of one profile, or of those of several launches of the same program. `own` is the variant that they were taken
    over, if the run has it. `processors`: of a host of the run, to say when ranks shared them. `most_events` (None:
    MOST_EVENTS) are replayed, of all launches together; `tell` hears what is replayed. `untrusted`: why the curves are
    not to be trusted, if so. Raises NotAProfile without a trace and for threads that call at once, Stuck where the
    trace is not whole.
    """
    launches = [profile] if not isinstance(profile, Sequence) else list(profile)
    tell("reading the trace")
    refuse_threads(launches)
    made, part = replayed(launches, MOST_EVENTS if most_events is None else most_events)
    measured = [measured_time(one, calls, part) for one, calls in zip(launches, made, strict=True)]
    found = Predicted(measured=median(measured), launches=len(launches), part=part)
    plain = costs(reading)
    if own is not None and not fits(launches[0], made[0], reading.run, own):
        own = None  # messages within a host and between hosts differ by more than any residual
    before = plain[own].itself if own in plain else None
    # What each launch spent beyond what the model says of its own library, and of which calls.
    rest = [0.0 for _ in launches]
    by_call = [Rest() for _ in launches]
    least = 0.5
    if own is not None and own in plain:
        again = [replay(one, plain[own]) for one in made]
        rest = [took - mean(one) for took, one in zip(measured, again, strict=True)]
        by_call = [Rest.of(calls, one) for calls, one in zip(made, again, strict=True)]
        middle = middle_of(measured)
        found.residual = _residual(measured[middle], made[middle], own, again[middle])
        least = found.residual.least
    bounds = {bound: costs(reading, bound, factors) for bound in ("value", "low", "high")}
    without = left_out(launches[0], made[0], reading.run, bounds["value"])
    bounds = {
        bound: {name: one for name, one in some.items() if name not in without}
        for bound, some in bounds.items()
    }
    set_within(bounds.values(), before)
    there = exchanged(made)
    replays: dict[str, Replays] = {}
    for place, (variant, one) in enumerate(bounds["value"].items(), 1):
        tell(f"replaying {variant}, {place} of {len(bounds['value'])}")
        each = [replay_all(some, [costs_[variant] for costs_ in bounds.values()]) for some in made]
        runs = dict(zip(bounds, zip(*each, strict=True), strict=True))
        replays[variant] = Replays(
            variant, {bound: [mean(run) for run in some] for bound, some in runs.items()}
        )
        times = {
            bound: [carried(time, more, least) for time, more in zip(some, rest, strict=True)]
            for bound, some in replays[variant].seconds.items()
        }
        value = median(times["value"])
        ends = sorted(median(times[bound]) for bound in ("low", "high"))
        unsure = 0.0 if variant == own else abs(median(rest)) / 2
        error = math.exp(max(LEAST_ERROR, spread(times["value"])))
        middle = middle_of(times["value"])
        run = runs["value"][middle]
        ranks = max(len(made[middle].ranks), 1)
        found.variants.append(
            Prediction(
                variant=variant,
                seconds=value,
                low=max(min(ends[0], value) - unsure, 0.0) / error,
                high=(max(ends[1], value) + unsure) * error,
                waiting=sum(run.waiting.values()) / ranks * 1e-9,
                wall=run.wall * 1e-9 + max(rest[middle], 0.0),
                by_call=shares(run, by_call[middle], value),
                guessed=guessed(one, there),
                missing=dict(run.without_curve),
                beyond=beyond(one, there),
                beyond_far=beyond(one, there, far=True),
            )
        )
    found.variants.sort(key=lambda prediction: prediction.seconds)
    names = [one.variant for one in found.variants]
    if found.residual is None:
        found.same_library = of_library(launches[0], names)
    found.unknown = unknown(launches[0], made, reading.run, names, processors, untrusted, found.residual)
    if not found.unknown:
        found.pairs = pairs([replays[name] for name in names], rest, own)
        found.tiers = tiers(names, found.pairs)
    found.notes = [
        *([] if part is None else [part.text("this is a prediction")]),
        *lost_notes(launches),
        *host_notes(launches[0], made[0], reading.run, names),
        *_notes(made, found),
    ]
    if without:
        found.notes.insert(0, left_out_text(without))
    unmoved = [name for name in names if not bounds["value"][name].has_gap]
    if factors is not None and factors.gap != 1 and unmoved:
        found.notes.append(
            f"gap changes nothing over {listed(unmoved)}: the run has no curve of window, which netpipe run --pattern "
            "window measures"
        )
    found.wanted = wanted(made[0])
    found.needs_between = needs(made[0], between=True)
    return found


def set_within(several: Iterable[Mapping[str, Costs]], before: Sized | None) -> None:
    """What messages of a rank to itself take over each variant, where `before` is what they take over that of the
    profile; None: not known.
    """
    for one in (one for some in several for one in some.values()):
        if one.itself is not None and before is not None:
            one.within = Times(one.itself, before)


def middle_of(values: Sequence[float]) -> int:
    """The place of the one nearest to the median."""
    middle = median(values)
    return min(range(len(values)), key=lambda place: abs(values[place] - middle))


def wanted(made: Calls) -> dict[str, set[int]]:
    """The patterns, with the sizes, whose curves a prediction of these calls needs."""
    found: dict[str, set[int]] = {}
    for (pattern, _), sizes in needs(made).items():
        found.setdefault(pattern, set()).update(sizes)
    return found


def needs(made: Calls, between: bool = False) -> Needs:
    """The same by pattern and number of ranks: collectives on those of their communicator, messages between two.
    `between`: for what goes between hosts alone.
    """
    messages = [message for message in made.messages if message.far or not between]
    groups = [group for group in made.groups if group.far or not between]
    sizes = {message.bytes for message in messages if message.bytes} or {SMALL}
    found: Needs = {}
    if messages or groups:
        for pattern in POINT_TO_POINT:
            found[pattern, 2] = set(sizes)
    for message in messages:
        behind = train(message)
        if behind is not None:
            # What the first message of a window takes has to be known at the same sizes.
            for pattern in (behind, "bidirectional" if message.returned else "pingpong"):
                found.setdefault((pattern, 2), set()).add(min(message.bytes, LARGEST_TRAIN))
    if within := {message.bytes for message in messages if message.within and message.bytes}:
        found["itself", 2] = within
    for group in groups:
        ours = OPERATIONS.get(group.name)
        if ours is not None and group.ranks > 1:
            size = group.bytes
            if group.name in TO_EACH:
                size //= group.ranks
            if group.name in REDUCTIONS:
                size = -(-size // DOUBLE) * DOUBLE
            found.setdefault((f"collective:what={ours}", group.ranks), set()).add(size or SMALL)
    return found


def mean(one: Replayed) -> float:
    return sum(one.by_rank.values()) / max(len(one.by_rank), 1) * 1e-9


def _residual(seconds: float, made: Calls, variant: str, again: Replayed) -> Residual:
    ranks = max(len(made.ranks), 1)
    measured = took(made)
    rows = [
        (name, size, measured.get((name, size), 0.0), again.by_call.get((name, size), 0.0) / ranks * 1e-9)
        for name, size in measured.keys() | again.by_call.keys()
    ]
    rows.sort(key=lambda row: -abs(row[2] - row[3]))
    return Residual(variant, seconds, mean(again), tuple(rows[:8]))


def _notes(launches: Sequence[Calls], found: Predicted) -> list[str]:
    said: list[str] = []
    made = launches[0]
    if LEAST_FIXED < fixed(launches) <= MOST_FIXED:
        said.append(fixed_text(launches))
    if made.unmatched:
        said.append(f"{made.unmatched} calls have no other half in the trace, and take what they took")
    lacking = sorted({pattern for one in found.variants for pattern in one.guessed})
    if lacking:
        said.append(f"the run has no curve of {' and '.join(lacking)}; what these would tell is guessed")
    missing = sorted({key for one in found.variants for key in one.missing})
    if missing:
        names = ", ".join(f"{name} on {count} ranks" for name, count in missing)
        said.append(f"the run has no curve of {names}; a tree of messages stands for each")
    for words, sizes in (
        ("", [one.beyond for one in found.variants]),
        (BETWEEN, [one.beyond_far for one in found.variants]),
    ):
        largest = max(sizes, default=0)
        if largest:
            said.append(
                f"the largest message{words} has {largest} bytes, beyond the largest size that was measured"
            )
    return said
