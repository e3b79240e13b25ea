# SPDX-License-Identifier: Apache-2.0
"""The waterfall of layers as a figure for print."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
from synthetic import run

from netpipe.reading import Reading
from netpipe.render import figures
from netpipe.render.drawing.paper import draw as drawing
from netpipe.render.drawing.picture import Bars, NothingToDraw, Panel
from netpipe.render.drawing.scope import Scope
from netpipe.render.page.stack import stack_rows

SIZES = [1, 8, 64, 1024, 16384, 262144, 4194304]
READING = Reading(run(sizes=SIZES, moved=True))


def views(*variants: str) -> tuple[Bars, Bars]:
    (panel,) = figures.get("waterfall").panels(Scope((READING,), variants))
    small, large = panel.views
    assert isinstance(small, Bars)
    assert isinstance(large, Bars)
    return small, large


def test_a_bar_ends_at_the_time_of_its_layer_and_is_as_long_as_what_it_adds() -> None:
    small, large = views()
    (stack,) = READING.stacks
    assert [bar.name for bar in small.rows] == [step.variant for step in stack.steps]
    for bar, step in zip(small.rows, stack.steps, strict=True):
        part = step.bar_ns
        assert part is not None
        assert step.small_ns is not None
        assert bar.end == step.small_ns.value
        assert bar.begin == part.begin
        assert (bar.begin == 0) == (step.loss is None)
        assert bar.reach == (part.low, part.high)
    assert [bar.end for bar in large.rows] == [
        step.large_rate.value for step in stack.steps if step.large_rate
    ]


def test_the_figure_has_the_numbers_of_the_page() -> None:
    small, _ = views()
    (stack,) = READING.stacks
    for bar, row in zip(small.rows, stack_rows(stack, False, ())["rows"], strict=True):
        assert bar.text == ", ".join(filter(None, (row["time"], row["adds"])))
        assert bar.pale == row["pale"]


def test_a_chosen_layer_stands_on_those_below() -> None:
    small, _ = views("tcp")
    depths = [bar.depth for bar in small.rows]
    assert small.rows[-1].name == "tcp"
    assert depths == list(range(len(depths))), "one branch, from its root"


def test_without_two_layers_there_is_no_waterfall() -> None:
    with pytest.raises(NothingToDraw, match="no two of the layers stand on each other"):
        figures.get("waterfall").panels(Scope((READING,), ("memcpy",)))


def test_names_and_numbers_of_long_variants_do_not_meet() -> None:
    small, _ = views()
    long = tuple(replace(bar, name=bar.name * 30) for bar in small.rows)
    figure = drawing.drawn([Panel("Waterfall", (replace(small, rows=long),))], "")
    (axes,) = figure.axes
    boxes = [text.get_window_extent() for text in axes.texts if text.get_transform() != axes.transAxes]
    assert len(boxes) == 2 * len(long)
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))
