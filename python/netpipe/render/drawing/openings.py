# SPDX-License-Identifier: Apache-2.0
"""What opening a library costs over the number of processes, the libraries overlaid."""

from __future__ import annotations

from collections.abc import Callable

from netpipe.reading.openings import Opening, Spread
from netpipe.render.drawing.picture import Axis, Line, NothingToDraw, Panel, Picture
from netpipe.render.drawing.scope import Scope
from netpipe.render.drawing.ticks import tick_text

BAND = "minimum and maximum of all launches"

Value = Callable[[Opening], Spread | None]
Values = dict[str, Value]  # by the name of their view; "": the only one


def opening_panel(
    scope: Scope, title: str, quantity: str, label: str, values: Values, scale: float
) -> list[Panel]:
    """A view for each of `values`, which times `scale` are in the unit of the quantity; without those of which nothing
    is known.
    """
    views = tuple(
        view
        for name, value in values.items()
        if (view := _view(scope, name, quantity, label, value, scale)) is not None
    )
    if not views:
        raise NothingToDraw("no library was opened to measure its cost; run netpipe memory")
    return [Panel(title, views)]


def _view(scope: Scope, name: str, quantity: str, label: str, value: Value, scale: float) -> Picture | None:
    lines: list[Line] = []
    for reading in scope.readings:
        by_variant: dict[str, list[tuple[int, Spread]]] = {}
        for opening in reading.openings:
            spread = value(opening)
            # What costs nothing has no place on a logarithmic axis.
            if (
                spread is not None
                and spread.low > 0
                and (not scope.variants or opening.variant in scope.variants)
            ):
                by_variant.setdefault(opening.variant, []).append((opening.ranks, spread))
        for variant, points in by_variant.items():
            low, y, high = (
                tuple(number * scale for number in of)
                for of in zip(*((s.low, s.value, s.high) for _, s in points), strict=True)
            )
            x = tuple(float(ranks) for ranks, _ in points)
            lines.append(
                Line(
                    label=scope.variant_label(reading, variant),
                    color=scope.color(variant),
                    dash=scope.dash_of_run(reading),
                    x=x,
                    y=y,
                    low=low,
                    high=high,
                    texts=tuple(map(_text, [quantity] * len(x), x, y, low, high)),
                )
            )
    if not lines:
        return None
    x_values = [at for line in lines for at in line.x]
    y_values = [at for line in lines for at in (*line.low, *line.high)]
    return Picture(
        label=name,
        x=Axis("number", "processes", True, min(x_values) / 1.2, max(x_values) * 1.2),
        y=Axis(quantity, label, True, min(y_values) / 1.5, max(y_values) * 1.5),
        lines=tuple(lines),
        band=BAND,
    )


def _text(quantity: str, x: float, y: float, low: float, high: float) -> str:
    value, least, most = (tick_text(quantity, number) for number in (y, low, high))
    return f"{x:g} processes: {value}" + (f" ({least} to {most}: {BAND})" if low != high else "")
