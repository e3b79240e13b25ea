# SPDX-License-Identifier: Apache-2.0
"""What the layers counted, beside the size that it belongs to: in the exported table, the report and the JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import polars
import pytest
from synthetic import LAYERS, run
from test_comparing import call, written

from netpipe.failure import Failure
from netpipe.frames import load
from netpipe.reading import Reading
from netpipe.records import Counted, Run
from netpipe.render.export import table
from netpipe.render.page import counters
from netpipe.render.page.page import page
from pages import HOSTILE, Page

UNITS = {"retransmits": Counted(unit="1"), "rtt_us": Counted(unit="us", gauge=True), "idle": Counted()}
SIZES = [8, 65536]


def counting(units: dict[str, Counted] = UNITS, launches: int = 2) -> Run:
    """pipe, which counts nothing, beside tcp: in launch N its size S was sent again S + N times."""
    made = run([LAYERS[3], LAYERS[5]], SIZES, launches)
    for variant in made.variants:
        variant.counted = units if variant.variant == "tcp" else {}
    for point in made.points:
        if point.variant == "tcp":
            point.counters = {
                "retransmits": point.size_bytes + point.launch,
                "rtt_us": 40 + point.launch,
                "idle": 0,
            }
    return made


READERS: dict[str, Callable[[Path], list[dict[str, Any]]]] = {
    "csv": lambda path: polars.read_csv(path).to_dicts(),
    "parquet": lambda path: polars.read_parquet(path).to_dicts(),
    "json": lambda path: msgspec.json.decode(path.read_bytes()),
}


@pytest.mark.parametrize("form", table.FORMATS)
def test_each_counter_has_a_row_at_its_size(tmp_path: Path, form: str) -> None:
    file = written(counting(), tmp_path / "run.jsonl")
    out = tmp_path / f"counters.{form}"
    assert call("export", file, "--table", "counters", "-o", out).exception is None
    rows = READERS[form](out)
    assert [row["variant"] for row in rows] == ["tcp"] * len(rows)
    sent_again = [row for row in rows if row["counter"] == "retransmits"]
    assert [(row["launch"], row["size_bytes"], row["value"]) for row in sent_again] == [
        (0, 8, 8),
        (0, 65536, 65536),
        (1, 8, 9),
        (1, 65536, 65537),
    ]
    assert {(row["counter"], row["unit"] or "", row["kind"]) for row in rows} == {
        ("retransmits", "1", "count"),
        ("rtt_us", "us", "gauge"),
        ("idle", "", "count"),
    }
    assert list(rows[0]) == [
        *("launch", "variant", "pattern", "size_bytes", "counter", "value", "unit", "kind")
    ]


def test_one_launch_and_one_variant_are_chosen_as_of_the_other_tables(tmp_path: Path) -> None:
    file = written(counting(), tmp_path / "run.jsonl")
    rows = json.loads(call("export", file, "--table", "counters", "--format", "json", "--launch", "1").stdout)
    assert {row["launch"] for row in rows} == {1}
    assert len(rows) == len(SIZES) * len(UNITS)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--variant", "pipe"), "no chosen point has counters"),
        (("--variant", "tcp", "--format", "npout5"), "np.out holds points only"),
        (("--variant", "tcp", "--format", "osu"), "an OSU table holds points only"),
        (("--variant", "tcp", "--format", "imb"), "IMB tables hold points only"),
    ],
)
def test_what_has_no_counters_or_no_room_for_them_is_a_sentence(
    tmp_path: Path, words: tuple[str, ...], sentence: str
) -> None:
    file = written(counting(), tmp_path / "run.jsonl")
    done = call("export", file, "--table", "counters", *words)
    assert isinstance(done.exception, Failure)
    assert done.exception.exit_code == 2
    assert sentence in done.exception.sentence


def test_of_an_older_file_unit_and_kind_are_not_known(tmp_path: Path) -> None:
    file = written(counting(units={}), tmp_path / "run.jsonl")
    rows = json.loads(call("export", file, "--table", "counters", "--format", "json").stdout)
    assert {(row["unit"], row["kind"]) for row in rows} == {(None, None)}
    assert len(rows) == 2 * len(SIZES) * len(UNITS)


def test_a_table_of_counters_is_not_imported_as_points(tmp_path: Path) -> None:
    file = written(counting(), tmp_path / "run.jsonl")
    call("export", file, "--table", "counters", "-o", tmp_path / "counters.csv")
    done = call("import", tmp_path / "counters.csv")
    assert isinstance(done.exception, Failure)
    assert "row 1 is not a point" in done.exception.sentence


def test_the_report_has_the_counters_that_were_not_zero() -> None:
    made = Reading(counting())
    shown = counters.table(made.by_name["tcp", "pingpong"], UNITS)
    assert shown is not None
    assert [(column.name, column.unit) for column in shown.columns] == [
        ("size", "B"),
        ("launch", ""),
        ("retransmits", ""),
        ("rtt_us", "us, largest"),
    ]
    assert shown.rows[1] == ("8", "1", "9", "41")
    assert counters.table(made.by_name["pipe", "pingpong"], {}) is None
    text = Page(page(made)).text
    assert "What the layers counted" in text
    assert "rtt_us us, largest" in text
    assert "What the layers counted" not in Page(page(Reading(run(LAYERS[2:4], SIZES)))).text


def test_a_counter_is_text_like_any_other_in_the_report() -> None:
    made = counting()
    for point in made.points:
        if point.counters:
            point.counters = {HOSTILE: 1}
    read = Page(page(Reading(made)))
    assert read.count("img") == 0
    assert "<img src=x onerror=alert(1)>" in read.text


def test_the_points_in_the_json_have_their_counters(tmp_path: Path) -> None:
    file = written(counting(), tmp_path / "run.jsonl")
    points = json.loads(call("show", file, "--points", "--json").stdout)["points"]
    found = {(one["launch"], one["size_bytes"]): one["counters"] for one in points if one["variant"] == "tcp"}
    assert found[1, 8] == {"retransmits": 9, "rtt_us": 41, "idle": 0}


def test_what_a_layer_counts_is_no_column_of_its_ranks(tmp_path: Path) -> None:
    """A row of the frame is one rank."""
    frame = load(written(counting(), tmp_path / "run.jsonl"), "variant")
    assert not [name for name in frame.columns if name.startswith("counted")]
    assert Run.read(tmp_path / "run.jsonl").counted == {"tcp": UNITS}
