# SPDX-License-Identifier: Apache-2.0
"""The panels of the report that belong to a pattern, under the name of the pattern with all its settings."""

from __future__ import annotations

from dataclasses import dataclass

from netpipe.reading import Reading
from netpipe.render.page.plots import Placed, Plots


@dataclass(frozen=True, slots=True)
class Section:
    """One pattern, with all its settings."""

    name: str
    panels: tuple[Placed, ...]


def sections(reading: Reading, drawn: Plots) -> tuple[Section, ...]:
    """In the order of the plan, without patterns that have no panel."""
    of: dict[str, list[Placed]] = {name: [] for name in reading.curves_by_pattern}
    for panel, placed in drawn.sections.get("patterns", []):
        of.setdefault(panel.pattern, []).append(placed)
    return tuple(Section(name, tuple(placed)) for name, placed in of.items() if placed)
