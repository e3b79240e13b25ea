# SPDX-License-Identifier: Apache-2.0
"""What collective operations cost in messages of the same library, on made-up runs whose truth is known."""

from __future__ import annotations

import io
import json
import math
import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest
from rich.console import Console
from synthetic import mode

from netpipe.cli.show import to_json
from netpipe.findings import examples
from netpipe.reading import Reading
from netpipe.reading.blocks.collectives import LEAST_VOLUMES, CollectiveSize, least
from netpipe.reading.estimate import Estimate, unsure
from netpipe.reading.explained.decision import InStates
from netpipe.records import PlannedMode, PlannedVariant, Rank, Run, Visits
from netpipe.render import figures
from netpipe.render.collectives import furthest_sentences, messages_text, over_text
from netpipe.render.drawing.picture import Bars, NothingToDraw
from netpipe.render.drawing.scope import Scope
from netpipe.render.page.collectives import MOST_ROWS, collective_rows
from netpipe.render.page.page import page
from netpipe.render.terminal.collectives import print_collectives
from netpipe.render.terminal.summary import print_summary
from netpipe.units import UNKNOWN
from pages import Page

SIZES = (1, 8, 64, 4096, 1 << 20)
HEADER = Path(__file__).resolve().parents[2] / "src" / "patterns" / "kit" / "collective_bytes.h"

Factors = Mapping[str, float | Callable[[int], float]]  # pattern -> how many times as long as a message


def message_ns(size: int) -> float:
    return 1000.0 + size / 4


def modes(patterns: Mapping[str, object]) -> list[PlannedMode]:
    defaults = {"pingpong": {"buffers": "warm"}, "collective": {"what": "allreduce", "counts": "even"}}
    return [mode(one, **{"buffers": "warm", **defaults[one.partition(":")[0]]}) for one in patterns]


def made(
    factors: Mapping[str, Factors] | Factors,
    ranks: int = 4,
    noise: float = 0.01,
    launches: int = 4,
    apart: tuple[str, ...] = (),
    sizes: tuple[int, ...] = SIZES,
) -> Run:
    """Variants with their patterns, in blocks; the machine has another pace in each launch and block. Patterns that are
    `apart` were measured in blocks of their own. A barrier has the first size alone.
    """
    of: dict[str, Factors] = (
        dict(factors)  # type: ignore[arg-type]
        if all(isinstance(one, Mapping) for one in factors.values())
        else {"mpi@x": factors}
    )
    source = random.Random(1)
    records = []
    for launch in range(launches):
        pace = math.exp(source.gauss(0, 0.2))
        for number, size in enumerate(sizes):
            blocks = [pace * math.exp(source.gauss(0, 0.2)) for _ in range(8)]
            for variant, patterns in of.items():
                for pattern, factor in patterns.items():
                    if "barrier" in pattern and size != sizes[0]:
                        continue
                    times = factor(size) if callable(factor) else factor
                    medians = [
                        message_ns(size) * times * one * math.exp(source.gauss(0, noise)) for one in blocks
                    ]
                    own = 10_000 if pattern in apart else 0
                    visits = Visits(
                        block=[number + 100 * place + own for place in range(8)],
                        at_s=[number / 100 + place for place in range(8)],
                        state=[0] * 8,
                        samples=[9] * 8,
                        median_ns=medians,
                    )
                    point = examples.point(variant, size, sorted(medians)[4], launch=launch, pattern=pattern)
                    records.append(msgspec.structs.replace(point, visits=visits))
    run = examples.run(*records, variants=tuple(of))
    patterns = dict.fromkeys(pattern for one in of.values() for pattern in one)
    for plan in run.plans:
        plan.patterns = list(patterns)
        plan.modes = modes(patterns)
    for opened in run.variants:
        opened.ranks = [Rank(rank=rank, host="a") for rank in range(ranks)]
    return run


ALLREDUCE: Factors = {"pingpong": 1, "collective": 3.7}
SEVERAL: Factors = {
    "pingpong": 1,
    "collective": 3.7,
    "collective:what=bcast": lambda size: 2.5 if size <= 64 else 1.6,
    "collective:what=barrier": 5,
}


def only_size(reading: Reading) -> CollectiveSize:
    (of,) = reading.collectives
    (operation,) = of.each
    assert operation.small is not None
    return operation.small


def test_an_operation_is_held_against_messages_within_blocks() -> None:
    (of,) = Reading(made(ALLREDUCE)).collectives
    assert (of.variant, of.ranks, of.message, of.small_bytes, of.large_bytes) == (
        "mpi@x", 4, "pingpong", 8, 1 << 20,
    )  # fmt: skip
    (operation,) = of.each
    assert (operation.pattern, operation.operation) == ("collective", "allreduce")
    assert [size.size_bytes for size in operation.sizes] == list(SIZES)
    for size in operation.sizes:
        assert size.messages.value == pytest.approx(3.7, rel=0.03)
        assert size.messages.half_width < 0.03, "the pace of the machine, which wanders by 20 %, cancels"
        assert size.time_ns.half_width > 0.1
    assert operation.small in operation.sizes
    assert operation.large in operation.sizes
    assert of.small_ns is not None
    assert of.large_ns is not None
    assert of.small_ns.covers(message_ns(8))
    assert of.large_ns.covers(message_ns(1 << 20))


def test_the_least_number_of_messages_is_of_rounds_for_small_ones_and_of_bytes_for_large_ones() -> None:
    ((operation,),) = (of.each for of in Reading(made(ALLREDUCE)).collectives)
    of = {size.size_bytes: size.least for size in operation.sizes}
    assert (of[1], of[8], of[64]) == (2, 2, 2)
    assert of[4096] == pytest.approx(2 * message_ns(8) / message_ns(4096), rel=0.2), (
        "half of the time is its bytes"
    )
    assert of[1 << 20] == pytest.approx(1.5, rel=0.01)
    (small, large) = operation.small, operation.large
    assert small is not None
    assert large is not None
    for size, truth in ((small, 3.7 / 2), (large, 3.7 / 1.5)):
        over = size.over_least
        assert over is not None
        assert over.value == pytest.approx(truth, rel=0.03)
        assert over.low < over.value < over.high


@pytest.mark.parametrize(
    ("operation", "ranks", "small", "large"),
    [
        ("barrier", 2, 1, 0),
        ("barrier", 5, 3, 0),
        ("bcast", 4, 2, 1),
        ("reduce", 9, 4, 1),
        ("exscan", 3, 2, 1),
        ("allreduce", 2, 1, 1),
        ("allreduce", 8, 3, 1.75),
        ("allgather", 8, 3, 7),
        ("reduce_scatter_block", 3, 2, 2),
        ("alltoallw", 16, 4, 15),
        ("gather", 1024, 10, 1023),
    ],
)
def test_the_bounds_are_those_of_the_textbook(operation: str, ranks: int, small: float, large: float) -> None:
    assert least(operation, ranks, 1.0) == small
    assert least(operation, ranks, 1e-9) == pytest.approx(large, rel=1e-6, abs=1e-6)
    assert least(operation, ranks, 0.25) == pytest.approx(max(small / 4, large * 3 / 4))


def test_every_operation_has_a_bound_but_those_among_neighbours() -> None:
    (listed,) = re.findall(r"constexpr const char\* names =[^;]*;", HEADER.read_text(encoding="utf-8"))
    names = set("".join(re.findall(r'"([^"]*)"', listed)).split("|"))
    assert set(LEAST_VOLUMES) == {name for name in names if not name.startswith("neighbor_")}
    assert least("neighbor_alltoall", 4, 1.0) is None


@pytest.mark.parametrize(
    "pattern", ["collective:what=neighbor_alltoall", "collective:what=alltoallv,counts=last"]
)
def test_without_a_known_bound_nothing_is_said_of_one(pattern: str) -> None:
    reading = Reading(made({"pingpong": 1, pattern: 6}))
    size = only_size(reading)
    assert (size.least, size.over_least) == (None, None)
    assert size.messages.value == pytest.approx(6, rel=0.03)
    assert furthest_sentences(reading.collectives) == ()
    rows = collective_rows(reading.collectives, lambda _: True)
    assert rows is not None
    assert (rows["rows"][1]["adds_least"], over_text(size)) == ("", UNKNOWN)


def test_without_a_small_message_nobody_knows_what_rounds_take() -> None:
    (of,) = Reading(made(ALLREDUCE, sizes=(1024, 1 << 20))).collectives
    assert of.small_bytes is None
    assert [size.least for size in of.each[0].sizes] == [None, None]


@pytest.mark.parametrize(
    "run",
    [
        made({"collective": 3.7}),
        made({"pingpong": 1}),
        made(ALLREDUCE, apart=("collective",)),
        made(ALLREDUCE, ranks=0),  # an older file, or an imported one
        made({"pingpong": 1, "collective:what=barrier": 5}, sizes=(1024, 4096)),  # beside no small message
        Run(),
    ],
    ids=["no messages", "no operations", "no block in common", "no ranks", "a barrier", "nothing"],
)
def test_what_cannot_be_compared_has_no_such_step(run: Run) -> None:
    assert Reading(run).collectives == ()
    assert collective_rows(Reading(run).collectives, lambda _: True) is None


def test_a_variant_beside_itself_and_one_that_is_too_fast_have_no_such_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = made({"mpi@x": ALLREDUCE, "mpi@x#2": ALLREDUCE})
    for plan in run.plans:
        plan.variants[1] = PlannedVariant(variant="mpi@x#2", module="mpi@x", copy_of="mpi@x")
    assert [of.variant for of in Reading(run).collectives] == ["mpi@x"]
    reading = Reading(made(ALLREDUCE))
    monkeypatch.setitem(reading.__dict__, "too_fast", [examples.point("mpi@x", 8, 1.0, pattern="collective")])
    assert reading.collectives == ()


def test_a_size_that_was_not_visited_in_the_state_of_its_curve_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading = Reading(made(ALLREDUCE))
    state = InStates("mpi@x", "pingpong", "bounce_ns", 54.0, 0.9, (), (8, 4096))
    monkeypatch.setitem(reading.__dict__, "too_fast", ())
    monkeypatch.setitem(reading.__dict__, "in_states", {("mpi@x", "pingpong"): state})
    (of,) = reading.collectives
    assert [size.size_bytes for size in of.each[0].sizes] == [1, 64, 1 << 20]


def test_operations_and_libraries_stand_in_the_order_of_the_plan_at_common_sizes() -> None:
    reading = Reading(made({"mpi@x": SEVERAL, "mpi@y": ALLREDUCE}))
    assert [(of.variant, [one.operation for one in of.each]) for of in reading.collectives] == [
        ("mpi@x", ["allreduce", "bcast", "barrier"]),
        ("mpi@y", ["allreduce"]),
    ]
    assert {(of.small_bytes, of.large_bytes) for of in reading.collectives} == {(8, 1 << 20)}
    barrier = reading.collectives[0].each[2]
    assert barrier.large is None
    assert barrier.small is not None
    assert barrier.small.size_bytes == SIZES[0]
    assert barrier.small.messages.value == pytest.approx(5, rel=0.03)


def test_an_operation_is_held_against_messages_from_the_same_buffers() -> None:
    run = made(
        {
            "pingpong:buffers=cold": 4,
            "pingpong": 1,
            "collective": 3.7,
            "collective:buffers=cold": 8,
            "collective:what=bcast,rotate=yes": 2,
        }
    )
    warm, cold = Reading(run).collectives
    assert (cold.message, [one.operation for one in cold.each]) == (
        "pingpong:buffers=cold",
        ["allreduce, buffers=cold"],
    )
    assert (warm.message, [one.operation for one in warm.each]) == (
        "pingpong",
        ["allreduce", "bcast, rotate=yes"],
    )
    assert cold.each[0].sizes[0].messages.value == pytest.approx(2, rel=0.03)


def test_a_bar_ends_at_the_time_of_the_operation_and_is_as_long_as_what_it_adds() -> None:
    for times in (3.7, 0.5):
        size = only_size(Reading(made({"pingpong": 1, "collective": times})))
        bar = size.bar_ns
        assert bar.end == size.time_ns.value
        assert bar.begin == pytest.approx(bar.end / size.messages.value)
        assert 0 <= bar.low < bar.begin < bar.high
    wild = CollectiveSize(8, unsure(1000.0), Estimate(2.0, 1e-300, 1e300), 2.0)
    assert (wild.bar_ns.low, wild.bar_ns.high) == (0, 1500.0)


# ------------------------------------------------------------------------------------------------------- what is said


def printed(run: Run, width: int) -> list[str]:
    out = io.StringIO()
    print_collectives(Console(file=out, width=width), Reading(run).collectives)
    return out.getvalue().splitlines()


def test_a_wide_terminal_has_intervals_and_how_far_from_the_least() -> None:
    lines = printed(made({"mpi@x": SEVERAL, "mpi@y": ALLREDUCE}), 120)
    assert max(map(len, lines)) <= 120
    columns = "messages +least +× least"
    assert re.match(rf"collectives of 4 ranks +8 B +{columns} +1 MiB +{columns}", lines[0])
    assert re.match(r"mpi@x +\S+ (ns|µs) +\S+ (µs|ms) *$", lines[1])
    number = r"\d[\d.]* \[\d[\d.]* \d[\d.]*\]"
    small, large = rf"{number} +2\.0 +1\.\d\d×", rf"{number} +1\.5 +2\.\d\d×"
    assert re.match(rf"├ allreduce +\S+ µs +{small} +\S+ (µs|ms) +{large}$", lines[2])
    assert re.match(rf"└ barrier \(1 B\) +\S+ µs +{number} +2\.0 +2\.\d\d× +– +– +– +–$", lines[4])
    assert [line.split()[0] for line in lines[5:7]] == ["mpi@y", "└"]


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_less_is_shown_where_there_is_less_room(width: int) -> None:
    lines = printed(made({"mpi@x:transport=shm": SEVERAL, "mpi@y": ALLREDUCE}), width)
    assert max(map(len, lines)) <= width
    text = " ".join(" ".join(lines).split())
    assert all(word in text for word in ("allreduce", "bcast", "barrier (1 B)", "mpi@y", "messages", "least"))
    assert ("±" in text) == (width >= 80)
    assert ("× least" in text) == (width >= 100)


def test_ranks_stand_beside_the_variants_where_they_differ() -> None:
    run = made({"mpi@x": ALLREDUCE, "mpi@x:ranks=8": ALLREDUCE})
    for opened in run.variants:
        if opened.variant != "mpi@x":
            opened.ranks = [Rank(rank=rank, host="a") for rank in range(8)]
    lines = printed(run, 120)
    assert lines[0].startswith("collectives  ")
    assert lines[1].startswith("mpi@x, 4 ranks ")
    assert lines[3].startswith("mpi@x:ranks=8, 8 ranks ")
    assert "  2.0  " in lines[2]
    assert "  3.0  " in lines[4]


def test_the_summary_has_the_table_below_the_messages() -> None:
    out = io.StringIO()
    print_summary(Console(file=out, width=80), Reading(made(SEVERAL)))
    text = out.getvalue()
    assert text.count("collectives of 4 ranks") == 1
    assert text.index("collectives of 4 ranks") < text.index("\npingpong") < text.index("\ncollective ")
    assert max(map(len, text.splitlines())) <= 80


def test_what_the_data_do_not_tell_is_undecided() -> None:
    close = CollectiveSize(8, unsure(2e3), Estimate(2.2, 1.9, 2.6), 2.0)
    assert over_text(close) == "undecided"
    assert over_text(CollectiveSize(8, unsure(2e3), Estimate(2.02, 1.95, 2.09), 2.0)) == "same ±4.5 %"
    assert over_text(CollectiveSize(8, unsure(2e3), Estimate(1.5, 1.4, 1.6), 2.0)) == "0.750×"
    few = CollectiveSize(8, unsure(2e3), unsure(2.2), 2.0)
    assert (messages_text(few), over_text(few)) == ("~2.20", "~1.10×")
    wide = CollectiveSize(8, unsure(2e3), Estimate(2.2, 0.4, 9.0), 2.0)
    assert (messages_text(wide), messages_text(wide, "width")) == ("2.20 [0.400 9.00]", "2.20 > ±100 %")
    assert (messages_text(close, "width"), messages_text(close, "")) == ("2.20 ±16 %", "2.20")


def test_a_sentence_names_the_operation_that_is_furthest_above_the_least() -> None:
    small, large = furthest_sentences(Reading(made(SEVERAL)).collectives)
    assert re.fullmatch(
        r"mpi@x at 1 B: barrier is furthest above its least number of messages: \S+ messages \(\S+ to \S+\), "
        r"2\.\d\d times as many\.",
        small,
    )
    assert re.match(
        r"mpi@x at 1 MiB: allreduce is furthest above its least number of messages: 3\.[67]", large
    )
    alone, _ = furthest_sentences(Reading(made(ALLREDUCE)).collectives)
    takes = r"3\.\d+ messages \(3\S+ to 3\S+\), 1\.8\d times the least\."
    assert re.fullmatch(rf"mpi@x at 8 B: allreduce takes {takes}", alone)


def test_where_operations_lie_together_it_is_undecided_which_is_furthest() -> None:
    run = made({"pingpong": 1, "collective": 3.7, "collective:what=reduce": 3.71}, noise=0.1)
    small, *_ = furthest_sentences(Reading(run).collectives)
    assert re.fullmatch(
        r"mpi@x at 8 B: it is undecided which of (allreduce and reduce|reduce and allreduce) is furthest above its "
        r"least number of messages\.",
        small,
    )


def test_an_operation_at_its_least_is_not_said_to_be_above() -> None:
    assert (
        furthest_sentences(Reading(made({"pingpong": 1, "collective": 2.0}, sizes=(8, 64))).collectives) == ()
    )


# --------------------------------------------------------------------------------------------- page, figure, and JSON


def test_the_page_has_it_below_the_layers_and_its_bars_are_in_bounds() -> None:
    reading = Reading(made({"mpi@x": SEVERAL, "mpi@y": {"pingpong": 1, "collective": 0.5}}))
    html = page(reading)
    assert html.index('<section id="answer"') < html.index('<table class="stack">') < html.index('id="plots"')
    rows = collective_rows(reading.collectives, lambda _: True)
    assert rows is not None
    assert [(row["name"], row["depth"], row["less"]) for row in rows["rows"]] == [
        ("mpi@x", 0, False),
        ("allreduce", 1, False),
        ("bcast", 1, False),
        ("barrier (1 B)", 1, False),
        ("mpi@y", 0, False),
        ("allreduce", 1, True),
    ]
    for row in rows["rows"]:
        for bar in (row, row["large_bar"]):
            assert 0 <= bar["from"] <= 100
            assert bar["from"] + bar["width"] <= 100.5
    read = Page(html).text
    allreduce = rows["rows"][1]
    assert re.fullmatch(r"3\.\d\d ±0\.\d %", allreduce["adds"])
    assert re.fullmatch(r"least 2\.0: 1\.8\d×", allreduce["adds_least"])
    assert f"{allreduce['adds']} {allreduce['adds_least']}" in read
    assert all(sentence in read for sentence in rows["sentences"])


def test_many_operations_are_folded() -> None:
    run = made({f"mpi@x{n}": ALLREDUCE for n in range(MOST_ROWS)}, sizes=(8,))
    rows = collective_rows(Reading(run).collectives, lambda _: True)
    assert rows is not None
    assert (len(rows["first"]), len(rows["rows"])) == (MOST_ROWS, 2 * MOST_ROWS)
    assert f"All {2 * MOST_ROWS} rows of this table" in page(Reading(run))


def test_the_figure_has_the_numbers_of_the_table() -> None:
    reading = Reading(made(SEVERAL))
    (panel,) = figures.get("waterfall").panels(Scope((reading,)))
    assert (panel.title, panel.pattern) == ("Collectives of 4 ranks", "collective")
    small, large = panel.views
    assert isinstance(small, Bars)
    assert isinstance(large, Bars)
    assert [bar.name for bar in small.rows] == ["mpi@x", "allreduce", "bcast", "barrier (1 B)"]
    assert [bar.name for bar in large.rows] == ["mpi@x", "allreduce", "bcast"]
    assert small.rows[0].begin == 0
    (of,) = reading.collectives
    for bar, operation in zip(small.rows[1:], of.each, strict=True):
        assert operation.small is not None
        assert (bar.begin, bar.end) == (operation.small.bar_ns.begin, operation.small.time_ns.value)
        assert f", {messages_text(operation.small, 'width')} messages, least 2.0" in bar.text
        assert not bar.pale
    with pytest.raises(NothingToDraw):
        figures.get("waterfall").panels(Scope((reading,), patterns=("pingpong",)))


def test_json_has_every_size_of_the_curves_that_were_asked_for() -> None:
    reading = Reading(made(SEVERAL))
    (of,) = json.loads(to_json(reading, list(reading.curves), points=False))["collectives"]
    assert (of["variant"], of["ranks"], of["message"], of["small_bytes"]) == ("mpi@x", 4, "pingpong", 8)
    assert [one["operation"] for one in of["each"]] == ["allreduce", "bcast", "barrier"]
    size = of["each"][0]["sizes"][1]
    assert size["size_bytes"] == 8
    assert size["messages"]["low"] < 3.7 < size["messages"]["high"]
    assert size["least"] == 2
    assert size == of["each"][0]["small"]
    asked = [curve for curve in reading.curves if "bcast" in curve.pattern]
    (of,) = json.loads(to_json(reading, asked, points=False))["collectives"]
    assert [one["operation"] for one in of["each"]] == ["bcast"]
