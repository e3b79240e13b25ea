# SPDX-License-Identifier: Apache-2.0
"""The figures of results of `netpipe apps`, which are no run. A figure is one file in this folder: NAME.py, with a
function marked by `kernel_figure` that makes panels of the rows of the results. `netpipe plot`, the page of the results
and a suite find it by themselves; see docs/how-to/add-a-figure.md.

`names` lists the folder without loading any figure, so that `netpipe plot --help` answers at once.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netpipe.kernels.table import Row
    from netpipe.render.drawing.picture import Panel

    Draw = Callable[[Sequence[Row], str], list[Panel]]


@dataclass(frozen=True, slots=True)
class KernelFigure:
    name: str
    help: str  # one line
    heading: str  # on the page; "HEADING of kernels" is its title alone
    panels: Draw  # of rows and a title; raises NothingToDraw with a sentence if the rows have nothing for it
    place: int  # among the figures of the page; `netpipe plot` draws the first one unless it is told another

    @property
    def title(self) -> str:
        return f"{self.heading} of kernels"


def kernel_figure(text: str, heading: str, *, place: int = 100) -> Callable[[Draw], Draw]:
    """Register the function as the figure of its file. `text` is its one line of help."""

    def register(draw: Draw) -> Draw:
        name = draw.__module__.rpartition(".")[2]
        _known[name] = KernelFigure(name, text, heading, draw, place)
        return draw

    return register


_known: dict[str, KernelFigure] = {}


def names() -> tuple[str, ...]:
    """All figures, by name. Loads none of them."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def get(name: str) -> KernelFigure:
    """Raises KeyError for a name that is not in `names`, and for a file that registers no figure."""
    if name not in _known and name in names():
        importlib.import_module(f"{__name__}.{name}")
    return _known[name]


def every() -> tuple[KernelFigure, ...]:
    """All figures, in the order of the page."""
    return tuple(sorted(map(get, names()), key=lambda one: (one.place, one.name)))
