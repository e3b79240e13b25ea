# SPDX-License-Identifier: Apache-2.0
"""Whether what the search has chosen gains anything: measured anew, on fresh launches.

What was chosen was chosen because it looked fast, so its own numbers flatter it. The proof measures the start, the
start beside itself and the chosen settings, at the sizes that the goal counts and at no others: with small buffers
these take a thousand times as long as the rest of the curve, which left them one visit each launch, and a gain of 1.7
could not be told from noise. As many launches as there is time for: whole launches lie apart, and their number says how
far. The curves before and after are another session, of what was proven.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from netpipe.failure import Failure
from netpipe.reading.estimate import Estimate
from netpipe.records import Run
from netpipe.tuning.measuring.bench import GRACE_S, LEAST_BUDGET_S, Bench
from netpipe.tuning.measuring.ratios import BY_LAUNCH, Scores, Verdict, scores, verdict
from netpipe.tuning.search.goals import Goal, Place
from netpipe.tuning.search.halving import LEAST_GAIN, MUCH_FASTER
from netpipe.tuning.search.variants import START, Changes

FINALISTS = 3
MOST_VARIANTS = FINALISTS + 2  # beside the start and its copy
VISITS = 4  # of each size in each launch: the median of so many is not one that other work has hit
LAUNCHES = 3  # at least: with fewer, launches say nothing of each other (reading/blocks/visits.py)
MOST_LAUNCHES = BY_LAUNCH + 2
CURVES_LAUNCHES = 3
CURVES_SHARE = 0.25  # of the time, for the curves before and after
FAST_SHARE = 0.3  # of what is left then, to hold those that are much faster against each other
FULL = 0.8  # of the time is for budgets; the rest is for sizes that take longer
LATE_S = 1.0  # beyond its time, for what was begun


@dataclass
class Proven:
    """`best` is START where nothing gains; `verdict` is about `tried`, None where nothing was measured to its end."""

    best: Changes = START
    tried: Changes = START
    verdict: Verdict | None = None
    run: Run | None = None
    interrupted: bool = False  # by the user
    late: bool = False
    decided: Mapping[Changes, Verdict] = field(default_factory=dict)
    beside: Estimate | None = None  # the start beside itself


@dataclass
class Proof:
    bench: Bench
    until_s: float  # of the clock
    too_slow: Callable[[Place], bool]
    late_s: float  # what a session takes beyond its budget, for each variant
    visit_s: float  # what a visit of each size that counts takes the start
    watch: Callable[[str], None] = lambda _: None
    argv: Sequence[str] = ()
    # The goal with the sizes at which the start is too slow, and which of them are too slow for what takes so many
    # times as long as the start.
    whole: Goal | None = None
    too_slow_for: Callable[[float], Callable[[Place], bool]] = lambda _: lambda _: False

    def prove(self, chosen: Sequence[Changes], output: Path | None) -> Proven:
        """Measures `chosen`, the likeliest first, and decides."""
        bench, start = self.bench, self.bench.start.text
        names = {bench.start.variant(one): one for one in chosen}
        count = len(names) + 2
        share = 1 - CURVES_SHARE * bool(self._others)
        left_s = max(share * (self.until_s - bench.clock()), GRACE_S)
        patterns = len(bench.goal.patterns)
        launches = self._launches(FULL * left_s, count)
        budget_s = FULL * (left_s - launches * self.late_s * count) / count / patterns
        self.watch(f"confirming on {launches} fresh launches: {' and '.join(map(str, chosen))}")
        measured = bench.session(
            [start, f"{start}#2", *names],
            bench.goal.counted,
            max(budget_s, LEAST_BUDGET_S * launches),
            left_s + LATE_S,
            launches=launches,
            output=output,
            argv=self.argv,
        )
        made = Proven(run=measured.run, interrupted=measured.interrupted, late=measured.late)
        self._decide(made, measured.run, names)
        self._among_the_fast(made)
        return made

    def _among_the_fast(self, made: Proven) -> None:
        """Holds the settings that gain against each other without the start, where that is much slower. Beside it, each
        visit of theirs follows a pause of tens of milliseconds, and what a setting does without pauses does not show:
        over loopback, with the start's buffers of 8 KiB in the session, reno made 0.98 of what larger buffers reach
        under BBR, and 1.30 without it. Nor do the sizes that are too slow for the start, at which it gains most.
        """
        bench = self.bench
        if made.best == START or made.interrupted:
            return
        reached = {one: told.times_as_fast.value for one, told in made.decided.items() if told.gains}
        fast = sorted(
            (one for one in reached if reached[one] * MUCH_FASTER > max(reached.values())),
            key=lambda one: len(one.items),
        )
        seconds = FAST_SHARE * (self.until_s - bench.clock())
        each_s = len(fast) * (2 * self.late_s + LEAST_BUDGET_S * len(bench.goal.patterns))
        launches = min(MOST_LAUNCHES, int(seconds / each_s)) if fast else 0
        if len(fast) < 2 or reached[made.best] < MUCH_FASTER or launches < LAUNCHES:
            return
        variants = [bench.start.variant(one) for one in fast]
        beside_the_start = bench.goal
        bench.goal = (self.whole or bench.goal).without(self.too_slow_for(1 / max(reached.values())))
        self.watch(
            f"holding the {len(fast)} that are much faster against each other, on {launches} fresh launches"
        )
        try:
            run = bench.session(
                variants,
                bench.goal.counted,
                FULL * seconds / len(fast) / len(bench.goal.patterns),
                seconds + LATE_S,
                launches=launches,
            ).run
            made.best = fast[0]
            for one in fast[1:]:
                if self._certainly_faster(run, one, made.best, len(fast) - 1):
                    made.best = one
        except Failure:  # what was proven is proven
            return
        finally:
            bench.goal = beside_the_start
        made.tried, made.verdict = made.best, made.decided[made.best]

    def _certainly_faster(self, run: Run, one: Changes, than: Changes, tests: int) -> bool:
        bench = self.bench
        base, other = (bench.name(bench.start.variant(of)) for of in (than, one))
        goal = bench.goal
        found = scores(run, base, goal.patterns, goal, goal.counted, tests).of.get(other)
        return found is not None and found.known and found.high * LEAST_GAIN < 1

    def curves(self, best: Changes, output: Path | None) -> Run | None:
        """Of the start and of `best`; None where the proof has all of them, or there is no time."""
        bench = self.bench
        left_s = self.until_s - bench.clock()
        variants = [bench.start.text, bench.start.variant(best)]
        late_s = CURVES_LAUNCHES * self.late_s * len(variants)
        if not self._others or left_s < GRACE_S + late_s:
            return None
        places = [*self._others, *bench.goal.counted]
        budget_s = FULL * (left_s - late_s) / len(variants) / len(bench.goal.patterns)
        self.watch("measuring the curves before and after")
        try:
            return bench.session(
                variants,
                places,
                budget_s,
                left_s + LATE_S,
                launches=CURVES_LAUNCHES,
                output=output,
                argv=self.argv,
            ).run
        except Failure:  # what was proven is proven
            return None

    @property
    def _others(self) -> list[Place]:
        """Places of the curve that do not count."""
        goal = self.bench.goal
        counted = set(goal.counted)
        return [
            place
            for pattern in goal.patterns
            for size in goal.curve
            if (place := (pattern, size)) not in counted and not self.too_slow(place)
        ]

    def _launches(self, seconds: float, count: int) -> int:
        """As many as there is time for."""
        least_s = max(LEAST_BUDGET_S * len(self.bench.goal.patterns), VISITS * self.visit_s)
        each_s = count * (2 * self.late_s + least_s)
        return max(LAUNCHES, min(MOST_LAUNCHES, int(seconds / each_s)))

    def _decide(self, made: Proven, run: Run, names: Mapping[str, Changes]) -> None:
        """The simplest settings that gain, unless others are certainly faster than those: a setting that does nothing
        is no part of an answer.
        """
        bench, start = self.bench, self.bench.start.text

        def against(reference: str, beside: str = "") -> Scores:
            goal = bench.goal
            return scores(run, bench.name(reference), goal.patterns, goal, goal.counted, len(names), beside)

        copy = bench.name(f"{start}#2")
        itself, whole = against(start), against(start, copy)
        made.beside, apart = itself.of.get(copy), itself.apart(copy, bench.goal)
        made.decided = {
            changes: verdict(whole.of[bench.name(variant)], made.beside, apart)
            for variant, changes in names.items()
            if bench.name(variant) in whole.of
        }
        decided = made.decided
        if not decided:
            return
        made.tried = max(decided, key=lambda one: decided[one].times_as_fast.value)
        for changes in sorted(decided, key=lambda one: len(one.items)):
            if not decided[changes].gains:
                continue
            if made.best != START and not self._certainly_faster(run, changes, made.best, len(names)):
                continue
            made.best = made.tried = changes
        made.verdict = decided[made.tried]


def finalists(ranked: Sequence[Changes]) -> list[Changes]:
    """The fastest, and the fastest of those that are parts of it or have fewer settings."""
    found: list[Changes] = []
    for one in ranked:
        if len(found) < FINALISTS and all(len(one.items) < len(other.items) for other in found):
            found.append(one)
    return found
