# SPDX-License-Identifier: Apache-2.0
"""Suite files: what is refused, what is left out, and what is written, over the worker that measures nothing.
tests/e2e/test_suite_measured.py measures one.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

from netpipe import native
from netpipe.cli.suite import command, files
from netpipe.failure import UNAVAILABLE, USAGE, Failure, NotHere
from netpipe.records import Run
from netpipe.session import Session

if TYPE_CHECKING:
    from conftest import Netpipe

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/reference/cli.md"
SUITES = sorted((ROOT / "python/netpipe/suites").glob("*.toml"))

GOOD = """summary = "Two layers"
source = "this test"

[[run]]
name = "small"
variants = ["tcp", "shm:wait=poll"]
pattern = ["pingpong", "stream"]
sizes = "8,64k"
budget = 1
verify = true

[[run]]
name = "quick"
variants = "shm"
preset = "quick"

[[figure]]
title = "Figure 1 (a): throughput"
run = "small"
figure = "throughput"
variant = "shm"
pattern = ["pingpong"]

[[figure]]
title = "Figure 2"
run = "quick"
figure = "latency"
format = "png"

[[table]]
title = "Table 1"
run = "small"
pattern = "stream"
"""


def written(text: str = GOOD, path: str = "mine.toml") -> Path:
    Path(path).write_text(text)
    return Path(path)


def changed(old: str, new: str) -> str:
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


# ------------------------------------------------------------------------------------------------- what is read


def test_a_file_is_what_the_commands_would_be_called_with(fake: Path) -> None:
    suite = files.load(written())
    small, quick = suite.runs
    assert (suite.name, suite.summary, suite.source) == ("mine", "Two layers", "this test")
    assert (small.name, quick.name) == ("small", "quick")
    assert small.given["variants"] == ("tcp", "shm:wait=poll")
    assert (small.given["sizes"], small.given["verify"], small.given["preset"]) == ("8,64k", True, "default")
    assert (quick.given["variants"], quick.given["preset"]) == (("shm",), "quick")
    assert [(one.kind, one.name, one.run, one.file) for one in suite.results] == [
        ("figure", "Figure 1 (a): throughput", "small", "figure-1-a-throughput.svg"),
        ("figure", "Figure 2", "quick", "figure-2.png"),
        ("table", "Table 1", "small", "table-1.csv"),
    ]
    assert (suite.results[0].variants, suite.results[0].patterns) == (("shm",), ("pingpong",))


def test_neither_the_environment_nor_the_configuration_changes_a_suite(
    netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    written()
    monkeypatch.setenv("NETPIPE_RUN_PRESET", "thorough")
    monkeypatch.setenv("NETPIPE_RUN_TARGET", "7%")
    Path("netpipe.toml").write_text('[run]\ntarget = "9%"\n')
    assert "± 7.0 %" in netpipe("run", "--dry-run").out  # they are in force
    said = netpipe("suite", "run", "mine.toml", "--dry-run")
    assert said.code == 0
    assert re.findall(r"target +± (\S+ %)", said.out) == ["1.0 %", "2.0 %"]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('source = "this test"', 'sauce = "this test"', " has an unknown key 'sauce'; did you mean 'source'?"),
        ('source = "this test"', "", ": source is missing"),
        ('source = "this test"', "source = 3", ": source must be a text"),
        ('name = "quick"', 'name = "small"', " makes the run 'small' twice; choose another name or title"),
        ('name = "quick"\n', "", ": [[run]] 2 name is missing"),
        ('name = "quick"', 'name = "a/b"', ": [[run]] 'a/b' name names a file; write letters, digits"),
        ("budget = 1", "budgett = 1", ": [[run]] 'small' has an unknown key 'budgett'; did you mean 'budget'?"),
        ("budget = 1", 'output = "x"', ": [[run]] 'small' has an unknown key 'output'; "),
        ("budget = 1", "budget = [1, 2]", ": [[run]] 'small' budget must be one value"),
        ("budget = 1", "budget = 2026-01-01", ": [[run]] 'small' budget must be a text or a number"),
        ("budget = 1", "launches = 1.5", ": [[run]] 'small' launches must be a whole number"),
        ("budget = 1", "launches = 0", ": [[run]] 'small' launches: 0 is not in the range 1<=x<=10000"),
        ("budget = 1", 'budget = "x"', ": [[run]] 'small': 'x' is not a number"),
        ("verify = true", 'verify = "no"', ": [[run]] 'small' verify must be true or false"),
        ('"tcp", "shm', '"tpc", "shm', ": [[run]] 'small': there is no module 'tpc'; there are null, "),
        ('preset = "quick"', 'preset = "quik"', ": [[run]] 'quick' preset: there is no 'quik'; did you mean 'quick'?"),
        ('title = "Figure 2"\n', "", ": [[figure]] 2 title is missing"),
        ('title = "Figure 2"', 'title = "Figure 1 a throughput"\nformat = "svg"\n#', " makes the file "),
        ('run = "quick"', 'run = "quack"', ": [[figure]] 'Figure 2' run: there is no [[run]] 'quack'; did you mean"),
        ('figure = "latency"\n', "", ": [[figure]] 'Figure 2' figure is missing"),
        ('figure = "latency"', 'figure = "latncy"', " figure: there is no 'latncy'; did you mean 'latency'?"),
        ('format = "png"', 'format = "gif"', ": [[figure]] 'Figure 2' format: there is no 'gif'; there are svg, png"),
        ('format = "png"', 'size = "8"', ": [[figure]] 'Figure 2' size has no effect on the figure latency; it"),
        ('variant = "shm"', 'variant = "sh"', " variant: [[run]] 'small' has no points of variant 'sh'; "),
        ('pattern = ["pingpong"]', 'pattern = "put"', " pattern: [[run]] 'small' has no points of pattern 'put'; "),
        ('title = "Table 1"', 'title = "Table 1"\nfigure = "latency"', ": [[table]] 'Table 1' has an unknown key"),
        ("[[table]]", "[table]", ": 'table' is not a list of tables; write [[table]]"),
        ("[[table]]", "[[table]", " is not valid TOML: "),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_before_anything_is_measured(
    netpipe: Netpipe, old: str, new: str, sentence: str
) -> None:
    text = changed(old, new)
    if "makes the file" in sentence:
        text = text.replace('format = "png"', "")
    written(text)
    for more in ([], ["--dry-run"]):
        said = netpipe("suite", "run", "mine.toml", *more)
        assert (said.code, said.out) == (USAGE, "")
        assert said.err.startswith("netpipe: the suite mine.toml")
        assert sentence in said.err
        assert said.err.count("\n") == 1
    assert [path.name for path in Path().iterdir()] == ["mine.toml"]


@pytest.mark.parametrize(
    ("kept", "sentence"),
    [
        (GOOD.partition("[[figure]]")[0], "has no [[figure]] and no [[table]]"),
        (GOOD.partition("[[run]]")[0], "has no [[run]]"),
    ],
)
def test_a_suite_measures_and_makes_something(netpipe: Netpipe, kept: str, sentence: str) -> None:
    written(kept)
    said = netpipe("suite", "run", "./mine.toml")
    assert (said.code, said.err) == (USAGE, f"netpipe: the suite mine.toml {sentence}\n")


def test_a_name_that_is_none_is_said(netpipe: Netpipe) -> None:
    said = netpipe("suite", "run", "helth")
    assert (said.code, said.out) == (USAGE, "")
    assert (
        said.err
        == "netpipe: there is no suite 'helth' (a file needs its path: ./helth.toml); did you mean 'health'?\n"
    )
    assert (
        netpipe("suite", "run", "./gone.toml").err
        == "netpipe: the suite gone.toml cannot be read: No such file or directory\n"
    )
    written()
    Path("file").touch()
    said = netpipe("suite", "run", "mine.toml", "--output", "file")
    assert said.code == USAGE
    assert "'file' is a file" in said.err


# ------------------------------------------------------------------------------------------------- what is made


def test_a_suite_leaves_records_figures_tables_and_a_report(netpipe: Netpipe) -> None:
    written()
    said = netpipe("suite", "run", "./mine.toml", "--output", "there")
    assert said.code == 0
    folder = Path("there")
    made = {
        "figure-1-a-throughput.svg",
        "figure-2.png",
        "table-1.csv",
        "report.html",
        "small.jsonl",
        "quick.jsonl",
        "suite.json",
    }
    assert {path.name for path in folder.iterdir()} == made
    small = Run.read(folder / "small.jsonl")
    assert small.plans[0].verify
    assert small.header is not None
    assert small.header.argv == ["suite", "run", "./mine.toml", "--output", "there"]
    assert {(point.variant, point.pattern) for point in small.points} == {
        (variant, pattern) for variant in ("tcp", "shm:wait=poll") for pattern in ("pingpong", "stream")
    }
    assert Run.read(folder / "quick.jsonl").plans[0].target == 0.02
    assert "<svg" in (folder / "figure-1-a-throughput.svg").read_text()
    assert (folder / "figure-2.png").read_bytes().startswith(b"\x89PNG")
    rows = (folder / "table-1.csv").read_text().splitlines()
    assert len(rows) == 1 + 4
    assert all("stream" in row for row in rows[1:])
    assert "Two layers" in (folder / "report.html").read_text()
    assert "3 of 3 figures and tables made" in said.out
    assert "✓ there/figure-1-a-throughput.svg: Figure 1 (a): throughput" in said.out


def test_a_figure_is_the_one_that_plot_draws(netpipe: Netpipe) -> None:
    written()
    assert netpipe("suite", "run", "mine.toml", "--quiet") == type(netpipe())(0, "", "")
    title = "Figure 1 (a): throughput"
    options = ["--figure", "throughput", "--variant", "shm", "--pattern", "pingpong", "--title", title]
    assert netpipe("plot", "mine/small.jsonl", *options, "-o", "by-hand.svg").code == 0
    assert Path("by-hand.svg").read_bytes() == Path("mine/figure-1-a-throughput.svg").read_bytes()


def test_a_second_time_keeps_the_older_records(netpipe: Netpipe) -> None:
    written()
    for _ in range(2):
        assert netpipe("suite", "run", "mine.toml", "--quiet").code == 0
    assert len(list(Path("mine").glob("small*.jsonl"))) == 2


def test_a_dry_run_measures_nothing(netpipe: Netpipe) -> None:
    written()
    said = netpipe("suite", "run", "mine.toml", "--dry-run")
    assert (said.code, said.err) == (0, "")
    assert [line for line in said.out.splitlines() if line.startswith("run ")] == ["run small", "run quick"]
    assert "✓ Figure 2 (figure-2.png), from the run quick" in said.out
    assert "In all at most " in said.out
    assert [path.name for path in Path().iterdir()] == ["mine.toml"]


# --------------------------------------------------------------------------------------------- what is not here


@pytest.fixture
def without_shm(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker whose shm was not built, and no MPI library."""
    plan = native.plan

    def refusing(text: str) -> Any:
        if "variant shm" in text:
            raise Failure(UNAVAILABLE, "shm was not built: its library was not found; get it")
        return plan(text)

    monkeypatch.setattr(native, "plan", refusing)


def test_what_no_library_here_can_take_is_left_out_however_that_is_said(
    netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_takes(variants: Any, *_: Any, **__: Any) -> Any:
        if any(one.startswith("mpi:") for one in variants):
            raise NotHere(USAGE, "this is said in other words today")
        return variants, []

    monkeypatch.setattr("netpipe.session.expand_libraries", none_takes)
    written(changed('"tcp", "shm:wait=poll"', '"tcp", "shm:wait=poll", "mpi:eager=64k"'))
    said = netpipe("suite", "run", "mine.toml", "--dry-run")
    assert said.code == 0, said.err
    assert "run small leaves out mpi:eager=64k: this is said in other words today\n" in said.err


def test_a_dry_run_leaves_out_a_run_whose_library_has_gone(
    netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = Failure(UNAVAILABLE, "the launcher of tcp does not exist any more")
    lacking = [["tcp", "shm:wait=poll"]]  # the variants of the runs that lack it

    def check(self: Session) -> None:
        if self.variants in lacking:
            raise gone

    monkeypatch.setattr(Session, "check_libraries", check)
    written()
    said = netpipe("suite", "run", "mine.toml", "--dry-run")
    assert (said.code, said.err) == (0, f"netpipe: run small leaves out all variants: {gone.sentence}\n")
    words = " ".join(said.out.split())
    assert f"from the run small: {gone.sentence}" in words
    assert "✓ Figure 2 (figure-2.png), from the run quick" in words
    lacking.append(["shm"])
    assert netpipe("suite", "run", "mine.toml", "--dry-run").code == 3, "nothing can be measured"


@pytest.mark.usefixtures("without_shm")
def test_what_is_not_here_is_named_and_the_rest_is_measured(netpipe: Netpipe) -> None:
    written(changed('"tcp", "shm:wait=poll"', '"tcp", "shm:wait=poll", "mpi@lam"'))
    said = netpipe("suite", "run", "mine.toml")
    assert said.code == 0
    assert (
        "run small leaves out shm:wait=poll: shm was not built: its library was not found; get it\n"
        in said.err
    )
    assert (
        "run small leaves out mpi@lam: mpi@lam was not added; add it with 'netpipe modules add mpi --mpicc PATH'\n"
        in said.err
    )
    assert {path.name for path in Path("mine").iterdir()} == {
        "small.jsonl",
        "report.html",
        "table-1.csv",
        "suite.json",
    }
    assert {point.variant for point in Run.read("mine/small.jsonl").points} == {"tcp"}
    words = " ".join(said.out.split())
    assert "1 of 3 figures and tables made" in words
    assert (
        "✗ Figure 1 (a): throughput was not made: shm was not built: its library was not found; get it; mpi"
        in words
    )
    assert "✗ Figure 2 was not made: shm was not built: its library was not found; get it" in words
    assert "! mine/table-1.csv: Table 1, without shm:wait=poll, mpi@lam" in words
    words = " ".join(netpipe("suite", "run", "mine.toml", "--dry-run").out.split())
    assert (
        "✗ Figure 2 (figure-2.png), from the run quick: shm was not built: its library was not found" in words
    )


@pytest.mark.usefixtures("without_shm")
def test_a_chosen_library_that_is_not_here_is_no_mistake_of_the_file(netpipe: Netpipe) -> None:
    text = changed('"tcp", "shm:wait=poll"', '"tcp", "shm:wait=poll", "mpi"')
    written(text.replace('variant = "shm"', 'variant = ["tcp", "mpi@openmpi"]'))
    said = netpipe("suite", "run", "mine.toml")
    assert said.code == 0
    assert "! mine/figure-1-a-throughput.svg: Figure 1 (a): throughput, without mpi@openmpi" in said.out


@pytest.mark.usefixtures("without_shm")
def test_a_figure_of_an_earlier_time_is_not_taken_for_a_new_one(netpipe: Netpipe) -> None:
    written()
    Path("mine").mkdir()
    Path("mine/figure-2.png").touch()
    words = " ".join(netpipe("suite", "run", "mine.toml").out.split())
    assert (
        "Figure 2 was not made: shm was not built: its library was not found; get it; mine/figure-2.png is"
        in words
    )


@pytest.mark.usefixtures("without_shm")
@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_nothing_at_all_is_exit_code_3(netpipe: Netpipe, more: list[str]) -> None:
    written(changed('"tcp", "shm:wait=poll"', '"shm"').replace('variant = "shm"', 'variant = "mpi"'))
    said = netpipe("suite", "run", "mine.toml", *more)
    assert said.code == UNAVAILABLE
    assert "shm was not built" in said.out
    assert not list(Path().rglob("*.jsonl"))


def test_a_figure_without_its_data_is_said_with_what_it_lacks(netpipe: Netpipe) -> None:
    written(changed('figure = "latency"', 'figure = "overlap"'))
    said = netpipe("suite", "run", "mine.toml")
    assert said.code == 0
    assert "✗ Figure 2 was not made: no selected curve has the pattern overlap" in said.out
    assert not Path("mine/figure-2.png").exists()
    said = netpipe("suite", "run", "mine.toml", "--quiet")
    assert (said.code, said.out) == (0, "")
    assert said.err.startswith("netpipe: Figure 2 was not made: no selected curve has the pattern overlap")


# ------------------------------------------------------------------------------------------------- what goes wrong


def test_a_variant_that_fails_is_exit_code_4_and_the_rest_is_made(netpipe: Netpipe) -> None:
    written()
    said = netpipe("suite", "run", "mine.toml", fake="blame=tcp")
    assert said.code == 4
    assert Path("mine/figure-2.png").exists()
    assert Path("mine/report.html").exists()
    assert "! run small: tcp: " in said.out


def test_a_run_that_cannot_be_opened_leaves_the_others(netpipe: Netpipe) -> None:
    written(changed('"tcp", "shm:wait=poll"', '"tcp"').replace('variant = "shm"', 'variant = "tcp"'))
    said = netpipe("suite", "run", "mine.toml", fake="unopened=tcp")
    assert said.code == 0
    words = " ".join(said.out.split())
    assert "✗ run small: not measured: tcp: it cannot be opened" in words
    assert "✗ Table 1 was not made: the run small was not measured: tcp: it cannot be opened" in words
    assert Path("mine/figure-2.png").exists()


def test_an_interrupt_keeps_what_was_measured(
    netpipe: Netpipe, fake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import signal

    from netpipe.events import Pass
    from netpipe.render.terminal import live

    def show(self: live.Lines, progress: Any) -> None:
        if isinstance(progress.event, Pass) and progress.event.number == 0:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(live.Lines, "show", show)
    written()
    said = netpipe("suite", "run", "mine.toml", fake="pass_s=0.05 passes=1000")
    assert said.code == 130
    assert "interrupted; what was measured until then is in mine/small.jsonl\n" in said.err
    assert {path.name for path in Path("mine").iterdir()} == {"small.jsonl", "suite.json"}
    assert Run.read("mine/small.jsonl").points


# ------------------------------------------------------------------------------------- the suites that are shipped


def test_the_suites_are_found() -> None:
    assert files.names() == [path.stem for path in SUITES]
    assert {"health", "netpipe-classic"} <= set(files.names())


@pytest.mark.parametrize("path", SUITES, ids=lambda path: path.stem)
def test_a_suite_is_listed_and_completed(netpipe: Netpipe, path: Path) -> None:
    said = netpipe("suite", "list")
    assert (said.code, said.err) == (0, "")
    assert re.search(rf"^{path.stem} ", said.out, re.MULTILINE)
    run = command.commands["run"]
    (argument,) = [one for one in run.params if isinstance(one, click.Argument)]
    offered = argument.shell_complete(click.Context(run), path.stem[:2])
    assert path.stem in [one.value for one in offered]


@pytest.mark.parametrize("path", SUITES, ids=lambda path: path.stem)
def test_a_suite_is_valid_at_every_size(fake: Path, path: Path) -> None:
    for size in files.load(path).sizes:
        suite = files.load(path, size)
        assert (suite.name, suite.size, len(suite.runs) > 0) == (path.stem, size, True)
        assert suite.results


@pytest.mark.parametrize("path", SUITES, ids=lambda path: path.stem)
def test_the_reference_page_has_every_suite(path: Path) -> None:
    assert f"\n| `{path.stem}` | " in PAGE.read_text()


def test_the_reference_page_has_every_option_of_suites(fake: Path) -> None:
    section = next(part for part in PAGE.read_text().split("\n## ") if part.startswith("netpipe suite"))
    assert set(command.commands) == {"list", "show", "run", "submit"}
    for name, one in command.commands.items():
        assert f"`netpipe suite {name}" in section
        for option in one.params:
            if isinstance(option, click.Option):
                assert f"`{option.opts[-1]}" in section, f"{option.opts[-1]} of netpipe suite {name}"


def test_the_list_is_shown_without_a_worker_and_names_a_file_that_is_broken(
    netpipe: Netpipe, fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.unlink()
    folder = tmp_path / "suites"
    folder.mkdir()
    written(path=str(folder / "good.toml"))
    written("summary = 3", str(folder / "bad.toml"))
    monkeypatch.setattr(files, "FOLDER", folder)
    said = netpipe("suite", "list")
    assert said.code == USAGE
    assert "Two layers" in said.out
    assert said.err == f"netpipe: the suite {folder / 'bad.toml'}: summary must be a text\n"
    assert netpipe("suite", "run", "good").code == UNAVAILABLE


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("netpipe suite r", {"plain,run"}),
        ("netpipe suite run hea", {"plain,health"}),
        ("netpipe suite run ./mi", {"file,./mi"}),
    ],
)
def test_words_are_completed(fake: Path, words: str, offered: set[str]) -> None:
    asked = {"_NETPIPE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = subprocess.run(
        [sys.executable, "-c", "from netpipe.cli import main; main()"],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert set(done.stdout.split()) == offered


def test_the_example_of_the_page_is_valid(fake: Path, netpipe: Netpipe) -> None:
    found = re.search(r"```toml\n(.*?)```", (ROOT / "docs/how-to/add-a-suite.md").read_text(), re.DOTALL)
    assert found
    written(found[1])
    said = netpipe("suite", "run", "./mine.toml", "--quiet")
    assert (said.code, said.err) == (0, "")
    assert json.loads(
        Path("mine").joinpath(f"{files.load(Path('mine.toml')).runs[0].name}.jsonl").open().readline()
    )
