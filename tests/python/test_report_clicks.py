# SPDX-License-Identifier: Apache-2.0
"""The report in a browser, by real clicks and keys, at the width of a screen and of a telephone."""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import ENTER, MISSING, SPACE, TAB, Browser, browser
from synthetic import run

from netpipe.reading import Reading
from netpipe.render.page.page import page

pytestmark = [
    pytest.mark.deep,
    pytest.mark.skipif(MISSING is not None, reason=MISSING or ""),
    pytest.mark.xdist_group("browser"),
]
SIZES = [1, 8, 64, 1024, 16384, 262144, 4194304]
MADE = run(sizes=SIZES, launches=2)
DRAWN = "return [...document.querySelectorAll('#plots .plot')].every((one) => one.querySelector('.main-svg'))"
LINES = """const host = document.getElementById("plot-" + arguments[0]);
const shown = host.data.filter((one) => one.customdata && one.visible !== false);
return shown.map((one) => ({ y: one.y, text: one.text[0] }));"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("page")
    whole = page(Reading(MADE)).replace(
        "<style>",
        "<script>window.failed = []; onerror = (what) => { failed.push(String(what)); };"
        "addEventListener('unhandledrejection', (event) => failed.push(String(event.reason)));</script><style>",
        1,
    )
    (made / "report.html").write_text(whole)
    return made


@pytest.fixture(scope="module")
def window(folder: Path) -> Iterator[Browser]:
    with browser(folder) as made:
        yield made


def opened(window: Browser, folder: Path, width: int, dark: bool) -> Iterator[Browser]:
    """The page, freshly opened; nothing may have failed in it at the end."""
    begin = time.monotonic()
    window.open(folder / "report.html", width, dark=dark)
    window.until(DRAWN)
    print(f"open and drawn at {width} px in {time.monotonic() - begin:.2f} s")
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


def lines(at: Browser, figure: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = at.run(LINES, figure)
    return found


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
    types = (
        "return ['throughput', 'latency', 'loss'].map("
        "(name) => document.getElementById('plot-' + name).layout.yaxis.type)"
    )
    before = screen.run(types)
    assert before[:2] == ["log", "log"]
    screen.click("#turn-axes")
    assert screen.run(types) == ["linear", "linear", before[2]]
    texts = screen.run(
        "return [...document.querySelectorAll('#plot-latency .ytick text')].map((one) => one.textContent)"
    )
    assert len(texts) >= 3
    assert texts[0] == "0"
    screen.click("#turn-axes")
    assert screen.run(types) == before


def test_curves_are_drawn_over_a_baseline(screen: Browser) -> None:
    labels = screen.run(
        "return [...document.getElementById('choose-baseline').options].map((one) => one.text)"
    )
    assert labels[0] == "none"
    assert "tcp" in labels
    place = labels.index("tcp") + 1
    absolute = {str(line["text"]).partition("</b>")[0]: line["y"] for line in lines(screen, "latency")}
    screen.click(f"#choose-baseline option:nth-child({place})")
    assert (
        screen.run("return document.querySelector('#caption-latency span').textContent") == "over that of tcp"
    )
    ratios = {str(line["text"]).partition("</b>")[0]: line["y"] for line in lines(screen, "latency")}
    assert ratios.keys() == absolute.keys()
    assert ratios["<b>tcp"] == [1.0] * len(SIZES)
    own, base = absolute["<b>shm"], absolute["<b>tcp"]
    assert isinstance(own, list)
    assert isinstance(base, list)
    assert ratios["<b>shm"] == pytest.approx([a / b for a, b in zip(own, base, strict=True)])
    screen.click("#choose-baseline option:first-child")
    again = {str(line["text"]).partition("</b>")[0]: line["y"] for line in lines(screen, "latency")}
    assert again == absolute


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
    assert len(rows) == len(MADE.points)
    assert {row["variant"] for row in rows} == {point.variant for point in MADE.points}
    assert float(rows[3]["median_ns"]) == pytest.approx(MADE.points[3].median_ns)
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
        window.until(DRAWN)
        found.append(
            window.run(
                "return [getComputedStyle(document.body).backgroundColor,"
                " document.getElementById('plot-latency').data.find((one) => one.customdata).line.color]"
            )
        )
    assert found[0][0] != found[1][0]
    assert found[0][1] != found[1][1]
