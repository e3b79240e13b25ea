# SPDX-License-Identifier: Apache-2.0
"""What a run comes to, for a terminal: the summary, each layer's loss against the one below, what to distrust, and the
points of a curve. Rows are never wrapped: where the terminal is too narrow, words are cut and numbers stay.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from netpipe.analysis.curves import Curve, curves
from netpipe.analysis.floor import NOTABLE, Floor, floors
from netpipe.analysis.launches import launches
from netpipe.analysis.losses import Loss, SizeLoss, losses
from netpipe.analysis.states import states
from netpipe.analysis.summary import Summary, summarise
from netpipe.render.sentences import Doubt, doubts, largest_losses, launch_sentence, measured
from netpipe.render.units import (
    TIME_STEPS,
    UNKNOWN,
    digits,
    percent_text,
    rate_text,
    size_text,
    time_text,
    times_text,
)

if TYPE_CHECKING:
    from netpipe.analysis.estimate import Estimate
    from netpipe.records import Point, Run

UNBOUND_COLUMNS = 120  # of output that goes to a file or a pipe
SEVERITY_STYLE = {"severe": "bold red", "warning": "yellow", "note": "dim"}
SPARKS = "▁▂▃▄▅▆▇█"


def console(stream: TextIO | None = None) -> Console:
    """For this stream (standard output). NO_COLOR, FORCE_COLOR and COLUMNS are respected; where there is no terminal there
    are no colours (unless forced) and no narrow lines.
    """
    stream = stream or sys.stdout
    narrow = stream.isatty() or "COLUMNS" in os.environ
    return Console(file=stream, width=None if narrow else UNBOUND_COLUMNS, highlight=False, soft_wrap=False)


def table(*columns: tuple[str, str], expand: bool = False) -> Table:
    """Columns as (header, kind): "left" may be cut, "right" are numbers and may not."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", expand=expand)
    for header, kind in columns:
        numbers = kind == "right"
        made.add_column(
            header, justify="right" if numbers else "left", no_wrap=True, overflow="crop" if numbers else "ellipsis"
        )
    return made


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
    summaries = tuple(summarise(curve) for curve in found)
    lost = losses(run)
    if found:
        for pattern in dict.fromkeys(curve.pattern for curve in found):
            of_pattern = [(c, s) for c, s in zip(found, summaries, strict=True) if c.pattern == pattern]
            out.print()
            out.print(curve_table(pattern, of_pattern, unmoved(run)), no_wrap=True, crop=True)
            below = [loss for loss in lost if loss.pattern == pattern]
            if below:
                out.print()
                out.print(loss_table(pattern, below), no_wrap=True, crop=True)
        for sentence in largest_losses(lost):
            out.print()
            out.print(sentence)
    else:
        out.print(measured(run))
    remarks(out, run, doubts(run, summaries, lost, states(run)))


def unmoved(run: Run) -> set[str]:
    """Variants of the module that moves nothing: size over time is no rate there."""
    return {variant.variant for variant in run.variants if variant.module == "null"}


def curve_table(pattern: str, rows: list[tuple[Curve, Summary]], no_rate: set[str]) -> Table:
    sizes = {summary.latency_size_bytes for _, summary in rows if summary.latency_size_bytes}
    small = f"{size_text(sizes.pop())}" if len(sizes) == 1 else "small"
    made = table(
        (pattern, "left"),
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
            curve.variant,
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


def loss_table(pattern: str, rows: list[Loss]) -> Table:
    sizes = {loss.small.size_bytes for loss in rows if loss.small}
    small = size_text(sizes.pop()) if len(sizes) == 1 else "small"
    made = table(
        ("loss of", "left"),
        ("against", "left"),
        (f"{small} takes", "right"),
        ("more by", "right"),
        ("of peak", "right"),
        ("it adds", "left"),
    )
    for loss in rows:
        kept = UNKNOWN
        if loss.peak is not None:
            kept = ("" if loss.peak.seen else "≈ ") + percent_text(loss.peak.kept.value)
        made.add_row(
            loss.variant,
            loss.below + (" (waits otherwise)" if loss.waits else ""),
            _times(loss.small),
            time_text(loss.small.added_ns.value) if loss.small else UNKNOWN,
            kept,
            loss.adds or "",
        )
    return made


def _times(small: SizeLoss | None) -> str:
    if small is None:
        return UNKNOWN
    if not small.seen:
        return "≈ the same"
    times = small.times
    return f"{times_text(times.value)} [{digits(times.low)} {digits(times.high)}]"


def remarks(out: Console, run: Run, found: tuple[Doubt, ...]) -> None:
    """What to distrust and why, the harness floor, what was left out and what failed; a paragraph each."""
    lines: list[tuple[str, str]] = []
    for doubt in found:
        lines.append((doubt.severity, " ".join(filter(None, [f"{doubt.what}.", doubt.why, _remedy(doubt.fix)]))))
    lines += [("note", _floor_sentence(floor)) for floor in floors(run) if floor.to_bytes is not None]
    lines += [("note", launch_sentence(spread)) for spread in launches(run)]
    for skip in dict.fromkeys((s.variant, s.pattern, s.reason) for s in run.skipped):
        lines.append(("note", f"Skipped: {skip[0]}{f' ({skip[1]})' if skip[1] else ''}: {skip[2]}."))
    for error in run.errors:
        where = f" at {size_text(error.size_bytes)}" if error.size_bytes else ""
        lines.append(("severe", f"Error: {error.variant or 'run'}{where}: {error.message}."))
    if lines:
        out.print()
    for severity, sentence in lines:
        mark = Text("! " if severity != "note" else "· ", style=SEVERITY_STYLE.get(severity, ""))
        grid = Table.grid()
        grid.add_row(mark, Text(sentence, style="dim" if severity == "note" else ""))
        out.print(grid)


def _floor_sentence(floor: Floor) -> str:
    return (
        f"{floor.variant} ({floor.pattern}): up to {size_text(floor.to_bytes)} more than {percent_text(NOTABLE)} of the time "
        f"is the harness itself ({time_text(floor.floor_ns)}), at most {percent_text(floor.share)}."
    )


def _remedy(fix: str) -> str:
    return f"Remedy: {fix}." if fix else ""


# -------------------------------------------------------------------------------------------- points of a curve


def point_table(curve: Curve) -> Table:
    made = table(
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
                Text(_flags(point, len(spot.points) > 1), style="yellow" if point.converged is False else "dim"),
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
