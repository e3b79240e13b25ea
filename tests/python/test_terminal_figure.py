# SPDX-License-Identifier: Apache-2.0
"""Figures in characters: netpipe plot --format terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from synthetic import run

from netpipe.cli import plot
from netpipe.failure import Failure
from netpipe.reading import Reading
from netpipe.records import encode
from netpipe.render import figures
from netpipe.render.drawing.picture import (
    Axis,
    Bound,
    Line,
    NothingToDraw,
    Panel,
    Part,
    Picture,
    Stack,
    Stacks,
)
from netpipe.render.drawing.scope import Scope
from netpipe.render.terminal.figure import ROWS, lines_of

MADE = run(sizes=[1, 8, 64, 1024, 16384, 262144, 4194304], moved=True)


def line(label: str, values: tuple[float, ...], mute: tuple[bool, ...] = ()) -> Line:
    x = tuple(float(10**place) for place in range(len(values)))
    return Line(label, 0, 0, x, values, values, values, mute, mute)


def drawn(*lines: Line, bounds: tuple[Bound, ...] = ()) -> list[str]:
    """The rows of the axes, the highest first, and the lines below them."""
    y = Axis("time", "time", True, 1.0, 1e4)
    made = lines_of([Panel("A", (Picture("", Axis("size", "", True, 1, 1e3), y, lines, bounds),))], 60)
    assert made[0] == "A"
    return [row.partition("│")[2] for row in made[1 : ROWS + 1]] + made[ROWS + 1 :]


def test_a_curve_rises_from_corner_to_corner() -> None:
    rows = drawn(line("up", (1.0, 1e1, 1e2, 1e4)))[:ROWS]
    places = [row.index("a") for row in reversed(rows)]
    assert places == sorted(places)
    assert places[0] == 0
    assert rows[0].endswith("a")


def test_the_highest_right_end_is_named_first_and_has_the_first_letter() -> None:
    below = drawn(line("low", (5.0, 5.0)), line("high", (9e3, 9e3)))[ROWS:]
    assert below[2:] == ["a high", "b low"]


def test_no_line_goes_through_a_point_that_says_nothing() -> None:
    rows = drawn(line("cut", (1e2, 1e2, 1e2, 1e2), (False, False, True, False)))[:ROWS]
    (row,) = [row for row in rows if "a" in row]
    assert row.count("·") == 1
    first, last = row.index("·"), len(row) - 1
    assert row[first - 1] == row[first + 1] == " "
    assert row[last] == "a"


def test_two_bounds_have_characters_of_their_own() -> None:
    bounds = (Bound("floor", "time", (1.0, 1e3), (2.0, 2.0)), Bound("copy", "rate", (1.0, 1e3), (1e3, 1e3)))
    assert drawn(line("a", (5.0, 5.0)), bounds=bounds)[-2:] == [": floor", "- copy"]


@pytest.mark.parametrize("columns", [40, 80, 120])
@pytest.mark.parametrize("figure", ["throughput", "latency", "signature", "saturation", "loss", "waterfall"])
def test_a_figure_fits_the_terminal(figure: str, columns: int) -> None:
    made = lines_of(figures.get(figure).panels(Scope((Reading(MADE),))), columns)
    axes = [row for row in made if "│" in row or "└" in row]
    assert all(len(row) <= columns for row in axes)
    if figure == "waterfall":
        assert columns == 40 or any("█" in row for row in made)
    else:
        assert max(map(len, axes)) > columns - 3


def test_a_map_or_distribution_needs_a_file() -> None:
    with pytest.raises(NothingToDraw, match="no form for a terminal"):
        lines_of(figures.get("distribution").panels(Scope((Reading(MADE),))), 80)


def test_each_part_of_a_bar_has_a_letter_and_the_longest_fills_its_room() -> None:
    parts = (Part("computing", None), Part("sends", 0))
    rows = (Stack("0", (10.0, 10.0), ("20 ns",)), Stack("10", (0.0, 5.0), ("5 ns",)))
    panel = Panel("Time", (Stacks("", "time", "time", "rank", parts, rows, ("sum",)),), note="All of it.")
    assert lines_of([panel], 33) == [
        "Time",
        "rank    sum",
        "   0  20 ns  aaaaaaaaaabbbbbbbbbb",
        "  10   5 ns  bbbbb",
        "a computing",
        "b sends",
        "All of it.",
    ]


def test_the_command_prints_the_figure_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    assert MADE.header is not None
    path.write_bytes(b"".join(map(encode, [MADE.header, *MADE.plans, *MADE.variants, *MADE.points])))
    arguments = [str(path), "--figure", "latency", "--format", "terminal"]
    done = CliRunner().invoke(plot.command, arguments)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("Time over message size\n")
    assert list(tmp_path.iterdir()) == [path]
    refused = CliRunner().invoke(plot.command, [*arguments, "-o", str(tmp_path / "f.svg")])
    assert isinstance(refused.exception, Failure)
    assert "leave --output out" in refused.exception.sentence
