# SPDX-License-Identifier: Apache-2.0
"""What the scripts of the report draw, as plain data for JSON: the figures, the distribution at every size,
the yardsticks.

Numbers are rounded to five digits, far below what any interval is sure of, and distributions to so many
buckets that a report of any run stays small enough to be mailed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from netpipe.reading import Reading
from netpipe.reading.curves import CurvePoint
from netpipe.reading.losses import Loss
from netpipe.reading.measures import typical_sizes
from netpipe.records import Histogram
from netpipe.render.figures.pictures import FIGURES, Axis, Line, NothingToDraw, Picture, picture
from netpipe.render.figures.ticks import SCALE, tick_text, ticks
from netpipe.render.palette import DARK, DASHES, LIGHT, style
from netpipe.units import limits_text, percent_text, rate_text, share_text, size_text, time_text

HISTOGRAM_BYTES = 1_500_000  # of all distributions together, in JSON
BYTES_A_BUCKET = 14
MOST_BUCKETS, FEWEST_BUCKETS = 120, 16


def plots(reading: Reading) -> dict[str, Any]:
    """Everything that the page's script needs, as JSON takes it."""
    pictures: dict[str, Picture] = {}
    for figure in FIGURES:
        try:
            pictures[figure] = picture([reading], figure)
        except NothingToDraw:
            continue
    # Every curve has times; some patterns have no rate.
    lines = pictures["latency"].lines if "latency" in pictures else ()
    base = {pattern: settings.name for pattern, settings in reading.settings_of.items()}
    order = {(line.variant, line.pattern): place for place, line in enumerate(lines)}
    points = [reading.by_name[line.variant, line.pattern].points for line in lines]
    lost = {(loss.variant, loss.pattern): loss for loss in reading.losses}
    return {
        "palette": {"light": LIGHT, "dark": DARK},
        "curves": [_curve(line) | {"group": base.get(line.pattern, line.pattern)} for line in lines],
        "figures": {name: _figure(drawn, order) for name, drawn in pictures.items()},
        "hover": [{str(point.size_bytes): _hover(point) for point in curve} for curve in points],
        "lossHover": [_loss_texts(lost.get(key)) for key in order],
        "histograms": _histograms(reading, points),
        "yardsticks": _yardsticks(reading),
    }


def panel(drawn: Picture) -> dict[str, Any]:
    """A picture that is none of the classic figures, for the place among them that its section gives it."""

    def text(line: Line, place: int) -> str:
        value, low, high = (tick_text(drawn.y.quantity, of[place]) for of in (line.y, line.low, line.high))
        at = f"{tick_text(drawn.x.quantity, line.x[place])} {drawn.x.label}"
        return f"{at}: {value}" + (f" ({low} to {high}: {drawn.band})" if low != high else "")

    series = [
        _curve(line)
        | {
            "faint": False,
            "x": _scaled(line.x, drawn.x),
            "y": _scaled(line.y, drawn.y),
            "low": _scaled(line.low, drawn.y),
            "high": _scaled(line.high, drawn.y),
            "text": [text(line, place) for place in range(len(line.x))],
        }
        for line in drawn.lines
    ]
    view = {"label": "", "x": _axis(drawn.x), "y": _axis(drawn.y), "series": series}
    return {"title": drawn.title, "kind": "lines", "views": [view]}


def rounded(value: float) -> float:
    return float(f"{value:.5g}")


def _curve(line: Line) -> dict[str, Any]:
    color, dash = style(line.color, line.dash)
    # In the words of SVG; DASHES counts in line widths.
    pixels = ",".join(f"{2 * length:g}px" for length in DASHES[dash])
    return {"label": line.label, "color": color, "dash": pixels or "solid"}


def _figure(drawn: Picture, order: dict[tuple[str, str], int]) -> dict[str, Any]:
    band = drawn.x if drawn.band_on_x else drawn.y
    return {
        "x": _axis(drawn.x),
        "y": _axis(drawn.y),
        "bandOnX": drawn.band_on_x,
        "lines": [
            {
                "curve": order[line.variant, line.pattern],
                "size": line.size_bytes,
                "x": _scaled(line.x, drawn.x),
                "y": _scaled(line.y, drawn.y),
                "low": _scaled(line.low, band),
                "high": _scaled(line.high, band),
                "hollow": [place for place, ring in enumerate(line.hollow) if ring],
            }
            for line in drawn.lines
            if (line.variant, line.pattern) in order
        ],
        "bounds": [
            {
                "label": bound.label,
                "quantity": bound.quantity,
                "x": _scaled(bound.x, drawn.x),
                "y": _scaled(bound.y, drawn.y),
            }
            for bound in drawn.bounds
        ],
    }


def _axis(axis: Axis) -> dict[str, Any]:
    scale = SCALE[axis.quantity]
    return {
        "label": axis.label,
        "log": axis.log,
        "range": [rounded(axis.low * scale), rounded(axis.high * scale)],
        "ticks": [[rounded(value * scale), text] for value, text in ticks(axis)],
    }


def _scaled(values: Iterable[float], axis: Axis) -> list[float]:
    return [rounded(value * SCALE[axis.quantity]) for value in values]


def _hover(at: CurvePoint) -> list[str]:
    """The lines of the box beside a point."""
    time = at.time_ns
    lines = [f"{size_text(at.size_bytes)}: {time_text(time.value)}"]
    if time.known:
        lines.append(
            f"95 %: {limits_text(time.low, time.high, time_text)} (±{percent_text(time.half_width)})"
        )
    if at.rate_bytes_per_s is not None:
        lines.append(rate_text(at.rate_bytes_per_s.value))
    slow = [point.p99_ns for point in at.by_launch if point.p99_ns is not None]
    if slow:
        lines.append(f"p99 {time_text(max(slow))}")
    if at.converged is False:
        lines.append("not converged")
    return lines


def _loss_texts(loss: Loss | None) -> dict[str, list[str]]:
    texts = {}
    for size in loss.sizes if loss else ():
        texts[str(size.size_bytes)] = [
            f"{size_text(size.size_bytes)}: {share_text(size.kept.value)} kept",
            f"95 %: {limits_text(size.kept.low, size.kept.high, share_text)}"
            if size.times.known
            else "too few samples to compare",
            f"{time_text(size.added_ns.value)} added",
        ]
    return texts


# ------------------------------------------------------------------------------------------------
# distributions


def _histograms(reading: Reading, curves: Sequence[Sequence[CurvePoint]]) -> list[dict[str, Any]]:
    """By curve and size. Launches are not mixed: it is the launch whose median is the one shown, or nearest
    to it.
    """
    chosen = []
    for curve in curves:
        typical = typical_sizes(point.size_bytes for point in curve)
        chosen.append(
            {str(point.size_bytes): _shown(reading, point, point.size_bytes in typical) for point in curve}
        )
    number = sum(entry is not None for curve in chosen for entry in curve.values())
    most = HISTOGRAM_BYTES // BYTES_A_BUCKET // max(1, number)
    buckets = min(MOST_BUCKETS, max(FEWEST_BUCKETS, most))
    return [
        {size: entry | coarser(entry["of"], buckets) | {"of": None} for size, entry in curve.items() if entry}
        for curve in chosen
    ]


def _shown(reading: Reading, at: CurvePoint, typical: bool) -> dict[str, Any] | None:
    """At the typical sizes its modes are said too."""
    point = at.shown
    if point.histogram is None or not sum(point.histogram.count):
        return None
    marks = [
        ("median", point.median_ns),
        ("p90", point.p90_ns),
        ("p99", point.p99_ns),
        ("p99.9", point.p999_ns),
        ("p99.99", point.p9999_ns),
    ]
    found = reading.modes_of(point) if typical else ()
    return {
        "of": point.histogram,
        "what": "operations"
        if point.single
        else f"batches of {point.ops} operations"
        if point.ops
        else "batches",
        "launch": point.launch if len(at.by_launch) > 1 else None,
        "marks": [[name, rounded(value)] for name, value in marks if value is not None],
        "modes": [f"{time_text(mode.at_ns)} ({percent_text(mode.share)})" for mode in found]
        if len(found) > 1
        else [],
    }


def coarser(histogram: Histogram, most: int) -> dict[str, Any]:
    """The distribution in at most so many buckets of one width in log time: lower edges in ns, counts and the
    width as a factor.
    """
    edges = [edge for edge in histogram.low_ns if edge > 0]
    if not edges:
        return {"low": [], "count": [], "factor": 1.0}
    first, last = math.log(min(edges)), math.log(max(edges))
    width = max(
        math.log1p(histogram.resolution or 0.01), (last - first) / (most - 1) if most > 1 else math.inf
    )
    cells: dict[int, int] = {}
    for edge, count in zip(histogram.low_ns, histogram.count, strict=False):
        if edge > 0 and count > 0:
            cell = int((math.log(edge) - first) / width + 1e-9)
            cells[cell] = cells.get(cell, 0) + count
    places = sorted(cells)
    return {
        "low": [rounded(math.exp(first + place * width)) for place in places],
        "count": [cells[place] for place in places],
        "factor": math.exp(width),
    }


# ---------------------------------------------------------------------------------------------------
# yardsticks


def _yardsticks(reading: Reading) -> dict[str, Any]:
    """Launches one after the other on one time axis, in seconds."""
    run, states = reading.run, reading.states
    offset: dict[int, float] = {}
    end = 0.0
    for launch in sorted({yardstick.launch for yardstick in run.yardsticks}):
        offset[launch] = end
        end += max((y.at_s or 0.0 for y in run.yardsticks if y.launch == launch), default=0.0)
    return {
        "at": [rounded(offset[y.launch] + (y.at_s or 0.0)) for y in run.yardsticks],
        "state": [states.number_of(y.launch, y.state) for y in run.yardsticks],
        "bounce": [_or_null(y.bounce_ns) for y in run.yardsticks],
        "copy": [_or_null(y.copy_bytes_per_s, 8e-9) for y in run.yardsticks],
        "wakeup": [_or_null(y.wakeup_ns, 1e-3) for y in run.yardsticks],
        "launches": [rounded(at) for at in list(offset.values())[1:]],
    }


def _or_null(value: float | None, scale: float = 1.0) -> float | None:
    return None if value is None else rounded(value * scale)
