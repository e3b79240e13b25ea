# SPDX-License-Identifier: Apache-2.0
"""Files, names and readers that mean no good: whatever comes in, a command ends soon, with an exit code of
docs/reference/cli.md and a sentence, and nothing raw comes out.
"""

from __future__ import annotations

import csv
import json
import os
import random
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import synthetic
from conftest import Netpipe
from test_peers import OUTPUTS

from netpipe import contents, records
from netpipe.escapes import printable, printable_json
from netpipe.findings import examples
from netpipe.records import Run
from netpipe.render.export import table

DOCUMENTED = {0, 2, 3, 4}  # of commands that measure and gate nothing
EVIL = "\x1b]0;x\x07\x1b[31m[red]=cmd|' /C'!A0<script>\x9b\x7f\u202e"
RAW = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")


def lines_of(run: Run) -> list[bytes]:
    whole = [run.header, *run.body(), run.end]
    return [records.encode(record) for record in whole if record is not None]


# ------------------------------------------------------------------------------------------------- damaged lines


DAMAGED = {
    b"\xff": "invalid character (byte 0)",
    b"[" * 100_000: "expected `object`, got `array`",
    b'{"type":"environment","facts":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}": "nested too deeply",
    b'{"type":"environment","facts":{"a":' + b"[" * 600 + b"]" * 600 + b"}}": "nested too deeply",
    b'{"type":"environment","facts":{"a":{"b":1e308}}}': "out of range",
    b'{"type":"environment","facts":{"a":"\xff"}}': "invalid UTF-8",
    b'{"type":"environment","facts":{"a":' + b"9" * 10_000 + b"}}": "out of range",
    b'{"type":"environment","facts":{"a":[' + b"9" * 400 + b"]}}": "out of range",
    b'{"type":"launch","launch":' + b"9" * 10_000 + b"}": "out of range",
    b'{"type":"launch","launch":"x"}': "expected `int`",
    b'{"type":"launch","launch":1e999}': "out of range",
    b'{"type":"point","variant":"tcp","pattern":"p","size_bytes":8,"median_ns":1,"bytes_per_s":-1}': ">= 0",
    b'{"type":"point","variant":"tcp","pattern":"p","size_bytes":8,"median_ns":NaN}': "invalid character",
    b'{"type":"error","message":"\\ud800"}': "truncated",
}


@pytest.mark.parametrize("damaged", DAMAGED, ids=lambda line: line[:30].decode(errors="replace"))
@pytest.mark.parametrize("command", ["show", "report", "plot", "export"])
def test_a_damaged_line_is_named(netpipe: Netpipe, command: str, damaged: bytes) -> None:
    lines = lines_of(synthetic.run(sizes=[8, 1024]))
    lines.insert(3, damaged + b"\n")
    Path("run.jsonl").write_bytes(b"".join(lines))
    said = netpipe(command, "run.jsonl")
    assert said.code == 2
    assert said.err.startswith("netpipe: run.jsonl is not a netpipe run file: line 4: ")
    assert DAMAGED[damaged] in said.err.lower().replace("utf-8", "UTF-8")


@pytest.mark.parametrize("damaged", DAMAGED, ids=lambda line: line[:30].decode(errors="replace"))
def test_the_lines_before_a_damaged_last_one_are_read(tmp_path: Path, damaged: bytes) -> None:
    lines = lines_of(synthetic.run(sizes=[8, 1024]))
    (tmp_path / "run.jsonl").write_bytes(b"".join(lines) + damaged)
    assert len(list(records.read(tmp_path / "run.jsonl"))) == len(lines)


# -------------------------------------------------------------------------------------------------------- fuzzers

VALUES: list[Any] = [
    *(0, -1, 1e308, -1e308, 5e-324, -0.0, 2**63 - 1, -(2**63), 10**30, 2**53, True, None),
    *("", EVIL, "x" * 1000, "../..", ":=,|", [], [None], [1e308, -1e308], {}, {"a": {"b": 1}}),
]


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if at:
        yield at
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*at, key))
    elif isinstance(value, list):
        for key in range(len(value)):
            yield from places(value[key], (*at, key))


def with_other_values(lines: list[bytes], draw: random.Random) -> bytes:
    """One to three values replaced, mostly by others of the same type, which a reader's types let pass."""
    lines = list(lines)
    for _ in range(draw.randint(1, 3)):
        number = draw.randrange(len(lines))
        record = json.loads(lines[number])
        *path, last = draw.choice([place for place in places(record) if place != ("type",)])
        inside = record
        for key in path:
            inside = inside[key]
        kinds = (int, float) if isinstance(inside[last], float) else (type(inside[last]),)
        same = [value for value in VALUES if type(value) in kinds]
        inside[last] = draw.choice(same if same and draw.random() < 0.8 else VALUES)
        lines[number] = json.dumps(record).encode() + b"\n"
    return b"".join(lines)


def with_other_bytes(text: bytes, draw: random.Random) -> bytes:
    changed = bytearray(text)
    for _ in range(draw.randint(1, 6)):
        at = draw.randrange(len(changed))
        match draw.randrange(4):
            case 0:
                changed[at] = draw.randrange(256)
            case 1:
                del changed[at : at + draw.randint(1, 20)]
            case 2:
                changed[at:at] = draw.randbytes(draw.randint(1, 5))
            case _:
                other = draw.randrange(len(changed))
                changed[at:at] = changed[other : other + draw.randint(1, 200)]
        changed = changed or bytearray(b"x")
    return bytes(changed)


READERS = (
    *(("show",), ("show", "--json"), ("show", "--points"), ("export",), ("export", "--format", "json")),
    *(("export", "-o", "x.parquet"), ("export", "--table", "cells"), ("plot", "--list")),
    *(("report", "-o", "x.html"), ("plot", "-o", "x.svg")),
)


def runs() -> list[list[bytes]]:
    return [
        lines_of(synthetic.run(sizes=[8, 1024, 65536], launches=2, moved=True)),
        lines_of(synthetic.patterned(sizes=[8, 65536])),
    ]


def ends_well(netpipe: Netpipe, *arguments: str) -> None:
    said = netpipe(*arguments)
    assert said.code in DOCUMENTED, arguments
    assert "internal error" not in said.err, arguments
    assert (said.code == 0) or said.err.startswith("netpipe: "), arguments
    assert not RAW.search(said.out), arguments
    assert not RAW.search(said.err), arguments


def fuzz_runs(netpipe: Netpipe, seed: int, number: int) -> None:
    draw = random.Random(seed)
    sources = runs()
    for place in range(number):
        lines = sources[place % len(sources)]
        bytewise = draw.random() < 0.3
        data = with_other_bytes(b"".join(lines), draw) if bytewise else with_other_values(lines, draw)
        Path("x.jsonl").write_bytes(data)
        # Pages and pictures take a hundred times as long as the others.
        command = draw.choice(READERS[:8] if place % 20 else READERS[8:])
        ends_well(netpipe, command[0], "x.jsonl", *command[1:])


def test_a_mutated_run_ends_with_a_sentence(netpipe: Netpipe) -> None:
    fuzz_runs(netpipe, seed=1, number=120)


@pytest.mark.deep
def test_many_mutated_runs_end_with_a_sentence(netpipe: Netpipe) -> None:
    fuzz_runs(netpipe, seed=2, number=2000)


CONFIG = b"""[run]
variants = ["tcp", "tcp:wait=poll"]
target = "0.5%"
launches = 2
verify = true
[report]
output = "report.html"
"""
SUITE = Path(synthetic.__file__).parents[2] / "python" / "netpipe" / "suites" / "health.toml"


def fuzz_other_files(netpipe: Netpipe, seed: int, number: int) -> None:
    draw = random.Random(seed)
    points = synthetic.patterned(sizes=[8, 65536]).points[:6]
    inputs: dict[str, tuple[bytes, tuple[str, ...]]] = {
        "c.toml": (CONFIG, ("--config", "c.toml", "run", "--dry-run")),
        "s.toml": (SUITE.read_bytes(), ("suite", "run", "./s.toml", "--dry-run")),
        "t.out": (b"  1 0.5 0.000015\n  8 4.1 0.000015\n", ("import", "t.out", "-o", "t.jsonl")),
    } | {
        f"t.{form}": (table.write(points, form), ("import", f"t.{form}", "-o", "t.jsonl"))
        for form in table.FORMATS
    }
    for name, (data, arguments) in inputs.items():
        for _ in range(number):
            Path(name).write_bytes(with_other_bytes(data, draw))
            Path("t.jsonl").unlink(missing_ok=True)
            ends_well(netpipe, *arguments)


def test_other_mutated_files_end_with_a_sentence(netpipe: Netpipe) -> None:
    fuzz_other_files(netpipe, seed=1, number=8)


@pytest.mark.parametrize("name", OUTPUTS)
def test_mutated_outputs_of_other_programs_end_with_a_sentence(netpipe: Netpipe, name: str) -> None:
    """What is imported can be shown."""
    draw = random.Random(3)
    for _ in range(4):
        Path("t.txt").write_bytes(with_other_bytes(OUTPUTS[name].encode(), draw))
        Path("t.jsonl").unlink(missing_ok=True)
        ends_well(netpipe, "import", "t.txt", "--format", name, "--size", "64", "-o", "t.jsonl")
        if Path("t.jsonl").exists():
            assert netpipe("show", "t.jsonl").code == 0


@pytest.mark.deep
def test_many_other_mutated_files_end_with_a_sentence(netpipe: Netpipe) -> None:
    fuzz_other_files(netpipe, seed=2, number=300)


DEEP = "[" * 100_000
ROW = '[{{"variant":"a","pattern":"p","size_bytes":8,"median_ns":1.0,{}}}]'
HEAD = "variant,pattern,size_bytes,median_ns"


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("x.json", DEEP, "not JSON"),
        ("x.json", ROW.format(f'"cells":{DEEP}{"]" * 100_000}'), "nested too deeply"),
        ("x.json", ROW.format(f'"cells":"{DEEP}{"]" * 100_000}"'), "row 1 is not a point"),
        ("x.json", ROW.format('"measures":3'), "row 1 is not a point"),
        ("x.json", ROW.format(f'"ops":{"9" * 10_000}'), "not JSON"),
        ("x.json", '[{"variant":"\\ud800","pattern":"p","size_bytes":8,"median_ns":1.0}]', "not JSON"),
        ("x.csv", f"{HEAD},cells\na,p,8,1,5\n", "row 1 is not a point"),
        ("x.csv", f"{HEAD},histogram,histogram.a\na,p,8,1,x,1\n", "row 1 is not a point"),
        ("x.toml", f"x = {DEEP}", "nested too deeply"),
        ("x.toml", f"[run]\nlaunches = {'9' * 10_000}", "not valid TOML"),
        ("x.toml", "[run]\nlaunches = 1979-05-27", "launches must be a text or a number"),
        ("x.toml", "[run]\nlaunches = 1.5", "launches must be a whole number"),
        ("x.toml", "[run]\nverify = 3", "verify must be true or false"),
        ("x.toml", '[run]\noutput = "a\\u0000b"', "NUL"),
        ("x.toml", f"[run]\nranks = '2,{'9' * 5000}'", "numbers of processes"),
        ("x.toml", f"[run]\nhosts = 'a:{'9' * 5000}'", "needs at least one rank"),
        ("x.toml", f"[run]\nhosts = '{'a' * 100}'", "is not a valid name"),
        ("x.toml", f"[run]\nhosts = '{'a' * 5_000_000}'", "at most 253 characters, this one 5000000"),
        ("x.toml", f"[run]\nhost = '{'a' * 5_000_000}'", "at most 253 characters, this one 5000000"),
    ],
)
def test_what_no_program_writes_is_refused(netpipe: Netpipe, name: str, text: str, says: str) -> None:
    Path(name).write_text(text)
    said = (
        netpipe("--config", name, "run", "tcp", "--dry-run")
        if name.endswith("toml")
        else netpipe("import", name, "-o", "o.jsonl")
    )
    assert said.code == (3 if "valid name" in says else 2)
    assert says in said.err
    assert len(said.err) < 20_000


# ------------------------------------------------------------------------------------------------- without an end


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        *(((command, "/dev/zero"), "line 1 is longer than 64 MiB") for command in ("show", "plot", "export")),
        (("report", "/dev/zero", "-o", "x.html"), "line 1 is longer than 64 MiB"),
        (("import", "/dev/zero", "-o", "x.jsonl"), "is a device"),
        *((("import", "/dev/zero", "--format", f, "-o", "x.jsonl"), "is a device") for f in table.FORMATS),
        (("suite", "run", "/dev/zero"), "is a device"),
        (("--config", "/dev/zero", "list"), "is a device"),
    ],
)
def test_a_device_without_an_end_is_refused(netpipe: Netpipe, arguments: tuple[str, ...], says: str) -> None:
    said = netpipe(*arguments)
    assert said.code == 2
    assert says in said.err


def test_a_stream_without_an_end_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "LONGEST_STREAM", 10_000)
    pipe, end = os.pipe()
    os.write(end, b'{"type":"run","schema":1,"run":"a"}\n' + b'{"type":"later"}\n' * 1000)
    with pytest.raises(records.NotARun, match="save it to a file first"):
        list(records.read(f"/proc/self/fd/{pipe}"))
    os.close(pipe)
    os.close(end)


# -------------------------------------------------------------------------------------------------------- readers


COMMANDS = ("show", "show --json", "show --points", "export", "plot --list", "list", "--help", "--version")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("how", ["| true", "2>&1 | true", ">&-", ">&- 2>&- <&-"])
def test_a_reader_that_is_gone_is_no_error(fake: Path, command: str, how: str) -> None:
    Path("run.jsonl").write_bytes(b"".join(lines_of(synthetic.run(sizes=list(range(1, 60))))))
    shell = f'"{sys.executable}" -m netpipe {command} {how}; echo "${{PIPESTATUS[0]}}" >code'
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=60, check=False)
    assert Path("code").read_text() == "0\n"
    assert done.stderr == ""


# --------------------------------------------------------------------------------------------------- foreign texts


def evil(value: Any) -> Any:
    """Every text in it followed by the hostile one. Known words keep their meaning by what they begin with."""
    if isinstance(value, dict):
        return {key: evil(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [evil(inner) for inner in value]
    return EVIL + value if isinstance(value, str) else value


def texts_of(value: Any) -> str:
    """All texts in it, one after the other."""
    if isinstance(value, (dict, list)):
        return "".join(map(texts_of, value.values() if isinstance(value, dict) else value))
    return value if isinstance(value, str) else ""


KEPT = {"type", "kind", "policy", "run", "stop"}


@pytest.fixture
def evil_run(netpipe: Netpipe) -> Path:
    run = synthetic.patterned(sizes=[8, 65536])
    run.errors.append(records.Error(variant="tcp", message="it broke", host="a"))
    run.skipped.append(records.Skipped(variant="tcp", pattern="offered", reason="no rate"))
    run.environments.append(records.Environment(host="node", facts=dict(synthetic.FACTS)))
    path = Path("evil.jsonl")
    with path.open("wb") as file:
        for line in lines_of(run):
            record = json.loads(line)
            record = {key: value if key in KEPT else evil(value) for key, value in record.items()}
            file.write(json.dumps(record).encode() + b"\n")
    return path


@pytest.mark.parametrize(
    "arguments",
    [
        *(("show",), ("show", "--points"), ("show", "--json"), ("show", "--json", "--points")),
        *(("export",), ("export", "--format", "json"), ("export", "--table", "cells"), ("plot", "--list")),
    ],
)
def test_no_control_character_reaches_the_terminal(
    netpipe: Netpipe, evil_run: Path, arguments: tuple[str, ...]
) -> None:
    said = netpipe(arguments[0], str(evil_run), *arguments[1:])
    assert said.code == 0, said.err
    assert not RAW.search(said.out + said.err)
    if "--json" in arguments or "json" in arguments:
        assert EVIL in texts_of(json.loads(said.out)), "the value is what it was"
    elif arguments[0] != "plot":
        assert "[red]" in said.out, "markup is shown as it is"


def test_no_control_character_reaches_the_terminal_from_a_sentence(netpipe: Netpipe, evil_run: Path) -> None:
    for arguments in (
        ("show", str(evil_run), "--variant", "none"),
        ("export", str(evil_run), "--format", "npout3"),
        ("show", EVIL),
        ("list", EVIL),
        (EVIL,),
        ("run", EVIL),
        ("show", f"--{EVIL}"),
    ):
        said = netpipe(*arguments)
        assert said.code in DOCUMENTED - {0}
        assert not RAW.search(said.err), arguments


def test_the_page_and_the_figures_are_whole(
    netpipe: Netpipe, evil_run: Path, recwarn: pytest.WarningsRecorder
) -> None:
    assert netpipe("report", str(evil_run), "-o", "x.html", "--title", EVIL).code == 0
    page = Path("x.html").read_text(encoding="utf-8")
    ours = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)  # plotly.js has some of its own
    assert not RAW.search(ours)
    assert "[red]" in ours
    assert "!A0<script>" not in ours
    said = netpipe("plot", str(evil_run), "-o", "x.svg", "--title", EVIL, "--pattern", f"{EVIL}pingpong")
    assert said.code == 0, said.err
    text = Path("x.svg").read_text(encoding="utf-8")
    ET.fromstring(text)
    assert not RAW.search(text)
    assert [str(warning.message) for warning in recwarn] == [], "a warning prints what it is about"


def test_a_finding_is_shown_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    from netpipe.findings import SEVERE, Finding
    from netpipe.render.terminal.findings import print_findings
    from netpipe.render.terminal.rows import console

    found = Finding(
        rule="x", title=EVIL, what=EVIL, severity=SEVERE, certainty="measured", cause=EVIL, remedy=EVIL
    )
    print_findings(console(), [found])
    said = capsys.readouterr().out
    assert said.count("[red]") == 3
    assert not RAW.search(said)


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "'="])
def test_no_cell_of_a_table_is_a_formula(start: str, tmp_path: Path) -> None:
    """Every column of texts, found by its type."""
    (made,) = (examples.point("tcp", 8, 100.0),)
    texts = [name for name, value in made.fields().items() if isinstance(value, str)]
    texts += [name for name in ("stop",) if name not in texts]
    assert {"variant", "pattern", "stop"} <= set(texts)
    for name in texts:
        setattr(made, name, f"{start}1+1")
    made.histogram = None
    path = tmp_path / "x.csv"
    path.write_bytes(table.write([made], "csv"))
    (row,) = csv.DictReader(path.open(newline=""))
    for name in texts:
        assert row[name].startswith("'"), name
    assert list(table.read(path, "csv")) == [made]


def test_escapes_are_one_place_for_all() -> None:
    assert printable("a\x1b[31m\tb\nc\x9b\u202e\ud800é") == r"a\x1b[31m" + "\tb\nc" + r"\x9b\u202e\ud800é"
    text = json.dumps(EVIL, ensure_ascii=False)
    assert json.loads(printable_json(text)) == EVIL
    assert not RAW.search(printable_json(text))
