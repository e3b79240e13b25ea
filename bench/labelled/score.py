# SPDX-License-Identifier: Apache-2.0
"""What the rules found in a case, held against its labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from netpipe.findings import CURVES, MACHINE, Confirmed, Finding, judge, rules
from netpipe.findings.experiments.outcomes import outcome_text
from netpipe.reading import Reading
from netpipe.reading.blocks.steps import Step
from netpipe.records import Run

from .cases import BITES, LIMIT_BITES, Case, Labelled

NEAR = 1 / 16  # of an octave
# Rules about hosts that are provoked here. Others say what is true of this machine whatever is measured.
HOST_RULES = ("small-dev-shm", "full-dev-shm", "oversubscribed")
# And about the whole run: no rank of these runs is slower than the others. What other rules say of a run (`step`,
# `dip`, `several-modes`, the intervals) is a plain statement about its numbers, without a cause that could be wrong,
# and counts where a case expects it.
RUN_RULES = ("slowest-rank",)
NAMED = ("rule", "title", "variant", "pattern", "size_bytes", "host")  # what tells findings of a run apart
OUTCOMES = ("withdrawn", "undecided", "failed")  # of experiments that did not confirm what is there


@dataclass
class Score:
    hits: int = 0
    missed: list[str] = field(default_factory=list)
    false: list[str] = field(default_factory=list)
    not_bitten: list[str] = field(default_factory=list)  # provoked, and it cost nothing today
    located: list[bool] = field(default_factory=list)
    confirmed: int = 0  # by their experiments, of the causes that were found
    withdrawn: list[str] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    without: list[str] = field(default_factory=list)  # an experiment
    provoked: int = 0
    clean: int = 0
    noisy: int = 0

    @property
    def curves(self) -> int:
        return self.provoked + self.clean

    @property
    def precision(self) -> float:
        said = self.hits + len(self.false)
        return self.hits / said if said else math.nan

    @property
    def recall(self) -> float:
        there = self.hits + len(self.missed)
        return self.hits / there if there else math.nan

    def add(self, other: Score) -> None:
        for name in ("missed", "false", "not_bitten", "located", *OUTCOMES, "without"):
            getattr(self, name).extend(getattr(other, name))
        for name in ("hits", "confirmed", "provoked", "clean", "noisy"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


def graded() -> frozenset[str]:
    """The rules that count: all about curves, and some about hosts and runs."""
    about_curves = {one.id for one in rules().values() if one.about == CURVES}
    return frozenset({*about_curves, *HOST_RULES, *RUN_RULES})


def measured(case: Case, reading: Reading) -> Case:
    """The case with those of its curves that a run has: one that was thinned out (bench/thin.py) lacks some."""
    there = [one for one in case.curves if _in_run(_as_written(one, reading), reading)]
    return replace(case, curves=tuple(there))


def scored(case: Case, run: Run) -> Score:
    """One case. A curve that the run does not have is a miss of the measurement: RuntimeError."""
    reading = Reading(run)
    found = _counted(case, reading)
    known = rules()
    score = Score()
    for labelled in case.curves:
        curve = _as_written(labelled, reading)
        name = _in_run(curve, reading)
        if name is None:
            said = "; ".join(error.message for error in run.errors) or "no points"
            raise RuntimeError(f"{case.name}: {curve.variant} {curve.pattern} was not measured: {said}")
        if not _bites(curve, reading):
            score.not_bitten.append(f"{case.name}: {' '.join(name)}")
            continue
        own = _own(curve, found)
        _count(score, case, " ".join(name), curve.finds, own)
        if curve.limit_bytes is not None:
            _locate(score, case, curve, [one for one in own if one.rule in curve.finds], reading)
        score.provoked += bool(curve.finds or case.finds_host)
        score.clean += not (curve.finds or case.finds_host)
        score.noisy += bool(case.noise)
    of_host = [one for one in found if known[one.rule].about == MACHINE]
    _count(score, case, "the host", case.finds_host, of_host)
    return score


def right(case: Case, run: Run) -> list[Finding]:
    """The findings of a run that name what is there, each once: their experiments have to confirm it. Without those of
    a curve that its cause cost nothing today, and of a threshold those that name it elsewhere.
    """
    reading = Reading(run)
    found = _counted(case, reading)
    steps = {(step.variant, step.pattern, step.above_bytes): step for step in reading.steps}
    named = []
    for labelled in case.curves:
        curve = _as_written(labelled, reading)
        if _in_run(curve, reading) is None or not _bites(curve, reading):
            continue
        own = [one for one in _own(curve, found) if one.rule in curve.finds and one not in named]
        if curve.limit_bytes is not None:
            own = [one for one in own if _where(steps, one, curve) is not None]
        named += own
    return named


def experiments(case: Case, found: Iterable[Finding], told: Iterable[Mapping[str, Any]]) -> Score:
    """What the experiments of these findings came to; `told`: what `netpipe explain --confirm --json` printed of their
    run. A finding that it does not have was not explained: RuntimeError.
    """
    score = Score()
    outcomes = {tuple(one[part] for part in NAMED): one["outcome"] for one in told}
    for one in found:
        key = tuple(getattr(one, part) for part in NAMED)
        if key not in outcomes:
            raise RuntimeError(f"{case.name}: netpipe explain has no {one.rule} of {one.variant}")
        name = f"{case.name}: {one.variant} {one.pattern or ''}: {one.rule}"
        outcome = outcomes[key] and msgspec.convert(outcomes[key], Confirmed)
        if outcome is None:
            score.without.append(name)
        elif outcome.outcome == "confirmed":
            score.confirmed += 1
        else:
            getattr(score, outcome.outcome).append(f"{name}: {outcome_text(outcome)}")
    return score


def _counted(case: Case, reading: Reading) -> list[Finding]:
    """What the rules that count said of a run, whatever experiments beside it came to."""
    counted = graded() | set(case.finds_host) | {rule for curve in case.curves for rule in curve.finds}
    judgement = judge(reading)
    return [one for one in (*judgement.findings, *judgement.withdrawn) if one.rule in counted]


def _own(curve: Labelled, found: Iterable[Finding]) -> list[Finding]:
    """Those about a curve that count there."""
    known = rules()
    return [
        one
        for one in found
        if known[one.rule].about != MACHINE and one.rule not in curve.allows and _about(one, curve)
    ]


def _as_written(curve: Labelled, reading: Reading) -> Labelled:
    """With its variants as the run writes them: settings in the order of the module's table."""
    written = {settings(variant): variant for variant, _ in reading.by_name}
    without = curve.without and written.get(settings(curve.without), curve.without)
    return replace(curve, variant=written.get(settings(curve.variant), curve.variant), without=without)


def settings(variant: str) -> tuple[str, frozenset[str]]:
    """The module of a variant and its settings, in whichever order they are written."""
    name, _, settings = variant.partition(":")
    return name, frozenset(settings.split(","))


def _in_run(curve: Labelled, reading: Reading) -> tuple[str, str] | None:
    """Its name in the run: a pattern may stand with its settings, where the label has none."""
    names = [name for name in reading.by_name if name[0] == curve.variant]
    plain = (name for name in names if name[1].partition(":")[0] == curve.pattern)
    return curve.name if curve.name in names else next(plain, None)


def _about(one: Finding, curve: Labelled) -> bool:
    """A finding without a pattern is about all curves of its variant."""
    same = one.pattern is None or curve.pattern in (one.pattern, one.pattern.partition(":")[0])
    return one.variant == curve.variant and same


def _bites(curve: Labelled, reading: Reading) -> bool:
    """Does the cause cost anything today? Judged by the plain medians, without the statistics of the rules."""
    if curve.without is None and curve.caused_by is None:
        return True
    ours = reading.by_name[curve.variant, curve.caused_by or curve.pattern].points
    without = reading.by_name[curve.without or curve.variant, curve.pattern].points
    theirs = {at.size_bytes: at.time_ns.value for at in without}
    if curve.limit_bytes is not None:
        above = (at for at in ours if at.size_bytes > curve.limit_bytes and at.size_bytes in theirs)
        first = min(above, key=lambda at: at.size_bytes, default=None)
        return first is None or first.time_ns.value > LIMIT_BITES * theirs[first.size_bytes]
    return any(at.time_ns.value > BITES * theirs[at.size_bytes] for at in ours if at.size_bytes in theirs)


def _count(score: Score, case: Case, name: str, wanted: Iterable[str], found: list[Finding]) -> None:
    said = {one.rule: one for one in found}
    for rule in wanted:
        if rule in said:
            score.hits += 1
        else:
            others = ", ".join(said) or "nothing"
            score.missed.append(f"{case.name}: {name}: no {rule}; said: {others}")
    for rule, one in said.items():
        if rule not in wanted and rule not in case.allows:
            score.false.append(f"{case.name}: {name}: {rule}: {one.what}")


def _locate(score: Score, case: Case, curve: Labelled, found: list[Finding], reading: Reading) -> None:
    """Whether one of the findings is at the threshold. Any that is elsewhere is false."""
    steps = {(step.variant, step.pattern, step.above_bytes): step for step in reading.steps}
    at = [0]
    for one in found:
        time = _where(steps, one, curve)
        if time is None:
            score.false.append(f"{case.name}: {one.variant}: {one.rule} elsewhere: {one.what}")
        else:
            at.append(time)
    score.located.append(1 in at)


def _where(steps: Mapping[tuple[str, str, int], Step], one: Finding, curve: Labelled) -> int | None:
    """The multiple of the curve's limit that a finding names; None: it is elsewhere."""
    step = steps.get((one.variant or "", one.pattern or "", one.size_bytes or 0))
    return _which(step, curve) if step is not None else None


def _which(step: Step, curve: Labelled) -> int | None:
    """The multiple of the limit (1: the limit) within a sixteenth of an octave of which the step lies; None: of none.
    Only limits that repeat, as that of a packet, have other multiples.
    """
    assert curve.limit_bytes is not None
    middle = math.sqrt(step.below_bytes * step.above_bytes)
    time = max(round(middle / curve.limit_bytes), 1) if curve.repeats else 1
    return time if abs(math.log2(middle / (time * curve.limit_bytes))) <= NEAR else None
