# SPDX-License-Identifier: Apache-2.0
"""Tunes one variant: finds out what can be measured of it, searches, and confirms on fresh launches.

What the search has chosen was chosen because it looked fast, so only the proof decides (proof.py); from what it has
proven other settings are tried (climb.py). `Watch` is told of every step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from netpipe.failure import FAILED, Failure
from netpipe.records import Run
from netpipe.tuning.climb import Climb, least_s
from netpipe.tuning.effects import Effect, effects
from netpipe.tuning.log import Log
from netpipe.tuning.measuring.bench import GRACE_S, LEAST_BUDGET_S, Bench
from netpipe.tuning.measuring.ratios import BY_LAUNCH, Verdict
from netpipe.tuning.proof import CLIMB_SHARE, CURVES_SHARE, MOST_VARIANTS, VISITS, Proof, Proven, finalists
from netpipe.tuning.search.goals import Goal, Place
from netpipe.tuning.search.halving import LEAST_GAIN, Failed, Round, Search
from netpipe.tuning.search.space import Space
from netpipe.tuning.search.variants import START, Changes
from netpipe.tuning.system.table import Candidate
from netpipe.tuning.system.trial import Tried
from netpipe.units import digits

CONFIRMING = 0.4  # of the time,
CONFIRMING_AND_MORE = 0.5  # where other settings are tried on top of what is proven
ROOM = 0.4  # of the time is for the proof, at most: sizes for which this is too little are left out
# of what is left for the search, or for a step of the climb
SHARES = {"screen": 0.4, "again": 0.4, "halve": 0.3, "refine": 0.4, "combine": 0.7, "climb": 0.3}
MOST_OPERATION_NS = 0.1e9  # a size at which the start takes longer is left out
SLOW_NS = 0.01e9  # a size at which it takes less is never left out
VISIT = 4  # operations of a visit: a round trip that is left out, and one that counts
CURVES = "curves.jsonl"  # beside the run of the confirmation
FEELING_S = 0.1
TRIES = 2
LATE_S = 1.0  # beyond its time, for what was begun

Watch = Callable[[str], None]


@dataclass
class Outcome:
    """What came of it. `best` is START where nothing gains."""

    variant: str
    goal: str
    best: Changes = START
    # of the best; of what was tried last, where nothing gains. None: not confirmed
    verdict: Verdict | None = None
    tried: Changes = START  # what `verdict` is about
    search: Search | None = None
    space: Space | None = None
    run: Run | None = None  # the curves before and after; without them, the confirmation
    path: Path | None = None  # of the confirmation
    effects: tuple[Effect, ...] = ()
    too_slow: tuple[Place, ...] = ()
    untried: int = 0  # candidates for which there was no time
    began: frozenset[Changes] = frozenset()  # candidates of which a measurement was begun,
    compared: frozenset[Changes] = frozenset()  # those of which something is known,
    failed: dict[Changes, Failed] = field(default_factory=dict)  # those that stopped before their end,
    avoided: frozenset[Changes] = frozenset()  # and those that failed in an earlier search
    measurements: int = 0
    interrupted: bool = False
    notes: list[str] = field(default_factory=list)
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # as recorded, by variant,
    layers: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # and the layers of each (bench.layers)
    pin: str = ""  # the placement, as --pin takes it,
    placements: dict[str, Verdict] = field(default_factory=dict)  # and what others are; empty: none was tried
    system: tuple[Candidate, ...] = ()  # settings of the kernel that matter to it,
    system_tried: tuple[Tried, ...] = ()  # and what they gain; empty: they were not applied
    tuned: str = ""  # the variant with `best`
    ranks: int = 0  # of a collective operation; 0: the goal is none

    @property
    def what(self) -> str:
        """goal collective=bcast, 4 ranks"""
        return f"goal {self.goal}" + (f", {self.ranks} ranks" if self.ranks else "")

    rules: tuple[str, ...] = ()  # names of files for the library that go with `best`


@dataclass
class Tuner:
    bench: Bench
    space: Space
    log: Log
    until_s: float  # of the clock
    watch: Watch = lambda _: None
    avoid: frozenset[Changes] = frozenset()
    argv: Sequence[str] = ()
    read_back: Callable[[Changes], Mapping[str, tuple[str, str]]] = lambda _: {}
    _visit_s: float = 0.0  # what a visit of each size that counts takes the start
    # By pattern: the largest size at which the start was measured, and its time in ns.
    _slowest: dict[str, tuple[int, float]] = field(default_factory=dict)
    _late_s: float = 0.5  # what a session takes beyond its budget, for each variant
    _limits: Callable[[Place], bool] = lambda _: False  # is a place too slow for the start?
    _whole: Goal | None = None  # with these places
    _chosen: Sequence[Changes] = ()  # by the search

    def tune(self, output: Path | None) -> Outcome:
        """Raises Failure (4) when the start itself cannot be measured."""
        found = self.begin()
        self.end(found, output)
        return found

    def begin(self) -> Outcome:
        """The search. Raises Failure (4) when the start itself cannot be measured."""
        bench = self.bench
        self._whole = whole = bench.goal
        found = Outcome(bench.start.text, whole.name, space=self.space)
        self._limits = self._feel(found)
        bench.goal = whole.without(self._limits)
        self._late_s = 0.3 if bench.launched else 0.05
        began_s = bench.clock()
        seconds = self.until_s - began_s
        confirming = CONFIRMING_AND_MORE if self._climbs(CONFIRMING_AND_MORE * seconds) else CONFIRMING
        self._chosen = self.choose(found, whole, began_s + (1 - confirming) * seconds)
        found.interrupted |= bench.guard.count > 0
        bench.goal = whole.without(self._limits)
        return found

    def end(self, found: Outcome, output: Path | None) -> None:
        """The proof of what the search has chosen, and what follows from it. Raises Failure when nothing of it could be
        measured.
        """
        bench = self.bench
        if self._chosen and not found.interrupted:
            proof = Proof(
                bench,
                self.until_s,
                self._limits,
                self._late_s,
                self._visit_s,
                self.watch,
                self.argv,
                climbs=found.search is not None and self._climbs(self.until_s - bench.clock()),
            )
            self._prove(found, proof, output)
        found.interrupted |= bench.guard.count > 0  # also what was measured after the proof
        found.measurements = bench.measurements
        found.began = frozenset(bench.began)
        found.avoided = self.avoid
        found.settings, found.layers = dict(bench.settings), dict(bench.layers)
        found.tuned = bench.name(bench.start.variant(found.best))

    def _climbs(self, seconds: float) -> bool:
        """Is there something to try on top of what is proven, and time for it? `seconds`: from the proof on."""
        enough = (CLIMB_SHARE + CURVES_SHARE) * seconds >= self._least_climb_s
        return len(self.space.knobs) > 1 and enough

    @property
    def _least_climb_s(self) -> float:
        return least_s(self._late_s, len(self.bench.goal.patterns))

    def choose(self, found: Outcome, whole: Goal, until_s: float) -> list[Changes]:
        """The settings that may be faster, the likeliest first; where none were, what came next. `until_s`: of the
        clock.
        """
        bench = self.bench
        search = found.search = Search(self.space, self.avoid, builds=bench.launched)
        while bench.guard.count == 0 and (asked := search.next()) is not None:
            left_s = until_s - bench.clock()
            if left_s <= GRACE_S:
                break
            if asked.reference != START:  # it is faster, so more sizes are fast enough
                bench.goal = whole.without(self._too_slow_for(search.known[asked.reference].times.value))
            found.interrupted |= self._round(search, asked, left_s)
            if found.interrupted:
                break
        found.untried = search.untried
        found.compared, found.failed = frozenset(search.known), search.failed
        by_time = sorted(search.known, key=lambda one: search.known[one].times.value)
        return finalists(search.ranked) or by_time[:1]

    def _prove(self, found: Outcome, proof: Proof, output: Path | None) -> None:
        bench = self.bench
        before_curves_s = self.until_s - CURVES_SHARE * (self.until_s - bench.clock())
        proven = proof.prove(self._chosen, output)
        self.log.confirmed(proven.decided, proven.beside, bench.start)
        if proof.climbs and proven.best != START:
            room = before_curves_s - bench.clock() >= self._least_climb_s
            until_s = before_curves_s if room else self.until_s  # then there is none for the curves
            self._climb(found, proven, until_s, output)
        found.run, found.path = proven.run, output
        found.interrupted = proven.interrupted
        found.best, found.tried, found.verdict = proven.best, proven.tried, proven.verdict
        if proven.late:
            found.notes.append("the confirmation was ended by --time: more of it narrows the intervals")
        if found.best == START:
            return
        facts = bench.settings
        found.effects = effects(
            found.best,
            facts.get(bench.name(bench.start.text), {}),
            facts.get(bench.name(bench.start.variant(found.best)), {}),
            self.read_back(found.best),
        )
        if not found.interrupted:
            curves = proof.curves(found.best, output.with_name(CURVES) if output else None)
            found.run = curves or found.run

    def _climb(self, found: Outcome, proven: Proven, until_s: float, output: Path | None) -> None:
        """Other settings on top of what was proven. The run files go beside `output`."""
        search, whole = found.search, self._whole
        assert search is not None
        assert whole is not None
        climb = Climb(
            self.bench,
            search,
            self.log,
            until_s,
            self._late_s,
            whole,
            self._visit_of,
            self._too_slow_for,
            self._round,
            self.watch,
            self.argv,
            self.until_s - until_s,
        )
        climb.climb(proven, output.parent if output else None)
        for before, after, gain in climb.steps:
            found.notes.append(f"{after} is {times_text(gain)} as {before}, on fresh launches")
        found.compared, found.failed = frozenset(search.known), search.failed

    # ------------------------------------------------------------------------------------------------------- before

    def _feel(self, found: Outcome) -> Callable[[Place], bool]:
        """What the start takes, from the smallest size on: with small buffers a size may take seconds."""
        bench = self.bench
        patterns = bench.goal.patterns
        slowest = self._slowest
        for pattern in patterns:
            sizes = sorted(size for where, size in bench.goal.probes if where == pattern)
            for size in sizes or [bench.goal.counted[0][1]]:
                if pattern in slowest and _scaled(slowest[pattern], size) > MOST_OPERATION_NS:
                    break
                slowest[pattern] = (size, self._time_of_start(pattern, size))
        cost_s = {place: self._visit_of(place) for place in bench.goal.counted}
        left = sorted(
            (one for one in cost_s if cost_s[one] <= VISIT * MOST_OPERATION_NS / 1e9), key=cost_s.__getitem__
        )
        if not left:
            smallest, time = min(slowest.values(), key=lambda one: one[1])
            raise Failure(
                FAILED,
                f"{bench.start.text} takes {time / 1e9:.2g} s for a message of {smallest} bytes, too long to search "
                "with; choose --goal latency, or a start that is not as slow",
            )
        room_s = ROOM * (self.until_s - bench.clock()) / MOST_VARIANTS / BY_LAUNCH / VISITS
        while (
            len(left) > 1
            and cost_s[left[-1]] > VISIT * SLOW_NS / 1e9
            and sum(cost_s[one] for one in left) > room_s
        ):
            left.pop()
        found.too_slow = tuple(one for one in bench.goal.counted if one not in left)
        least = {
            pattern: min((size for of, size in found.too_slow if of == pattern), default=math.inf)
            for pattern in patterns
        }
        self._visit_s = sum(cost_s[one] for one in left)
        return lambda place: place[1] >= least[place[0]]

    def _visit_of(self, place: Place) -> float:
        """What a visit of a place takes the start, in seconds."""
        return VISIT * _scaled(self._slowest[place[0]], place[1]) / 1e9

    def _too_slow_for(self, times: float) -> Callable[[Place], bool]:
        """For what takes so many times as long as the start."""
        return lambda place: _scaled(self._slowest[place[0]], place[1]) * times > MOST_OPERATION_NS

    def _time_of_start(self, pattern: str, size: int) -> float:
        """In ns. On a busy machine a library may not begin in time, and one sample may be hit by other work, so it has
        two tries, and the shorter one counts.
        """
        bench = self.bench
        why = "it did not end in time"
        least = math.inf
        for _ in range(TRIES):
            limit_s = max(GRACE_S, self.until_s - bench.clock())
            measured = bench.session([bench.start.text], [(pattern, size)], FEELING_S, limit_s)
            if measured.interrupted:
                raise KeyboardInterrupt
            if times := [one.median_ns for one in measured.run.points]:
                least = min(least, max(times))
                if least <= MOST_OPERATION_NS:
                    return least
            said = [one.message for one in measured.run.errors] + [one.reason for one in measured.run.skipped]
            why = said[0] if said else why
        if least < math.inf:
            return least
        raise Failure(FAILED, f"{bench.start.text} itself cannot be measured at {size} bytes: {why}")

    # ------------------------------------------------------------------------------------------------------- search

    def _round(self, search: Search, asked: Round, left_s: float) -> bool:
        """Whether the user interrupted."""
        bench = self.bench
        share_s = SHARES[asked.name] * left_s
        curves = len(bench.goal.patterns)
        most = int(share_s / (LEAST_BUDGET_S * curves + self._late_s)) - 1
        some = asked.candidates[: max(most, 1)]
        each_s = (share_s / (len(some) + 1) - self._late_s) / curves
        budget_s = max(LEAST_BUDGET_S, min(each_s, 2.0 * asked.weight))
        self.watch(f"{_what(asked.name, len(some))}; {_best(search)}")
        began_s = bench.clock()
        told, stopped = bench.round(
            asked.reference, some, budget_s, began_s + min(2 * share_s + GRACE_S, left_s + LATE_S)
        )
        took_s = bench.clock() - began_s
        planned_s = budget_s * curves * (len(some) + 1)
        if not any(isinstance(one, Failed) for one in told.values()):  # which take longer than usual
            self._late_s = max(0.02, 0.5 * self._late_s + 0.5 * (took_s - planned_s) / (len(some) + 1))
        search.tell(asked, told)
        self.log.round(asked, told, bench.start, took_s)
        for changes, one in told.items():
            if isinstance(one, Failed) and one.kind == "failed":
                self.watch(f"{changes} failed and is avoided: {one.why}")
        return stopped


def _scaled(known: tuple[int, float], size: int) -> float:
    """What a size takes at most if time grows as the bytes do."""
    return known[1] * max(1.0, size / known[0])


def _what(name: str, count: int) -> str:
    doing = {
        "screen": "trying {} one by one",
        "again": "trying {} on top of what was much faster",
        "halve": "measuring the {} that may be faster",
        "refine": "trying {} around the numbers that gained",
        "combine": "trying {} together",
        "climb": "trying {} on top of what was proven",
    }[name]
    return doing.format(f"{count} setting{'s' if count != 1 else ''}")


def times_text(what: Verdict) -> str:
    """1.31 (1.29 to 1.33) times as fast"""
    times = what.times_as_fast
    return f"{digits(times.value)} ({digits(times.low)} to {digits(times.high)}) times as fast"


def _best(search: Search) -> str:
    best = search.best
    if best == START:
        return "nothing was faster so far"
    times = search.known[best].times.inverse()
    return f"best so far: {best}, {digits(times.value)} times as fast"


def least_seen(what: Verdict | None) -> float:
    """Times as fast: a gain above this would have been seen. Infinite: none would."""
    if what is None or not what.times_as_fast.known:
        return math.inf
    return max(what.floor, LEAST_GAIN, what.times_as_fast.high / what.times_as_fast.value)
