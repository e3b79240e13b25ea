# SPDX-License-Identifier: Apache-2.0
"""What opening a library costs, from records made up here: medians over launches, means over ranks, what is shown."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from netpipe.cli.plot import command as plot
from netpipe.reading import Reading
from netpipe.reading.openings import Spread, openings
from netpipe.records import Header, Plan, PlannedVariant, Rank, Record, Run, Variant, encode
from netpipe.render import figures
from netpipe.render.drawing.paper.draw import draw
from netpipe.render.drawing.picture import NothingToDraw, Panel, Picture
from netpipe.render.drawing.scope import Scope
from netpipe.render.page.page import page
from netpipe.render.terminal import openings as terminal
from pages import data_of

MIB = 1 << 20
FIGURES = ("memory", "startup")


def panel(runs: list[Run], figure: str, variants: tuple[str, ...] = ()) -> Panel:
    (found,) = figures.get(figure).panels(Scope(tuple(map(Reading, runs)), variants))
    return found


def picture(runs: list[Run], figure: str, variants: tuple[str, ...] = ()) -> Picture:
    view = panel(runs, figure, variants).views[-1]
    assert isinstance(view, Picture)
    return view


def variant(
    launch: int, name: str, resident: list[int | None], open_s: list[float | None], launch_s: float | None
) -> Variant:
    ranks = [
        Rank(
            rank=rank,
            barrier_resident_bytes=size // 2 if size and launch_s is not None else None,
            resident_bytes=size,
            private_bytes=size // 4 if size else None,
            pinned_bytes=0,
            open_s=time,
        )
        for rank, (size, time) in enumerate(zip(resident, open_s, strict=True))
    ]
    return Variant(launch=launch, variant=name, module=name.partition(":")[0], ranks=ranks, launch_s=launch_s)


def made(*variants: Variant, patterns: list[str] | None = None) -> Run:
    names = dict.fromkeys(one.variant for one in variants)
    planned = [PlannedVariant(variant=name, module=name) for name in names]
    records: list[Record] = [Header(schema=1, run="0" * 32, host="here")]
    records += [
        Plan(launch=launch, variants=planned, patterns=patterns or [])
        for launch in dict.fromkeys(one.launch for one in variants)
    ]
    return Run([*records, *variants], Path("memory.jsonl"))


RUN = made(
    variant(0, "mpi@b", [10 * MIB, 12 * MIB], [0.1, 0.3], 0.05),
    variant(1, "mpi@b", [14 * MIB, 14 * MIB, 14 * MIB, 18 * MIB], [0.2, 0.2, 0.4, 0.2], 0.1),
    variant(2, "mpi@b", [10 * MIB, 10 * MIB], [0.2, 0.1], 0.05),
    variant(3, "mpi@b", [30 * MIB, 30 * MIB], [0.5, 0.5], 0.5),
    variant(0, "mpi@a", [None, None], [None, None], 0.2),
    variant(0, "shm", [MIB, 3 * MIB], [0.001, 0.002], None),
)


def test_means_over_ranks_and_medians_over_launches() -> None:
    two, four, simulated, shm = openings(RUN)
    assert (two.variant, two.ranks, two.launches) == ("mpi@b", 2, 3)
    assert two.resident_bytes == Spread(11 * MIB, 10 * MIB, 30 * MIB)
    assert two.barrier_bytes == Spread(11 * MIB / 2, 10 * MIB / 2, 30 * MIB / 2)
    assert two.private_bytes == Spread(11 * MIB / 4, 10 * MIB / 4, 30 * MIB / 4)
    assert two.pinned_bytes == Spread(0, 0, 0)
    assert two.launcher_s == Spread(0.05, 0.05, 0.5)
    assert two.start_s is not None
    assert (two.start_s.value, two.start_s.low, two.start_s.high) == pytest.approx((0.35, 0.25, 1.0))
    assert (four.ranks, four.resident_bytes) == (4, Spread(15 * MIB, 15 * MIB, 15 * MIB))
    assert four.start_s == Spread(0.5, 0.5, 0.5)  # the slowest rank, behind the launcher
    assert simulated.variant == "mpi@a"
    assert simulated.resident_bytes is None
    assert simulated.start_s is None
    assert simulated.launcher_s == Spread(0.2, 0.2, 0.2)
    assert shm.launcher_s is None
    assert shm.barrier_bytes is None, "it has no barrier"
    assert shm.start_s == Spread(0.002, 0.002, 0.002)


def test_a_rank_that_does_not_know_leaves_no_mean() -> None:
    (one,) = openings(made(variant(0, "mpi@b", [MIB, None], [0.1, None], 0.1)))
    assert one.resident_bytes is None
    assert one.start_s is None


def test_a_run_that_measured_something_else_read_memory_too_early() -> None:
    run = made(variant(0, "mpi@b", [MIB, MIB], [0.1, 0.1], 0.1), patterns=["pingpong"])
    assert openings(run) == ()
    with pytest.raises(NothingToDraw, match="run netpipe memory"):
        picture([run], "memory")


def test_the_table_has_a_dash_for_what_is_not_known() -> None:
    stream = io.StringIO()
    Console(width=160, file=stream).print(terminal.table(openings(RUN)))
    text = stream.getvalue()
    rows = {tuple(words[:2]): words for line in text.splitlines() if (words := line.split())}
    assert rows["mpi@a", "2"].count("\u2013") == 4
    assert rows["mpi@b", "2"][2:10] == ["5.50", "[5.00", "15.0]", "MiB", "11.0", "[10.0", "30.0]", "MiB"]
    assert rows["mpi@b", "4"][2:6] == ["7.50", "MiB", "15.0", "MiB"]


def test_the_memory_after_a_barrier_is_kept_apart_from_that_of_all_to_all() -> None:
    barrier, all_to_all = panel([RUN], "memory").views
    assert isinstance(barrier, Picture)
    assert isinstance(all_to_all, Picture)
    assert (barrier.label, all_to_all.label) == ("after a barrier", "all to all")
    assert {line.label: line.y for line in barrier.lines} == {"mpi@b": (5.5 * MIB, 7.5 * MIB)}, "shm has none"
    older = made(variant(0, "shm", [MIB, MIB], [0.1, 0.1], None))
    assert [view.label for view in panel([older], "memory").views if isinstance(view, Picture)] == [
        "all to all"
    ]


def test_pictures_lay_the_libraries_over_each_other() -> None:
    drawn = picture([RUN], "memory")
    lines = {line.label: line for line in drawn.lines}
    assert set(lines) == {"mpi@b", "shm"}
    assert list(lines["mpi@b"].x) == [2, 4]
    assert list(lines["mpi@b"].y) == [11 * MIB, 15 * MIB]
    assert (lines["mpi@b"].low[0], lines["mpi@b"].high[0]) == (10 * MIB, 30 * MIB)
    startup = picture([RUN, RUN], "startup", ("shm",))
    assert [(line.y, line.dash) for line in startup.lines] == [((2e6,), 0), ((2e6,), 1)]


def test_figures_are_drawn_and_the_command_knows_them(tmp_path: Path) -> None:
    file = tmp_path / "memory.jsonl"
    everything = [RUN.header, *RUN.plans, *RUN.variants]
    file.write_bytes(b"".join(encode(record) for record in everything if record is not None))
    for figure in FIGURES:
        draw([panel([RUN], figure)], "", tmp_path / f"{figure}.svg", "svg")
        done = CliRunner().invoke(
            plot, [str(file), "--figure", figure, "-o", str(tmp_path / f"{figure}-2.svg")]
        )
        assert done.exit_code == 0, done.output
        assert (tmp_path / f"{figure}-2.svg").read_bytes().startswith(b"<?xml")
    done = CliRunner().invoke(plot, [str(file), "--figure", "memory", "--variant", "tcp"])
    assert done.exit_code != 0


def test_the_report_shows_them() -> None:
    text = page(Reading(RUN))
    assert "What opening each library costs" in text
    assert "11.0 [10.0 30.0] MiB" in text
    assert "The cost of opening mpi@b, mpi@a and shm with 2 to 4 processes." in text
    assert "<h1>mpi@b, mpi@a and shm on here</h1>" in text
    # Its figures are drawn although there is no curve.
    assert all(
        f'data-panel="{place}"><figcaption>{panel([RUN], name).title}' in text
        for place, name in enumerate(FIGURES)
    )
    memory, startup = data_of(text)["panels"]
    assert [one["label"] for one in memory["views"][1]["series"]] == ["mpi@b", "shm"]
    (ours, _) = memory["views"][1]["series"]
    assert (ours["x"], ours["low"][0], ours["high"][0]) == (
        [2, 4],
        pytest.approx(10 * MIB, 1e-4),
        pytest.approx(30 * MIB, 1e-4),
    )
    assert ours["text"][0] == "2 processes: 11 MiB (10 MiB to 30 MiB: minimum and maximum of all launches)"
    assert startup["views"][0]["series"][1]["text"] == ["2 processes: 2 ms"]


@pytest.mark.parametrize("width", [80, 120])
def test_names_and_numbers_are_whole_on_a_narrow_terminal(width: int) -> None:
    """At 80 columns the names of the variants were gone, and start-up was cut."""
    name = "mpi@openmpi:transport=shm"
    run = made(
        *(
            variant(at, name, [(11 + at) * MIB] * 2, [0.303 + at / 100] * 2, 0.0334 + at / 1000)
            for at in range(3)
        )
    )
    out = io.StringIO()
    terminal.print_openings(Console(file=out, width=width), openings(run))
    text = out.getvalue()
    assert name in text
    assert "…" not in text
    for word in ("after a barrier", "all to all", "start-up", "launcher", "launches"):
        assert word in text
    assert max(map(len, text.splitlines())) <= width
