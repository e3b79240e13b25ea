# SPDX-License-Identifier: Apache-2.0
"""Findings on a terminal: in full for `netpipe doctor`, the most important in full and the others in brief below the
summary of a run. There each cause is said once, and notes are only named: `netpipe explain` has them in full.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import fill

from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from netpipe.findings import CURVES, MACHINE, NOTE, SEVERE, WARNING, Finding, most_important, rules
from netpipe.findings.experiments.outcomes import outcome_text
from netpipe.findings.precision import TARGET_MISSED
from netpipe.findings.trust import MEANWHILE
from netpipe.render.terminal.rows import print_paragraph
from netpipe.units import listed, sentence

MARKS = {SEVERE: ("✗", "bold red"), WARNING: ("!", "yellow"), NOTE: ("·", "dim")}
ANSWER = ("→", "bold")
# Not printed where that finding has said how far to trust the numbers.
OF_THE_SPREAD = {"launches-apart", "machine-changed"}
# Rules with one cause, of which the first says what there is to say.
SAID_BY = {"busy-processes": "load"}
OF_THE_WIDEST = {TARGET_MISSED, "launches-apart"}  # about all curves, with the widest as an example
# Notes that are said and not only named: what is missing, what explains the curves of another state, one bad rank.
SAID = {"not-measured", "launch-cut-off", "too-many-to-compare", "machine-changed", "slowest-rank"}
MOST_OF_A_RULE = 4  # in brief


def print_findings(out: Console, findings: Iterable[Finding], faint: bool = True) -> None:
    """Each with its title, its remedy on a line of its own. Notes are faint, unless told otherwise."""
    for found in findings:
        mark, style = MARKS[found.severity]
        lines = fill(
            f"{mark} {sentence(found.title)} {found.what}",
            out.width,
            subsequent_indent="  ",
            break_on_hyphens=False,
        )
        text = Text(lines, style="dim" if faint and found.severity == NOTE else "")
        text.stylize(style, 0, len(mark))
        text.stylize("bold", len(mark) + 1, len(mark) + 1 + len(found.title))
        out.print(text, soft_wrap=True)
        if found.remedy:
            print_remedy(out, found.remedy)


def print_remedy(out: Console, remedy: str) -> None:
    """What to do, indented below what it mends."""
    lines = fill(
        f"→ {remedy}", out.width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
    )
    out.print(Text(lines, style="cyan"), soft_wrap=True)


def print_important(out: Console, findings: Sequence[Finding], several_hosts: bool = False) -> None:
    """Of findings in order the most important, in full, each with its remedy, and the command that confirms it or what
    that came to.
    """
    for found in most_important(findings):
        host = f" ({found.host})." if several_hosts and found.host else ""
        whole = _with_others(found, findings)
        print_findings(out, [replace(whole, title=found.title + host)], faint=False)
        if found.outcome:
            print_paragraph(out, "  outcome:", "bold", outcome_text(found.outcome))
        elif found.experiment:
            print_paragraph(out, "  to confirm:", "dim", found.experiment)


def _with_others(found: Finding, findings: Iterable[Finding]) -> Finding:
    """With the other curves that have the same: one setting is mostly the cause of all of them."""
    if rules()[found.rule].about != CURVES:
        return found
    others = dict.fromkeys(
        one.variant for one in findings if one.rule == found.rule and one.variant != found.variant
    )
    also = f" Also found for {listed(filter(None, others))}." if any(others) else ""
    return replace(found, what=found.what + also)


def print_brief(
    out: Console, findings: Sequence[Finding], several_hosts: bool = False, told: str = ""
) -> None:
    """All others in their order: of a rule about curves the first, which names the other curves, and at most four of
    another rule; what disturbs the machine in one line, without what the sentence `told` has; and most notes by
    their titles. With several hosts, findings about one name it.
    """
    known = rules()
    important = most_important(findings)
    merged = {found.rule for found in important if known[found.rule].about == CURVES}
    wide = any(found.rule == TARGET_MISSED and found.severity != NOTE for found in findings)
    there = {found.rule for found in findings}
    kinds: dict[tuple[str, str], list[Finding]] = {}
    notes: list[Finding] = []
    for found in findings:
        rule = known[found.rule]
        if not rule.brief or found in important or found.rule in merged:
            continue
        if (wide and found.rule in OF_THE_SPREAD) or SAID_BY.get(found.rule) in there:
            continue
        if found.rule == "machine-changed" and "curves_in_states" not in found.evidence and MEANWHILE in told:
            continue
        if found.severity == NOTE and not rule.mark and not found.outcome and found.rule not in SAID:
            notes += [found] if rule.about != MACHINE else []
            continue
        if rule.about == CURVES and not rule.mark:
            merged.add(found.rule)
            found = _with_others(found, findings)
        machine = rule.about == MACHINE and found.severity != SEVERE
        named = f"{found.host}: {found.what}" if several_hosts and found.host else found.what
        kind = MACHINE if machine else found.rule
        kinds.setdefault((kind, found.severity), []).append(replace(found, what=named))
    for (kind, severity), several in kinds.items():
        if kind != MACHINE:
            _print_some(out, several, known[kind].mark)
        elif severity == WARNING:
            _print_machine(out, [found for found in several if found.title.lower() not in told])
    _print_notes(out, notes)


def _print_notes(out: Console, notes: Iterable[Finding]) -> None:
    """A dip (memcpy and tcp), launches differ: the titles, and the curves that each is about."""
    titles: dict[str, dict[str, None]] = {}
    for found in notes:
        variants = titles.setdefault(found.title, {})
        if found.variant and found.rule not in OF_THE_WIDEST:
            variants[found.variant] = None
    if titles:
        named = (
            f"{title[:1].lower()}{title[1:]}{f' ({listed(variants)})' if variants else ''}"
            for title, variants in titles.items()
        )
        print_paragraph(out, *MARKS[NOTE], f"More notes in netpipe explain: {'; '.join(named)}.", faint=True)


def _print_some(out: Console, several: Sequence[Finding], mark: str) -> None:
    """Findings of one rule and severity. Those with a mark of their own explain one in the tables above."""
    # For a single one more, a line that says so would be no shorter.
    most = MOST_OF_A_RULE if len(several) > MOST_OF_A_RULE + 1 and not mark else len(several)
    for found in several[:most]:
        if mark:
            print_paragraph(out, mark, "dim", found.what, faint=True)
        else:
            _print_one(out, found)
    if more := len(several) - most:
        severity = several[0].severity
        text = f"{more} more of this kind ({several[0].rule}): netpipe report shows them."
        print_paragraph(out, *MARKS[severity], text, faint=severity == NOTE)


def _print_one(out: Console, found: Finding) -> None:
    mark, style = MARKS[found.severity]
    remedy = f" Remedy: {found.remedy}." if found.remedy and found.severity != NOTE else ""
    outcome = f" {outcome_text(found.outcome)}" if found.outcome else ""
    print_paragraph(out, mark, style, found.what + remedy + outcome, faint=found.severity == NOTE)


def _print_machine(out: Console, findings: Iterable[Finding]) -> None:
    titles = dict.fromkeys(found.title.lower() for found in findings)
    if titles:
        text = (
            f"This machine disturbs measurements: {listed(titles)}. For details and remedies: netpipe doctor."
        )
        print_paragraph(out, *MARKS[WARNING], text)
