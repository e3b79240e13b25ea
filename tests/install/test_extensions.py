# SPDX-License-Identifier: Apache-2.0
"""To add a layer, a pattern, a command, ... is to add one file or one folder. Each newcomer here is added so to a copy
of the sources, without another change, and everything must pick it up by itself: lists, help, completion, the run, the
conformance tests, and the tests that hold the reference pages to the code.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, build, copy_sources, run

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


# The editable installation in .venv finds netpipe in its own checkout, whatever PYTHONPATH says.
SITE = """import sys

sys.meta_path[:] = [one for one in sys.meta_path if "netpipe" not in getattr(one, "known_packages", ())]
"""
FINDING = '''# SPDX-License-Identifier: Apache-2.0
"""A rule that finds something in every run with points."""

from collections.abc import Iterator

from netpipe.findings import AS_RECORDED, NOTE, Finding, examples, rule
from netpipe.reading import Reading
from netpipe.records import Run


@rule("newcomer", "A newcomer", needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires always."""
    yield Finding(severity=NOTE, what="A new rule has judged this run.", certainty=AS_RECORDED)


def fires() -> Run:
    return examples.run(examples.point("tcp", 8, 1000.0))


def silent() -> Run:
    return examples.run()
'''


def example_of(page: str, kind: str, place: int = 0) -> str:
    """A code block of this kind on a page of the documentation: what readers will copy."""
    found = re.findall(rf"```{kind}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert len(found) > place, f"{page} has no such example"
    return str(found[place])


@dataclass(frozen=True)
class Copy:
    folder: Path
    native: Path

    def add(self, path: str, text: str) -> None:
        """One new file. It must not replace one."""
        file = self.folder / path
        assert not file.exists()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def python(self, *arguments: str | Path, code: int = 0, **environment: str) -> str:
        path = f"{self.folder / 'site'}:{self.folder / 'python'}"
        own = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "NETPIPE_NATIVE": str(self.native)}
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

    def measured(self, *arguments: str) -> Path:
        """The record of a short run."""
        record = self.folder / "extension.jsonl"
        record.unlink(missing_ok=True)
        self.netpipe("run", "--launches", "1", *arguments, "--budget", "0.2", "--quiet", "--output", record)
        return record


def copied(folder: Path, native: Path) -> Copy:
    copy = Copy(copy_sources(folder), native)
    copy.add("site/sitecustomize.py", SITE)
    assert copy.python("-c", "import netpipe; print(netpipe.__file__)").startswith(str(folder))
    return copy


def points(record: Path) -> list[dict[str, Any]]:
    lines = map(json.loads, record.read_text().splitlines())
    return [line for line in lines if line["type"] == "point"]


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """A copy of the sources with a layer and a pattern added, and built."""
    folder = tmp_path_factory.mktemp("grown")
    copy = copied(folder, folder / "build")
    ring = (folder / "examples" / "ring.c").read_text()
    summary = ring.partition('.summary = "')[2].partition('"')[0]
    copy.add("src/modules/ring/ring.c", ring)
    copy.add("src/modules/ring/module.toml", f'summary = "{summary}"\nbuild = "here"\n')
    pingpong = (folder / "src" / "patterns" / "pingpong.cpp").read_text()
    copy.add("src/patterns/relay.cpp", pingpong.replace("pingpong", "relay"))
    build(folder)
    return copy


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """A copy of the sources over the worker that measures nothing, for what is added in Python alone."""
    folder = tmp_path_factory.mktemp("scripted")
    copy = copied(folder, folder / "native")
    fake = folder / "tests" / "python" / "fake_worker.py"
    copy.add("native/bin/netpipe-worker", f'#!/bin/sh\nexec "{sys.executable}" -S -E "{fake}" "$@"\n')
    (copy.native / "bin" / "netpipe-worker").chmod(0o755)
    return copy


# ------------------------------------------------------------------------------------------------- a layer: one folder


@pytest.mark.deep
def test_a_layer_is_listed_and_completed(grown: Copy) -> None:
    ring = grown.listed("modules", "ring")
    assert ring["path"] == str(grown.folder / "build/lib/netpipe/modules/ring.so")
    assert {option["name"] for option in ring["options"]} == {"slots", "slot", "wait"}
    assert "ring" in grown.completed("netpipe run r")
    assert "ring:slots=" in grown.completed("netpipe run ring:")


@pytest.mark.deep
def test_a_layer_is_measured(grown: Copy) -> None:
    found = points(grown.measured("ring", "unix", "--sizes", "1,4097", "--verify"))
    assert {point["variant"] for point in found} == {"ring", "unix"}
    assert all(point["verified_bytes"] for point in found)


@pytest.mark.deep
def test_a_layer_is_walked_by_the_conformance_tests(grown: Copy) -> None:
    said = grown.pytest("tests/e2e/test_conformance.py", "--module", "ring")
    assert " passed" in said.splitlines()[-1]


# ----------------------------------------------------------------------------------------------- a pattern: one file


@pytest.mark.deep
def test_a_pattern_is_listed_and_completed(grown: Copy) -> None:
    assert grown.listed("patterns", "relay")["formula"]
    assert "relay" in grown.completed("netpipe run --pattern r")


@pytest.mark.deep
def test_a_pattern_is_measured_and_shown(grown: Copy) -> None:
    record = grown.measured("shm", "tcp", "--pattern", "relay", "--sizes", "8,4097")
    assert {(p["variant"], p["pattern"]) for p in points(record)} == {("shm", "relay"), ("tcp", "relay")}
    assert '"relay"' in grown.netpipe("show", "--json", record)
    assert "relay" in grown.netpipe("show", record)


@pytest.mark.deep
def test_a_pattern_is_walked_by_the_conformance_tests(grown: Copy) -> None:
    said = grown.python(
        "-c",
        "import sys; sys.path[:0] = ['tests/e2e', 'tests']; import test_conformance as one; print(one.PATTERNS)",
    )
    assert "'relay'" in said
    said = grown.pytest("tests/e2e/test_conformance.py", "--module", "unix", "-k", "under_every_pattern")
    assert "1 passed" in said


# ----------------------------------------------------------------------------------------------- a command: one file


@pytest.fixture(scope="module")
def commanding(scripted: Copy) -> Copy:
    scripted.add("python/netpipe/cli/greet.py", COMMAND)
    return scripted


def test_a_command_is_in_the_help_and_runs(commanding: Copy) -> None:
    assert "greet" in commanding.netpipe("--help")
    assert "--loud" in commanding.netpipe("greet", "--help")
    assert commanding.netpipe("greet", "you", "--loud") == "HELLO YOU\n"
    assert commanding.netpipe("greet", "you", NETPIPE_GREET_LOUD="1") == "HELLO YOU\n"
    assert commanding.completed("netpipe gr") == {"greet"}


def test_a_command_without_documentation_is_noticed(commanding: Copy) -> None:
    said = commanding.pytest("tests/python/test_cli_shell.py", "-k", "reference_page and greet", code=1)
    assert "1 failed" in said.splitlines()[-1]


# ----------------------------------------------------------------------------------------------- a finding: one file


@pytest.fixture(scope="module")
def judging(scripted: Copy) -> Copy:
    scripted.add("python/netpipe/findings/newcomer.py", FINDING)
    return scripted


@pytest.mark.gate
def test_a_finding_is_shown_everywhere(judging: Copy, tmp_path: Path) -> None:
    record = judging.measured("tcp")
    told = json.loads(judging.netpipe("show", "--json", record))
    assert "newcomer" in {finding["rule"] for finding in told["findings"]}
    assert "More notes in netpipe explain: a newcomer." in judging.netpipe("show", record)
    assert "A new rule has judged this run." in judging.netpipe("explain", record)
    judging.netpipe("report", record, "--output", tmp_path / "report.html")
    assert "A new rule has judged this run." in (tmp_path / "report.html").read_text()


def test_a_finding_is_walked_by_the_tests_of_all_rules(judging: Copy) -> None:
    said = judging.pytest("tests/python/test_findings.py", "-k", "newcomer")
    assert " passed" in said.splitlines()[-1]


# ------------------------------------------------------------------------------------------------ a figure: one file


@pytest.fixture(scope="module")
def drawing(scripted: Copy) -> Copy:
    scripted.add("python/netpipe/render/figures/tail.py", example_of("docs/how-to/add-a-figure.md", "python"))
    return scripted


def with_percentiles(record: Path) -> Path:
    """The worker that measures nothing makes up no p99, of which the example is a figure."""
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    for line in lines:
        if line["type"] == "point":
            line["p99_ns"] = 2 * line["median_ns"]
    record.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return record


def test_a_figure_is_listed_and_drawn(drawing: Copy, tmp_path: Path) -> None:
    record = with_percentiles(drawing.measured("tcp"))
    assert re.search(r"^ *tail\b", drawing.netpipe("plot", "--list", record), re.MULTILINE)
    drawing.netpipe("plot", record, "--figure", "tail", "--output", tmp_path / "tail.svg")
    assert "<svg" in (tmp_path / "tail.svg").read_text()
    drawing.netpipe("report", record, "--output", tmp_path / "report.html")
    assert "Tail: p99 over the median" in (tmp_path / "report.html").read_text()


@pytest.fixture(scope="module")
def drawing_kernels(scripted: Copy) -> Copy:
    example = example_of("docs/how-to/add-a-figure.md", "python", 1)
    scripted.add("python/netpipe/render/figures/operations.py", example)
    return scripted


def test_a_figure_of_kernels_is_listed_and_drawn(drawing_kernels: Copy, tmp_path: Path) -> None:
    results = tmp_path / "apps.jsonl"
    result = {"type": "result", "name": "cg", "problem": "A", "variant": "mpi@x", "verified": True}
    ran = [{**result, "ranks": ranks, "seconds": 4 / ranks, "mops": 100.0 * ranks} for ranks in (1, 2, 4)]
    lines = [{"type": "applications", "schema": 1}, *ran, {"type": "end", "exit_code": 0}]
    results.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert re.search(r"^ *operations\b", drawing_kernels.netpipe("plot", "--list", results), re.MULTILINE)
    drawn = tmp_path / "operations.svg"
    drawing_kernels.netpipe("plot", results, "--figure", "operations", "--output", drawn)
    assert "<svg" in drawn.read_text()
    drawing_kernels.netpipe("report", results, "--output", tmp_path / "report.html")
    assert "Operations per second" in (tmp_path / "report.html").read_text()


# ------------------------------------------------------------------------------------ a library family: one folder


@pytest.fixture(scope="module")
def related(scripted: Copy) -> Copy:
    scripted.add(
        "python/netpipe/libraries/example/__init__.py", example_of("docs/how-to/add-a-family.md", "python")
    )
    return scripted


def test_a_family_is_recognised_by_its_compiler_and_launcher(related: Copy) -> None:
    """tests/python/test_libraries_family.py adds a module of one."""
    said = related.python(
        "-c",
        "from netpipe.libraries import families, launchers\n"
        "print(*(one.name for one in families('mpi')), *launchers(), sep='\\n')",
    )
    assert said.split().count("example") == 2, said


# -------------------------------------------------------------------------------------------------- a suite: one file


@pytest.fixture(scope="module")
def suited(scripted: Copy) -> Copy:
    scripted.add("python/netpipe/suites/newcomer.toml", example_of("docs/how-to/add-a-suite.md", "toml"))
    return scripted


def test_a_suite_is_listed_and_completed(suited: Copy) -> None:
    assert re.search(r"^newcomer ", suited.netpipe("suite", "list"), re.MULTILINE)
    assert "newcomer" in suited.completed("netpipe suite run new")


def test_a_suite_is_measured(suited: Copy, tmp_path: Path) -> None:
    suited.netpipe("suite", "run", "newcomer", "--output", tmp_path / "made")
    made = {path.suffix for path in (tmp_path / "made").iterdir()}
    assert made == {".json", ".jsonl", ".svg", ".csv", ".html"}


def test_a_suite_is_walked_by_the_tests_of_all_suites(suited: Copy) -> None:
    said = suited.pytest("tests/python/test_suite.py", "-k", "newcomer and not reference_page")
    assert "2 passed" in said.splitlines()[-1]


def test_a_suite_without_documentation_is_noticed(suited: Copy) -> None:
    said = suited.pytest("tests/python/test_suite.py", "-k", "newcomer and reference_page", code=1)
    assert "1 failed" in said.splitlines()[-1]


# -------------------------------------------------------------------------------------------------------------- all


@pytest.mark.usefixtures("commanding", "judging", "drawing", "related", "suited")
def test_the_rooms_take_them(scripted: Copy) -> None:
    """Except that a folder may be too large by now."""
    scripted.pytest("tests/python/test_rooms.py", "-k", "not too_large")
