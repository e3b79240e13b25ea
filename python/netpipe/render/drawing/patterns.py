# SPDX-License-Identifier: Apache-2.0
"""Lines of one pattern over message size, used by the figures of patterns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from netpipe.reading.curves import CurvePoint
from netpipe.reading.estimate import Estimate
from netpipe.reading.measures import Measured
from netpipe.render.drawing.axes import line, picture, size_axis
from netpipe.render.drawing.picture import Line, Panel, Picture
from netpipe.render.drawing.scope import MOST_VIEWS, Group, Member, Scope

Label = Callable[[Member], str]


def rate(point: CurvePoint) -> Estimate | None:
    return point.rate_bytes_per_s


def time(point: CurvePoint) -> Estimate | None:
    return point.time_ns


def over_size(
    label: str,
    members: Sequence[tuple[Member, str, int, int]],
    of: Callable[[CurvePoint], Estimate | None],
    unit: str,
) -> Picture | None:
    """A line for each (member, name, colour, dash); None if nothing is known of any."""
    lines: list[Line] = []
    for member, name, color, dash in members:
        known = [(point, value) for point in member.points() if (value := of(point)) is not None]
        for apart in (False, True):
            some = [(point, value) for point, value in known if point.apart == apart]
            if some:
                values = [(float(point.size_bytes), value) for point, value in some]
                loose, mute = tuple(one.loose for one, _ in some), tuple(one.mute for one, _ in some)
                made = line("" if apart else name, color, values, unit, dash=dash, loose=loose, mute=mute)
                lines.append(replace(made, joined=not apart))
    if not lines:
        return None
    return picture(label, lines, size_axis(at for one in lines for at in one.x), unit)


def measure_panels(
    scope: Scope, groups: Sequence[Group], only: Sequence[str] = (), titles: dict[str, str] | None = None
) -> list[Panel]:
    """A panel for each measure of each pattern, with a view for each setting. `only` keeps these measures."""
    panels = []
    for group in groups:
        found: dict[tuple[str, str], list[tuple[Member, Measured]]] = {}
        for member in group.members:
            for measured in member.reading.measures_of(member.curve):
                if any(size > 0 for size in measured.values):
                    found.setdefault((measured.name, measured.unit), []).append((member, measured))
        for (name, unit), several in found.items():
            if (only and name not in only) or (scope.measures and name not in scope.measures):
                continue
            if not any(value.value for _, measured in several for value in measured.values.values()):
                continue  # clocks of one host differ by nothing, at any size
            some = list(dict.fromkeys(member.pattern for member, _ in several))[:MOST_VIEWS]
            views = [_measure_view(scope, group, pattern, unit, several) for pattern in some]
            if drawn := tuple(view for view in views if view is not None):
                title = (titles or {}).get(name, f"{name} over message size")
                panels.append(Panel(title, drawn, group.name))
    return panels


def _measure_view(
    scope: Scope, group: Group, pattern: str, unit: str, several: Sequence[tuple[Member, Measured]]
) -> Picture | None:
    lines = [
        line(
            scope.variant_label(member.reading, member.variant),
            scope.color(member.variant),
            values,
            unit,
            dash=scope.dash_of_run(member.reading),
        )
        for member, measured in several
        if member.pattern == pattern and (values := member.values(measured))
    ]
    if not lines:
        return None
    return picture(group.setting(pattern), lines, size_axis(at for one in lines for at in one.x), unit)
