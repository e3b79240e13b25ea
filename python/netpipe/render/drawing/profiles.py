# SPDX-License-Identifier: Apache-2.0
"""What the figures of a profile share: the colours of kinds of calls, amounts in words, and stacked bars of what is
there. A kind of call has the same colour in all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netpipe.profiles.figures import KINDS
from netpipe.render.drawing.picture import Map, Part, Stack, Stacks
from netpipe.render.palette import BLACK, BLUE, ORANGE, SKY, VERMILION
from netpipe.render.words import library_text, moment_text, programs_text, ranks_on_hosts
from netpipe.units import SIZE_STEPS, counts_text, digits, time_text, unit_of

if TYPE_CHECKING:
    from netpipe.profiles.tables import Facts

PARTS = tuple(
    Part(name, color) for name, color in zip(KINDS, (BLUE, SKY, VERMILION, ORANGE, BLACK), strict=True)
)
MOST_ROWS = 32  # with a bar of their own
WIDE = 20.0  # if the largest amount exceeds the smallest by more, the colours of a map are logarithmic
PALEST = 0.1  # the strength of the smallest amount then


def subtitle(facts: Facts) -> str:
    """Which program, where and when."""
    parts = (programs_text(facts), ranks_on_hosts(facts), library_text(facts))
    what = ", ".join(filter(None, parts))
    when = moment_text(facts.started)
    return f"{what}  ·  {when}" if when else what


def amount_text(quantity: str, value: float) -> str:
    """A time in ns, a size in bytes or a number in words. A size has three digits: a matrix has room for no more."""
    if quantity == "time":
        return time_text(value)
    if quantity == "number":
        return counts_text(round(value))
    step, unit = unit_of(value, SIZE_STEPS, "B")
    return f"{value:.0f} B" if unit == "B" else f"{digits(value / step)} {unit}"


def stacks(
    quantity: str,
    x_label: str,
    row_label: str,
    parts: Sequence[Part],
    rows: Sequence[Stack],
    headings: Sequence[str] = (),
    *,
    label: str = "",
    upright: bool = False,
) -> Stacks:
    """Without the parts that no row has."""
    used = [place for place in range(len(parts)) if any(row.values[place] > 0 for row in rows)]
    return Stacks(
        label,
        quantity,
        x_label,
        row_label,
        tuple(parts[place] for place in used),
        tuple(Stack(row.name, tuple(row.values[place] for place in used), row.numbers) for row in rows),
        tuple(headings),
        upright,
    )


# ---------------------------------------------------------------------------------------------- colours of amounts


@dataclass(frozen=True, slots=True)
class Strength:
    """How strong the colour of an amount in a map is."""

    least: float  # of those above 0
    most: float

    @property
    def wide(self) -> bool:
        """Whether it rises with the logarithm."""
        return self.most > WIDE * self.least

    def __call__(self, value: float) -> float:
        """Above 0, and 1 for the largest."""
        if not self.wide:
            return value / self.most
        return PALEST + (1 - PALEST) * math.log(value / self.least) / math.log(self.most / self.least)


def strength(of: Map) -> Strength:
    """Of a map of amounts, of which at least one is above 0."""
    there = [value for row in of.values for value in row if value]
    return Strength(min(there), max(there))
