# SPDX-License-Identifier: Apache-2.0
"""The yardsticks over the run: how the machine was doing while it was measured, coloured by its state."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from netpipe.reading import Reading
from netpipe.records import Run, Yardstick
from netpipe.render.drawing.axes import value_axis
from netpipe.render.drawing.picture import Axis, Line, NothingToDraw, Panel, Picture
from netpipe.render.drawing.scope import Scope
from netpipe.render.figures import figure
from netpipe.units import rate_text, span_text, time_text

ALL_UP_TO = 4_000  # yardsticks: of more some are drawn
MOST_DRAWN = 1_000  # then; about as many as a screen has columns
ROWS: tuple[tuple[str, str, Callable[[Yardstick], float | None], Callable[[float], str]], ...] = (
    ("cache-line bounce", "time", lambda y: y.bounce_ns, time_text),
    ("memory copy", "rate", lambda y: y.copy_bytes_per_s, rate_text),
    ("wake-up", "time", lambda y: y.wakeup_ns, time_text),
    ("processor: a multiplication", "time", lambda y: y.multiply_ns, time_text),
)


@figure("the yardsticks of the machine over the time of the run", "machine", place=80)
def panels(scope: Scope) -> list[Panel]:
    panels = []
    for reading in scope.readings:
        taken = times(reading.run)
        views = tuple(view for row in ROWS if (view := _row(reading, taken, *row)) is not None)
        if views:
            panels.append(Panel(scope.variant_label(reading, title(reading.run)), views, stacked=True))
    if not panels:
        raise NothingToDraw("the run has no yardsticks")
    return panels


def title(run: Run) -> str:
    step = _step(run)
    return "Yardsticks over the run" + (f", one of {step}" if step > 1 else "")


def _step(run: Run) -> int:
    """Of so many yardsticks one is drawn."""
    number = len(run.yardsticks)
    return -(-number // MOST_DRAWN) if number > ALL_UP_TO else 1


def _row(
    reading: Reading,
    taken: Sequence[float],
    label: str,
    quantity: str,
    value: Callable[[Yardstick], float | None],
    text: Callable[[float], str],
) -> Picture | None:
    """One yardstick; grey between the points, which have the colour of the machine's state."""
    run, states = reading.run, reading.states
    found = [
        (at, number, states.number_of(y.launch, y.state))
        for at, y in zip(taken, run.yardsticks, strict=True)
        if (number := value(y)) is not None
    ][:: _step(run)]
    if not found:
        return None
    x, y, _ = (tuple(of) for of in zip(*found, strict=True))
    lines = [Line("", None, 0, x, y, y, y, faint=True)]
    for state in dict.fromkeys(state for _, _, state in found):
        here = [(at, number) for at, number, of in found if of == state]
        x, y = (tuple(of) for of in zip(*here, strict=True))
        name = "state not known" if state is None else f"state {state}"
        texts = tuple(f"{label}: {text(number)} at {span_text(at)}, {name}" for at, number in here)
        lines.append(Line(name, state or 0, 0, x, y, y, y, texts=texts, joined=False))
    end = max([0.1, *taken])
    axis = Axis("seconds", "time since the start of the run", False, -0.02 * end, 1.02 * end)
    return Picture(
        label,
        axis,
        value_axis(quantity, [number for _, number, _ in found], "", False),
        tuple(lines),
        band="",
    )


def times(run: Run) -> list[float]:
    """When each yardstick was taken, in seconds: launches one after the other on one axis."""
    last: dict[int, float] = {}
    for y in run.yardsticks:
        last[y.launch] = max(last.get(y.launch, -math.inf), y.at_s or 0.0)
    offset: dict[int, float] = {}
    end = 0.0
    for launch in sorted(last):
        offset[launch] = end
        end += last[launch]
    return [offset[y.launch] + (y.at_s or 0.0) for y in run.yardsticks]
