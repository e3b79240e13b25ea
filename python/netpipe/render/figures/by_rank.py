# SPDX-License-Identifier: Apache-2.0
"""What each rank computes, and its time in MPI by kind of call. Very many ranks stand side by side."""

from __future__ import annotations

from collections.abc import Sequence

from netpipe.profiles.figures import KINDS, RankKinds
from netpipe.render.drawing.picture import NothingToDraw, Panel, Part, Stack
from netpipe.render.drawing.profiles import MOST_ROWS, PARTS, stacks
from netpipe.render.drawing.scope import Scope
from netpipe.render.figures import PROFILE, figure
from netpipe.units import percent_text, time_text

MOST_COLUMNS = 512  # that stand side by side; of more ranks each is the mean of several
COMPUTING = Part("computing", None)


@figure(
    "the time that each rank computes, and spends in each kind of call", "time", place=20, needs=(PROFILE,)
)
def panels(scope: Scope) -> list[Panel]:
    return [of_ranks(scope.profiled.ranks)]


def of_ranks(found: Sequence[RankKinds]) -> Panel:
    """Raises NothingToDraw."""
    if max((one.compute_s + sum(one.by_kind_s) for one in found), default=0.0) <= 0:
        raise NothingToDraw("no rank has a time")
    upright = len(found) > MOST_ROWS
    each = -(-len(found) // MOST_COLUMNS) if upright else 1
    groups = [found[at : at + each] for at in range(0, len(found), each)]
    rows = [
        Stack(str(group[0].rank), _mean_ns(group), () if upright else _numbers(group[0])) for group in groups
    ]
    headings = () if upright else ("computes", "in MPI", "share")
    view = stacks("time", "time", "rank", (COMPUTING, *PARTS), rows, headings, upright=upright)
    note = f"A column is the mean of {each} consecutive ranks." if each > 1 else ""
    return Panel("Time by rank", (view,), note=note, narrow=not upright)


def _mean_ns(group: Sequence[RankKinds]) -> tuple[float, ...]:
    parts = [[one.compute_s, *one.by_kind_s] for one in group]
    return tuple(sum(one[place] for one in parts) * 1e9 / len(group) for place in range(1 + len(KINDS)))


def _numbers(one: RankKinds) -> tuple[str, ...]:
    share = one.mpi_s / one.seconds if one.seconds else None
    return time_text(one.compute_s * 1e9), time_text(one.mpi_s * 1e9), percent_text(share)
