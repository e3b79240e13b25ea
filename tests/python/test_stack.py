# SPDX-License-Identifier: Apache-2.0
"""The stack of layers as a tree with a waterfall, on the terminal and on the page."""

from __future__ import annotations

import io
import re

import msgspec
import pytest
import synthetic
from rich.console import Console

from netpipe.findings import examples
from netpipe.reading import Reading
from netpipe.reading.blocks.chains import Bar, Stack, Step
from netpipe.reading.losses import Loss, SizeLoss
from netpipe.records import Visits
from netpipe.render.losses import costliest, largest_losses
from netpipe.render.page.page import page
from netpipe.render.page.stack import LEAST, stack_rows
from netpipe.render.terminal.stack import print_stack, tree, waterfall

READING = Reading(synthetic.run(sizes=[8, 1024, 65536, 1 << 20], launches=4))


def test_every_layer_stands_below_the_one_that_it_is_read_against() -> None:
    (stack,) = READING.stacks
    assert [(step.variant, step.depth) for step in stack.steps] == [
        ("memcpy", 0),
        ("shm", 1),
        ("pipe", 2),
        ("unix", 3),
        ("tcp", 4),
        ("tcp:wait=poll", 4),
    ]
    assert [tree(step) for step in stack.steps] == ["", "└ ", "  └ ", "    └ ", "      ├ ", "      └ "]
    assert (stack.small_bytes, stack.large_bytes) == (8, 1 << 20)
    of = {(curve.variant, at.size_bytes): at for curve in READING.curves for at in curve.points}
    for step in stack.steps:
        assert step.small_ns == of[step.variant, 8].time_ns
        assert step.large_rate == of[step.variant, 1 << 20].rate_bytes_per_s
        assert (step.loss is None) == (step.variant == "memcpy")


@pytest.mark.parametrize(
    ("start", "end", "bar"),
    [
        (0, 100, "██████████"),
        (50, 100, "     █████"),
        (100, 50, "     █████"),  # faster than the layer below: the same place
        (0, 5, "▌"),
        (0, 0.01, "▏"),  # what is there is seen
        (99.99, 100, "         █"),
        (20, 35, "  █▌"),
    ],
)
def test_a_bar_reaches_from_one_time_to_another(start: float, end: float, bar: str) -> None:
    assert waterfall(Bar(start, end, start, start), 100, 10) == bar
    assert waterfall(Bar(start, end, start, start), 0, 10) == ""


def test_the_interval_of_a_bar_is_shaded() -> None:
    assert waterfall(Bar(50, 100, 30, 70), 100, 10) == "   ▒▒▒▒███"
    assert waterfall(Bar(80, 100, 79, 81), 100, 10) == "        ██"  # less than half a column
    assert waterfall(Bar(50, 60, 20, 400), 100, 10) == "  ▒▒▒▒▒▒▒▒"


def contradicting(own_ns: float, paired: float) -> SizeLoss:
    """The loss of a layer that takes `own_ns` beside 1000 ns below, where the ratio within blocks is another one."""
    half = {"base": 1000.0, "layer": own_ns}
    points = []
    for launch in range(4):
        for name, usual in half.items():
            # Blocks that both have, and two more of each alone: the medians are those of the latter.
            alone = [100 + len(name), 200 + len(name), 300 + len(name), 400 + len(name)]
            both = 1000.0 if name == "base" else 1000.0 * paired
            visits = Visits(
                block=[1, *alone],
                at_s=[0.1 * place for place in range(5)],
                state=[0] * 5,
                samples=[9] * 5,
                median_ns=[both * (1 + launch / 1e4), *[usual] * 4],
            )
            point = examples.point(name, 8, usual, launch=launch)
            points.append(msgspec.structs.replace(point, visits=visits))
    run = examples.run(*points, variants=list(half), stack={"layer": "base"})
    (loss,) = Reading(run).losses
    assert loss.small is not None
    return loss.small


def test_no_layer_adds_more_than_it_takes_and_none_saves_more_than_the_one_below_takes() -> None:
    """A run where shm:wait=block took 33.1 us and "added 35.1 us": the times beside a ratio are not paired."""
    small = contradicting(900.0, 1.5)
    assert small.times.value == pytest.approx(1.5, rel=1e-3)
    assert small.added_ns.value == pytest.approx(300, rel=1e-2)  # of 900; 500 more than 1000 would be 1500
    assert small.added_ns.low <= small.added_ns.value <= small.added_ns.high
    assert contradicting(900.0, 1e6).added_ns.value < 900.0
    assert contradicting(2000.0, 0.5).added_ns.value == pytest.approx(-500, rel=1e-2)


def test_the_bar_of_a_layer_is_what_it_adds_with_its_interval() -> None:
    for step in READING.stacks[0].steps:
        bar = step.bar_ns
        assert bar is not None
        assert step.small_ns is not None
        assert bar.end == step.small_ns.value
        if step.loss is None:
            assert (bar.begin, bar.low, bar.high) == (0, step.small_ns.low, step.small_ns.high)
        elif step.loss.small is not None:
            added = step.loss.small.added_ns
            assert bar.end - bar.begin == pytest.approx(added.value)
            assert bar.begin >= 0
            assert bar.low == max(0, bar.end - added.high) < bar.begin < bar.high == bar.end - added.low


@pytest.mark.parametrize("width", [80, 100, 200])
def test_the_tree_fits_and_has_bars_where_there_is_room(width: int) -> None:
    out = io.StringIO()
    print_stack(Console(file=out, width=width), READING.stacks[0], "pingpong")
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) == 7
    assert re.match(r"      ├ tcp +\S+ µs +\+\S+ µs ±\S+ %", lines[5])


def test_names_go_before_rates_where_there_is_no_room_for_both() -> None:
    out = io.StringIO()
    print_stack(Console(file=out, width=60), READING.stacks[0], "pingpong")
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 60
    assert any(line.startswith("      └ tcp:wait=poll* ") for line in lines)
    assert "Keeps: of the throughput of the layer below, at 1 MiB." in " ".join(out.getvalue().split())
    assert "bps" not in out.getvalue()


def test_the_page_begins_with_what_it_says_and_with_it() -> None:
    html = page(READING)
    assert html.index('class="key"') < html.index('<table class="stack">') < html.index('id="plots"')
    rows = stack_rows(READING.stacks[0], several=False, first=())["rows"]
    assert all(0 <= row["from"] <= 100 and row["from"] + row["width"] <= 100.5 for row in rows)
    for row in rows:
        low, high = row["whisker"]
        ends = row["less"] or not row["adds"]  # at the end of the bar on the right
        at = row["from"] + (row["width"] if ends else 0)
        assert low <= at + LEAST
        assert at - LEAST <= high <= 100
        assert f'<path d="M{low} 5H{high}"/>' in html
    interval = re.compile(r"[\d.]+ % \([\d.]+ (% )?to [\d.]+ %\)")
    assert any(interval.fullmatch(row["keeps"]) for row in rows)


def test_a_large_stack_begins_with_some_layers_and_with_all_below_them() -> None:
    steps = [("copy", 0), ("shm", 1), ("unix", 2), ("tcp", 3), ("udp", 3), ("mpi", 2), ("cma", 1)]
    stack = Stack(
        "pingpong", None, None, tuple(Step(name, None, (True,) * depth, None, None) for name, depth in steps)
    )

    def begins_with(*first: str) -> list[str]:
        made = stack_rows(stack, several=False, first={(name, "pingpong") for name in first})
        assert [row["name"] for row in made["rows"]] == [name for name, _ in steps]
        return [row["name"] for row in made["first"]]

    assert begins_with("udp") == ["copy", "shm", "unix", "udp"]
    assert begins_with("tcp", "cma") == ["copy", "shm", "unix", "tcp", "cma"]
    assert begins_with("mpi") == ["copy", "shm", "mpi"]
    assert begins_with("copy") == ["copy"]
    assert begins_with(*(name for name, _ in steps)) == [name for name, _ in steps]


def test_layers_are_held_against_those_that_wait_alike() -> None:
    sentences = largest_losses(READING.losses)
    assert sentences
    assert all(" of the layers that sleep" in sentence for sentence in sentences)


def losses_of(times: dict[str, float], half_width: float) -> tuple[Loss, ...]:
    """Layers that stand on one of 1000 ns, and how long each takes."""
    variants = ["base", *times]
    points = [examples.point("base", size, 1000.0, half_width) for size in (8, 1 << 20)]
    points += [
        examples.point(name, size, time, half_width) for name, time in times.items() for size in (8, 1 << 20)
    ]
    return Reading(examples.run(*points, variants=variants, stack=dict.fromkeys(times, "base"))).losses


def test_the_layer_that_costs_most_stands_alone_where_the_data_tell() -> None:
    latency, throughput = largest_losses(losses_of({"a": 1500.0, "b": 3000.0, "c": 2000.0}, 0.01))
    assert latency.startswith("b adds the most latency: 2.00 µs (")
    assert latency.endswith(" over base at 8 B.")
    assert throughput.startswith("b loses the most throughput: it keeps 33.3 % (")
    assert throughput.endswith(" of that of base at 1 MiB.")


def test_where_the_data_do_not_tell_layers_apart_it_is_undecided_which_costs_most() -> None:
    close = {"a": 1500.0, "b": 3000.0, "c": 2900.0}
    latency, throughput = largest_losses(losses_of(close, 0.05))
    assert latency == "b and c: it is undecided which of them adds the most latency at 8 B."
    assert throughput == "b and c: it is undecided which of them loses the most throughput at 1 MiB."
    assert costliest(losses_of(close, 0.05)) == ()
    assert costliest(losses_of(close, 0.001)) == ("b",)
    many = {f"layer{n}": 3000.0 + n for n in range(6)}
    assert largest_losses(losses_of(many, 0.05))[0].startswith("layer5, layer4, layer3 and 3 others: it is ")
