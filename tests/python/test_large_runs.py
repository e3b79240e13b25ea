# SPDX-License-Identifier: Apache-2.0
"""Large runs: what is read, shown and reported of them costs time and memory in proportion to their points, and what is
left out is said. Work is counted in calls and bytes, not in seconds.
"""

from __future__ import annotations

import gc
import io
import os
import re
import resource
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import large
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text
from synthetic import LAYERS, Layer, point, run

from netpipe import contents, records
from netpipe.findings import judge
from netpipe.reading import Reading
from netpipe.reading.curves import Curve
from netpipe.records import Header, NotARun, Run, Sample, encode
from netpipe.render.drawing import few
from netpipe.render.drawing.scope import Scope
from netpipe.render.figures import yardsticks
from netpipe.render.page import plots
from netpipe.render.page.page import page
from netpipe.render.page.tables import MOST_POINTS, thinned
from netpipe.render.terminal.points import print_points
from netpipe.render.terminal.rows import Rows
from netpipe.render.terminal.summary import print_summary
from netpipe.units import UNKNOWN, listed, percent_text, rate_text, size_text, time_text
from pages import Page, data_of

# ------------------------------------------------------------------------------------------------------- reading


@pytest.fixture
def in_small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "BLOCK", 100)


def lines_of(made: Run) -> list[bytes]:
    return [encode(record) for record in (made.header, *made.body(), made.end) if record is not None]


@pytest.mark.parametrize("block", [1, 100, 1_000, 5_000, 1 << 20])
def test_blocks_of_any_size_are_the_same_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    lines = lines_of(run(LAYERS[:3], [8, 64, 1024], launches=2))
    lines.insert(4, b'{"type":"newcomer","of":1}\n')
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"".join(lines) + b'{"type":"sample","var')
    monkeypatch.setattr(contents, "BLOCK", block)
    del lines[4]
    assert list(records.read(path)) == list(map(records.decode, lines))


def test_a_damaged_line_in_a_later_block_is_named(tmp_path: Path, in_small_blocks: None) -> None:
    lines = lines_of(run(LAYERS[:3], [8, 64, 1024]))
    for number in (2, len(lines) // 2, len(lines) - 1):
        for damage in (b"{}\n", b"\n", b'{"type":"point"}\n', b"[1]\n", b'{"type":"end",\n', b"\xff\n"):
            (tmp_path / "run.jsonl").write_bytes(b"".join([*lines[: number - 1], damage, *lines[number:]]))
            with pytest.raises(NotARun, match=f"line {number}: "):
                list(records.read(tmp_path / "run.jsonl"))


def test_the_first_record_is_read_whatever_follows(tmp_path: Path) -> None:
    """Whoever asks whether a file is a run does not read it to its end."""
    header = Header(schema=1, run="0" * 32)
    (tmp_path / "run.jsonl").write_bytes(encode(header) + b"not JSON\n")
    assert next(iter(records.read(tmp_path / "run.jsonl"))) == header


def test_lines_that_are_not_those_of_the_records_are_refused(tmp_path: Path) -> None:
    """Two records on one line, or one on two lines: a decoder of blocks would not mind."""
    first, second, *rest = lines_of(run(LAYERS[:3], [8]))
    for text in (second[:-1] + second, second.replace(b",", b",\n", 1)):
        (tmp_path / "run.jsonl").write_bytes(b"".join([first, text, *rest]))
        with pytest.raises(NotARun, match="line 2: "):
            list(records.read(tmp_path / "run.jsonl"))


def test_samples_are_passed_over_when_nobody_wants_them(tmp_path: Path, in_small_blocks: None) -> None:
    made = run(LAYERS[:3], [8, 64])
    sample = encode(Sample(variant="tcp", pattern="pingpong", size_bytes=8, ops=10, ns=[90, 30]))
    lines = [line for before in lines_of(made) for line in (before, sample)]
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"".join(lines))
    whole, without = Run.read(path), Run.read(path, samples=False)
    assert len(whole.samples) == len(lines) / 2
    assert without.samples == []
    assert without.points == whole.points
    for torn in (sample[:30], b'{"type":"sample"'):
        path.write_bytes(b"".join([*lines, torn + b"\n", *lines]))
        with pytest.raises(NotARun, match=f"line {len(lines) + 1}: "):
            Run.read(path, samples=False)


def test_histograms_are_decoded_when_they_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    large.write(path, curves=4, sizes=3, buckets=5)
    whole, without = Run.read(path), Run.read(path, samples=False)
    assert {type(one.histogram) for one in without.points} == {msgspec.Raw}
    assert [encode(one) for one in without.points] == [encode(one) for one in whole.points]
    assert [one.distribution() for one in without.points] == [one.histogram for one in whole.points]
    assert [*without.points[0].rows()] == [*whole.points[0].rows()]
    assert without.points == whole.points[:1] + without.points[1:], "what was exported is decoded"


def test_of_visits_the_times_are_decoded_when_they_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    large.write(path, curves=4, sizes=3, visits=7)
    whole, without = Run.read(path), Run.read(path, samples=False)
    assert {type(one.visits) for one in without.points} == {msgspec.Raw}
    assert [encode(one) for one in without.points] == [encode(one) for one in whole.points]
    for one, same in zip(without.points, whole.points, strict=True):
        times = one.visit_times()
        assert times is not None
        assert same.visits is not None
        assert (times.block, times.median_ns) == (same.visits.block, same.visits.median_ns)
    assert Reading(without).curves[0].points[0].time_ns == Reading(whole).curves[0].points[0].time_ns


def test_a_damaged_list_of_visits_is_named_with_its_point(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    large.write(path, curves=1, sizes=2, visits=2)
    for damage, said in (
        (b'"block":[1', "the lists of visits differ in length"),
        (b'"block":["a"', "expected `int`"),
    ):
        path.write_bytes(re.sub(rb'"block":\[\d+(?:,\d+)?', damage, path.read_bytes()))
        with pytest.raises(NotARun, match=r"line \d+: "):
            Run.read(path)
        with pytest.raises(NotARun, match=f"the list of visits of .* at 1 bytes is damaged: {said}"):
            _ = Reading(Run.read(path, samples=False)).curves


@pytest.mark.parametrize(
    "damage", ['{"low_ns":[1,"a"]}', '{"count":[1.5]}', "[1]", f'{{"count":[{"9" * 5000}]}}']
)
def test_a_damaged_histogram_is_named_with_its_point(tmp_path: Path, damage: str) -> None:
    made = run(LAYERS[:1], [8])
    (tmp_path / "run.jsonl").write_bytes(
        b"".join(
            re.sub(rb'"histogram":({.*?}|null)', f'"histogram":{damage}'.encode(), line)
            for line in lines_of(made)
        )
    )
    with pytest.raises(NotARun, match=r"line \d+: "):
        Run.read(tmp_path / "run.jsonl")
    with pytest.raises(
        NotARun, match=f"the histogram of {made.points[0].variant} pingpong at 8 bytes is damaged: "
    ):
        report(tmp_path / "run.jsonl")


# ------------------------------------------------------------------------------------------------------- terminal


def rich_points(curve: Curve, heading: str, more: bool) -> Rows:
    """The table as rich makes it; with `more` it has the mean and the maximum."""
    mean, most = (["mean"], ["max"]) if more else ([], [])
    made = Rows(
        (heading, "right"),
        *((name, "right") for name in ("median", "±", "rate", *mean, "min", "p99", *most, "n")),
        ("", "left"),
    )
    made._simple = False
    for at in curve.points:
        for one in at.by_launch:
            words = [f"launch {one.launch}"] if len(at.by_launch) > 1 else []
            if one.converged is False:
                words.append(f"not settled ({one.stop})" if one.stop else "not settled")
            made.add_row(
                size_text(one.size_bytes),
                time_text(one.median_ns),
                percent_text(one.half_width),
                rate_text(one.bytes_per_s),
                *([time_text(one.mean_ns)] if more else []),
                time_text(one.min_ns),
                time_text(one.p99_ns),
                *([time_text(one.max_ns)] if more else []),
                UNKNOWN if one.samples is None else str(one.samples),
                Text(", ".join(words), style="yellow" if one.converged is False else "dim"),
            )
    return made


def printed(width: int, show: Callable[[Console], None], **more: bool) -> str:
    out = io.StringIO()
    show(Console(file=out, width=width, highlight=False, **more))  # type: ignore[arg-type]
    return out.getvalue()


@pytest.mark.parametrize("width", [80, *(pytest.param(more, marks=pytest.mark.deep) for more in (100, 120))])
@pytest.mark.parametrize("launches", [1, 2])
def test_points_look_as_a_table_of_rich_does(width: int, launches: int) -> None:
    curves = Reading(run(LAYERS, launches=launches)).curves
    assert max(len(curve.variant) for curve in curves) == len("tcp:wait=poll")

    def by_rich(out: Console) -> None:
        for place, curve in enumerate(curves):
            if place:
                out.print()
            out.print(f"{curve.variant}, {curve.pattern}")
            full = [rich_points(curve, heading, more=True) for heading in (curve.variant, "size")]
            there = [one for one in full if one.fits(out.width)]
            out.print(there[0] if there else rich_points(curve, curve.variant, more=False))

    text = printed(width, lambda out: print_points(out, curves))
    assert text == printed(width, by_rich)
    assert width == 100 or (" mean " in text) == (width > 100), "where there is room"


def test_numbers_of_points_are_never_cut() -> None:
    name = "mpi@openmpi:transport=tcp,eager=64k,wait=poll,ranks=4"
    made = Run([point(name, 65539, 123456.7, 0.05, samples=None), point(name, 8, 1234.5)])
    for width in (20, 60, 70, 80):
        text = printed(width, lambda out: print_points(out, Reading(made).curves))
        assert re.search(r"64 KiB\+3 +123 µs +5\.0 % +4\.25 Gbps", text)
        assert re.search(r"^ +size +median +± ", text, re.MULTILINE), "the name, which is above, has no room"
        assert "…" not in text
        assert all(len(line) <= width for line in text.splitlines()[1:]) or width < 72


def test_colours_are_those_that_the_console_has() -> None:
    made = Reading(Run([point("tcp", 8, 1234.5, 0.05), point("tcp", 64, 1234.5)])).curves
    coloured = printed(80, lambda out: print_points(out, made), force_terminal=True)
    assert "\x1b[33mnot settled" in coloured
    assert "\x1b[33m" not in printed(
        80, lambda out: print_points(out, made), force_terminal=True, no_color=True
    )
    assert "\x1b" not in printed(80, lambda out: print_points(out, made))


WORDS = st.text(alphabet="ab -:,=µ…é", max_size=12)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(WORDS, st.sampled_from(["name", "left", "right"])), min_size=1, max_size=4),
    st.lists(st.lists(WORDS, min_size=4, max_size=4), max_size=5),
    st.integers(20, 90),
)
def test_rows_with_room_look_as_rich_makes_them(
    columns: list[tuple[str, str]], rows: list[list[str]], width: int
) -> None:
    both = []
    for simple in (True, False):
        made = Rows(*columns)
        for row in rows:
            made.add_row(*row[: len(columns)])
        made._simple = made._simple and simple
        both.append(printed(width, lambda out, made=made: out.print(made)))  # type: ignore[misc]
    assert both[0] == both[1]


# ------------------------------------------------------------------------------------- what is left out, and said


def many(curves: int, sizes: int = 4, launches: int = 1) -> Run:
    layers = [Layer(f"tcp:sndbuf={k + 1}k", None, None, 2e4 * 1.01**k, ((1e9, 3e9),)) for k in range(curves)]
    return run(layers, [1 << power for power in range(sizes)], launches=launches)


def test_of_very_many_curves_those_that_differ_most_are_drawn() -> None:
    made = Reading(many(300))
    scope = Scope((made,))
    drawn = [member.variant for member in scope.members]
    assert len(drawn) == few.MOST_CURVES
    assert drawn[0] == "tcp:sndbuf=1k"
    assert drawn[-1] == "tcp:sndbuf=300k"
    places = [int(name.partition("=")[2][:-1]) for name in drawn]
    assert max(b - a for a, b in pairwise(places)) <= 2 * 300 / len(drawn), "spread over all times"
    assert scope.left_out == f"{few.MOST_CURVES} of 300 curves, those that differ most"
    assert "drawn: 48 of 300 curves" in scope.subtitle
    all_drawn = Scope((Reading(many(few.ALL_UP_TO)),))
    assert len(all_drawn.members) == few.ALL_UP_TO
    assert all_drawn.left_out == ""


def test_every_pattern_of_a_large_run_is_drawn() -> None:
    made = many(100)
    made.points += [
        msgspec.structs.replace(one, pattern=pattern)
        for one in made.points
        for pattern in ("stream", "burst")
    ]
    members = Scope((Reading(made),)).members
    assert {one.pattern for one in members} == {"pingpong", "stream", "burst"}
    assert len(members) == few.MOST_CURVES


def test_of_many_curves_a_figure_begins_with_chains_and_with_what_differs_most() -> None:
    curves = {one.variant: one.points for one in Reading(many(40)).curves}
    names = list(curves)
    assert few.first({name: curves[name] for name in names[: few.MOST_FIRST]}, ()) == set(
        names[: few.MOST_FIRST]
    )
    found = few.first(curves, names[10:13])
    assert len(found) == few.MOST_FIRST
    assert {*names[10:13], names[0], names[-1]} <= found
    assert {names[10], names[39]} <= (begun := few.first(curves, names[10:])) <= set(names[10:])
    assert len(begun) == few.MOST_FIRST


def test_each_pattern_has_curves_that_a_figure_begins_with() -> None:
    made = many(20)
    made.points += [msgspec.structs.replace(one, pattern="stream") for one in made.points]
    first = Scope((Reading(made),)).first
    assert [one.pattern for one in first] == ["pingpong"] * few.MOST_FIRST + ["stream"] * few.MOST_FIRST


def test_the_answer_of_a_large_run_folds_what_is_not_drawn_at_first() -> None:
    text = page(Reading(many(40)))
    assert f"{40 - few.MOST_FIRST} more curves</summary>" in text
    read = Page(text)
    assert all(f"tcp:sndbuf={k + 1}k" in read.text for k in range(40))
    # Where scripts run, what is in a fold is one text.
    assert text.count("<noscript>") == text.count("</noscript>") > 40


def test_the_report_of_a_large_run_says_what_it_leaves_out() -> None:
    made = many(300)
    text = page(Reading(made))
    assert "the plots show 48 of 300 curves, those that differ most" in text
    data = data_of(text)
    assert len(data["curves"]) == len(data["hover"]) == len(data["histograms"]) == 48
    assert all(len(figure["lines"]) == 48 for figure in data["figures"].values())
    summary = text.partition('<section id="summary">')[2].partition("</section>")[0]
    assert summary.count("<tr") == 301, "the table of curves is whole"
    assert text.count("<details><summary>tcp:sndbuf=") == 48


def test_of_very_many_sizes_some_are_drawn_and_the_peak_is_among_them() -> None:
    sizes = [*range(1, 16_001)]
    made = [point(name, size, 1000.0 + size / 10) for name in ("shm", "tcp") for size in sizes]
    made[7_777] = point("shm", 7_778, 100.0)
    scope = Scope((Reading(Run(made)),))
    first = scope.members[0].curve.points
    assert len(first) <= few.MOST_POINTS / 2 + 2
    assert (first[0].size_bytes, first[-1].size_bytes) == (1, 16_000)
    assert {8, 7_778} <= {at.size_bytes for at in first}
    assert scope.left_out == f"{len(first)} of 16000 sizes"


@pytest.mark.deep
def test_tables_of_points_leave_out_sizes_and_then_launches() -> None:
    said, kept = thinned(Reading(many(100, sizes=8, launches=9)).curves)
    assert "of each the launch whose median is in the middle" in said
    assert sum(len(at.by_launch) for curve in kept for at in curve.points) == 800 <= MOST_POINTS


def test_of_many_yardsticks_some_are_drawn() -> None:
    made = run(LAYERS[:3], [8])
    made.yardsticks *= 1000
    (panel,) = yardsticks.panels(Scope((Reading(made),)))
    assert panel.title == "Yardsticks over the run, one of 8"
    assert sum(len(line.x) for line in panel.views[0].lines if line.faint) == yardsticks.MOST_DRAWN  # type: ignore[union-attr]


def test_very_many_words_are_not_listed() -> None:
    assert listed(map(str, range(40))).endswith("38 and 39")
    assert listed(map(str, range(1600))).endswith(", 37, 38 and 1561 more")


# ------------------------------------------------------------------------------------------------------- linearity

SHAPES = {
    "curves": {"curves": 24, "sizes": 40},
    "sizes": {"curves": 8, "sizes": 120},
    "launches": {"curves": 8, "sizes": 40, "launches": 4},  # more points than a report has in tables
    "patterns": {"curves": 32, "sizes": 30, "patterns": 8},
    "buckets": {"curves": 16, "sizes": 30, "buckets": 20},
    "samples": {"curves": 8, "sizes": 10, "samples": 2000},
    "visits": {"curves": 16, "sizes": 30, "visits": 12},
}


def file_of(folder: Path, shape: str, times: int) -> Path:
    wanted = dict(SHAPES[shape])
    grows = shape if shape not in ("buckets", "visits") else "curves"
    wanted[grows] *= times
    path = folder / f"{shape}{times}.jsonl"
    large.write(path, **wanted)
    return path


def read(path: Path) -> Reading:
    return Reading(Run.read(path, samples=False))


def summary(path: Path) -> None:
    print_summary(Console(file=io.StringIO(), width=120), read(path))


def points(path: Path) -> None:
    print_points(Console(file=io.StringIO(), width=120), read(path).curves)


def report(path: Path) -> None:
    page(read(path))


def analysed(path: Path) -> Reading:
    reading = read(path)
    judge(reading)
    return reading


def calls(work: Callable[[Path], object], path: Path) -> int:
    """How many functions are called, those of C included."""
    number = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal number
        number += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work(path)
    finally:
        sys.setprofile(None)
    return number


@pytest.mark.parametrize(
    "work",
    [summary, *(pytest.param(work, marks=pytest.mark.deep) for work in (points, report))],
    ids=["summary", "points", "report"],
)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_work_grows_with_the_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: Callable[[Path], object], shape: str
) -> None:
    monkeypatch.setattr(plots, "MOST_RATIOS", 0)  # of small runs alone all pairs of curves are compared
    once, twice, four = (file_of(tmp_path, shape, times) for times in (1, 2, 4))
    work(once)  # imports, and texts that are kept
    numbers = [calls(work, path) for path in (once, twice, four)]
    more, much_more = (b - a for a, b in pairwise(numbers))
    # Of few curves more is said than of many, so twice as many may take less; in proportion four times take twice that.
    most = 2.5 * max(more, numbers[0] // 10) if more >= 0 else 1.25 * numbers[1]
    assert much_more <= most, numbers


@pytest.mark.parametrize(
    "shape",
    [
        shape if shape in ("curves", "visits") else pytest.param(shape, marks=pytest.mark.deep)
        for shape in SHAPES
    ],
)
def test_the_memory_of_a_point_does_not_grow_with_their_number(tmp_path: Path, shape: str) -> None:
    peaks = []
    analysed(file_of(tmp_path, shape, 1))
    for times in (1, 2, 4):
        path = file_of(tmp_path, shape, times)
        gc.collect()
        tracemalloc.start()
        analysed(path)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    more, much_more = (b - a for a, b in pairwise(peaks))
    # Of few points something else takes the most, such as the curves that they belong to.
    assert much_more <= 2.4 * max(more, peaks[0] // 4), peaks


# ------------------------------------------------------------------------------------------------- as large as asked

TARGET_S, TARGET_BYTES = 5, 1 << 30  # docs/bench.md
LOADED = 4  # a machine that does other things is so much slower


@pytest.fixture(scope="module")
def largest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("large")
    shapes = {
        "points": {"curves": 1600, "sizes": 125},
        "distributions": {"curves": 1600, "sizes": 125, "buckets": 50},
        "half of the distributions": {"curves": 800, "sizes": 125, "buckets": 50},
        "samples": {"curves": 80, "sizes": 125, "samples": 10**6},
    }
    for name, shape in shapes.items():
        large.write(folder / name, **shape)
    return {name: folder / name for name in shapes}


def run_within_limits(folder: Path, *words: str | Path) -> tuple[float, int]:
    """Seconds of processor time and the largest resident memory in bytes."""
    with (folder / "out").open("wb") as out:
        child = subprocess.Popen([sys.executable, "-m", "netpipe", *words], stdout=out, cwd=folder)
        for limit, most in ((resource.RLIMIT_CPU, TARGET_S), (resource.RLIMIT_AS, TARGET_BYTES)):
            resource.prlimit(child.pid, limit, (LOADED * most, LOADED * most))
        _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, "-24: more than 20 s of CPU time"
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


@pytest.mark.deep
@pytest.mark.parametrize("what", ["points", "distributions", "samples"])
@pytest.mark.parametrize("command", [("show",), ("show", "--points"), ("report", "-o", "report.html")])
def test_a_large_run_takes_seconds(
    largest: dict[str, Path], tmp_path: Path, what: str, command: tuple[str, ...]
) -> None:
    _, memory = run_within_limits(tmp_path, command[0], largest[what], *command[1:])
    assert memory <= 0.85 * TARGET_BYTES
    if command == ("show", "--points") and what == "points":
        assert (tmp_path / "out").read_bytes().count(b"\n") >= 200_000  # a line each
    if command[0] == "report":
        assert (tmp_path / "report.html").stat().st_size < LARGEST_BYTES


LARGEST_BYTES = 6_000_000  # of any report,
DEFAULT_BYTES = 2_000_000  # and of that of a default run


@pytest.mark.deep
@pytest.mark.parametrize(
    ("shape", "most"),
    [
        ({"curves": 166, "sizes": 125, "buckets": 50, "visits": 12}, LARGEST_BYTES),
        ({"curves": 240, "sizes": 125, "buckets": 50}, LARGEST_BYTES),  # the most that are drawn
        ({"curves": 12, "sizes": 125, "launches": 2, "buckets": 50, "visits": 12}, DEFAULT_BYTES),
    ],
    ids=["full sheet", "as many curves as are drawn", "default run"],
)
def test_a_report_is_small_enough_to_be_mailed(tmp_path: Path, shape: dict[str, int], most: int) -> None:
    large.write(tmp_path / "run.jsonl", **shape)
    assert len(page(read(tmp_path / "run.jsonl")).encode()) < most


@pytest.mark.deep
@pytest.mark.parametrize("command", [("show",), ("report", "-o", "report.html")])
def test_twice_the_distributions_take_twice_the_time(
    largest: dict[str, Path], tmp_path: Path, command: tuple[str, ...]
) -> None:
    names = ("half of the distributions", "distributions")
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(3):  # in turn, so that a neighbour on the machine slows both
        for name in names:
            seconds[name].append(run_within_limits(tmp_path, command[0], largest[name], *command[1:])[0])
    once, twice = (min(seconds[name]) for name in names)
    assert twice <= 3 * once, "quadratic work makes it 4 times as long"
