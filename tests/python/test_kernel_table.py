# SPDX-License-Identifier: Apache-2.0
"""Results of application kernels: the file that is written is read again, and what is read off it is what was
measured.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from statistics import median

import msgspec
import pytest
from rich.console import Console

from netpipe import cli
from netpipe.kernels.lines import (
    SCHEMA,
    Cell,
    Check,
    End,
    Header,
    Load,
    NotApplications,
    Result,
    are_applications,
    encode,
    read,
    started,
)
from netpipe.kernels.table import Row, interval, rows
from netpipe.records import Header as RunHeader
from netpipe.records import encode as encode_record
from netpipe.render.drawing.kernels import subtitle
from netpipe.render.terminal.apps import behind_text, failures, load_alarm, notes, print_table, time_text

OPENMPI, MPICH = "mpi@openmpi:transport=tcp", "mpi@mpich"


def result(seconds: float | None, variant: str = OPENMPI, ranks: int = 2, **more: object) -> Result:
    return Result(
        name="cg",
        problem="A",
        variant=variant,
        ranks=ranks,
        seconds=seconds,
        mops=None if seconds is None else 100 / seconds,
        verified=seconds is not None,
        **more,  # type: ignore[arg-type]
    )


def row_of(some: list[Result], variant: str, ranks: int = 2) -> Row:
    (found,) = [row for row in rows(some) if (row.cell.variant, row.cell.ranks) == (variant, ranks)]
    return found


# ------------------------------------------------------------------------------------------------------- the file

LINES = [
    Header(
        schema=SCHEMA,
        netpipe="1",
        started="2026-11-23T10:00:00+00:00",
        libraries={"mpi@openmpi": "5"},
        seed=7,
        placement="auto",
    ),
    result(1.5, launch=2, options={"mk": 3}, size="1400", iterations=15, wall_s=2.25, pin=[0, None]),
    result(None, checks=[Check(what="zeta", found=None, expected=8.5)], problem_text="its result is wrong"),
    End(exit_code=4, wall_s=9.0),
]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "apps.jsonl"
    path.write_bytes(b"".join(map(encode, LINES)))
    return path


def test_what_is_written_is_read(saved: Path) -> None:
    found = read(saved)
    assert [found.header, *found.results, found.end] == LINES
    assert are_applications(saved)
    assert started(saved) == "2026-11-23T10:00:00+00:00"


def test_a_torn_last_line_is_left_out(saved: Path) -> None:
    text = saved.read_bytes()
    for length in range(text.index(b"\n") + 1, len(text) + 1):
        saved.write_bytes(text[:length])
        found = read(saved)
        whole = LINES[: text[:length].count(b"\n")]
        assert [found.header, *found.results, *([found.end] if found.end else [])] == whole


def test_a_damaged_line_is_named(saved: Path) -> None:
    text = saved.read_text().splitlines(keepends=True)
    for damage in ('{"type":"result","name":3}\n', "]\n", "\n", '{"type":"end","exit_code":"x"}\n'):
        saved.write_text("".join([text[0], text[1], damage, text[3]]))
        with pytest.raises(NotApplications, match=r"apps\.jsonl is damaged in line 3"):
            read(saved)


@pytest.mark.parametrize("text", ["", "x", "{}", '{"type":"run","schema":1}\n', '{"type":"end"}\n', "\xff"])
def test_a_foreign_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other"
    path.write_bytes(text.encode("latin-1"))
    assert not are_applications(path)
    assert started(path) is None
    with pytest.raises(NotApplications, match="holds no results of applications"):
        read(path)


def test_what_is_not_there_holds_no_results(tmp_path: Path) -> None:
    assert not are_applications(tmp_path / "none")
    assert not are_applications(tmp_path)
    with pytest.raises(OSError, match="none"):
        read(tmp_path / "none")


def test_a_newer_file_is_refused_with_both_numbers(saved: Path) -> None:
    first = json.loads(saved.read_text().splitlines()[0]) | {"schema": SCHEMA + 1, "seed": "of another type"}
    saved.write_text(json.dumps(first) + '\n{"type":"something new"}\n')
    with pytest.raises(
        NotApplications, match=rf"newer netpipe \(schema {SCHEMA + 1}, this one reads {SCHEMA}\)"
    ):
        read(saved)
    assert are_applications(saved), "it is not to be overwritten by a session that cannot read it"


def test_lines_and_fields_that_are_not_known_are_ignored(saved: Path) -> None:
    text = saved.read_text().splitlines()
    more = json.loads(text[1]) | {"colour": "blue"}
    saved.write_text("\n".join([text[0], '{"type":"weather","is":"fine"}', json.dumps(more), *text[2:], ""]))
    assert read(saved).results == LINES[1:3]


# ----------------------------------------------------------------------------------------------------- the interval


def test_fewer_than_six_values_have_no_interval() -> None:
    for count in range(6):
        assert interval([1.0 * value for value in range(count)]) == (None, None)
    assert interval([1, 2, 3, 4, 5, 6]) == (1, 6)


# Tables of order statistics: the ranks (from 1) of the limits of a 95 % interval of the median.
@pytest.mark.parametrize(
    ("count", "low", "high"),
    [(6, 1, 6), (8, 1, 8), (9, 2, 8), (12, 3, 10), (20, 6, 15), (25, 8, 18), (50, 18, 33)],
)
def test_the_interval_is_that_of_the_tables(count: int, low: int, high: int) -> None:
    assert interval([float(value) for value in range(1, count + 1)]) == (low, high)


def test_the_interval_holds_the_median_in_95_of_100_sessions() -> None:
    draw = random.Random(1)
    held = 0
    for _ in range(4000):
        low, high = interval(sorted(draw.expovariate(1.0) for _ in range(9)))
        assert low is not None
        assert high is not None
        held += low <= 0.6931471805599453 <= high
    assert 0.945 < held / 4000 < 0.98  # 96.1 % of nine values


def test_an_interval_of_very_many_values_is_found() -> None:
    assert interval([1.0] * 3000) == (1.0, 1.0)


# --------------------------------------------------------------------------------------------------------- the rows


def test_a_row_has_the_median_of_what_verified() -> None:
    times = [3.0, 1.0, 2.0, 10.0, 4.0, 5.0]
    some = [result(time, launch=launch) for launch, time in enumerate(times, 1)]
    some.append(result(None, launch=7, problem_text="it crashed"))
    (row,) = rows(some)
    assert row.seconds is not None
    assert (row.seconds.value, row.seconds.low, row.seconds.high) == (median(times), 1.0, 10.0)
    assert (row.launches, row.verified, row.failures) == (7, 6, ("it crashed",))
    assert row.mops == pytest.approx(100 / median(times))
    assert time_text(row) == "3.50 [1.00 10.0] s"


def test_a_wrong_result_counts_for_nothing() -> None:
    wrong = result(0.001)
    wrong.verified, wrong.problem_text = False, "its result is wrong"
    (row,) = rows([wrong, result(2.0)])
    assert row.seconds is not None
    assert row.seconds.value == 2.0
    assert row.failures == ("its result is wrong",)


def test_a_cell_without_any_result_has_a_row_and_its_reasons_once() -> None:
    some = [result(None, problem_text=f"process {number} was killed") for number in (41, 42)]
    some += [result(1.0, MPICH)]
    row = row_of(some, OPENMPI)
    assert (row.seconds, row.mops, row.speedup, row.behind, row.tied) == (None, None, None, None, False)
    assert row.failures == ("process 41 was killed",)
    assert time_text(row) == behind_text(row) == "–"
    assert failures(rows(some)) == [f"cg class A on 2 ranks over {OPENMPI}: process 41 was killed"]


def test_the_speed_up_is_against_the_fewest_ranks_that_have_a_result() -> None:
    some = [result(8.0, ranks=2), result(4.0, ranks=4), result(1.0, ranks=8), result(None, ranks=1)]
    some += [result(5.0, MPICH, ranks=4), result(1.0, MPICH, ranks=8)]
    assert [row_of(some, OPENMPI, ranks).speedup for ranks in (1, 2, 4, 8)] == [None, None, 2.0, 8.0]
    assert row_of(some, MPICH, 8).speedup == 5.0
    assert row_of(some, MPICH, 8).speedup_from == 4


def test_how_far_a_library_is_behind_the_fastest_on_as_many_ranks() -> None:
    some = [
        result(time + 0.01 * launch, variant, launch=launch)
        for variant, time in ((OPENMPI, 1.0), (MPICH, 2.0))
        for launch in range(6)
    ]
    some += [result(0.1, ranks=4)]
    fastest, slower = row_of(some, OPENMPI), row_of(some, MPICH)
    assert (fastest.behind, fastest.tied, behind_text(fastest)) == (1.0, False, "fastest")
    assert slower.behind == pytest.approx(2.025 / 1.025)
    assert (slower.tied, behind_text(slower)) == (False, "1.98 ×")


def test_where_intervals_meet_none_is_called_the_fastest() -> None:
    some = [
        result(time, variant)
        for variant, base in ((OPENMPI, 1.0), (MPICH, 1.02))
        for time in (base, base + 0.01, base + 0.02, base + 0.03, base + 0.04, base + 0.05)
    ]
    assert [behind_text(row) for row in rows(some)] == ["~1.00 ×", "~1.02 ×"]
    assert any("the intervals of the two meet" in note for note in notes(rows(some), 8))


def test_without_intervals_none_is_called_the_fastest() -> None:
    found = rows([result(1.0), result(50.0, MPICH)])
    assert [behind_text(row) for row in found] == ["~1.00 ×", "~50.0 ×"]
    assert any("an interval needs 6 launches" in note for note in notes(found, 8))


def test_one_library_alone_is_tied_with_nobody() -> None:
    (row,) = rows([result(1.0)])
    assert (row.behind, row.tied) == (1.0, False)


def test_other_settings_of_a_kernel_are_another_cell() -> None:
    some = [result(1.0, options={"mk": 1}), result(9.0, options={"mk": 10}), result(5.0, options={"mk": 1})]
    found = rows(some)
    assert [row.cell.kernel for row in found] == ["cg:mk=1", "cg:mk=10"]
    assert [row.launches for row in found] == [2, 1]
    assert [row.behind for row in found] == [1.0, 1.0], "they are not compared with each other"
    assert found[0].cell == Cell("cg", "mk=1", "A", OPENMPI, 2)


def test_a_time_of_nothing_divides_nothing() -> None:
    (row,) = rows([msgspec.structs.replace(result(1.0), seconds=0.0, mops=None)])
    assert (row.mops, row.speedup, row.behind) == (None, None, None)


# -------------------------------------------------------------------------------------------------------- the table


def printed(some: list[Result], processors: int | None = 2, width: int = 120) -> list[str]:
    out = Console(width=width, color_system=None, legacy_windows=False)
    with out.capture() as capture:
        print_table(out, rows(some), processors)
    return [line.rstrip() for line in capture.get().splitlines()]


def test_the_table_names_a_kernel_once_and_puts_the_fastest_first() -> None:
    some = [result(2.0, MPICH, ranks=4), result(1.0, MPICH), result(0.5), result(1.0, ranks=4)]
    assert printed(some, processors=4) == [
        "kernel  ranks  over                         time  Mop/s  speed-up  to fastest",
        "cg A        2  mpi@openmpi:transport=tcp  500 ms    200         –     ~1.00 ×",
        "            2  mpi@mpich                  1.00 s    100         –     ~2.00 ×",
        "            4  mpi@openmpi:transport=tcp  1.00 s    100   0.500 ×     ~1.00 ×",
        "            4  mpi@mpich                  2.00 s   50.0   0.500 ×     ~2.00 ×",
        "Speed-up: against 2 ranks.",
        "~: not known to be slower than the fastest, as an interval needs 6 launches that verify.",
    ]


def test_columns_with_nothing_to_compare_are_left_out() -> None:
    assert printed([result(1.0)])[0].split() == ["kernel", "ranks", "over", "time", "Mop/s"]


def test_classes_stand_in_the_order_of_their_size() -> None:
    some = [msgspec.structs.replace(result(1.0), problem=problem) for problem in "BASCWD"]
    some += [msgspec.structs.replace(result(1.0), name="sweep3d", problem=one) for one in ("150", "20", "50")]
    assert [line.split("  ")[0] for line in printed(some)[1:]] == [
        *(f"cg {problem}" for problem in "SWABCD"),
        *("sweep3d 20", "sweep3d 50", "sweep3d 150"),
    ]


def test_shared_processors_are_told_of_files_without_placements() -> None:
    some = [result(1.0, ranks=ranks) for ranks in (2, 4)]
    assert printed(some, processors=2)[-1].startswith("Oversubscribed: 4 ranks on 2 processors. Such times ")
    assert not any("ubscribed" in line for line in printed(some, processors=4))
    assert not any("ubscribed" in line for line in printed(some, processors=None))


def test_where_ranks_ran_is_told_by_their_number() -> None:
    free: list[int | None] = [None] * 4
    some = [result(1.0, pin=[2, 0]), result(1.0, MPICH, pin=[2, 0]), result(None, pin=[1, 3])]
    some += [result(1.0, ranks=3, pin=[4, 5, 6]), result(1.0, ranks=4, pin=free)]
    assert printed(some, processors=8)[-2:] == [
        "Bound: 2 ranks to processors 2 and 0; 3 ranks to processors 4 to 6.",
        "Not bound: 4 ranks.",
    ]
    some = [result(1.0, ranks=4, pin=free, oversubscribed=True), result(None, MPICH, 4, oversubscribed=True)]
    assert printed(some)[-1] == (
        "Oversubscribed: 4 ranks on 2 processors, not bound. Such times tell how a library waits more than how it "
        "communicates."
    )
    some = [result(1.0, pin=[1, 1], oversubscribed=True)]
    assert printed(some, processors=8)[-2] == "Bound: 2 ranks to processors 1 and 1."
    assert printed(some, processors=8)[-1].startswith("Oversubscribed: 2 ranks on 1 processor. ")


def test_launches_on_different_processors_are_all_told() -> None:
    some = [result(1.0, launch=launch, pin=[launch, 0]) for launch in (1, 2, 1)]
    assert row_of(some, OPENMPI).pins == ((1, 0), (2, 0))
    assert printed(some)[-1] == "Bound: 2 ranks to processors 1 and 0; 2 ranks to processors 2 and 0."


def test_numbers_are_whole_on_a_narrow_terminal() -> None:
    some = [
        result(1.0 + launch / 7, variant, ranks)
        for launch in range(6)
        for variant in (OPENMPI, MPICH)
        for ranks in (2, 4)
    ]
    lines = printed(some, width=80)
    assert all(len(line) <= 80 for line in lines)
    assert sum("1.36 [1.00 1.71] s" in line for line in lines) == 4


EACH = ("mpi@openmpi4:transport=shm,eager=64k", "mpi@mpich4:transport=tcp", "mpi@openmpi4:transport=tcp")


@pytest.mark.parametrize("mappings", [[""], ["block", "cyclic"]], ids=["one host", "mappings"])
@pytest.mark.parametrize("width", [80, 120])
def test_names_are_whole_on_every_terminal(width: int, mappings: list[str]) -> None:
    """On a narrow one they are broken where a reader would break them, or columns are left out."""
    some = [
        result(1.0 + launch / 7, variant, ranks, launch=launch, mapping=mapping)
        for launch in range(6)
        for variant in EACH
        for ranks in (2, 4)
        for mapping in mappings
    ]
    lines = printed(some, width=width)
    end = next(number for number, line in enumerate(lines) if line.startswith("Speed-up"))
    begin, stop = lines[0].index("over"), lines[0].index("time") - 16
    assert all(len(line) <= width for line in lines[:end])
    assert not any("…" in line for line in lines)
    names = "".join(line[begin:stop].strip() for line in lines[1:end])
    assert all(names.count(name) == 2 * len(mappings) for name in EACH)
    assert sum("1.36 [1.00 1.71] s" in line for line in lines) == 6 * len(mappings)
    assert ("Mop/s" in lines[0]) == (width == 120)


def test_a_control_character_of_a_foreign_file_is_shown() -> None:
    assert "\x1b" not in "".join(printed([result(1.0, "mpi@\x1b[31mred")]))


# ------------------------------------------------------------------------------------------------------ netpipe show


def test_results_are_shown_again(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.call(["show", str(saved)]) == 0
    shown = capsys.readouterr()
    assert "cg A" in shown.out
    assert OPENMPI in shown.out
    assert "its result is wrong" in shown.err
    assert cli.call(["show", str(saved), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == len(rows(read(saved).results))


@pytest.mark.parametrize("words", [["--points"], ["other.jsonl"]])
def test_results_are_shown_alone(saved: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.call(["show", str(saved), *words]) == 2
    assert "results of kernels" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------------ netpipe plot


@pytest.fixture
def drawable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    some = [
        result(4.0 / ranks + launch / 100, variant, ranks, oversubscribed=ranks == 4)
        for ranks in (1, 2, 4)
        for variant in (OPENMPI, MPICH)
        for launch in range(6)
    ]
    path = tmp_path / "apps.jsonl"
    path.write_bytes(b"".join(map(encode, [LINES[0], *some, End()])))
    return path


def test_speed_ups_and_times_are_drawn(drawable: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.call(["plot", str(drawable)]) == 0
    assert Path("speedup.svg").read_text().startswith("<?xml")
    assert cli.call(["plot", str(drawable), "--figure", "times", "-o", "t.svg", "--variant", MPICH]) == 0
    assert Path("t.svg").is_file()
    assert "the figure is in t.svg" in capsys.readouterr().err


def test_the_subtitle_names_what_was_oversubscribed(drawable: Path) -> None:
    found = rows(read(drawable).results)
    assert subtitle(found) == (
        "class A on 1, 2 and 4 processes of one host; medians of 6 launches; oversubscribed on 4"
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["--figure", "latency"],
            "apps.jsonl has results of kernels; choose one of speedup, times",
        ),
        (["--size", "8"], "has results of kernels, not a run; leave --size out"),
        (["--fit"], "leave --fit out"),
        (["other.jsonl"], "has results of kernels, which are drawn alone"),
        (["--variant", "mpi@lam"], "the run has no points of variant 'mpi@lam'"),
    ],
)
def test_figures_of_kernels_take_no_options_of_curves(
    drawable: Path, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.call(["plot", str(drawable), *words]) == 2
    assert sentence in capsys.readouterr().err


def test_what_cannot_be_drawn_of_kernels_is_listed(
    drawable: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drawable.write_bytes(b"".join(map(encode, [LINES[0], result(1.0), End()])))
    assert cli.call(["plot", str(drawable), "--list"]) == 0
    shown = capsys.readouterr().out
    assert "This run has the data for:\n  times " in shown
    assert "speedup  no kernel has times on two numbers of processes" in shown
    assert cli.call(["plot", str(drawable)]) == 2
    assert "cannot draw speedup: no kernel has times on two numbers" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--figure", "speedup"], ["--figure", "times", "--list"]])
def test_a_run_has_no_figure_of_kernels(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(encode_record(RunHeader(run="made-up", schema=1)))
    assert cli.call(["plot", str(path), *words]) == 2
    assert f"the figure {words[1]} is drawn from results of netpipe apps" in capsys.readouterr().err


# ---------------------------------------------------------------------------------------------------- other work

ALARM = "Do not trust these times until this is fixed: load."


def with_loads(*loads: Load | None) -> list[Result]:
    return [result(1.0, launch=place, load=load) for place, load in enumerate(loads, 1)]


def test_other_work_beside_most_launches_is_said_with_the_table_and_by_show(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    some = with_loads(Load(6.2, 5), Load(6.6, 3), Load(0.4, 0), None)
    path = tmp_path / "apps.jsonl"
    path.write_bytes(b"".join(map(encode, [Header(schema=SCHEMA, processors=2), *some])))
    assert cli.call(["show", str(path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert (
        f"! {ALARM} 5 other processes at most wanted to run when 2 of 3 launches began, and the load average of a "
        "minute was up to 6.6 on 2 processors. List what runs with: top -o %CPU" in said
    )
    assert cli.call(["show", str(path), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["loads"][1] == {"average_1": 6.6, "other_busy_processes": 3}


@pytest.mark.parametrize(
    ("loads", "busy"),
    [
        ([Load(2.2, 0)] * 6, None),  # the ranks of the launch before
        ([Load(6.0, 2), *[Load(2.0, 0)] * 5], "1 of 6 launches"),
        ([Load(0.3, 1)] * 6, "6 of 6 launches"),
        ([None] * 6, None),
        ([Load()] * 6, None),
    ],
)
def test_less_than_that_is_a_note_or_nothing(loads: list[Load | None], busy: str | None) -> None:
    found = rows(with_loads(*loads))
    assert load_alarm(found, 2) == ""
    said = [note for note in notes(found, 2) if "wanted to run" in note]
    assert said == ([f"Other processes wanted to run when {busy} began."] if busy else [])
