# SPDX-License-Identifier: Apache-2.0
"""The settings of one pattern, overlaid: throughput and time, with a view for each variant."""

from __future__ import annotations

from netpipe.render.drawing import patterns
from netpipe.render.drawing.picture import Panel
from netpipe.render.drawing.scope import MOST_VIEWS, Group, Scope
from netpipe.render.figures import figure


@figure("the settings of a pattern, overlaid, over message size", "patterns", place=21)
def panels(scope: Scope) -> list[Panel]:
    panels = [panel for group in scope.groups if group.settings for panel in of(scope, group)]
    if not panels:
        raise scope.nothing("no chosen pattern was run with several settings")
    return panels


def of(scope: Scope, group: Group) -> list[Panel]:
    """The two panels of one pattern, as far as there is something in them."""
    assert group.settings
    order = {pattern: place for place, pattern in enumerate(group.settings.values)}
    options = ", ".join(group.settings.options)
    panels = []
    for value, unit, title in ((patterns.rate, "bytes/s", "Throughput"), (patterns.time, "ns", "Time")):
        views = []
        for reading, variant in list(dict.fromkeys((one.reading, one.variant) for one in group.members))[
            :MOST_VIEWS
        ]:
            members = [
                (member, group.setting(member.pattern), order[member.pattern], 0)
                for member in group.members
                if member.reading is reading and member.variant == variant
            ]
            view = patterns.over_size(scope.variant_label(reading, variant), members, value, unit)
            if view is not None:
                views.append(view)
        if views:
            panels.append(Panel(f"{title} by {options}", tuple(views), group.name))
    return panels
