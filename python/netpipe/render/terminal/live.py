# SPDX-License-Identifier: Apache-2.0
"""Progress for people, on standard error. On a terminal it is a table that is drawn between the passes and never during
one: no thread disturbs the measurement. Elsewhere it is plain lines, at most one in LINE_S.

A point is *sampled* when it has at least one sample, and *settled* when it has reached the target, during a run and
after it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING, Protocol

from netpipe.events import Pass, Progress, Ready
from netpipe.units import capped_percent_text, counted, percent_text, rate_text, span_text, time_text
from netpipe.units import launch_text as nth_launch_text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from netpipe.records import AnyRecord, Plan, Point
    from netpipe.render.terminal.rows import Rows

LINE_S = 2.0
SPARK_COLUMNS = 16
WIDE_COLUMNS = 100  # from this width of the terminal on there is room for sparks
LATENCY_BYTES = 8

Key = tuple[str, str, int]  # variant, pattern, size in bytes


class Display(Protocol):
    def show(self, progress: Progress) -> None: ...
    def say(self, sentence: str) -> None: ...
    def close(self) -> None: ...


class Silent:
    """--quiet: only errors."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def show(self, progress: Progress) -> None:
        if progress.note:
            self._say(progress.note)

    def say(self, sentence: str) -> None:
        pass

    def close(self) -> None:
        pass


class Counts:
    """The points of one launch that are sampled, those that are settled, and how wide their intervals are."""

    def __init__(self) -> None:
        self._launch = -1
        self.sampled: set[Key] = set()
        self.settled: set[Key] = set()
        self._widths: dict[Key, float] = {}

    def add(self, progress: Progress) -> None:
        from netpipe.records import Point, Sample

        for _, record in progress.lines:
            if isinstance(record, (Sample, Point)):
                if record.launch != self._launch:
                    self._launch = record.launch
                    self.sampled.clear()
                    self.settled.clear()
                    self._widths.clear()
                key = (record.variant, record.pattern, record.size_bytes)
                self.sampled.add(key)
                if isinstance(record, Point):
                    if record.converged:
                        self.settled.add(key)
                    if record.half_width is not None:
                        self._widths[key] = record.half_width

    def text(self, total: int) -> str:
        """12 points: 10 sampled, 3 settled. `total`: those that are wanted. One that was sampled is a point too when it
        is wanted no longer, as a neighbour has told enough.
        """
        sampled = len(self.sampled)
        width = f", typical ± {capped_percent_text(median(self._widths.values()))}" if self._widths else ""
        return (
            f"{counted(max(total, sampled), 'point')}: {sampled} sampled, {len(self.settled)} settled{width}"
        )


def elapsed_text(event: Pass) -> str:
    """27 of about 41 s; once the budgets of all curves are spent 44 s, over the budget: slow sizes. These still take
    their first visits.
    """
    if event.left_s is None:
        return span_text(event.elapsed_s)
    elapsed = span_text(event.elapsed_s)
    if not event.left_s:
        return f"{elapsed}, over the budget: slow sizes" if event.done < event.total else elapsed
    whole = span_text(event.elapsed_s + event.left_s)
    number, _, unit = elapsed.rpartition(" ")
    return f"{number if whole.endswith(f' {unit}') and 'min' not in whole else elapsed} of about {whole}"


def launch_text(progress: Progress) -> str:
    """2nd of 4 launches"""
    return nth_launch_text(progress.launch + 1, progress.launch + 1 + progress.launches)


class Lines:
    """Where there is no terminal."""

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._say = say
        self._clock = clock
        self._said_at: float | None = None
        self._counts = Counts()

    def show(self, progress: Progress) -> None:
        self._counts.add(progress)
        if progress.note:
            self._say(progress.note)
        event = progress.event
        if isinstance(event, Ready) and event.variants:
            several = progress.launch or progress.launches
            launch = f"{launch_text(progress)}: " if several else ""
            self._say(
                f"{launch}{counted(event.variants, 'variant')}, {counted(event.points or 0, 'point')}, "
                f"about {span_text(event.budget_s)}"
            )
        elif (
            isinstance(event, Pass)
            and event.total
            and (self._said_at is None or self._clock() - self._said_at >= LINE_S)
        ):
            self._said_at = self._clock()
            self._say(f"{elapsed_text(event)}, {self._counts.text(event.total)}")

    def say(self, sentence: str) -> None:
        self._say(sentence)

    def close(self) -> None:
        pass


class Estimates:
    """The best known time of each size: its point, else the median of its samples, else the last warm-up sample."""

    def __init__(self) -> None:
        self._first: dict[Key, float] = {}
        self._samples: dict[Key, list[float]] = {}
        self._medians: dict[Key, float] = {}
        self.points: dict[Key, Point] = {}

    def add(self, record: AnyRecord) -> None:
        from netpipe.records import Point, Sample

        if isinstance(record, Sample) and record.ops:
            key = (record.variant, record.pattern, record.size_bytes)
            self._samples.setdefault(key, []).extend(ns / record.ops for ns in record.ns)
            if record.dropped_ns:
                self._first[key] = record.dropped_ns[-1] / record.ops
            self._medians.pop(key, None)
        elif isinstance(record, Point):
            self.points[record.variant, record.pattern, record.size_bytes] = record

    def time_ns(self, key: Key) -> float | None:
        point = self.points.get(key)
        if point is not None:
            return point.median_ns
        if key not in self._medians:
            samples = self._samples.get(key)
            if not samples:
                return self._first.get(key)
            self._medians[key] = median(samples)
        return self._medians[key]


class LiveTable:
    """On a terminal."""

    def __init__(self, console: Console, plan: Plan) -> None:
        from rich.live import Live

        self._plan = plan
        self._estimates = Estimates()
        self._counts = Counts()
        self._no_rate: set[str] = set()
        self._skipped: set[tuple[str, str]] = set()  # whole curves
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True, vertical_overflow="ellipsis")
        self._live.start()

    def show(self, progress: Progress) -> None:
        from netpipe.reading.layers import is_idle
        from netpipe.records import Skipped, Variant

        self._counts.add(progress)
        for _, record in progress.lines:
            self._estimates.add(record)
            if isinstance(record, Variant) and is_idle(record):
                self._no_rate.add(record.variant)
            elif isinstance(record, Skipped) and record.pattern and record.size_bytes is None:
                self._skipped.add((record.variant, record.pattern))
        if progress.note:
            self.say(progress.note)
        self._live.update(self._drawn(progress), refresh=True)

    def say(self, sentence: str) -> None:
        self._live.console.print(f"netpipe: {sentence}", markup=False, soft_wrap=True)

    def close(self) -> None:
        self._live.stop()

    # ------------------------------------------------------------------------------------------- inside

    def _drawn(self, progress: Progress) -> RenderableType:
        from rich.console import Group

        return Group(self._table(), "", *self._machine(progress), *self._bar(progress))

    def _table(self) -> Rows:
        from netpipe.render.terminal.summary import Rows, spark

        sizes = self._plan.sizes
        small = LATENCY_BYTES if LATENCY_BYTES in sizes else min(sizes)
        several = len(self._plan.patterns) > 1
        wide = self._console.width >= WIDE_COLUMNS
        made = Rows(
            ("", "name"),
            (f"time for {small} B", "right"),
            ("", "right"),
            ("best rate", "right"),
            ("sampled", "right"),
            ("settled", "right"),
            *([("", "left")] if wide else []),
        )
        for planned in self._plan.variants:
            for pattern in self._plan.patterns:
                curve = (planned.variant, pattern)
                if curve in self._skipped:
                    continue
                keys = [(*curve, size) for size in sizes]
                times = [self._estimates.time_ns(key) for key in keys]
                moved = planned.variant not in self._no_rate
                rates = [
                    size / ns * 1e9 if ns and moved else None for size, ns in zip(sizes, times, strict=True)
                ]
                point = self._estimates.points.get((*curve, small))
                half = point.half_width if point else None
                made.add_row(
                    f"{planned.variant} {pattern}" if several else planned.variant,
                    time_text(times[sizes.index(small)]),
                    f"± {percent_text(half)}" if half is not None else "",
                    rate_text(max((rate for rate in rates if rate), default=None)),
                    f"{len(self._counts.sampled.intersection(keys))}/{len(sizes)}",
                    str(len(self._counts.settled.intersection(keys))),
                    *([spark(rates, SPARK_COLUMNS) if moved else ""] if wide else []),
                )
        return made

    def _machine(self, progress: Progress) -> list[RenderableType]:
        """A change of the machine under the run is shown when it happens."""
        from rich.text import Text

        from netpipe.findings.machine_state import change_sentence
        from netpipe.reading.machine.states import states

        seen = states(progress.run)
        if not seen.changes:
            return []
        text = change_sentence(seen.changes[-1], seen.tolerances)
        return [Text(text, style="yellow", no_wrap=True, overflow="ellipsis")]

    def _bar(self, progress: Progress) -> list[RenderableType]:
        """The share of the time that has passed, and below it the points."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        event = progress.event
        share, words, below = 0.0, "opening", ""
        if isinstance(event, Pass):
            whole_s = event.elapsed_s + (event.left_s or 0)
            if event.left_s is not None and whole_s:
                share = event.elapsed_s / whole_s
            else:
                share = event.done / max(1, event.total)
            words = elapsed_text(event)
            stage = f"pass {event.number + 1}" if event.number >= 0 else "finding speeds"
            below = f"{stage}, {self._counts.text(event.total)}"
        if progress.launch or progress.launches:
            below = f"{launch_text(progress)}, {below}" if below else launch_text(progress)
        grid = Table.grid(padding=(0, 1), expand=True)
        grid.add_column(ratio=1)
        grid.add_column(no_wrap=True)
        grid.add_row(ProgressBar(total=1.0, completed=share), words)
        return [grid, Text(below, style="dim", no_wrap=True, overflow="ellipsis")]
