# SPDX-License-Identifier: Apache-2.0
"""A run with a single sample: one number without an interval, which every command shows and no command judges."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_comparing import call, written

from netpipe.findings import examples
from netpipe.records import Histogram, Run, Visits
from pages import Page

SIZE = 64


def of_one_sample(time_ns: float, path: Path) -> Path:
    """As the worker writes it: no interval, no percentiles, one visit that kept one sample."""
    point = examples.point("tcp", SIZE, time_ns, samples=1, ops=1, passes=1, dropped=0, single=True)
    point.low_ns = point.high_ns = point.half_width = point.p90_ns = point.p99_ns = point.correlation = None
    point.min_ns = point.max_ns = point.mean_ns = time_ns
    point.converged, point.stop = False, "budget"
    point.histogram = Histogram(resolution=0.01, low_ns=[time_ns], count=[1])
    point.visits = Visits(block=[0], at_s=[0.1], state=[0], samples=[1], median_ns=[time_ns])
    return written(examples.run(point), path)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return of_one_sample(5020.0, tmp_path / "run.jsonl")


@pytest.mark.parametrize("words", [(), ("--points",)])
def test_it_is_shown_with_its_number(run: Path, words: tuple[str, ...]) -> None:
    done = call("show", run, *words)
    assert done.exception is None
    assert "5.02 µs" in done.stdout


def test_in_the_json_it_has_no_interval(run: Path) -> None:
    answer = json.loads(call("show", run, "--json", "--points").stdout)
    (summary,) = answer["summaries"]
    assert summary["latency_ns"]["value"] == pytest.approx(5020.0)
    assert summary["latency_ns"]["known"] is False
    assert answer["points"][0]["low_ns"] is None
    assert "target-missed" in [one["rule"] for one in answer["findings"]]


def test_it_is_a_report(run: Path, tmp_path: Path) -> None:
    assert call("report", run, "-o", tmp_path / "run.html").exception is None
    read = Page((tmp_path / "run.html").read_text())
    assert "5.02 µs" in read.text
    assert "tcp 1 point " in read.text
    assert "typically" not in read.text, "one sample has no interval"


def test_it_is_drawn_and_exported(run: Path, tmp_path: Path) -> None:
    assert call("plot", run, "-o", tmp_path / "run.svg").exception is None
    assert (tmp_path / "run.svg").stat().st_size > 1000
    (row,) = json.loads(call("export", run, "--table", "sizes", "--format", "json").stdout)
    assert (row["low_ns"], row["high_ns"], row["samples"]) == (None, None, 1)
    assert row["median_ns"] == pytest.approx(5020.0)


def test_two_of_them_are_compared_and_nothing_is_decided(run: Path, tmp_path: Path) -> None:
    """Twice as long, and it may be chance."""
    other = of_one_sample(10_040.0, tmp_path / "other.jsonl")
    (curve,) = json.loads(call("compare", run, other, "--json").stdout)["curves"]
    (at,) = curve["sizes"]
    assert at["times"]["value"] == pytest.approx(2.0)
    assert at["times"]["known"] is False
    assert (at["word"], curve["word"]) == ("undecided", "undecided")
    assert "2.00" in call("compare", run, other).stdout
    for strict, code in (((), 0), (("--strict",), 5)):
        assert call("check", other, "--baseline", run, *strict).return_value == code
    assert len(Run.read(other).points) == 1
