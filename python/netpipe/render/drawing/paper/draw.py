# SPDX-License-Identifier: Apache-2.0
"""Figures for print: panels as SVG, PNG or PDF.

The same run gives the same bytes: no date, no random identifiers. Text is drawn as outlines in SVG and embedded in
PDF, so that a figure looks the same where its font is missing. A panel with one view fills the page; several views
stand side by side, with one legend below them.
"""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from netpipe.escapes import printable
from netpipe.render.drawing.paper.amounts import draw_amounts
from netpipe.render.drawing.paper.bars import ROW_IN, draw_bars
from netpipe.render.drawing.paper.marks import GREY, INK, draw_distribution, draw_map, draw_picture, reach
from netpipe.render.drawing.paper.names import end_labels, fits_at_ends, legend
from netpipe.render.drawing.paper.stacks import draw_stacks
from netpipe.render.drawing.paper.stacks import height_in as stacked_in
from netpipe.render.drawing.picture import (
    Bars,
    Distribution,
    Map,
    NothingToDraw,
    Panel,
    Picture,
    Stacks,
    View,
)

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

FORMATS = ("svg", "png", "pdf")
WIDTH_IN, HEIGHT_IN = 7.4, 4.6  # a page's text width
PNG_DPI = 200
MOST_CELLS = 30  # views on one page; beyond FEW_CELLS they are lower
FEW_CELLS = 12
HIGHEST_MATRIX_IN = 3.6
HEAD_IN, FOOT_IN = 0.72, 0.26  # title and note
NOTE_IN, NOTE_LENGTH = 0.13, 120  # a further line of notes, and how many characters fit into it

_SETTINGS: Any = {
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 8.5,
    "text.parse_math": False,  # a name may hold a dollar sign
    "svg.fonttype": "path",
    "svg.hashsalt": "netpipe",
    "pdf.fonttype": 42,
    "axes.linewidth": 0.7,
    "path.simplify": False,
}
# Dates and versions would make every file differ from the last.
_METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": "netpipe"},
    "pdf": {"CreationDate": None, "Creator": "netpipe", "Producer": None},
    "png": {"Software": None},
}


def draw(
    panels: Sequence[Panel],
    subtitle: str,
    path: Path,
    file_format: str,
    title: str | None = None,
    several: str = "",
    conventions: Mapping[str, str] | None = None,
) -> None:
    """Writes the panels as one page (`drawn`). Raises NothingToDraw, and OSError."""
    import matplotlib

    with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
        # the font lacks a character, which the warning prints as it is
        warnings.filterwarnings("ignore", "Glyph")
        figure = drawn(panels, subtitle, title, several, conventions)
        about = {"Title": figure.get_label()} if file_format != "png" else {}
        figure.savefig(path, format=file_format, dpi=PNG_DPI, metadata=_METADATA[file_format] | about)


def drawn(
    panels: Sequence[Panel],
    subtitle: str,
    title: str | None = None,
    several: str = "",
    conventions: Mapping[str, str] | None = None,
) -> Figure:
    """The panels as one page, under the title of all or, if they have several, under `several`; the title is its label
    too. `conventions`: of imported variants what their numbers are, said where one is drawn. Raises NothingToDraw if
    they do not fit on it.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    cells = [(panel, view) for panel in panels for view in panel.views]
    if len(cells) > MOST_CELLS:
        patterns = ", ".join(dict.fromkeys(panel.pattern for panel in panels if panel.pattern))
        raise NothingToDraw(
            f"{len(cells)} parts do not fit on a page, which holds {MOST_CELLS}; choose some with --variant, --size, "
            f"--measure or --pattern{f' ({patterns})' if patterns else ''}"
        )
    one_title = len({panel.title for panel in panels}) == 1
    heading = printable(title or (panels[0].title if one_title else several[:1].upper() + several[1:]))
    with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
        # the font lacks a character, which the warning prints as it is
        warnings.filterwarnings("ignore", "Glyph")
        figure = Figure(figsize=(WIDTH_IN, HEIGHT_IN), facecolor="white")
        FigureCanvasAgg(figure)  # to measure text with
        one = cells[0][1]
        views = [view for _, view in cells]
        said = [*_conventions(views, conventions or {}), *_panel_notes(panels)]
        notes = [note for note in (_note(views), *said) if note]
        notes_in = NOTE_IN * max(0, len(notes) - 1)
        if len(cells) == 1 and isinstance(one, Picture):
            left = _one_picture(figure, one, notes_in)
        else:
            left = _grid(figure, cells, not one_title, notes_in)
        _head_and_foot(figure, heading, subtitle, notes, left)
        for text in figure.findobj(Text):  # an SVG holds each also as a comment
            text.set_text(printable(text.get_text()))
        figure.set_label(heading)
        return figure


def _head_and_foot(figure: Figure, title: str, subtitle: str, notes: Sequence[str], left: float) -> None:
    height = figure.get_size_inches()[1]
    figure.text(left, 1 - 0.21 / height, title, fontsize=11, fontweight="bold", color=INK, va="center")
    figure.text(left, 1 - 0.44 / height, subtitle, fontsize=7.5, color=GREY, va="center")
    for place, note in enumerate(reversed(notes)):
        figure.text(left, (0.10 + NOTE_IN * place) / height, note, fontsize=6.5, color=GREY, va="center")


def _conventions(views: Sequence[View], known: Mapping[str, str]) -> list[str]:
    """The lines that say what the numbers of imported curves are, as far as these are drawn."""
    labels = [view.label for view in views]
    labels += [line.label for view in views if isinstance(view, Picture) for line in view.lines]
    parts = [set(label.split(", ")) for label in labels]  # a curve of several patterns has its own in between
    there = [
        f"{name}: {text}"
        for name, text in known.items()
        if any(set(name.split(", ")) <= one for one in parts)
    ]
    return [line for text in there for line in textwrap.wrap(text, NOTE_LENGTH)]


def _panel_notes(panels: Sequence[Panel]) -> list[str]:
    notes = dict.fromkeys(panel.note for panel in panels)
    return [line for note in notes for line in textwrap.wrap(note, NOTE_LENGTH)]


def _note(views: Sequence[View]) -> str:
    pictures = [view for view in views if isinstance(view, Picture)]
    parts = [f"band: {band}" for band in dict.fromkeys(one.band for one in pictures) if band]
    lines = [line for one in pictures for line in one.lines]
    if any(any(line.loose) for line in lines):
        parts.append("pale: wide interval")
    if any(any(line.mute) for line in lines):
        parts.append("points without a line: interval beyond ±100 %")
    if any(line.faint and "p99" in line.label for line in lines):
        parts.append("dotted: 99th percentile")
    if any(isinstance(view, Bars) for view in views):
        parts.append("thin line: 95 % interval   pale: no difference seen   green: less than the layer below")
    beyond = dict.fromkeys(bound for one in pictures for bound in one.beyond)
    parts += [f"outside the axes: {bound}" for bound in beyond]
    parts += dict.fromkeys(
        f"{one.label}: {len(one.modes)} modes, {', '.join(one.modes)}"
        for one in views
        if isinstance(one, Distribution) and one.modes and len(views) == 1
    )
    return "   ".join(parts)


# ------------------------------------------------------------------------------------------ one picture


def _one_picture(figure: Figure, picture: Picture, notes_in: float) -> float:
    """Curves are named at their ends if there is room, else below the axes. Returns the left edge of the axes."""
    height_in = HEIGHT_IN + notes_in
    figure.set_size_inches(WIDTH_IN, height_in)
    bottom_in, inside_in = 0.15 * HEIGHT_IN + notes_in, 0.66 * HEIGHT_IN
    axes = figure.add_axes((0.105, bottom_in / height_in, 0.87, inside_in / height_in))
    draw_picture(axes, picture)
    axes.xaxis.set_label_text(picture.x.label, fontsize=8.5, color=INK)
    # Upright above its axis: nobody likes to turn the head.
    axes.text(0, 1.06, picture.y.label, transform=axes.transAxes, fontsize=8.5, color=INK, ha="left")
    room = fits_at_ends(figure, picture)
    if room is not None:
        widest, height = room
        place = axes.get_position()
        axes.set_position((place.x0, place.y0, 0.965 - widest - place.x0, place.height))
        end_labels(axes, picture, height * 1.18)
        return float(place.x0)
    names = legend([picture])
    height_in += names.height_in
    figure.set_size_inches(WIDTH_IN, height_in)
    bottom_in += names.height_in
    axes.set_position((0.105, bottom_in / height_in, 0.87, inside_in / height_in))
    names.draw(figure, 0.1, (0.22 + notes_in) / height_in)
    return 0.105


# ------------------------------------------------------------------------------------------ several views


def _grid(
    figure: Figure, cells: Sequence[tuple[Panel, View]], several_titles: bool, notes_in: float
) -> float:
    """Views side by side, above each other where their panel says so. Returns the left edge of the axes."""
    stacked = all(panel.stacked for panel, _ in cells)
    alone = any(isinstance(view, Bars) for _, view in cells)  # with long names
    columns = 1 if stacked or alone or len(cells) == 1 else 2 if len(cells) <= 8 else 3
    rows = -(-len(cells) // columns)
    names = legend([view for _, view in cells if isinstance(view, Picture | Stacks)])
    maps = [view for _, view in cells if isinstance(view, Map)]
    factors = [view for view in maps if not view.quantity]
    few = columns > 1 or stacked
    name_in, axis_in = 0.26, (0.12 if stacked else 0.34 if few else 0.42)
    left_in, gap_in, right_in = 0.66 if few else 0.78, 0.72, (0.72 if maps else 0.22)
    if maps and not factors:  # each has a scale beside it
        gap_in, right_in = 1.25, 0.95
    width_in = (WIDTH_IN - left_in - right_in - (columns - 1) * gap_in) / columns
    cell_in = _cell_height([view for _, view in cells], columns, stacked, width_in)
    below_in = FOOT_IN + notes_in + (names.height_in + 0.12 if names.names else 0.0)
    below_in += 0.3 if stacked else 0.0
    height_in = HEAD_IN + rows * (name_in + cell_in + axis_in) + below_in
    figure.set_size_inches(WIDTH_IN, height_in)
    octaves = reach(factors) if factors else 0.0
    drawn = None
    for place, (panel, view) in enumerate(cells):
        row, column = divmod(place, columns)
        bottom_in = height_in - HEAD_IN - (row + 1) * (name_in + cell_in) - row * axis_in
        x_in = left_in + column * (width_in + gap_in)
        axes = figure.add_axes(
            (x_in / WIDTH_IN, bottom_in / height_in, width_in / WIDTH_IN, cell_in / height_in)
        )
        covered = stacked and place + 1 < len(cells)  # the next one below has the same x axis
        drawn = _draw_view(axes, view, octaves, few, "" if covered else _x_label(view)) or drawn
        axes.tick_params(axis="x", labelbottom=not covered)
        pattern = panel.pattern if len({one.pattern for one, _ in cells}) > 1 else ""
        title = panel.title.removesuffix(f" over {_x_label(view)}")  # the axis says so
        parts = [title, pattern, view.label] if several_titles else [pattern, view.label]
        name = axes.text(
            0,
            1 + 0.07 / cell_in,
            ", ".join(filter(None, dict.fromkeys(parts))),
            transform=axes.transAxes,
            fontsize=8,
            color=INK,
            ha="left",
        )
        last = column + 1 == columns or place + 1 == len(cells)
        _shorten(figure, name, width_in + (right_in if last else gap_in) - 0.12)
    if drawn is not None:
        _color_bar(figure, drawn, octaves, height_in)
    names.draw(figure, (left_in - 0.05) / WIDTH_IN, (FOOT_IN + notes_in - 0.04) / height_in)
    return left_in / WIDTH_IN


def _shorten(figure: Figure, name: Text, most_in: float) -> None:
    """Cut a name that is wider than this, in inches."""
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    whole = name.get_text()
    for length in range(len(whole) - 1, 0, -1):
        if name.get_window_extent(renderer).width <= most_in * figure.dpi:
            return
        name.set_text(f"{whole[:length].rstrip(' ,')}…")


def _cell_height(views: Sequence[View], columns: int, stacked: bool, width_in: float) -> float:
    """In inches; `width_in` is the width of a cell."""
    rows_in = [ROW_IN * len(view.rows) for view in views if isinstance(view, Bars)]
    rows_in += [stacked_in(view) for view in views if isinstance(view, Stacks) and not view.upright]
    if rows_in:
        return max(rows_in)
    if stacked:
        return 1.05
    plain = 1.1 if len(views) > FEW_CELLS else {1: 3.2, 2: 1.95, 3: 1.5}[columns]
    if all(isinstance(view, Map) and view.quantity for view in views):  # as high as they are wide
        return max(plain, min(width_in, HIGHEST_MATRIX_IN))
    return plain


def _x_label(view: View) -> str:
    if isinstance(view, Picture):
        return view.x.label
    if isinstance(view, Stacks):
        return view.row_label if view.upright else view.x_label
    if isinstance(view, Map | Bars):
        return view.x_label
    return f"time of one operation ({sum(view.count):,} {view.what})"


def _draw_view(axes: Axes, view: View, octaves: float, few: bool, x_label: str) -> Any:
    """Returns what the colour bar of a map is drawn from."""
    drawn = None
    if isinstance(view, Picture):
        draw_picture(axes, view, few)
    elif isinstance(view, Map):
        if view.quantity:
            draw_amounts(axes, view, few)
        else:
            drawn = draw_map(axes, view, octaves, few)
        axes.yaxis.set_label_text(view.y_label, fontsize=7.5, color=INK)
    elif isinstance(view, Bars):
        draw_bars(axes, view, few)
    elif isinstance(view, Stacks):
        draw_stacks(axes, view, few)
    else:
        draw_distribution(axes, view, few)
    axes.set_xlabel(x_label, fontsize=7 if few else 8.5, color=INK, labelpad=2)
    return drawn


def _color_bar(figure: Figure, drawn: Any, octaves: float, height_in: float) -> None:
    bar_in = 1.4
    place = figure.add_axes(
        (
            (WIDTH_IN - 0.56) / WIDTH_IN,
            1 - (HEAD_IN + 0.26 + bar_in) / height_in,
            0.1 / WIDTH_IN,
            bar_in / height_in,
        )
    )
    most = f"{2**octaves:.2g}"
    bar = figure.colorbar(drawn, cax=place, ticks=[-octaves, 0, octaves])
    bar.ax.set_yticklabels([f"÷{most}", "1", f"×{most}"], fontsize=7, color=INK)
    bar.ax.tick_params(length=0)
    bar.outline.set_visible(False)
