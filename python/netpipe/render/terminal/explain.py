# SPDX-License-Identifier: Apache-2.0
"""Findings at length, with what their experiments came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from netpipe.render.terminal.findings import MARKS
from netpipe.render.terminal.rows import print_paragraph
from netpipe.units import counted, digits, sentence

if TYPE_CHECKING:
    from rich.console import Console

    from netpipe.findings import Confirmed, Finding

WORDS = {
    "confirmed": "Confirmed",
    "withdrawn": "Withdrawn",
    "undecided": "Undecided",
    "failed": "The experiment failed",
}


def print_explained(
    out: Console, found: Sequence[Finding], outcomes: Mapping[int, Confirmed], confirmed: bool
) -> None:
    """The worst first; what was withdrawn is faint."""
    if not found:
        print_paragraph(out, "·", "bold", "nothing was found that costs time or makes a number doubtful")
        return
    for place, one in enumerate(found):
        outcome = outcomes.get(place)
        withdrawn = outcome is not None and outcome.outcome == "withdrawn"
        mark, style = MARKS[one.severity]
        print_paragraph(out, mark, style, f"{sentence(one.title)} {one.what}", faint=withdrawn)
        parts = [
            ("cause", one.cause),
            ("how sure", one.certainty),
            ("remedy", sentence(one.remedy) if one.remedy else ""),
        ]
        if outcome is not None:
            parts.append(("outcome", outcome_text(outcome)))
        elif one.experiment:
            parts.append(("to confirm", one.experiment))
        for name, text in parts:
            if text:
                print_paragraph(
                    out, f"  {name}:", "bold" if name == "outcome" else "dim", text, faint=withdrawn
                )
        out.print()
    if not confirmed and any(one.confirm for one in found):
        several = counted(sum(one.confirm is not None for one in found), "experiment")
        print_paragraph(out, "→", "bold", f"{several} can be run: netpipe explain --confirm")


def outcome_text(outcome: Confirmed) -> str:
    """Confirmed: 1.31 (1.29 to 1.33) times as fast with tcp:nodelay=yes at 4 KiB."""
    word = WORDS[outcome.outcome]
    if outcome.gain is None:
        return f"{word}: {outcome.reason}."
    gain = outcome.gain
    limits = f" ({digits(gain.low)} to {digits(gain.high)})" if gain.known else ""
    return f"{word}: {digits(gain.value)}{limits} times as fast with {outcome.remedied}; {outcome.path}."
