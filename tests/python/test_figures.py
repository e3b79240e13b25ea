# SPDX-License-Identifier: Apache-2.0
"""Figures for print."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from synthetic import Layer, point, run

from netpipe.cli import plot
from netpipe.failure import USAGE, Failure
from netpipe.reading import Reading
from netpipe.records import Header, Point, Run, encode
from netpipe.render.figures import draw as figures
from netpipe.render.figures.draw import draw, spread
from netpipe.render.figures.pictures import FIGURES, Axis, NothingToDraw, Picture, picture
from netpipe.render.figures.ticks import MOST, tick_text, ticks

SIZES = [1, 8, 64, 1024, 16384, 262144, 4194304]
MAGIC = {"svg": b"<?xml", "png": b"\x89PNG\r\n", "pdf": b"%PDF-"}
HOSTILE = "tcp:$\\frac{1}{0}$--><img src=x onerror=alert(1)> & \"'"


@pytest.fixture(scope="module")
def real() -> Run:
    return run(sizes=SIZES, moved=True)


def names(svg: str) -> list[str]:
    """Text is drawn as outlines; matplotlib leaves the text itself as a comment before them."""
    return re.findall(r"<!-- (.*?) -->", svg, re.DOTALL)


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize("file_format", figures.FORMATS)
def test_every_figure_is_written_in_every_format(
    real: Run, figure: str, file_format: str, tmp_path: Path
) -> None:
    path = tmp_path / "figure"
    draw(picture([Reading(real)], figure), path, file_format)
    written = path.read_bytes()
    assert written.startswith(MAGIC[file_format])
    assert len(written) > 10_000


@pytest.mark.parametrize("figure", FIGURES)
def test_every_curve_and_bound_is_named_in_the_figure(real: Run, figure: str, tmp_path: Path) -> None:
    drawn = picture([Reading(real)], figure)
    draw(drawn, tmp_path / "f.svg", "svg")
    said = names((tmp_path / "f.svg").read_text())
    assert len(drawn.lines) >= 5
    for label in [line.label for line in drawn.lines] + [bound.label for bound in drawn.bounds]:
        assert label in said
    assert drawn.title in said
    assert "node17, AMD EPYC 9454 48-Core Processor  ·  2026-03-01 12:00 UTC" in said


def test_an_svg_needs_no_font_and_no_network(real: Run, tmp_path: Path) -> None:
    draw(picture([Reading(real)], "throughput"), tmp_path / "f.svg", "svg")
    svg = (tmp_path / "f.svg").read_text()
    assert "<text" not in svg
    assert "font-family" not in svg
    assert "<image" not in svg
    assert not re.search(r"(href|src)\s*=\s*[\"'](?!#)", svg)


@pytest.mark.parametrize("file_format", figures.FORMATS)
def test_the_same_run_gives_the_same_bytes(real: Run, file_format: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        draw(picture([Reading(real)], "latency"), tmp_path / name, file_format)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_hostile_name_is_text(tmp_path: Path) -> None:
    made = Run([point(HOSTILE, size, 100.0 + size) for size in SIZES])
    for file_format in figures.FORMATS:
        draw(picture([Reading(made)], "throughput", title=HOSTILE), tmp_path / "f", file_format)
        assert (tmp_path / "f").stat().st_size > 5_000
        if file_format == "svg":
            svg = (tmp_path / "f").read_text()
            assert "<img" not in re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)


# --------------------------------------------------------------------------------------------------- the data


def test_points_that_did_not_converge_are_hollow(real: Run) -> None:
    drawn = picture([Reading(real)], "throughput", ["tcp"])
    (line,) = drawn.lines
    loose = {p.size_bytes for p in real.points if p.variant == "tcp" and not p.converged}
    assert {size for size, hollow in zip(line.size_bytes, line.hollow, strict=True) if hollow} == loose


@pytest.mark.parametrize("figure", FIGURES)
def test_every_figure_has_its_bounds(real: Run, figure: str) -> None:
    drawn = picture([Reading(real)], figure)
    said = [bound.label for bound in drawn.bounds] + list(drawn.beyond)
    if figure == "loss":
        assert said == ["all of it"]
    else:
        assert any(label.startswith("memory copy") for label in said)
        assert any(label.startswith("harness floor") for label in said)


@pytest.mark.parametrize("figure", FIGURES)
def test_curves_and_bounds_lie_inside_the_axes(real: Run, figure: str) -> None:
    drawn = picture([Reading(real)], figure)
    inside = [(line.x, line.y) for line in drawn.lines] + [(bound.x, bound.y) for bound in drawn.bounds]
    for xs, ys in inside:
        assert all(drawn.x.holds(x) for x in xs)
        assert all(drawn.y.holds(y * (1 + 1e-12)) or drawn.y.holds(y * (1 - 1e-12)) for y in ys)


def test_the_floor_of_the_harness_is_no_layer(real: Run) -> None:
    assert "null" not in [line.variant for line in picture([Reading(real)], "latency").lines]
    assert [line.variant for line in picture([Reading(real)], "latency", ["null"]).lines] == ["null"]


def test_the_figures_agree_with_the_points(real: Run) -> None:
    at = next(p for p in real.points if p.variant == "tcp" and p.size_bytes == 1024)
    found: dict[str, tuple[float, ...]] = {}
    for figure in ("throughput", "latency", "signature", "saturation"):
        (line,) = picture([Reading(real)], figure, ["tcp"]).lines
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
    colors = [
        {line.variant: line.color for line in picture([Reading(real)], figure).lines} for figure in FIGURES
    ]
    assert all(colors[0][variant] == color for some in colors for variant, color in some.items())


def test_runs_laid_over_each_other_share_colours_and_differ_in_dashes(real: Run) -> None:
    old = [
        Point(variant="tcp", pattern="pingpong", size_bytes=n, median_ns=3e4, bytes_per_s=n / 3e4 * 1e9)
        for n in SIZES
    ]
    imported = Run([Header(schema=1, run="0" * 32), *old], path="np.out")
    now, then = picture([Reading(real), Reading(imported)], "throughput", ["tcp"]).lines
    assert now.color == then.color
    assert now.dash != then.dash
    assert then.label == "tcp, np"
    assert not any(then.hollow)  # nobody knows whether they converged


def test_a_linear_axis_is_kept_where_no_curve_is_pressed_flat(real: Run) -> None:
    assert picture([Reading(real)], "throughput").y.log
    logarithmic = [
        picture([Reading(real)], "throughput", ["unix", "tcp"], log=log).y.log for log in (None, True, False)
    ]
    assert logarithmic == [False, True, False]


def test_what_is_not_there_is_said(real: Run) -> None:
    with pytest.raises(NothingToDraw, match="nothing to draw for mpi; there are null \\(pingpong\\), memcpy"):
        picture([Reading(real)], "throughput", ["mpi"])
    with pytest.raises(NothingToDraw, match="no two of the layers stand on each other"):
        picture([Reading(real)], "loss", ["memcpy"])
    with pytest.raises(NothingToDraw, match="no size was finished"):
        picture([Reading(Run())], "throughput")


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
    draw(picture([Reading(made)], "throughput"), tmp_path / "f.svg", "svg")
    said = names((tmp_path / "f.svg").read_text())
    assert all(layer.name in said for layer in layers)


def test_one_point_is_a_figure(tmp_path: Path) -> None:
    for figure in FIGURES:
        drawn: Picture = picture([Reading(run(sizes=[8]))], figure)
        assert drawn.x.low < drawn.lines[0].x[0] < drawn.x.high
        draw(drawn, tmp_path / "f.png", "png")


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
        (["-o", str(tmp_path / "f.gif")], "names no format"),
    ):
        done = CliRunner().invoke(plot.command, [str(run_file), *arguments])
        assert isinstance(done.exception, Failure)
        assert done.exception.exit_code == USAGE
        assert sentence in done.exception.sentence


def test_the_command_offers_all_figures_and_formats() -> None:
    assert tuple(FIGURES) == plot.FIGURES
    assert figures.FORMATS == plot.FORMATS
