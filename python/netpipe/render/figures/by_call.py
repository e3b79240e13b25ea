# SPDX-License-Identifier: Apache-2.0
"""Where the time in MPI goes: the calls that take most of it; the others are summed."""

from __future__ import annotations

from netpipe.profiles.figures import OTHERS, kind_of
from netpipe.render.drawing.picture import NothingToDraw, Panel, Part, Stack
from netpipe.render.drawing.profiles import PARTS, stacks
from netpipe.render.drawing.scope import Scope
from netpipe.render.figures import PROFILE, figure
from netpipe.render.used import MOST_CALLS
from netpipe.units import counts_text, percent_text, time_text

SUMMED = (*PARTS, Part("", None))  # the last is of several calls, of whatever kinds


@figure("the calls of MPI that take most time, all ranks together", "time", place=10, needs=(PROFILE,))
def panels(scope: Scope) -> list[Panel]:
    timed = [one for one in scope.tables.time_by_call if one.all_ranks.time_ns > 0]
    if not timed:
        raise NothingToDraw("no call took any time")
    kinds = {call.name: kind_of(call.does) for call in scope.profile.header.calls}
    many = len(timed) if len(timed) <= MOST_CALLS + 1 else MOST_CALLS
    rows = []
    for one in timed[:many]:
        of = one.all_ranks
        rows.append(_row(one.call, kinds.get(one.call, OTHERS), of.time_ns, of.share, of.calls))
    if others := [one.all_ranks for one in timed[many:]]:
        time, calls = sum(of.time_ns for of in others), sum(of.calls for of in others)
        share = sum(of.share for of in others if of.share is not None)
        rows.append(_row(f"{len(others)} others", len(PARTS), time, share, calls))
    view = stacks("time", "time", "call", SUMMED, rows, ("time", "share", "calls"))
    return [Panel("Time by call, all ranks together", (view,), narrow=True)]


def _row(name: str, part: int, time_ns: int, share: float | None, calls: int) -> Stack:
    values = tuple(float(time_ns) if place == part else 0.0 for place in range(len(SUMMED)))
    return Stack(name, values, (time_text(time_ns), percent_text(share), counts_text(calls)))
