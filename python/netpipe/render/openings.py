# SPDX-License-Identifier: Apache-2.0
"""What opening the libraries costs: cells of a table for terminal and report, and the figures of memory and start-up
time over the number of processes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from netpipe.reading import Reading
from netpipe.reading.openings import Opening, Spread
from netpipe.render.figures.pictures import Axis, Line, NothingToDraw, Picture
from netpipe.render.words import when, where
from netpipe.units import SIZE_STEPS, TIME_STEPS, UNKNOWN, digits

BAND = "minimum and maximum of all launches"
COLUMNS = (
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


def remark(found: Sequence[Opening]) -> str:
    """What the numbers mean, and why some are missing."""
    words = (
        "Memory is the growth of a process after the library was opened and every rank had exchanged a message with "
        "every other. Shared pages count in every process that touched them; private pages belong to one process. The "
        "start-up ends with these messages, the launcher's part of it when all processes are there. In brackets: the "
        "minimum and maximum over all launches."
    )
    if any(opening.resident_bytes is None for opening in found):
        words += f" {UNKNOWN}: not known; the ranks of a simulated machine are one process."
    return words


def picture(readings: Sequence[Reading], figure: str, variants: Sequence[str], title: str | None) -> Picture:
    """`figure` is one of FIGURES. Raises NothingToDraw."""
    heading, quantity, label, value, scale = FIGURES[figure]
    lines: list[Line] = []
    colors: dict[str, int] = {}
    for number, reading in enumerate(readings):
        by_variant: dict[str, list[tuple[int, Spread]]] = {}
        for opening in reading.openings:
            spread = value(opening)
            # A cost of zero has no place on a logarithmic axis.
            if spread is not None and spread.low > 0 and (not variants or opening.variant in variants):
                by_variant.setdefault(opening.variant, []).append((opening.ranks, spread))
        for variant, points in by_variant.items():
            path = reading.run.path
            stem = f", {path.stem if path else f'run {number + 1}'}" if len(readings) > 1 else ""
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
            "there is nothing to draw: the cost of opening a library was not measured; netpipe memory does that"
        )
    x = [value for line in lines for value in line.x]
    y = [value for line in lines for value in (*line.low, *line.high)]
    return Picture(
        figure=figure,
        title=title or heading,
        subtitle="  ·  ".join(
            dict.fromkeys(
                part for reading in readings for part in (where(reading.run), when(reading.run)) if part
            )
        ),
        x=Axis("number", "processes", True, min(x) / 1.2, max(x) * 1.2),
        y=Axis(quantity, label, True, min(y) / 1.5, max(y) * 1.5),
        band_on_x=False,
        lines=tuple(lines),
        bounds=(),
        beyond=(),
        band=BAND,
    )


def pictures(reading: Reading) -> list[Picture]:
    """Those of FIGURES that this run has data for."""
    drawn = []
    for figure in FIGURES:
        with contextlib.suppress(NothingToDraw):
            drawn.append(picture([reading], figure, (), None))
    return drawn


def cells(opening: Opening) -> tuple[str, ...]:
    """A text for each of COLUMNS."""
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
    """Without the extremes: a part of a number whose range is in the table already."""
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
