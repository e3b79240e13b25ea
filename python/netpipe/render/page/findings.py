# SPDX-License-Identifier: Apache-2.0
"""Findings in the report: the most important, all others, each with its evidence, cause and remedy; and the rules that
could not judge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from netpipe.findings import Finding, Judgement, Quantity, most_important, rules
from netpipe.findings.experiments.outcomes import outcome_text, withdrawn_text
from netpipe.units import limits_text, listed, measure_text, size_text

MOST_OF_A_RULE = 12  # `netpipe show --json` has all
MOST_EVIDENCE = 40  # of a finding
KNOWN_UNITS = ("ns", "1", "1/s", "bytes/s", "bytes")


@dataclass(frozen=True, slots=True)
class Shown:
    """A finding as the template shows it."""

    finding: Finding
    host: str | None  # if the run has several
    evidence: tuple[tuple[str, str], ...]
    outcome: str = ""  # of its experiment
    also: str = ""  # of one of the most important, what else its rule found something about

    @property
    def about(self) -> str:
        """ "tcp at 8 B": what tells it from others of its rule."""
        size = size_text(self.finding.size_bytes) if self.finding.size_bytes is not None else ""
        return " at ".join(filter(None, [self.finding.variant, size]))


@dataclass(frozen=True, slots=True)
class Section:
    important: tuple[Shown, ...]
    others: tuple[tuple[Shown, ...], ...]  # together, what has one cause
    more: tuple[tuple[str, int], ...]  # (title of a rule, findings left out)
    skipped: tuple[tuple[str, str], ...]  # (title of a rule, why it could not judge)
    withdrawn: str = ""  # how many findings

    @property
    def number(self) -> int:
        """Of other findings."""
        return sum(map(len, self.others)) + sum(left_out for _, left_out in self.more)


def section(judgement: Judgement, several_hosts: bool) -> Section:
    """The most important findings, and of the others at most MOST_OF_A_RULE of each rule. Each is in one of the two."""

    def shown(found: Finding, also: str = "") -> Shown:
        outcome = outcome_text(found.outcome) if found.outcome else ""
        return Shown(found, found.host if several_hosts else None, _evidence(found.evidence), outcome, also)

    important = most_important(judgement.findings)
    rest = [found for found in judgement.findings if found not in important]
    seen: Counter[str] = Counter()
    others: dict[tuple[str | None, ...], list[Shown]] = {}
    for found in rest:
        seen[found.rule] += 1
        if seen[found.rule] <= MOST_OF_A_RULE:
            one = shown(found)
            others.setdefault(_cause(one), []).append(one)
    known = rules()
    return Section(
        tuple(shown(found, _also(found, rest, several_hosts)) for found in important),
        tuple(map(tuple, others.values())),
        tuple((known[rule].title, n - MOST_OF_A_RULE) for rule, n in seen.items() if n > MOST_OF_A_RULE),
        tuple((known[skipped.rule].title, skipped.reason) for skipped in judgement.skipped),
        withdrawn_text(len(judgement.withdrawn)) if judgement.withdrawn else "",
    )


def _cause(shown: Shown) -> tuple[str | None, ...]:
    found = shown.finding
    return found.rule, found.title, found.severity, shown.host, found.cause, found.certainty


def _also(found: Finding, rest: Sequence[Finding], several_hosts: bool) -> str:
    """The variants or hosts of the other findings of its rule."""
    same = [one for one in rest if one.rule == found.rule]
    names = dict.fromkeys(one.variant or (one.host if several_hosts else None) for one in same)
    return listed(name for name in names if name and name != found.variant)


def _evidence(evidence: Mapping[str, Quantity]) -> tuple[tuple[str, str], ...]:
    texts = [
        (name.replace("_", " "), quantity_text(quantity))
        for name, quantity in islice(evidence.items(), MOST_EVIDENCE)
    ]
    more = len(evidence) - len(texts)
    return (*texts, *([("and", f"{more} more; netpipe show --json has all")] if more else []))


def quantity_text(quantity: Quantity) -> str:
    """ "1.02 µs (1.01 to 1.03 µs)"; counts without decimals."""

    def text(value: float) -> str:
        if quantity.unit in KNOWN_UNITS:
            return measure_text(value, quantity.unit)
        return f"{value:g} {quantity.unit}"

    if quantity.low is None or quantity.high is None or quantity.low == quantity.high:
        return text(quantity.value)
    return f"{text(quantity.value)} ({limits_text(quantity.low, quantity.high, text)})"
