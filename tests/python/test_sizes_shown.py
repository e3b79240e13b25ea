# SPDX-License-Identifier: Apache-2.0
"""Whoever shows a size of a run shows the number of the whole run, with the interval for the next one."""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
from pathlib import Path

import msgspec
import polars
import pytest
from rich.console import Console
from synthetic import point
from synthetic import run as older
from test_analysis_verdicts import SIZES, alike, made
from test_comparing import call

import netpipe
from netpipe.cli.export import exported
from netpipe.reading import Reading
from netpipe.reading.curves import Curve
from netpipe.records import Run, encode
from netpipe.render.page import tables
from netpipe.render.page.page import page, points_csv, points_remark
from netpipe.render.page.tables import point_table, summary_table, thinned
from netpipe.render.terminal.points import print_points
from netpipe.render.terminal.summary import print_summary
from netpipe.render.words import answer
from netpipe.units import percent_text, time_text
from pages import Page


@pytest.fixture(scope="module")
def several() -> Reading:
    return Reading(made({"tcp": alike}, launches=3))


def column(table: tables.Table, name: str) -> list[str]:
    place = [one.name for one in table.columns].index(name)
    return [row[place] for row in table.rows]


# ------------------------------------------------------------------------------------------------------- the report


def test_the_table_of_points_has_a_row_for_each_size_with_the_numbers_of_the_run(several: Reading) -> None:
    (curve,) = several.curves
    table = point_table(curve)
    assert [one.name for one in table.columns][:5] == ["size", "median", "low", "high", "±"], "no launch"
    step, unit = tables.time_unit_for(at.time_ns.value for at in curve.points)
    assert {one.unit for one in table.columns if one.name in ("median", "low", "high", "mean")} == {unit}
    for name, numbers in (
        ("median", [at.time_ns.value for at in curve.points]),
        ("low", [at.time_ns.low for at in curve.points]),
        ("high", [at.time_ns.high for at in curve.points]),
        ("mean", [at.mean_ns for at in curve.points]),
        ("min", [min(one.min_ns or 0 for one in at.by_launch) for at in curve.points]),
        ("max", [max(one.max_ns or 0 for one in at.by_launch) for at in curve.points]),
    ):
        assert column(table, name) == [tables.fixed(number, 2, step) for number in numbers], name
    assert column(table, "±") == [tables.fixed(at.time_ns.half_width, 2, 0.01) for at in curve.points]
    assert set(column(table, "samples")) == {"720"}, "240 in each of three launches"
    assert set(column(table, "launches")) == {"3"}
    assert all(
        at.time_ns.half_width > 5 * (one.half_width or 1) for at in curve.points for one in at.by_launch
    ), "those of the launches are much narrower"


def test_rows_with_a_wide_interval_are_faint() -> None:
    (wide,) = Reading(made({"tcp": alike}, noise=3.0)).curves
    table = point_table(wide)
    assert list(table.faint) == [at.loose for at in wide.points]
    assert any(table.faint)


def test_points_of_older_runs_keep_a_row_for_each_launch() -> None:
    reading = Reading(older(sizes=[8, 64], launches=2))
    curve = reading.by_name["tcp", "pingpong"]
    table = point_table(curve)
    assert column(table, "launch") == ["0", "1", "0", "1"]
    step, _ = tables.time_unit_for(one.median_ns for at in curve.points for one in at.by_launch)
    low = [tables.fixed(one.low_ns, 2, step) for at in curve.points for one in at.by_launch]
    assert column(table, "low") == low
    assert "within a launch" in points_remark(reading)
    assert "next run" not in points_remark(reading)


def test_the_download_is_the_table_of_sizes(several: Reading) -> None:
    written = gzip.decompress(base64.b64decode(points_csv(several)))
    assert written == exported(several.run, "csv", (), (), None, "sizes")


def test_rows_are_counted_by_sizes_and_those_of_counters_by_launches(
    several: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "MOST_POINTS", len(SIZES))
    assert thinned(several.curves) == ("", several.curves)
    said, (curve,) = thinned(several.curves, by_launch=True)
    assert "of each the launch whose median is in the middle" in said
    assert [len(at.by_launch) for at in curve.points] == [1] * len(SIZES)
    monkeypatch.setattr(tables, "MOST_POINTS", 1)
    said, (curve,) = thinned(several.curves)
    assert said == "only the sizes that are powers of two are here"
    assert [len(at.by_launch) for at in curve.points] == [3] * len(SIZES), "of which the mean is made"


def test_the_report_says_how_wide_intervals_typically_are(several: Reading) -> None:
    typical = percent_text(several.summaries[0].typical_half_width)
    assert column(summary_table(several, several_patterns=False), "typical ±") == [typical]
    text = Page(page(several)).text
    assert f"tcp {len(SIZES)} points, typically ±{typical}" in text
    assert "the 95 % interval of the median for the next run" in text
    assert "settled" not in text


@pytest.mark.parametrize(("half_width", "known"), [(0.19, True), (0.21, False)])
def test_of_a_peak_with_a_wide_interval_nobody_says_where_it_is(half_width: float, known: bool) -> None:
    points = [point("tcp", size, 1000 + size, half_width) for size in (64, 128, 256, 512, 1024, 2048, 4096)]
    reading = Reading(Run(points))
    (summary,) = reading.summaries
    assert summary.peak_size_bytes == 4096
    table = summary_table(reading, several_patterns=False)
    names = [one.name for one in table.columns]
    (row,) = table.rows
    assert list(row[names.index("half from") - 1 : names.index("90 % from") + 1]) == (
        ["4 KiB", "665 B", "4 KiB"] if known else ["–"] * 3
    )
    out = io.StringIO()
    print_summary(Console(file=out, width=80), reading)
    said = answer(summary, idle=False)
    assert ("up to 6.43 Gbps (at 4 KiB; half of it from 665 B)" in said) == known
    assert said.endswith("up to ~6.43 Gbps.") != known
    assert ("~6.43 Gbps" in out.getvalue()) != known
    assert ("4 KiB" in out.getvalue().partition("typical ±")[2].splitlines()[1]) == known


def losing(*, visits: bool) -> Reading:
    run = made({"unix": alike, "tcp": lambda _: 2.0}, launches=3)
    if not visits:
        run.points[:] = [msgspec.structs.replace(one, visits=None) for one in run.points]
    for one in run.variants:
        one.below = "unix" if one.variant == "tcp" else None
    return Reading(run)


def test_the_report_says_what_the_intervals_of_losses_are_made_of() -> None:
    assert losing(visits=True).losses
    by_blocks, by_medians = (Page(page(losing(visits=visits))).text for visits in (True, False))
    assert "from the ratios of visits that were made back to back" in by_blocks
    assert "Intervals combine those of both medians" not in by_blocks
    assert "Intervals combine those of both medians" in by_medians


# ------------------------------------------------------------------------------------------------ programs and JSON


def test_python_loads_the_table_of_sizes(several: Reading, tmp_path: Path) -> None:
    loaded = netpipe.load(several.run, "size")
    written = exported(several.run, "parquet", (), (), None, "sizes")
    assert loaded.equals(polars.read_parquet(written))
    assert loaded["low_ns"].to_list() == [at.time_ns.low for at in several.curves[0].points]
    assert netpipe.load(file_of(several.run, tmp_path), "size").equals(loaded)
    with pytest.raises(ValueError, match=r"there is no record type 'sizes'; there are .*, size$"):
        netpipe.load(several.run, "sizes")


def test_json_has_the_numbers_of_the_run_by_size(several: Reading, tmp_path: Path) -> None:
    path = file_of(several.run, tmp_path)
    said = json.loads(call("show", path, "--json", "--points").stdout)
    assert said["sizes"] == json.loads(exported(several.run, "json", (), (), None, "sizes"))
    assert len(said["points"]) == 3 * len(said["sizes"]) == 3 * len(SIZES)
    assert "sizes" not in json.loads(call("show", path, "--json").stdout)


def test_the_help_of_export_says_whose_intervals_it_writes() -> None:
    said = " ".join(call("export", "--help").stdout.split())
    assert "intervals are those inside a single launch" in said
    assert "--table sizes: a row for each size, with the interval for the next run" in said


def file_of(run: Run, folder: Path) -> Path:
    path = folder / "run.jsonl"
    path.write_bytes(b"".join(encode(one) for one in (run.header, *run.body(), run.end) if one is not None))
    return path


# ------------------------------------------------------------------------------------------------------ the terminal


def rows_of(curves: tuple[Curve, ...], width: int) -> tuple[str, list[str]]:
    out = io.StringIO()
    print_points(Console(file=out, width=width), curves)
    _, head, *rows = out.getvalue().splitlines()
    return head, rows


def test_mean_and_maximum_are_shown_where_there_is_room(several: Reading) -> None:
    head, rows = rows_of(several.curves, 120)
    assert head.split() == ["tcp", "median", "±", "rate", "mean", "min", "p99", "max", "n"]
    at = several.curves[0].points[0]
    mean = re.escape(time_text(at.mean_ns))
    most = re.escape(time_text(max(one.max_ns or 0 for one in at.by_launch)))
    assert re.search(rf"bps +{mean} .* {most} +720 +3 launches$", rows[0].rstrip())
    head, rows = rows_of(several.curves, 80)
    assert head.split() == ["tcp", "median", "±", "rate", "min", "p99", "n"]
    assert max(map(len, rows)) <= 80
    assert len(rows) == len(SIZES)


def test_of_one_launch_the_interval_is_that_of_the_run_too() -> None:
    (curve,) = Reading(made({"tcp": alike}, launches=1)).curves
    _, rows = rows_of((curve,), 80)
    for at, row in zip(curve.points, rows, strict=True):
        assert percent_text(at.time_ns.half_width) != percent_text(at.by_launch[0].half_width)
        assert f" {percent_text(at.time_ns.half_width)} " in row
