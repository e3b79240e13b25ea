# SPDX-License-Identifier: Apache-2.0
"""Findings in the report: the most important, all others, each with its evidence, cause and remedy; and the rules that
could not judge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from netpipe.findings import Finding, Judgement, most_important, rules
from netpipe.findings.experiments.outcomes import outcome_text, withdrawn_text
from netpipe.render.evidence import evidence_texts
from netpipe.units import listed, size_text

MOST_OF_A_RULE = 12  # `netpipe show --json` has all
MOST_EVIDENCE = 40  # of a finding


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
        evidence = evidence_texts(found.evidence, MOST_EVIDENCE)
        return Shown(found, found.host if several_hosts else None, evidence, outcome, also)

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
