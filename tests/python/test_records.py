# SPDX-License-Identifier: Apache-2.0
"""The format of the run file: what is written is what is read, and any other file is refused with a sentence."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

import netpipe
from netpipe import records, schema
from netpipe.records import (
    End,
    Error,
    Header,
    Histogram,
    Measure,
    Plan,
    PlannedVariant,
    Point,
    Promises,
    Rank,
    Run,
    Sample,
    Skipped,
    Variant,
)
from netpipe.run_file import Tail, append, make_room

ROOT = Path(__file__).resolve().parents[2]
HEADER = Header(schema=1, run="0" * 32, netpipe="0.1.0", started="2026-03-01T12:00:00Z")
POINT = Point(
    variant="tcp", pattern="pingpong", size_bytes=8, median_ns=24e3, low_ns=23e3, high_ns=25e3, converged=True
)


def written(path: Path, *lines: records.Record | bytes) -> Path:
    path.write_bytes(b"".join(line if isinstance(line, bytes) else records.encode(line) for line in lines))
    return path


numbers = st.floats(0, 1e18)
maybe = st.none() | numbers
points = st.builds(
    Point,
    launch=st.integers(0, 99),
    variant=st.text(min_size=1),
    pattern=st.sampled_from(["pingpong", "stream"]),
    size_bytes=st.integers(0, 2**63 - 1),
    state=st.none() | st.integers(0, 9),
    median_ns=numbers,
    low_ns=maybe,
    high_ns=maybe,
    converged=st.none() | st.booleans(),
    histogram=st.none()
    | st.builds(Histogram, low_ns=st.lists(numbers), count=st.lists(st.integers(0, 2**53))),
)


@given(points)
def test_a_point_is_read_as_it_was_written(point: Point) -> None:
    line = records.encode(point)
    assert line.count(b"\n") == 1
    assert records.decode(line) == point


def test_a_run_is_read_into_a_list_of_each_type(tmp_path: Path) -> None:
    sample = Sample(variant="tcp", pattern="pingpong", size_bytes=8, pass_=2, ops=10, ns=[1.0, 2.0])
    path = written(tmp_path / "run.jsonl", HEADER, sample, POINT, End(exit=0, reason="done"))
    run = Run.read(path)
    assert run.header == HEADER
    assert run.samples == [sample]
    assert run.points == [POINT]
    assert run.end == End(exit=0, reason="done")
    assert b'"pass":2' in path.read_bytes()


def test_fields_and_types_of_a_later_version_are_passed_over(tmp_path: Path) -> None:
    line = records.encode(POINT)[:-2] + b',"colour":"blue"}\n'
    path = written(tmp_path / "run.jsonl", HEADER, b'{"type":"finding","what":"?"}\n', line)
    assert Run.read(path).points == [POINT]


@pytest.mark.parametrize("torn", [b'{"type":"po', b'{"type":"point","variant":"tcp"', b"\xff"])
def test_a_torn_last_line_is_left_out(tmp_path: Path, torn: bytes) -> None:
    assert Run.read(written(tmp_path / "run.jsonl", HEADER, POINT, torn)).points == [POINT]


def test_a_whole_last_line_without_its_newline_is_read(tmp_path: Path) -> None:
    assert Run.read(written(tmp_path / "run.jsonl", HEADER, records.encode(POINT)[:-1])).points == [POINT]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([b""], "it is empty"),
        ([b"bytes Mbps seconds\n"], "line 1: JSON is malformed"),
        ([b'{"type":"point"}\n'], "line 1: object missing required field"),
        ([records.encode(POINT)], "line 1 is not a record of type 'run'"),
        ([b'{"type":"later"}\n'], "line 1 is not a record of type 'run'"),
        ([HEADER, b"{}\n", POINT], "line 2: object missing required field `type`"),
        (
            [HEADER, POINT, b'{"type":"point","variant":3}\n', POINT],
            "line 3: expected `str`, got `int` - at `$.variant`",
        ),
        ([Header(schema=2, run="0" * 32)], "has record schema 2 and this netpipe reads up to 1"),
    ],
)
def test_what_is_no_run_file_is_refused_with_its_line(tmp_path: Path, lines: list[Any], says: str) -> None:
    path = written(tmp_path / "run.jsonl", *lines)
    with pytest.raises(netpipe.NotARun) as refused:
        Run.read(path)
    assert says in str(refused.value)
    assert str(path) in str(refused.value)


# --------------------------------------------------------------------------------------------------- data frames


def test_points_load_in_one_line(tmp_path: Path) -> None:
    frame = netpipe.load(written(tmp_path / "run.jsonl", HEADER, POINT, POINT))
    assert frame.height == 2
    assert frame["median_ns"].to_list() == [24e3, 24e3]
    assert frame.schema["p999_ns"] == polars.Float64  # also where every value is null


def test_each_timed_batch_is_a_row(tmp_path: Path) -> None:
    sample = Sample(variant="tcp", pattern="pingpong", size_bytes=8, ops=10, ns=[30, 50], dropped_ns=[90])
    frame = netpipe.load(written(tmp_path / "run.jsonl", HEADER, sample), "sample")
    assert frame["ns"].to_list() == [90.0, 30.0, 50.0]
    assert frame["op_ns"].to_list() == [9.0, 3.0, 5.0]
    assert frame["dropped"].to_list() == [True, False, False]


def test_what_is_known_of_a_size_without_a_time_becomes_columns(tmp_path: Path) -> None:
    share = Measure(name="loss", unit="1", median=0.5, low=0.4, high=0.6)
    lost = Skipped(variant="udp", pattern="stream", size_bytes=8, reason="lost", measures=[share])
    lost.counters = {"messages_lost": 7}
    plain = Skipped(variant="udp", pattern="put", reason="it has none")
    frame = netpipe.load(written(tmp_path / "run.jsonl", HEADER, lost, plain), "skipped")
    assert frame["measure_loss"].to_list() == [0.5, None]
    assert frame["measure_loss_high"].to_list() == [0.6, None]
    assert frame["counters.messages_lost"].to_list() == [7, None]
    assert frame["reason"].to_list() == ["lost", "it has none"]


def test_what_is_nested_becomes_columns_with_dots(tmp_path: Path) -> None:
    plan = Plan(
        variants=[
            PlannedVariant(variant=v, module="tcp", options={"wait": v[-4:]}) for v in ("block", "apoll")
        ]
    )
    opened = Variant(
        variant="tcp", module="tcp", ranks=[Rank(rank=r, cpu=r, settings={"sndbuf": "4096"}) for r in (0, 1)]
    )
    path = written(tmp_path / "run.jsonl", HEADER, plan, opened, POINT)
    assert netpipe.load(path, "plan")["options.wait"].to_list() == ["lock", "poll"]
    assert netpipe.load(path, "variant").select("rank", "cpu", "settings.sndbuf").rows() == [
        (0, 0, "4096"),
        (1, 1, "4096"),
    ]
    assert netpipe.load(path)["histogram.count"].dtype == polars.List(polars.Int64)


def test_what_layers_promise_becomes_columns_also_where_an_older_file_says_nothing(tmp_path: Path) -> None:
    promises = Promises(lossy=True, unordered=True, max_inline_bytes=220)
    newer = Variant(variant="udp", module="udp", promises=promises, ranks=[Rank(rank=0, huge_bytes=2 << 20)])
    older = Variant(variant="tcp", module="tcp", ranks=[Rank(rank=0)])
    frame = netpipe.load(written(tmp_path / "run.jsonl", HEADER, newer, older), "variant")
    assert frame["promises.unordered"].to_list() == [True, None]
    assert frame["promises.max_inline_bytes"].to_list() == [220, None]
    assert frame["promises.max_message_bytes"].to_list() == [None, None]
    assert frame["huge_bytes"].to_list() == [2 << 20, None]
    assert "promises" not in frame.columns


@pytest.mark.parametrize("kind", list(records.KINDS))
def test_a_kind_without_records_is_an_empty_frame(tmp_path: Path, kind: str) -> None:
    frame = netpipe.load(written(tmp_path / "run.jsonl", HEADER), kind)
    assert frame.height == (kind == "run")
    assert frame.width > 0


def test_a_kind_that_there_is_not_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no record type 'points'; there are run, plan"):
        netpipe.load(written(tmp_path / "run.jsonl", HEADER), "points")


# -------------------------------------------------------------------------------------------- schema and document


def test_the_committed_schema_is_the_one_of_the_records() -> None:
    committed = ROOT / "python" / "netpipe" / "schema.json"
    made = "from netpipe import schema; print(schema.schema_text(), end='')"
    assert committed.read_text() == schema.schema_text(), (
        f"write it anew: python -c {made!r} > {committed.name}"
    )


def test_the_schema_takes_a_line_and_refuses_a_wrong_one() -> None:
    validator = jsonschema.Draft202012Validator(schema.schema())
    validator.validate(json.loads(records.encode(POINT)))
    assert not validator.is_valid({"type": "point", "variant": "tcp"})
    assert not validator.is_valid({"type": "later"})


def test_every_field_of_the_document_is_known_and_every_known_one_is_there() -> None:
    text = (ROOT / "docs" / "reference" / "record.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \|[^|\n]*\|[^|\n]*\|(.*)\|$", text, flags=re.MULTILINE)
    assert [kind for kind, _ in rows] == list(records.KINDS)
    sections = {part.partition("\n")[0]: part for part in text.split("\n## ")}
    for kind, fields in rows:
        if fields.strip() == f"[below](#{kind})":  # a table of its own, with the fields in its first column
            outside = " ".join(re.findall(r"^\|([^|]*)\|", sections[kind], flags=re.MULTILINE))
        else:
            outside = re.sub(
                r"\[?\{.*?\}\]?|\([^)]*\)", "", re.sub(r"\{[^{}]*\{[^{}]*\}[^{}]*\}", "", fields)
            )
        named = set(re.findall(r"`(\w+)`", outside))
        known = {field.encode_name for field in msgspec.structs.fields(records.KINDS[kind])}
        assert named == known, f"{kind}: {named ^ known}"


# ---------------------------------------------------------------------------------------- the file while it grows


def test_a_torn_line_is_cut_off_before_the_next_record(tmp_path: Path) -> None:
    path = written(tmp_path / "run.jsonl", HEADER, POINT, b'{"type":"sam')
    with path.open("ab+") as file:
        append(file.fileno(), Error(message="the worker was killed"))
    run = Run.read(path)
    assert run.points == [POINT]
    assert [error.message for error in run.errors] == ["the worker was killed"]


def test_reading_along_gives_each_whole_line_once(tmp_path: Path) -> None:
    path = written(tmp_path / "run.jsonl", HEADER)
    line = records.encode(POINT)
    with path.open("ab+") as file:
        tail = Tail(file.fileno())
        assert [record for _, record in tail.new()] == [HEADER]
        file.write(line[:20])
        file.flush()
        assert tail.new() == []
        file.write(line[20:] + b"{}\n" + line)
        file.flush()
        assert tail.new() == [(line, POINT), (line, POINT)]
        assert tail.new() == []


@pytest.mark.parametrize("kept", [0, 1, 2])
@pytest.mark.parametrize("more", [1, 9])
def test_after_a_truncation_reading_goes_on_with_the_first_new_line(
    tmp_path: Path, kept: int, more: int
) -> None:
    """Be the file shorter or longer than before when it is read again."""
    path = written(tmp_path / "run.jsonl", HEADER, POINT, Error(message="old"))
    new = [Error(message=f"new {number}") for number in range(more)]
    with path.open("ab+") as file:
        tail = Tail(file.fileno())
        assert len(tail.new()) == 3
        assert tail.intact()
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:kept]))
        file.write(b"".join(records.encode(one) for one in new))
        file.flush()
        assert [record for _, record in tail.new()] == new
        assert tail.new() == []
        assert not tail.intact()


def test_what_another_program_writes_over_a_run_is_read_as_lines(tmp_path: Path) -> None:
    path = written(tmp_path / "run.jsonl", HEADER, POINT)
    with path.open("ab+") as file:
        tail = Tail(file.fileno())
        tail.new()
        path.write_bytes(b"dear diary\n" * 40)
        file.write(records.encode(Error(message="new")))
        file.flush()
        assert [record for _, record in tail.new()] == [Error(message="new")]
        assert not tail.intact()


def test_an_older_run_is_renamed_and_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    names = []
    for number in range(3):
        written(path, HEADER, Error(message=str(number)))
        kept = make_room(path)
        assert kept is not None
        names.append(kept.name)
    assert names == [f"run-20260301T120000Z{more}.jsonl" for more in ("", "-2", "-3")]
    assert [Run.read(tmp_path / name).errors[0].message for name in names] == ["0", "1", "2"]
    assert not path.exists()


def test_what_is_no_run_is_not_renamed(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("dear diary\n")
    with pytest.raises(Exception, match="it is not overwritten: choose another name"):
        make_room(path)
    assert path.read_text() == "dear diary\n"


@pytest.mark.parametrize("value", ["1e19", "1e999", "-1e19", "NaN", "Infinity", "nan", "null"])
def test_a_time_that_cannot_be_is_damage(tmp_path: Path, value: str) -> None:
    path = tmp_path / "run.jsonl"
    point = f'{{"type":"point","variant":"tcp","pattern":"pingpong","size_bytes":8,"median_ns":{value}}}\n'
    path.write_bytes(records.encode(HEADER) + point.encode() + b'{"type":"launch","launch":0}\n')
    with pytest.raises(records.NotARun, match="line 2"):
        Run.read(path)
