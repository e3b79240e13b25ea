# SPDX-License-Identifier: Apache-2.0
"""The time that the processor spends in the calls for one message, on either side (pattern `overhead`)."""

from __future__ import annotations

from netpipe.render.drawing import patterns
from netpipe.render.drawing.picture import Panel
from netpipe.render.drawing.scope import Scope
from netpipe.render.figures import figure


@figure(
    "processor time of one message, on each side, over message size",
    "patterns",
    place=61,
    part_of="latency",
    paper="Liu et al. 2003, Fig. 3",
)
def panels(scope: Scope) -> list[Panel]:
    group = scope.group("overhead")
    if group is None:
        raise scope.nothing("no selected curve has the pattern overhead")
    settings = list(dict.fromkeys(member.pattern for member in group.members))
    members = []
    for member in group.members:
        setting = group.setting(member.pattern)
        name = scope.variant_label(
            member.reading, f"{member.variant}, {setting}" if setting else member.variant
        )
        place = settings.index(member.pattern) + len(settings) * scope.readings.index(member.reading)
        members.append((member, name, scope.color(member.variant), scope.dash_step * place))
    view = patterns.over_size("", members, patterns.time, "ns")
    if view is None:
        raise scope.nothing("the pattern overhead has no points above 0 bytes")
    return [Panel("Processor time of one message", (view,), group.name)]
