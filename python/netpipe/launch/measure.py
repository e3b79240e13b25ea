# SPDX-License-Identifier: Apache-2.0
"""A whole run: launches one after the other, and what is still measured when a worker is lost."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from netpipe.failure import DONE, FAILED, GATE, INTERRUPTED, UNAVAILABLE, USAGE, Failure
from netpipe.launch import Job, Registered
from netpipe.launch.events import AnyEvent
from netpipe.launch.interrupt import Interrupt
from netpipe.launch.jobs import Launchers
from netpipe.launch.plan import Plan
from netpipe.launch.worker import Worker
from netpipe.records import AnyRecord, Error, Run
from netpipe.records import Plan as ResolvedPlan
from netpipe.run_file import Tail, append

SEVERITY = (
    DONE,
    UNAVAILABLE,
    USAGE,
    FAILED,
    GATE,
    INTERRUPTED,
)  # the worker's own order: wrong bytes are the worst result
SILENCE_S = 30.0  # beyond three of the worker's own deadlines: it should have spoken itself long before


@dataclass(frozen=True, slots=True)
class Progress:
    """What is known after an event of a worker. `run` is the run up to here; it grows, and is not to be changed."""

    run: Run
    event: AnyEvent | None  # None: between two workers
    launch: int  # of the worker
    launches: int  # that are still to come after it, with those that a loss has added
    lines: list[tuple[bytes, AnyRecord]]  # of the run file, since the last time
    note: str | None = None  # a sentence for people


@dataclass(slots=True)
class Measurement:
    """`plan` as the user gave it, `resolved` as the worker understood it."""

    plan: Plan
    resolved: ResolvedPlan
    record: Path
    launcher: Registered
    launches: int
    watch: Callable[[Progress], None]
    silence_s: float = SILENCE_S
    site: Launchers = field(default_factory=Launchers)
    others: tuple[
        Plan, ...
    ] = ()  # the same variants and patterns in another way: each launch measures them too
    run: Run = field(default_factory=Run)
    tail: Tail = field(init=False)

    def __post_init__(self) -> None:
        self.tail = Tail(self.record)

    def measure(self, interrupt: Interrupt) -> int:
        """The exit code. What was measured is in the file and in `run`. Raises Failure where nothing could be."""
        with self.site:
            for module in {variant.module for variant in self.resolved.variants if "@" in variant.module}:
                self.site.check(module)
            return self._measure(interrupt)

    def _measure(self, interrupt: Interrupt) -> int:
        names = [variant.variant for variant in self.resolved.variants]
        waiting: deque[tuple[Plan, list[str]]] = deque(
            [(plan, names) for plan in (self.plan, *self.others)] * self.launches
        )
        worst = DONE
        number = 0
        while waiting and interrupt.count == 0:
            plan, variants = waiting.popleft()
            job = Job(plan, self.record, number)

            def tell(event: AnyEvent | None, note: str | None = None, launch: int = number) -> None:
                self._tell(event, launch, len(waiting), note)

            silence_s = self.silence_s + 3 * (self.resolved.timeout_s or 0)
            worker = Worker(self.launcher.command(job), job.text(), silence_s, interrupt, self.site)
            worker.run(tell)
            tell(None)
            assert worker.exit_code is not None
            worst = worse(worst, worker.exit_code)
            if worker.exit_code in (DONE, INTERRUPTED):
                if worker.died:  # it had to be killed: points that it had not written yet are lost
                    tell(None, worker.sentence)
            elif worker.sentence is not None and not self.run.plans:  # nothing was begun, and it said why
                raise Failure(worker.exit_code, worker.sentence)
            else:
                again = self._after_loss(worker, number, variants)
                waiting.extendleft((plan.with_variants(some), some) for some in reversed(again))
                tell(None, self._loss_sentence(worker, number) + _what_follows(again))
            number += 1
        return INTERRUPTED if interrupt.count else worst

    def finish(self) -> None:
        """After the last line of the file was written by whoever called `measure`."""
        self._tell(None, max((launch.launch for launch in self.run.launches), default=0), 0, None)

    def _tell(self, event: AnyEvent | None, launch: int, launches: int, note: str | None) -> None:
        lines = self.tail.new()
        for _, record in lines:
            self.run.add(record)
        self.watch(Progress(self.run, event, launch, launches, lines, note))

    def _after_loss(self, worker: Worker, launch: int, variants: Sequence[str]) -> list[list[str]]:
        """Records the loss where the worker could not, and says which variants are measured again, in which groups."""
        blamed = {error.variant for error in self.run.errors if error.launch == launch and error.variant}
        if not any(error.launch == launch for error in self.run.errors):
            loss = Error(
                launch=launch,
                variant=variants[0] if len(variants) == 1 else None,
                code=worker.exit_code,
                message=worker.sentence or "the worker ended without a word",
            )
            # On a full disk its sentence is said all the same, and again with the last line of the file.
            with contextlib.suppress(OSError):
                append(self.record, loss)
        rest = [
            name for name in variants if name not in blamed and not self._complete(name, launch, worker.died)
        ]
        if blamed:
            return [rest] if rest else []
        # Nobody was blamed. A worker that died without a word may do so again, and alone it is known which variant did
        # it; one that said why (a full disk, a server that is gone) would say it again.
        if worker.died and len(variants) > 1:
            return [[name] for name in rest]
        return []

    def _loss_sentence(self, worker: Worker, launch: int) -> str:
        """What was said, by whom ever: a rank that was stuck leaves its last words in the run file only."""
        errors = [error for error in self.run.errors if error.launch == launch]
        if worker.died and errors:
            return f"{errors[-1].variant or 'the run'}: {errors[-1].message}"
        return worker.sentence or "the measurement failed"

    def _complete(self, variant: str, launch: int, died: bool) -> bool:
        """Was all measured of this variant that could be? A worker that ended by itself has decided that; one that died
        left out what it had not come to.
        """
        points = [point for point in self.run.points if point.variant == variant and point.launch == launch]
        if any(point.stop == "interrupted" for point in points):
            return False
        done = {(p.pattern, p.size_bytes) for p in points}
        begun = {pattern for pattern, _ in done}
        skipped = {
            (s.pattern, s.size_bytes) for s in self.run.skipped if s.variant == variant and s.launch == launch
        }
        return all(
            (pattern, size) in done
            or bool(skipped & {(pattern, size), (pattern, None), (None, None)})
            or (pattern in begun and not died)
            for pattern in self.resolved.patterns
            for size in self.resolved.sizes
        )


def _what_follows(again: Sequence[Sequence[str]]) -> str:
    if len(again) > 1:
        return f"; the {len(again)} variants are measured one by one now, to see which it was"
    if again:
        return f"; going on with {len(again[0])} other variant{'s' if len(again[0]) > 1 else ''}"
    return ""


def worse(one: int, other: int) -> int:
    """The more serious of two exit codes. One that is none of ours is a failure."""
    return max((code if code in SEVERITY else FAILED for code in (one, other)), key=SEVERITY.index)
