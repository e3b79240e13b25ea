# SPDX-License-Identifier: Apache-2.0
"""The page of application kernels: it stands alone, says which library is fastest only where that is known, and shows
whatever the file holds as text.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser import MISSING
from test_application_hosts import MEASURED
from test_kernel_table import MPICH, OPENMPI, result
from test_report import in_a_browser

from netpipe.kernels.lines import Applications, Check, End, Header, Result, encode
from netpipe.kernels.table import rows
from netpipe.render.drawing.picture import Axis, Bound, Line, Picture
from netpipe.render.page.programs.apps import answers, page
from netpipe.render.page.programs.chart import HIGH, WIDE, chart
from pages import HOSTILE, Page

if TYPE_CHECKING:
    from conftest import Netpipe


def launches(seconds: float, variant: str, ranks: int, **more: Any) -> list[Result]:
    return [
        result(seconds * (1 + launch / 1000), variant, ranks, launch=launch + 1, **more)
        for launch in range(6)
    ]


FASTER = [
    *launches(4.0, OPENMPI, 2),
    *launches(2.0, OPENMPI, 4),
    *launches(4.1, MPICH, 2),
    *launches(3.0, MPICH, 4),
]


def of(results: list[Result], ended: bool = True, **header: Any) -> Page:
    return Page(text_of(results, ended, **header))


def text_of(results: list[Result], ended: bool = True, **header: Any) -> str:
    return page(Applications(Header(schema=1, **header), results, End(wall_s=9.0) if ended else None))


# ---------------------------------------------------------------------------------------------------------- content


def test_the_page_asks_nothing_of_any_network_and_has_no_scripts() -> None:
    read = of(FASTER)
    policy = next(
        dict(attributes)["content"]
        for name, attributes in read.elements
        if name == "meta" and "http-equiv" in dict(attributes)
    )
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert read.scripts == []
    assert not any(name in ("link", "img", "iframe") for name, _ in read.elements)


def test_the_fastest_is_named_with_how_far_the_next_one_is_behind() -> None:
    assert list(answers(rows(FASTER))) == [
        f"cg A on 4 ranks: {OPENMPI} is the fastest with 2.00 [2.00 2.01] s; {MPICH} takes 1.50 times as long."
    ]


def test_none_is_called_the_fastest_where_that_is_not_known() -> None:
    near = [*launches(2.0, OPENMPI, 4), *launches(2.001, MPICH, 4)]
    (said,) = answers(rows(near))
    assert said.startswith("cg A on 4 ranks: undecided which is the fastest")
    (said,) = answers(rows([result(2.0), result(1.0, MPICH)]))
    assert "undecided" in said


def test_one_library_alone_is_no_ranking() -> None:
    assert list(answers(rows([result(2.0)]))) == [f"cg A takes 2.00 s on 2 ranks over {OPENMPI}."]
    assert list(answers(rows([result(None, problem_text="it crashed")]))) == ["cg A has no result."]


def test_the_mapping_is_in_answer_table_figures_and_runs() -> None:
    text = of(MEASURED, hosts=["a", "b"]).text
    assert f"{OPENMPI}, block, is the fastest" in text
    assert "mapping" in text
    assert "n1 n2 n1 n2" in text, "the hosts of the ranks of a run"
    assert "cg A on a and b" in text
    assert of(FASTER).text.find("mapping") < 0


def test_there_is_a_chart_for_each_kernel_with_an_interval_and_the_ideal() -> None:
    two = [*FASTER, *(Result(**{**as_fields(one), "name": "mg"}) for one in FASTER)]
    text = text_of(two)
    assert text.count('<svg class="chart"') == 4, "speed-ups and times of two kernels"
    assert text.count('class="band c0"') == 4
    assert "in proportion" in text
    assert text.count("Band: 95 % interval of the median.") == 2, "once for each kind of figure"


def as_fields(one: Result) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__struct_fields__}


def test_without_two_numbers_of_ranks_there_is_no_speed_up() -> None:
    text = of(launches(1.0, OPENMPI, 2)).text
    assert "Speed-up of kernels over the number" not in text
    assert "Times of kernels over the number" in text


def test_what_went_wrong_stands_at_the_top_and_in_the_verification() -> None:
    wrong = result(
        None,
        checks=[Check(what="zeta", found=8.25, expected=8.5, tolerance=1e-10)],
        problem_text="its result is wrong: zeta is 8.25 and should be 8.5",
    )
    read = of([*launches(1.0, OPENMPI, 2), wrong])
    assert "6 of 7 runs matched the published values" in read.text
    assert "in 1 of 7 launches: its result is wrong" in read.text
    assert "Values that differ from the published ones" in read.text
    assert "8.25 8.5 1e-10" in read.text
    assert "Values that differ" not in of(FASTER).text
    assert "Every run matched the published values." in of(FASTER).text


def test_a_session_that_did_not_end_says_so() -> None:
    assert "did not end" in of(FASTER, ended=False).text
    assert "did not end" not in of(FASTER).text


def test_a_file_without_results_is_a_page() -> None:
    read = of([])
    assert "No kernel" in read.text
    assert read.count("table") == 0


def test_foreign_text_is_text() -> None:
    bad = result(1.0, HOSTILE, places=[HOSTILE], mapping="block", size=HOSTILE, problem_text=HOSTILE)
    read = of([bad], command=[HOSTILE], libraries={HOSTILE: HOSTILE}, host=HOSTILE)
    assert read.scripts == []
    assert read.count("img") == 0
    assert "onerror=alert(1)" in read.text


# ------------------------------------------------------------------------------------------------------------ charts


def picture(**changes: Any) -> Picture:
    line = Line("a", 0, 0, (2.0, 4.0), (1.0, 3.0), (0.9, 2.9), (1.1, 3.1), loose=(False, True))
    axes = {
        "x": Axis("number", "processes", False, 1.0, 5.0),
        "y": Axis("number", "speed-up", False, 0.0, 4.0),
    }
    bounds = (Bound("ideal", "kept", (2.0, 4.0, 9.0), (1.0, 2.0, 4.5)),)
    return Picture("", **{**axes, "lines": (line,), "bounds": bounds, **changes})


def places(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"(-?[\d.]+) (-?[\d.]+)", path)]


def test_a_line_rises_and_stays_inside_its_drawing() -> None:
    drawn = str(chart(picture(), "A").drawing)
    (path,) = re.findall(r'<path class="line c0 pale" d="([^"]+)"', drawn)
    (left, low), (right, high) = places(path)
    assert left < right
    assert high < low, "a larger value is higher up"
    for x, y in places(" ".join(re.findall(r' d="([^"]+)"', drawn))):
        assert 0 <= x <= WIDE
        assert 0 <= y <= HIGH
    assert drawn.count('class="c0 pale"') == 1
    assert drawn.count('class="bound"') == 1


def test_a_logarithmic_axis_has_octaves_evenly() -> None:
    line = Line("a", 0, 0, (1.0, 2.0, 4.0), (1.0, 1.0, 1.0), (1.0, 1.0, 1.0), (1.0, 1.0, 1.0))
    x = Axis("number", "factor", True, 0.5, 8.0)
    found = chart(picture(x=x, lines=(line,), bounds=()), "A")
    (path,) = re.findall(r'<path class="line c0" d="([^"]+)"', str(found.drawing))
    first, second, third = [x for x, _ in places(path)]
    assert second - first == pytest.approx(third - second, abs=0.11)
    assert found.note == "", "no interval, no band"
    assert 'class="band' not in str(found.drawing)


def test_lines_of_one_colour_differ_by_their_dashes() -> None:
    lines = tuple(Line(str(dash), 1, dash, (2.0, 4.0), (1.0, 3.0), (1.0, 3.0), (1.0, 3.0)) for dash in (0, 1))
    found = chart(picture(lines=lines), "A")
    samples = [str(sample) for sample, _ in found.legend]
    assert "stroke-dasharray" not in samples[0]
    assert "stroke-dasharray" in samples[1]
    assert [name for _, name in found.legend] == ["0", "1", "ideal"]


@pytest.mark.skipif(MISSING is not None, reason=MISSING or "")
@pytest.mark.parametrize("width", [390, 1280])
def test_in_a_browser_the_page_does_not_scroll_sideways(width: int, tmp_path: Path) -> None:
    found = in_a_browser(text_of([*FASTER, *MEASURED], hosts=["a", "b"]), width, tmp_path)
    assert found["errors"] == []
    assert found["scroll"] <= found["client"]
    assert found["wide"] == 0
    assert found["lines"] == 2 + 2, "one number of ranks alone is a point"


# ---------------------------------------------------------------------------------------------------------- commands


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "apps.jsonl"
    path.write_bytes(b"".join(map(encode, [Header(schema=1, host="node1"), *FASTER, End(wall_s=3.0)])))
    return path


def test_report_knows_results_of_kernels(netpipe: Netpipe, saved: Path) -> None:
    said = netpipe("report", str(saved), "--title", "Mine")
    assert (said.code, said.out) == (0, "")
    text = saved.with_suffix(".html").read_text()
    assert "<h1>Mine</h1>" in text
    assert "apps.jsonl" in text


def test_results_of_kernels_are_reported_alone_and_kept(netpipe: Netpipe, saved: Path) -> None:
    kept = saved.read_bytes()
    for words, says in (
        (("report", saved, saved), "which have a page of their own; leave the others out"),
        (("report", saved, "-o", saved), "is not overwritten; choose another name"),
    ):
        said = netpipe(*map(str, words))
        assert said.code == 2
        assert says in said.err
    assert saved.read_bytes() == kept
