# SPDX-License-Identifier: Apache-2.0
"""The four times of the LogGP model over message size, as measured, and the lines that were fitted to them."""

from __future__ import annotations

import math
from dataclasses import replace

from netpipe.reading.models.loggp import LINES, LogGP
from netpipe.render.drawing.axes import line, picture, size_axis
from netpipe.render.drawing.picture import Line, NothingToDraw, Panel
from netpipe.render.drawing.scope import Group, Member, Scope
from netpipe.render.figures import figure

NAMES = {
    "o_s": "o_s: overhead of the sender",
    "o_r": "o_r: overhead of the receiver",
    "gap": "gap between messages: g + (s - 1) G",
    "transfer": "transfer: L + (s - 1) G",
}
STEPS = 32  # a straight line bends on logarithmic axes


@figure(
    "the times of the LogGP model over message size, with the fitted lines",
    "loggp",
    place=40,
    paper="Hoefler, Lichei and Rehm 2007",
)
def panels(scope: Scope) -> list[Panel]:
    group = scope.group("loggp")
    if group is None:
        raise NothingToDraw("no selected curve has the pattern loggp")
    fits = {(reading, fit.variant, fit.pattern): fit for reading in scope.readings for fit in reading.loggp}
    views = []
    for name in LINES:
        lines: list[Line] = []
        for member in group.members:
            fit = fits.get((member.reading, member.variant, member.pattern))
            lines += _lines(scope, group, member, name, fit)
        if lines:
            x = size_axis(at for one in lines for at in one.x)
            views.append(picture(NAMES[name], lines, x, "ns"))
    if not views:
        raise NothingToDraw("the pattern loggp has no times above 0")
    return [Panel("Times of the LogGP model", tuple(views))]


def _lines(scope: Scope, group: Group, member: Member, name: str, fit: LogGP | None) -> list[Line]:
    """The measured times, as markers with their intervals, and the fit as a line."""
    said = [member.values(one) for one in member.reading.measures_of(member.curve) if one.name == name]
    # A time that came out below 0 has no place on a logarithmic axis; the fit has a limit for it.
    known = [(size, value) for of in said for size, value in of if value.low > 0]
    if not known:
        return []
    setting = group.setting(member.pattern)
    label = scope.variant_label(member.reading, f"{member.variant}, {setting}" if setting else member.variant)
    color = scope.color(member.variant)
    lines = [replace(line(label, color, known, "ns"), joined=False)]
    for part in fit.ranges if fit else ():
        model = {"o_s": part.o_s, "o_r": part.o_r, "gap": part.gap, "transfer": part.transfer}[name]
        first, last = max(1, part.from_bytes), part.to_bytes
        sizes = [round(first * (last / first) ** (step / STEPS)) for step in range(STEPS + 1)]
        points = [(float(size), model.at(size)) for size in dict.fromkeys(sizes) if model.at(size) > 0]
        if len(points) > 1 and math.isfinite(points[-1][1]):
            x, y = (tuple(of) for of in zip(*points, strict=True))
            lines.append(Line(f"{label}, fitted", color, scope.dash_step, x, y, y, y, faint=True))
    return lines
