# SPDX-License-Identifier: Apache-2.0
"""Run files that older versions wrote read as before (tests/data/older_runs)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from test_comparing import call

OLDER = Path(__file__).resolve().parents[1] / "data" / "older_runs"
FILES = sorted(OLDER.glob("*.jsonl"))


def lines(path: Path, kind: str) -> list[dict[str, Any]]:
    found = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return [one for one in found if one["type"] == kind]


def done(*words: object) -> Result:
    said = call(*words)
    assert said.exception is None, said.exception
    assert not said.return_value, said.output
    return said


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def older(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    path: Path = request.param
    return path


@pytest.mark.gate
def test_every_command_that_reads_runs_reads_them(older: Path) -> None:
    points = lines(older, "point")
    variants = {point["variant"] for point in points}
    assert {"tcp", "tcp:wait=poll"} <= variants

    shown = done("show", older, "--points").stdout
    assert variants <= set(shown.split())
    assert "64 KiB" in shown
    assert "tcp" in done("show", older).stdout

    done("export", older, "-o", "points.json")
    rows = json.loads(Path("points.json").read_text())
    assert [row["median_ns"] for row in rows] == [point["median_ns"] for point in points]

    done("report", older, "-o", "report.html")
    page = Path("report.html").read_text()
    assert all(variant in page for variant in variants)

    done("plot", older, "--figure", "latency", "-o", "latency.svg")
    assert "<svg" in Path("latency.svg").read_text()

    other = FILES[FILES.index(older) - 1]
    compared = json.loads(done("compare", other, older, "--variant", "tcp", "--json").stdout)
    (curve,) = compared["curves"]
    assert curve["variant"] == "tcp"
    assert [size["size_bytes"] for size in curve["sizes"]] == [8, 65536]


def test_each_is_of_the_format_that_it_stands_for() -> None:
    """Nobody may replace them by files of a newer version."""
    first, before_rooms, last = FILES
    for path in (first, before_rooms):
        assert not any("visits" in point for point in lines(path, "point"))
        assert all("state" in point for point in lines(path, "point"))
        assert any("spoilers" in one["facts"] for one in lines(path, "environment"))
    assert not any("modes" in plan for plan in lines(first, "plan"))
    assert all("modes" in plan for plan in lines(before_rooms, "plan"))
    assert all(point["visits"] for point in lines(last, "point"))
    assert not any("stolen_share" in one for path in FILES for one in lines(path, "yardstick"))
