# SPDX-License-Identifier: Apache-2.0
"""The figures. A figure is one file in this folder: NAME.py, with a function marked by `figure` that returns panels as
data. `netpipe plot --figure NAME` and the pages of `netpipe report` find it by themselves; see
docs/how-to/add-a-figure.md.

`names` lists the folder without loading any figure, so that `netpipe plot --help` answers at once.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netpipe.render.drawing.picture import Panel
    from netpipe.render.drawing.scope import Scope

    Draw = Callable[[Scope], list[Panel]]

OPTIONS = ("scale", "size", "measure", "fit")  # of `netpipe plot`, which a figure takes only if it says so
# What a figure may be drawn from: run files, a profile of `netpipe profile`, results of `netpipe apps`.
RUN, PROFILE, KERNELS = "run", "profile", "kernels"


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    help: str  # one line
    panels: Draw  # raises NothingToDraw with a sentence if the runs have nothing for it; never returns an empty list
    section: str  # of the report: curves, patterns, loggp, openings, machine or more; of a profile: time or messages
    place: int  # among the figures of its section
    options: tuple[str, ...]  # those of OPTIONS that it takes
    part_of: str  # the figure with which the report draws the same data; empty: the report draws this one
    paper: str  # where the figure is known from
    needs: tuple[str, ...]  # RUN, PROFILE or KERNELS; of two: both


def figure(
    text: str,
    section: str = "more",
    *,
    place: int = 100,
    options: tuple[str, ...] = (),
    part_of: str = "",
    paper: str = "",
    needs: tuple[str, ...] = (RUN,),
) -> Callable[[Draw], Draw]:
    """Register the function as the figure of its file. `text` is its one line of help."""

    def register(draw: Draw) -> Draw:
        name = draw.__module__.rpartition(".")[2]
        _known[name] = Figure(name, text, draw, section, place, options, part_of, paper, needs)
        return draw

    return register


_known: dict[str, Figure] = {}


def names() -> tuple[str, ...]:
    """All figures, by name. Loads none of them."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def get(name: str) -> Figure:
    """Raises KeyError for a name that is not in `names`, and for a file that registers no figure."""
    if name not in _known and name in names():
        importlib.import_module(f"{__name__}.{name}")
    return _known[name]


def every(*kinds: str) -> tuple[Figure, ...]:
    """The figures that are drawn from files of these kinds, in the order of the report; without a kind, all."""
    found = [one for one in map(get, names()) if set(kinds) <= set(one.needs)]
    return tuple(sorted(found, key=lambda one: (one.place, one.name)))


def why_not(one: Figure, scope: Scope) -> str | None:
    """Why the figure cannot be drawn, as a sentence without a full stop; None if it can."""
    from netpipe.render.drawing.picture import NothingToDraw

    try:
        one.panels(scope)
    except NothingToDraw as why:
        return str(why)
    return None
