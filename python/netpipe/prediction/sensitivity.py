# SPDX-License-Identifier: Apache-2.0
"""How the time of an application depends on latency, overhead, bandwidth and gap: its calls are replayed with each of
them several times as large or small, the others left as they were measured. The gap is only among them where the run
has the curve of it (costs.py).

    curve      the time at each factor, over that at 1, of the time in MPI and of the whole program
    tolerance  by how much a parameter may get worse until the program takes 1, 2 or 5 % longer
    share      of the time in MPI, that a parameter takes: by how many percent the time grows if the parameter gets one
               percent worse. All times in a replay are sums of measured ones, so the shares of all that a time is made
               of add up to 1; what remains here is computation that other ranks wait for, first messages, and the rest.

The curves and their names are those of LLAMP (S. Shen et al., "LLAMP: Assessing Network Latency Tolerance of HPC
Applications with Linear Programming", SC'24), which has them from a linear program.

An interval has what the curves leave open, how far the launches of the profile are apart, and what the replay does not
explain of the profile's own library: that may depend on the parameter as the explained part does, or not at all. The
change has no less than the error of a prediction (LEAST_ERROR).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from netpipe.prediction.costs import BOUNDS, Bound, Costs, Factors, costs
from netpipe.prediction.predict import LEAST_ERROR, mean, set_within
from netpipe.prediction.ranking import carried, spread
from netpipe.prediction.replay import replay
from netpipe.prediction.together import replay_all
from netpipe.prediction.unknown import (
    LEAST_FIXED,
    fits,
    fixed,
    fixed_text,
    left_out,
    left_out_text,
    refuse_threads,
    unknown,
)
from netpipe.prediction.unknown.guessed import exchanged
from netpipe.prediction.unknown.residual import Residual
from netpipe.profiles.trace.first_part import FirstPart, replayed, time_in_calls
from netpipe.reading.estimate import Estimate
from netpipe.units import listed

if TYPE_CHECKING:
    from netpipe.profiles import Profile
    from netpipe.profiles.trace.calls import Calls
    from netpipe.reading import Reading

PARAMETERS = ("latency", "overhead", "bandwidth", "gap")
PLAIN = ("", 1.0)  # none of them is changed
FACTORS = (0.25, 0.5, 2.0, 4.0, 8.0, 16.0)  # that are shown, besides 1
ENDS = ("high", "value", "low")  # of an estimate
SLOWER = (0.01, 0.02, 0.05)  # of the whole program, whose tolerances are told
OCTAVES = tuple(2.0**power for power in range(1, 11))  # how many times worse a parameter is made
REACH = OCTAVES[-1]
STEP = 0.05  # of a parameter, to find the share of the time that it takes
BENDS = 0.1  # of a tolerance's slowdown: where a curve is straight to within this, no more of it is replayed
HALVINGS = 2  # of an octave, to locate a tolerance
AHEAD = 3  # halvings that are replayed at once, as each of them costs little more
MOST_EVENTS = 50_000  # of all launches together: each is replayed with more than a hundred costs
MOST_WAITING = 0.5  # of the time in MPI; beyond it the parameters say little


@dataclass(frozen=True, slots=True)
class Step:
    """The times at one factor of a parameter, over those at 1."""

    factor: float
    mpi: Estimate
    whole: Estimate


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The factor of a parameter at which the program takes that much longer. None: beyond REACH."""

    slower: float
    factor: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    share: Estimate  # of the time in MPI
    steps: tuple[Step, ...]  # by factor, that of 1 among them
    tolerances: tuple[Tolerance, ...]


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Of an application over one variant."""

    variant: str
    latency_ns: float  # of the smallest message, which the factors of latency multiply
    latency_bytes: int
    parameters: tuple[Parameter, ...]
    # share of the time in MPI that the profile has beyond the replay; None: not known
    unexplained: float | None
    between_hosts: bool = False  # whose latency it is, where it was measured within a host too

    @property
    def rest(self) -> float:
        """Share of the time in MPI that belongs to no parameter and is not unexplained."""
        known = sum(one.share.value for one in self.parameters) + max(self.unexplained or 0.0, 0.0)
        return max(1.0 - known, 0.0)

    def added_ns(self, factor: float | None) -> float | None:
        """Of latency."""
        return None if factor is None else (factor - 1.0) * self.latency_ns


@dataclass(slots=True)
class Sensitivities:
    variants: list[Sensitivity] = field(default_factory=list)
    part: FirstPart | None = None  # it is that of this part of the program; None: of all of it
    notes: list[str] = field(default_factory=list)


def sensitivities(
    launches: Sequence[Profile],
    reading: Reading,
    own: str | None = None,
    processors: int | None = None,
    most_events: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
    untrusted: str = "",
) -> Sensitivities:
    """Of every variant that has a ping-pong. The arguments are those of `predict`; MOST_EVENTS is less. Of ranks that
    share processors nothing is said but why. Raises NotAProfile without a trace, Stuck where the trace is not whole.
    """
    refuse_threads(launches)
    made, part = replayed(launches, MOST_EVENTS if most_events is None else most_events)
    found = Sensitivities(part=part)
    plain = {bound: costs(reading, bound) for bound in BOUNDS}
    without = left_out(launches[0], made[0], reading.run, plain["value"])
    there = [name for name in plain["value"] if name not in without]
    explained = own if own in plain["value"] and fits(launches[0], made[0], reading.run, own) else None
    beyond = [0.0 for _ in made]
    residual = None
    if explained is not None:
        again = [mean(replay(one, plain["value"][explained])) for one in made]
        beyond = [time_in_calls(one) - time for one, time in zip(made, again, strict=True)]
        residual = Residual(explained, median(map(time_in_calls, made)), median(again))
    if why := unknown(launches[0], made, reading.run, there, processors, untrusted, residual):
        found.notes.append(f"nothing is said about what the program is sensitive to: {why}")
        return found
    if explained is not None:
        set_within(plain.values(), plain["value"][explained].itself)
    if without:
        found.notes.append(left_out_text(without))
    for variant in there:
        program = _Program(made, {bound: plain[bound][variant] for bound in BOUNDS}, beyond)
        found.variants.append(_of(variant, program, explained is not None, tell))
    found.notes += _notes(made, found, explained)
    return found


def parameters_of(one: Costs) -> tuple[str, ...]:
    """Those that these costs have."""
    return tuple(name for name in PARAMETERS if name != "gap" or one.has_gap)


def _of(variant: str, program: _Program, explained: bool, tell: Callable[[str], None]) -> Sensitivity:
    measured = program.costs["value"]
    names = parameters_of(measured)
    between_hosts = measured.far is not None and True in exchanged(program.made)
    latency = measured.of(between_hosts).latency
    tell(f"replaying {variant}")
    program.replay(
        [
            PLAIN,
            *((name, _worse(name, factor)) for name in names for factor in FACTORS),
            *((name, worse) for name in names for worse in (1.0 - STEP, 1.0 + STEP, *OCTAVES)),
        ]
    )
    base = [carried(mpi, more) for (mpi, _), more in zip(program.plain("value"), program.beyond, strict=True)]
    tell(f"replaying {variant}: what it tolerates")
    program.replay((name, worse) for name in names for worse in _soon(_octaves(name, program)))
    parameters = [_parameter(name, program) for name in names]
    there = [mpi for mpi, _ in program.plain("value")]
    unexplained = median(
        (whole - mpi) / whole if whole > 0 else 0.0 for mpi, whole in zip(there, base, strict=True)
    )
    return Sensitivity(
        variant=variant,
        latency_ns=latency.times[0],
        latency_bytes=latency.sizes[0],
        parameters=tuple(parameters),
        unexplained=unexplained if explained else None,
        between_hosts=between_hosts,
    )


def _parameter(name: str, program: _Program) -> Parameter:
    one = Estimate(1.0, 1.0, 1.0)
    steps = [Step(factor, *program.at(name, _worse(name, factor))) for factor in FACTORS]
    steps.append(Step(1.0, one, one))
    return Parameter(
        name,
        program.share(name),
        tuple(sorted(steps, key=lambda step: step.factor)),
        tuple(_tolerances(name, program)),
    )


def _worse(name: str, factor: float) -> float:
    """How many times as bad a parameter is at a factor, and the other way round: less bandwidth is worse."""
    return 1.0 / factor if name == "bandwidth" else factor


def _factors(name: str, worse: float) -> Factors:
    factors = dict.fromkeys(PARAMETERS, 1.0) | {name: _worse(name, worse)}
    return Factors(factors["latency"], factors["bandwidth"], factors["overhead"], factors["gap"])


# ---------------------------------------------------------------------------------------------------- the replays


class _Program:
    """All launches over one variant. A parameter is `worse` times as bad as it was measured."""

    def __init__(self, made: Sequence[Calls], costs_: dict[Bound, Costs], beyond: Sequence[float]) -> None:
        self.made = made
        self.costs = costs_
        self.beyond = beyond
        self._known: dict[tuple[Bound, str, float], list[tuple[float, float]]] = {}

    def replay(self, changes: Iterable[tuple[str, float]]) -> None:
        """With all of these changes (parameter, how much worse) at once, so that `at` and `share` need not wait for
        each. What is known is not replayed again.
        """
        wanted = [(bound, *change) for change in changes for bound in BOUNDS]
        keys = [key for key in dict.fromkeys(wanted) if key not in self._known]
        given = [
            self.costs[bound].changed(_factors(name, worse)) if name else self.costs[bound]
            for bound, name, worse in keys
        ]
        launches = [replay_all(one, given) for one in self.made]
        for key, *runs in zip(keys, *launches, strict=True):
            self._known[key] = [(mean(run), run.wall * 1e-9) for run in runs]

    def knows(self, name: str, worse: float) -> bool:
        return (BOUNDS[0], name, worse) in self._known

    def plain(self, bound: Bound) -> list[tuple[float, float]]:
        return self._times(bound, *PLAIN)

    def _times(self, bound: Bound, name: str, worse: float) -> list[tuple[float, float]]:
        """Seconds in MPI, in the mean over the ranks, and of the whole program, of each launch."""
        key = bound, name, worse
        if key not in self._known:
            self.replay([(name, worse)])
        return self._known[key]

    def _changes(
        self, bound: Bound, name: str, worse: float, all_changes: bool | None = None
    ) -> tuple[list[float], list[float]]:
        """Over the time at 1, of each launch: the change of the time in MPI, and of the whole. What the replay does not
        explain stays as it is, or changes as the rest does (`all_changes`). None: what it has too much does.
        """
        before, after = self.plain(bound), self._times(bound, name, worse)
        in_mpi, whole = [], []
        for (mpi, wall), (new_mpi, new_wall), more in zip(before, after, self.beyond, strict=True):
            base = carried(mpi, more)
            scales = base < mpi if all_changes is None else all_changes
            scale = base / mpi if scales and mpi > 0 else 1.0
            wall_base = wall + max(more, 0.0)
            in_mpi.append((new_mpi - mpi) * scale / base if base > 0 else 0.0)
            whole.append((new_wall - wall) * scale / wall_base if wall_base > 0 else 0.0)
        return in_mpi, whole

    def at(self, name: str, worse: float) -> tuple[Estimate, Estimate]:
        """The time in MPI and that of the whole program, over those at 1."""
        middle = self._changes("value", name, worse)
        some = [
            self._changes(bound, name, worse, all_changes)
            for bound in BOUNDS
            for all_changes in (False, True)
        ]
        made = []
        for place in (0, 1):
            ends = [median(change[place]) for change in some]
            change = _widened(median(middle[place]), ends, spread(list(map(abs, middle[place]))))
            value, low, high = (max(0.0, 1.0 + limit) for limit in change)
            made.append(Estimate(value, low, high))
        return made[0], made[1]

    def share(self, name: str) -> Estimate:
        """Of the time in MPI. Where the curve bends at 1, the mean of both sides, and an interval that has both."""

        def slopes(bound: Bound, step: float, all_changes: bool | None = None) -> list[float]:
            return [change / step for change in self._changes(bound, name, 1.0 + step, all_changes)[0]]

        sides = zip(slopes("value", -STEP), slopes("value", STEP), strict=True)
        middle = [(below + above) / 2 for below, above in sides]
        ends = [
            median(slopes(bound, step, all_changes))
            for bound in BOUNDS
            for step in (-STEP, STEP)
            for all_changes in (False, True)
        ]
        found = _widened(median(middle), ends, spread(list(map(abs, middle))))
        value, low, high = (min(max(0.0, limit), 1.0) for limit in found)
        return Estimate(value, low, high)


def _widened(value: float, ends: Sequence[float], apart: float) -> tuple[float, float, float]:
    """A change with its limits: those of all ends, and the error of a prediction beyond them."""
    least, most = min([value, *ends]), max([value, *ends])
    factor = math.exp(max(LEAST_ERROR, apart))
    low = least / factor if least > 0 else least * factor
    high = most * factor if most > 0 else most / factor
    return value, low, high


# ------------------------------------------------------------------------------------------------------ tolerances


def _tolerances(name: str, program: _Program) -> Iterator[Tolerance]:
    """Octaves, then halves of those in which a limit is crossed, as long as the curve bends in them."""
    points = _octaves(name, program)
    for slower in SLOWER:
        found: dict[str, float | None] = {}
        for end in ENDS:
            for _ in range(HALVINGS):
                around = _crossing(points, end, 1.0 + slower)
                if around is None:
                    break
                middle = _middle(*around)
                if not program.knows(name, middle):
                    program.replay((name, worse) for worse in _soon(points))
                guess = _between(points, end, around, middle)
                points[middle] = program.at(name, middle)[1]
                if abs(getattr(points[middle], end) - guess) <= BENDS * slower:
                    break
            around = _crossing(points, end, 1.0 + slower)
            found[end] = None if around is None else _where(points, end, around, 1.0 + slower)
        # The time that is surely reached later, and the one that may be reached first.
        value, first, last = (_at(name, found[end]) for end in ("value", "high", "low"))
        low, high = (last, first) if name == "bandwidth" else (first, last)
        yield Tolerance(slower, value, low, high)


def _octaves(name: str, program: _Program) -> dict[float, Estimate]:
    return {1.0: Estimate(1.0, 1.0, 1.0)} | {worse: program.at(name, worse)[1] for worse in OCTAVES}


def _middle(below: float, above: float) -> float:
    return math.sqrt(below * above)


def _soon(points: dict[float, Estimate]) -> Iterator[float]:
    """What may be asked for next, by any tolerance and any end."""
    crossed = {_crossing(points, end, 1.0 + slower) for slower in SLOWER for end in ENDS}
    for below, above in filter(None, crossed):
        yield from _halves(below, above, AHEAD)


def _halves(below: float, above: float, times: int) -> Iterator[float]:
    """All that halving so many times may ask for."""
    if times:
        middle = _middle(below, above)
        yield middle
        yield from _halves(below, middle, times - 1)
        yield from _halves(middle, above, times - 1)


def _at(name: str, worse: float | None) -> float | None:
    return None if worse is None else _worse(name, worse)


def _crossing(points: dict[float, Estimate], end: str, level: float) -> tuple[float, float] | None:
    """The two neighbours between which this end of the interval reaches the level first."""
    places = sorted(points)
    return next(
        (
            (below, above)
            for below, above in pairwise(places)
            if getattr(points[below], end) < level <= getattr(points[above], end)
        ),
        None,
    )


def _between(points: dict[float, Estimate], end: str, around: tuple[float, float], at: float) -> float:
    below, above = around
    first, last = getattr(points[below], end), getattr(points[above], end)
    value: float = first + (last - first) * (at - below) / (above - below)
    return value


def _where(points: dict[float, Estimate], end: str, around: tuple[float, float], level: float) -> float:
    below, above = around
    first, last = getattr(points[below], end), getattr(points[above], end)
    value: float = below + (above - below) * (level - first) / (last - first)
    return value


# ----------------------------------------------------------------------------------------------------------- words


def part_text(part: FirstPart) -> str:
    """As `FirstPart.text`."""
    return part.text("the sensitivity is that")


def _notes(made: Sequence[Calls], found: Sensitivities, own: str | None) -> Iterator[str]:
    if found.part is not None:
        yield part_text(found.part)
    if own is None and found.variants:
        yield (
            "no variant of the run is that of the profile, so nothing tells how much of the time in MPI the model "
            "leaves unexplained"
        )
    if fixed(made) > LEAST_FIXED:
        yield fixed_text(made)
    without = [one.variant for one in found.variants if all(each.name != "gap" for each in one.parameters)]
    if without:
        yield (
            f"nothing is said about the gap over {listed(without)}: the run has no curve of window, which netpipe run "
            "--pattern window measures"
        )
    for one in found.variants:
        if one.rest > MOST_WAITING:
            yield (
                f"over {one.variant} {100 * one.rest:.0f} % of the time in MPI depends on none of the parameters: "
                "mostly it is computation of other ranks that is waited for, which no network changes"
            )
