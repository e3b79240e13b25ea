# SPDX-License-Identifier: Apache-2.0
"""Findings on a terminal: in full for `netpipe doctor`, in brief below the summary of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from textwrap import fill

from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from netpipe.findings import MACHINE, NOTE, SEVERE, WARNING, Finding, rules
from netpipe.render.terminal.rows import print_paragraph
from netpipe.units import listed, sentence

MARKS = {SEVERE: ("✗", "bold red"), WARNING: ("!", "yellow"), NOTE: ("·", "dim")}
ANSWER = ("→", "bold")
TARGET_MISSED = "target-missed"
# Not printed where that finding has said how far to trust the numbers.
OF_THE_SPREAD = {"launches-apart", "machine-changed"}
MOST_OF_A_RULE = 4  # in brief


def print_findings(out: Console, findings: Iterable[Finding]) -> None:
    """Each with its title, its remedy on a line of its own."""
    for found in findings:
        mark, style = MARKS[found.severity]
        lines = fill(
            f"{mark} {sentence(found.title)} {found.what}",
            out.width,
            subsequent_indent="  ",
            break_on_hyphens=False,
        )
        text = Text(lines, style="dim" if found.severity == NOTE else "")
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


def print_brief(out: Console, findings: Sequence[Finding], several_hosts: bool = False) -> None:
    """Below a summary: a paragraph each, at most four of a rule, and what disturbs the machine in one line. With
    several hosts, findings about one name it.
    """
    known = rules()
    shown = [found for found in findings if known[found.rule].brief]
    for found in shown:
        if mark := known[found.rule].mark:
            print_paragraph(out, mark, "dim", found.what, faint=True)
    if several_hosts:
        shown = [
            replace(found, what=f"{found.host}: {found.what}") if found.host else found for found in shown
        ]
    plain = [found for found in shown if not known[found.rule].mark]
    run = [found for found in plain if known[found.rule].about != MACHINE]
    machine = [found for found in plain if known[found.rule].about == MACHINE]
    _print_some(out, [found for found in (*run, *machine) if found.severity == SEVERE])
    _print_some(out, [found for found in run if found.severity == WARNING])
    _print_machine(out, [found for found in machine if found.severity == WARNING])
    wide = any(found.rule == TARGET_MISSED and found.severity != NOTE for found in run)
    notes = [found for found in run if found.severity == NOTE]
    _print_some(out, [found for found in notes if not (wide and found.rule in OF_THE_SPREAD)])


def _print_some(out: Console, findings: Sequence[Finding]) -> None:
    for (rule, severity), same in groupby(findings, lambda found: (found.rule, found.severity)):
        several = list(same)
        # For a single one more, a line that says so would be no shorter.
        kept = several[: MOST_OF_A_RULE if len(several) > MOST_OF_A_RULE + 1 else None]
        for found in kept:
            _print_one(out, found)
        if more := len(several) - len(kept):
            text = f"{more} more of this kind ({rule}): netpipe report shows them."
            print_paragraph(out, *MARKS[severity], text, faint=severity == NOTE)


def _print_one(out: Console, found: Finding) -> None:
    mark, style = MARKS[found.severity]
    remedy = f" Remedy: {found.remedy}." if found.remedy and found.severity != NOTE else ""
    print_paragraph(out, mark, style, found.what + remedy, faint=found.severity == NOTE)


def _print_machine(out: Console, findings: Iterable[Finding]) -> None:
    titles = dict.fromkeys(found.title.lower() for found in findings)
    if titles:
        text = (
            f"This machine disturbs measurements: {listed(titles)}. For details and remedies: netpipe doctor."
        )
        print_paragraph(out, *MARKS[WARNING], text)
