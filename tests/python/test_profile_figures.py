# SPDX-License-Identifier: Apache-2.0
"""Figures of a profile and of results of kernels, as `netpipe plot` draws them: in every format, and as characters."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from profiled import made, profile_of
from test_figures import MAGIC, names
from test_kernel_table import result
from test_profile_phases import in_phases
from traced import traced

from netpipe.cli import plot
from netpipe.cli.suite import drawings, parts
from netpipe.kernels.table import rows
from netpipe.profiles import write
from netpipe.profiles.lines import Profile
from netpipe.render import figures
from netpipe.render.drawing.paper import draw as drawing
from netpipe.render.drawing.paper.amounts import STRONG
from netpipe.render.drawing.picture import Axis, Map, NothingToDraw, Stacks
from netpipe.render.drawing.profiles import MOST_ROWS, strength
from netpipe.render.drawing.scope import Scope
from netpipe.render.drawing.ticks import ticks
from netpipe.render.page.profile_figures import sections
from netpipe.units import capital

if TYPE_CHECKING:
    from conftest import Netpipe

# Those of one kind of file. `sensitivity` needs two, and is tested with the figures of runs.
OF_ONE = [
    one for kind in (figures.PROFILE, figures.KERNELS) for one in figures.every(kind) if len(one.needs) == 1
]
OF_A_PROFILE = [one.name for one in OF_ONE if one.needs == (figures.PROFILE,)]


def whole() -> Profile:
    """A profile that has the data for every figure: two phases, a collective, messages, and a rank that is late."""
    made = in_phases(1, 7)
    made.traces = traced([("Send", 3000, 50, 8, 1, 0)], [("Recv", 1000, 2500, 8, 0, 0)]).traces
    return made


@pytest.fixture(scope="module")
def scopes() -> dict[str, Scope]:
    times = [result(4.0 / ranks + launch / 100, ranks=ranks) for ranks in (1, 2) for launch in range(6)]
    return {
        figures.PROFILE: Scope((), profiles=(whole(),)),
        figures.KERNELS: Scope((), kernels=tuple(rows(times))),
    }


@pytest.mark.parametrize("file_format", drawing.FORMATS)
@pytest.mark.parametrize("figure", OF_ONE, ids=[one.name for one in OF_ONE])
def test_every_figure_is_drawn_in_every_format(
    scopes: dict[str, Scope], figure: figures.Figure, file_format: str, tmp_path: Path
) -> None:
    scope = scopes[figure.needs[0]]
    panels = figure.panels(scope)
    target = tmp_path / f"f.{file_format}"
    drawing.draw(panels, scope.subtitle, target, file_format, None, figure.help)
    assert target.read_bytes().startswith(MAGIC[file_format])
    if file_format != "svg":
        return
    said = {*names(target.read_text()), ""}
    assert scope.subtitle in said
    for panel in panels:
        assert panel.title in said
        for view in panel.views:
            if isinstance(view, Stacks):
                assert {part.name for part in view.parts} | {row.name for row in view.rows} <= said
                assert {number for row in view.rows for number in row.numbers} | {*view.headings} <= said
            elif isinstance(view, Map):
                assert {*view.columns, *view.rows, view.x_label, view.y_label} <= said


@pytest.mark.parametrize("figure", OF_A_PROFILE)
def test_the_page_has_what_plot_draws(scopes: dict[str, Scope], figure: str) -> None:
    scope = scopes[figures.PROFILE]
    titles = [panel.title for panel in figures.get(figure).panels(scope)]
    on_the_page = [one for section in sections(scope).values() for one in section.panels]
    assert [one.title for one in on_the_page if one.name == figure] == titles


def test_a_profile_of_nothing_has_no_figure_and_says_why() -> None:
    nothing = profile_of([])
    nothing.ranks, nothing.entries = [], {}
    for name in OF_A_PROFILE:
        with pytest.raises(NothingToDraw):
            figures.get(name).panels(Scope((), profiles=(nothing,)))
    lacking = {
        name: why
        for one in sections(Scope((), profiles=(nothing,))).values()
        for name, why in one.lacking.items()
    }
    assert sorted(lacking) == sorted(OF_A_PROFILE)
    assert all(why[0].isupper() and why.endswith(".") for why in lacking.values())


def test_very_many_ranks_are_drawn_side_by_side(tmp_path: Path) -> None:
    scope = Scope((), profiles=(profile_of(*[[made("Send", 8, 1, 0)]] * (MOST_ROWS + 8)),))
    panels = figures.get("by_rank").panels(scope)
    drawing.draw(panels, scope.subtitle, tmp_path / "f.svg", "svg")
    text = (tmp_path / "f.svg").read_text()
    assert {"rank", "0", "39", "computing"} <= set(names(text))
    (bars,) = panels[0].views
    assert isinstance(bars, Stacks)
    assert text.count("<path") < 4 * MOST_ROWS, "one outline for each part, not a rectangle for each rank"


def test_a_matrix_of_many_ranks_says_how_many_a_cell_holds(tmp_path: Path) -> None:
    scope = Scope((), profiles=(profile_of(*[[made("Send", 1 << 20, 3, 129)]] * 130),))
    panels = figures.get("messages").panels(scope)
    drawing.draw(panels, scope.subtitle, tmp_path / "f.svg", "svg")
    said = " ".join(names((tmp_path / "f.svg").read_text()))
    assert "A row and a column hold 3 consecutive ranks, and are named after the first." in said


def test_the_strongest_colour_is_that_of_the_largest_amount() -> None:
    scope = Scope((), profiles=(profile_of([made("Send", 8, 1, 1)], [made("Send", 8, 100, 0)]),))
    (_, calls) = figures.get("messages").panels(scope)
    (view,) = calls.views
    assert isinstance(view, Map)
    assert view.values == ((None, 1.0), (100.0, None))
    strong = strength(view)
    assert (strong(1), strong(10), strong(100)) == (pytest.approx(0.1), pytest.approx(0.55), 1.0)
    assert strong.wide
    assert strong(10) <= STRONG


def test_things_that_are_counted_have_whole_ticks(tmp_path: Path) -> None:
    scope = Scope((), profiles=(profile_of([made("Send", 8, 1, 1)], [made("Recv", 8, 1, 0)]),))
    panels = figures.get("by_size").panels(scope)
    drawing.draw(panels, scope.subtitle, tmp_path / "f.svg", "svg")
    said = names((tmp_path / "f.svg").read_text())
    assert "0.5" not in said
    assert {"0", "1", "2"} <= set(said)


def test_the_reference_names_the_figures_of_profiles_and_of_kernels() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/figures.md").read_text()
    found = {
        name: shows.strip() for name, shows in re.findall(r"^\| `(\w+)` \|([^|]*)\|$", page, re.MULTILINE)
    }
    assert found.keys() == {one.name for one in OF_ONE}
    for one in OF_ONE:
        assert found[one.name].startswith(capital(one.help)), one.name


def test_suites_draw_all_figures_of_kernels() -> None:
    of_kernels = [one.name for one in figures.every(figures.KERNELS)]
    assert sorted(drawings.OF_KIND[parts.APPS]) == sorted(of_kernels)


# ----------------------------------------------------------------------------------------------------------- command


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(whole(), tmp_path / "profile.jsonl")
    return Path("profile.jsonl")


def test_the_default_of_each_kind_of_file_is_one_of_its_figures() -> None:
    for kinds, name in plot.DEFAULT.items():
        assert name in [one.name for one in figures.every(*kinds)]


def test_plot_lists_what_a_profile_has_and_draws_the_first(netpipe: Netpipe, saved: Path) -> None:
    said = netpipe("plot", str(saved), "--list")
    assert said.code == 0, said.err
    there, lacking = said.out.split("It lacks the data for:")
    assert there.startswith("This profile has the data for:\n  by_call ")
    assert re.findall(r"^  (\w+)  ", there, re.MULTILINE) == OF_A_PROFILE
    assert re.findall(r"^  (\w+) +(.*)", lacking, re.MULTILINE) == [("sensitivity", "there is no run")]
    assert netpipe("plot", str(saved)).code == 0
    assert "Time by call, all ranks together" in names(Path("by_call.svg").read_text())
    assert netpipe("plot", str(saved), "--figure", "messages", "--title", "Mine", "-o", "m.pdf").code == 0
    assert Path("m.pdf").read_bytes().startswith(MAGIC["pdf"])


@pytest.mark.parametrize("figure", [name for name in OF_A_PROFILE if name != "messages"])
def test_bars_fit_a_terminal(
    netpipe: Netpipe, saved: Path, figure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = netpipe("plot", str(saved), "--figure", figure, "--format", "terminal")
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    (panel,) = figures.get(figure).panels(Scope((), profiles=(whole(),)))
    assert lines[0].startswith(panel.title)
    for view in (view for view in panel.views if isinstance(view, Stacks)):
        for letter, part in zip("abcdef", view.parts, strict=False):
            assert f"{letter} {part.name}" in lines or not part.name


def test_a_figure_of_a_profile_needs_no_run_beside_it(netpipe: Netpipe, saved: Path) -> None:
    other = saved.with_name("other.jsonl")
    other.write_text('{"type":"run","schema":1,"run":"made-up"}\n')
    for words, says in (
        ((other, "--figure", "by_call"), f"is drawn from a profile of netpipe profile, and {other} is a run"),
        (
            (saved, other, "--figure", "by_call"),
            "is drawn from a profile of netpipe profile alone; leave the runs out",
        ),
        ((saved, "--figure", "speedup"), f"is drawn from results of netpipe apps, and {saved} is a profile"),
    ):
        said = netpipe("plot", *map(str, words))
        assert said.code == 2
        assert says in said.err


def test_the_axis_of_bytes_has_round_sizes() -> None:
    texts = [text for _, text in ticks(Axis("size", "", False, 0.0, 3e6))]
    assert texts == ["0", "512 KiB", "1 MiB", "1.5 MiB", "2 MiB", "2.5 MiB"]
