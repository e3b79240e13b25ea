# SPDX-License-Identifier: Apache-2.0
"""Progress for people, on standard error. On a terminal a table that is drawn anew between the passes and never
during one: there is no thread that would disturb the measurement. Elsewhere plain lines, not more than one in LINE_S.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING, Protocol

from netpipe.launch.events import Pass, Ready
from netpipe.render.units import percent_text, rate_text, span_text, time_text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from netpipe.launch.measure import Progress
    from netpipe.records import AnyRecord, Plan, Point
    from netpipe.render.terminal.summary import Rows

LINE_S = 2.0
SPARK_COLUMNS = 16
LATENCY_BYTES = 8


class Display(Protocol):
    def show(self, progress: Progress) -> None: ...
    def say(self, sentence: str) -> None: ...
    def close(self) -> None: ...


class Silent:
    """--quiet: what went wrong is all that is said."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def show(self, progress: Progress) -> None:
        if progress.note:
            self._say(progress.note)

    def say(self, sentence: str) -> None:
        pass

    def close(self) -> None:
        pass


class Lines:
    """Where there is no terminal."""

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._say = say
        self._clock = clock
        self._said_at: float | None = None

    def show(self, progress: Progress) -> None:
        if progress.note:
            self._say(progress.note)
        event = progress.event
        if isinstance(event, Ready):
            self._say(
                f"{event.variants} variants, {event.points} points, at most {span_text(event.budget_s)}"
            )
        elif isinstance(event, Pass) and (self._said_at is None or self._clock() - self._said_at >= LINE_S):
            self._said_at = self._clock()
            left = f", at most {span_text(event.left_s)} left" if event.left_s is not None else ""
            self._say(f"{event.done} of {event.total} points after {span_text(event.elapsed_s)}{left}")

    def say(self, sentence: str) -> None:
        self._say(sentence)

    def close(self) -> None:
        pass


class Estimates:
    """What is known of each size so far: its point, else the median of its samples, else the last of the warm-up."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, str, int], float] = {}
        self._samples: dict[tuple[str, str, int], list[float]] = {}
        self._medians: dict[tuple[str, str, int], float] = {}
        self.points: dict[tuple[str, str, int], Point] = {}

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

    def time_ns(self, key: tuple[str, str, int]) -> float | None:
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
        self._done: dict[tuple[str, str], set[int]] = {}
        self._no_rate: set[str] = set()
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True, vertical_overflow="ellipsis")
        self._live.start()

    def show(self, progress: Progress) -> None:
        from netpipe.reading.layers import is_idle
        from netpipe.records import Point, Variant

        for _, record in progress.lines:
            self._estimates.add(record)
            if isinstance(record, Point):
                self._done.setdefault((record.variant, record.pattern), set()).add(record.size_bytes)
            elif isinstance(record, Variant) and is_idle(record):
                self._no_rate.add(record.variant)
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

        parts: list[RenderableType] = [self._table(), ""]
        parts += self._machine(progress)
        parts.append(self._bar(progress))
        return Group(*parts)

    def _table(self) -> Rows:
        from netpipe.render.terminal.summary import Rows, spark

        sizes = self._plan.sizes
        small = LATENCY_BYTES if LATENCY_BYTES in sizes else min(sizes)
        several = len(self._plan.patterns) > 1
        made = Rows(
            ("", "name"),
            (f"time for {small} B", "right"),
            ("", "right"),
            ("best rate", "right"),
            ("points", "right"),
            ("", "left"),
        )
        for planned in self._plan.variants:
            for pattern in self._plan.patterns:
                curve = (planned.variant, pattern)
                times = [(size, self._estimates.time_ns((*curve, size))) for size in sizes]
                rates = [size / ns * 1e9 if ns else None for size, ns in times]
                best = max((rate for rate in rates if rate), default=None)
                point = self._estimates.points.get((*curve, small))
                half = point.half_width if point else None
                moved = planned.variant not in self._no_rate
                made.add_row(
                    f"{planned.variant} {pattern}" if several else planned.variant,
                    time_text(dict(times)[small]),
                    f"± {percent_text(half)}" if half is not None else "",
                    rate_text(best if moved else None),
                    f"{len(self._done.get(curve, ()))}/{len(sizes)}",
                    spark(rates, SPARK_COLUMNS) if moved else "",
                )
        return made

    def _machine(self, progress: Progress) -> list[RenderableType]:
        """That the machine changes under the run is said when it happens."""
        from rich.text import Text

        from netpipe.findings.machine_state import change_sentence
        from netpipe.reading.states import states

        seen = states(progress.run)
        if not seen.changes:
            return []
        text = Text(change_sentence(seen.changes[-1]), style="yellow", no_wrap=True, overflow="ellipsis")
        return [text]

    def _bar(self, progress: Progress) -> RenderableType:
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        event = progress.event
        grid = Table.grid(padding=(0, 1))
        grid.add_column(ratio=1)
        grid.add_column(no_wrap=True)
        grid.expand = True
        if isinstance(event, Pass):
            whole = event.elapsed_s + (event.left_s or 0)
            share = (
                event.elapsed_s / whole
                if event.left_s is not None and whole
                else event.done / max(1, event.total)
            )
            stage = f"pass {event.number + 1}" if event.number >= 0 else "finding speeds"
            words = f"{stage}, {event.done}/{event.total} points"
            if event.left_s is not None:
                words += f", at most {span_text(event.left_s)} left"
        else:
            share, words = 0.0, "opening"
        if progress.launch or progress.launches:
            words = f"launch {progress.launch + 1} of {progress.launch + 1 + progress.launches}, {words}"
        grid.add_row(ProgressBar(total=1.0, completed=share), words)
        return grid
