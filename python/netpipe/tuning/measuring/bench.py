# SPDX-License-Identifier: Apache-2.0
"""Measures rounds of a search: sessions of what candidates are compared with, and of the candidates.

A candidate that is refused when it is planned, cannot be opened, crashes or hangs costs its own measurement and no
other's: what the session says about it is the answer. A session that takes longer than it may is ended as Ctrl-C ends
one, and what it has measured counts; the deadline of the whole search is kept the same way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from netpipe.failure import INTERRUPTED, UNAVAILABLE, USAGE, Failure
from netpipe.reading.estimate import Estimate
from netpipe.reading.layers import SEPARATOR, Below
from netpipe.records import Run
from netpipe.session import Request, Session
from netpipe.tuning.measuring.guard import Deadline, Guard
from netpipe.tuning.measuring.ratios import Scores, scores
from netpipe.tuning.search.goals import Goal, Place
from netpipe.tuning.search.halving import Failed
from netpipe.tuning.search.variants import Changes, Start

TOGETHER = 14  # candidates in one session,
TOGETHER_LAUNCHED = 6  # or of a library whose launcher starts processes of its own for each
LEAST_BUDGET_S = 0.08  # of a curve
SLOW = 20.0  # times as long as the reference: a candidate that only takes time
GRACE_S = 2.0  # for the start and the end of a session


@dataclass(frozen=True)
class Measured:
    run: Run
    interrupted: bool  # by the user
    late: bool  # ended by its deadline


@dataclass
class Bench:
    """Measures variants of one start. `base`: the request with everything but variants, patterns, sizes and budget."""

    start: Start
    goal: Goal
    base: Request
    launched: bool  # the library's launcher starts its processes
    guard: Guard = field(default_factory=Guard)
    clock: Callable[[], float] = time.monotonic
    measurements: int = 0  # variants times places
    began: set[Changes] = field(default_factory=set)  # candidates that were part of a session
    settings: dict[str, Mapping[str, str]] = field(default_factory=dict)  # of rank 0, by variant
    layers: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by variant, its own and those below it
    names: dict[str, str] = field(default_factory=dict)  # of variants in records, by what was asked for

    def name(self, variant: str) -> str:
        """As it stands in the records."""
        return self.names.get(variant, variant)

    def request(
        self, variants: Sequence[str], places: Sequence[Place], budget_s: float, launches: int
    ) -> Request:
        sizes = ",".join(map(str, sorted({size for _, size in places})))
        patterns = tuple(dict.fromkeys(pattern for pattern, _ in places))
        more = {"sizes": sizes, "schedule": "list", "budget": f"{max(budget_s, LEAST_BUDGET_S):.3g}"}
        return Request(
            list(variants),
            patterns=patterns,
            settings={**self.base.settings, **more},
            launches=launches,
            modules=self.base.modules,
            hosts=self.base.hosts,
            launcher=self.base.launcher,
            launcher_args=self.base.launcher_args,
            remote_shell=self.base.remote_shell,
        )

    def refusal(self, changes: Changes) -> Failed | None:
        """Why the worker refuses to plan these settings."""
        try:
            Session(self.request([self.start.variant(changes)], self.goal.probes, LEAST_BUDGET_S, 1))
        except Failure as failure:
            return Failed("refused", failure.sentence)
        return None

    def session(
        self,
        variants: Sequence[str],
        places: Sequence[Place],
        budget_s: float,
        limit_s: float,
        *,
        launches: int = 1,
        output: Path | None = None,
        argv: Sequence[str] = (),
        onto: bool = False,
    ) -> Measured:
        """One session. `onto`: its launches are added to the run in `output`, and the answer has all of them. Raises
        Failure when nothing could be measured.
        """
        session = Session(self.request(variants, places, budget_s, launches))
        # The worker writes the settings of a variant in the order of their table.
        self.names.update(zip(variants, session.variants, strict=True))
        self.measurements += len(variants) * len(places) * launches
        with Deadline(self.guard, 0.0 if self.guard.count else limit_s) as deadline:
            result = session.measure(output, argv=argv, onto=onto)
        for one in result.run.variants:
            if one.ranks:
                self.settings[one.variant] = one.ranks[0].settings
        self.layers.update(layers(result.run))
        stopped = result.exit_code == INTERRUPTED
        if stopped and deadline.passed:
            self.guard.arrived()
        by_user = stopped and (not deadline.passed or self.guard.count > 0)
        return Measured(result.run, by_user, stopped and not by_user)

    def round(
        self,
        reference: Changes,
        candidates: Sequence[Changes],
        budget_s: float,
        until_s: float,
    ) -> tuple[dict[Changes, Estimate | Failed], bool]:
        """What each candidate takes over what the reference takes, by the goal, and whether the user interrupted.
        `budget_s`: of each curve, in seconds. `until_s`: of the clock, when it has to be over.
        """
        told: dict[Changes, Estimate | Failed] = {}
        each = TOGETHER_LAUNCHED if self.launched else TOGETHER
        left = list(candidates)
        while left and self.clock() < until_s and self.guard.count == 0:
            chunk, left = self._planned(left[:each], told), left[each:]
            if not chunk:
                continue
            try:
                found, stopped = self._chunk(reference, chunk, budget_s, until_s)
            except Failure as failure:
                if len(chunk) > 1:  # which of them it was shows when each is measured alone
                    each, left = 1, [*chunk, *left]
                    continue
                found, stopped = {chunk[0]: Failed("failed", failure.sentence)}, False
            told.update(found)
            if stopped:
                return told, True
        return told, False

    def _planned(self, some: Sequence[Changes], told: dict[Changes, Estimate | Failed]) -> list[Changes]:
        """Those that the worker does not refuse; the others are told."""
        variants = [self.start.variant(one) for one in some]
        try:
            Session(self.request(variants, self.goal.probes, LEAST_BUDGET_S, 1))
        except Failure:
            refused = {one: why for one in some if (why := self.refusal(one)) is not None}
            told.update(refused)
            return [one for one in some if one not in refused]
        return list(some)

    def _chunk(
        self, reference: Changes, chunk: Sequence[Changes], budget_s: float, until_s: float
    ) -> tuple[dict[Changes, Estimate | Failed], bool]:
        base = self.start.variant(reference)
        names = {self.start.variant(one): one for one in chunk}
        variants = [base, *names]
        places = self.goal.probes
        self.began.update(chunk)
        planned_s = budget_s * len(variants) * len(self.goal.patterns)
        limit_s = min(3 * planned_s + 3 * GRACE_S, until_s - self.clock())
        measured = self.session(variants, places, budget_s, limit_s)
        made = scores(measured.run, self.name(base), self.goal.patterns, self.goal, places)
        found = {
            changes: one
            for variant, changes in names.items()
            if (one := _one(measured, self.name(variant), made)) is not None
        }
        rest = [one for one in chunk if one not in found]
        if rest and not measured.interrupted and self.clock() + GRACE_S < until_s:
            # One that crashed, or took all the time, spoils the measurement of the others: they are measured again,
            # without it where it is known, else in halves.
            for some in [rest] if len(rest) < len(chunk) else _halves(rest):
                more, stopped = self._chunk(reference, some, budget_s, until_s)
                found.update(more)
                if stopped:
                    return found, True
        return found, measured.interrupted


def layers(run: Run) -> dict[str, tuple[str, ...]]:
    """By variant, the layer that it is and those that it says it stands on, the nearest first."""
    below = Below(run)
    return {one.variant: (one.module.partition(SEPARATOR)[0], *below.told(one)) for one in run.variants}


def _halves(some: Sequence[Changes]) -> list[Sequence[Changes]]:
    """Nothing for one alone: measured again it would do the same."""
    middle = len(some) // 2
    return [some[:middle], some[middle:]] if middle else []


def _one(measured: Measured, variant: str, made: Scores) -> Estimate | Failed | None:
    """None: nothing is known of it, for want of time."""
    errors = [one for one in measured.run.errors if one.variant == variant]
    if errors:
        return Failed("refused" if errors[0].code in (USAGE, UNAVAILABLE) else "failed", errors[0].message)
    score = made.of.get(variant)
    if score is not None and score.known:
        return score
    some = made.places.get(variant, {})
    if any(one.value > SLOW for one in some.values()):
        return Failed("slow", f"more than {SLOW:g} times as slow as what it is compared with")
    skipped = [one.reason for one in measured.run.skipped if one.variant == variant]
    if skipped:
        return Failed("refused", skipped[0])
    if score is not None:
        return score
    if measured.late and not some:
        return Failed("slow", "not one measurement ended within its time") if len(made.of) else None
    return None
