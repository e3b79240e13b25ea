# SPDX-License-Identifier: Apache-2.0
"""Findings at length, with what their experiments came to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from netpipe.findings import Finding, Skipped, rules
from netpipe.findings.experiments.outcomes import outcome_text, withdrawn_text
from netpipe.render.evidence import evidence_texts
from netpipe.render.terminal.findings import MARKS
from netpipe.render.terminal.rows import print_paragraph
from netpipe.units import counted, sentence

if TYPE_CHECKING:
    from rich.console import Console

MOST_EVIDENCE = 8  # numbers of a finding


def print_explained(
    out: Console,
    found: Sequence[Finding],
    confirmed: bool,
    withdrawn: int,
    skipped: Sequence[Skipped],
    reasons: bool,
) -> None:
    """The worst first. `confirmed`: the experiments have just been run, so what was withdrawn is shown, faint.
    `withdrawn` is how many are left out: one line. `skipped` are rules that could not judge: one line, or with
    `reasons` one for each reason.
    """
    if not found:
        print_paragraph(out, "·", "bold", "nothing was found that costs time or makes a number doubtful")
    for one in found:
        _print_one(out, one)
    if not confirmed and any(one.confirm and not one.outcome for one in found):
        several = counted(sum(one.confirm is not None and one.outcome is None for one in found), "experiment")
        print_paragraph(out, "→", "bold", f"{several} can be run: netpipe explain --confirm")
    if withdrawn:
        print_paragraph(out, "·", "dim", withdrawn_text(withdrawn))
    if skipped:
        _print_skipped(out, skipped, reasons)


def _print_skipped(out: Console, skipped: Sequence[Skipped], reasons: bool) -> None:
    several = f"{counted(len(skipped), 'rule')} could not judge this run"
    if not reasons:
        print_paragraph(out, "·", "dim", f"{several}; netpipe explain --all says why.")
        return
    print_paragraph(out, "·", "dim", f"{several}:")
    titles: dict[str, list[str]] = {}
    for one in skipped:
        titles.setdefault(one.reason, []).append(rules()[one.rule].title)
    for reason, of in titles.items():
        print_paragraph(out, "  -", "dim", f"{reason}: {', '.join(of)}")


def _print_one(out: Console, one: Finding) -> None:
    withdrawn = one.outcome is not None and one.outcome.outcome == "withdrawn"
    mark, style = MARKS[one.severity]
    print_paragraph(out, mark, style, f"{sentence(one.title)} {one.what}", faint=withdrawn)
    numbers = "; ".join(
        text if text.endswith(f" {name}") else f"{name} {text}"  # 2 launches, and not: launches 2 launches
        for name, text in evidence_texts(one.evidence, MOST_EVIDENCE)
    )
    parts = [
        ("evidence", numbers),
        ("cause", one.cause),
        ("how sure", one.certainty),
        ("remedy", sentence(one.remedy) if one.remedy else ""),
    ]
    if one.outcome is not None:
        parts.append(("outcome", outcome_text(one.outcome)))
    elif one.experiment:
        parts.append(("to confirm", one.experiment))
    for name, text in parts:
        if text:
            print_paragraph(out, f"  {name}:", "bold" if name == "outcome" else "dim", text, faint=withdrawn)
    out.print()
