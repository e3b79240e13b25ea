# SPDX-License-Identifier: Apache-2.0
"""Whether what the search has chosen gains anything: measured anew, on fresh launches.

What was chosen was chosen because it looked fast, so its own numbers flatter it. The proof measures the start, the
start beside itself and the chosen settings, at the sizes that the goal counts and at no others: with small buffers
these take a thousand times as long as the rest of the curve, which left them one visit each launch, and a gain of 1.7
could not be told from noise. Whole launches lie apart, and their number says how far: there are as many as there is
time for, unless three say enough. The curves before and after are another session, of what was proven.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from netpipe.failure import Failure
from netpipe.reading.across.merge import merged
from netpipe.reading.blocks.visits import FEWEST_LAUNCHES
from netpipe.reading.estimate import Estimate
from netpipe.records import Run
from netpipe.tuning.decision import COPY, Decision, decide
from netpipe.tuning.measuring.bench import GRACE_S, LEAST_BUDGET_S, Bench
from netpipe.tuning.measuring.ratios import BY_LAUNCH, Verdict
from netpipe.tuning.search.goals import Place
from netpipe.tuning.search.variants import START, Changes

FINALISTS = 3
MOST_VARIANTS = FINALISTS + 2  # beside the start and its copy
VISITS = 4  # of each size in each launch: the median of so many is not one that other work has hit
MOST_LAUNCHES = BY_LAUNCH + 2
# The look after three launches may be wrong so many times less often than the one at all launches, whose level stays as
# it is (p < 0.001; R. Peto et al., "Design and analysis of randomized clinical trials", British Journal of Cancer 34,
# 1976).
EARLY = 50
ENOUGH = 1.1  # upper over lower end of a gain: three launches say it, and more would only narrow it
CURVES_SHARE = 0.15  # of the time, for the curves before and after,
CLIMB_SHARE = 0.25  # and to try other settings on top of what was proven (climb.py)
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
    climbs: bool = False  # other settings are tried on top of what gains, so some time is left for that

    def prove(self, chosen: Sequence[Changes], output: Path | None) -> Proven:
        """Measures `chosen`, the likeliest first, and decides."""
        bench, start = self.bench, self.bench.start.text
        count = len(chosen) + 2
        share = 1 - CURVES_SHARE * bool(self._others) - CLIMB_SHARE * self.climbs
        left_s = max(share * (self.until_s - bench.clock()), GRACE_S)
        patterns = len(bench.goal.patterns)
        launches = self._launches(FULL * left_s, count)
        each_s = FULL * (left_s / launches - self.late_s * count) / count / patterns
        variants = [start, f"{start}{COPY}", *map(bench.start.variant, chosen)]
        until_s = bench.clock() + left_s + LATE_S
        made = Proven()

        def measure(number: int) -> Run:
            """So many launches more; the answer has all."""
            before = made.run
            measured = bench.session(
                variants,
                bench.goal.counted,
                max(each_s, LEAST_BUDGET_S) * number,
                max(until_s - bench.clock(), GRACE_S),
                launches=number,
                output=output,
                argv=self.argv,
                onto=before is not None and output is not None,
            )
            made.run = measured.run
            if before is not None and output is None:
                made.run = merged([before, measured.run], lambda _, name: name)
            made.interrupted, made.late = measured.interrupted, measured.late
            return made.run

        more = launches - FEWEST_LAUNCHES
        at_most = f"{FEWEST_LAUNCHES} to {launches}" if more else str(launches)
        self.watch(f"confirming on {at_most} fresh launches: {' and '.join(map(str, chosen))}")
        run = measure(FEWEST_LAUNCHES)
        early = decide(bench, run, START, chosen, EARLY * len(chosen))
        if more and not (made.interrupted or made.late or _is_enough(early)):
            with contextlib.suppress(Failure):  # what three launches have said is said
                run = measure(more)
        found = decide(bench, run, START, chosen, len(chosen))
        made.decided, made.beside = found.decided, found.beside
        made.best = START if found.best is None else found.best
        if found.tried is not None:
            made.tried, made.verdict = found.tried, found.decided[found.tried]
        return made

    def curves(self, best: Changes, output: Path | None) -> Run | None:
        """Of the start and of `best`; None where the proof has all of them, or there is no time."""
        bench = self.bench
        left_s = self.until_s - bench.clock()
        variants = [bench.start.text, bench.start.variant(best)]
        late_s = FEWEST_LAUNCHES * self.late_s * len(variants)
        if not self._others or left_s < GRACE_S + late_s:
            return None
        places = [*self._others, *bench.goal.counted]
        budget_s = FULL * (left_s - late_s) / len(variants) / len(bench.goal.patterns)
        self.watch("measuring the curves before and after")
        try:
            run = bench.session(
                variants,
                places,
                budget_s,
                left_s + LATE_S,
                launches=FEWEST_LAUNCHES,
                output=output,
                argv=self.argv,
            ).run
        except Failure:  # what was proven is proven
            return None
        return run if run.points else None  # it may have been interrupted at once

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
        return max(FEWEST_LAUNCHES, min(MOST_LAUNCHES, int(seconds / each_s)))


def _is_enough(found: Decision) -> bool:
    """Does something gain, by how much is known well, and is nothing left open that looks faster?"""
    if found.best is None:
        return False
    gain = found.decided[found.best].times_as_fast
    fastest = max(one.times_as_fast.value for one in found.decided.values())
    return gain.high < ENOUGH * gain.low and fastest <= gain.high


def finalists(ranked: Sequence[Changes]) -> list[Changes]:
    """The fastest, and the fastest of those that are parts of it or have fewer settings."""
    found: list[Changes] = []
    for one in ranked:
        if len(found) < FINALISTS and all(len(one.items) < len(other.items) for other in found):
            found.append(one)
    return found
