# SPDX-License-Identifier: Apache-2.0
"""How many times as long a program takes if latency, overhead, bandwidth or gap is several times as large or small: the
time in MPI and the whole run, for each variant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from netpipe.render.drawing.axes import line, number_axis, picture
from netpipe.render.drawing.picture import NothingToDraw, Panel, Picture
from netpipe.render.drawing.scope import MOST_VIEWS, Scope
from netpipe.render.figures import PROFILE, RUN, figure
from netpipe.units import capital, sentence

if TYPE_CHECKING:
    from netpipe.prediction import Sensitivity
    from netpipe.prediction.sensitivity import Parameter
    from netpipe.reading.estimate import Estimate

TITLE = "Sensitivity of a program to the network"
FACTOR = "latency, overhead, bandwidth or gap, times as large"
BAND = "what the curves, the launches and the model leave open"
TIMES = {"whole": "whole run", "mpi": "time in MPI"}


@figure(
    "a program's time over latency, overhead, bandwidth and gap that are several times as large; needs a profile",
    place=90,
    paper="the tolerance curves of LLAMP (SC'24)",
    needs=(PROFILE, RUN),
)
def panels(scope: Scope) -> list[Panel]:
    from netpipe.prediction import UnknownVariant, own_variant, processors, sensitivities
    from netpipe.prediction.replay import Stuck
    from netpipe.prediction.sensitivity import part_text
    from netpipe.profiles import NotAProfile

    if not scope.profiles:
        raise NothingToDraw("there is no profile; name one of netpipe profile beside the run")
    if not scope.readings:
        raise NothingToDraw(
            "there is no run; name one that has the curves of the libraries beside the profile"
        )
    found: list[Sensitivity] = []
    notes: list[str] = []
    parts: dict[str, None] = {}  # the same of every run
    for reading in scope.readings:
        try:
            own = own_variant(scope.profiles[0], reading.run, scope.own or None)
            one = sensitivities(scope.profiles, reading, own, processors(reading.run))
        except (NotAProfile, Stuck, UnknownVariant) as error:
            raise NothingToDraw(str(error)) from None
        found += [each for each in one.variants if not scope.variants or each.variant in scope.variants]
        notes += one.notes
        if one.part is not None:
            parts[sentence(capital(part_text(one.part)))] = None
    if not found:
        raise NothingToDraw(notes[0] if notes else "the run has no ping-pong, which every prediction needs")
    return [of(found, " ".join(parts))]


def of(found: list[Sensitivity], note: str = "") -> Panel:
    """Both times for each variant."""
    views = [view(one, time) for one in found for time in TIMES][:MOST_VIEWS]
    return Panel(TITLE, tuple(views), note=note)


def view(one: Sensitivity, time: str) -> Picture:
    lines = [
        line(each.name, place, values(each, time), "1", f"{each.name} ×")
        for place, each in enumerate(one.parameters)
    ]
    x = number_axis(lines[0].x, FACTOR)
    drawn = picture(f"{one.variant}: {TIMES[time]}, times as long", lines, x, "1", "times as long")
    return Picture(drawn.label, drawn.x, drawn.y, drawn.lines, band=BAND)


def values(parameter: Parameter, time: str) -> list[tuple[float, Estimate]]:
    return [(step.factor, getattr(step, time)) for step in parameter.steps]
