# SPDX-License-Identifier: Apache-2.0
"""Findings in the report: each with its evidence, cause and remedy; and the rules that could not judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from netpipe.findings import Finding, Judgement, Quantity, rules
from netpipe.units import limits_text, measure_text

MOST_OF_A_RULE = 12  # `netpipe show --json` has all
MOST_EVIDENCE = 40  # of a finding
KNOWN_UNITS = ("ns", "1", "1/s", "bytes/s", "bytes")


@dataclass(frozen=True, slots=True)
class Shown:
    """A finding as the template shows it."""

    finding: Finding
    host: str | None  # if the run has several
    evidence: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Section:
    findings: tuple[Shown, ...]
    more: tuple[tuple[str, int], ...]  # (title of a rule, findings left out)
    skipped: tuple[tuple[str, str], ...]  # (title of a rule, why it could not judge)


def section(judgement: Judgement, several_hosts: bool) -> Section:
    """At most MOST_OF_A_RULE findings of each rule."""
    seen: Counter[str] = Counter()
    shown = []
    for found in judgement.findings:
        seen[found.rule] += 1
        if seen[found.rule] <= MOST_OF_A_RULE:
            shown.append(Shown(found, found.host if several_hosts else None, _evidence(found.evidence)))
    known = rules()
    return Section(
        tuple(shown),
        tuple((known[rule].title, n - MOST_OF_A_RULE) for rule, n in seen.items() if n > MOST_OF_A_RULE),
        tuple((known[skipped.rule].title, skipped.reason) for skipped in judgement.skipped),
    )


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
