# SPDX-License-Identifier: Apache-2.0
"""A figure as data. `paper.draw` draws it with matplotlib and `page.plots` hands it to plotly, so both show the same.

Values are in the unit of their axis: bytes, ns, bytes per second, fractions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# In widths of the line. Rates are dashed and times dotted, so that two bounds of one figure are told apart.
BOUND_DASHES = {"time": (1.5, 2.5)}
MODEL_DASHES = ((6.0, 2.0, 1.0, 2.0), (12.0, 2.0, 3.0, 2.0), (3.0, 1.5), (9.0, 2.0, 1.0, 2.0, 1.0, 2.0))
MEDIAN_BAND = "95 % interval of the median"


class NothingToDraw(ValueError):  # noqa: N818  (it reads as what it says)
    """A figure cannot be drawn from these runs. The sentence says why."""


@dataclass(frozen=True, slots=True)
class Axis:
    quantity: str  # size (bytes), time (ns), rate (bytes/s), kept (fraction), count (1/s), seconds, number
    label: str
    log: bool
    low: float  # the limits of the axis
    high: float
    at: tuple[float, ...] = ()  # put ticks here and nowhere else; empty: at round values

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class Line:
    """One curve. The tuples are parallel, in the order in which the points are joined."""

    label: str
    color: int | None  # place in the palette; None: grey
    dash: int
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...]  # the interval of y; that of x where the picture's `band_on_x` is set
    high: tuple[float, ...]
    loose: tuple[bool, ...] = ()  # with a wide interval; empty: none
    mute: tuple[bool, ...] = ()  # of these, with an interval that says nothing; empty: none
    texts: tuple[str, ...] = ()  # what a point says when it is pointed at; empty: its coordinates
    faint: bool = False  # accompanies another line, such as a percentile beside the median
    joined: bool = True  # False: markers only
    curve: tuple[str, str] | None = None  # the variant and pattern that the line shows
    size_bytes: tuple[int, ...] = ()

    @property
    def variant(self) -> str:
        return self.curve[0] if self.curve else ""

    def is_loose(self, place: int) -> bool:
        return bool(self.loose) and self.loose[place]

    def is_mute(self, place: int) -> bool:
        return bool(self.mute) and self.mute[place]


@dataclass(frozen=True, slots=True)
class Bound:
    """A thin line that no curve should cross, clipped to the axes."""

    label: str
    quantity: str  # what is bounded: a rate, a time, or what is kept; "theory": a model, which bounds nothing
    x: tuple[float, ...]
    y: tuple[float, ...]
    model: int = field(default=0, kw_only=True)  # of several models: which

    @property
    def dashes(self) -> tuple[float, ...]:
        """In widths of the line."""
        if self.quantity == "theory":
            return MODEL_DASHES[self.model % len(MODEL_DASHES)]
        return BOUND_DASHES.get(self.quantity, (6.0, 3.0))


@dataclass(frozen=True, slots=True)
class Picture:
    """Lines in one coordinate system."""

    label: str  # tells this view from the others of its panel; empty if there is only one
    x: Axis
    y: Axis
    lines: tuple[Line, ...]
    bounds: tuple[Bound, ...] = ()
    beyond: tuple[str, ...] = ()  # labels of bounds outside the axes
    band_on_x: bool = False
    band: str = MEDIAN_BAND  # what `low` and `high` are; empty: nothing
    level_ends: bool = False  # the curves end at one height, where their names would not fit
    named_at_ends: bool = True  # False: the names are of points, not of curves


@dataclass(frozen=True, slots=True)
class Map:
    """A matrix by row and column: of factors, where 1 is the median of all and None was not measured, or of amounts,
    where None is nothing.
    """

    label: str
    x_label: str
    y_label: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    texts: tuple[tuple[str, ...], ...]
    quantity: str = ""  # of amounts, as of an axis: size or number; empty: these are factors


@dataclass(frozen=True, slots=True)
class Distribution:
    """A histogram over log time. Bucket i goes from low_ns[i] to low_ns[i] * factor."""

    label: str
    color: int
    low_ns: tuple[float, ...]
    count: tuple[int, ...]
    factor: float
    what: str  # what was counted: "operations", "batches of 128 operations"
    marks: tuple[tuple[str, float], ...]  # name and ns: median, p90, ...
    modes: tuple[str, ...]  # in words; empty if there is only one


@dataclass(frozen=True, slots=True)
class Bar:
    """One row. Values are in the unit of the quantity of its view."""

    name: str
    depth: int  # how many bars it stands on
    begin: float
    end: float
    text: str  # its number in words
    reach: tuple[float, float] | None  # the interval of its end; None: not known
    pale: bool  # no difference from the bar that it stands on was seen


@dataclass(frozen=True, slots=True)
class Bars:
    """Rows from the lowest layer up."""

    label: str
    quantity: str  # as of an axis
    x_label: str
    rows: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """What one colour of stacked bars stands for."""

    name: str  # empty: the row says it
    color: int | None  # place in the palette; None: grey


@dataclass(frozen=True, slots=True)
class Stack:
    """One row."""

    name: str
    values: tuple[float, ...]  # of each part, in the unit of the quantity
    numbers: tuple[str, ...]  # beside it, one for each heading; empty where the row stands for several


@dataclass(frozen=True, slots=True)
class Stacks:
    """Bars that are made of parts: below each other or, where they are very many, side by side."""

    label: str
    quantity: str  # as of an axis: time, size or number
    x_label: str  # what the bars show
    row_label: str  # what a row is: "rank"
    parts: tuple[Part, ...]
    rows: tuple[Stack, ...]
    headings: tuple[str, ...] = ()
    upright: bool = False  # side by side

    @property
    def longest(self) -> float:
        return max(sum(row.values) for row in self.rows)


View = Picture | Map | Distribution | Bars | Stacks


@dataclass(frozen=True, slots=True)
class Panel:
    """One figure of the report, with one view or several to choose from. On paper they stand side by side."""

    title: str
    views: tuple[View, ...]
    pattern: str = ""  # the pattern that it is about; empty: the whole run
    stacked: bool = False  # the views share their x axis and stand above each other
    note: str = ""  # sentences about what is shown, which stand below it
    narrow: bool = False  # half of a page's width is enough
