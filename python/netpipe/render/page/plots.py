# SPDX-License-Identifier: Apache-2.0
"""The figures as plain data for the scripts of the report.

Numbers are rounded to five digits, far below what any interval is sure of, and distributions to so many buckets that a
report of any run stays small enough to be mailed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from math import comb
from typing import Any

from netpipe.reading.curves import MUTE, WIDE, CurvePoint
from netpipe.reading.losses import Loss
from netpipe.reading.measures import typical_sizes
from netpipe.render import figures
from netpipe.render.drawing.axes import value_axis
from netpipe.render.drawing.picture import Axis, Distribution, Line, Map, NothingToDraw, Panel, Picture, View
from netpipe.render.drawing.scope import Member, Scope
from netpipe.render.drawing.ticks import SCALE, tick_text, ticks
from netpipe.render.figures.distribution import MOST_BUCKETS, of_point
from netpipe.render.palette import DARK, DASHES, LIGHT, style
from netpipe.units import limits_text, percent_text, rate_text, share_text, size_text, time_text

HISTOGRAM_BYTES = 1_500_000  # of all distributions together, in JSON
BYTES_A_BUCKET = 14
MOST_RATIOS = 4_000  # of all pairs of curves and their sizes together: they take some two seconds
FEWEST_BUCKETS = 16
CURVES, MACHINE = "curves", "machine"  # sections that the scripts draw in their own way

Placed = tuple[int, str]  # a panel's place in the data, and its title


@dataclass(frozen=True, slots=True)
class Plots:
    data: dict[str, Any]  # as JSON takes it
    headings: dict[str, str]  # title of each figure of the section "curves"
    sections: dict[str, list[tuple[Panel, Placed]]]  # the other panels by section of the report

    def placed(self, section: str) -> list[Placed]:
        return [placed for _, placed in self.sections.get(section, [])]


def plots(scope: Scope) -> Plots:
    """Everything that the page draws: every figure that has data and that no other figure stands for."""
    found: list[tuple[figures.Figure, Panel]] = []
    for one in figures.every(figures.RUN):
        if one.part_of:
            continue
        try:
            found += [(one, panel) for panel in one.panels(scope)]
        except NothingToDraw:
            continue
    pictures = {
        one.name: (panel, view)
        for one, panel in found
        if one.section == CURVES and isinstance(view := panel.views[0], Picture)
    }
    members = [member for member in (*scope.members, *scope.others) if member.points()]
    order = {(member.name, member.pattern): place for place, member in enumerate(members)}
    data: list[dict[str, Any]] = []
    sections: dict[str, list[tuple[Panel, Placed]]] = {}
    machine: list[View] = []
    for one, panel in found:
        if one.section == MACHINE and panel.stacked:
            machine += panel.views
        elif one.section != CURVES:
            sections.setdefault(one.section, []).append((panel, (len(data), panel.title)))
            data.append(panel_data(panel))
    curves = _curves(scope, members)
    return Plots(
        {
            "palette": {"light": LIGHT, "dark": DARK},
            "curves": curves,
            "figures": {name: _figure(view, order) for name, (_, view) in pictures.items()},
            "ratios": _ratios(members, [curve["group"] for curve in curves]),
            "widths": {"loose": WIDE, "mute": MUTE},
            "hover": [
                {str(at.size_bytes): _hover(at, member.curve.one_state) for at in member.points()}
                for member in members
            ],
            "lossHover": _loss_hover(scope, members),
            "histograms": _histograms(scope, members),
            "yardsticks": [view_data(view) for view in machine],
            "panels": data,
        },
        {name: panel.title for name, (panel, _) in pictures.items()},
        sections,
    )


# ------------------------------------------------------------------------------------------ the classic figures


def _curves(scope: Scope, members: Sequence[Member]) -> list[dict[str, Any]]:
    base = {
        pattern: settings.name
        for reading in scope.readings
        for pattern, settings in reading.settings_of.items()
    }
    first = {(one.variant, one.pattern) for one in scope.first}
    return [
        {
            "label": scope.label(member),
            **_look(scope.color(member.variant), scope.dash_of(member)),
            "group": base.get(member.pattern, member.pattern),
            "other": bool(member.state),
            "source": scope.conventions.get(scope.variant_label(member.reading, member.variant), ""),
            "first": (member.variant, member.pattern) in first,
        }
        for member in members
    ]


def _ratios(members: Sequence[Member], groups: Sequence[str]) -> list[list[Any]]:
    """Of pairs of curves that are drawn over each other and were measured by turns: [places of both, sizes, how many
    times as long the first takes, low, high]. `groups`: of each member. None where there would be too many.
    """
    together: dict[tuple[str, int], list[int]] = {}
    for place, (member, group) in enumerate(zip(members, groups, strict=True)):
        if not member.state:
            together.setdefault((group, id(member.reading)), []).append(place)
    most = max((len(member.points()) for member in members), default=0)
    if most * sum(comb(len(places), 2) for places in together.values()) > MOST_RATIOS:
        return []
    found: list[list[Any]] = []
    for place, at in chain.from_iterable(combinations(places, 2) for places in together.values()):
        one, two = members[place], members[at]
        times = one.reading.ratios_of((one.variant, one.pattern), (two.variant, two.pattern))
        known = {size: times[size] for size in sorted(times) if times[size].known and times[size].low > 0}
        if known:
            columns = zip(*((each.value, each.low, each.high) for each in known.values()), strict=True)
            found.append([place, at, [*known], *([rounded(value) for value in column] for column in columns)])
    return found


def _look(color: int | None, dash: int) -> dict[str, Any]:
    place, dash = style(color or 0, dash)
    # In the words of SVG; DASHES counts in line widths.
    pixels = ",".join(f"{2 * length:g}px" for length in DASHES[dash])
    return {"color": None if color is None else place, "dash": pixels or "solid"}


def _figure(drawn: Picture, order: dict[tuple[str, str], int]) -> dict[str, Any]:
    band = drawn.x if drawn.band_on_x else drawn.y
    return {
        "x": _axis(drawn.x),
        "y": _axis(drawn.y),
        "turned": _axis(_turned(drawn)),
        "bandOnX": drawn.band_on_x,
        "lines": [
            {
                "curve": order[line.curve],
                "size": line.size_bytes,
                "x": _scaled(line.x, drawn.x),
                "y": _scaled(line.y, drawn.y),
                "low": _scaled(line.low, band),
                "high": _scaled(line.high, band),
                **_sureness(line),
                "joined": line.joined,
            }
            for line in drawn.lines
            if line.curve in order
        ],
        "bounds": [
            {
                "label": bound.label,
                "quantity": bound.quantity,
                "dash": ",".join(f"{length:g}px" for length in bound.dashes),
                "x": _scaled(bound.x, drawn.x),
                "y": _scaled(bound.y, drawn.y),
            }
            for bound in drawn.bounds
        ],
    }


def _sureness(line: Line) -> dict[str, list[int]]:
    """The places of points with wide intervals, and of those that say nothing."""
    return {
        "loose": [place for place, loose in enumerate(line.loose) if loose],
        "mute": [place for place, mute in enumerate(line.mute) if mute],
    }


def _turned(drawn: Picture) -> Axis:
    """The y axis, linear where it is logarithmic and the other way round."""
    of, values = drawn.y, [value for line in drawn.lines for value in line.y if value > 0]
    if of.log or not values:
        return replace(of, log=False, low=0.0)
    return value_axis(of.quantity, values, of.label, log=True)


def _hover(at: CurvePoint, one_state: bool) -> list[str]:
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
    if slow and not one_state:  # a percentile is of all states
        lines.append(f"p99 {time_text(max(slow))}")
    if at.loose:
        lines.append("wide interval")
    if at.apart:
        lines.append("not measured in the state of the other points")
    return lines


def _loss_hover(scope: Scope, members: Sequence[Member]) -> list[dict[str, list[str]]]:
    lost = {(loss.variant, loss.pattern): loss for reading in scope.readings for loss in reading.losses}
    return [_loss_texts(lost.get((member.name, member.pattern)), member) for member in members]


def _loss_texts(loss: Loss | None, member: Member) -> dict[str, list[str]]:
    texts = {}
    for size in member.losses(loss) if loss else ():
        texts[str(size.size_bytes)] = [
            f"{size_text(size.size_bytes)}: {share_text(size.kept.value)} kept",
            f"95 %: {limits_text(size.kept.low, size.kept.high, share_text)}"
            if size.times.known
            else "too few samples to compare",
            f"{time_text(size.added_ns.value)} added",
        ]
    return texts


# ------------------------------------------------------------------------------------------ panels


def panel_data(panel: Panel) -> dict[str, Any]:
    kind = "map" if isinstance(panel.views[0], Map) else "lines"
    return {"title": panel.title, "kind": kind, "views": [view_data(view) for view in panel.views]}


def view_data(view: View) -> dict[str, Any]:
    if isinstance(view, Map):
        return {
            "label": view.label,
            "x": view.columns,
            "y": view.rows,
            "xTitle": view.x_label,
            "yTitle": view.y_label,
            "z": [[None if value is None else rounded(value) for value in row] for row in view.values],
            "text": view.texts,
        }
    if isinstance(view, Distribution):
        return _distribution(view)
    assert isinstance(view, Picture), "bars are in the page's own table"
    return {
        "label": view.label,
        "x": _axis(view.x),
        "y": _axis(view.y),
        "series": [_series(view, line) for line in view.lines],
    }


def _series(drawn: Picture, line: Line) -> dict[str, Any]:
    look = _look(line.color, line.dash)
    if line.faint and look["dash"] == "solid" and line.color is not None:
        look["dash"] = "1.5px,2.5px"
    return {
        "label": line.label,
        **look,
        "faint": line.faint,
        "joined": line.joined,
        **_sureness(line),
        "x": _scaled(line.x, drawn.x),
        "y": _scaled(line.y, drawn.y),
        "low": _scaled(line.low, drawn.y),
        "high": _scaled(line.high, drawn.y),
        "text": line.texts or [_coordinates(drawn, line, place) for place in range(len(line.x))],
    }


def _coordinates(drawn: Picture, line: Line, place: int) -> str:
    x, y = tick_text(drawn.x.quantity, line.x[place]), tick_text(drawn.y.quantity, line.y[place])
    return f"{x} {drawn.x.label}: {y}"


def _axis(axis: Axis) -> dict[str, Any]:
    scale = SCALE[axis.quantity]
    return {
        "label": axis.label,
        "log": axis.log,
        "range": [rounded(axis.low * scale), rounded(axis.high * scale)],
        "ticks": [[rounded(value * scale), text] for value, text in ticks(axis)],
    }


def _scaled(values: Iterable[float], axis: Axis) -> list[float]:
    """Sizes in bytes are exact, and so the same list as those of the points."""
    if axis.quantity == "size":
        return [int(value) if float(value).is_integer() else rounded(value) for value in values]
    return [rounded(value * SCALE[axis.quantity]) for value in values]


def rounded(value: float) -> float:
    short = float(f"{value:.5g}")
    return int(short) if short.is_integer() else short


# ------------------------------------------------------------------------------------------ distributions


def _histograms(scope: Scope, members: Sequence[Member]) -> list[dict[str, Any]]:
    """By curve and size, in as many buckets as the page has room for; where there is none for all, of the typical sizes
    alone. At these with their modes.
    """
    # The worker's distributions hold all states of the machine: they stand with the curve.
    number = sum(
        at.by_launch[0].histogram is not None
        for member in members
        if not member.state
        for at in member.points()
    )
    most = HISTOGRAM_BYTES // BYTES_A_BUCKET // max(1, number)
    few = most < FEWEST_BUCKETS
    buckets = MOST_BUCKETS // 2 if few else min(MOST_BUCKETS, most)
    found: list[dict[str, Any]] = []
    for member in members:
        if member.state:
            found.append({})
            continue
        typical = typical_sizes(at.size_bytes for at in member.points())
        reading, color = member.reading, scope.color(member.variant)
        drawn = {
            str(at.size_bytes): of_point(reading, at, "", color, at.size_bytes in typical, buckets)
            for at in member.points()
            if not few or at.size_bytes in typical
        }
        found.append({size: _distribution(one) for size, one in drawn.items() if one is not None})
    return found


def _distribution(one: Distribution) -> dict[str, Any]:
    return {
        "low": [rounded(low) for low in one.low_ns],
        "count": one.count,
        "factor": one.factor,
        "what": one.what,
        "marks": [[name, rounded(value)] for name, value in one.marks],
        "modes": one.modes,
    }
