# SPDX-License-Identifier: Apache-2.0
"""Figures of runs that leave no run file: kernels and fleets. Those of run files are the figures of `netpipe plot`."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from netpipe.cli.suite.parts import APPS, PAIRS

if TYPE_CHECKING:
    from netpipe.cli.suite.parts import Part
    from netpipe.cli.suite.runs.base import Done

OF_KIND = {APPS: ("times", "speedup"), PAIRS: ("pairs",)}  # what `figure` may be, by the kind of the run
LONGEST_TITLE = 76  # characters above a figure


def fitting(title: str) -> str:
    """As long as it fits above a figure: the captions of papers are sentences."""
    return textwrap.shorten(title, LONGEST_TITLE, placeholder=" …") if len(title) > LONGEST_TITLE else title


def write(part: Part, done: Done, target: Path) -> None:
    """Raises NothingToDraw or OSError."""
    from netpipe.render import figures
    from netpipe.render.drawing import fleet
    from netpipe.render.drawing.paper.draw import draw
    from netpipe.render.drawing.picture import NothingToDraw
    from netpipe.render.drawing.scope import Scope

    name = part.given["figure"]
    if name == "pairs":
        if done.fleet is None:
            raise NothingToDraw("no pair was measured")
        panels = fleet.pairs(part.name, done.fleet.members, done.fleet.pair_times())
        subtitle = f"{len(done.fleet.members)} members"
    else:
        rows = [row for row in done.rows or () if not part.variants or row.cell.kernel in part.variants]
        if not rows:
            raise NothingToDraw(f"none of the kernels {', '.join(part.variants) or 'of the run'} has run")
        scope = Scope((), kernels=tuple(rows))
        panels = figures.get(name).panels(scope)
        subtitle = f"here: {scope.subtitle}"  # the title is the paper's
    draw(panels, subtitle, target, part.given["file_format"], fitting(part.name))
