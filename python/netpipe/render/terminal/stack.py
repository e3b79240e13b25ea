# SPDX-License-Identifier: Apache-2.0
"""The stack of layers as a tree with a waterfall: what each adds for a small message, and keeps for a large one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.measure import Measurement
from rich.text import Text

from netpipe.render.losses import added_text, kept_text
from netpipe.render.terminal.rows import GAP, WIDEST, Rows, print_paragraph
from netpipe.units import UNKNOWN, rate_text, size_text, time_text

if TYPE_CHECKING:
    from rich.console import Console

    from netpipe.reading.blocks.chains import Bar, Stack, Step

EIGHTHS = " ▏▎▍▌▋▊▉"
UNSURE = "▒"  # within the interval
MOST_COLUMNS, FEWEST_COLUMNS = 30, 6  # of a bar; where not even so many fit there is none


def print_stack(out: Console, stack: Stack, title: str) -> None:
    """Bars and the intervals of what is kept as far as there is room for them, bars first. Where there is not even room
    for the names there are no rates, which the table of curves has as peaks.
    """
    for interval in (True, False):
        bare = _table(stack, title, 0, interval=interval)
        room = out.width - Measurement.get(out, out.options.update(max_width=WIDEST), bare).maximum - GAP
        if room >= FEWEST_COLUMNS:
            out.print(_table(stack, title, min(room, MOST_COLUMNS), interval=interval))
            return
    if room < -GAP:
        out.print(_table(stack, title, 0, rates=False, interval=False))
        large = size_text(stack.large_bytes)
        print_paragraph(
            out, "·", "dim", f"Keeps: of the throughput of the layer below, at {large}.", faint=True
        )
        return
    out.print(bare)


def _table(stack: Stack, title: str, columns: int, rates: bool = True, interval: bool = True) -> Rows:
    small, large = size_text(stack.small_bytes), size_text(stack.large_bytes)
    table = Rows(
        (title, "left"),
        (small, "right"),
        ("adds", "right"),
        *([("", "left")] if columns else []),
        *([(large, "right")] if rates else []),
        ("keeps", "right"),
    )
    longest = stack.longest_ns
    for step in stack.steps:
        bar = step.bar_ns
        drawn = Text(
            waterfall(bar, longest, columns) if bar else "",
            style="green" if bar and bar.end < bar.begin else "cyan",
        )
        table.add_row(
            tree(step) + step.variant + ("*" if step.loss and step.loss.waits else ""),
            time_text(step.small_ns.value) if step.small_ns else UNKNOWN,
            added_text(step.loss.small) if step.loss else "",
            *([drawn] if columns else []),
            *([rate_text(step.large_rate.value) if step.large_rate else UNKNOWN] if rates else []),
            kept_text(step.loss.large, interval) if step.loss else "",
        )
    return table


def tree(step: Step) -> str:
    """The lines that lead to a layer."""
    if not step.branch:
        return ""
    before = "".join("  " if last else "│ " for last in step.branch[:-1])
    return before + ("└ " if step.branch[-1] else "├ ")


def waterfall(bar: Bar, longest: float, columns: int) -> str:
    """A bar on a scale from 0 to the longest time. What is there is always seen: an eighth of a column at least. Whole
    columns of its interval are shaded.
    """
    if longest <= 0 or columns <= 0:
        return ""
    low, high = sorted((bar.begin, bar.end))
    first = min(columns - 1, int(low / longest * columns))
    eighths = max(1, round((high / longest * columns - first) * 8))
    full, rest = divmod(min(eighths, 8 * (columns - first)), 8)
    text = " " * first + "█" * full + (EIGHTHS[rest] if rest else "")
    begin, end = (round(limit / longest * columns) for limit in (bar.low, bar.high))
    end = min(end, columns)
    return text[:begin].ljust(begin) + UNSURE * (end - begin) + text[end:] if begin < end else text
