# SPDX-License-Identifier: Apache-2.0
"""Findings at length, with what their experiments came to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from netpipe.findings.experiments.outcomes import outcome_text, withdrawn_text
from netpipe.render.terminal.findings import MARKS
from netpipe.render.terminal.rows import print_paragraph
from netpipe.units import counted, sentence

if TYPE_CHECKING:
    from rich.console import Console

    from netpipe.findings import Finding, Skipped


def print_explained(
    out: Console, found: Sequence[Finding], confirmed: bool, withdrawn: int, skipped: Sequence[Skipped]
) -> None:
    """The worst first. `confirmed`: the experiments have just been run, so what was withdrawn is shown, faint.
    `withdrawn` is how many are left out, and `skipped` are rules about curves: a line for each of the two.
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
        several = counted(len(skipped), "rule")
        text = f"{several} about curves could not judge this run: netpipe report and netpipe show --json say why."
        print_paragraph(out, "·", "dim", text)


def _print_one(out: Console, one: Finding) -> None:
    withdrawn = one.outcome is not None and one.outcome.outcome == "withdrawn"
    mark, style = MARKS[one.severity]
    print_paragraph(out, mark, style, f"{sentence(one.title)} {one.what}", faint=withdrawn)
    parts = [
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
