# SPDX-License-Identifier: Apache-2.0
"""The time in MPI of all ranks in each phase, by kind of call; of many phases those with most of it."""

from __future__ import annotations

from netpipe.render.drawing.picture import NothingToDraw, Panel, Stack
from netpipe.render.drawing.profiles import MOST_ROWS, PARTS, stacks
from netpipe.render.drawing.scope import Scope
from netpipe.render.figures import PROFILE, figure
from netpipe.units import percent_text, time_text

WHAT_A_PHASE_IS = "MPI_Pcontrol(N) begins phase N; before the first one it is phase 1."


@figure("the time in MPI by phase and kind of call, all ranks together", "time", place=30, needs=(PROFILE,))
def panels(scope: Scope) -> list[Panel]:
    found, waiting = scope.profiled.phases, scope.tables.waiting
    if sum(one.phase is not None for one in found) < 2:
        raise NothingToDraw("the program has one phase; MPI_Pcontrol(N) begins phase N")
    times = [sum(one.by_kind_s) for one in found]
    if max(times) <= 0:
        raise NothingToDraw("no call took any time")
    kept = sorted(range(len(found)), key=lambda at: -times[at])[:MOST_ROWS]
    waits: dict[int | None, int] = {one.phase: one.waiting_ns for one in waiting.phases}
    judged = len(waiting.ranks) > 1
    rows = [
        Stack(
            "not known" if found[at].phase is None else str(found[at].phase),
            tuple(of * 1e9 for of in found[at].by_kind_s),
            (
                time_text(times[at] * 1e9),
                percent_text(times[at] / sum(times)),
                *((time_text(waits.get(found[at].phase)),) if judged else ()),
            ),
        )
        for at in sorted(kept)
    ]
    headings = ("time", "of MPI", "waits") if judged else ("time", "of MPI")
    view = stacks("time", "time", "phase", PARTS, rows, headings)
    left_out = f"The {len(kept)} of {len(found)} phases with most of it. " if len(kept) < len(found) else ""
    return [Panel("Time in MPI by phase, all ranks together", (view,), note=f"{left_out}{WHAT_A_PHASE_IS}")]
