# SPDX-License-Identifier: Apache-2.0
"""The time of each collective operation over message size, the variants overlaid."""

from __future__ import annotations

from netpipe.render.drawing import patterns
from netpipe.render.drawing.picture import Panel
from netpipe.render.drawing.scope import MOST_VIEWS, Scope
from netpipe.render.figures import figure


@figure(
    "time of each collective operation over message size",
    "patterns",
    place=20,
    paper="Liu et al. 2003, Figs. 11 and 12",
)
def panels(scope: Scope) -> list[Panel]:
    group = scope.group("collective")
    if group is None:
        raise scope.nothing("no selected curve has the pattern collective")
    views = []
    for pattern in list(dict.fromkeys(member.pattern for member in group.members))[:MOST_VIEWS]:
        members = [
            (
                member,
                scope.variant_label(member.reading, member.variant),
                scope.color(member.variant),
                scope.dash_of_run(member.reading),
            )
            for member in group.members
            if member.pattern == pattern
        ]
        view = patterns.over_size(group.setting(pattern), members, patterns.time, "ns")
        if view is not None:
            views.append(view)
    if not views:
        raise scope.nothing("the pattern collective has no points above 0 bytes")
    return [Panel("Time of each collective operation", tuple(views), group.name)]
