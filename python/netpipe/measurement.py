# SPDX-License-Identifier: Apache-2.0
"""One run: its launches one after the other, and what is measured again when a worker is lost."""

from __future__ import annotations

import contextlib
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from netpipe import native
from netpipe.events import AnyEvent, Progress, Ready
from netpipe.failure import DONE, FAILED, INTERRUPTED, Failure
from netpipe.launch import Assignment, Starter
from netpipe.launch.interrupt import Interrupt
from netpipe.launch.jobs import Launchers
from netpipe.launch.plan import Plan
from netpipe.launch.worker import Worker
from netpipe.records import Error, Launch, Point, Run, Sample
from netpipe.records import Plan as ResolvedPlan
from netpipe.run_file import Recording

# longer than three of the worker's own deadlines, after which it would have reported something
SILENCE_S = 30.0
FEWEST_VISITS = 3  # of a size that is evidence of a step, as in src/sampling/sampler.cpp

Watch = Callable[[Progress], None]


@dataclass(slots=True)
class Measurement:
    """`plan` as the user gave it, `resolved` as the worker understood it.

    `others` have the same variants and patterns with other settings; each launch measures them too."""

    plan: Plan
    resolved: ResolvedPlan
    recording: Recording
    starter: Starter
    launches: int
    watch: Watch
    silence_s: float = SILENCE_S
    site: Launchers = field(default_factory=Launchers)
    others: tuple[Plan, ...] = ()
    run: Run = field(default_factory=Run)
    first_launch: int = 0  # more than 0: the run is continued
    told: set[str] = field(default_factory=set)  # notes so far: every launch fails alike, and is told once
    # Called with the run when the first launch has opened its variants; a Failure that it raises ends the measurement.
    check: Callable[[Run, int], None] | None = None
    refused: bool = False  # by it

    def measure(self, interrupt: Interrupt) -> int:
        """The exit code. What was measured is in the recording and in `run`. Raises Failure when nothing could be
        measured.
        """
        with self.site:
            self.site.check_all(variant.module for variant in self.resolved.variants)
            return self._launch_all(interrupt)

    def report(
        self, event: AnyEvent | None = None, launch: int = 0, launches: int = 0, note: str | None = None
    ) -> None:
        """Reads what is new in the recording and calls `watch`. The first result puts the recording in place."""
        lines = self.recording.new()
        for _, record in lines:
            self.run.add(record)
            opened = isinstance(record, Launch) and only_opens(self.resolved) and self.run.variants
            if isinstance(record, (Sample, Point)) or opened:
                moved = self.recording.keep()
                note = "; ".join(filter(None, (note, moved))) or None
        if isinstance(event, Ready) and self.check is not None and launch == self.first_launch:
            self.refused = True
            self.check(self.run, launch)
            self.refused = False
        if note in self.told:
            note = None
        elif note:
            self.told.add(note)
        self.watch(Progress(self.run, event, launch, launches, lines, note))

    @property
    def started(self) -> bool:
        """Whether anything was started, be it that nothing came of it."""
        return any(plan.launch >= self.first_launch for plan in self.run.plans)

    def _launch_all(self, interrupt: Interrupt) -> int:
        names = [variant.variant for variant in self.resolved.variants]
        waiting: deque[tuple[Plan, list[str]]] = deque(
            [(plan, names) for plan in (self.plan, *self.others)] * self.launches
        )
        worst = DONE
        number = self.first_launch
        while waiting and interrupt.count == 0:
            plan, variants = waiting.popleft()
            assignment = Assignment(plan, self.recording.file, self.recording.name, number, self._wanted())

            def tell(event: AnyEvent | None, note: str | None = None, launch: int = number) -> None:
                self.report(event, launch, len(waiting), note)

            silence_s = self.silence_s + 3 * (self.resolved.timeout_s or 0)
            modules = {one.module for one in self.resolved.variants if one.variant in variants}
            needed = self.site.start_daemons(modules, lambda: interrupt.count > 0)
            command = self.starter.command(assignment)
            command = replace(command, environment={**command.environment, **needed})
            worker = Worker(command, assignment, silence_s, interrupt, self.site)
            worker.run(tell)
            tell(None)
            assert worker.exit_code is not None
            worst = native.worst((worst, self._code_of(worker, interrupt, number, tell)))
            if worker.exit_code in (DONE, INTERRUPTED):
                if worker.died:  # it had to be killed: points that it had not written yet are lost
                    tell(None, worker.sentence)
            elif worker.sentence is not None and not self.started and interrupt.count == 0:
                # Nothing was started, and it said why.
                raise Failure(worker.exit_code, worker.sentence)
            else:
                again = self._after_loss(worker, number, variants)
                waiting.extendleft((plan.with_variants(some), some) for some in reversed(again))
                tell(None, self._loss_sentence(worker, number) + _what_follows(again))
            number += 1
        return INTERRUPTED if interrupt.count else worst

    def _code_of(
        self,
        worker: Worker,
        interrupt: Interrupt,
        launch: int,
        tell: Callable[[AnyEvent | None, str | None], None],
    ) -> int:
        """How the launch ended. A daemon that is told to end interrupts the worker, as the user does."""
        assert worker.exit_code is not None
        lost = self.site.daemons.lost()
        for sentence in lost:
            tell(None, sentence)
        if not lost or interrupt.count or worker.exit_code != INTERRUPTED:
            return worker.exit_code
        with contextlib.suppress(OSError):
            self.recording.append(Error(launch=launch, code=FAILED, message="; ".join(lost)))
        tell(None, None)
        return FAILED

    def _wanted(self) -> tuple[str, ...]:
        """What each launch so far measured of each curve. The next one begins with the same sizes: were each to search
        anew, few pairs of close sizes would have been measured by all of them. And it looks for steps in all of them.
        """
        if self.resolved.schedule is None or self.resolved.schedule.kind != "adaptive":
            return ()
        curves: dict[tuple[str, str, int], list[str]] = {}
        for point in self.run.points:
            curves.setdefault((point.variant, point.pattern, point.launch), []).append(_size_seen(point))
        return tuple(
            f"{variant} {pattern} {','.join(seen)}" for (variant, pattern, _), seen in curves.items()
        )

    def _after_loss(self, worker: Worker, launch: int, variants: Sequence[str]) -> list[list[str]]:
        """Records the loss if the worker could not, and returns the variants to measure again, in groups."""
        blamed = {error.variant for error in self.run.errors if error.launch == launch and error.variant}
        if not any(error.launch == launch for error in self.run.errors):
            loss = Error(
                launch=launch,
                variant=variants[0] if len(variants) == 1 else None,
                code=worker.exit_code,
                message=worker.sentence or "the worker ended without a message",
            )
            # On a full disk the loss is still told, and the last line of the file will be tried again.
            with contextlib.suppress(OSError):
                self.recording.append(loss)
        rest = [
            name for name in variants if name not in blamed and not self._complete(name, launch, worker.died)
        ]
        if blamed:
            return [rest] if rest else []
        # Nobody was blamed. A worker that died without a message may do so again, and measuring each variant alone
        # shows which one did it. One that said why (a full disk, a lost server) would say it again.
        if worker.died and len(variants) > 1:
            return [[name] for name in rest]
        return []

    def _loss_sentence(self, worker: Worker, launch: int) -> str:
        """The reason, whoever gave it: a rank that was stuck leaves its last message in the run file only."""
        errors = [error for error in self.run.errors if error.launch == launch]
        if worker.died and errors:
            return f"{errors[-1].variant or 'the run'}: {errors[-1].message}"
        return worker.sentence or "the measurement failed"

    def _complete(self, variant: str, launch: int, died: bool) -> bool:
        """Whether everything was measured of this variant that could be. A worker that ended by itself has decided
        that; one that died left out what it had not reached.
        """
        points = [point for point in self.run.points if point.variant == variant and point.launch == launch]
        if any(point.stop == "interrupted" for point in points):
            return False
        done = {(p.pattern, p.size_bytes) for p in points}
        started = {pattern for pattern, _ in done}
        skipped = {
            (s.pattern, s.size_bytes) for s in self.run.skipped if s.variant == variant and s.launch == launch
        }
        return all(
            (pattern, size) in done
            or bool(skipped & {(pattern, size), (pattern, None), (None, None)})
            or (pattern in started and not died)
            for pattern in self.resolved.patterns
            for size in self.resolved.sizes
        )


def only_opens(plan: ResolvedPlan) -> bool:
    """Whether the variants are opened and closed again, and no pattern runs (`netpipe memory`)."""
    return plan.patterns in ([], ["none"])


def _size_seen(point: Point) -> str:
    """A size for the plan's key `wanted`, with the median of its visits and the standard error of that, as
    spread_of_visits (src/sampling/statistics.h) makes them.
    """
    times = point.visit_times()
    if times is None or len(times.median_ns) < FEWEST_VISITS or min(times.median_ns) <= 0:
        return f"{point.size_bytes}"
    middle = median(times.median_ns)
    off = median(abs(one - middle) for one in times.median_ns)
    visits = len(times.median_ns)
    error = 1.2533 * off / 0.6745 * visits / (visits - 0.8) / math.sqrt(visits)
    return f"{point.size_bytes}={middle:.6g}/{error:.3g}/{visits}"


def _what_follows(again: Sequence[Sequence[str]]) -> str:
    if len(again) > 1:
        return f"; now measuring the {len(again)} variants one by one to see which it was"
    if again:
        return f"; going on with {len(again[0])} other variant{'s' if len(again[0]) > 1 else ''}"
    return ""
