# SPDX-License-Identifier: Apache-2.0
"""Settings of a pattern against each other, and tables and figures of sweeps, on made-up runs whose truth is known."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from rich.console import Console
from synthetic import mode
from test_analysis_verdicts import alike, made, step

from netpipe import notebook
from netpipe.cli.show import to_json
from netpipe.reading import Reading
from netpipe.reading.blocks.verdicts import Word
from netpipe.records import PlannedVariant, Run
from netpipe.render import figures
from netpipe.render.drawing.picture import Picture
from netpipe.render.drawing.scope import Scope
from netpipe.render.page.page import write
from netpipe.render.terminal.summary import print_summary
from netpipe.render.verdicts import names_of, side_by_side, verdict_sentence, verdict_sentences

TUNABLE = ("in_flight", "send_offset")
PLAIN = "tcp window"


def swept(
    factors: Mapping[str, Callable[[int], float]],
    tunable: Sequence[str] = TUNABLE,
    copies: Mapping[str, str] | None = None,
    idle: bool = False,
    noise: float = 0.01,
    seed: int = 1,
) -> Run:
    """Curves by name, "tcp window:in_flight=4", each of which takes so many times as long as the first."""
    run = made(factors, noise=noise, seed=seed)
    names = [name.partition(" ") for name in factors]
    variants, patterns = (list(dict.fromkeys(name[place] for name in names)) for place in (0, 2))
    for point in run.points:
        point.variant, _, point.pattern = point.variant.partition(" ")
    for opened in run.variants:
        opened.variant = opened.module = opened.variant.partition(" ")[0]
        opened.idle = idle
    for plan in run.plans:
        plan.variants[:] = [
            PlannedVariant(variant=one, module=one.partition("#")[0], copy_of=(copies or {}).get(one))
            for one in variants
        ]
        plan.patterns[:] = patterns
        plan.modes[:] = [
            mode(one, what="allreduce")
            if one.startswith("collective")
            else mode(one, in_flight="16", directions="one", send_offset="0")
            for one in patterns
        ]
        for one in plan.modes:
            one.tunable = list(tunable)
    return run


def held(run: Run) -> list[tuple[str, str]]:
    return [(one.pattern, one.against_pattern) for one in Reading(run).verdicts]


def in_flight(*values: int, factor: Callable[[int], float] = alike) -> dict[str, Callable[[int], float]]:
    """A curve for each value; the default, 16, takes one time as long."""
    return {
        PLAIN if value == 16 else f"{PLAIN}:in_flight={value}": alike if value == 16 else factor
        for value in values
    }


def summary(run: Run, width: int = 120) -> str:
    out = io.StringIO()
    print_summary(Console(file=out, width=width), Reading(run))
    return out.getvalue()


# ------------------------------------------------------------------------------------------------------- verdicts


def test_two_settings_of_a_pattern_have_a_verdict_by_blocks() -> None:
    """The pace of the machine differs from block to block by far more than the two settings do."""
    (verdict,) = Reading(swept(in_flight(4, 16, factor=step))).verdicts
    assert (verdict.variant, verdict.against) == ("tcp", "tcp")
    assert (verdict.pattern, verdict.against_pattern) == ("window:in_flight=4", "window")
    assert verdict.settings == ("in_flight=4", "in_flight=16")
    slower = verdict.of(Word.SLOWER)
    assert {one.size_bytes for one in slower} == {2**power for power in range(16, 21)}
    assert all(one.times.covers(1.31) for one in slower)
    sentence = verdict_sentence(verdict)
    assert sentence.startswith(
        "tcp, window: in_flight=4 against in_flight=16: slower from 64 KiB on, most at "
    )


def test_of_many_sizes_without_a_difference_no_setting_shows_one_by_chance() -> None:
    seen = []
    for seed in range(40):
        (verdict,) = Reading(swept(in_flight(4, 16), noise=0.05, seed=seed)).verdicts
        seen.append(any(one.word in (Word.FASTER, Word.SLOWER) for one in verdict.sizes))
    assert sum(seen) <= 5  # 2 are due


def test_an_option_that_makes_it_another_operation_is_not_compared() -> None:
    operations = {"tcp collective": alike, "tcp collective:what=bcast": step}
    assert held(swept(operations)) == []
    both = {
        f"{PLAIN}{text}": alike
        for text in (":in_flight=4", "", ":in_flight=4,directions=both", ":directions=both")
    }
    assert held(swept(both)) == [
        ("window:in_flight=4", "window"),
        ("window:in_flight=4,directions=both", "window:directions=both"),
    ]
    _, other = Reading(swept(both)).verdicts
    assert names_of(other) == ("tcp, window:directions=both: in_flight=4", "in_flight=16")


def test_a_run_that_does_not_say_which_options_are_comparable_has_no_such_verdict() -> None:
    assert held(swept(in_flight(4, 16, factor=step), tunable=())) == []


def test_without_the_default_the_first_value_is_what_the_others_are_held_against() -> None:
    plain = held(swept(in_flight(1, 4, 16)))
    assert plain == [("window:in_flight=1", "window"), ("window:in_flight=4", "window")]
    first = held(swept(in_flight(1, 4)))
    assert first == [("window:in_flight=4", "window:in_flight=1")]


def test_settings_are_compared_under_each_variant_and_after_the_variants() -> None:
    names = {f"{layer} window{text}": alike for layer in ("tcp", "shm") for text in ("", ":in_flight=4")}
    found = [(one.variant, one.against, one.pattern) for one in Reading(swept(names)).verdicts]
    assert found == [("tcp", "tcp", "window:in_flight=4"), ("shm", "shm", "window:in_flight=4")]
    names = {f"{layer} window{text}": alike for layer in ("mpi@a", "mpi@b") for text in ("", ":in_flight=4")}
    run = swept(names)
    said = [one.settings is None for one in Reading(run).verdicts]
    assert said == [True, True, False, False]
    sentences = verdict_sentences(Reading(run).verdicts)
    assert sentences[0].endswith(" (window)")
    assert sentences[2].startswith("mpi@a, window: in_flight=4 against in_flight=16: ")
    assert not sentences[2].endswith(")"), "it names the pattern itself"


def test_controls_and_what_moves_nothing_have_no_verdicts_of_settings() -> None:
    run = swept(
        {f"{layer} window{text}": alike for layer in ("tcp", "tcp#2") for text in ("", ":in_flight=4")},
        copies={"tcp#2": "tcp"},
    )
    assert {one.variant for one in Reading(run).verdicts} == {"tcp"}
    assert held(swept(in_flight(4, 16), idle=True)) == []


def test_the_json_and_the_notebook_have_them() -> None:
    reading = Reading(swept(in_flight(4, 16, factor=step)))
    (said,) = json.loads(to_json(reading, list(reading.curves), points=False))["verdicts"]
    assert said["settings"] == ["in_flight=4", "in_flight=16"]
    assert (said["pattern"], said["against_pattern"]) == ("window:in_flight=4", "window")
    last = said["sizes"][-1]
    assert last["times"]["low"] < 1.31 < last["times"]["high"]
    assert last["word"] == "slower"
    rows = notebook.compare(reading.run).rows(named=True)
    assert {(one["variant"], one["against"], one["pattern"]) for one in rows} == {
        ("tcp (in_flight=4)", "tcp (in_flight=16)", "window:in_flight=4")
    }


# --------------------------------------------------------------------------------------------- tables of sweeps


def test_a_sweep_is_a_table_of_ratios_and_two_settings_are_a_sentence() -> None:
    two = swept(in_flight(4, 16, factor=step))
    assert side_by_side(Reading(two).verdicts) == ()
    assert not re.search("^times as long ", summary(two), re.MULTILINE)
    text = summary(swept(in_flight(1, 4, 16, factor=step)))
    head = re.search(r"^times as long +in_flight +as +8 B +1 KiB +64 KiB +1 MiB *$", text, re.MULTILINE)
    assert head is not None
    rows = text[head.end() :].splitlines()[1:3]
    assert re.match(
        r"tcp +1 +in_flight=16 +same ±[\d.]+ % +same ±[\d.]+ % +1\.3\d \[1\.\d+ 1\.\d+\] ", rows[0]
    )
    assert re.match(r" +4 +in_flight=16 ", rows[1])


def test_values_of_a_module_are_a_table_too() -> None:
    variants = {"tcp:sndbuf=64k": alike, "tcp:sndbuf=1M": step, "tcp:sndbuf=4M": step}
    text = summary(made(variants))
    assert re.search(r"^tcp:sndbuf=1M +tcp:sndbuf=64k +same ", text, re.MULTILINE)
    libraries = {"mpi@a": alike, "mpi@b": step, "mpi@c": step}
    found = re.search("^times as long ", summary(made(libraries)), re.MULTILINE)
    assert not found, "libraries are no values of a setting"


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_of_ratios_fits_the_terminal(width: int) -> None:
    text = summary(swept(in_flight(1, 4, 16, 64, factor=step)), width)
    assert max(map(len, text.splitlines())) <= width
    (head,) = (line for line in text.splitlines() if line.startswith("times as long"))
    assert head.rstrip().endswith("1 MiB")
    assert ("64 KiB" in head) == (width == 120)


def test_the_page_has_the_table_of_ratios(tmp_path: Path) -> None:
    write(Reading(swept(in_flight(1, 4, 16, factor=step))), tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "<h2>Settings side by side</h2>" in page
    assert "tcp, window: in_flight=4" in page
    write(Reading(swept(in_flight(4, 16, factor=step))), tmp_path / "report.html")
    assert "<h2>Settings side by side</h2>" not in (tmp_path / "report.html").read_text()


# -------------------------------------------------------------------------------------------------------- figures


def relative(run: Run, size: int) -> Picture:
    _, ratios = figures.get("sweep").panels(Scope((Reading(run),), sizes=(size,)))
    (view,) = ratios.views
    assert isinstance(view, Picture)
    return view


def test_the_figure_over_a_setting_has_the_paired_ratio_and_its_interval() -> None:
    run = swept(in_flight(1, 4, 16, 64, factor=step))
    view = relative(run, 65536)
    (line,) = view.lines
    assert (line.y[0], line.low[0], line.high[0]) == (1, 1, 1), "it is the first value"
    low, high = line.low[2], line.high[2]
    assert low < 1 / 1.31 < high
    assert high / low < 1.2, "launches lie 20 % apart and blocks 10 %, but not their ratios"
    assert view.y.low <= low <= high <= view.y.high
    reading = Reading(run)
    paired = reading.ratios_of(("tcp", "window"), ("tcp", "window:in_flight=1"))[65536]
    assert (line.y[2], low, high) == (paired.value, paired.low, paired.high)


def test_without_blocks_the_figure_takes_the_two_curves_as_independent() -> None:
    run = swept(in_flight(1, 4, 16, 64, factor=step))
    for point in run.points:
        point.visits = None
    (line,) = relative(run, 65536).lines
    assert line.low[2] < line.y[2] < line.high[2]
    paired = relative(swept(in_flight(1, 4, 16, 64, factor=step)), 65536).lines[0]
    assert line.high[2] / line.low[2] > paired.high[2] / paired.low[2]


def test_the_figure_of_ratios_has_a_panel_for_settings() -> None:
    (panel,) = figures.get("comparison").panels(Scope((Reading(swept(in_flight(1, 4, 16, factor=step))),)))
    assert (panel.title, panel.pattern) == ("Time over that with another setting", "window")
    assert [view.label for view in panel.views if isinstance(view, Picture)] == [
        "tcp, window: in_flight=1 over in_flight=16",
        "tcp, window: in_flight=4 over in_flight=16",
    ]


# ------------------------------------------------------------------------------------------------ table of curves


def test_where_curves_begin_at_different_sizes_each_row_says_its_own() -> None:
    run = made({"tcp": alike, "shm": alike})
    run.points = [point for point in run.points if point.variant == "tcp" or point.size_bytes >= 16]
    text = summary(run)
    head = re.search(r"^pingpong +time +for +peak ", text, re.MULTILINE)
    assert head is not None
    assert re.search(r"^tcp .* µs +8 B ", text, re.MULTILINE)
    assert re.search(r"^shm .* µs +16 B ", text, re.MULTILINE)
    assert re.search(r"^pingpong +time for 8 B +peak ", summary(made({"tcp": alike})), re.MULTILINE)
