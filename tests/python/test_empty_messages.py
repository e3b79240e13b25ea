# SPDX-License-Identifier: Apache-2.0
"""A run with messages of 0 bytes through everything that shows a run."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from synthetic import LAYERS, measure, point, run

from netpipe.reading import Reading
from netpipe.records import Error, Plan, Run, Skipped, encode
from netpipe.render import figures
from netpipe.render.drawing.picture import NothingToDraw, Picture
from netpipe.render.drawing.scope import Scope

if TYPE_CHECKING:
    from conftest import Netpipe

SIZES = [0, 1, 8, 64, 1024, 65536]
TIMES = ("gap", "o_s", "o_r", "transfer")


def with_empty_messages() -> Run:
    """Two launches, an empty message among the sizes; of a pattern with measures too."""
    made = run(LAYERS[1:], sizes=SIZES, launches=2)
    for plan in made.plans:
        plan.patterns = ["pingpong", "loggp"]
        plan.schedule = None
    for one in made.points:
        if one.size_bytes == 0:
            one.bytes_per_s = None  # as the worker writes it
    for launch in (0, 1):
        made.points += [
            point(
                "tcp",
                size,
                3000.0 + size,
                pattern="loggp",
                launch=launch,
                bytes_per_s=size / (3000.0 + size) * 1e9 if size else None,
                measures=[measure(name, "ns", 700.0 + size / 4) for name in TIMES],
            )
            for size in SIZES
        ]
    made.skipped = [
        Skipped(
            launch=0,
            variant="tcp",
            pattern="pingpong",
            size_bytes=0,
            reason="this layer has no empty messages",
        )
    ]
    made.errors = [
        Error(variant="unix", pattern="pingpong", size_bytes=0, code=4, message="the peer has gone")
    ]
    return made


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("empty") / "run.jsonl"
    made = with_empty_messages()
    records = [made.header, *made.body(), made.end]
    path.write_bytes(b"".join(encode(record) for record in records if record is not None))
    return path


def test_the_tables_have_a_time_and_no_rate(netpipe: Netpipe, file: Path) -> None:
    lines = netpipe("show", str(file), "--points", "--variant", "tcp").out.splitlines()
    (line,) = [line for line in lines if " 0 B " in f" {line} "][:1]
    assert "bps" not in line
    assert "s" in line
    assert netpipe("show", str(file)).code in (0, 4)


def test_the_json_has_it_too(netpipe: Netpipe, file: Path) -> None:
    said = json.loads(netpipe("show", str(file), "--json").out)
    assert "NaN" not in json.dumps(said)
    failed = [finding for finding in said["findings"] if finding["rule"] == "measurement-failed"]
    assert any("at 0 B" in finding["what"] for finding in failed), failed


def test_every_export_has_its_time(netpipe: Netpipe, file: Path, tmp_path: Path) -> None:
    text = netpipe("export", str(file), "--format", "csv").out
    rows = [row for row in csv.DictReader(io.StringIO(text)) if row["size_bytes"] == "0"]
    assert rows
    assert all(float(row["median_ns"]) > 0 and row["bytes_per_s"] == "" for row in rows)
    assert all(float(row["mean_ns"]) > 0 for row in rows)
    for form in ("json", "npout3", "npout5"):
        done = netpipe(
            "export",
            str(file),
            "--format",
            form,
            "--variant",
            "tcp",
            "--pattern",
            "pingpong",
            "-o",
            str(tmp_path / form),
        )
        assert done.code == 0, done.err
    assert (tmp_path / "npout3").read_text().split()[:2] == ["0", "0"]


def test_every_figure_leaves_it_out_or_shows_its_time() -> None:
    """It has no place on an axis of sizes, which is logarithmic."""
    reading = Reading(with_empty_messages())
    drawn = 0
    for name in figures.names():
        try:
            panels = figures.get(name).panels(Scope((reading,)))
        except NothingToDraw:
            continue
        for view in (view for panel in panels for view in panel.views if isinstance(view, Picture)):
            drawn += 1
            for axis, of in ((view.x, "x"), (view.y, "y")):
                assert not axis.log or axis.low > 0, name
                assert all(value > 0 for line in view.lines for value in getattr(line, of) if axis.log), name
    assert drawn > 5


def test_the_report_is_written(netpipe: Netpipe, file: Path, tmp_path: Path) -> None:
    done = netpipe("report", str(file), "-o", str(tmp_path / "r.html"))
    assert done.code == 0, done.err
    assert "NaN" not in (tmp_path / "r.html").read_text().partition("plotly")[0]


def test_the_latency_stays_that_of_a_byte_or_more() -> None:
    reading = Reading(with_empty_messages())
    assert all(
        summary.latency_size_bytes == 8 for summary in reading.summaries if summary.pattern == "pingpong"
    )
    only = run(LAYERS[-1:], sizes=[0])
    for one in only.points:
        one.bytes_per_s = None
    (summary,) = Reading(only).summaries
    assert summary.latency_ns is None
    assert summary.peak_bytes_per_s is None
    assert isinstance(only.plans[0], Plan)


def test_the_mean_over_launches_counts_operations() -> None:
    """A launch of ten times as many operations counts ten times."""
    made = run(LAYERS[-1:], sizes=[8], launches=2)
    first, second = made.points
    first.samples, first.ops, first.mean_ns = 10, 1, 100.0
    second.samples, second.ops, second.mean_ns = 10, 10, 210.0
    (curve,) = Reading(made).curves
    assert curve.points[0].mean_ns == pytest.approx(200.0)
    second.mean_ns = None
    (curve,) = Reading(made).curves
    assert curve.points[0].mean_ns is None, "an imported point may have none"
