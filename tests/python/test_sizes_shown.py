# SPDX-License-Identifier: Apache-2.0
"""Whoever shows a size of a run shows the number of the whole run, with the interval for the next one."""

from __future__ import annotations

import json
from pathlib import Path

import polars
import pytest
from test_analysis_verdicts import SIZES, alike, made
from test_comparing import call

import netpipe
from netpipe.cli.export import exported
from netpipe.reading import Reading
from netpipe.records import Run, encode


@pytest.fixture(scope="module")
def several() -> Reading:
    return Reading(made({"tcp": alike}, launches=3))


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
