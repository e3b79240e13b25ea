# SPDX-License-Identifier: Apache-2.0
"""The communication time of an application over each variant of a run, with an interval, split by call and size.

The interval has two parts: what the curves leave open (the replay with the lower and with the upper ends of their
intervals), and what the model leaves open: how far the replay over the profile's own library is from what the profile
has measured there, where the run has that library. It is never less than
what the bench has found for programs whose time was then measured (LEAST_ERROR), because one profile that fits says
little about the next library.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from netpipe.prediction.costs import OPERATIONS, Factors, costs
from netpipe.prediction.replay import Replayed, replay
from netpipe.profiles.calls import calls

if TYPE_CHECKING:
    from netpipe.profiles import Profile
    from netpipe.profiles.calls import Calls
    from netpipe.reading import Reading

PROFILER_NS = 50.0  # what the profiler adds to a call, of which half falls between calls
SMALL = 8  # bytes: of a program that has only collectives, whose roots send
# ln of the factor that 85 of 100 predictions were within (docs/bench.md, applications): 1.8 times.
LEAST_ERROR = 0.6


@dataclass(frozen=True, slots=True)
class Prediction:
    """Seconds are the mean over the ranks of the time in calls of MPI."""

    variant: str
    seconds: float
    low: float
    high: float
    waiting: float  # of `seconds`, for other ranks to come
    wall: float  # of the whole program, if the computation takes what it took
    by_call: dict[tuple[str, int], float]  # name, bytes: mean over the ranks
    guessed: tuple[str, ...]  # patterns that the run lacks
    missing: dict[tuple[str, int], int]  # collectives without a curve: calls, by name and ranks
    beyond: int  # bytes of the largest message, where no curve reaches it; else 0


@dataclass(frozen=True, slots=True)
class Residual:
    """The model held against the profile itself."""

    variant: str
    measured: float  # seconds, as `Prediction.seconds`
    predicted: float
    by_call: tuple[
        tuple[str, int, float, float], ...
    ]  # name, bytes, measured, predicted: those that differ most

    @property
    def error(self) -> float:
        """|ln| of the ratio."""
        if self.measured <= 0 or self.predicted <= 0:
            return math.inf
        return abs(math.log(self.predicted / self.measured))


@dataclass(slots=True)
class Predicted:
    """All variants of a run, the fastest first."""

    variants: list[Prediction] = field(default_factory=list)
    residual: Residual | None = None
    measured: float = 0.0  # by the profile
    notes: list[str] = field(default_factory=list)
    wanted: dict[str, set[int]] = field(default_factory=dict)  # patterns with sizes that would tell more

    @property
    def fastest(self) -> Prediction | None:
        """The first, where its interval is below that of the second; else None."""
        if len(self.variants) < 2:
            return None
        first, second = self.variants[:2]
        return first if first.high < second.low else None


def predict(
    profile: Profile,
    reading: Reading,
    own: str | None = None,
    factors: Factors | None = None,
    processors: int | None = None,
) -> Predicted:
    """`own` is the variant that the profile was taken over, if the run has it. `processors`: of the host, to say when
    ranks shared them. Raises NotAProfile without a trace, Stuck where the trace is not whole.
    """
    made = calls(profile, PROFILER_NS / 2)
    found = Predicted(measured=_measured(profile))
    bounds = {bound: costs(reading, bound, factors) for bound in ("value", "low", "high")}
    if own is not None and own in costs(reading):
        plain = costs(reading)[own]
        found.residual = _residual(profile, made, own, replay(made, plain))
    spread = max(LEAST_ERROR, found.residual.error) if found.residual is not None else LEAST_ERROR
    largest = max((message.bytes for message in made.messages), default=0)
    for variant in bounds["value"]:
        runs = {bound: replay(made, bounds[bound][variant]) for bound in bounds}
        value = _mean(runs["value"])
        ends = sorted(_mean(runs[bound]) for bound in ("low", "high"))
        low = min(ends[0], value) * math.exp(-spread)
        high = max(ends[1], value) * math.exp(spread)
        one = bounds["value"][variant]
        ranks = max(len(made.ranks), 1)
        found.variants.append(
            Prediction(
                variant=variant,
                seconds=value,
                low=low,
                high=high,
                waiting=sum(runs["value"].waiting.values()) / ranks * 1e-9,
                wall=runs["value"].wall * 1e-9,
                by_call={key: time / ranks * 1e-9 for key, time in runs["value"].by_call.items()},
                guessed=tuple(one.guessed),
                missing=dict(runs["value"].without_curve),
                beyond=largest if largest > one.largest else 0,
            )
        )
    found.variants.sort(key=lambda prediction: prediction.seconds)
    found.notes = _notes(profile, made, found, processors)
    found.wanted = wanted(made)
    return found


def wanted(made: Calls) -> dict[str, set[int]]:
    """The patterns, with the sizes, whose curves a prediction of these calls needs."""
    sizes = {message.bytes for message in made.messages if message.bytes} or {SMALL}
    found: dict[str, set[int]] = {}
    if made.messages or made.groups:
        for pattern in ("pingpong", "bidirectional", "overhead:side=send", "overhead:side=recv"):
            found[pattern] = set(sizes)
    for group in made.groups:
        ours = OPERATIONS.get(group.name)
        if ours is not None and group.ranks > 1:
            found.setdefault(f"collective:what={ours}", set()).add(group.bytes)
    return found


def _mean(one: Replayed) -> float:
    return sum(one.by_rank.values()) / max(len(one.by_rank), 1) * 1e-9


def _measured(profile: Profile) -> float:
    there = [rank.mpi_s for rank in profile.ranks if rank.rank in profile.traces]
    return sum(there) / max(len(there), 1)


def _residual(profile: Profile, made: Calls, variant: str, again: Replayed) -> Residual:
    ranks = max(len(made.ranks), 1)
    measured: dict[tuple[str, int], float] = {}
    for some in made.ranks.values():
        for call in some:
            key = (call.name, call.bytes)
            measured[key] = measured.get(key, 0.0) + call.took_ns / ranks * 1e-9
    rows = [
        (name, size, measured.get((name, size), 0.0), again.by_call.get((name, size), 0.0) / ranks * 1e-9)
        for name, size in measured.keys() | again.by_call.keys()
    ]
    rows.sort(key=lambda row: -abs(row[2] - row[3]))
    return Residual(variant, _measured(profile), _mean(again), tuple(rows[:8]))


def _notes(profile: Profile, made: Calls, found: Predicted, processors: int | None) -> list[str]:
    said: list[str] = []
    ranks = profile.header.ranks
    hosts = len(set(profile.hosts.values())) or 1
    if processors is not None and ranks > processors * hosts:
        said.append(
            f"the {ranks} ranks shared {processors * hosts} processors: how long a call takes depended on when each "
            "rank was given one, which no curve tells, so these numbers are no predictions"
        )
    if made.truncated:
        said.append(f"the trace of {_counted(made.truncated)} ends early: this is the part that it has")
    if made.unmatched:
        said.append(f"{made.unmatched} calls have no other half in the trace, and take what they took")
    lacking = sorted({pattern for one in found.variants for pattern in one.guessed})
    if lacking:
        said.append(f"the run has no curve of {' and '.join(lacking)}; what these would tell is guessed")
    missing = sorted({key for one in found.variants for key in one.missing})
    if missing:
        names = ", ".join(f"{name} on {count} ranks" for name, count in missing)
        said.append(f"the run has no curve of {names}; a tree of messages stands for each")
    beyond = max((one.beyond for one in found.variants), default=0)
    if beyond:
        said.append(f"the largest message has {beyond} bytes, beyond the largest size that was measured")
    return said


def _counted(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"{len(ranks)} ranks"
