# SPDX-License-Identifier: Apache-2.0
"""How much of each rank's time in MPI is waiting, and for what; of many ranks those that wait longest."""

from __future__ import annotations

from netpipe.profiles.trace.waiting import Waiting
from netpipe.render.drawing.picture import NothingToDraw, Panel, Part, Stack
from netpipe.render.drawing.profiles import MOST_ROWS, stacks
from netpipe.render.drawing.scope import Scope
from netpipe.render.figures import PROFILE, figure
from netpipe.render.palette import ORANGE, PURPLE, VERMILION
from netpipe.units import percent_text, time_text

LATE = (
    Part("for late senders", ORANGE),
    Part("for late receivers", PURPLE),
    Part("in collectives", VERMILION),
    Part("transfer", None),
)


@figure("how much of each rank's time in MPI is waiting, and for what", "time", place=40, needs=(PROFILE,))
def panels(scope: Scope) -> list[Panel]:
    return [of_ranks(scope.tables.waiting)]


def of_ranks(waiting: Waiting) -> Panel:
    """Raises NothingToDraw."""
    ranks = waiting.ranks
    if waiting.problem is not None:
        raise NothingToDraw(waiting.problem)
    if len(ranks) < 2:
        raise NothingToDraw("one rank has nobody to wait for")
    if not waiting.waiting_ns:
        raise NothingToDraw("no rank waited for another one")
    note = ""
    if len(ranks) > MOST_ROWS:
        note = f"The {MOST_ROWS} of {len(ranks)} ranks that wait longest."
        ranks = sorted(sorted(ranks, key=lambda one: -one.waiting_ns)[:MOST_ROWS], key=lambda one: one.rank)
    rows = [
        Stack(
            str(one.rank),
            (one.late_sender_ns, one.late_receiver_ns, one.collective_ns, one.mpi_ns - one.waiting_ns),
            (
                time_text(one.waiting_ns),
                percent_text(one.waiting_ns / one.mpi_ns if one.mpi_ns else None),
                time_text(one.waited_for_ns),
            ),
        )
        for one in ranks
    ]
    view = stacks("time", "time in MPI", "rank", LATE, rows, ("waits", "of MPI", "is waited for"))
    return Panel("Waiting for other ranks, in MPI", (view,), note=note)
