# SPDX-License-Identifier: Apache-2.0
"""The report in a browser, by real clicks and keys, at the width of a screen and of a telephone."""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import large
import pytest
from browser import CONTROL, ENTER, MISSING, SPACE, TAB, Browser, browser, watched
from synthetic import classic_sizes, run

from netpipe.findings import examples, judge
from netpipe.findings.curves import small_buffers
from netpipe.reading import Reading
from netpipe.records import Run
from netpipe.render.drawing.few import MOST_FIRST
from netpipe.render.drawing.picture import Line
from netpipe.render.drawing.strokes import strokes
from netpipe.render.page.page import page
from pages import data_of

pytestmark = [
    pytest.mark.deep,
    pytest.mark.skipif(MISSING is not None, reason=MISSING or ""),
    pytest.mark.xdist_group("browser"),
]
SIZES = [1, 8, 64, 1024, 16384, 262144, 4194304]
MADE = run(sizes=SIZES, launches=2)
MADE.environments += examples.with_facts({"clock.source": "hpet"}).environments  # something to act on
READY = "return document.querySelector('#legend button') !== null"
DRAWN = """const host = document.getElementById("plot-%s");
host.scrollIntoView({ block: "center" });
return host.querySelector(".main-svg") && !host.matches("[aria-busy]");"""
LINES = """const host = document.getElementById("plot-" + arguments[0]);
const shown = host.data.filter((one) => one.customdata);
return shown.map((one) => ({ x: one.x, y: one.y, text: one.text[0] }));"""
BAND = """const filled = document.getElementById("plot-" + arguments[0]).data.filter((one) => one.fill && one.y.length);
return filled.map((one) => one.y.filter((value) => value !== null));"""
BASES = "return [...document.getElementById('choose-baseline').options].map((one) => one.text)"
BOX = """const of = document.querySelector("#plot-" + arguments[0] + " .nsewdrag").getBoundingClientRect();
return [of.x, of.y, of.width, of.height];"""
RANGES = """const of = document.getElementById("plot-" + arguments[0])._fullLayout;
return [...of.xaxis.range, ...of.yaxis.range];"""
FIGURES = ("throughput", "latency", "signature", "saturation", "loss", "distribution", "yardsticks")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("page")
    watched(page(Reading(MADE)), made / "report.html")
    return made


@pytest.fixture(scope="module")
def window(folder: Path) -> Iterator[Browser]:
    with browser(folder) as made:
        yield made


def opened(window: Browser, folder: Path, width: int, dark: bool) -> Iterator[Browser]:
    """The page, freshly opened; nothing may have failed in it at the end."""
    window.open(folder / "report.html", width, dark=dark)
    window.until(READY)
    yield window
    assert window.run("return failed") == []
    assert (
        window.run("const root = document.documentElement; return root.scrollWidth - root.clientWidth") <= 0
    )


@pytest.fixture(params=[(1200, False), (390, True)], ids=["screen", "telephone in the dark"])
def at(window: Browser, folder: Path, request: pytest.FixtureRequest) -> Iterator[Browser]:
    yield from opened(window, folder, *request.param)


@pytest.fixture
def screen(window: Browser, folder: Path) -> Iterator[Browser]:
    yield from opened(window, folder, 1200, dark=False)


def drawn(at: Browser, figure: str) -> None:
    """Goes to the figure, and waits until it shows what was chosen."""
    at.until(DRAWN % figure)


def lines(at: Browser, figure: str) -> list[dict[str, Any]]:
    drawn(at, figure)
    found: list[dict[str, Any]] = at.run(LINES, figure)
    return found


def ranges(at: Browser, figure: str) -> list[float]:
    """Of both axes, as they are now."""
    found: list[float] = at.run(RANGES, figure)
    return found


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_the_first_screen_says_what_costs_most_and_whether_to_believe_it(
    window: Browser, folder: Path, width: int, height: int
) -> None:
    window.open(folder / "report.html", width, height)
    ends = window.run(
        "return ['.key', '.trust', '.stack tbody tr', '.important li'].map("
        "(one) => document.querySelector(one).getBoundingClientRect().bottom)"
    )
    assert ends == sorted(ends)
    seen = [end <= height for end in ends]
    assert seen[:3] == [True] * 3
    assert seen[3] or width < 1280  # on a telephone one scrolls for what to do


def test_the_most_important_findings_open_and_lead_to_all_others(at: Browser) -> None:
    number = at.run("return document.querySelectorAll('.important > li').length")
    assert 1 <= number <= 3
    remedies = at.run(
        "return [...document.querySelectorAll('.important > li')].map((one) => one.textContent.includes('Remedy:'))"
    )
    assert remedies == [True] * number
    at.click(".important li summary")
    assert at.run("return document.querySelector('.important details').open")
    assert at.run("return document.querySelector('.important dt').getBoundingClientRect().height") > 0
    at.click("#answer a[href='#findings']")
    at.until("return Math.abs(document.getElementById('findings').getBoundingClientRect().top) < 2")


def test_each_finding_stands_on_the_page_once(at: Browser) -> None:
    whole = at.run("return document.body.textContent").split()
    data = data_of(page(Reading(MADE)))
    for finding in data["findings"]:
        assert " ".join(whole).count(" ".join(finding["what"].split())) == 1


def test_a_click_on_a_command_selects_all_of_it(window: Browser, folder: Path) -> None:
    made = Reading(small_buffers.fires())
    watched(page(made), folder / "command.html")
    window.open(folder / "command.html", 1200)
    window.click(".important code")
    (found,) = [one for one in judge(made).findings if one.rule == "small-buffers"]
    assert window.run("return String(getSelection())").strip() == found.experiment


def test_a_click_on_a_name_hides_its_curve_in_every_figure(at: Browser) -> None:
    before = {figure: len(lines(at, figure)) for figure in ("throughput", "latency", "signature", "loss")}
    at.click("#legend button")
    assert at.run("return document.querySelector('#legend button').getAttribute('aria-pressed')") == "false"
    for figure, number in before.items():
        hidden = 0 if figure == "loss" else 1  # the lowest layer has no loss
        assert len(lines(at, figure)) == number - hidden
    at.click("#legend button")
    assert {figure: len(lines(at, figure)) for figure in before} == before


def test_a_point_says_what_it_is_and_a_click_on_it_shows_its_distribution(at: Browser) -> None:
    drawn(at, "latency")
    x, y, name = at.run(
        """const host = document.getElementById("plot-latency");
        host.scrollIntoView({ block: "center" });
        const trace = host.data.filter((one) => one.customdata)[5];  // tcp:wait=poll, far from the others
        const box = host.querySelector(".nsewdrag").getBoundingClientRect();
        const of = host._fullLayout;
        return [box.x + of.xaxis.d2p(trace.x[3]), box.y + of.yaxis.d2p(trace.y[3]), trace.text[3]];"""
    )
    at.hover(x, y)
    at.until("return document.querySelector('#plot-latency .hoverlayer .hovertext')")
    assert "1 KiB" in at.run("return document.querySelector('#plot-latency .hoverlayer').textContent")
    at.hover(x, y, press=True)
    at.until("return document.getElementById('choose-size').value === '1024'")
    curve = at.run(
        "const of = document.getElementById('choose-curve'); return of.options[of.selectedIndex].text"
    )
    assert f"<b>{curve}</b>" in name


def test_the_axis_of_values_turns_from_logarithmic_to_linear_and_back(screen: Browser) -> None:
    def types() -> list[str]:
        found = []
        for name in ("loss", "throughput", "latency"):
            drawn(screen, name)
            found.append(screen.run(f"return document.getElementById('plot-{name}').layout.yaxis.type"))
        return found

    before = types()
    assert before[1:] == ["log", "log"]
    screen.click("#turn-axes")
    assert types() == [before[0], "linear", "linear"]
    texts = screen.run(
        "return [...document.querySelectorAll('#plot-latency .ytick text')].map((one) => one.textContent)"
    )
    assert len(texts) >= 3
    assert texts[0] == "0"
    screen.click("#turn-axes")
    assert types() == before


def test_curves_are_drawn_over_a_baseline(screen: Browser) -> None:
    labels = screen.run(BASES)
    assert labels[0] == "none"
    assert "tcp" in labels
    place = labels.index("tcp") + 1
    absolute = {str(line["text"]).partition("</b>")[0]: line["y"] for line in lines(screen, "latency")}
    screen.click(f"#choose-baseline option:nth-child({place})")
    drawn(screen, "latency")
    assert (
        screen.run("return document.querySelector('#caption-latency span').textContent") == "over that of tcp"
    )
    ratios = {str(line["text"]).partition("</b>")[0]: line["y"] for line in lines(screen, "latency")}
    assert ratios.keys() == absolute.keys()
    assert ratios["<b>tcp"] == [1.0] * len(SIZES)
    own, base = absolute["<b>shm"], absolute["<b>tcp"]
    assert ratios["<b>shm"] == pytest.approx([a / b for a, b in zip(own, base, strict=True)])
    screen.click("#choose-baseline option:first-child")
    again = {str(line["text"]).partition("</b>")[0]: line["y"] for line in lines(screen, "latency")}
    assert again == absolute


def test_what_was_measured_by_turns_is_drawn_over_a_baseline_by_pairs(window: Browser, folder: Path) -> None:
    """Launches differ by far more than the two curves do in each of them, and the band is as narrow as that."""
    both = examples.run(*(
        examples.visited(name, size, times * size * 1000.0 * (1 + launch), launch)
        for launch in range(4) for size in (8, 64) for name, times in (("shm", 1.0), ("tcp", 2.0))
    ))  # fmt: skip
    times = Reading(both).ratios_of(("shm", "pingpong"), ("tcp", "pingpong"))
    assert all(times[size].half_width < 0.1 for size in (8, 64))
    watched(page(Reading(both)), folder / "pairs.html")
    window.open(folder / "pairs.html", 1200)
    window.until(READY)
    places = window.run(BASES)
    for base, other, value in (("tcp", "shm", 0.5), ("shm", "tcp", 2.0)):
        window.click(f"#choose-baseline option:nth-child({places.index(base) + 1})")
        for figure, expected in (("latency", value), ("throughput", 1 / value)):
            ratios = {str(line["text"]).partition("</b>")[0]: line["y"] for line in lines(window, figure)}
            assert ratios[f"<b>{other}"] == pytest.approx([expected] * 2, rel=1e-3)
            band = window.run(BAND, figure)
            assert len(band) == 2
            assert all(max(one) / min(one) < 1.3 for one in band)
    assert window.run("return failed") == []


def test_a_click_on_a_column_sorts_its_table(at: Browser) -> None:
    cells = (
        "const body = document.querySelector('#summary table').tBodies[0];"
        "return [...body.rows].map((row) => row.cells[arguments[0]].textContent)"
    )
    names = at.run(cells, 0)
    at.click("#summary th:nth-child(1) button")
    assert at.run(cells, 0) == sorted(names)
    at.click("#summary th:nth-child(2) button")  # times, in ns and in us
    times = at.run(cells, 1)
    assert times[0].endswith(" ns")
    assert times[-1].endswith(" µs")
    at.click("#summary th:nth-child(2) button")
    assert at.run(cells, 1) == times[::-1]
    assert (
        at.run("return document.querySelector('#summary th:nth-child(2)').getAttribute('aria-sort')")
        == "descending"
    )


def test_the_points_are_downloaded(screen: Browser, folder: Path) -> None:
    target = folder / "points.csv"
    target.unlink(missing_ok=True)
    screen.click("#download")
    screen.run("return 0")
    end = time.monotonic() + 30
    while not target.exists():
        assert time.monotonic() < end, "nothing was downloaded"
        time.sleep(0.05)
    with target.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    curves = Reading(MADE).curves
    assert len(rows) == sum(len(curve.points) for curve in curves)
    assert {row["variant"] for row in rows} == {curve.variant for curve in curves}
    assert float(rows[3]["median_ns"]) == pytest.approx(curves[0].points[3].time_ns.value)
    target.unlink()


def test_keys_alone_do_all_of_it(at: Browser) -> None:
    at.run("document.activeElement.blur(); window.scrollTo(0, 0)")
    said = (
        "const of = document.activeElement;"
        "return of.closest('#legend, #tools, th') ? (of.id || of.closest('#legend, th').tagName + of.textContent) : ''"
    )
    seen: list[str] = []
    for _ in range(60):
        at.keys(TAB)
        seen.append(at.run(said))
        if seen[-1] == "download":
            break
    assert [one for one in seen if one in ("choose-baseline", "turn-axes", "download")] == [
        "choose-baseline", "turn-axes", "download",
    ]  # fmt: skip
    assert sum(one.startswith("DIV") for one in seen) == at.run(
        "return document.querySelectorAll('#legend button').length"
    )
    outline = at.run("return getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"  # one sees where one is
    at.run("document.getElementById('turn-axes').focus()")
    at.keys(SPACE)
    assert at.run("return document.getElementById('turn-axes').getAttribute('aria-pressed')") == "true"
    at.run("document.querySelector('#legend button').focus()")
    at.keys(ENTER)
    assert at.run("return document.activeElement.getAttribute('aria-pressed')") == "false"
    at.run("document.querySelector('#summary th button').focus()")
    at.keys(ENTER)
    assert at.run("return document.activeElement.closest('th').getAttribute('aria-sort')") == "ascending"


def test_colours_follow_the_scheme_of_the_reader(window: Browser, folder: Path) -> None:
    found = []
    for dark in (False, True):
        window.open(folder / "report.html", 1200, dark=dark)
        window.until(READY)
        drawn(window, "latency")
        found.append(
            window.run(
                "return [getComputedStyle(document.body).backgroundColor,"
                " document.getElementById('plot-latency').data.find((one) => one.customdata).line.color]"
            )
        )
    assert found[0][0] != found[1][0]
    assert found[0][1] != found[1][1]


# ------------------------------------------------------------------------------------------------- looking closer


def test_a_figure_shows_what_was_dragged_over_until_a_double_click(screen: Browser) -> None:
    drawn(screen, "latency")
    whole = ranges(screen, "latency")
    x, y, width, height = screen.run(BOX, "latency")
    screen.drag((x + width / 4, y + height / 4), (x + width * 3 / 4, y + height * 3 / 4))
    screen.until(f"{RANGES.replace('arguments[0]', repr('latency')).replace('return', 'const now =')}"
                 f"return now.some((one, i) => Math.abs(one - {whole}[i]) > 0.01);")  # fmt: skip
    left, right, bottom, top = ranges(screen, "latency")
    assert right - left == pytest.approx((whole[1] - whole[0]) / 2, rel=0.05)
    assert top - bottom == pytest.approx((whole[3] - whole[2]) / 2, rel=0.05)
    screen.click("#legend button")
    drawn(screen, "latency")
    assert ranges(screen, "latency") == pytest.approx([left, right, bottom, top]), "a click on a name"
    screen.click("#legend button")
    x, y, width, height = screen.run(BOX, "latency")
    for _ in range(2):
        screen.hover(x + width / 2, y + height / 2, press=True)
    screen.until(f"{RANGES.replace('arguments[0]', repr('latency')).replace('return', 'const now =')}"
                 f"return now.every((one, i) => Math.abs(one - {whole}[i]) < 1e-9);")  # fmt: skip


def test_other_axes_begin_with_all_that_they_show(screen: Browser) -> None:
    drawn(screen, "latency")
    x, y, width, height = screen.run(BOX, "latency")
    screen.drag((x + width / 4, y + height / 4), (x + width * 3 / 4, y + height * 3 / 4))
    screen.click("#turn-axes")
    drawn(screen, "latency")
    assert ranges(screen, "latency") == pytest.approx(
        screen.run("const { xaxis, yaxis } = document.getElementById('plot-latency').layout;"
                   "return [...xaxis.range, ...yaxis.range];")
    )  # fmt: skip
    assert ranges(screen, "latency")[2] == 0


def test_the_wheel_scrolls_the_page_and_looks_closer_where_ctrl_is_held(screen: Browser) -> None:
    drawn(screen, "latency")
    whole = ranges(screen, "latency")
    x, y, width, height = screen.run(BOX, "latency")
    before = screen.run("return scrollY")
    screen.wheel(x + width / 2, y + height / 2, 120)
    screen.until(f"return scrollY > {before}")
    drawn(screen, "latency")
    assert ranges(screen, "latency") == whole
    x, y, width, height = screen.run(BOX, "latency")
    before = screen.run("return scrollY")
    screen.wheel(x + width / 2, y + height / 2, -120, CONTROL)
    screen.until(f"{RANGES.replace('arguments[0]', repr('latency')).replace('return', 'const now =')}"
                 f"return now[1] - now[0] < {whole[1] - whole[0]} - 0.01;")  # fmt: skip
    assert screen.run("return scrollY") == before


def test_a_figure_over_sizes_and_one_over_times_show_the_same(screen: Browser) -> None:
    over_sizes = {one["text"].partition("</b>")[0]: one for one in lines(screen, "latency")}
    over_times = {one["text"].partition("</b>")[0]: one for one in lines(screen, "signature")}
    assert over_sizes.keys() == over_times.keys()
    assert over_sizes["<b>tcp"]["x"] == SIZES
    assert over_times["<b>tcp"]["x"] == over_sizes["<b>tcp"]["y"]


# ----------------------------------------------------------------------------------------- what is drawn, and when


def test_a_figure_is_drawn_when_it_is_near_and_all_are_where_they_are_printed(screen: Browser) -> None:
    there = "return [...document.querySelectorAll('.plot:has(.main-svg)')].map((one) => one.id)"
    screen.run("window.scrollTo(0, 0)")
    assert "plot-yardsticks" not in screen.run(there)
    drawn(screen, "yardsticks")
    screen.devtools("Emulation.setEmulatedMedia", media="print", features=[])
    try:
        screen.until(
            "return document.querySelectorAll('.plot .main-svg').length > 0 && !document.querySelector('[aria-busy]')"
        )
        ids = screen.run(there)
        assert {f"plot-{name}" for name in FIGURES} <= set(ids)
        assert len(ids) == screen.run("return document.querySelectorAll('.plot').length")
        cut = """return [...document.querySelectorAll('.plot')].filter((one) => {
            const [box, of] = [one.getBoundingClientRect(), one.querySelector(".main-svg").getBoundingClientRect()];
            return of.right > box.right + 1 || of.bottom > box.bottom + 1;
        }).map((one) => one.id);"""
        assert screen.run(cut) == []
    finally:
        screen.devtools("Emulation.setEmulatedMedia", media="", features=[])


def test_each_figure_is_drawn_once(screen: Browser) -> None:
    """plotly names each of its drawings anew, so a second one would not find the mark of the first."""
    drawn(screen, "latency")
    screen.run("document.querySelector('#plot-latency .trace path').dataset.first = 'yes'")
    drawn(screen, "yardsticks")
    drawn(screen, "latency")
    assert screen.run("return document.querySelector('#plot-latency .trace path').dataset.first") == "yes"


def test_a_table_in_a_fold_is_made_when_it_is_opened_and_sorts(screen: Browser) -> None:
    cells = "return document.querySelectorAll('#points td').length"
    assert screen.run(cells) == 0
    fold = "#points details:nth-of-type(2)"
    screen.click(f"{fold} summary")
    screen.until(f"return document.querySelectorAll('{fold} tbody tr').length === {2 * len(SIZES)}")
    first = f"return document.querySelector('{fold} tbody td').textContent"
    assert screen.run(first) == "1"
    for _ in range(2):
        screen.click(f"{fold} th:nth-child(1) button")
    assert screen.run(first) == "4\u202f194\u202f304"
    screen.click(f"{fold} summary")
    screen.click(f"{fold} summary")
    assert screen.run(f"return document.querySelectorAll('{fold} table').length") == 1


@pytest.fixture(scope="module")
def many(folder: Path) -> Path:
    """As the report of a full sheet, with fewer sizes."""
    large.write(folder / "many.jsonl", curves=60, sizes=50)
    watched(page(Reading(Run.read(folder / "many.jsonl"))), folder / "many.html")
    return folder / "many.html"


def paths(at: Browser, figure: str) -> tuple[int, ...]:
    """Of lines, bands and points."""
    found = (
        at.run(f"return document.querySelectorAll('#plot-{figure} .scatterlayer .{kind}').length")
        for kind in ("js-line", "js-fill", "point")
    )
    return tuple(found)


def strokes_of(path: Path, figure: str, all_curves: bool = False) -> int:
    """How many strokes the rules of figures for print make of the curves."""
    data = data_of(path.read_text())
    found = 0
    for of in data["figures"][figure]["lines"]:
        if all_curves or data["curves"][of["curve"]]["first"]:
            places = range(len(of["x"]))
            wide, mute = (tuple(place in of[name] for place in places) for name in ("loose", "mute"))
            found += len(strokes(Line("", 0, 0, *(tuple(of["x"]),) * 4, wide, mute, joined=of["joined"])))
    return found


def loose(path: Path, figure: str) -> int:
    """How many points of the curves that are drawn at first have wide intervals."""
    data = data_of(path.read_text())
    of = [line for line in data["figures"][figure]["lines"] if data["curves"][line["curve"]]["first"]]
    return sum(len(line["loose"]) for line in of)


def test_of_many_curves_some_are_drawn_and_all_when_asked(window: Browser, many: Path) -> None:
    window.open(many, 1200)
    window.until(READY)
    far = "const far = (one) => one.getBoundingClientRect().top > innerHeight + 600;"
    drawn_far = "[...document.querySelectorAll('.plot:has(.main-svg)')].filter(far).length"
    assert window.run(f"{far} return {drawn_far}") == 0
    assert window.run(f"{far} return [...document.querySelectorAll('.plot')].filter(far).length") > 5
    assert window.run("return document.querySelectorAll('*').length") < 4000
    names = window.run("return document.querySelectorAll('#legend > button').length")
    assert names == MOST_FIRST == len(lines(window, "throughput"))
    # Its strokes and a band each, and the bound; no path for a point but the pale ones.
    wanted = strokes_of(many, "throughput") + 1, MOST_FIRST, loose(many, "throughput")
    assert paths(window, "throughput") == wanted
    assert window.run("return document.getElementById('crowded').hidden")
    window.click("#legend summary")
    window.click("#draw-all")
    assert len(lines(window, "throughput")) == 60
    assert paths(window, "throughput") == (strokes_of(many, "throughput", all_curves=True) + 1, 0, 0)
    assert "more than 24 curves" in window.run("return document.getElementById('crowded').textContent")
    assert not window.run("return document.getElementById('crowded').hidden")
    last = window.run("return [...document.querySelectorAll('#legend details button')].pop().dataset.curve")
    window.run("document.querySelector('#legend details > div').scrollTo(0, 1e6)")
    window.click(f"#legend button[data-curve='{last}']")
    assert len(lines(window, "throughput")) == 59
    window.click("#draw-all")
    assert len(lines(window, "throughput")) == MOST_FIRST
    assert window.run("return failed") == []


def test_of_a_curve_of_many_sizes_points_with_wide_intervals_alone_have_paths(
    window: Browser, folder: Path
) -> None:
    made = run(sizes=classic_sizes())
    watched(page(Reading(made)), folder / "loose.html")
    window.open(folder / "loose.html", 1200)
    window.until(READY)
    drawn(window, "latency")
    wanted = loose(folder / "loose.html", "latency")
    assert 0 < wanted < len(made.points) / 2
    assert paths(window, "latency")[2] == wanted


def test_where_no_scripts_run_the_tables_are_there(window: Browser, folder: Path) -> None:
    window.devtools("Emulation.setScriptExecutionDisabled", value=True)
    try:
        window.open(folder / "report.html", 1200)
        tables = "return document.querySelectorAll('#points details table').length"
        assert window.run(tables) == len({(point.variant, point.pattern) for point in MADE.points})
        assert window.run("return document.querySelectorAll('.main-svg').length") == 0
    finally:
        window.devtools("Emulation.setScriptExecutionDisabled", value=False)


# ------------------------------------------------------------------------------------- what opening costs, and names


MOST_NODES = (
    6000  # elements of a page at its beginning, whatever is in its folds; a folded table has a thousand
)
MOST_DRAWN = 5  # figures; the screen and what is next to it have four


@pytest.mark.parametrize("name", ["report", "many"])
def test_a_page_opens_with_little_to_make(window: Browser, folder: Path, many: Path, name: str) -> None:
    """Time depends on the machine, so this is the work: elements, and figures that are drawn before anybody scrolls."""
    assert many.parent == folder
    window.open(folder / f"{name}.html", 1200)
    window.until(READY)
    window.until(
        "return document.querySelector('.plot .main-svg') && [...document.querySelectorAll('.plot[aria-busy]')]"
        ".every((one) => !one.checkVisibility() || one.getBoundingClientRect().top > innerHeight)"
    )
    assert window.run("return document.querySelectorAll('*').length") <= MOST_NODES
    figures, here = window.run(
        "return ['.plot', '.plot:has(.main-svg)'].map((one) => document.querySelectorAll(one).length)"
    )
    assert here <= MOST_DRAWN < figures


NAMED = {"button", "combobox", "rowheader", "region", "link"}  # roles that say nothing without a name


def test_a_screen_reader_is_told_what_each_thing_is(screen: Browser) -> None:
    """As Chromium gives it to one: charts, tables and toggles have roles and names."""
    drawn(screen, "throughput")
    nodes = [one for one in screen.devtools("Accessibility.getFullAXTree")["nodes"] if not one["ignored"]]
    names: dict[str, list[str]] = {}
    for one in nodes:
        role = one.get("role", {}).get("value", "")
        names.setdefault(role, []).append(one.get("name", {}).get("value", ""))
    assert NAMED - {"link"} <= set(names)
    assert [role for role in NAMED if not all(names.get(role, []))] == []
    assert {"Curves shown", "How curves are drawn", "Distribution of times"} <= set(names["group"])
    assert {"waterfall", "rate"} <= set(names["columnheader"])
    charts = screen.run(
        "return [...document.querySelectorAll('.plot')].map((one) => [one.getAttribute('role'), one.ariaLabel || "
        "document.getElementById(one.getAttribute('aria-labelledby')).textContent])"
    )
    assert len(charts) == len(FIGURES)
    assert all(role == "group" and name.strip() for role, name in charts)
    bars = screen.run(
        "return [...document.querySelectorAll('.stack svg')].map((one) => [one.role, one.ariaLabel])"
    )
    assert bars
    assert all(role == "img" and label for role, label in bars)
    unnamed = "return [...document.querySelectorAll('table')].filter((one) => !one.ariaLabel && !one.caption).length"
    assert screen.run(unnamed) == 0


def test_toggles_say_their_state(screen: Browser) -> None:
    first = "#legend button"
    pressed = f"return document.querySelector('{first}').ariaPressed"
    before = screen.run(pressed)
    assert before in ("true", "false")
    screen.click(first)
    assert {before, screen.run(pressed)} == {"true", "false"}
    screen.click(first)
    assert screen.run("return document.getElementById('turn-axes').ariaPressed") == "false"
