# SPDX-License-Identifier: Apache-2.0
"""How the curves of figures are drawn: strokes, bands, marks, colours, and names below the axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from synthetic import LAYERS, run

from netpipe.reading import Reading
from netpipe.records import Run
from netpipe.render import figures
from netpipe.render.drawing import draw as drawing
from netpipe.render.drawing.names import legend
from netpipe.render.drawing.picture import Axis, Bound, Line, Picture
from netpipe.render.drawing.scope import Scope
from netpipe.render.drawing.strokes import bands, marked, strokes

SIZES = [1, 8, 64, 1024, 16384, 262144, 4194304]
REAL = run(sizes=SIZES, moved=True)


def picture(made: Run, figure: str) -> Picture:
    """The first view of a figure that is made of lines."""
    (panel, *_) = figures.get(figure).panels(Scope((Reading(made),)))
    assert isinstance(panel.views[0], Picture)
    return panel.views[0]


def curve(loose: str, x: Sequence[float] = ()) -> Line:
    """A point for each character: . is sure, ~ is loose, ! says nothing."""
    at = tuple(x or map(float, range(1, len(loose) + 1)))
    wide, mute = (tuple(one in kinds for one in loose) for kinds in ("~!", "!"))
    ones = (1.0,) * len(loose)
    return Line("a", 0, 0, at, ones, (0.5,) * len(loose), (2.0,) * len(loose), wide, mute)


def test_no_stroke_goes_through_a_point_that_says_nothing_and_strokes_to_loose_ones_are_pale() -> None:
    assert strokes(curve("...")) == [(range(3), False)]
    assert strokes(curve("..~..!.~")) == [
        (range(2), False),
        (range(1, 4), True),
        (range(3, 5), False),
        (range(6, 8), True),
    ]
    assert strokes(replace(curve("..."), joined=False)) == []


def test_a_band_is_cut_where_the_time_goes_back_so_it_never_folds() -> None:
    line = curve(".....!..", [1, 2, 4, 3, 5, 6, 7, 8])
    cut = bands(line, line.x)
    assert cut == [range(3), range(2, 4), range(3, 5), range(6, 8)]
    assert all(abs(line.x[one[-1]] - line.x[one[0]]) > 0 for one in cut)
    assert bands(curve(".!."), (1, 2, 3)) == [range(1), range(2, 3)]


def test_of_many_points_those_alone_have_a_marker_that_no_stroke_reaches() -> None:
    assert marked(curve("..~!.!"), 40) == [0, 1, 4]
    assert marked(curve("..~!.!"), 3) == [4]


def test_a_point_says_nothing_if_its_interval_is_wider_than_it_is() -> None:
    made = run(LAYERS[4:5], SIZES)
    for one, high in zip(made.points, (1.0, 2.9, 3.1), strict=False):
        one.converged, one.low_ns, one.high_ns = high == 1, one.median_ns, high * one.median_ns
    (line,) = picture(made, "latency").lines
    assert line.loose[:3] == (False, True, True)
    assert line.mute[:3] == (False, False, True)


def test_two_bounds_of_one_figure_are_told_apart() -> None:
    bounds = picture(REAL, "signature").bounds
    assert len(bounds) == 2
    assert len({bound.dashes for bound in bounds}) == 2


def test_names_below_the_axes_stand_in_the_order_of_the_right_ends() -> None:
    lower, higher = curve(".."), replace(curve(".."), label="b", y=(3.0, 3.0))
    axis = Axis("time", "", True, 1, 10)
    bound = Bound("all of it", "kept", (1.0, 2.0), (9.0, 9.0))
    assert legend([Picture("", axis, axis, (lower, higher), (bound,))]).names == ("b", "a", "all of it")
    saturation = picture(REAL, "saturation")
    last = {line.label: line.x[-1] for line in saturation.lines}
    names = legend([saturation]).names[: len(last)]
    assert list(names) == sorted(last, key=last.__getitem__), "all end at one height: the leftmost is first"


def test_the_names_of_saturation_stand_below_the_axes() -> None:
    made = figures.get("saturation").panels(Scope((Reading(REAL),)))
    figure = drawing.drawn(made, "")
    (axes,) = figure.axes
    assert axes.get_legend() is None
    (below,) = figure.legends
    assert below.get_window_extent().y1 < axes.get_window_extent().y0
