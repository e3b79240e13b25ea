# SPDX-License-Identifier: Apache-2.0
"""What each layer adds to the one below: for a small message in time, and for a large one in throughput kept. And what
collective operations add to messages.
"""

from __future__ import annotations

from netpipe.reading.blocks.chains import Stack
from netpipe.reading.sweeps import COLLECTIVE
from netpipe.render.collectives import At, Line, least_text, lines, messages_text, of_curves, title
from netpipe.render.drawing.picture import Bar, Bars, Panel
from netpipe.render.drawing.scope import Scope
from netpipe.render.figures import figure
from netpipe.render.losses import added_text, kept_text
from netpipe.render.waterfall import standing
from netpipe.units import capital, rate_text, size_text, time_text


# The report begins with the same, as a table with bars.
@figure("what each layer adds to the one below, for a small and for a large message", place=4, part_of="loss")
def panels(scope: Scope) -> list[Panel]:
    """The layers that were chosen and all that they stand on; then the collective operations that were chosen."""
    found = []
    for reading in scope.readings:
        chosen = {(one.variant, one.pattern) for one in scope.members if one.reading is reading}
        for stack in reading.stacks:
            kept = standing(stack, chosen)
            if any(of and step.depth > 0 for of, step in zip(kept, stack.steps, strict=True)):
                of_layers = (_times(stack, kept), _rates(stack, kept))
                name = scope.variant_label(reading, "What each layer adds")
                found.append(Panel(name, tuple(view for view in of_layers if view.rows), stack.pattern))
        if operations := of_curves(reading.collectives, chosen.__contains__):
            name = scope.variant_label(reading, capital(title(operations)))
            made = lines(operations)
            both = (
                _operations(operations[0].small_bytes, [(line, line.small) for line in made]),
                _operations(operations[0].large_bytes, [(line, line.large) for line in made]),
            )
            if views := tuple(view for view in both if any(bar.depth > 0 for bar in view.rows)):
                found.append(Panel(name, views, COLLECTIVE))
    if not found:
        raise scope.nothing("no two of the layers stand on each other")
    return found


def _operations(size_bytes: int | None, rows: list[tuple[Line, At]]) -> Bars:
    bars = []
    for line, at in rows:
        part = at.bar
        if part is None or at.time_ns is None:
            continue
        least = f", least {least_text(at.of)}" if at.of and at.of.least is not None else ""
        messages = f", {messages_text(at.of, 'width')} messages{least}" if at.of else ""
        reach = (part.low, part.high) if part.low < part.high else None
        text = f"{time_text(at.time_ns.value)}{messages}"
        bars.append(Bar(line.name, line.depth, part.begin, part.end, text, reach, at.pale))
    size = f"{size_text(size_bytes)}: " if size_bytes is not None else ""
    label = f"{size}time, and what an operation adds to a message"
    return Bars(label, "time", "time of one operation", tuple(bars))


def _times(stack: Stack, kept: list[bool]) -> Bars:
    rows = []
    for step, shown in zip(stack.steps, kept, strict=True):
        part = step.bar_ns
        if part is None or step.small_ns is None or not shown:
            continue
        small = step.loss.small if step.loss else None
        adds = f", {added_text(small)}" if small else ""
        reach = (part.low, part.high) if part.low < part.high else None
        pale = step.loss is not None and not (small and small.seen)
        text = f"{time_text(step.small_ns.value)}{adds}"
        rows.append(Bar(step.variant, step.depth, part.begin, part.end, text, reach, pale))
    size = size_text(stack.small_bytes) if stack.small_bytes is not None else ""
    return Bars(f"{size}: time, and what the layer adds", "time", "time of one operation", tuple(rows))


def _rates(stack: Stack, kept: list[bool]) -> Bars:
    rows = []
    for step, shown in zip(stack.steps, kept, strict=True):
        if step.large_rate is None or not shown:
            continue
        large = step.loss.large if step.loss else None
        keeps = f", {'keeps ' if large.seen else ''}{kept_text(large)}" if large else ""
        rate = step.large_rate
        reach = (rate.low, rate.high) if rate.known else None
        pale = step.loss is not None and not (large and large.seen)
        rows.append(
            Bar(step.variant, step.depth, 0.0, rate.value, f"{rate_text(rate.value)}{keeps}", reach, pale)
        )
    size = size_text(stack.large_bytes) if stack.large_bytes is not None else ""
    return Bars(
        f"{size}: throughput, and the share of the layer below that is kept",
        "rate",
        "throughput",
        tuple(rows),
    )
