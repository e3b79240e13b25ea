# SPDX-License-Identifier: Apache-2.0
"""What the summary on a terminal says of patterns: sizes that were left out, measures, ranks and pairs."""

from __future__ import annotations

import io
import re

import pytest
from synthetic import LAYERS, measure, pairs, patterned, ranks, run

from netpipe.findings import examples
from netpipe.reading import Reading
from netpipe.reading.cells import slowest_cell, slowest_of
from netpipe.reading.measures import typical_sizes
from netpipe.reading.sweeps import number, sweeps
from netpipe.records import Cell, Run, Skipped
from netpipe.render.terminal.points import print_points
from netpipe.render.terminal.summary import console, print_summary

SIZES = [8, 1024, 65536, 1 << 20]


def summary(made: Run, monkeypatch: pytest.MonkeyPatch, columns: int = 120) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = io.StringIO()
    print_summary(console(stream), Reading(made))
    return stream.getvalue()


def one_line(text: str) -> str:
    return " ".join(text.split())


# --------------------------------------------------------------------------------------------- what is missing


def skipped(
    *sizes: int | None, pattern: str = "collective", reason: str = "no multiple of 8 bytes"
) -> list[Skipped]:
    return [Skipped(variant="shm", pattern=pattern, size_bytes=size, reason=reason) for size in sizes]


def lost(size: int, share: float, launch: int = 0) -> Skipped:
    """A size of shm stream of which no sample was whole."""
    reason = "messages were lost in every sample, so none has a time"
    said = [measure("loss", "1", share, 0.1)]
    return Skipped(
        launch=launch, variant="shm", pattern="stream", size_bytes=size, reason=reason, measures=said
    )


def test_a_size_that_one_launch_skipped_and_another_measured_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The sentence said that 1 MiB was skipped, and the table of points had it."""
    records = [
        *(examples.visited("shm", 8, 100.0, launch) for launch in (0, 1)),
        examples.visited("shm", 64, 200.0, 1),
        *skipped(64, 128, pattern="pingpong", reason="too slow"),
    ]
    made = examples.run(*records, variants=["shm"])
    said = one_line(summary(made, monkeypatch))
    assert (
        "Skipped 2 sizes from 64 B to 128 B of shm pingpong (64 B in some launches only): too slow." in said
    )
    stream = io.StringIO()
    print_points(console(stream), Reading(made).curves)
    lines = {" ".join(line.split()[:2]): line.rstrip() for line in stream.getvalue().splitlines()}
    assert lines["8 B"].endswith(" 2 launches")
    assert lines["64 B"].endswith(" 1 launch")


@pytest.mark.parametrize(
    ("skips", "sentence"),
    [
        (skipped(12), "Skipped 12 B of shm collective: no multiple of 8 bytes."),
        (
            skipped(12, 4099, 12),
            "Skipped 2 sizes from 12 B to 4 KiB+3 of shm collective: no multiple of 8 bytes.",
        ),
        (skipped(None, reason="needs gather"), "Skipped shm collective: needs gather."),
        (
            skipped(12) + skipped(12, pattern="scan") + skipped(20, pattern="gather"),
            (
                "Skipped 12 B of shm collective and shm scan: no multiple of 8 bytes. "
                "· Skipped 20 B of shm gather: no multiple of 8 bytes."
            ),
        ),
        (
            [lost(12, 0.53)],
            "Skipped 12 B of shm stream: 53 % of the messages were lost, and no sample was whole.",
        ),
        (
            [lost(12, 0.53), lost(4099, 0.97)],
            "of shm stream: 53 to 97 % of the messages were lost, and no sample was whole.",
        ),
    ],
)
def test_what_was_left_out_is_said_with_the_sizes(
    skips: list[Skipped], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = run(LAYERS[2:4], SIZES)
    made.skipped += skips
    assert sentence in one_line(summary(made, monkeypatch))


# ------------------------------------------------------------------------------------------- measures


def test_measures_stand_below_the_times(monkeypatch: pytest.MonkeyPatch) -> None:
    text = one_line(summary(patterned(), monkeypatch))
    assert "measures median 8 B 1 KiB 64 KiB 1 MiB shm overlap 0.00195 0.200 0.941 0.996" in text
    assert "tested ~2.50 M/s" in text, "a median without an interval is marked"
    assert "unknown" not in text, "a measure that nobody knows has no row"


@pytest.mark.parametrize("columns", [80, 120])
def test_no_line_is_wider_than_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for line in summary(patterned(), monkeypatch, columns).splitlines():
        assert len(line.rstrip()) <= columns, line


def test_a_pattern_with_many_settings_is_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    text = summary(patterned(), monkeypatch, 80)
    lines = text.splitlines()
    (header,) = [line for line in lines if line.startswith("window ") and "time for" in line]
    assert header.split()[:2] == ["window", "in_flight"]
    rows = lines[lines.index(header) + 1 :][:8]
    assert [row.split()[0] for row in rows] == ["shm", "4", "16", "64", "tcp", "4", "16", "64"]


def test_patterns_without_a_rate_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = summary(patterned(), monkeypatch).splitlines()
    header = next(place for place, line in enumerate(lines) if re.match("overhead .*typical", line))
    assert lines[header + 1].split()[-5:] == ["\u2013", "\u2013", "\u2013", "0.5", "%"]


@pytest.mark.parametrize(("launches", "expected"), [(2, (10.5, 9, 12.1)), (3, (11, 6.73, 15.27))])
def test_launches_become_one_measure(launches: int, expected: tuple[float, ...]) -> None:
    """Of two the envelope, of three by Student's t (test_launched.py)."""
    made = run(LAYERS[2:3], [8], launches=launches)
    for place, point in enumerate(made.points):
        point.measures = [measure("x", "ns", 10.0 + place, 0.1)]
    (found,) = Reading(made).measures
    said = found.values[8].value, found.values[8].low, found.values[8].high
    assert said == pytest.approx(expected, rel=0.001)


def test_the_loss_of_a_size_without_a_time_stands_beside_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one of its two launches no sample of 8 B was whole, and in none one of 1 MiB."""
    made = run(LAYERS[2:3], [8, 1024], launches=2)
    for point in made.points:
        point.pattern = "stream"
        point.measures = [measure("loss", "1", 0.2, 0.1)]
    made.points = [point for point in made.points if (point.size_bytes, point.launch) != (8, 1)]
    made.skipped = [lost(8, 0.4, launch=1), lost(1 << 20, 0.9), lost(1 << 20, 0.7, launch=1)]
    (found,) = Reading(made).measures
    assert {size: share.value for size, share in found.values.items()} == pytest.approx(
        {8: 0.3, 1024: 0.2, 1 << 20: 0.8}
    )
    assert (found.values[8].low, found.values[8].high) == pytest.approx((0.18, 0.44))
    assert "shm loss 0.300 0.200 0.800" in one_line(summary(made, monkeypatch))


@pytest.mark.parametrize(
    ("sizes", "typical"),
    [
        ([], ()),
        ([0], (0,)),
        ([1, 3, 8, 9, 1000, 1024, 1 << 16, 1 << 20, 1 << 23], (8, 1024, 1 << 16, 1 << 20)),
        ([16], (16,)),
        ([8, 100], (8, 100)),
    ],
)
def test_a_few_sizes_stand_for_all(sizes: list[int], typical: tuple[int, ...]) -> None:
    assert typical_sizes(sizes) == typical


# ------------------------------------------------------------------------------------------- ranks and pairs


def test_a_rank_that_holds_up_the_others_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    text = one_line(summary(patterned(), monkeypatch))
    assert (
        "shm collective: rank 3 was the slowest of 4 ranks in 87 % of the operations at 8 B, with 1.39\u00d7 the "
        "median of the others, and stood out at 2 of 4 sizes." in text
    )
    assert "tcp pairs: the pair of ranks 0 and 3 was the slowest of 6 pairs" in text
    assert "The ranks of shm start within 43.0 ns of each other (median)" in text
    assert "; their clocks agree to 0 ns." in text


@pytest.mark.parametrize(
    "cells",
    [
        [],
        ranks(4, 100),
        ranks(4, 100, 2, times=1.05, share=0.9),  # often, but hardly slower
        ranks(4, 100, 2, times=3, share=0.3),  # much slower, but not more often than the others
        ranks(2, 100, 1, times=1.2, share=0.6),
        [Cell(rank=0, median_ns=None), Cell(rank=1, median_ns=5.0, slowest=100)],
        [Cell(rank=0, median_ns=1.0, slowest=1), Cell(rank=1, median_ns=9.0, slowest=12)],  # too few samples
        [Cell(rank=0, median_ns=0.0, slowest=0), Cell(rank=1, median_ns=9.0, slowest=99)],
    ],
)
def test_nobody_is_named_for_chance(cells: list[Cell]) -> None:
    assert slowest_cell(cells) is None


def beside(slowest: int, of: int, others: int = 2, times: float = 2.0) -> list[Cell]:
    """A rank that was the slowest in so many of all samples, beside others that share the rest."""
    rest, odd = divmod(of - slowest, others)
    last = [Cell(rank=rank, median_ns=100.0, slowest=rest + (rank < odd)) for rank in range(others)]
    return [*last, Cell(rank=others, median_ns=100.0 * times, slowest=slowest)]


@pytest.mark.parametrize(
    ("silent", "speaks"),
    [
        (beside(19, 19), beside(20, 20)),  # 20 samples at least
        # By chance 6.7 of 20, one standard deviation is 2.11: four are reached with 16.
        (beside(15, 20), beside(16, 20)),
        # By chance 250 of 1000, four deviations are 55; a third of the way from there to always is 500.
        (beside(500, 1000, 3), beside(501, 1000, 3)),
        (beside(900, 1000, times=1.1), beside(900, 1000, times=1.11)),
        (beside(900, 1000)[1:], beside(900, 1000)),  # of two nobody is the odd one
    ],
)
def test_how_often_and_how_much_it_takes_to_stand_out(silent: list[Cell], speaks: list[Cell]) -> None:
    assert slowest_cell(silent) is None
    found = slowest_cell(speaks)
    assert found is not None
    worst, share, times = found
    assert worst is speaks[-1]
    assert share == (worst.slowest or 0) / sum(cell.slowest or 0 for cell in speaks)
    assert times == pytest.approx((worst.median_ns or 0) / 100)


def test_a_difference_that_the_clocks_may_make_is_none() -> None:
    cells = ranks(4, 100, 3)
    found = slowest_cell(cells, clock_error_ns=30)
    assert found is not None
    assert found[0].rank == 3
    assert slowest_cell(cells, clock_error_ns=50) is None


def test_several_that_stand_out_are_all_there() -> None:
    made = run(LAYERS[2:3], SIZES)
    for place, point in enumerate(made.points):
        point.cells = pairs(4, point.median_ns, 5 if place == 0 else 1)
    (curve,) = Reading(made).curves
    assert [(one.rank, one.peer, one.size_bytes, one.sizes, one.all_sizes) for one in slowest_of(curve)] == [
        (0, 2, 1024, 3, 4),
        (2, 3, 8, 1, 4),
    ]


# ------------------------------------------------------------------------------------------- settings


def test_patterns_that_differ_in_their_settings_belong_together() -> None:
    found = {settings.name: settings for settings in Reading(patterned()).pattern_settings}
    assert set(found) == {"pingpong", "collective", "window", "offered"}
    assert found["window"].options == ("in_flight",)
    assert found["window"].values["window"] == {"in_flight": "16"}, "the default is in the plan"
    (sweep,) = sweeps(found["window"])
    assert [value for value, _ in sweep.members] == [1, 4, 16, 64]
    assert not sweeps(found["collective"]), "what is chosen is no number"
    assert [len(sweep.members) for sweep in sweeps(found["pingpong"])] == [9]


def test_without_modes_in_the_plan_the_names_tell() -> None:
    made = patterned()
    made.plans[0].modes = []
    found = {settings.name: settings for settings in Reading(made).pattern_settings}
    assert found["window"].values["window"] == {"in_flight": "default"}
    assert not sweeps(found["window"]), "three numbers and a default"
    assert [len(sweep.members) for sweep in sweeps(found["pingpong"])] == [8]


@pytest.mark.parametrize(
    ("text", "value"),
    [("64k", 65536), ("1M", 1 << 20), ("0", 0), ("0.5", 0.5), ("all", None), ("", None), ("-1", None)],
)
def test_numbers_are_those_of_the_worker(text: str, value: float | None) -> None:
    assert number(text) == value
