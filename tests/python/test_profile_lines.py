# SPDX-License-Identifier: Apache-2.0
"""The file of a profile: what is written is read again, what was cut off is read as far as it goes, and what is damaged
or of somebody else is refused with a sentence that says where.
"""

from __future__ import annotations

import base64
import json
import os
import random
import zlib
from pathlib import Path

import msgspec
import numpy as np
import pytest
from profiled import KERNELS, ROOT, made, profile_of

from netpipe.profiles import lines, merge
from netpipe.profiles.lines import (
    EVENT_COLUMNS,
    Communicator,
    Entries,
    NotAProfile,
    Profile,
    Trace,
    is_profile,
    read,
    write,
)
from netpipe.profiles.tables import tables


def events(many: int) -> dict[str, np.ndarray]:
    numbers = np.arange(many)
    return {name: (numbers * (place + 1) - place).clip(0, 60_000) for place, name in enumerate(EVENT_COLUMNS)}


def whole() -> Profile:
    made_of = profile_of(KERNELS["CG"], KERNELS["IS"], [made("Send", 8, 3, 0)], hosts=2)
    made_of.communicators[0] = Communicator(
        communicator=0, size=3, members=[0, 1, 2], made_by="MPI_COMM_WORLD"
    )
    made_of.ranks[2].state, made_of.ranks[2].exit_code = "aborted", -1
    for rank in (0, 2):
        made_of.traces[rank] = Trace.of(rank, events(100 + rank))
    return made_of


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "profile.jsonl"
    write(whole(), path)
    return path


def changed(path: Path, line: int, **fields: object) -> Path:
    """The file with other fields in a line, from 0."""
    all_lines = path.read_text().splitlines()
    all_lines[line] = json.dumps(json.loads(all_lines[line]) | fields, separators=(",", ":"))
    path.write_text("\n".join(all_lines) + "\n")
    return path


ENTRIES, TRACE = 5, 8  # lines of what whole() is written as


# ----------------------------------------------------------------------------------------------- whole, and cut off


def test_what_is_written_is_read(saved: Path) -> None:
    kinds = [json.loads(line)["type"] for line in saved.read_text().splitlines()]
    assert kinds == ["profile", *["rank"] * 3, "communicator", *["entries"] * 3, *["trace"] * 2, "end"]
    found, expected = read(saved), whole()
    assert [msgspec.to_builtins(line) for line in found.lines()] == [
        msgspec.to_builtins(line) for line in expected.lines()
    ]
    for rank, trace in found.traces.items():
        for name, values in events(100 + rank).items():
            column = trace.column(name)
            assert column.dtype == np.dtype(EVENT_COLUMNS[name])
            assert (column == values).all()
    assert tables(found) == tables(expected)


def test_a_profile_names_its_calls_and_hosts(saved: Path) -> None:
    found = read(saved)
    send = found.number("Send")
    assert send is not None
    assert found.does(send, "sends")
    assert not found.does(send, "receives")
    assert not found.does(10_000, "sends")
    assert found.number("Teleport") is None
    assert found.hosts == {0: "node0", 1: "node0", 2: "node1"}


def test_words_of_calls_are_those_of_the_profiler() -> None:
    """merge names the bits of calls.h from the lowest; the tables go by these names."""
    text = (ROOT / "src/profiler/calls.h").read_text().partition("enum {")[2].partition("};")[0]
    bits = {}
    for part in text.split("/*")[0:1] + [piece.partition("*/")[2] for piece in text.split("/*")[1:]]:
        name, equals, value = part.partition("=")
        if equals:
            bits[int(value.strip().rstrip(","))] = name.strip().lower()
    assert [bits[1 << place] for place in range(len(bits))] == list(merge.DOES)


def test_a_long_trace_is_several_lines(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "PIECE", 40)
    long = read(saved)
    long.traces = {0: Trace.of(0, events(100)), 1: Trace.of(1, events(40)), 2: Trace.of(2, events(0))}
    write(long, saved)
    pieces = [json.loads(line) for line in saved.read_text().splitlines() if '"type":"trace"' in line]
    assert [(piece["rank"], piece["events"]) for piece in pieces] == [
        (0, 40),
        (0, 40),
        (0, 20),
        (1, 40),
        (2, 0),
    ]
    again = read(saved)
    write(again, saved)  # as what was read
    for found in (again, read(saved)):
        assert {rank: trace.events for rank, trace in found.traces.items()} == {0: 100, 1: 40, 2: 0}
        for name, values in events(100).items():
            assert (found.traces[0].column(name) == values).all()
        assert len(found.traces[2].column("tag")) == 0


def test_a_torn_last_line_is_left_out(saved: Path) -> None:
    data = saved.read_bytes()
    ends = [place + 1 for place, byte in enumerate(data) if byte == ord("\n")]
    saved.write_bytes(data[: ends[-2] + 5])
    found = read(saved)
    assert found.end is None
    assert sorted(found.traces) == [0, 2]
    saved.write_bytes(data[: ends[5] + 100])  # in the entries of rank 1
    found = read(saved)
    assert (len(found.ranks), sorted(found.entries), found.traces) == (3, [0], {})
    saved.write_bytes(data[: ends[1]])
    assert [one.rank for one in read(saved).ranks] == [0]


def test_a_profile_appears_whole_or_not_at_all(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = saved.read_bytes()
    broken = whole()
    monkeypatch.setattr(Trace, "lines", lambda self: (_ for _ in ()).throw(OSError("no space left")))
    with pytest.raises(OSError, match="no space left"):
        write(broken, saved)
    assert saved.read_bytes() == before
    assert list(tmp_path.iterdir()) == [saved]


def test_unknown_lines_and_fields_are_ignored(saved: Path) -> None:
    changed(saved, 1, temperature=300)
    all_lines = saved.read_text().splitlines(keepends=True)
    all_lines.insert(3, '{"type":"weather","rank":"nice"}\n')
    saved.write_text("".join(all_lines))
    assert [msgspec.to_builtins(line) for line in read(saved).lines()] == [
        msgspec.to_builtins(line) for line in whole().lines()
    ]


# --------------------------------------------------------------------------------------------- of somebody else


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        b"hello\n",
        b"\x00\xff\xfe" * 100,
        b"{}\n",
        b"[1, 2]\n",
        b'{"type":"run","schema":1,"run":"0"}\n',
        b'{"type":"rank","rank":0}\n',
        b'{"type":"profile"}\n',
        b'{"type":"profile","schema":1,"prof',
        b"[" * 100_000,
    ],
    ids=lambda text: text[:20].decode(errors="replace"),
)
def test_a_foreign_file_is_none(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(text)
    with pytest.raises(NotAProfile) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path} is not a profile: ")


def test_a_newer_profile_is_refused_with_the_way_out(saved: Path) -> None:
    wanted = r"is of a newer netpipe \(schema 2, this one reads 1\); update netpipe"
    with pytest.raises(NotAProfile, match=wanted):
        read(changed(saved, 0, schema=2))
    with pytest.raises(NotAProfile, match=wanted):  # also where a field has changed its type
        read(changed(saved, 0, schema=2, calls={"Send": 0}))


def test_only_a_profile_is_taken_for_one(saved: Path, tmp_path: Path) -> None:
    assert is_profile(saved)
    other = tmp_path / "run.jsonl"
    other.write_text('{"type":"run","argv":["\\"type\\":\\"profile\\""]}\n{"type":"profile"}\n')
    assert not is_profile(other)
    assert not is_profile(tmp_path / "nothing.jsonl")
    assert not is_profile(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert not is_profile(tmp_path / "pipe")  # and does not wait for a writer


def test_a_run_is_not_a_profile_in_words_without_those_of_the_decoder(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text('{"type":"run","schema":1,"run":"0"}\n')
    with pytest.raises(NotAProfile) as caught:
        read(path)
    assert str(caught.value) == f"{path} is not a profile: it begins with a record 'run'"


def test_two_profiles_in_a_file_are_refused(saved: Path) -> None:
    saved.write_bytes(saved.read_bytes() * 2)
    with pytest.raises(NotAProfile, match="holds two profiles: line 12 begins another one"):
        read(saved)


# ------------------------------------------------------------------------------------------------------- damaged


@pytest.mark.parametrize(
    ("line", "fields", "says"),
    [
        (2, {"seconds": -1.0}, "line 3: Expected `float` >= 0"),
        (2, {"mpi_s": 1e300}, "line 3: Expected `float` <= "),
        (2, {"rank": -1}, "line 3: Expected `int` >= 0"),
        (2, {"calls": -1}, "line 3: calls is out of range"),
        (2, {"reuse": {"accesses": 1 << 64}}, "line 3: accesses is out of range"),
        (4, {"members": "all"}, "line 5: Expected `array`"),
        (ENTRIES, {"calls": [1, 2]}, "line 6: calls has 2 values, and call has "),
        (ENTRIES, {"rank": 1 << 40}, "line 6: Expected `int` <= "),
        (ENTRIES, {name: [] for name in Entries.__struct_fields__[2:]}, "line 6: bytes has 0 values"),
        (10, {"type": 3}, "line 11: Expected `str`"),
    ],
)
def test_a_damaged_line_is_named(saved: Path, line: int, fields: dict[str, object], says: str) -> None:
    with pytest.raises(NotAProfile) as caught:
        read(changed(saved, line, **fields))
    assert str(caught.value).startswith(f"{saved} is damaged in {says}")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("calls", -1),
        ("bytes", 1 << 64),
        ("call", -1),
        ("call", 1 << 40),
        ("peer", -(1 << 40)),
        ("time_ns", -5),
    ],
)
def test_values_that_cannot_be_are_refused(saved: Path, name: str, value: int) -> None:
    values = json.loads(saved.read_text().splitlines()[ENTRIES])[name]
    with pytest.raises(NotAProfile, match=f"damaged in line 6: {name} has a value out of range"):
        read(changed(saved, ENTRIES, **{name: [value, *values[1:]]}))


def packed(values: bytes) -> str:
    return base64.b64encode(zlib.compress(values)).decode()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("%%%", "tag cannot be read"),
        ("", "tag cannot be read"),
        ("é", "tag cannot be read"),
        (packed(random.Random(0).randbytes(400))[:-40], "tag cannot be read"),
        (packed(bytes(65 << 20)), "tag cannot be read"),
        (packed(b"x" * 401), "tag cannot be read"),
        (packed(b"x" * 396), "tag has 99 values"),
        (f"{packed(b'x' * 400)} {packed(b'x' * 4)}", "tag has 101 values"),
        (None, "tag cannot be read"),
    ],
    ids=["no base64", "empty", "not ASCII", "cut off", "a bomb", "uneven", "short", "long", "missing"],
)
def test_a_damaged_trace_is_named_and_the_rest_is_read(saved: Path, text: str | None, says: str) -> None:
    columns = json.loads(saved.read_text().splitlines()[TRACE])["columns"]
    columns = {name: kept for name, kept in columns.items() if name != "tag"}
    found = read(changed(saved, TRACE, columns=columns if text is None else {**columns, "tag": text}))
    with pytest.raises(NotAProfile, match=f"the trace of rank 0 is damaged: {says}"):
        found.traces[0].column("tag")
    assert len(found.traces[0].column("peer")) == 100
    assert len(found.traces[2].column("tag")) == 102
    told, undamaged = tables(found), tables(whole())
    assert told.waiting.problem == f"the trace of rank 0 is damaged: {says}"
    assert msgspec.structs.replace(told, waiting=undamaged.waiting) == undamaged


def test_a_mutated_profile_is_read_or_refused(saved: Path) -> None:
    draw = random.Random(1)
    data = saved.read_bytes()
    said = []
    for _ in range(300):
        mutated = bytearray(data)
        for _ in range(draw.choice((1, 3))):
            place = draw.randrange(len(mutated))
            other = draw.choice((b"", b"9", b"-", b"0", b'"', b",", b"]"))
            mutated[place : place + draw.choice((0, 1, 2))] = other
        saved.write_bytes(mutated)
        try:
            msgspec.json.encode(tables(read(saved)))
        except NotAProfile as error:
            said.append(str(error))
    assert 0 < len(said) < 300
    assert all(text.startswith(f"{saved} ") for text in said)


def test_every_field_is_documented() -> None:
    page = (ROOT / "docs/reference/profile.md").read_text()
    kinds = (lines.Header, lines.Rank, lines.Communicator, lines.Entries, lines.Trace, lines.End)
    for kind in (*kinds, lines.Reuse, lines.Call):
        for field in kind.__struct_fields__:
            assert f"`{field}`" in page, f"{field} of {kind.__name__}"
    for name in (*EVENT_COLUMNS, *merge.DOES):
        assert f"`{name}`" in page, name
    for kind in kinds:
        assert f"| `{kind.__struct_config__.tag}` |" in page
