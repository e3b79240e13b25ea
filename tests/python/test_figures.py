# SPDX-License-Identifier: Apache-2.0
"""Figures for print."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import repeated
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from synthetic import LAYERS, Layer, measure, mode, patterned, point, run
from test_prediction import one_message

from netpipe.cli import plot
from netpipe.command.drawing import FORMATS
from netpipe.failure import USAGE, Failure
from netpipe.reading import Reading
from netpipe.records import Cell, Header, Plan, Point, Rank, Record, Run, Variant, encode
from netpipe.render import figures
from netpipe.render.drawing.paper import draw as drawing
from netpipe.render.drawing.paper.names import spread
from netpipe.render.drawing.picture import Axis, Distribution, Map, NothingToDraw, Panel, Picture
from netpipe.render.drawing.scope import Scope
from netpipe.render.drawing.ticks import MOST, number_text, tick_text, ticks

SIZES = [1, 8, 64, 1024, 16384, 262144, 4194304]
MAGIC = {"svg": b"<?xml", "png": b"\x89PNG\r\n", "pdf": b"%PDF-"}
HOSTILE = "tcp:$\\frac{1}{0}$--><img src=x onerror=alert(1)> & \"'"


@pytest.fixture(scope="module")
def real() -> Run:
    return run(sizes=SIZES, moved=True)


CLASSIC = ("throughput", "latency", "signature", "saturation", "loss")


def panels(
    runs: Sequence[Run], figure: str, variants: Sequence[str] = (), **chosen: Any
) -> tuple[list[Panel], Scope]:
    scope = Scope(tuple(map(Reading, runs)), tuple(variants), **chosen)
    return figures.get(figure).panels(scope), scope


def picture(
    runs: Sequence[Run], figure: str, variants: Sequence[str] = (), log: bool | None = None
) -> Picture:
    """The first view of a figure that is made of lines."""
    (panel, *_), _ = panels(runs, figure, variants, log=log)
    assert isinstance(panel.views[0], Picture)
    return panel.views[0]


def draw(
    runs: Sequence[Run], figure: str, path: Path, file_format: str, title: str | None = None, **chosen: Any
) -> None:
    made, scope = panels(runs, figure, **chosen)
    drawing.draw(made, scope.subtitle, path, file_format, title, figures.get(figure).help)


def names(svg: str) -> list[str]:
    """Text is drawn as outlines; matplotlib leaves the text itself as a comment before them."""
    return re.findall(r"<!-- (.*?) -->", svg, re.DOTALL)


@pytest.mark.parametrize("figure", CLASSIC)
@pytest.mark.parametrize("file_format", drawing.FORMATS)
def test_every_figure_is_written_in_every_format(
    real: Run, figure: str, file_format: str, tmp_path: Path
) -> None:
    path = tmp_path / "figure"
    draw([real], figure, path, file_format)
    written = path.read_bytes()
    assert written.startswith(MAGIC[file_format])
    assert len(written) > 10_000


@pytest.mark.parametrize("figure", CLASSIC)
def test_every_curve_and_bound_is_named_in_the_figure(real: Run, figure: str, tmp_path: Path) -> None:
    drawn = picture([real], figure)
    (panel, *_), _ = panels([real], figure)
    draw([real], figure, tmp_path / "f.svg", "svg")
    said = names((tmp_path / "f.svg").read_text())
    assert len(drawn.lines) >= 5
    for label in [line.label for line in drawn.lines] + [bound.label for bound in drawn.bounds]:
        assert label in said
    assert panel.title in said
    assert "node17, AMD EPYC 9454 48-Core Processor  ·  2026-03-01 12:00 UTC" in said


def test_an_svg_needs_no_font_and_no_network(real: Run, tmp_path: Path) -> None:
    draw([real], "throughput", tmp_path / "f.svg", "svg")
    svg = (tmp_path / "f.svg").read_text()
    assert "<text" not in svg
    assert "font-family" not in svg
    assert "<image" not in svg
    assert not re.search(r"(href|src)\s*=\s*[\"'](?!#)", svg)


@pytest.mark.parametrize("file_format", drawing.FORMATS)
def test_the_same_run_gives_the_same_bytes(real: Run, file_format: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        draw([real], "latency", tmp_path / name, file_format)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_hostile_name_is_text(tmp_path: Path) -> None:
    made = Run([point(HOSTILE, size, 100.0 + size) for size in SIZES])
    for file_format in drawing.FORMATS:
        draw([made], "throughput", tmp_path / "f", file_format, HOSTILE)
        assert (tmp_path / "f").stat().st_size > 5_000
        if file_format == "svg":
            svg = (tmp_path / "f").read_text()
            assert "<img" not in re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)


# --------------------------------------------------------------------------------------------------- the data


@pytest.mark.parametrize("figure", CLASSIC)
def test_every_figure_has_its_bounds(real: Run, figure: str) -> None:
    drawn = picture([real], figure)
    said = [bound.label for bound in drawn.bounds] + list(drawn.beyond)
    if figure == "loss":
        assert said == ["all of it"]
    else:
        assert any(label.startswith("memory copy") for label in said)
        assert any(label.startswith("harness floor") for label in said)


@pytest.mark.parametrize("figure", CLASSIC)
def test_curves_and_bounds_lie_inside_the_axes(real: Run, figure: str) -> None:
    drawn = picture([real], figure)
    inside = [(line.x, line.y) for line in drawn.lines] + [(bound.x, bound.y) for bound in drawn.bounds]
    for xs, ys in inside:
        assert all(drawn.x.holds(x) for x in xs)
        assert all(drawn.y.holds(y * (1 + 1e-12)) or drawn.y.holds(y * (1 - 1e-12)) for y in ys)


def test_the_floor_of_the_harness_is_no_layer(real: Run) -> None:
    assert "null" not in [line.variant for line in picture([real], "latency").lines]
    assert [line.variant for line in picture([real], "latency", ["null"]).lines] == ["null"]


def test_the_figures_agree_with_the_points(real: Run) -> None:
    at = next(p for p in real.points if p.variant == "tcp" and p.size_bytes == 1024)
    found: dict[str, tuple[float, ...]] = {}
    for figure in ("throughput", "latency", "signature", "saturation"):
        (line,) = picture([real], figure, ["tcp"]).lines
        place = line.size_bytes.index(1024)
        found[figure] = (line.x[place], line.y[place])
    assert at.bytes_per_s is not None
    assert found == {
        "throughput": (1024, at.bytes_per_s),
        "latency": (1024, at.median_ns),
        "signature": (at.median_ns, at.bytes_per_s),
        "saturation": (at.median_ns, 1024),
    }


def test_a_curve_has_the_same_colour_in_every_figure(real: Run) -> None:
    colors = [{line.variant: line.color for line in picture([real], figure).lines} for figure in CLASSIC]
    assert all(colors[0][variant] == color for some in colors for variant, color in some.items())


def test_runs_laid_over_each_other_share_colours_and_differ_in_dashes(real: Run) -> None:
    old = [
        Point(variant="tcp", pattern="pingpong", size_bytes=n, median_ns=3e4, bytes_per_s=n / 3e4 * 1e9)
        for n in SIZES
    ]
    imported = Run([Header(schema=1, run="0" * 32), *old], path="np.out")
    now, then = picture([real, imported], "throughput", ["tcp"]).lines
    assert now.color == then.color
    assert now.dash != then.dash
    assert then.label == "tcp, np"
    assert not any(then.loose)  # nobody knows whether they settled


def test_a_linear_axis_is_kept_where_no_curve_is_pressed_flat(real: Run) -> None:
    assert picture([real], "throughput").y.log
    logarithmic = [
        picture([real], "throughput", ["unix", "tcp"], log=log).y.log for log in (None, True, False)
    ]
    assert logarithmic == [False, True, False]


def test_what_is_not_there_is_said(real: Run) -> None:
    with pytest.raises(
        NothingToDraw, match="no chosen curve has a throughput; the run has null \\(pingpong\\), memcpy"
    ):
        picture([real], "throughput", ["mpi"])
    with pytest.raises(NothingToDraw, match="no two of the layers stand on each other"):
        picture([real], "loss", ["memcpy"])
    with pytest.raises(NothingToDraw, match="the run has no finished points"):
        picture([Run()], "throughput")


def test_many_variants_with_long_names_have_a_legend(tmp_path: Path) -> None:
    layers = [
        Layer(
            f"tcp:sndbuf={4 << k}k,rcvbuf={4 << k}k,nodelay=no",
            None,
            None,
            2e4,
            ((1e5, 3e9), (1e9, 1e9 * (k + 1))),
        )
        for k in range(20)
    ]
    made = run(layers, SIZES)
    draw([made], "throughput", tmp_path / "f.svg", "svg")
    said = names((tmp_path / "f.svg").read_text())
    assert all(layer.name in said for layer in layers)


def test_one_point_is_a_figure(tmp_path: Path) -> None:
    for figure in CLASSIC:
        drawn: Picture = picture([run(sizes=[8])], figure)
        assert drawn.x.low < drawn.lines[0].x[0] < drawn.x.high
        draw([run(sizes=[8])], figure, tmp_path / "f.png", "png")


@pytest.mark.parametrize("figure", ["latency", "saturation", "distribution"])
def test_a_time_that_is_not_above_0_has_no_place_on_a_logarithmic_axis(figure: str, tmp_path: Path) -> None:
    """Between two hosts the error of their clocks makes a short time under load negative."""
    made = run(LAYERS[4:5], SIZES)
    for early, one in zip((-300.0, 0.0), made.points, strict=False):
        one.median_ns, one.low_ns, one.high_ns, one.bytes_per_s = early, early - 50, early + 50, None
    draw([made], figure, tmp_path / "f.svg", "svg")
    if figure != "distribution":
        (line,) = picture([made], figure).lines
        assert line.size_bytes == tuple(SIZES[2:])
        made.points = made.points[:2]
        with pytest.raises(NothingToDraw, match="no chosen curve has a time of one operation"):
            picture([made], figure)


# ------------------------------------------------------------------------------------------- labels and ticks


@given(st.lists(st.floats(0, 300), min_size=1, max_size=14), st.floats(1, 20))
def test_labels_are_moved_apart_and_keep_their_order(wanted: list[float], gap: float) -> None:
    placed = spread(wanted, gap, 0, 300)
    order = sorted(range(len(wanted)), key=lambda place: wanted[place])
    ranked = [placed[place] for place in order]
    assert all(after - before >= gap - 1e-6 for before, after in pairwise(ranked))
    if (len(wanted) - 1) * gap <= 300:
        assert min(placed) >= -1e-6
        assert max(placed) <= 300 + 1e-6


def test_labels_that_have_room_stay_where_they_are() -> None:
    assert spread([250.0, 10.0, 100.0], 12, 0, 300) == [250.0, 10.0, 100.0]


@given(
    st.sampled_from(("size", "time", "rate", "kept")),
    st.booleans(),
    st.floats(1e-3, 1e9),
    st.floats(16, 1e12),
)
def test_ticks_lie_on_the_axis_and_are_few(quantity: str, log: bool, low: float, factor: float) -> None:
    axis = Axis(quantity, quantity, log, low if log else 0.0, low * factor)
    marks = ticks(axis)
    values = [value for value, _ in marks]
    assert values == sorted(set(values))
    assert all(axis.low * (1 - 1e-9) <= value <= axis.high * (1 + 1e-9) for value in values)
    assert 2 <= len(values) <= 2 * MOST
    assert len({text for _, text in marks}) == len(marks)
    assert all("e" not in text.split()[0] for _, text in marks)


def test_an_axis_of_few_powers_of_two_has_ticks_between_them() -> None:
    texts = [text for _, text in ticks(Axis("size", "memory", True, 9.2 * 2**20, 27 * 2**20))]
    assert texts == ["12 MiB", "16 MiB", "20 MiB", "24 MiB"]
    assert [text for _, text in ticks(Axis("size", "size", True, 7, 36))] == ["8 B", "16 B", "32 B"]


def test_ticks_read_as_people_write_them() -> None:
    assert tick_text("size", 65536) == "64 KiB"
    assert tick_text("rate", 1.25e9) == "10 Gbps"
    assert tick_text("time", 500_000) == "500 µs"
    assert tick_text("kept", 0.005) == "0.5 %"


# ---------------------------------------------------------------------------------------------- the command


@pytest.fixture
def run_file(real: Run, tmp_path: Path) -> Path:
    assert real.header is not None
    path = tmp_path / "run.jsonl"
    path.write_bytes(
        b"".join(map(encode, [real.header, *real.plans, *real.variants, *real.yardsticks, *real.points]))
    )
    return path


def test_the_ending_of_the_output_names_the_format(run_file: Path, tmp_path: Path) -> None:
    for file_format, magic in MAGIC.items():
        output = tmp_path / f"f.{file_format}"
        done = CliRunner().invoke(plot.command, [str(run_file), "--figure", "loss", "-o", str(output)])
        assert done.exit_code == 0, done.output
        assert output.read_bytes().startswith(magic)


def test_the_format_can_be_said_instead(run_file: Path, tmp_path: Path) -> None:
    output = tmp_path / "figure.of.mine"
    done = CliRunner().invoke(plot.command, [str(run_file), "--format", "png", "-o", str(output)])
    assert done.exit_code == 0, done.output
    assert output.read_bytes().startswith(MAGIC["png"])


def test_bad_input_is_refused_with_a_sentence(run_file: Path, tmp_path: Path) -> None:
    for arguments, sentence in (
        (["--variant", "txp"], "did you mean 'tcp'"),
        (["--figure", "loss", "--variant", "memcpy"], "no two of the layers stand on each other"),
        (["-o", str(tmp_path / "f.gif")], "is not .svg, .png or .pdf"),
    ):
        done = CliRunner().invoke(plot.command, [str(run_file), *arguments])
        assert isinstance(done.exception, Failure)
        assert done.exception.exit_code == USAGE
        assert sentence in done.exception.sentence


def test_the_command_offers_all_figures_and_formats() -> None:
    assert drawing.FORMATS == FORMATS
    option = next(one for one in plot.command.params if one.name == "figure")
    assert tuple(option.type.choices) == figures.names()  # type: ignore[attr-defined]


def test_the_help_loads_no_figure_and_no_matplotlib() -> None:
    heavy = "[name for name in sys.modules if 'render.figures.' in name or 'matplotlib' in name]"
    code = f"import sys, netpipe.cli.plot; print({heavy})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ---------------------------------------------------------------------------------------------- every figure


MADE = {
    "memory": "opened",
    "startup": "opened",
    "loggp": "loggp",
    "scaling": "scaled",
    "sensitivity": "scaled",
    "reuse": "reused",
    "comparison": "repeated",
}


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    """Runs that have the data for all figures between them."""
    return {
        "patterned": patterned(),
        "opened": opened(),
        "loggp": of_loggp(),
        "scaled": scaled(),
        "reused": reused(),
        "repeated": repeated.made({"tcp": repeated.same, "tcp:wait=poll": lambda _: 0.5}, 1),
    }


def opened() -> Run:
    records: list[Record] = [Header(schema=1, run="0" * 32, host="node17")]
    for launch, ranks in enumerate((2, 4, 8)):
        records.append(Plan(launch=launch))
        records += [
            Variant(
                launch=launch,
                variant=name,
                module=name,
                launch_s=0.1,
                ranks=[
                    Rank(rank=r, resident_bytes=(5 + ranks) << 20, open_s=0.2 * cost) for r in range(ranks)
                ],
            )
            for name, cost in (("mpi", 2), ("shm", 1))
        ]
    return Run(records)


def of_loggp() -> Run:
    made = patterned()
    for planned in made.plans[0].modes:
        if planned.name == "overhead":
            planned.name = planned.pattern = "loggp"
    for one in made.points:
        if one.pattern == "overhead":
            one.pattern = "loggp"
            byte = one.size_bytes - 1
            one.measures = [
                measure(name, "ns", fixed + byte * slope)
                for name, fixed, slope in (
                    ("o_s", 90, 0.1),
                    ("o_r", 80, 0.1),
                    ("gap", 200, 0.2),
                    ("transfer", 500, 0.1),
                )
            ]
    return made


def scaled() -> Run:
    """The same variant with 2, 4 and 8 ranks."""
    made = run(LAYERS[2:3], [8, 1024])
    few = list(made.points)
    for ranks in (4, 8):
        name = f"shm:ranks={ranks}"
        made.variants.append(Variant(variant=name, module="shm", ranks=[Rank(rank=r) for r in range(ranks)]))
        made.points += [point(name, one.size_bytes, one.median_ns * ranks / 2) for one in few]
    return made


def reused() -> Run:
    made = run(LAYERS[2:3], [8, 1024, 65536])
    made.plans[0].modes = [
        mode(f"pingpong:reuse={n}" if n < 100 else "pingpong", reuse="100") for n in (0, 50, 100)
    ]
    made.plans[0].patterns = [one.pattern for one in made.plans[0].modes]
    for n in (0, 50):
        made.points += [
            point("shm", one.size_bytes, one.median_ns * (2 - n / 100), pattern=f"pingpong:reuse={n}")
            for one in made.points[:3]
        ]
    return made


ON_A_PAGE = {
    "settings": "window",
    "sweep": "offered",
    "measures": "overlap",
    "distribution": "pingpong",
    "waterfall": "pingpong",
}


@pytest.mark.parametrize("figure", [one.name for one in figures.every(figures.RUN)])
def test_every_figure_is_drawn(runs: dict[str, Run], figure: str, tmp_path: Path) -> None:
    made = runs[MADE.get(figure, "patterned")]
    needs = {"profiles": (one_message(),)} if figure == "sensitivity" else {}
    assert figures.why_not(figures.get(figure), Scope((Reading(made),), **needs)) is None
    wanted = ON_A_PAGE.get(figure)
    known = {one.pattern for one in made.points}
    patterns = tuple(sorted(one for one in known if one.partition(":")[0] == wanted)) if wanted else ()
    sizes = (8,) if figure == "sweep" else ()
    draw([made], figure, tmp_path / "f.svg", "svg", patterns=patterns, sizes=sizes, **needs)
    made_panels, _ = panels([made], figure, patterns=patterns, sizes=sizes, **needs)
    said = names((tmp_path / "f.svg").read_text())
    labels = {
        line.label
        for one in made_panels
        for view in one.views
        if isinstance(view, Picture)
        for line in view.lines
    }
    assert labels <= {*said, ""}


@pytest.mark.parametrize("figure", figures.names())
def test_a_figure_without_data_says_why(figure: str) -> None:
    why = figures.why_not(figures.get(figure), Scope((Reading(Run()),)))
    assert why is not None
    assert not why.endswith(".")


def test_every_figure_is_registered_whole() -> None:
    sections = {"curves", "patterns", "loggp", "openings", "machine", "more"}
    for one in figures.every():
        assert one.help, one.name
        of_page = {"time", "messages"} if one.needs == (figures.PROFILE,) else sections
        assert one.section in of_page, one.name
        assert set(one.options) <= set(figures.OPTIONS), one.name
        assert not one.part_of or one.part_of in figures.names(), one.name


def test_the_reference_names_every_figure() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/figures.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|(.*)\|$", page, re.MULTILINE)
    assert sorted(name for name, _, _ in rows) == sorted(one.name for one in figures.every(figures.RUN))
    for name, _, paper in rows:
        assert paper.strip() == (figures.get(name).paper or "–"), name


def test_pairs_are_a_symmetric_map(runs: dict[str, Run]) -> None:
    (panel,), _ = panels([runs["patterned"]], "pairs", ["tcp"], sizes=(1024,))
    (view,) = panel.views
    assert isinstance(view, Map)
    assert view.values == tuple(zip(*view.values, strict=True))
    assert view.values[0][0] is None
    assert max(value for row in view.values for value in row if value) == view.values[0][3]


def test_a_single_pair_is_no_map() -> None:
    alone = [
        point("tcp", size, 100.0, cells=[Cell(rank=0, peer=1, median_ns=100.0, slowest=9)]) for size in SIZES
    ]
    with pytest.raises(NothingToDraw, match="no chosen curve has times of several pairs"):
        panels([Run(alone)], "pairs")


def test_a_name_stays_above_its_part() -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4, 2))
    canvas = FigureCanvasAgg(figure)
    long, short = figure.text(0, 0.5, "a name that is too long, " * 4), figure.text(0, 0.5, "short")
    drawing._shorten(figure, long, 1.5)
    drawing._shorten(figure, short, 1.5)
    assert 1.2 < long.get_window_extent(canvas.get_renderer()).width / figure.dpi <= 1.5
    assert long.get_text().endswith("…")
    assert short.get_text() == "short"


def test_a_distribution_is_that_of_the_chosen_size(runs: dict[str, Run]) -> None:
    made = runs["patterned"]
    (panel,), _ = panels([made], "distribution", ["tcp"], patterns=("pingpong",), sizes=(65536,))
    (view,) = panel.views
    assert isinstance(view, Distribution)
    at = next(p for p in made.points if (p.variant, p.pattern, p.size_bytes) == ("tcp", "pingpong", 65536))
    assert dict(view.marks)["median"] == at.median_ns
    assert at.histogram is not None
    assert sum(view.count) == sum(at.histogram.count)


def test_time_over_the_number_of_ranks(runs: dict[str, Run]) -> None:
    (times, ratios), _ = panels([runs["scaled"]], "scaling", sizes=(8,))
    (view,), (ratio,) = times.views, ratios.views
    assert isinstance(view, Picture)
    assert isinstance(ratio, Picture)
    median = next(line for line in view.lines if not line.faint)
    assert (median.label, median.x) == ("shm", (2, 4, 8))
    assert ratio.lines[0].y == pytest.approx((1, 2, 4))


def test_variants_that_differ_in_a_number_are_a_sweep() -> None:
    layers = [
        Layer(f"tcp:sndbuf={n}k", None, None, 1e4 + n, ((1e5, 3e9), (1e9, 1e9))) for n in (4, 16, 64, 256)
    ]
    made = run(layers, [8, 1024])
    for variant in made.plans[0].variants:
        variant.options = {"sndbuf": variant.variant.partition("=")[2]}
    (times, _), _ = panels([made], "sweep", sizes=(8,))
    assert times.title == "Time over sndbuf"
    (view,) = times.views
    assert isinstance(view, Picture)
    assert view.lines[0].x == (4096, 16384, 65536, 262144)
    assert [text for _, text in ticks(view.x)] == ["4k", "16k", "64k", "256k"]


def test_numbers_read_as_options_are_written() -> None:
    assert [number_text(n) for n in (0, 8, 0.5, 1000, 4096, 1 << 20)] == ["0", "8", "0.5", "1000", "4k", "1M"]


def test_a_bare_name_stands_for_all_settings(runs: dict[str, Run], tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    made = runs["patterned"]
    for one in made.points:
        one.pattern = one.pattern.replace("overlap", "overlap:computes=one")
    records = [made.header, *made.plans, *made.variants, *made.points]
    file.write_bytes(b"".join(encode(one) for one in records if one is not None))
    for figure, pattern in (("overlap", "overlap"), ("settings", "window"), ("latency", "offered")):
        output = tmp_path / f"{figure}.svg"
        done = CliRunner().invoke(
            plot.command, [str(file), "--figure", figure, "--pattern", pattern, "-o", str(output)]
        )
        assert done.exit_code == 0, done.exception
    assert "in_flight=64" in names((tmp_path / "settings.svg").read_text())


def test_the_list_says_what_can_be_drawn(run_file: Path) -> None:
    done = CliRunner().invoke(plot.command, [str(run_file), "--list"])
    there, lacking = done.output.split("It lacks the data for:")
    assert re.search("^  throughput  ", there, re.MULTILINE)
    assert re.search("^  pairs  .*no chosen curve has times of several pairs", lacking, re.MULTILINE)
    assert all(f"\n  {one.name} " in done.output for one in figures.every(figures.RUN))


def test_an_option_without_effect_is_refused(run_file: Path, tmp_path: Path) -> None:
    for arguments, sentence in (
        (["--size", "8"], "--size has no effect on the figure throughput; it applies to distribution"),
        (["--figure", "latency", "--scale", "log"], "--scale has no effect on the figure latency"),
        (["--figure", "distribution", "--size", "9"], "no points of 9 bytes; the nearest is 8 (8 B)"),
        (["--figure", "distribution", "--size", "x"], "--size x is not a size"),
    ):
        done = CliRunner().invoke(plot.command, [str(run_file), *arguments])
        assert isinstance(done.exception, Failure), arguments
        assert done.exception.exit_code == USAGE
        assert sentence in done.exception.sentence
