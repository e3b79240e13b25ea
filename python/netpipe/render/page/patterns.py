# SPDX-License-Identifier: Apache-2.0
"""What the report draws of each pattern beside the classic figures: its measures over size, its ranks and pairs as a
map, its settings laid over each other and, where a setting is a number, times over that number. All is data for JSON.

A panel is one figure. It has one view or several, from which its reader chooses: of a variant, or of a size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from netpipe.reading import Reading
from netpipe.reading.curves import Curve, CurvePoint
from netpipe.reading.estimate import Estimate, unsure
from netpipe.reading.measures import Measured, measures_of, typical_sizes
from netpipe.reading.sweeps import PatternSettings, Sweep, setting_text, sweeps
from netpipe.records import Cell, Point
from netpipe.render.figures.pictures import Axis
from netpipe.render.figures.ticks import SCALE, ticks
from netpipe.render.palette import DASHES, style
from netpipe.units import measure_text, percent_text, size_text, time_text, times_text

QUANTITY = {"ns": "time", "bytes/s": "rate", "1/s": "count"}
MOST_CELLS = 20_000  # of all maps together; beyond it only the typical sizes are there
MOST_VIEWS = 24  # of one figure: more nobody chooses from
WIDE = 100.0  # ratios and plain numbers that reach and span more than this are drawn on a logarithmic axis
LOG_VALUES = 16.0  # a setting whose values span more than this is drawn on a logarithmic axis


@dataclass(frozen=True, slots=True)
class Section:
    """Of one pattern, with all its settings."""

    name: str
    panels: tuple[tuple[int, str], ...]  # (place in the data, title)


@dataclass(frozen=True, slots=True)
class _Series:
    label: str
    color: int
    dash: int
    values: Sequence[tuple[float, Estimate]]  # (x, y)
    faint: bool = False  # a percentile beside the median


def sections(reading: Reading) -> tuple[tuple[Section, ...], list[dict[str, Any]]]:
    """The sections in the order of the plan, and the data of their panels."""
    panels: list[dict[str, Any]] = []
    found = [curve for curve in reading.curves if not reading.is_idle(curve.variant)]
    colors = {variant: place for place, variant in enumerate(dict.fromkeys(curve.variant for curve in found))}
    made = []
    for name, group in reading.curves_by_pattern.items():
        some = [curve for curve in group if not reading.is_idle(curve.variant)]
        if not some:
            continue
        settings = reading.settings_of.get(some[0].pattern)
        swept = sweeps(settings) if settings else ()
        ours = [
            *(_settings(settings, some) if settings else []),
            *(panel for sweep in swept for panel in _sweep(sweep, some, colors)),
            *_measures(some, colors, settings),
            *_maps(some, settings),
        ]
        if ours:
            made.append(
                Section(
                    name, tuple((len(panels) + place, str(one["title"])) for place, one in enumerate(ours))
                )
            )
            panels += ours
    return tuple(made), panels


def _name(curve: Curve, settings: PatternSettings | None) -> str:
    return f"{curve.variant}, {setting_text(settings, curve.pattern)}" if settings else curve.variant


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")


# ------------------------------------------------------------------------------------------------- lines


def _axis(
    quantity: str, values: Sequence[float], label: str, log: bool, at: Iterable[float] = ()
) -> dict[str, Any]:
    """Round all values; `at` are the only ticks where it names some."""
    low, high = min(values), max(values)
    if log:
        margin = max(1.12 if quantity == "size" else 1.3, (4 * low / high) ** 0.5)
        axis = Axis(quantity, label, True, low / margin, high * margin)
    else:
        span = (high - min(low, 0.0)) or abs(high) or 1.0
        axis = Axis(
            quantity, label, False, min(0.0, low - 0.05 * span) if low < 0 else 0.0, high + 0.06 * span
        )
    scale = SCALE[quantity]
    marks = [(value, f"{value:g}") for value in at] or ticks(axis)
    return {
        "label": label,
        "log": log,
        "range": [_rounded(axis.low * scale), _rounded(axis.high * scale)],
        "ticks": [[_rounded(value * scale), text] for value, text in marks],
    }


def _view(
    label: str, series: Sequence[_Series], x: dict[str, Any], quantity: str, unit: str, x_text: str = ""
) -> dict[str, Any]:
    """Lines with their intervals. Times are logarithmic; so are rates, which span as much."""
    values = [value for one in series for _, estimate in one.values for value in _limits(estimate)]
    wide = min(values) > 0 and max(values) > WIDE * max(1.0, min(values))
    log = (quantity in ("time", "rate", "count") and min(values) > 0) or wide
    scale = SCALE[quantity]
    drawn = []
    for one in series:
        color, dash = style(one.color, one.dash)
        pixels = ",".join(f"{2 * length:g}px" for length in DASHES[dash])
        drawn.append(
            {
                "label": one.label,
                "color": color,
                "dash": "1.5px,2.5px" if one.faint else pixels or "solid",
                "faint": one.faint,
                "x": [_rounded(at) for at, _ in one.values],
                "y": [_rounded(estimate.value * scale) for _, estimate in one.values],
                "low": [_rounded(_limits(estimate)[0] * scale) for _, estimate in one.values],
                "high": [_rounded(_limits(estimate)[1] * scale) for _, estimate in one.values],
                "text": [
                    f"{f'{x_text} {at:g}' if x_text else size_text(at)}: {_text(estimate, unit)}"
                    for at, estimate in one.values
                ],
            }
        )
    return {"label": label, "x": x, "y": _axis(quantity, values, "", log), "series": drawn}


def _limits(estimate: Estimate) -> tuple[float, float]:
    return (estimate.low, estimate.high) if estimate.known else (estimate.value, estimate.value)


def _text(estimate: Estimate, unit: str) -> str:
    text = measure_text(estimate.value, unit)
    if not estimate.known:
        return text
    return f"{text} (95 %: {measure_text(estimate.low, unit)} to {measure_text(estimate.high, unit)})"


def _sizes_axis(sizes: Iterable[float]) -> dict[str, Any]:
    return _axis("size", list(sizes), "message size", True)


def _measures(
    some: Sequence[Curve], colors: dict[str, int], settings: PatternSettings | None
) -> list[dict[str, Any]]:
    """One panel for each measure; of a pattern with several settings, one view for each."""
    found: dict[tuple[str, str], list[Measured]] = {}
    for curve in some:
        for measure in measures_of(curve):
            if any(size > 0 for size in measure.values):
                found.setdefault((measure.name, measure.unit), []).append(measure)
    panels = []
    for (name, unit), several in found.items():
        if not any(value.value for measure in several for value in measure.values.values()):
            continue  # clocks of one host differ by nothing, at any size
        views = []
        for pattern in list(dict.fromkeys(measure.pattern for measure in several))[:MOST_VIEWS]:
            series = [
                _Series(one.variant, colors[one.variant], 0, [(s, v) for s, v in one.values.items() if s > 0])
                for one in several
                if one.pattern == pattern
            ]
            x = _sizes_axis(at for one in series for at, _ in one.values)
            label = setting_text(settings, pattern) if settings else ""
            views.append(_view(label, series, x, QUANTITY.get(unit, "number"), unit))
        panels.append(
            {
                "title": f"{name} over message size",
                "kind": "lines",
                "views": views,
            }
        )
    return panels


def _settings(settings: PatternSettings, some: Sequence[Curve]) -> list[dict[str, Any]]:
    """All settings of the pattern laid over each other, throughput and time, a view for each variant."""
    panels = []
    order = {pattern: place for place, pattern in enumerate(settings.values)}
    for quantity, unit, title in (("rate", "bytes/s", "Throughput"), ("time", "ns", "Time")):
        views = []
        for variant in list(dict.fromkeys(curve.variant for curve in some))[:MOST_VIEWS]:
            series = []
            for curve in some:
                values = [
                    (point.size_bytes, _of(point, quantity)) for point in curve.points if point.size_bytes > 0
                ]
                known = [(float(size), value) for size, value in values if value is not None]
                if curve.variant == variant and known:
                    label = setting_text(settings, curve.pattern)
                    series.append(_Series(label, order[curve.pattern], 0, known))
            if series:
                x = _sizes_axis(at for one in series for at, _ in one.values)
                views.append(_view(variant, series, x, quantity, unit))
        if views:
            panels.append(
                {"title": f"{title} by {', '.join(settings.options)}", "kind": "lines", "views": views}
            )
    return panels


def _of(point: CurvePoint, quantity: str) -> Estimate | None:
    return point.rate_bytes_per_s if quantity == "rate" else point.time_ns


def _sweep(sweep: Sweep, some: Sequence[Curve], colors: dict[str, int]) -> list[dict[str, Any]]:
    """Over the value of a setting, a view for each of the typical sizes: the time, with p99 beside the median where
    known; and the time over that at the first value, which shows what is small beside what parts two layers.
    """
    of = {
        (curve.variant, curve.pattern): {point.size_bytes: point for point in curve.points} for curve in some
    }
    numbers = [value for value, _ in sweep.members]
    log = min(numbers) > 0 and max(numbers) > LOG_VALUES * min(numbers)
    x = _axis("number", numbers, sweep.option, log, numbers if len(numbers) <= 9 else ())
    if not log:
        margin = 0.04 * (max(numbers) - min(numbers))
        x["range"] = [_rounded(min(numbers) - margin), _rounded(max(numbers) + margin)]
    times, ratios = [], []
    for size in typical_sizes(size for by_size in of.values() for size in by_size):
        absolute, relative = [], []
        for variant in dict.fromkeys(curve.variant for curve in some):
            there = [(at, of.get((variant, pattern), {}).get(size)) for at, pattern in sweep.members]
            known_points = [(at, one) for at, one in there if one is not None and one.time_ns.value > 0]
            if not known_points:
                continue
            color, first = colors[variant], known_points[0][1].time_ns.value
            absolute.append(_Series(variant, color, 0, [(at, one.time_ns) for at, one in known_points]))
            relative.append(
                _Series(variant, color, 0, [(at, one.time_ns.scaled(1 / first)) for at, one in known_points])
            )
            tails = [(at, one.shown.p99_ns) for at, one in known_points]
            known = [(at, unsure(tail)) for at, tail in tails if tail is not None]
            if known:
                absolute.append(_Series(f"{variant}, p99", color, 0, known, faint=True))
        if absolute:
            times.append(_view(size_text(size), absolute, x, "time", "ns", sweep.option))
            ratios.append(_view(size_text(size), relative, x, "number", "1", sweep.option))
            _from_where_it_is(ratios[-1])
    fixed = "".join(f", {option}={value}" for option, value in sweep.fixed.items())
    titles = (f"Time over {sweep.option}{fixed}", f"The same, over that at {sweep.option}={numbers[0]:g}")
    return [
        {"title": title, "kind": "lines", "views": views}
        for title, views in zip(titles, (times, ratios), strict=True)
        if views
    ]


def _from_where_it_is(view: dict[str, Any]) -> None:
    """An axis of ratios that are all near to 1 does not begin at 0."""
    values = [value for one in view["series"] for value in (*one["y"], 1.0)]
    low, high = min(values), max(values)
    margin = max(0.05, 0.15 * (high - low))
    axis = Axis("number", "", False, max(0.0, low - margin), high + margin)
    view["y"] |= {
        "range": [_rounded(axis.low), _rounded(axis.high)],
        "ticks": [[_rounded(value), text] for value, text in ticks(axis)],
    }


# ------------------------------------------------------------------------------------------------- ranks and pairs


def _maps(some: Sequence[Curve], settings: PatternSettings | None) -> list[dict[str, Any]]:
    """Each cell over the median of all at its size: 1 is as the others. Pairs are a matrix at one size, ranks stand
    over the sizes.
    """
    number = sum(len(point.shown.cells) for curve in some for point in curve.points)
    pairs, ranks = [], []
    for curve in some:
        points = [shown for point in curve.points if (shown := point.shown).cells]
        if not points:
            continue
        typical = typical_sizes(point.size_bytes for point in points)
        few = [point for point in points if point.size_bytes in typical]
        name = _name(curve, settings)
        if any(cell.peer is not None for point in points for cell in point.cells):
            pairs += [_pairs_view(f"{name}, {size_text(point.size_bytes)}", point) for point in few]
        else:
            ranks.append(_ranks_view(name, few if number > MOST_CELLS else points))
    panels = []
    for title, views in (
        ("Each pair over the median of all", pairs),
        ("Each rank over the median of all", ranks),
    ):
        if views:
            panels.append({"title": title, "kind": "map", "views": views[:MOST_VIEWS]})
    return panels


def _relative(cells: Sequence[Cell]) -> list[float | None]:
    known = [cell.median_ns for cell in cells if cell.median_ns is not None]
    middle = median(known) if known else 0.0
    return [
        _rounded(cell.median_ns / middle) if cell.median_ns is not None and middle > 0 else None
        for cell in cells
    ]


def _cell_text(cell: Cell, relative: float | None, samples: int) -> str:
    who = f"rank {cell.rank}" if cell.peer is None else f"ranks {cell.rank} and {cell.peer}"
    share = f", the slowest in {percent_text((cell.slowest or 0) / samples)}" if samples else ""
    return f"{who}: {time_text(cell.median_ns)}, {times_text(relative)} the median{share}"


def _pairs_view(label: str, point: Point) -> dict[str, Any]:
    ranks = sorted({rank for cell in point.cells for rank in (cell.rank, cell.peer) if rank is not None})
    place = {rank: at for at, rank in enumerate(ranks)}
    z: list[list[float | None]] = [[None] * len(ranks) for _ in ranks]
    text = [[""] * len(ranks) for _ in ranks]
    samples = sum(cell.slowest or 0 for cell in point.cells)
    both = {(cell.rank, cell.peer) for cell in point.cells}
    for cell, relative in zip(point.cells, _relative(point.cells), strict=True):
        if cell.peer is None:
            continue
        spots = [(place[cell.rank], place[cell.peer])]
        if (cell.peer, cell.rank) not in both:  # measured as one: the matrix is symmetric
            spots.append((place[cell.peer], place[cell.rank]))
        for row, column in spots:
            z[row][column] = relative
            text[row][column] = _cell_text(cell, relative, samples)
    names = [str(rank) for rank in ranks]
    return {"label": label, "x": names, "y": names, "xTitle": "rank", "yTitle": "rank", "z": z, "text": text}


def _ranks_view(label: str, points: Sequence[Point]) -> dict[str, Any]:
    ranks = sorted({cell.rank for point in points for cell in point.cells})
    z: list[list[float | None]] = [[None] * len(points) for _ in ranks]
    text = [[""] * len(points) for _ in ranks]
    place = {rank: at for at, rank in enumerate(ranks)}
    for column, point in enumerate(points):
        samples = sum(cell.slowest or 0 for cell in point.cells)
        for cell, relative in zip(point.cells, _relative(point.cells), strict=True):
            z[place[cell.rank]][column] = relative
            text[place[cell.rank]][column] = (
                f"{size_text(point.size_bytes)}, {_cell_text(cell, relative, samples)}"
            )
    return {
        "label": label,
        "x": [size_text(point.size_bytes) for point in points],
        "y": [str(rank) for rank in ranks],
        "xTitle": "message size",
        "yTitle": "rank",
        "z": z,
        "text": text,
    }
