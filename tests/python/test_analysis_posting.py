# SPDX-License-Identifier: Apache-2.0
"""What posting receives costs: ping-pong less burst."""

from __future__ import annotations

import pytest
from synthetic import point

from netpipe.findings.posting import posting
from netpipe.records import Point, Run, Yardstick
from netpipe.render.page.page import page
from netpipe.render.remarks import remarks


def run(pingpong_ns: float, burst_ns: float, half_width: float = 0.005, **burst: object) -> Run:
    points: list[Point] = []
    for size in (8, 4096):
        points.append(point("tcp", size, pingpong_ns + size, half_width))
        points.append(point("tcp", size, burst_ns + size, half_width, pattern="burst", **burst))
    yards = [
        Yardstick(at_s=state, state=state, bounce_ns=bounce, copy_bytes_per_s=1e10)
        for state, bounce in enumerate((54.0, 278.0))
    ]
    return Run([*yards, *points])


def test_the_cost_is_the_difference_at_the_size_of_the_latency() -> None:
    (one,) = posting(run(1000, 800))
    assert (one.variant, one.size_bytes) == ("tcp", 8)
    assert one.cost_ns.value == pytest.approx(200)
    assert one.cost_ns.low < 200 < one.cost_ns.high
    assert one.told
    sentence = "Receives that are posted before the clock starts make a ping-pong of tcp at 8 B 200 ns"
    said = [text for _, text in remarks(run(1000, 800), [], []) if sentence in text]
    assert len(said) == 1
    assert "shorter, of 1.01 µs" in said[0]
    assert sentence in page(run(1000, 800))


def test_no_difference_is_said_to_be_none() -> None:
    (one,) = posting(run(1000, 999, half_width=0.05))
    assert not one.told
    assert any(
        "no cost of posting receives was seen" in text for _, text in remarks(run(1000, 999, 0.05), [], [])
    )


def test_burst_may_be_the_longer_one() -> None:
    assert any("longer, of" in text for _, text in remarks(run(800, 1000), [], []))


def test_states_of_the_machine_are_not_compared_and_one_pattern_alone_says_nothing() -> None:
    assert posting(run(1000, 800, state=1)) == ()
    assert posting(Run([point("tcp", 8, 1000)])) == ()
    assert posting(Run([point("tcp", 8, 1000, pattern="burst")])) == ()
