# SPDX-License-Identifier: Apache-2.0
"""The panels of the report that belong to a pattern, under the name of the pattern with all its settings."""

from __future__ import annotations

from dataclasses import dataclass

from netpipe.reading.cells import slowest_of
from netpipe.records import Run
from netpipe.render.drawing.scope import Group, Member, Scope
from netpipe.render.page.plots import Placed, Plots
from netpipe.render.sentences import slowest_sentence


@dataclass(frozen=True, slots=True)
class Section:
    """One pattern, with all its settings."""

    name: str
    sentences: tuple[str, ...]
    panels: tuple[Placed, ...]


def sections(run: Run, drawn: Plots) -> tuple[Section, ...]:
    """In the order of the plan, without patterns that have no panel."""
    made = []
    for group in Scope((run,)).groups:
        placed = [place for panel, place in drawn.sections.get("patterns", []) if panel.pattern == group.name]
        if placed:
            sentences = [
                f"{_name(group, member)}: {slowest_sentence(slowest)}"
                for member in group.members
                for slowest in slowest_of(member.curve)[:1]
            ]
            made.append(Section(group.name, tuple(sentences), tuple(placed)))
    return tuple(made)


def _name(group: Group, member: Member) -> str:
    setting = group.setting(member.pattern)
    return f"{member.variant}, {setting}" if setting else member.variant
