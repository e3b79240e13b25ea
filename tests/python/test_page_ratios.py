# SPDX-License-Identifier: Apache-2.0
"""The page has the ratios of curves that are drawn over each other, as `netpipe compare` finds them."""

from __future__ import annotations

import msgspec
import pytest

from netpipe.findings import examples
from netpipe.reading import Reading
from netpipe.records import Run
from netpipe.render.page.page import page
from pages import data_of

TIMES = {"shm": 1.0, "unix": 3.0, "tcp": 2.0}
SIZES = (8, 64)


def three() -> Run:
    """Three layers by turns under two patterns; launches lie far apart."""
    points = [
        msgspec.structs.replace(
            examples.visited(name, size, times * size * 1000.0 * (1 + launch), launch), pattern=pattern
        )
        for pattern in ("pingpong", "stream")
        for launch in range(4)
        for size in SIZES
        for name, times in TIMES.items()
    ]
    return examples.run(*points)


def test_a_pair_of_one_pattern_has_the_ratios_of_its_visits() -> None:
    reading = Reading(three())
    data = data_of(page(reading))
    names = [curve["label"] for curve in data["curves"]]
    assert len(data["ratios"]) == 6, "three pairs of each pattern, and none between them"
    for one, two, sizes, value, low, high in data["ratios"]:
        assert data["curves"][one]["group"] == data["curves"][two]["group"]
        group = data["curves"][one]["group"]
        first, second = (names[place].partition(",")[0] for place in (one, two))
        expected = reading.ratios_of((first, group), (second, group))
        assert sizes == list(SIZES)
        assert value == pytest.approx([TIMES[first] / TIMES[second]] * 2, rel=1e-3)
        assert low == pytest.approx([expected[size].low for size in SIZES], rel=1e-4)
        assert high == pytest.approx([expected[size].high for size in SIZES], rel=1e-4)


def test_where_there_would_be_too_many_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netpipe.render.page.plots.MOST_RATIOS", 12)
    assert len(data_of(page(Reading(three())))["ratios"]) == 6
    monkeypatch.setattr("netpipe.render.page.plots.MOST_RATIOS", 11)
    assert data_of(page(Reading(three())))["ratios"] == []
