# SPDX-License-Identifier: Apache-2.0
"""The history: its runs, and how their numbers went."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from netpipe.render.terminal.rows import Rows, print_paragraph, spark
from netpipe.units import counted, digits, percent_text, size_text, time_text

if TYPE_CHECKING:
    from rich.console import Console

    from netpipe.history import Kept
    from netpipe.history.trends import Trend

ID_LETTERS = 8
SPARK_COLUMNS = 24


def print_runs(out: Console, runs: Sequence[Kept]) -> None:
    """The earliest first."""
    table = Rows(
        ("run", "right"), ("started", "right"), ("host", "right"), ("curves", "right"), ("command", "left")
    )
    for one in runs:
        table.add_row(one.id[:ID_LETTERS], when(one.started), one.host, str(one.curves), one.command)
    out.print(table)


def print_trends(out: Console, host: str, trends: Sequence[Trend]) -> None:
    """A row for each number, and a sentence for each change."""
    runs = max(len(one.moments) for one in trends)
    out.print(f"{host}, {counted(runs, 'run')}, the earliest on the left", style="bold")
    several = len({one.pattern for one in trends}) > 1
    table = Rows(
        ("variant", "name"), ("size", "right"), ("median", "right"), ("last", "right"), ("time", "left")
    )
    for one in trends:
        times = [moment.time_ns for moment in one.moments]
        table.add_row(
            _name(one, several),
            size_text(one.size_bytes),
            time_text(median(times)),
            time_text(times[-1]),
            spark(times, SPARK_COLUMNS),
        )
    out.print(table)
    out.print()
    some = [(one, change) for one in trends for change in one.changes]
    for one, change in some:
        since = when(one.moments[change.place].started)
        factor, how = (change.factor, "as long") if change.factor > 1 else (1 / change.factor, "as fast")
        text = f"{_name(one, several)} at {size_text(one.size_bytes)}: since {since} {digits(factor)} times {how}"
        print_paragraph(out, "·", "bold", f"{text}; by chance in {percent_text(change.chance)} of series")
    if not some:
        few = runs < 6
        print_paragraph(
            out, "·", "bold", "too few runs to see a change: it takes six" if few else "no change was seen"
        )


def when(started: str) -> str:
    """2026-11-23 16:54"""
    return started.replace("T", " ")[:16]


def _name(one: Trend, several: bool) -> str:
    return f"{one.variant} {one.pattern}" if several else one.variant
