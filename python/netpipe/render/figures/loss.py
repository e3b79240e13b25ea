# SPDX-License-Identifier: Apache-2.0
"""What each layer keeps of the throughput of the layer below it."""

from __future__ import annotations

from netpipe.reading.curves import MUTE
from netpipe.render.drawing.curves import LOG_FROM, Level, panel
from netpipe.render.drawing.picture import Line, Panel
from netpipe.render.drawing.scope import Scope
from netpipe.render.figures import figure


@figure(
    "share of the throughput of the layer below that is kept, over message size",
    "curves",
    place=5,
    options=("scale",),
    paper="the losses of Turner et al. 2002 and 2003 against raw TCP and GM, as a graph",
)
def panels(scope: Scope) -> list[Panel]:
    members = {(id(one.reading), one.variant, one.pattern): one for one in scope.members}
    lines = []
    for reading in scope.readings:
        for loss in reading.losses:
            member = members.get((id(reading), loss.variant, loss.pattern))
            if member is None:
                continue
            all_sizes = member.losses(loss)
            for apart in (False, True):
                sizes = [size for size in all_sizes if size.apart == apart]
                if not sizes:
                    continue
                made = Line(
                    label="" if apart else f"{scope.label(member)} of {loss.below}",
                    color=scope.color(loss.variant),
                    dash=scope.dash_of(member),
                    x=tuple(float(size.size_bytes) for size in sizes),
                    y=tuple(size.kept.value for size in sizes),
                    low=tuple(size.kept.low for size in sizes),
                    high=tuple(size.kept.high for size in sizes),
                    loose=tuple(size.converged is False for size in sizes),
                    mute=tuple(size.converged is False and size.times.half_width > MUTE for size in sizes),
                    curve=(loss.variant, loss.pattern),
                    size_bytes=tuple(size.size_bytes for size in sizes),
                    joined=not apart,
                )
                lines.append(made)
    if not lines:
        raise scope.nothing("no two of the layers stand on each other")
    wide = max(max(line.y) for line in lines) > LOG_FROM * min(min(line.y) for line in lines)
    return panel(
        "Throughput kept of the layer below",
        "size",
        "kept",
        wide if scope.log is None else scope.log,
        tuple(lines),
        (Level("all of it", "kept", 1.0),),
    )
