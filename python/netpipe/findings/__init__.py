# SPDX-License-Identifier: Apache-2.0
"""What a run shows that its reader should know: where, how large, how sure, why, and what to do.

A rule is one function in a file of this folder. It holds the condition with its thresholds and their source, the
sentences, and two made-up runs: one on which it fires, one on which it stays silent.

    @rule("rate-not-held", "Offered rate not held", needs=("points",))
    def judge(reading: Reading) -> Iterable[Finding]: ...

    def fires() -> Run: ...
    def silent() -> Run: ...

Nothing else changes when a rule is added: the terminal, the report and `netpipe show --json` show what it finds, and
tests/python/test_findings.py walks it. Rules about a host's facts are declared with `machine.machine_rule`.
docs/reference/findings.md lists all rules.

`netpipe.findings(run)` is the function of netpipe/notebook.py: this package has its name, so it can be called.
"""

from __future__ import annotations

import importlib
import pkgutil
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from netpipe.findings.experiments import Confirm as Confirm
from netpipe.findings.experiments import Confirmed as Confirmed
from netpipe.findings.experiments import outcomes, words
from netpipe.reading.estimate import Estimate

if TYPE_CHECKING:
    from netpipe.reading import Reading
    from netpipe.records import Run

# severe: the numbers mean something else than they seem to. warning: they are noisier, or different from those of the
# same hardware elsewhere. note: worth knowing when a number is explained.
SEVERE, WARNING, NOTE = "severe", "warning", "note"
SEVERITIES = (SEVERE, WARNING, NOTE)

RUN, CURVES, MACHINE = "run", "curves", "machine"  # what a rule is about

MOST_IMPORTANT = 3

# How sure a finding is when no statistics enter it.
AS_RECORDED = "Certain: it is in the record."


class Quantity(msgspec.Struct, frozen=True):
    """A number with its unit (ns, 1 for a ratio, 1/s, bytes, bytes/s, points, ...) and, if known, its 95 % interval."""

    value: float
    unit: str
    low: float | None = None
    high: float | None = None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One diagnosed fact. Empty texts and None: the rule has nothing to say there."""

    rule: str = ""  # rule and title are filled in by `judge`
    title: str = ""  # a few words
    severity: str  # of SEVERITIES
    variant: str | None = None  # what it is about; None: the whole run
    pattern: str | None = None
    size_bytes: int | None = None
    host: str | None = None
    what: str  # what was found, in sentences
    evidence: dict[str, Quantity] = {}
    certainty: str  # how sure that is, or why it is not known
    cause: str = ""  # why it is so, or why it matters
    remedy: str = ""  # a command, a setting or advice
    # How many times as fast a setting makes it at most, as the run shows it: beside the remedied variant, at the step,
    # or against the layer below. Findings are ordered by it.
    gain: Quantity | None = None
    # The command that confirms it; where there is `confirm`, filled in by `judge`.
    experiment: str | None = None
    confirm: Confirm | None = None  # the same for `netpipe explain --confirm`
    outcome: Confirmed | None = None  # what that came to, if it was run; filled in by `judge`


class Skipped(msgspec.Struct, frozen=True):
    """A rule that could not judge this run."""

    rule: str
    reason: str


class Judgement(msgspec.Struct, frozen=True):
    findings: tuple[Finding, ...]  # the most important first
    skipped: tuple[Skipped, ...]
    withdrawn: tuple[Finding, ...] = ()  # by their experiments, in the same order


class CannotJudge(Exception):  # noqa: N818  (it reads as what it says)
    """Raised by a rule that lacks something; the text says what."""


Judge = Callable[["Reading"], Iterable[Finding]]
Example = Callable[[], "Run"]


@dataclass(frozen=True, slots=True)
class Rule:
    id: str
    title: str
    needs: tuple[str, ...]  # of PARTS, or dotted facts for rules about the machine
    judge: Judge
    fires: Example
    silent: Example
    about: str = RUN
    brief: bool = True  # also in the summary on the terminal, where every line counts
    mark: str = ""  # on the terminal, instead of that of the severity


# Parts of a run that rules need: is it there, and what to say if not.
PARTS: Mapping[str, tuple[Callable[[Reading], Any], str]] = {
    "points": (lambda reading: reading.curves, "the run has no points"),
    "yardsticks": (lambda reading: reading.states.states, "the run has no yardsticks"),
    "launches": (lambda reading: reading.launch_spreads, "every curve was launched once"),
    "losses": (lambda reading: reading.losses, "no layer was measured together with one below it"),
    "idle": (lambda reading: reading.idle, "no idle module was measured (netpipe run null)"),
    "environment": (lambda reading: reading.run.environments, "the run has no environment records"),
    "header": (lambda reading: reading.run.header, "the run has no header"),
}

_rules: dict[str, Rule] = {}


def rule(
    id_: str,
    title: str,
    *,
    needs: tuple[str, ...] = (),
    about: str = RUN,
    brief: bool = True,
    mark: str = "",
) -> Callable[[Judge], Judge]:
    """Registers a rule. Its examples are the functions `fires` and `silent` of the same file."""

    def register(function: Judge) -> Judge:
        fires, silent = _example(function, "fires"), _example(function, "silent")
        add(Rule(id_, title, needs, function, fires, silent, about=about, brief=brief, mark=mark))
        return function

    return register


def _example(judge_: Judge, name: str) -> Example:
    """Looked up when it is called: the examples stand below the rule."""

    def made() -> Run:
        example: Example = vars(sys.modules[judge_.__module__])[name]
        return example()

    return made


def add(made: Rule) -> None:
    """Raises ValueError if two rules have the same id."""
    if made.id in _rules:
        raise ValueError(f"there are two rules '{made.id}'")
    _rules[made.id] = made


def rules() -> Mapping[str, Rule]:
    """All rules by id: every file of this folder is loaded once."""
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)
    return _rules


def judge(reading: Reading, about: str | None = None) -> Judgement:
    """What all rules, or those about one thing, find in a run, with what the experiments beside it came to."""
    findings: list[Finding] = []
    skipped: list[Skipped] = []
    for one in rules().values():
        if about not in (None, one.about):
            continue
        try:
            for need in one.needs:
                if need in PARTS and not PARTS[need][0](reading):
                    raise CannotJudge(PARTS[need][1])
            found = [_named(one, finding) for finding in one.judge(reading)]
        except CannotJudge as why:
            skipped.append(Skipped(one.id, str(why)))
            continue
        findings += found
    findings = _tried(reading, findings)
    findings.sort(key=lambda found: order(found, _rules[found.rule]))
    withdrawn = tuple(found for found in findings if found.outcome and found.outcome.outcome == "withdrawn")
    left = tuple(found for found in findings if found not in withdrawn)
    return Judgement(left, tuple(skipped), withdrawn)


def _named(one: Rule, finding: Finding) -> Finding:
    return msgspec.structs.replace(finding, rule=one.id, title=finding.title or one.title)


def _tried(reading: Reading, findings: list[Finding]) -> list[Finding]:
    """The findings with the commands of their experiments, and with what was measured by them."""
    if not any(found.confirm for found in findings):
        return findings
    runs = outcomes.beside(reading.run)
    told = []
    for found in findings:
        if found.confirm is not None:
            confirm = as_measured(reading, found.confirm)
            found = msgspec.structs.replace(found, experiment=words.command(confirm), confirm=confirm)
            found = with_outcome(found, outcomes.of(confirm, runs))
        told.append(found)
    return told


def as_measured(reading: Reading, confirm: Confirm) -> Confirm:
    """An experiment as its run was measured: with the hosts, the pinning and whatever else matters of its command."""
    kept = words.kept(reading.run.header.argv) if reading.run.header else []
    return msgspec.structs.replace(confirm, options=kept)


def with_outcome(found: Finding, outcome: Confirmed | None) -> Finding:
    """A finding with what its experiment came to. The gain of a confirmed one is the measured one."""
    if outcome is None:
        return found
    confirmed = outcome.outcome == "confirmed" and outcome.gain is not None
    gain = quantity(outcome.gain, "1") if confirmed and outcome.gain else found.gain
    return msgspec.structs.replace(found, outcome=outcome, gain=gain)


def order(found: Finding, rule: Rule) -> tuple[bool, float, int, bool, bool, str]:
    """Which findings matter most: what they are sorted by, for the terminal, the report and the JSON alike.

    First what is severe: the numbers mean something else than they seem to. Then what a setting gets back, by how much
    it certainly does: the lower end of the interval, so that a sure gain goes before one that is only large. Then the
    rest: warnings before notes, what has a remedy before what has none, the run before the machine. At last the rule,
    or the order would be that in which rules were loaded. docs/reference/findings.md says the same.
    """
    return (
        found.severity != SEVERE,
        -certain_gain(found),
        SEVERITIES.index(found.severity),
        not found.remedy,
        rule.about == MACHINE,
        rule.id,
    )


def certain_gain(found: Finding) -> float:
    """How many times as fast the remedy makes it at least; 1 where the run does not tell."""
    low = found.gain.low if found.gain else None
    return max(1.0, low or 1.0)


def most_important(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Of findings in order, at most three that are worth acting on: each has a remedy, and is severe, a warning about
    the run, or a note whose gain is certain. One for each rule: what mends it mostly mends the others of that rule too.
    Warnings about the machine are no part of a run's answer: one line names them, and `netpipe doctor` has them all.
    """
    chosen: dict[str, Finding] = {}
    for found in findings:
        if found.remedy and (found.severity == SEVERE or _acts(found)):
            chosen.setdefault(found.rule, found)
    return tuple(chosen.values())[:MOST_IMPORTANT]


def _acts(found: Finding) -> bool:
    rule = _rules.get(found.rule)
    of_the_run = rule is None or rule.about != MACHINE
    return (found.severity == WARNING and of_the_run) or certain_gain(found) > 1


def quantity(estimate: Estimate, unit: str) -> Quantity:
    """An estimate as evidence."""
    if not estimate.known:
        return Quantity(estimate.value, unit)
    return Quantity(estimate.value, unit, estimate.low, estimate.high)


def again(reading: Reading, *options: str) -> str | None:
    """The command that measures this run again, with an option (and its value) in place of what it had or besides; None
    if the record does not know it. It prints what it measures, and does not name the file of this run.
    """
    recorded = words.recorded(reading.run.header.argv) if reading.run.header else None
    if recorded is None:
        return None
    replaced = {option.removeprefix("--") for option in options[:1]}
    kept = words.without(recorded, {"output", "quiet"} | replaced)
    return shlex.join(["netpipe", "run", *kept, *options])


class _Callable(ModuleType):
    def __call__(self, run: object, kind: str = "found") -> object:
        return importlib.import_module("netpipe.notebook").findings(run, kind)


sys.modules[__name__].__class__ = _Callable
