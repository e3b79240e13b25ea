# SPDX-License-Identifier: Apache-2.0
"""What opening the libraries costs: a table for the terminal, one for the report, and the figures of memory and of
start-up time over the number of processes, the libraries laid over each other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from netpipe.reading.openings import Opening, Spread, openings
from netpipe.records import Run
from netpipe.render.figures.pictures import Axis, Line, NothingToDraw, Picture
from netpipe.render.page.tables import Column, Table
from netpipe.render.sentences import when, where
from netpipe.render.terminal.summary import Rows
from netpipe.render.units import SIZE_STEPS, TIME_STEPS, UNKNOWN, digits

BAND = "least and most of all launches"
_COLUMNS = (
    ("variant", "name"),
    ("ranks", "right"),
    ("memory of each", "right"),
    ("private", "right"),
    ("pinned", "right"),
    ("start-up", "right"),
    ("launcher", "right"),
    ("launches", "right"),
)
_Value = Callable[[Opening], "Spread | None"]
FIGURES: dict[str, tuple[str, str, str, _Value, float]] = {
    "memory": (
        "Memory of each process over the number of processes",
        "size",
        "resident memory",
        lambda opening: opening.resident_bytes,
        1.0,
    ),
    "startup": (
        "Start-up time over the number of processes",
        "time",
        "from the launch until all have talked to all",
        lambda opening: opening.start_s,
        1e9,
    ),
}


def terminal_table(found: Sequence[Opening]) -> Rows:
    made = Rows(*_COLUMNS)
    for cells in map(_cells, found):
        made.add_row(*cells)
    return made


def page_table(found: Sequence[Opening]) -> Table:
    return Table(
        tuple(Column(name, left=kind == "name") for name, kind in _COLUMNS),
        tuple(map(_cells, found)),
    )


def remark(found: Sequence[Opening]) -> str:
    """What the numbers are, and why some are missing."""
    words = (
        "Memory is what a process grew by when the library was opened and all ranks had talked to all; shared pages "
        "count in every process that has touched them, private ones no other process sees. The start-up ends when all "
        "have talked to all, the launcher's part of it when all processes are there. In brackets: the least and the "
        "most of all launches."
    )
    if any(opening.resident_bytes is None for opening in found):
        words += f" {UNKNOWN}: not known; ranks of a simulated machine are one process."
    return words


def picture(runs: Sequence[Run], figure: str, variants: Sequence[str], title: str | None) -> Picture:
    """`figure` is one of FIGURES. Raises NothingToDraw."""
    heading, quantity, label, value, scale = FIGURES[figure]
    lines: list[Line] = []
    colors: dict[str, int] = {}
    for number, run in enumerate(runs):
        by_variant: dict[str, list[tuple[int, Spread]]] = {}
        for opening in openings(run):
            spread = value(opening)
            # What costs nothing has no place on a logarithmic axis.
            if spread is not None and spread.low > 0 and (not variants or opening.variant in variants):
                by_variant.setdefault(opening.variant, []).append((opening.ranks, spread))
        for variant, points in by_variant.items():
            stem = f", {run.path.stem if run.path else f'run {number + 1}'}" if len(runs) > 1 else ""
            lines.append(
                Line(
                    label=variant + stem,
                    variant=variant,
                    pattern="",
                    color=colors.setdefault(variant, len(colors)),
                    dash=number,
                    size_bytes=(),
                    x=tuple(float(ranks) for ranks, _ in points),
                    y=tuple(spread.value * scale for _, spread in points),
                    low=tuple(spread.low * scale for _, spread in points),
                    high=tuple(spread.high * scale for _, spread in points),
                    hollow=(False,) * len(points),
                )
            )
    if not lines:
        raise NothingToDraw(
            "there is nothing to draw: no library was opened for its cost; netpipe memory does that"
        )
    x = [value for line in lines for value in line.x]
    y = [value for line in lines for value in (*line.low, *line.high)]
    return Picture(
        figure=figure,
        title=title or heading,
        subtitle="  ·  ".join(
            dict.fromkeys(part for run in runs for part in (where(run), when(run)) if part)
        ),
        x=Axis("number", "processes", True, min(x) / 1.2, max(x) * 1.2),
        y=Axis(quantity, label, True, min(y) / 1.5, max(y) * 1.5),
        band_on_x=False,
        lines=tuple(lines),
        bounds=(),
        beyond=(),
        band=BAND,
    )


def pictures(run: Run) -> list[Picture]:
    """Those of FIGURES that there is something for."""
    drawn = []
    for figure in FIGURES:
        with contextlib.suppress(NothingToDraw):
            drawn.append(picture([run], figure, (), None))
    return drawn


def _cells(opening: Opening) -> tuple[str, ...]:
    return (
        opening.variant,
        str(opening.ranks),
        _text(opening.resident_bytes, SIZE_STEPS, "B"),
        _text(_middle(opening.private_bytes), SIZE_STEPS, "B"),
        _text(_middle(opening.pinned_bytes), SIZE_STEPS, "B"),
        _text(opening.start_s, TIME_STEPS, "ns", 1e9),
        _text(_middle(opening.launcher_s), TIME_STEPS, "ns", 1e9),
        str(opening.launches),
    )


def _middle(spread: Spread | None) -> Spread | None:
    """Without what lies farthest: a part of a number whose range stands in the table already."""
    return None if spread is None else Spread(spread.value, spread.value, spread.value)


def _text(
    spread: Spread | None, steps: Sequence[tuple[float, str]], smallest: str, scale: float = 1.0
) -> str:
    """In the unit of the median: "14.9 [14.8 15.0] MiB"."""
    if spread is None:
        return UNKNOWN
    value, low, high = (number * scale for number in (spread.value, spread.low, spread.high))
    step, unit = next(((step, unit) for step, unit in steps if abs(value) >= step), (1.0, smallest))
    if low == high:
        return f"{digits(value / step)} {unit}"
    return f"{digits(value / step)} [{digits(low / step)} {digits(high / step)}] {unit}"
