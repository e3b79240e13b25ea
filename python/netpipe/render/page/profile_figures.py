# SPDX-License-Identifier: Apache-2.0
"""The figures of a profile on its page, from the same panels as `netpipe plot` draws: bars in tables, columns of many
ranks, and who sends to whom.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup, escape

from netpipe.escapes import printable
from netpipe.render import figures
from netpipe.render.drawing.picture import Map, NothingToDraw, Panel, Part, Stacks, View
from netpipe.render.drawing.profiles import Strength, amount_text, strength
from netpipe.render.drawing.scope import Scope
from netpipe.units import capital, sentence

MOST_NAMED = 6  # ranks of a matrix whose cells hold their numbers
MOST_TICKS = 8
TICKS_OF_MANY = 5  # below columns that stand side by side
LEVELS = 10  # of colour in a matrix
LEFT, TOP, SIDE = 40.0, 34.0, 360.0  # of the matrix, in units of its drawing


@dataclass(frozen=True, slots=True)
class Segment:
    """Of a bar."""

    color: str  # its class
    percent: str  # of the longest bar there can be
    text: str


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: str  # name, bar or number


@dataclass(frozen=True, slots=True)
class Bars:
    """A table in which some cells are bars."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str | tuple[Segment, ...], ...], ...]
    legend: tuple[tuple[str, str], ...]  # (class, what it stands for)


@dataclass(frozen=True, slots=True)
class Columns:
    """Rows that stand side by side."""

    drawing: Markup
    top: str  # what the full height is
    label: str  # what a column is
    ticks: tuple[str, ...]  # below, evenly spread
    legend: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    drawing: Markup
    least: str  # that has the lightest colour
    most: str
    logarithmic: bool


@dataclass(frozen=True, slots=True)
class Drawn:
    """One panel."""

    name: str  # of its figure, the same for all of its panels
    title: str
    note: str  # below it; empty: none, or one that stands below the section
    wide: bool
    bars: Bars | None = None
    columns: Columns | None = None
    matrix: Matrix | None = None


@dataclass(frozen=True, slots=True)
class Section:
    panels: tuple[Drawn, ...]
    notes: tuple[str, ...]  # of several of its panels
    lacking: dict[str, str]  # figures that cannot be drawn, and why, as a sentence


def sections(scope: Scope) -> dict[str, Section]:
    """All figures of a profile, by section of the page."""
    found: dict[str, list[tuple[str, Panel]]] = {}
    lacking: dict[str, dict[str, str]] = {}
    for one in figures.every(figures.PROFILE):
        if one.needs != (figures.PROFILE,):
            continue
        found.setdefault(one.section, [])
        try:
            found[one.section] += [(one.name, panel) for panel in one.panels(scope)]
        except NothingToDraw as why:
            lacking.setdefault(one.section, {})[one.name] = sentence(capital(str(why)))
    return {name: _section(panels, lacking.get(name, {})) for name, panels in found.items()}


def _section(panels: Sequence[tuple[str, Panel]], lacking: dict[str, str]) -> Section:
    notes = [panel.note for _, panel in panels if panel.note]
    common = tuple(dict.fromkeys(note for note in notes if notes.count(note) > 1))
    drawn = []
    for narrow, group in groupby(panels, lambda one: one[1].narrow):
        several = list(group)
        for place, (name, panel) in enumerate(several, start=1):
            # Two that are narrow stand beside each other; one alone would leave a hole.
            alone = len(several) % 2 == 1 and place == len(several)
            drawn.append(_drawn(name, panel, "" if panel.note in common else panel.note, not narrow or alone))
    return Section(tuple(drawn), common, lacking)


def _drawn(name: str, panel: Panel, note: str, wide: bool) -> Drawn:
    view = panel.views[0]
    if isinstance(view, Map):
        return Drawn(name, panel.title, note, wide, matrix=matrix(panel.title, view))
    assert isinstance(view, Stacks), "the figures of a profile are bars and matrices"
    if view.upright:
        return Drawn(name, panel.title, note, wide, columns=_columns(view))
    return Drawn(name, panel.title, note, wide, bars=bars(panel.views))


# --------------------------------------------------------------------------------------------------------- as bars


def _class(part: Part) -> str:
    return "rest" if part.color is None else f"c{part.color}"


def _legend(views: Sequence[Stacks]) -> tuple[tuple[str, str], ...]:
    named = {part.name: _class(part) for view in views for part in view.parts if part.name}
    return tuple((color, name) for name, color in named.items())


def bars(views: Sequence[View]) -> Bars:
    """The views side by side: they have the same rows."""
    stacks = [view for view in views if isinstance(view, Stacks)]
    columns = [Column(stacks[0].row_label, "name")]
    for view in stacks:
        columns += [Column(view.label, "bar"), *(Column(heading, "number") for heading in view.headings)]
    rows = []
    for place, row in enumerate(stacks[0].rows):
        cells: list[str | tuple[Segment, ...]] = [row.name]
        for view in stacks:
            cells += [_segments(view, view.rows[place].values), *view.rows[place].numbers]
        rows.append(tuple(cells))
    return Bars(tuple(columns), tuple(rows), _legend(stacks))


def _segments(of: Stacks, values: Sequence[float]) -> tuple[Segment, ...]:
    whole = of.longest or 1.0
    return tuple(
        Segment(_class(part), f"{100 * value / whole:.2f}", _told(part, amount_text(of.quantity, value)))
        for part, value in zip(of.parts, values, strict=True)
        if value > 0
    )


def _told(part: Part, text: str) -> str:
    return f"{part.name}: {text}" if part.name else text


def _columns(of: Stacks) -> Columns:
    whole = of.longest or 1.0
    base = [0.0] * len(of.rows)
    paths = []
    for layer, part in enumerate(of.parts):
        steps = []
        for place, row in enumerate(of.rows):
            low, high = base[place], base[place] + row.values[layer]
            base[place] = high
            if high > low:
                bottom, top = 100 - 100 * low / whole, 100 - 100 * high / whole
                steps.append(f"M{place} {bottom:.2f}V{top:.2f}h1V{bottom:.2f}z")
        paths.append(f'<path class="{_class(part)}" d="{"".join(steps)}"/>')
    box = f'viewBox="0 0 {len(of.rows)} 100" preserveAspectRatio="none"'
    drawing = f'<svg {box} aria-hidden="true">{"".join(paths)}</svg>'
    last = len(of.rows) - 1
    ticks = tuple(of.rows[round(last * part / (TICKS_OF_MANY - 1))].name for part in range(TICKS_OF_MANY))
    most = amount_text(of.quantity, whole)
    return Columns(Markup(drawing), most, of.row_label, ticks, _legend([of]))  # noqa: S704  (numbers, our own names)


# --------------------------------------------------------------------------------------------------- who sends to whom


def level(value: float, of: Strength) -> int:
    """From 1 to LEVELS, for what is more than nothing."""
    return math.ceil(of(value) * LEVELS - 1e-9)


def matrix(title: str, of: Map) -> Matrix:
    strong = strength(of)
    least = amount_text(of.quantity, strong.least) if strong.wide else "0"
    most = amount_text(of.quantity, strong.most)
    return Matrix(_map(title, of, lambda value: level(value, strong)), least, most, strong.wide)


def _map(title: str, of: Map, level_of: Callable[[float], int]) -> Markup:
    many = len(of.rows)
    cell = SIDE / many
    gap = min(2.0, cell * 0.08)
    size = f"{cell - gap:.2f}".rstrip("0").rstrip(".")
    made = [
        f'<rect class="field" x="{LEFT:g}" y="{TOP:g}" width="{SIDE:g}" height="{SIDE:g}"/><g class="cells">'
    ]
    written = []
    for row, values in enumerate(of.values):
        y = TOP + row * cell
        for column, value in enumerate(values):
            if not value:
                continue
            x = LEFT + column * cell
            strong = level_of(value)
            told = escape(printable(of.texts[row][column]))
            made.append(
                f'<rect class="o{strong}" x="{x + gap / 2:.4g}" y="{y + gap / 2:.4g}" width="{size}" height="{size}">'
                f"<title>{told}</title></rect>"
            )
            if many <= MOST_NAMED:
                dark = ' class="on"' if strong > LEVELS * 0.55 else ""
                at = f'x="{x + cell / 2:.4g}" y="{y + cell / 2 + 4:.4g}"'
                written.append(f"<text{dark} {at}>{amount_text(of.quantity, value)}</text>")
    made += ["</g>", *written]
    step = -(-many // MOST_TICKS)
    for place in range(0, many, step):
        middle = (place + 0.5) * cell
        across, down = escape(printable(of.columns[place])), escape(printable(of.rows[place]))
        made.append(f'<text x="{LEFT + middle:.4g}" y="{TOP - 6:g}">{across}</text>')
        made.append(f'<text class="end" x="{LEFT - 6:g}" y="{TOP + middle + 4:.4g}">{down}</text>')
    made.append(f'<text class="axis" x="{LEFT + SIDE / 2:g}" y="11">{escape(of.x_label)}</text>')
    middle = TOP + SIDE / 2
    turned = f"translate(10 {middle:g}) rotate(-90)"
    made.append(f'<text class="axis" transform="{turned}">{escape(of.y_label)}</text>')
    wide, high = LEFT + SIDE, TOP + SIDE
    return Markup(  # noqa: S704  (numbers, and what is escaped)
        f'<svg class="map" viewBox="0 0 {wide:g} {high:g}" role="img" aria-label="{escape(title)}">'
        f"{''.join(made)}</svg>"
    )
