# SPDX-License-Identifier: Apache-2.0
"""The report: one page that stands alone and shows whatever the run file holds as text."""

from __future__ import annotations

import base64
import gzip
import json
import math
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from browser import MISSING, browser, watched
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plotly.offline import get_plotlyjs
from profiled import made, profile_of
from synthetic import LAYERS, Layer, classic_sizes, pairs, patterned, point, run

from netpipe.cli import report
from netpipe.reading import Reading
from netpipe.reading.measures import typical_sizes
from netpipe.records import End, Error, Header, Histogram, Measure, Point, Promises, Run, Skipped, encode
from netpipe.render.drawing.scope import Scope
from netpipe.render.figures.distribution import MOST_BUCKETS, coarser
from netpipe.render.page import library, plots
from netpipe.render.page import page as page_module
from netpipe.render.page.block import SHARED, block, once
from netpipe.render.page.page import page
from netpipe.render.page.profile import page as profile_page
from netpipe.render.page.tables import MOST_POINTS, flattened, point_table, summary_table
from pages import HOSTILE, Page
from pages import whole as unpacked

SIZES = [1, 8, 64, 1024, 16384, 262144, 4194304]
LARGEST_BYTES = 2_000_000


def of(made: Run) -> Page:
    return Page(page(Reading(made)))


@pytest.fixture(scope="module")
def whole() -> str:
    return page(Reading(run(sizes=SIZES, moved=True, launches=2)))


def test_the_report_asks_nothing_of_any_network(whole: str) -> None:
    read = Page(whole)
    for tag, attributes in read.elements:
        assert tag not in ("link", "iframe", "object", "embed", "base", "form")
        for name in ("src", "href", "srcset", "action", "poster", "xlink:href"):
            target = attributes.get(name)
            assert target is None or target.startswith(("#", "data:")), (tag, name, target)
    policy = next(
        a["content"] for tag, a in read.elements if a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "http" not in policy
    styles = whole[whole.index("<style>") : whole.index("</style>")]
    assert "url(" not in styles
    assert "@import" not in styles


def test_the_answer_stands_before_all_else(whole: str) -> None:
    text = Page(whole).text
    order = (
        "tcp (TCP/IP) loses the most throughput of the layers that sleep: it keeps",
        "Trust these times to ±",
        "What each layer adds",
        "What to do first",
        "Remedy: ",
        "Plots",
        "Each layer in a sentence",
        "Other findings",
        "Every point",
    )
    places = [text.index(words) for words in order]
    assert places == sorted(places)
    for layer in LAYERS:
        assert layer.name in text


def test_of_several_patterns_the_stack_of_the_first_is_open() -> None:
    made = run(sizes=SIZES)
    made.points += [
        msgspec.structs.replace(p, pattern="stream", median_ns=p.median_ns * 0.6)
        for p in made.points
        if p.variant != "null"
    ]
    written = page(Reading(made))
    answer = written[written.index('id="answer"') : written.index('id="layers"')]
    assert answer.count("<details><summary>What each layer adds, stream</summary>") == 1
    assert "<summary>What each layer adds, pingpong" not in answer


def test_many_layers_are_a_number_and_few_are_named() -> None:
    assert "memcpy, shm, pipe, unix, tcp and tcp:wait=poll with pingpong" in of(run(sizes=[8, 64])).text
    more = Layer("udp", "unix", "UDP", 9_000, ((1e9, 3e9),))
    assert " 7 layers with pingpong" in of(run([*LAYERS, more], [8, 64])).text


def test_every_point_stands_in_the_tables(whole: str) -> None:
    made = run(sizes=SIZES, moved=True, launches=2)
    assert Page(whole).count("tr") > len(made.points)


def test_plots_and_tables_say_the_same() -> None:
    made = run(sizes=SIZES)
    data = of(made).data()
    assert [curve["label"] for curve in data["curves"]] == [
        layer.name for layer in LAYERS if layer.name != "null"
    ]
    assert set(data["figures"]) == {"throughput", "latency", "signature", "saturation", "loss"}
    tcp = next(c for c, curve in enumerate(data["curves"]) if curve["label"] == "tcp")
    line = next(line for line in data["figures"]["latency"]["lines"] if line["curve"] == tcp)
    at = next(p for p in made.points if p.variant == "tcp" and p.size_bytes == 1024)
    assert line["y"][line["size"].index(1024)] == pytest.approx(at.median_ns, rel=1e-4)


def test_what_speaks_against_the_numbers_is_said(whole: str) -> None:
    text = Page(whole).text
    assert "The machine changed during the run." in text
    assert "the cores moved apart: a cache-line bounce went from" in text.lower()
    assert "interval is within the target of ±1.0 %" in text
    assert "A virtual machine. The hypervisor moves its cores" in text
    assert "measure on the bare machine, or compare within one run only" in text
    assert "pipe and shm wait in different ways (block and hybrid)" in text


def test_defaults_and_settings_are_shown(whole: str) -> None:
    text = Page(whole).text
    for words in ("schedule.perturbation_bytes 3", "timeout_s 10", "cpu.model AMD EPYC", "netpipe run"):
        assert words in text


def test_what_a_layer_promises_is_among_its_settings() -> None:
    made = run(sizes=SIZES)
    promises = {
        "tcp": (Promises(), "every message arrives, in order; no message is empty"),
        "shm": (
            Promises(lossy=True, unordered=True, empty=True, max_message_bytes=4096, max_inline_bytes=220),
            "messages may be lost and overtake each other; at most 4 KiB; up to 220 B inside the request",
        ),
        "null": (
            Promises(delivers=False, empty=True, alignment_bytes=256),
            "nothing arrives anywhere; at multiples of 256 B",
        ),
    }
    for variant in made.variants:
        variant.promises, _ = promises.get(variant.variant, (None, ""))
    text = of(made).text
    for name, (_, words) in promises.items():
        assert f"{name} promises {words}" in text
    assert text.count(" promises ") == len(promises), "an older file says nothing"


# ------------------------------------------------------------------------------------------ what runs can be like


def test_a_run_with_errors_says_so_at_the_top() -> None:
    made = run(sizes=SIZES)
    made.errors.append(
        Error(
            variant="tcp", size_bytes=4096, rank=1, host="node18", code=4, message="rank 1: the peer has gone"
        )
    )
    made.skipped.append(Skipped(variant="shm", pattern="stream", reason="/dev/shm is not mounted"))
    for size in (12, 20):
        made.skipped.append(
            Skipped(variant="shm", pattern="scan", size_bytes=size, reason="no multiple of 8")
        )
    share = Measure(name="loss", unit="1", median=0.53)
    made.skipped.append(
        Skipped(variant="shm", pattern="stream", size_bytes=8, reason="lost", measures=[share])
    )
    text = of(made).text
    assert "shm scan 2 sizes from 12 B to 20 B no multiple of 8" in text
    assert "shm stream 8 B 53 % of the messages were lost, and no sample was whole" in text
    assert text.index("1 error") < text.index("Plots")
    for words in ("rank 1: the peer has gone", "node18", "/dev/shm is not mounted"):
        assert words in text


@pytest.mark.parametrize(
    ("end", "sentence"),
    [
        (
            End(exit=130, reason="interrupted", seconds=4.2),
            "The run was interrupted; what was measured until then is here.",
        ),
        (None, "The run is incomplete: interrupted, or still running."),
    ],
)
def test_a_run_that_was_cut_short_says_so(end: End | None, sentence: str) -> None:
    made = run(sizes=SIZES[:3])
    made.end = end
    assert sentence in of(made).text


def test_a_single_point_is_a_report() -> None:
    read = of(run(sizes=[8]))
    assert "27." in read.text
    assert "at the peak" not in read.text
    assert len(read.data()["figures"]) == 5


def test_an_imported_run_is_a_report() -> None:
    points = [
        Point(
            variant="np.out",
            pattern="pingpong",
            size_bytes=size,
            median_ns=3e4 + size,
            bytes_per_s=size / (3e4 + size) * 1e9,
        )
        for size in classic_sizes()
    ]
    read = of(Run([Header(schema=1, run="0" * 32), *points]))
    assert "No point has an interval:" in read.text
    assert "The run is incomplete: interrupted, or still running." not in read.text
    assert "typical ±" in read.text
    assert "loss" not in read.data()["figures"]


def test_a_run_without_points_is_a_report_without_plots() -> None:
    made = Run(
        [Header(schema=1, run="0" * 32, host="node17"), Error(code=3, message="nothing can be measured here")]
    )
    read = of(made)
    assert "nothing can be measured here" in read.text
    assert read.count("script") == 0


def test_several_patterns_and_launches_are_told_apart() -> None:
    made = run(sizes=SIZES, launches=3)
    made.points += [
        msgspec.structs.replace(p, pattern="stream", median_ns=p.median_ns * 0.6)
        for p in made.points
        if p.variant != "null"
    ]
    text = of(made).text
    assert "tcp, pingpong" in text
    assert "tcp, stream" in text
    assert "3 launches differ by" in text


# ---------------------------------------------------------------------------------------------- hostile text


def test_text_from_the_run_file_is_text() -> None:
    layers = [
        Layer(HOSTILE, None, HOSTILE, 100, ((1e9, 1e9),)),
        Layer("tcp", HOSTILE, HOSTILE, 200, ((1e9, 1e9),)),
    ]
    facts = {
        "cpu": {"model": HOSTILE, HOSTILE: HOSTILE},
        "spoilers": [{"what": HOSTILE, "why": HOSTILE, "fix": HOSTILE}],
    }
    made = run(layers, [8, 64], facts=facts)
    assert made.header is not None
    made.header.host = made.header.argv[0] = HOSTILE
    for opened in made.variants:
        opened.module = opened.variant
        opened.ranks[0].settings[HOSTILE] = HOSTILE
    made.errors.append(Error(variant=HOSTILE, host=HOSTILE, message=HOSTILE))
    made.skipped.append(Skipped(variant=HOSTILE, reason=HOSTILE))
    read = Page(page(Reading(made), title=HOSTILE))
    assert read.count("img") == 0
    assert read.count("script") == 4
    assert not [name for _, attributes in read.elements for name in attributes if name.startswith("on")]
    assert "<img src=x onerror=alert(1)>" in read.text
    assert "{{7*7}}" in read.text
    assert read.data()["curves"][0]["label"] == HOSTILE


@given(st.text(alphabet=st.sampled_from("<>&/!-\u2028\u2029'\"\\script]")))
def test_data_in_the_page_ends_no_script_and_reads_back(text: str) -> None:
    data = {"figures": {}, "panels": [], "yardsticks": [], text: text}
    written = block(data)
    assert re.fullmatch("[A-Za-z0-9+/]*=*", written)
    assert unpacked(written) == data


def test_numbers_that_several_figures_draw_stand_in_the_data_once() -> None:
    data = plots.plots(Scope((Reading(run(sizes=SIZES)),))).data
    packed = once(data)
    lines = [line for figure in packed["figures"].values() for line in figure["lines"]]
    there = sum(key in line for line in lines for key in SHARED)
    assert len({tuple(values) for values in packed["arrays"]}) == len(packed["arrays"]) < there / 2
    assert unpacked(block(data)) == json.loads(json.dumps(data))
    (sizes,) = {line["x"] for line in packed["figures"]["throughput"]["lines"]}
    assert sizes == packed["figures"]["latency"]["lines"][0]["size"], "sizes are exact"


# -------------------------------------------------------------------------------------------------- size


def test_where_there_is_no_room_for_all_distributions_those_of_typical_sizes_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = run(sizes=SIZES)
    whole = of(made).data()["histograms"][-1]
    monkeypatch.setattr(plots, "HISTOGRAM_BYTES", 1)
    few = of(made).data()["histograms"][-1]
    assert list(whole) == [str(size) for size in SIZES]
    assert list(few) == [str(size) for size in typical_sizes(SIZES)]
    assert len(few) < len(whole)


def test_the_points_of_a_run_that_is_not_large_are_in_the_page(
    whole: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = run(sizes=SIZES, moved=True, launches=2)
    scripts = {
        a["id"]: place
        for place, (_, a) in enumerate(e for e in Page(whole).elements if e[0] == "script")
        if "id" in a
    }
    text = gzip.decompress(base64.b64decode(Page(whole).scripts[scripts["points-csv"]])).decode()
    count = len(LAYERS) * len(SIZES)
    assert text.count("\n") == count + 1
    assert f"The download has the {count} points of the curves" in whole
    assert "single samples are in the run file alone" in whole
    monkeypatch.setattr(page_module, "MOST_DOWNLOADED", count - 1)
    large_one = page(Reading(made))
    assert 'id="points-csv"' not in large_one
    assert 'id="download"' not in large_one
    assert f"This page has no download of its {count} points" in large_one


@pytest.mark.deep
def test_the_report_of_a_large_run_can_still_be_mailed() -> None:
    shared = Histogram(
        resolution=0.01,
        low_ns=[1e4 * 1.01**k for k in range(600)],
        count=[10_000_000 + k for k in range(600)],
    )
    assert len(shared.count) > MOST_BUCKETS
    layers = [Layer(f"tcp:sndbuf={k}k", None, None, 2e4 + k, ((1e9, 3e9),)) for k in range(12)]
    made = run(layers, classic_sizes())
    for p in made.points:
        p.histogram = shared
    assert len(page(Reading(made)).encode()) < LARGEST_BYTES


@pytest.mark.deep
def test_a_very_large_run_says_which_points_its_tables_leave_out() -> None:
    layers = [Layer(f"tcp:sndbuf={k}k", None, None, 2e4 + k, ((1e9, 3e9),)) for k in range(6)]
    made = run(layers, classic_sizes(), launches=9)
    for p in made.points:
        p.histogram = None
    written = page(Reading(made))
    assert len(made.points) > MOST_POINTS
    assert len(written.encode()) < LARGEST_BYTES
    assert "only the sizes that are powers of two" in Page(written).text
    assert Page(written).count("tr") < MOST_POINTS


@given(
    st.dictionaries(st.integers(0, 2000), st.integers(1, 10**9), min_size=1, max_size=300),
    st.integers(2, 200),
)
def test_a_coarser_distribution_loses_no_operation(buckets: dict[int, int], most: int) -> None:
    edges = sorted(buckets)
    fine = Histogram(
        resolution=0.01, low_ns=[1.01**edge for edge in edges], count=[buckets[edge] for edge in edges]
    )
    low, count, factor = coarser(fine, most)
    assert sum(count) == sum(fine.count)
    assert len(low) <= most + 1
    assert list(low) == sorted(low)
    assert factor >= 1.01 * (1 - 1e-12)


@pytest.mark.filterwarnings("error")
def test_edges_that_are_no_times_are_left_out_of_a_distribution() -> None:
    odd = Histogram(resolution=0.01, low_ns=[100.0, math.inf, math.nan, -1.0, 200.0], count=[1, 2, 3, 4, 5])
    _, count, _ = coarser(odd, MOST_BUCKETS)
    assert sum(count) == 6


def test_columns_of_points_have_one_unit_and_as_many_decimals() -> None:
    made = Run([point("tcp", 8, 5_050.4), point("tcp", 8 << 20, 2_300_000.0)])
    table = point_table(Reading(made).curves[0])
    median = [column.name for column in table.columns].index("median")
    assert table.columns[median].unit == "µs"
    assert [row[median] for row in table.rows] == ["5.05", "2\u202f300.00"]


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_facts_become_lines(facts: Any) -> None:
    for name, text in flattened(facts):
        assert isinstance(name, str)
        assert isinstance(text, str)


# ------------------------------------------------------------------------------------------ what patterns say


@pytest.fixture(scope="module")
def of_patterns() -> Page:
    return of(patterned())


def panels(read: Page) -> dict[str, dict[str, Any]]:
    """Of each pattern and title; a title is that of a figure, behind the name of its section."""
    data = read.data()["panels"]
    assert [place for tag, place in read.elements if tag == "figure" and place.get("class") == "panel"]
    return {panel["title"]: panel for panel in data}


def test_where_layers_wait_in_different_ways_none_is_said_to_cost_most(of_patterns: Page, whole: str) -> None:
    assert "This run does not tell which layer costs most: no two that wait alike" in of_patterns.text
    assert "does not tell which layer" not in Page(whole).text


def test_every_measure_has_its_plot(of_patterns: Page) -> None:
    found = panels(of_patterns)
    overlap = found["overlap over message size"]["views"][0]
    assert [one["label"] for one in overlap["series"]] == ["shm", "tcp"]
    assert not overlap["y"]["log"], "a ratio stands on a linear axis"
    assert found["computed over message size"]["views"][0]["y"]["log"]
    one = overlap["series"][0]
    assert one["low"][2] < one["y"][2] < one["high"][2]
    assert "unknown over message size" not in found
    assert "clock_error over message size" not in found, "nothing at every size"


def test_settings_lie_over_each_other_and_numbers_have_an_axis(of_patterns: Page) -> None:
    found = panels(of_patterns)
    throughput = found["Throughput by in_flight"]["views"]
    assert [view["label"] for view in throughput] == ["shm", "tcp"]
    assert [one["label"] for one in throughput[0]["series"]] == [f"in_flight={n}" for n in (1, 4, 16, 64)]
    offsets = found["Time over send_offset"]["views"]
    assert [view["label"] for view in offsets] == ["8 B", "1 KiB", "64 KiB", "1 MiB"]
    assert offsets[0]["series"][0]["x"] == list(range(0, 65, 8))
    ratios = found["The same, relative to send_offset=0"]["views"][1]["series"][0]["y"]
    assert ratios[0] == 1
    assert ratios[1] == pytest.approx(1.12, rel=0.03)
    assert any(one["faint"] for one in found["Time over rate"]["views"][0]["series"]), "p99 beside the median"


def test_ranks_and_pairs_are_maps(of_patterns: Page) -> None:
    found = panels(of_patterns)
    pairs_of = found["Each pair over the median of all"]["views"][0]
    assert pairs_of["z"][0][3] == pairs_of["z"][3][0] == pytest.approx(1.39, rel=0.01)
    assert all(pairs_of["z"][rank][rank] is None for rank in range(4))
    assert "the slowest in 87 %" in pairs_of["text"][0][3]
    ranks_of = found["Each rank over the median of all"]["views"][0]
    assert ranks_of["z"][3][0] == pytest.approx(1.39, rel=0.01)
    assert "rank 3 was the slowest of 4 ranks in 87 % of the operations at 8 B" in of_patterns.text


def test_modes_and_percentiles_are_with_the_distribution(of_patterns: Page) -> None:
    data = of_patterns.data()
    place = [curve["label"] for curve in data["curves"]].index("shm, offered:rate=90")
    shown = data["histograms"][place]["8"]
    assert [name for name, _ in shown["marks"]] == ["median", "p90", "p99", "p99.9", "p99.99"]
    assert len(shown["modes"]) == 2
    assert shown["what"] == "operations"
    window = [curve["label"] for curve in data["curves"]].index("shm, window")
    assert data["histograms"][window]["8"]["what"] == "batches of 128 operations"


def test_a_pattern_without_a_rate_is_drawn_over_time_alone(of_patterns: Page) -> None:
    data = of_patterns.data()
    overhead = [curve["label"] for curve in data["curves"]].index("shm, overhead")
    assert any(line["curve"] == overhead for line in data["figures"]["latency"]["lines"])
    assert not any(line["curve"] == overhead for line in data["figures"]["throughput"]["lines"])


def test_many_ranks_and_many_settings_stay_small() -> None:
    made = run(LAYERS[2:3], classic_sizes())
    for one in made.points:
        one.cells = pairs(40, one.median_ns, 7)
    assert len(page(Reading(made))) < LARGEST_BYTES


# ---------------------------------------------------------------------------------------- the command, the browser


def test_the_report_stands_beside_its_run(tmp_path: Path) -> None:
    made = run(sizes=[8, 64])
    assert made.header is not None
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"".join(map(encode, [made.header, *made.plans, *made.variants, *made.points])))
    done = CliRunner().invoke(report.command, [str(path)])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "run.html").read_text().startswith("<!doctype html>")


DRAWN = "return [...document.querySelectorAll('.plot')].every((e) => e.querySelector('.main-svg'))"
PROBE = """
const root = document.documentElement;
const wide = [...document.querySelectorAll(".plot, table, h1, p")].filter((e) =>
  !e.closest(".scroll") && e.getBoundingClientRect().right > root.clientWidth + 1);
const seen = (of) => [...document.querySelectorAll(of)].filter((e) => e.getBoundingClientRect().width > 0).length;
return {
  scroll: root.scrollWidth, client: root.clientWidth, wide: wide.length, errors: window.failed || [],
  drawn: [...document.querySelectorAll(".plot")].filter((e) => e.querySelector(".main-svg")).length,
  paths: document.querySelectorAll(".scatterlayer .trace path").length,
  bars: seen(".track i, .map .cells rect, .ranks path"), lines: seen(".chart .line"),
};"""


@pytest.mark.deep
def test_limits_are_in_the_unit_of_the_time_beside_them() -> None:
    """999.7 ns are shown as 1.00 µs."""
    (row,) = summary_table(Reading(Run([point("tcp", 8, 999.7, 0.01)])), several_patterns=False).rows
    assert row[1:3] == ("1.00 µs", "0.990 – 1.01")


@pytest.mark.skipif(MISSING is not None, reason=MISSING or "")
@pytest.mark.parametrize("width", [390, pytest.param(1400, marks=pytest.mark.deep)])
def test_in_a_browser_it_draws_and_the_page_does_not_scroll_sideways(
    whole: str, width: int, tmp_path: Path
) -> None:
    found = in_a_browser(whole, width, tmp_path)
    assert found["errors"] == []
    assert found["scroll"] <= found["client"]
    assert found["wide"] == 0
    assert found["drawn"] == 7  # five figures, the distribution, the yardsticks
    assert found["paths"] > 30


def test_of_the_library_a_page_carries_what_it_draws_with() -> None:
    whole = get_plotlyjs()
    small = library.reduced(whole)
    assert len(small) < len(whole) / 3
    assert small.startswith(whole[:400])  # whose it is, and its licence
    assert all(kind not in small for kind in ('name:"pie"', 'name:"sankey"', 'name:"scatter3d"'))
    assert gzip.decompress(base64.b64decode(library.compressed())).decode() == small


def test_a_library_that_is_built_in_another_way_is_taken_whole() -> None:
    for other in ("var Plotly = {};", get_plotlyjs().replace('name:"heatmap"', 'name:"heat"')):
        assert library.reduced(other) == other


def in_a_browser(whole: str, width: int, tmp_path: Path, height: int = 12_000) -> dict[str, Any]:
    """What a browser made of the page, all of which is seen: figures are drawn where they are."""
    written = tmp_path / "page.html"
    watched(whole, written)
    with browser(tmp_path) as window:
        window.open(written, width, height)
        window.until(DRAWN)
        found: dict[str, Any] = window.run(PROBE)
    return found


@pytest.mark.deep
@pytest.mark.skipif(MISSING is not None, reason=MISSING or "")
def test_in_a_browser_the_panels_are_drawn(of_patterns: Page, tmp_path: Path) -> None:
    found = in_a_browser(page(Reading(patterned())), 1200, tmp_path, height=20_000)
    assert found["errors"] == []
    assert found["wide"] == 0
    assert found["drawn"] == 7 + len(of_patterns.data()["panels"])


@pytest.mark.skipif(MISSING is not None, reason=MISSING or "")
@pytest.mark.parametrize(
    ("ranks", "bars"),
    # The calls, the ranks and their parts, two sizes twice, two matrices; 40 ranks stand side by side.
    [
        (4, 2 + 4 * 4 + 2 * 2 * 2 + 2 * 16),
        pytest.param(40, 2 + 4 + 2 * 2 * 2 + 2 * 1600, marks=pytest.mark.deep),
    ],
)
@pytest.mark.parametrize("width", [390, 1280])
def test_in_a_browser_a_profile_is_drawn_and_does_not_scroll_sideways(
    ranks: int, bars: int, width: int, tmp_path: Path
) -> None:
    rows = [
        made(call, size, 9, peer) for call in ("Send", "Irecv") for size in (8, 4096) for peer in range(ranks)
    ]
    found = in_a_browser(profile_page(profile_of(*[rows] * ranks)), width, tmp_path)
    assert found["scroll"] <= found["client"]
    assert found["wide"] == 0
    assert found["bars"] == bars
