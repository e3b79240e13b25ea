# SPDX-License-Identifier: Apache-2.0
"""What the other settings do on top of what was proven, one step after the other until nothing gains any more.

A setting that is held back by another one gains nothing alone: over a link with a delay a larger send buffer does
little while the receive buffer is small, and once that is large the send buffer is what limits (coordinate ascent).
What the search knows to be faster is tried first, and then every setting that it does not know there.

Each step is proven as the first gain was: on fresh launches, against what was proven before and against that beside
itself. The start is not measured. Beside a start that is three times as slow or more, each visit of a faster setting
follows a pause of tens of milliseconds, and what a setting does without pauses does not show: over loopback, with the
start's buffers of 8 KiB in the session, reno made 0.98 of what larger buffers reach under BBR, and 1.30 without it.
Nor do the sizes show that are too slow for the start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from netpipe.failure import Failure
from netpipe.reading.blocks.visits import FEWEST_LAUNCHES
from netpipe.reading.estimate import ratio
from netpipe.records import Run
from netpipe.tuning.decision import COPY, decide, times_over
from netpipe.tuning.log import Log
from netpipe.tuning.measuring.bench import GRACE_S, LEAST_BUDGET_S, Bench
from netpipe.tuning.measuring.ratios import Verdict
from netpipe.tuning.proof import FULL, LATE_S, MOST_LAUNCHES, VISITS, Proven, finalists
from netpipe.tuning.search.goals import Goal, Place
from netpipe.tuning.search.halving import Round, Search
from netpipe.tuning.search.variants import Changes

BESIDE = 2  # what was proven, and that beside itself
HELD = 2  # settings that are held against what was proven, in one session
STEP_SHARE = 0.7  # of the time that is left, for the proof of a step


def least_s(late_s: float, patterns: int) -> float:
    """The shortest time in seconds in which a step can be proven. `late_s` as in Climb; `patterns`: of the goal."""
    return FEWEST_LAUNCHES * (1 + BESIDE) * (2 * late_s + LEAST_BUDGET_S * patterns) / (FULL * STEP_SHARE)


@dataclass
class Climb:
    """`whole`: the goal with the sizes that are too slow for the start. `visit_s`: what a visit of a place takes the
    start. `measure` measures a round of the search within so many seconds, and says whether the user interrupted.
    """

    bench: Bench
    search: Search
    log: Log
    until_s: float  # of the clock
    late_s: float  # what a session takes beyond its budget, for each variant
    whole: Goal
    visit_s: Callable[[Place], float]
    too_slow_for: Callable[[float], Callable[[Place], bool]]
    measure: Callable[[Search, Round, float], bool]
    watch: Callable[[str], None] = lambda _: None
    argv: Sequence[str] = ()
    reserve_s: float = 0.0  # after that, for the curves; what is ahead is proven rather than drawn
    steps: list[tuple[Changes, Changes, Verdict]] = field(default_factory=list)  # from, to, what it gains
    _held: set[tuple[Changes, Changes]] = field(default_factory=set)
    _sessions: int = 0

    def climb(self, made: Proven, folder: Path | None) -> None:
        """From `made.best` on; `made` says then what was reached, over the start. The run files of the proofs go into
        `folder`, with numbers.
        """
        beside_the_start = self.bench.goal
        try:
            while (
                not made.interrupted
                and made.verdict is not None
                and self._step(made, beside_the_start, folder)
            ):
                pass
        except Failure:  # what was proven is proven
            return
        finally:
            self.bench.goal = beside_the_start

    def _step(self, made: Proven, beside_the_start: Goal, folder: Path | None) -> bool:
        """Whether something gained on top of the best."""
        best = made.best
        if self._prove(made, beside_the_start, folder):
            return True
        if made.interrupted or self._fits(made, 1) is None:
            return False
        asked = self.search.on_top(best)
        left_s = self.until_s - self.bench.clock()
        if not asked.candidates or left_s <= GRACE_S:
            return False
        made.interrupted = self.measure(self.search, asked, left_s)
        return not made.interrupted and self._prove(made, beside_the_start, folder)

    def _prove(self, made: Proven, beside_the_start: Goal, folder: Path | None) -> bool:
        """Holds what is ahead of the best against it."""
        bench, best = self.bench, made.best
        ahead = [one for one in self.search.ahead(best) if (best, one) not in self._held]
        chosen = finalists(ahead)[:HELD]
        fit = self._fits(made, len(chosen))
        if fit is None and chosen:
            self.until_s, self.reserve_s = self.until_s + self.reserve_s, 0.0
            chosen, fit = chosen[:1], self._fits(made, 1)
        if not chosen or fit is None:
            return False
        launches, each_s = fit
        self._held.update((best, one) for one in chosen)
        self._sessions += 1
        self.watch(f"holding {' and '.join(map(str, chosen))} against {best} on {launches} fresh launches")
        base = bench.start.variant(best)
        measured = bench.session(
            [base, f"{base}{COPY}", *map(bench.start.variant, chosen)],
            bench.goal.counted,
            each_s * launches,
            STEP_SHARE * (self.until_s - bench.clock()) + LATE_S,
            launches=launches,
            output=folder / f"climb-{self._sessions}.jsonl" if folder else None,
            argv=self.argv,
        )
        made.interrupted = measured.interrupted
        found = decide(bench, measured.run, best, chosen, len(chosen))
        self.log.confirmed(found.decided, found.beside, bench.start, best)
        if found.best is None:
            return False
        self.steps.append((best, found.best, found.decided[found.best]))
        made.verdict = self._over_the_start(made, found.best, measured.run, beside_the_start)
        made.best = made.tried = found.best
        return True

    def _fits(self, made: Proven, held: int) -> tuple[int, float] | None:
        """The number of launches of the next proof of so many settings, and the seconds that a curve has in each; None
        where there is no time for three. The goal gets the sizes that are fast enough for the best, as many as fit.
        """
        bench = self.bench
        assert made.verdict is not None
        times = 1 / made.verdict.times_as_fast.value
        goal = self.whole.without(self.too_slow_for(times))
        count, patterns = held + BESIDE, len(goal.patterns)
        seconds = FULL * STEP_SHARE * (self.until_s - bench.clock())
        room_s = seconds / FEWEST_LAUNCHES / count - 2 * self.late_s

        def visits_s() -> float:
            return max(LEAST_BUDGET_S * patterns, VISITS * times * sum(map(self.visit_s, places)))

        places = sorted(goal.counted, key=self.visit_s)
        while len(places) > 1 and visits_s() > room_s:
            places.pop()
        bench.goal = goal.without(lambda place: place not in places)
        launches = min(MOST_LAUNCHES, int(seconds / count / (2 * self.late_s + visits_s())))
        if launches < FEWEST_LAUNCHES or not bench.goal.probes:
            return None
        return launches, max(LEAST_BUDGET_S, (seconds / launches / count - self.late_s) / patterns)

    def _over_the_start(self, made: Proven, one: Changes, run: Run, beside_the_start: Goal) -> Verdict:
        """As it was measured beside the start; what was not gains as much as both proofs together say, at the sizes at
        which the start was measured.
        """
        assert made.verdict is not None
        measured = made.decided.get(one)
        if measured is not None and measured.gains:
            return measured
        counted = set(beside_the_start.counted)
        goal = self.bench.goal.without(lambda place: place not in counted)
        times = times_over(self.bench, run, one, made.best, goal)
        if times is None:
            return made.verdict
        return Verdict(ratio(made.verdict.times_as_fast, times), made.verdict.floor)
