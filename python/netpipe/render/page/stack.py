# SPDX-License-Identifier: Apache-2.0
"""The stack of layers for the page: a tree with a waterfall of times and a bar of rates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netpipe.reading.blocks.chains import Bar
from netpipe.render.losses import added_text, kept_text
from netpipe.render.waterfall import standing
from netpipe.units import UNKNOWN, rate_text, size_text, time_text

if TYPE_CHECKING:
    from collections.abc import Collection

    from netpipe.reading.blocks.chains import Stack

WORDS = (
    "A bar ends at the time of its layer and is as long as what the layer adds, from pairs of visits; the line: its "
    "95 % interval; green: faster than the layer below; pale: not certain."
)
LEAST = 0.4  # percent of the width: what is there is seen


def stack_rows(stack: Stack, several: bool, first: Collection[tuple[str, str]]) -> dict[str, Any]:
    """What the template needs. Bars and their intervals are in percent of the longest. Of the rows those that the page
    begins with are the curves that it draws at first, and all layers that these stand on.
    """
    bars = [step.bar_ns for step in stack.steps]
    longest = stack.longest_ns or 1.0
    fastest = max((step.large_rate.value for step in stack.steps if step.large_rate), default=0.0) or 1.0
    rows = []
    for step, bar in zip(stack.steps, bars, strict=True):
        rate = step.large_rate.value if step.large_rate else 0.0
        rows.append(
            {
                "name": step.variant,
                "depth": step.depth,
                "words": (step.loss.adds or "") if step.loss else "",
                "time": time_text(step.small_ns.value) if step.small_ns else UNKNOWN,
                "adds": added_text(step.loss.small) if step.loss else "",
                **drawn(
                    bar, longest, step.loss is not None and not (step.loss.small and step.loss.small.seen)
                ),
                "large": rate_text(rate) if step.large_rate else UNKNOWN,
                "large_bar": drawn(Bar(0.0, rate, 0.0, 0.0), fastest, False),
                "keeps": kept_text(step.loss.large) if step.loss else "",
            }
        )
    return {
        "title": f"What each layer adds, {stack.pattern}" if several else "What each layer adds",
        "words": WORDS,
        "columns": ("layer", size_text(stack.small_bytes), "adds", size_text(stack.large_bytes), "keeps"),
        "bars": ("waterfall", "rate"),
        "rows": rows,
        "first": [row for row, kept in zip(rows, standing(stack, first), strict=True) if kept],
    }


def drawn(bar: Bar | None, longest: float, pale: bool) -> dict[str, Any]:
    """A bar and its interval, in percent of the longest. `pale`: it is not certain that it is there."""
    low, high = sorted((bar.begin, bar.end)) if bar else (0.0, 0.0)
    left = min(100 * low / longest, 100 - LEAST)
    return {
        "from": round(left, 2),
        "width": round(max(LEAST, 100 * high / longest - left), 2) if bar else 0,
        "whisker": _whisker(bar, longest),
        "less": bar is not None and bar.end < bar.begin,
        "pale": pale,
    }


def _whisker(bar: Bar | None, longest: float) -> tuple[float, float] | None:
    """From where to where; None without an interval."""
    if bar is None or bar.low >= bar.high:
        return None
    low, high = (round(min(100.0, 100 * limit / longest), 2) for limit in (bar.low, bar.high))
    return low, high
