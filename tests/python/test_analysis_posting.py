# SPDX-License-Identifier: Apache-2.0
"""What posting receives costs: ping-pong less burst."""

from __future__ import annotations

import pytest
from synthetic import point

from netpipe.findings import judge
from netpipe.findings.posting import postings
from netpipe.reading import Reading
from netpipe.records import Point, Run, Yardstick
from netpipe.render.page.page import page


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


def said(made: Run) -> list[str]:
    return [finding.what for finding in judge(Reading(made)).findings if finding.rule == "posting-cost"]


def test_the_cost_is_the_difference_at_the_size_of_the_latency() -> None:
    (one,) = postings(Reading(run(1000, 800)))
    assert (one.variant, one.size_bytes) == ("tcp", 8)
    assert one.cost_ns.value == pytest.approx(200)
    assert one.cost_ns.low < 200 < one.cost_ns.high
    assert one.seen
    sentence = "tcp at 8 B: posting receives before the clock starts makes a ping-pong 200 ns"
    (found,) = said(run(1000, 800))
    assert found.startswith(sentence)
    assert "shorter, of 1.01 µs" in found
    assert sentence in page(Reading(run(1000, 800)))


def test_that_no_difference_was_seen_is_reported() -> None:
    (one,) = postings(Reading(run(1000, 999, half_width=0.05)))
    assert not one.seen
    assert "no cost of posting receives was seen" in said(run(1000, 999, 0.05))[0]


def test_a_difference_without_an_interval_is_not_called_none() -> None:
    made = Run([point("tcp", 8, 1000, low_ns=None), point("tcp", 8, 500, low_ns=None, pattern="burst")])
    (found,) = said(made)
    assert found.startswith("tcp at 8 B: the cost of posting receives is not known")


def test_burst_may_be_the_longer_one() -> None:
    assert "longer, of" in said(run(800, 1000))[0]


def test_states_of_the_machine_are_not_compared_and_one_pattern_alone_says_nothing() -> None:
    for made in (
        run(1000, 800, state=1),
        Run([point("tcp", 8, 1000)]),
        Run([point("tcp", 8, 1000, pattern="burst")]),
    ):
        assert postings(Reading(made)) == ()
        skipped = {one.rule: one.reason for one in judge(Reading(made)).skipped}
        assert "both pingpong and burst" in skipped["posting-cost"]
