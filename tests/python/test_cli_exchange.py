# SPDX-License-Identifier: Apache-2.0
"""netpipe export and import: what goes out comes back, to the last digit that the format has."""

from __future__ import annotations

import csv
import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netpipe.cli.export import exported
from netpipe.findings import examples
from netpipe.frames import load
from netpipe.reading import Reading
from netpipe.records import Cell, Header, Histogram, Measure, Point, Run, encode
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
# Names and units that a column's name must keep apart.
UNITS = [
    ("overlap", "ns"),
    ("overlap", "1"),
    ("overlap_ns", "1"),
    ("tested", "1/s"),
    ("x", "bytes/s"),
    ("x", ""),
    ("x", "µJ"),
]
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
        measures=st.lists(st.sampled_from(UNITS), unique=True).flatmap(
            lambda some: st.tuples(
                *(
                    st.builds(
                        Measure, name=st.just(name), unit=st.just(unit), median=times, low=st.none() | times
                    )
                    for name, unit in sorted(some)
                )
            ).map(list)
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
        path.write_bytes(table.write(some, form))
        back = list(table.read(path, form))
    if form == "csv":  # has no room for them
        for point in some:
            point.histogram = None
    assert [sorted_measures(point) for point in back] == [sorted_measures(point) for point in some]


def sorted_measures(point: Point) -> Point:
    """Columns keep measures, not their order within a point."""
    return msgspec.structs.replace(
        point, measures=sorted(point.measures, key=lambda one: (one.name, one.unit))
    )


def test_measures_are_columns_with_their_unit(tmp_path: Path) -> None:
    """The columns of every unit that patterns use, as docs/reference/record.md has them."""
    with_measures = Point(
        variant="shm",
        pattern="overlap",
        size_bytes=8,
        median_ns=1.0,
        measures=[
            Measure(name="overlap", unit="ns", median=5.0, low=4.0, high=6.0),
            Measure(name="fraction", unit="1", median=0.5),
            Measure(name="reached", unit="1/s", median=2.0),
            Measure(name="one_pair", unit="bytes/s", median=3.0),
        ],
    )
    without = Point(variant="tcp", pattern="pingpong", size_bytes=8, median_ns=2.0)
    (tmp_path / "p.csv").write_bytes(table.write([without, with_measures], "csv"))
    rows = polars.read_csv(tmp_path / "p.csv")
    assert rows["measure_overlap_ns"].to_list() == [None, 5.0]
    assert rows["measure_overlap_ns_low"].to_list() == [None, 4.0]
    assert rows["measure_overlap_ns_high"].to_list() == [None, 6.0]
    assert rows["measure_fraction"].to_list() == [None, 0.5]
    assert rows["measure_reached_per_s"].to_list() == [None, 2.0]
    assert rows["measure_one_pair_bytes_per_s"].to_list() == [None, 3.0]
    assert "measures" not in rows.columns


def test_a_csv_of_an_older_version_is_read(tmp_path: Path) -> None:
    """There measures and cells were JSON text."""
    (tmp_path / "old.csv").write_text(
        "launch,variant,pattern,size_bytes,median_ns,single,measures,cells\n"
        '0,tcp,overlap,8,5.0,false,"[{""name"":""overlap"",""unit"":""1"",""median"":0.5,""low"":null,""high"":null}]",\n'
        '0,tcp,pairs,8,5.0,false,,"[{""rank"":0,""peer"":1,""median_ns"":2.0,""slowest"":3}]"\n'
    )
    first, second = table.read(tmp_path / "old.csv", "csv")
    assert first.measures == [Measure(name="overlap", unit="1", median=0.5)]
    assert second.cells == [Cell(rank=0, peer=1, median_ns=2.0, slowest=3)]


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "'=1", "\t=1", "tcp"])
def test_a_text_is_no_formula_for_a_spreadsheet(name: str, tmp_path: Path) -> None:
    made = Point(variant=name, pattern="pingpong", size_bytes=8, median_ns=-1.0)
    (tmp_path / "p.csv").write_bytes(table.write([made], "csv"))
    (row,) = csv.DictReader((tmp_path / "p.csv").open())
    assert row["variant"][0] not in "=+-@\t"
    assert row["median_ns"] == "-1.0", "a number stays a number"
    assert list(table.read(tmp_path / "p.csv", "csv")) == [made]


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


def test_tables_of_imb_are_of_one_variant(netpipe: Netpipe, run: Run) -> None:
    said = netpipe("export", "--format", "imb")
    assert said.code == 2
    assert "IMB tables are of one variant; choose with --variant: " in said.err
    said = netpipe("export", "--format", "imb", "--variant", "tcp")
    assert "# Benchmarking PingPong" in said.out
    assert [
        line.split()[0] for line in said.out.splitlines() if line[:1] == " " and line.split()[0].isdigit()
    ] == [str(1 << power) for power in range(7)]


def rows_of(path: Path, form: str) -> list[dict[str, Any]]:
    whole = path.read_bytes()
    if form == "json":
        return msgspec.json.decode(whole)
    return (polars.read_csv if form == "csv" else polars.read_parquet)(whole).to_dicts()


@pytest.mark.parametrize("form", table.FORMATS)
def test_a_table_of_sizes_has_the_numbers_of_the_whole_run(netpipe: Netpipe, form: str) -> None:
    """One row for each size of three launches, as npout5 and the tables on the terminal have them."""
    netpipe("run", "tcp", "--schedule", "powers", "--end", "64", "--launches", "3", "-q")
    said = netpipe("export", "--table", "sizes", "-o", f"sizes.{form}")
    assert (said.code, said.err) == (0, "")
    rows = rows_of(Path(f"sizes.{form}"), form)
    assert [row["size_bytes"] for row in rows] == [1, 2, 4, 8, 16, 32, 64]
    assert list(rows[0]) == [*table.SIZES, *(["measures"] if form == "json" else [])]
    curve = Reading(Run.read("run.jsonl")).curves[0]
    for row, at in zip(rows, curve.points, strict=True):
        assert row["median_ns"] == at.time_ns.value
        assert (row["low_ns"], row["high_ns"]) == (at.time_ns.low, at.time_ns.high)
        assert row["samples"] == sum(point.samples or 0 for point in at.by_launch)
        assert row["min_ns"] == min(point.min_ns or 0 for point in at.by_launch)


@pytest.mark.parametrize("form", table.FORMATS)
def test_a_table_of_sizes_has_the_measures_of_all_launches(tmp_path: Path, form: str) -> None:
    """A size whose pattern says nothing else has none."""
    times = {"pattern": "overlap", "variant": "shm", "median_ns": 1000.0}
    run = examples.run(
        *(examples.point(**times, size_bytes=64, launch=launch) for launch in range(3)),
        *(
            examples.point(
                **times,
                size_bytes=8,
                launch=launch,
                measures=[examples.measure("overlap", "ns", 100.0 * (1 + launch))],
            )
            for launch in range(3)
        ),
    )
    (measured,) = Reading(run).measures
    of_all = measured.values[8]
    assert of_all.low < of_all.value != 100.0, "it is not that of the first launch"
    path = tmp_path / "sizes"
    path.write_bytes(exported(run, form, (), (), None, "sizes"))
    small, large = sorted(rows_of(path, form), key=lambda row: row["size_bytes"])
    numbers = [of_all.value, of_all.low, of_all.high]
    if form == "json":
        said = dict(zip(("median", "low", "high"), numbers, strict=True))
        assert small["measures"] == [{"name": "overlap", "unit": "ns", **said}]
        assert large["measures"] == []
    else:
        columns = ["measure_overlap_ns", "measure_overlap_ns_low", "measure_overlap_ns_high"]
        assert [small[name] for name in columns] == numbers
        assert [large[name] for name in columns] == [None] * 3


def test_a_table_of_sizes_is_of_no_single_launch(netpipe: Netpipe, run: Run) -> None:
    said = netpipe("export", "--table", "sizes", "--launch", "0")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "leave --launch or --table out" in said.err


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
        (("import", "gone.csv"), "gone.csv: No such file or directory"),
        (("import", "gone.parquet"), "gone.parquet: No such file or directory"),
        (("import", "wrong.csv"), "wrong.csv: row 1 is not a point: object missing required field"),
        (("import", "wrong.json"), "wrong.json: it is not a list of objects"),
        (("import", "wrong.out"), "wrong.out has 2 columns, and np.out has 3 or 5; no other known program"),
        (("import", "empty.out"), "empty.out has 0 columns"),
        (("import", "run.parquet"), "run.parquet"),
        (("import", "run.jsonl"), "run.jsonl is a run of netpipe already; name it to show"),
        (("import", "empty.out", "--format", "npout3"), "empty.out has no points"),
        (
            ("import", "wrong.csv", "--variant", "tcp"),
            "--variant is for an np.out; csv names its curves itself",
        ),
        (("import", "wrong.json", "--pattern", "stream"), "--pattern is for an np.out"),
        (("export", "-o", "gone/points.parquet"), "gone/points.parquet: No such file or directory"),
        (("export", "-o", "gone/points.csv"), "gone/points.csv: No such file or directory"),
        (("export", "-o", "run.jsonl"), "run.jsonl is a run and is not overwritten"),
        (("plot", "--format", "svg", "-o", "run.jsonl"), "run.jsonl is a run and is not overwritten"),
        (("report", "-o", "run.jsonl"), "run.jsonl is a run and is not overwritten"),
        (
            ("run", "tcp", "-o", "new.jsonl", "--report", "run.jsonl"),
            "run.jsonl is a run and is not overwritten",
        ),
        (("run", "tcp", "-o", "new.jsonl", "--report", "."), ".: Is a directory"),
        (("run", "tcp", "-o", "new.jsonl", "--report", "gone/report.html"), "gone/report.html: No such file"),
        (("run", "tcp", "-o", "new.jsonl", "--report", "new.jsonl"), "--report new.jsonl is the run file"),
        (("run", "tcp", "-o", "new.jsonl", "--report", "run.jsonl/x"), "run.jsonl/x: Not a directory"),
        (("run", "tcp", "-o", "new.jsonl", "--report", "x" * 300), "x: File name too long"),
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
    before = {path: path.read_bytes() for path in Path().iterdir()}
    said = netpipe(*arguments)
    assert said.code == 2
    assert says in said.err
    assert said.err.count("\n") == 1
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


@pytest.mark.parametrize("point", ["8,NaN", "8,inf", "-8,1.0"])
def test_what_is_no_number_of_a_point_is_not_imported(netpipe: Netpipe, point: str) -> None:
    """JSON has no NaN: the run would not be readable."""
    Path("t.csv").write_text(
        f"variant,pattern,size_bytes,median_ns\ntcp,pingpong,8,1.0\ntcp,pingpong,{point}\n"
    )
    said = netpipe("import", "t.csv")
    assert said.code == 2
    assert "t.csv: row 2 is not a point: " in said.err
    assert not Path("t.jsonl").exists()


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_parquet_file_may_hold_what_a_run_cannot(netpipe: Netpipe, value: float) -> None:
    point = {"variant": ["tcp"], "pattern": ["pingpong"], "size_bytes": [8], "median_ns": [value]}
    polars.DataFrame(point).write_parquet("t.parquet")
    said = netpipe("import", "t.parquet")
    assert said.code == 2
    assert "t.parquet: row 1 is not a point: " in said.err
    assert not Path("t.jsonl").exists()


def test_a_name_of_digits_alone_comes_back(netpipe: Netpipe) -> None:
    Path("np.out").write_text("8 1.0 0.00001\n")
    assert netpipe("import", "np.out", "--variant", "007", "--pattern", "1").code == 0
    assert netpipe("export", "np.jsonl", "-o", "t.csv").code == 0
    assert netpipe("import", "t.csv").code == 0
    (point,) = Run.read("t.jsonl").points
    assert (point.variant, point.pattern) == ("007", "1")


@pytest.mark.parametrize("form", table.FORMATS)
def test_a_full_disk_is_a_sentence(netpipe: Netpipe, run: Run, form: str) -> None:
    said = netpipe("export", "-o", "/dev/full", "--format", form)
    assert (said.code, said.err) == (4, "netpipe: No space left on device; free some space\n")


def test_a_report_does_not_take_the_place_of_the_run_that_it_is_about(netpipe: Netpipe) -> None:
    """The name of the report is a link that leads nowhere before the run is there."""
    small = ("--sizes", "8", "--budget", "0.1")
    Path("report.html").symlink_to("run.jsonl")
    said = netpipe("run", "tcp", *small, "-q", "--report", "report.html")
    sentence = "report.html is a run and is not overwritten; choose another name"
    assert (said.code, said.err) == (2, f"netpipe: {sentence}\n")
    assert Run.read("run.jsonl").points


def test_import_replaces_no_other_file(netpipe: Netpipe, run: Run) -> None:
    Path("np.out").write_text("1 2 3\n")
    Path("np.jsonl").write_text("my notes\n")
    said = netpipe("import", "np.out")
    assert said.code == 2
    assert Path("np.jsonl").read_text() == "my notes\n"


@pytest.mark.parametrize("form", table.FORMATS)
def test_cells_are_a_long_table(netpipe: Netpipe, form: str) -> None:
    with_cells = [
        Point(
            variant="shm",
            pattern="pairs",
            size_bytes=size,
            median_ns=1.0,
            cells=[Cell(rank=0, peer=rank, median_ns=float(rank), slowest=rank) for rank in (1, 2)],
        )
        for size in (8, 16)
    ]
    Path("run.jsonl").write_bytes(b"".join(map(encode, [Header(schema=1, run="0" * 32), *with_cells])))
    said = netpipe("export", "--table", "cells", "-o", f"cells.{form}")
    assert said.code == 0, said.err
    reader = {"csv": polars.read_csv, "parquet": polars.read_parquet, "json": polars.read_json}[form]
    found = reader(f"cells.{form}")
    assert found["peer"].to_list() == [1, 2, 1, 2]
    assert found["median_ns"].to_list() == [1.0, 2.0, 1.0, 2.0]
    assert found["size_bytes"].to_list() == [8, 8, 16, 16]
    assert load("run.jsonl", "cell").to_dicts() == found.to_dicts()
    assert load("run.jsonl")["cells"][0].to_list() == [
        {"rank": 0, "peer": 1, "median_ns": 1.0, "slowest": 1},
        {"rank": 0, "peer": 2, "median_ns": 2.0, "slowest": 2},
    ]


def test_cells_that_are_not_there_are_not_exported(netpipe: Netpipe) -> None:
    made = Point(variant="shm", pattern="pingpong", size_bytes=8, median_ns=1.0)
    Path("run.jsonl").write_bytes(b"".join(map(encode, [Header(schema=1, run="0" * 32), made])))
    said = netpipe("export", "--table", "cells")
    assert said.code == 2
    assert "no chosen point has a time for each rank or pair" in said.err


def test_npout_of_several_launches_is_the_curve_of_all_of_them(netpipe: Netpipe) -> None:
    netpipe("run", "tcp", "--sizes", "8,64k", "--launches", "3", "--quiet")
    points = Run.read("run.jsonl").points
    assert len(points) == 6
    for form, column, read in (("npout3", 2, 1e9), ("npout5", 4, 1e3)):
        said = netpipe("export", "--format", form)
        assert said.code == 0, said.err
        lines = [line.split() for line in said.out.splitlines()]
        assert [line[0] for line in lines] == ["8", "65536"]
        for line in lines:
            own = [point for point in points if point.size_bytes == int(line[0])]
            times = [getattr(point, "median_ns" if form == "npout3" else "mean_ns") for point in own]
            assert min(times) <= float(line[column]) * read * (1 + 1e-6)
            assert float(line[column]) * read <= max(times) * (1 + 1e-6)
