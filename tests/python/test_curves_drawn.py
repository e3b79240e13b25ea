# SPDX-License-Identifier: Apache-2.0
"""How the curves of figures are drawn: strokes, bands, marks, colours, and names below the axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from synthetic import LAYERS, Layer, run

from netpipe.reading import Reading
from netpipe.records import Header, Point, Rank, Run, Variant
from netpipe.render import figures
from netpipe.render.drawing.paper import draw as drawing
from netpipe.render.drawing.paper.names import legend
from netpipe.render.drawing.picture import Axis, Bound, Line, Picture
from netpipe.render.drawing.scope import Scope
from netpipe.render.drawing.strokes import bands, marked, strokes
from netpipe.render.page.page import page
from netpipe.render.page.plots import plots
from netpipe.render.page.template import text_of
from netpipe.render.palette import BLUE, DARK, HUES, LIGHT, OF_MODULES, VERMILION, style

ROOT = Path(__file__).resolve().parents[2]
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


def test_points_that_did_not_settle_are_loose() -> None:
    (line,) = (line for line in picture(REAL, "throughput").lines if line.variant == "tcp")
    loose = {p.size_bytes for p in REAL.points if p.variant == "tcp" and not p.converged}
    assert {size for size, wide in zip(line.size_bytes, line.loose, strict=True) if wide} == loose


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


# -------------------------------------------------------------------------------------------------------- colours


def looks(names: Sequence[str]) -> dict[str, Line]:
    layers = [Layer(name, None, None, 1e4, ((1e9, 1e9),)) for name in names]
    return {line.variant: line for line in picture(run(layers, SIZES), "latency").lines}


def test_a_module_has_the_same_colour_in_every_run() -> None:
    first, second = looks(["shm", "tcp", "mine", "tcp:wait=poll"]), looks(["mine", "tcp", "udp"])
    assert [first[name].color for name in ("tcp", "mine")] == [second[name].color for name in ("tcp", "mine")]
    hues = {name: line.color % HUES for name, line in first.items() if line.color is not None}
    assert hues["tcp"] == hues["tcp:wait=poll"] == BLUE
    assert len({hues[name] for name in ("shm", "tcp", "mine")}) == 3


def test_all_libraries_of_a_module_have_its_colour() -> None:
    drawn = looks(["mpi@mpich:transport=shm", "mpi@openmpi:transport=shm"])
    assert {(line.color or 0) % HUES for line in drawn.values()} == {VERMILION}
    assert len({style(line.color or 0, line.dash) for line in drawn.values()}) == 2


def test_variants_of_a_module_differ_in_dashes_and_then_in_shades() -> None:
    names = ["tcp", *(f"tcp:sndbuf={n}k" for n in range(1, 14))]
    styles = [style(line.color or 0, line.dash) for line in looks(names).values()]
    assert len(set(styles)) == len(names)
    assert [dash for _, dash in styles[:6]] == list(range(6))
    assert {place % HUES for place, _ in styles} == {BLUE}
    assert {place for place, _ in styles[:6]} == {BLUE}


def test_every_module_of_the_tree_has_a_colour() -> None:
    modules = {path.parent.name for path in (ROOT / "src/modules").glob("*/module.toml")}
    assert modules <= OF_MODULES.keys()


def test_the_hues_are_told_apart_by_people_without_red_or_green_cones() -> None:
    for palette in (LIGHT[:HUES], DARK[:HUES]):
        for cones in CONES:
            seen = [lab(color, cones) for color in palette]
            apart = min(math.dist(a, b) for a, b in combinations(seen, 2))
            assert apart > 10, (palette, cones)


def test_the_styles_of_the_page_have_the_hues() -> None:
    css = text_of("report.css")
    for palette in (LIGHT, DARK):
        assert all(f"--c{place}: {color};" in css for place, color in enumerate(palette[:HUES]))


# ------------------------------------------------------------------------------------------------ what was imported

MEANS = "OSU: the mean over all iterations; buffers of sending and receiving apart"


def imported() -> Run:
    rank = Rank(rank=0, settings={"imported_from": "osu.txt", "source": MEANS})
    points = [Point(variant="osu", pattern="pingpong", size_bytes=n, median_ns=2e4 + n) for n in SIZES]
    return Run([Header(schema=1, run="0" * 32), Variant(variant="osu", module="osu", ranks=[rank]), *points])


def test_a_figure_with_an_imported_curve_says_what_its_numbers_are() -> None:
    for runs, said in (((REAL, imported()), True), ((imported(),), True), ((REAL,), False)):
        scope = Scope(tuple(map(Reading, runs)))
        for name in ("latency", "saturation", "yardsticks")[: 3 if len(runs) > 1 else 2]:
            drawn = drawing.drawn(
                figures.get(name).panels(scope), scope.subtitle, conventions=scope.conventions
            )
            notes = [text for text in drawn.texts if MEANS in text.get_text()]
            assert bool(notes) == (said and name != "yardsticks"), name
            for note in notes:
                assert note.get_window_extent().y1 < min(axes.bbox.y0 for axes in drawn.axes)
                assert all(
                    not note.get_window_extent().overlaps(one.get_window_extent()) for one in drawn.legends
                )


def test_the_page_says_what_the_numbers_of_an_imported_curve_are() -> None:
    made = page(Reading(imported()))
    assert f"osu was imported. {MEANS}." in made
    assert plots(Scope((Reading(imported()),))).data["curves"][0]["source"] == MEANS
    assert "was imported" not in page(Reading(REAL))


# Machado, Oliveira and Fernandes 2009: linear RGB as everybody, and as those without red or green cones see it.
CONES = (
    ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
)
XYZ = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
WHITE = (0.9505, 1.0, 1.089)

Matrix = Sequence[Sequence[float]]


def times(matrix: Matrix, vector: Sequence[float]) -> list[float]:
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def lab(color: str, cones: Matrix) -> tuple[float, float, float]:
    """In CIELAB, where equal distances look about equally large."""
    levels = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [level / 12.92 if level <= 0.04045 else ((level + 0.055) / 1.055) ** 2.4 for level in levels]
    seen = times(XYZ, [min(1.0, max(0.0, part)) for part in times(cones, linear)])
    shares = [part / white for part, white in zip(seen, WHITE, strict=True)]
    x, y, z = (share ** (1 / 3) if share > 0.008856 else 7.787 * share + 16 / 116 for share in shares)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)
