# SPDX-License-Identifier: Apache-2.0
"""To add a layer, a pattern, a command, ... is to add one file or one folder. Each newcomer here is added so to a copy
of the sources, without another change, and everything must pick it up by itself: lists, help, completion, the run, the
conformance tests, and the tests that hold the reference pages to the code.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import build, copy_sources, run

pytestmark = pytest.mark.deep

COMMAND = '''# SPDX-License-Identifier: Apache-2.0
"""netpipe greet"""

import click


@click.command(short_help="Greet somebody.")
@click.argument("name")
@click.option("--loud", is_flag=True, help="In capitals.")
def command(name: str, loud: bool) -> None:
    """Greet NAME."""
    text = f"hello {name}"
    click.echo(text.upper() if loud else text)
'''


@dataclass(frozen=True)
class Copy:
    folder: Path

    def add(self, path: str, text: str) -> None:
        """One new file. It must not replace one."""
        file = self.folder / path
        assert not file.exists()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def python(self, *arguments: str | Path, code: int = 0, **environment: str) -> str:
        own = {"PYTHONPATH": str(self.folder / "python"), "NETPIPE_NATIVE": str(self.folder / "build")}
        return run(sys.executable, *arguments, cwd=self.folder, code=code, **own, **environment)

    def netpipe(self, *arguments: str | Path, **environment: str) -> str:
        return self.python("-m", "netpipe", *arguments, **environment)

    def pytest(self, *arguments: str, code: int = 0) -> str:
        options = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist")
        return self.python("-m", "pytest", *options, *arguments, code=code)

    def completed(self, words: str) -> set[str]:
        """What bash offers for the last of these words."""
        asked = {
            "_NETPIPE_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
        }
        offered = self.python("-c", "from netpipe.cli import main; main()", **asked)
        return {line.rpartition(",")[2] for line in offered.splitlines()}

    def listed(self, kind: str, name: str) -> dict[str, Any]:
        everything = json.loads(self.netpipe("list", "--json"))
        (one,) = [one for one in everything[kind] if one["name"] == name]
        return dict(one)

    def measured(self, *arguments: str) -> list[dict[str, Any]]:
        """The points of a short verified run."""
        record = self.folder / "extension.jsonl"
        record.unlink(missing_ok=True)
        options = ("--verify", "--budget", "0.2", "--quiet", "--output", record)
        self.netpipe("run", *arguments, *options)
        lines = map(json.loads, record.read_text().splitlines())
        return [line for line in lines if line["type"] == "point"]


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """A copy of the sources with one of each kind added, and built."""
    copy = Copy(copy_sources(tmp_path_factory.mktemp("grown")))
    ring = (copy.folder / "examples" / "ring.c").read_text()
    summary = ring.partition('.summary = "')[2].partition('"')[0]
    copy.add("src/modules/ring/ring.c", ring)
    copy.add("src/modules/ring/module.toml", f'summary = "{summary}"\nbuild = "here"\n')
    pingpong = (copy.folder / "src" / "patterns" / "pingpong.cpp").read_text()
    copy.add("src/patterns/relay.cpp", pingpong.replace("pingpong", "relay"))
    copy.add("python/netpipe/cli/greet.py", COMMAND)
    build(copy.folder, copy.folder / "build")
    return copy


# ------------------------------------------------------------------------------------------------- a layer: one folder


def test_a_layer_is_listed_and_completed(grown: Copy) -> None:
    ring = grown.listed("modules", "ring")
    assert ring["path"] == str(grown.folder / "build/lib/netpipe/modules/ring.so")
    assert {option["name"] for option in ring["options"]} == {"slots", "slot", "wait"}
    assert "ring" in grown.completed("netpipe run r")
    assert "ring:slots=" in grown.completed("netpipe run ring:")


def test_a_layer_is_measured(grown: Copy) -> None:
    points = grown.measured("ring", "unix", "--sizes", "1,4097")
    assert {point["variant"] for point in points} == {"ring", "unix"}
    assert all(point["verified_bytes"] for point in points)


def test_a_layer_is_walked_by_the_conformance_tests(grown: Copy) -> None:
    said = grown.pytest("tests/e2e/test_conformance.py", "--module", "ring")
    assert " passed" in said.splitlines()[-1]


# ----------------------------------------------------------------------------------------------- a pattern: one file


def test_a_pattern_is_listed_and_completed(grown: Copy) -> None:
    assert grown.listed("patterns", "relay")["formula"]
    assert "relay" in grown.completed("netpipe run --pattern r")


def test_a_pattern_is_measured_and_shown(grown: Copy) -> None:
    points = grown.measured("shm", "tcp", "--pattern", "relay", "--sizes", "8,4097")
    assert {(point["variant"], point["pattern"]) for point in points} == {("shm", "relay"), ("tcp", "relay")}
    shown = json.loads(grown.netpipe("show", "--json", "extension.jsonl"))
    assert "relay" in json.dumps(shown)
    assert "relay" in grown.netpipe("show", "extension.jsonl")


def test_a_pattern_is_walked_by_the_conformance_tests(grown: Copy) -> None:
    said = grown.python(
        "-c",
        "import sys; sys.path.insert(0, 'tests/e2e'); import test_conformance as one; print(one.PATTERNS)",
    )
    assert "'relay'" in said
    said = grown.pytest("tests/e2e/test_conformance.py", "--module", "unix", "-k", "under_every_pattern")
    assert "1 passed" in said


# ----------------------------------------------------------------------------------------------- a command: one file


def test_a_command_is_in_the_help_and_runs(grown: Copy) -> None:
    assert "greet" in grown.netpipe("--help")
    assert "--loud" in grown.netpipe("greet", "--help")
    assert grown.netpipe("greet", "you", "--loud") == "HELLO YOU\n"
    assert grown.netpipe("greet", "you", NETPIPE_GREET_LOUD="1") == "HELLO YOU\n"
    assert grown.completed("netpipe gr") == {"greet"}


def test_a_command_without_documentation_is_noticed(grown: Copy) -> None:
    said = grown.pytest("tests/python/test_cli_shell.py", "-k", "reference_page and greet", code=1)
    assert "greet" in said
    assert "1 failed" in said.splitlines()[-1]


# -------------------------------------------------------------------------------------------------------------- all


def test_the_rooms_take_them(grown: Copy) -> None:
    """Apart from what may be too large by now."""
    grown.pytest("tests/python/test_rooms.py", "-k", "not large")
