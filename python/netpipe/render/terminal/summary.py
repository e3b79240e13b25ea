# SPDX-License-Identifier: Apache-2.0
"""What a run comes to, for a terminal: the summary, each layer's loss against the one below, what to distrust, and the
points of a curve. Rows are never wrapped: where the terminal is too narrow, words are cut and numbers stay.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from textwrap import fill
from typing import TYPE_CHECKING, TextIO

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.style import StyleType
from rich.table import Table
from rich.text import Text

from netpipe.reading.curves import Curve, curves
from netpipe.reading.loggp import loggp
from netpipe.reading.losses import Loss, SizeLoss, losses
from netpipe.reading.measures import Measured, measures_of, typical_sizes
from netpipe.reading.openings import openings
from netpipe.reading.summary import Summary, summarise
from netpipe.reading.sweeps import Family, families, number, setting_text
from netpipe.render.remarks import Remark, remarks
from netpipe.render.sentences import largest_losses, measured
from netpipe.render.units import (
    TIME_STEPS,
    UNKNOWN,
    digits,
    measure_text,
    percent_text,
    rate_text,
    size_text,
    time_text,
    times_text,
)

if TYPE_CHECKING:
    from netpipe.reading.estimate import Estimate
    from netpipe.records import Point, Run

UNBOUND_COLUMNS = 120  # of output that goes to a file or a pipe
MARKS = {
    "severe": ("✗", "bold red"),
    "warning": ("!", "yellow"),
    "note": ("·", "dim"),
    "wait": ("*", "dim"),
    "": ("→", "bold"),
}
SAME = "≈ same"  # no difference was seen
ROUGHLY = "~"  # before a value without an interval
SPARKS = "▁▂▃▄▅▆▇█"


def console(stream: TextIO | None = None) -> Console:
    """For this stream (standard output). NO_COLOR, FORCE_COLOR and COLUMNS are respected; where there is no terminal
    there are no colours (unless forced) and no narrow lines.
    """
    stream = stream or sys.stdout
    narrow = stream.isatty() or "COLUMNS" in os.environ
    return Console(file=stream, width=None if narrow else UNBOUND_COLUMNS, highlight=False, soft_wrap=False)


class Name:
    """Of a variant: in one line, or broken behind ':', ',' and '=' into as many as it takes."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(max(map(len, self._pieces())), len(self._text))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = [""]
        for piece in self._pieces():
            if lines[-1] and len(lines[-1]) + len(piece) > options.max_width:
                lines.append("")
            lines[-1] += piece
        yield line("\n".join(lines))

    def _pieces(self) -> list[str]:
        return re.findall(r"[^:,=]*[:,=]?", self._text)[:-1] or [""]


def line(text: str) -> Text:
    return Text(text, no_wrap=True, overflow="ellipsis")


class Rows(Table):
    """A table without lines. Columns are (header, kind): "right" are numbers and keep their width, "left" are words and
    are cut where there is no room, "name" goes on in the next line: its end is what tells two variants apart.
    """

    def __init__(self, *columns: tuple[str, str]) -> None:
        super().__init__(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        self._kinds = [kind for _, kind in columns]
        for header, kind in columns:
            # A column that may not wrap keeps its width; one that may gives way, and its text is cut.
            self.add_column(
                Text(header, no_wrap=True),
                justify="right" if kind == "right" else "left",
                no_wrap=kind == "right",
            )

    def add_row(
        self, *cells: RenderableType | None, style: StyleType | None = None, end_section: bool = False
    ) -> None:
        kept = [
            cell if not isinstance(cell, str) else Name(cell) if kind == "name" else line(cell)
            for kind, cell in zip(self._kinds, cells, strict=False)
        ]
        super().add_row(*kept, style=style, end_section=end_section)


def interval_text(estimate: Estimate | None) -> str:
    """Nanoseconds in one unit: "24.1 [23.9 24.3] µs"; without limits where there are none."""
    if estimate is None:
        return UNKNOWN
    step, unit = next(((s, u) for s, u in TIME_STEPS if abs(estimate.value) >= s), (1.0, "ns"))
    value, low, high = (digits(number / step) for number in (estimate.value, estimate.low, estimate.high))
    if estimate.low == estimate.high:
        return f"{value} {unit}"
    return f"{value} [{low} {high}] {unit}"


def spark(rates: Iterable[float | None], width: int) -> str:
    """Rates by rising size as bars, from nothing to the largest of them; blank where there is none yet."""
    values = list(rates)
    top = max((rate for rate in values if rate), default=0.0)
    if not top:
        return ""
    bars = []
    for bar in range(min(width, len(values))):
        start = bar * len(values) // min(width, len(values))
        stop = (bar + 1) * len(values) // min(width, len(values))
        best = max((rate for rate in values[start:stop] if rate is not None), default=None)
        bars.append(" " if best is None else SPARKS[min(7, int(best / top * 8))])
    return "".join(bars)


# ------------------------------------------------------------------------------------------------- the summary


def print_summary(out: Console, run: Run) -> None:
    """All that a run says on one screen."""
    found = curves(run)
    summaries = {(curve.variant, curve.pattern): summarise(curve) for curve in found}
    lost = losses(run)
    several = {pattern: family for family in families(run) for pattern in family.members}
    groups: dict[str, list[Curve]] = {}
    for curve in found:
        groups.setdefault(
            several[curve.pattern].name if curve.pattern in several else curve.pattern, []
        ).append(curve)
    for name, some in groups.items():
        family = several.get(some[0].pattern)
        # All modes of one variant below each other: what a setting does is read downwards.
        order = list(dict.fromkeys(curve.variant for curve in some))
        some.sort(key=lambda curve: order.index(curve.variant))
        below = [loss for loss in lost if loss.pattern in {curve.pattern for curve in some}]
        below.sort(key=lambda loss: order.index(loss.variant))
        beside = [measure for curve in some for measure in measures_of(curve)]
        rows = [(curve, summaries[curve.variant, curve.pattern]) for curve in some]
        out.print()
        out.print(curve_table(name, rows, unmoved(run), family))
        if below:
            out.print()
            out.print(loss_table(below, family))
        if beside:
            out.print()
            out.print(measure_table(beside, family))
    if models := loggp(run):
        from netpipe.render import loggp as of_loggp  # which needs this file

        out.print()
        out.print(of_loggp.terminal_table(models))
    if not found and (opened := openings(run)):
        from netpipe.render.openings import remark, terminal_table  # which needs this file

        out.print()
        out.print(terminal_table(opened))
        out.print()
        out.print(remark(opened), soft_wrap=True)
    elif not found:
        out.print(measured(run))
    largest = [("", sentence) for sentence in largest_losses(lost)]
    print_remarks(out, [*largest, *remarks(run, summaries.values(), lost)])


def unmoved(run: Run) -> set[str]:
    """Variants of the module that moves nothing: size over time is no rate there."""
    return {variant.variant for variant in run.variants if variant.module == "null"}


class _Named:
    """The first cells of a row: the variant, said once, and of several modes of a pattern what was set."""

    def __init__(self, family: Family | None) -> None:
        self._family = family
        self._said: str | None = None

    def columns(self, header: str) -> list[tuple[str, str]]:
        if self._family is None:
            return [(header, "name")]
        values = [value for of in self._family.members.values() for value in of.values()]
        numbers = all(number(value) is not None for value in values)
        alone = self._family.options[0] if len(self._family.options) == 1 else "with"
        return [(header, "name"), (alone, "right" if numbers and alone != "with" else "name")]

    def cells(self, variant: str, pattern: str) -> list[str]:
        if self._family is None:
            return [variant]
        repeated, self._said = self._said == variant, variant
        values = self._family.members[pattern].values()
        setting = next(iter(values)) if len(values) == 1 else setting_text(self._family, pattern)
        return ["" if repeated else variant, setting]


def curve_table(
    pattern: str, rows: list[tuple[Curve, Summary]], no_rate: set[str], family: Family | None = None
) -> Rows:
    sizes = {summary.latency_size_bytes for _, summary in rows if summary.latency_size_bytes}
    small = f"{size_text(sizes.pop())}" if len(sizes) == 1 else "small"
    named = _Named(family)
    made = Rows(
        *named.columns(pattern),
        (f"time for {small}", "right"),
        ("peak", "right"),
        ("at", "right"),
        ("n½", "right"),
        ("points", "right"),
    )
    for curve, summary in rows:
        rated = curve.variant not in no_rate
        loose = summary.converged is not None and summary.converged < summary.points
        made.add_row(
            *named.cells(curve.variant, curve.pattern),
            interval_text(summary.latency_ns),
            rate_text(summary.peak_bytes_per_s.value) if rated and summary.peak_bytes_per_s else UNKNOWN,
            size_text(summary.peak_size_bytes) if rated else UNKNOWN,
            size_text(summary.half_size_bytes) if rated else UNKNOWN,
            Text(
                f"{summary.points if summary.converged is None else summary.converged}/{summary.points}",
                style="yellow" if loose else "",
            ),
        )
    return made


def loss_table(rows: list[Loss], family: Family | None = None) -> Rows:
    sizes = {loss.small.size_bytes for loss in rows if loss.small}
    small = size_text(sizes.pop()) if len(sizes) == 1 else "small"
    named = _Named(family)
    made = Rows(
        *named.columns("loss of"),
        ("against", "name"),
        (f"{small} takes", "right"),
        ("more by", "right"),
        ("of peak", "right"),
        ("it adds", "left"),
    )
    for loss in rows:
        kept = UNKNOWN
        if loss.peak is not None:
            kept = _compared(loss.peak.kept, percent_text(loss.peak.kept.value))
        made.add_row(
            *named.cells(loss.variant, loss.pattern),
            loss.below + ("*" if loss.waits else ""),
            _times(loss.small),
            _added(loss.small),
            kept,
            loss.adds or "",
        )
    return made


def measure_table(rows: list[Measured], family: Family | None = None) -> Rows:
    """What a pattern says beside the time, at the few sizes that stand for all."""
    sizes = typical_sizes(size for measure in rows for size in measure.values)
    named = _Named(family)
    made = Rows(
        *named.columns("beside it"), ("median of", "left"), *((size_text(size), "right") for size in sizes)
    )
    said: tuple[str, str] | None = None
    for measure in rows:
        curve = (measure.variant, measure.pattern)
        cells = named.cells(*curve)
        made.add_row(
            *(cells if curve != said else [""] * len(cells)),
            measure.name,
            *(_measured(measure.values.get(size), measure.unit) for size in sizes),
        )
        said = curve
    return made


def _measured(value: Estimate | None, unit: str) -> str:
    if value is None:
        return UNKNOWN
    return ("" if value.known else ROUGHLY) + measure_text(value.value, unit)


def _times(small: SizeLoss | None) -> str:
    if small is None:
        return UNKNOWN
    times = small.times
    return _compared(times, f"{times_text(times.value)} [{digits(times.low)} {digits(times.high)}]")


def _added(small: SizeLoss | None) -> str:
    if small is None or (small.times.known and not small.seen):
        return UNKNOWN
    return ("" if small.times.known else ROUGHLY) + time_text(small.added_ns.value)


def _compared(ratio: Estimate, text: str) -> str:
    """`text` where a difference was seen; where too few samples leave nothing to see, the value with a mark."""
    if not ratio.known:
        return ROUGHLY + text.partition(" [")[0]
    return SAME if ratio.covers(1) else text


def print_remarks(out: Console, found: list[Remark]) -> None:
    if found:
        out.print()
    for severity, sentence in found:
        mark, style = MARKS[severity]
        lines = fill(f"{mark} {sentence}", out.width, subsequent_indent="  ", break_on_hyphens=False)
        text = Text(lines)
        text.stylize("dim" if severity in ("note", "wait") else "")
        text.stylize(style, 0, len(mark))
        out.print(text, soft_wrap=True)


# -------------------------------------------------------------------------------------------- points of a curve


def point_table(curve: Curve) -> Rows:
    made = Rows(
        (curve.variant, "right"),
        ("median", "right"),
        ("±", "right"),
        ("rate", "right"),
        ("min", "right"),
        ("p99", "right"),
        ("n", "right"),
        ("", "left"),
    )
    for spot in curve.spots:
        for point in spot.points:
            made.add_row(
                size_text(point.size_bytes),
                time_text(point.median_ns),
                percent_text(point.half_width),
                rate_text(point.bytes_per_s),
                time_text(point.min_ns),
                time_text(point.p99_ns),
                UNKNOWN if point.samples is None else str(point.samples),
                Text(
                    _flags(point, len(spot.points) > 1), style="yellow" if point.converged is False else "dim"
                ),
            )
    return made


def _flags(point: Point, several: bool) -> str:
    words = [f"launch {point.launch}"] if several else []
    if point.converged is False:
        words.append(f"not converged ({point.stop})" if point.stop else "not converged")
    if point.state:
        words.append(f"state {point.state}")
    if point.verified_bytes:
        words.append("verified")
    return ", ".join(words)
