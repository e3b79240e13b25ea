# SPDX-License-Identifier: Apache-2.0
"""What people see: at every width the numbers are whole and no row is wrapped."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.console import Console
from synthetic import point

from netpipe.cli.list_ import values
from netpipe.events import Pass, Progress, Ready
from netpipe.failure import Failure
from netpipe.reading import Reading
from netpipe.reading.estimate import Estimate
from netpipe.reading.losses import SizeLoss
from netpipe.records import Plan, PlannedVariant, Point, Run, Sample, Variant
from netpipe.render.losses import added_text
from netpipe.render.terminal.live import Counts, Estimates, Lines, LiveTable, elapsed_text
from netpipe.render.terminal.points import print_points
from netpipe.render.terminal.summary import interval_text, print_summary, spark
from netpipe.units import percent_text, rate_text, size_text

if TYPE_CHECKING:
    from conftest import Netpipe

ALL = ("null", "memcpy", "shm", "pipe", "unix", "tcp", "tcp:wait=poll")


@pytest.fixture
def run(netpipe: Netpipe) -> Run:
    netpipe("run", *ALL, "-q", fake="noisy states")
    return Run.read("run.jsonl")


def lines_of(text: str) -> list[str]:
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).splitlines()]


@pytest.mark.parametrize("width", [pytest.param(80, marks=pytest.mark.gate), 100, 120])
def test_the_summary_fits(run: Run, width: int) -> None:
    out = io.StringIO()
    print_summary(Console(file=out, width=width), Reading(run))
    lines = lines_of(out.getvalue())
    assert max(map(len, lines)) <= width
    for variant in ALL:
        assert any(re.match(rf"{variant} .*\d\] [µn]s .* [\d.]+ %$", line) for line in lines), variant
    head = next(place for place, line in enumerate(lines) if re.match("pingpong +8 B +adds ", line))
    rows = lines[head + 1 : head + 7]
    assert [re.findall(r"[a-z][\w:=]*", row)[0] for row in rows] == list(ALL[1:])
    assert rows[1].startswith("└ shm ")
    for row in rows[1:]:
        assert re.search(
            r" \S+ [µn]s +([+-]\S+ [µn]s ±\S+ %|same ±\S+ %|undecided|–) .*"
            r"\S+ [GMT]bps +(\S+ %( \(.*\))?|same ±\S+ %|undecided)$",
            row,
        ), row


def test_a_loss_of_too_few_samples_has_a_mark() -> None:
    fast = [point("memcpy", 8, 10), point("memcpy", 4096, 400)]
    slow = [point("shm", 8, 20), point("shm", 4096, 800)]
    for one in slow:
        one.half_width, one.samples = None, 1
    layers = [
        Variant(variant=name, module=name, below=below)
        for name, below in (("memcpy", None), ("shm", "memcpy"))
    ]
    planned = Plan(variants=[PlannedVariant(variant=name, module=name) for name in ("memcpy", "shm")])
    measured = Run([planned, *layers, *fast, *slow])
    out = io.StringIO()
    print_summary(Console(file=out, width=100), Reading(measured))
    row = next(line for line in lines_of(out.getvalue()) if line.startswith("└ shm "))
    assert re.search(r"20\.0 ns +~\+10\.0 ns .*~50 %", row), row


def test_a_narrow_terminal_loses_no_numbers_and_no_words(run: Run) -> None:
    wide, narrow = io.StringIO(), io.StringIO()
    print_summary(Console(file=wide, width=200), Reading(run))
    print_summary(Console(file=narrow, width=74), Reading(run))
    numbers = re.compile(r"\d+(?:\.\d+)? \[.*?\] [µn]s|\d+/124")
    assert numbers.findall(narrow.getvalue()) == numbers.findall(wide.getvalue())
    assert "…" not in narrow.getvalue()
    assert "█" in wide.getvalue().partition("time for")[0]
    assert "Each layer adds: shm: " in " ".join(narrow.getvalue().split())


@pytest.mark.parametrize("width", [80, 120])
def test_saturation_and_the_asymptotic_rate_are_shown_where_there_is_room(run: Run, width: int) -> None:
    out = io.StringIO()
    reading = Reading(run)
    print_summary(Console(file=out, width=width), reading)
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= width
    (head,) = (line for line in text.splitlines() if "typical ±" in line)
    assert ("saturates" in head and "asymptote" in head) == (width == 120)
    if width == 120:
        tcp = next(one for one in reading.summaries if one.variant == "tcp")
        fit = reading.fit_of(reading.by_name["tcp", "pingpong"])
        assert fit is not None
        rate = fit.pieces[-1].bytes_per_s
        assert rate is not None
        row = next(line for line in text.partition(head)[2].splitlines() if line.startswith("tcp "))
        assert size_text(tcp.knee_size_bytes) in row
        assert rate_text(rate.value) in row


@pytest.mark.parametrize("width", [pytest.param(80, marks=pytest.mark.gate), 120])
def test_the_live_table_fits(run: Run, width: int) -> None:
    out = io.StringIO()
    live = LiveTable(Console(file=out, width=width, height=30, force_terminal=True), run.plans[0])
    live.show(Progress(run, Ready(variants=7, points=868, budget_s=24.5), 0, 0, []))
    some = [(b"", record) for record in [*run.variants, *run.samples[:2000], *run.points[:300]]]
    event = Pass(number=3, done=300, total=868, elapsed_s=6.1, left_s=18.4)
    live.show(Progress(run, event, 0, 2, some, note="shm was lost"))
    live.close()
    lines = lines_of(out.getvalue())
    assert max(map(len, lines)) <= width
    last = lines[max(place for place, line in enumerate(lines) if "time for 8 B" in line) :]
    for variant in ALL:
        assert re.search(rf"^{re.escape(variant)} .* \d+/124 +\d+", "\n".join(last), re.MULTILINE)
    assert any(line.endswith(" 6.1 of about 24 s") for line in last)
    words = next(line for line in last if line.startswith("1st of 3 launches"))
    found = re.fullmatch(
        r"1st of 3 launches, pass 4, 868 points: (\d+) sampled, (\d+) settled, typical ± ([\d.]+) %", words
    )
    assert found is not None, words
    assert 300 <= int(found[1]) <= 868
    assert int(found[2]) == sum(point.converged is True for point in run.points[:300])
    assert any(line.startswith("The cores moved apart: a cache-line bounce went from") for line in last)
    assert "netpipe: shm was lost" in lines


def test_a_launch_over_its_budget_says_so_and_moves_no_bound() -> None:
    """The budget was "2.6 of at most 2.6 s", then "6.0 of at most 6.0 s": the bound followed the clock."""
    last = {elapsed: Pass(done=20, total=24, elapsed_s=elapsed, left_s=0.0) for elapsed in (2.6, 6.0)}
    assert [elapsed_text(event) for event in last.values()] == [
        "2.6 s, over the budget: slow sizes",
        "6.0 s, over the budget: slow sizes",
    ]
    assert elapsed_text(Pass(done=24, total=24, elapsed_s=6.0, left_s=0.0)) == "6.0 s"
    assert elapsed_text(Pass(done=2, total=24, elapsed_s=6.0, left_s=18.0)) == "6.0 of about 24 s"


def test_no_more_points_are_sampled_than_there_are(run: Run) -> None:
    """A size that was sampled may not be wanted any longer: "390 points: 391 sampled" was said."""
    counts = Counts()
    counts.add(Progress(run, None, 0, 0, [(b"", one) for one in run.points[:3]]))
    assert counts.text(2).startswith("3 points: 3 sampled, ")
    assert counts.text(5).startswith("5 points: 3 sampled, ")


def test_what_is_known_so_far_is_the_best_there_is() -> None:
    known = Estimates()
    key = ("tcp", "pingpong", 8)
    assert known.time_ns(key) is None
    sample = {"variant": "tcp", "pattern": "pingpong", "size_bytes": 8, "ops": 10}
    known.add(Sample(**sample, pass_=-1, dropped_ns=[900, 500]))
    assert known.time_ns(key) == 50
    known.add(Sample(**sample, ns=[100, 300, 200], dropped_ns=[9000]))
    assert known.time_ns(key) == 20
    known.add(Sample(**sample, ns=[600, 700]))
    assert known.time_ns(key) == 30
    known.add(Point(variant="tcp", pattern="pingpong", size_bytes=8, median_ns=25.0))
    assert known.time_ns(key) == 25


def test_plain_lines_come_at_most_every_two_seconds() -> None:
    said: list[str] = []
    now = [0.0]
    lines = Lines(said.append, lambda: now[0])
    for tenth in range(100):
        now[0] = tenth / 10
        lines.show(Progress(Run(), Pass(number=tenth, done=tenth, total=100, elapsed_s=now[0]), 0, 0, []))
    assert [line.partition(",")[0] for line in said] == ["0.0 s", "2.0 s", "4.0 s", "6.0 s", "8.0 s"]


def test_a_sparkline_is_as_wide_as_it_may_be() -> None:
    assert spark([1, 2, 4, 8], 8) == "▂▃▅█"
    assert spark([1, None, None, 8], 2) == "▂█"
    assert spark([None, 8], 8) == " █"
    assert spark([None, None], 8) == ""
    assert len(spark(range(1, 125), 16)) == 16


def test_an_interval_has_one_unit() -> None:

    assert interval_text(Estimate(24_100, 23_900, 24_300)) == "24.1 [23.9 24.3] µs"
    assert interval_text(Estimate(999, 990, 1010)) == "999 [990 1010] ns"
    assert interval_text(Estimate(999.7, 990, 1010)) == "1.00 [0.990 1.01] µs"
    assert interval_text(Estimate(3.0, 3.0, 3.0)) == "3.00 ns"
    assert interval_text(Estimate(80.2, 0.000338, 19e6)) == "~80.2 ns", "limits that say nothing"
    assert interval_text(Estimate(80.2, 0.0, 90.0)) == "~80.2 ns"
    assert interval_text(None) == "–"


# ---------------------------------------------------------------------------------------------------- netpipe show


def test_show_says_what_was_measured_and_the_summary(netpipe: Netpipe, run: Run) -> None:
    said = netpipe("show")
    assert said.code == 0
    assert "tcp:wait=poll with pingpong at 124 sizes from 1 B to 8 MiB+3 on fake, made up" in " ".join(
        said.out.split()
    )
    assert re.search(r"^pingpong +8 B +adds +", said.out, re.MULTILINE)


def test_show_points_of_a_variant(netpipe: Netpipe, run: Run) -> None:
    lines = netpipe("show", "run.jsonl", "--variant", "tcp").out.splitlines()
    assert lines[0] == "tcp, pingpong"
    assert len(lines) == 2 + 124
    assert re.search(
        r"^ *8 B +\d\S* µs +\S+ % +\S+ Mbps .* (state 1)?",
        next(x for x in lines if x.split()[:2] == ["8", "B"]),
    )
    assert any("not settled (budget)" in line for line in lines)
    everything = netpipe("show", "--points").out.splitlines()
    assert len(everything) == 7 * (2 + 124) + 6


def test_show_as_json(netpipe: Netpipe, run: Run) -> None:
    answer = json.loads(netpipe("show", "--json").out)
    assert [one["variant"] for one in answer["summaries"]] == list(ALL)
    assert answer["losses"][0]["below"] == "memcpy"
    assert "points" not in answer
    answer = json.loads(netpipe("show", "--json", "--variant", "tcp").out)
    assert [point["size_bytes"] for point in answer["points"]] == run.plans[0].sizes


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("show", "gone.jsonl"), "netpipe: gone.jsonl: No such file or directory\n"),
        (("show", "notes"), "netpipe: notes is not a netpipe run file: line 1: JSON is malformed"),
        (
            ("show", "--variant", "tpc"),
            "netpipe: the run has no points of variant 'tpc'; did you mean 'tcp'?\n",
        ),
    ],
)
def test_show_refuses_with_a_sentence(
    netpipe: Netpipe, run: Run, arguments: tuple[str, ...], says: str
) -> None:
    Path("notes").write_text("dear diary\n")
    said = netpipe(*arguments)
    assert said.code == 2
    assert said.err.startswith(says)


# ---------------------------------------------------------------------------------------------------- netpipe list


def test_list_shows_modules_and_patterns(netpipe: Netpipe) -> None:
    said = netpipe("list")
    assert re.search(r"^tcp +unix +any +made-up tcp", said.out, re.MULTILINE)
    assert re.search(r"^shm +memcpy +1 +made-up shm", said.out, re.MULTILINE)
    assert re.search(r"^pingpong +there and back", said.out, re.MULTILINE)


def test_list_shows_the_options_of_a_module(netpipe: Netpipe) -> None:
    said = netpipe("list", "tcp")
    assert "stands on unix and adds TCP/IP; any number of hosts; patterns: pingpong stream" in said.out
    assert re.search(r"^wait +block\|poll\|hybrid +block +how it waits for a message", said.out, re.MULTILINE)
    assert re.search(r"^sndbuf +0 B to 1 GiB +0 +send buffer of the socket", said.out, re.MULTILINE)


def test_list_shows_what_a_pattern_measures_and_what_all_of_them_take(netpipe: Netpipe) -> None:
    assert re.search(
        r"^stream +one way, back to back\n +also gap, fraction, degree$",
        strip(netpipe("list").out),
        re.MULTILINE,
    )
    said = strip(netpipe("list", "stream").out)
    assert re.search(r"^gap +ns +between two arrivals$", said, re.MULTILINE)
    assert re.search(r"^of every pattern +values +default +what it does$", said, re.MULTILINE)
    assert re.search(
        r"^reuse +0 to 100 % +100 +percentage of messages that reuse a buffer$", said, re.MULTILINE
    )
    assert "gap" not in netpipe("list", "pingpong").out
    of_tcp = netpipe("list", "tcp").out
    assert "of every pattern" not in of_tcp
    assert re.search(r"^of every module +values", of_tcp, re.MULTILINE)
    assert re.search(r"^pages +auto\|small\|huge +auto +pages of message memory", of_tcp, re.MULTILINE)
    assert netpipe("list", "stream", "pingpong").out.count("of every pattern") == 1


def strip(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines())


def test_list_as_json_is_what_the_worker_lists(netpipe: Netpipe) -> None:
    from netpipe import native

    listed = json.loads(netpipe("list", "--json").out)
    missing = listed.pop("without_library", [])
    assert listed == native.list_()
    assert not {one["name"] for one in missing} & {one["name"].partition("@")[0] for one in listed["modules"]}
    assert [module["name"] for module in json.loads(netpipe("list", "shm", "--json").out)["modules"]] == [
        "shm"
    ]


def test_list_shows_what_a_library_name_stands_for(netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch) -> None:
    from netpipe import native

    said = netpipe("list", "mpi")
    assert said.code == 3
    assert "netpipe modules add mpi --mpicc PATH" in said.err
    listing = native.list_()
    tcp = next(one for one in listing["modules"] if one["name"] == "tcp")
    option = {**tcp["options"][0], "name": "transport", "type": "choice", "choices": ["shm", "tcp"]}
    for name in ("mpi@one", "mpi@two"):
        listing["modules"].append({**tcp, "name": name, "launched": True, "options": [option]})
    monkeypatch.setattr(native, "list_", lambda *_: listing)
    said = netpipe("list", "mpi")
    assert said.code == 0
    assert said.out.startswith(
        "mpi stands for mpi@one:transport=shm, mpi@one:transport=tcp, mpi@two:transport=shm, mpi@two:transport=tcp\n"
    )
    assert re.findall(r"^(mpi@\w+): made-up", said.out, re.MULTILINE) == ["mpi@one", "mpi@two"]
    answer = json.loads(netpipe("list", "mpi", "--json").out)
    assert [module["name"] for module in answer["modules"]] == ["mpi@one", "mpi@two"]
    assert len(answer["stands_for"]["mpi"]) == 4


@pytest.mark.parametrize("arguments", [("list",), ("list", "tcp"), ("doctor",), ("run", "--dry-run")])
@pytest.mark.parametrize("columns", [80, 120])
def test_a_table_fits_the_terminal_and_keeps_its_columns(
    netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    said = netpipe(*arguments)
    assert said.code == 0
    assert "…" not in said.out
    for line in said.out.splitlines():
        assert len(line) <= columns or not re.match(r"\S+  +\S", line), line


def test_a_bare_name_stands_for_all_its_settings() -> None:
    from netpipe.command.options import matching

    there = [
        (variant, pattern)
        for variant in ("tcp", "tcp:wait=poll", "mpi@a:transport=shm", "mpi@b", "mpix")
        for pattern in ("pingpong", "overlap:computes=one", "overlap:computes=both")
    ]
    assert matching((), (), there) == ((), ())
    assert matching(("mpi",), ("overlap",), there) == (
        ("mpi@a:transport=shm", "mpi@b"),
        ("overlap:computes=one", "overlap:computes=both"),
    )
    assert matching(("tcp", "mpi@a"), ("overlap:computes=one",), there) == (
        ("tcp", "mpi@a:transport=shm"),  # a name that is there stands for itself
        ("overlap:computes=one",),
    )
    with pytest.raises(Failure, match=r"the run has no points of pattern 'zz'; it has pingpong$"):
        matching((), ("zz",), [("tcp", "pingpong"), ("null", "")])  # one was opened and has no points


@pytest.mark.parametrize("command", ["show", "plot", "export"])
def test_a_bare_pattern_is_found_by_every_command(netpipe: Netpipe, command: str) -> None:
    netpipe("run", "tcp:wait=poll", "--pattern", "stream:reuse=50", "--sizes", "8,64k")
    said = netpipe(command, "--pattern", "stream", "--variant", "tcp")
    assert said.code == 0, said.err
    said = netpipe(command, "--pattern", "pingpong")
    assert said.code == 2
    assert "the run has no points of pattern 'pingpong'; it has stream:reuse=50" in said.err


def test_what_a_layer_adds_leaves_room_for_its_name() -> None:
    """'+10.4 ms more than ±100 %' cut mpi@mpich:transport=tcp at 80 columns."""

    def added(low: float, high: float) -> str:
        return added_text(SizeLoss(8, Estimate(9.0, 8.0, 10.0), Estimate(10.4e6, low, high), True))

    assert added(9.4e6, 11.4e6) == "+10.4 ms ±9.6 %"
    assert added(1e6, 40e6) == "+10.4 ms > ±100 %"


def test_choices_are_whole_on_a_narrow_terminal() -> None:
    """fence|pscw|lock|lock_all|none was cut: none of its words can be wrapped."""
    option = {"type": "choice", "choices": ["fence", "pscw", "lock", "lock_all", "none"]}
    assert values(option) == "fence | pscw | lock | lock_all | none"
    assert values({"type": "choice", "choices": ["block", "poll", "hybrid"]}) == "block|poll|hybrid"


def test_list_refuses_with_a_sentence(netpipe: Netpipe) -> None:
    said = netpipe("list", "tpc")
    assert (said.code, said.err) == (2, "netpipe: there is no module or pattern 'tpc'; did you mean 'tcp'?\n")
    said = netpipe("list", fake="refuse")
    assert said.code == 4
    assert "netpipe-worker list returned invalid JSON: b'refused" in said.err


def test_a_run_that_was_cut_off_says_once_that_nothing_was_finished(netpipe: Netpipe) -> None:
    netpipe("run", "tcp", "--sizes", "8", "-q")
    Path("cut.jsonl").write_bytes(b"".join(Path("run.jsonl").read_bytes().splitlines(True)[:3]))
    said = netpipe("show", "cut.jsonl")
    assert (said.code, said.out.count("No size was finished")) == (0, 1)


def test_a_wide_interval_is_not_given_in_digits() -> None:
    """±97301581 % says no more than that it is wide."""
    out = io.StringIO()
    wide, exact = point("shm", 8, 100.0, 973015.81), point("shm", 64, 100.0, 0.5)
    print_points(Console(file=out, width=120), Reading(Run([wide, exact])).curves)
    assert re.search(r"8 B +100 ns +> 100 %", out.getvalue())
    assert re.search(r"64 B +100 ns +50 %", out.getvalue())


def test_a_figure_that_is_nearly_known_is_named(netpipe: Netpipe) -> None:
    said = netpipe("plot", "--figure", "throughputs")
    assert said.code == 2
    assert "there is no 'throughputs'; did you mean 'throughput'? See 'netpipe plot --help'." in said.err
    assert "is not one of" not in said.err


def test_points_of_several_launches_are_one_row_with_the_interval_of_the_run() -> None:
    from test_analysis_verdicts import alike, made

    reading = Reading(made({"tcp": alike}, launches=3))
    out = io.StringIO()
    print_points(Console(file=out, width=120), reading.curves)
    rows = [line for line in lines_of(out.getvalue()) if line.endswith("3 launches")]
    assert len(rows) == len(reading.curves[0].points)
    first = reading.curves[0].points[0]
    assert f" {percent_text(first.time_ns.half_width)} " in rows[0]
    assert " 720 " in rows[0], "240 samples in each of three launches"


def test_a_sentence_of_click_is_one_line(netpipe: Netpipe) -> None:
    said = netpipe("completion")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "Choose from: bash, zsh, fish; see 'netpipe completion --help'" in said.err
