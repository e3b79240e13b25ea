# SPDX-License-Identifier: Apache-2.0
"""netpipe export and import: what goes out comes back, to the last digit that the format has."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netpipe.records import Cell, Histogram, Measure, Point, Run
from netpipe.render.export import npout, table

if TYPE_CHECKING:
    from conftest import Netpipe

times = st.floats(min_value=0.5, max_value=1e12)
sizes = st.integers(1, 2**50)
curves = st.lists(
    st.builds(
        lambda size, median, least, most: Point(
            variant="tcp",
            pattern="pingpong",
            size_bytes=size,
            median_ns=median,
            mean_ns=median,
            min_ns=median * least,
            max_ns=median * most,
            bytes_per_s=size / median * 1e9,
            measures=[Measure(name="overlap", unit="ns", median=median / 2, low=None, high=median)]
            if size % 2
            else [],
            cells=[Cell(rank=0, peer=1, median_ns=median, slowest=3)] if size % 3 else [],
        ),
        sizes,
        times,
        st.floats(0.5, 1),
        st.floats(1, 2),
    ),
    min_size=1,
    unique_by=lambda point: point.size_bytes,
)
points = st.lists(
    st.builds(
        Point,
        launch=st.integers(0, 9),
        variant=st.sampled_from(["tcp", 'shm:wait="poll",x=1', "π:y=ä,z=\\"]),
        pattern=st.sampled_from(["pingpong", "stream"]),
        size_bytes=st.integers(0, 2**62),
        state=st.none() | st.integers(0, 3),
        single=st.booleans(),
        median_ns=times,
        low_ns=st.none() | times,
        half_width=st.none() | times,
        converged=st.none() | st.booleans(),
        stop=st.none() | st.sampled_from(["precision", "budget"]),
        histogram=st.none()
        | st.builds(
            Histogram,
            resolution=st.just(1 / 128),
            low_ns=st.lists(times, min_size=1),
            count=st.lists(st.integers(1, 2**40), min_size=1),
        ),
        measures=st.lists(
            st.builds(Measure, name=st.just("overlap"), unit=st.just("1"), median=st.none() | times)
        ),
        cells=st.lists(st.builds(Cell, rank=st.integers(0, 9), peer=st.none() | st.integers(0, 9))),
    ),
    min_size=1,
    max_size=20,
)


@given(curves)
def test_npout_of_netpipe_3_comes_back(curve: list[Point]) -> None:
    back = list(npout.read(npout.write(curve, "npout3"), "npout3", "tcp", "pingpong"))
    for before, after in zip(sorted(curve, key=lambda p: p.size_bytes), back, strict=True):
        assert after.size_bytes == before.size_bytes
        assert math.isclose(after.median_ns, before.median_ns, rel_tol=1e-6, abs_tol=0.001)
        assert math.isclose(after.bytes_per_s or 0, before.bytes_per_s or 0, rel_tol=1e-6)


@given(curves)
def test_npout_of_netpipe_5_comes_back(curve: list[Point]) -> None:
    back = list(npout.read(npout.write(curve, "npout5"), "npout5", "tcp", "pingpong"))
    for before, after in zip(sorted(curve, key=lambda p: p.size_bytes), back, strict=True):
        assert after.size_bytes == before.size_bytes
        for name in ("mean_ns", "min_ns", "max_ns"):
            assert math.isclose(getattr(after, name), getattr(before, name), rel_tol=1e-6, abs_tol=0.001)


@pytest.mark.parametrize("form", table.FORMATS)
@settings(max_examples=30, deadline=None)  # each writes and reads a file
@given(some=points)
def test_a_table_comes_back(form: str, some: list[Point]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "points"
        table.write(some, form, path)
        back = list(table.read(path, form))
    if form == "csv":  # has no room for them
        for point in some:
            point.histogram = None
    assert back == some


def test_the_units_of_netpipe_3_are_binary_megabits() -> None:
    """A real line of NetPIPE 3.7.2: 1 MiB in 0.00832 s is 961.5 of its "Mbps", which are 1008 decimal ones."""
    point = next(npout.read("1048576 961.538462 0.00832000", "npout3", "NPtcp", "pingpong"))
    assert point.bytes_per_s == pytest.approx(1048576 / 0.00832)
    assert point.median_ns == pytest.approx(8_320_000)


def test_the_units_of_netpipe_5_are_decimal() -> None:
    point = next(npout.read("1048576 1.0082 0.9 1.1 8320", "npout5", "NPtcp", "pingpong"))
    assert point.bytes_per_s == pytest.approx(1.0082e9 / 8)
    assert (point.min_ns, point.max_ns) == (
        pytest.approx(8320e3 * 1.0082 / 1.1),
        pytest.approx(8320e3 * 1.0082 / 0.9),
    )


def test_what_netpipe_3_rounded_to_nothing_is_had_from_its_rate() -> None:
    point = next(npout.read("64 244140.625 0.00000000", "npout3", "NPmemcpy", "pingpong"))
    assert point.median_ns == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1 2 3\nbytes Mbps seconds\n", "line 2 is 'bytes Mbps seconds', and npout3 has bytes Mbps seconds"),
        ("1 2 3 4 5\n", "line 1 is '1 2 3 4 5', and npout3 has bytes Mbps seconds; is it npout5?"),
        ("1.5 2 3\n", "line 1"),
        ("-1 2 3\n", "line 1"),
        ("1 nan 3\n", "line 1"),
        ("1 0 0\n", "line 1"),
    ],
)
def test_a_line_that_is_none_is_named(text: str, says: str) -> None:
    with pytest.raises(npout.NotNpOut) as refused:
        list(npout.read(text, "npout3", "x", "pingpong"))
    assert says in str(refused.value)


# ------------------------------------------------------------------------------------------- on the command line


@pytest.fixture
def run(netpipe: Netpipe) -> Run:
    netpipe("run", "tcp", "shm", "--schedule", "powers", "--end", "64", "-q")
    return Run.read("run.jsonl")


@pytest.mark.parametrize("form", ["csv", "parquet", "json"])
def test_there_and_back_by_the_ending(netpipe: Netpipe, run: Run, form: str) -> None:
    assert netpipe("export", "-o", f"points.{form}").code == 0
    said = netpipe("import", f"points.{form}", "-o", "back.jsonl")
    assert (said.code, said.err) == (0, "netpipe: 14 points written to back.jsonl\n")
    back = Run.read("back.jsonl")
    if form == "csv":
        for point in run.points:
            point.histogram = None
    assert back.points == run.points
    assert [one.variant for one in back.variants] == list(
        dict.fromkeys(point.variant for point in run.points)
    )


@pytest.mark.parametrize("form", ["npout3", "npout5"])
def test_npout_is_one_curve(netpipe: Netpipe, run: Run, form: str) -> None:
    said = netpipe("export", "--format", form)
    assert said.code == 2
    assert "np.out holds one curve; choose with --variant: " in said.err
    said = netpipe("export", "--format", form, "--variant", "tcp")
    assert len(said.out.splitlines()) == 7
    Path("np.out").write_text(said.out)
    assert netpipe("import", "np.out", "--variant", "NPtcp").code == 0
    back = Run.read("np.jsonl")
    assert [point.size_bytes for point in back.points] == [1, 2, 4, 8, 16, 32, 64]
    assert back.variants[0].ranks[0].settings["source"].startswith(f"NetPIPE {form[-1]}:")
    assert "NPtcp" in netpipe("show", "np.jsonl").out


def test_csv_is_for_standard_output_too(netpipe: Netpipe, run: Run) -> None:
    said = netpipe("export", "--variant", "shm", "--format", "csv")
    assert polars.read_csv(said.out.encode())["size_bytes"].to_list() == [
        point.size_bytes for point in run.points if point.variant == "shm"
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("export", "--variant", "tpc"), "the run has no points of variant 'tpc'; did you mean 'tcp'?"),
        (("export", "--pattern", "stream"), "the run has no points of pattern 'stream'; it has pingpong"),
        (("export", "--launch", "3"), "the run has no points of launch 3"),
        (("export", "gone.jsonl"), "gone.jsonl: No such file or directory"),
        (("import", "gone.out"), "gone.out: No such file or directory"),
        (("import", "wrong.csv"), "wrong.csv: row 1 is no point: object missing required field"),
        (("import", "wrong.json"), "wrong.json: it is no list of objects"),
        (("import", "wrong.out"), "wrong.out has 2 columns, and an np.out has 3 or 5; name its --format"),
        (("import", "empty.out"), "empty.out has 0 columns"),
        (("import", "run.parquet"), "run.parquet"),
        (("import", "empty.out", "--format", "npout3"), "empty.out has no points"),
    ],
)
def test_what_cannot_be_is_a_sentence(
    netpipe: Netpipe, run: Run, arguments: tuple[str, ...], says: str
) -> None:
    Path("wrong.csv").write_text("variant,size_bytes\ntcp,8\n")
    Path("wrong.json").write_text("{}")
    Path("wrong.out").write_text("1 2\n")
    Path("empty.out").write_text("")
    Path("run.parquet").write_text("PAR?")
    before = sorted(Path().iterdir())
    said = netpipe(*arguments)
    assert said.code == 2
    assert says in said.err
    assert said.err.count("\n") == 1
    assert sorted(Path().iterdir()) == before


def test_import_replaces_no_other_file(netpipe: Netpipe, run: Run) -> None:
    Path("np.out").write_text("1 2 3\n")
    Path("np.jsonl").write_text("my notes\n")
    said = netpipe("import", "np.out")
    assert said.code == 2
    assert Path("np.jsonl").read_text() == "my notes\n"
