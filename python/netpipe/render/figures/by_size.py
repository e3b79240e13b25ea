# SPDX-License-Identifier: Apache-2.0
"""Calls and bytes by the power of two to which the size of a message is rounded up."""

from __future__ import annotations

from netpipe.profiles.figures import MOVES
from netpipe.render.drawing.picture import NothingToDraw, Panel, Stack, Stacks
from netpipe.render.drawing.profiles import PARTS, amount_text, stacks
from netpipe.render.drawing.scope import Scope
from netpipe.render.figures import PROFILE, figure
from netpipe.units import size_text

NOTE = (
    "All ranks. A row holds sizes above half its limit. A message is two calls: a send, and a receive with its posted "
    "size."
)


@figure("calls and bytes by message size, all ranks together", "messages", place=50, needs=(PROFILE,))
def panels(scope: Scope) -> list[Panel]:
    found = scope.profiled.sizes
    if not found:
        raise NothingToDraw("no call moved data")
    names = [
        f"≤ {size_text(one.most_bytes)}" if one.most_bytes > 1 else size_text(one.most_bytes) for one in found
    ]

    def view(label: str, quantity: str, several: list[tuple[int, ...]]) -> Stacks:
        rows = [
            Stack(name, tuple(map(float, of)), (amount_text(quantity, sum(of)) if sum(of) else "",))
            for name, of in zip(names, several, strict=True)
        ]
        return stacks(quantity, label, "size", [PARTS[kind] for kind in MOVES], rows, ("",), label=label)

    calls, volumes = [one.calls for one in found], [one.bytes for one in found]
    views = (view("calls", "number", calls), view("bytes", "size", volumes))
    return [Panel("Calls and bytes by message size", views, note=NOTE)]
