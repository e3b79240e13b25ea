# SPDX-License-Identifier: Apache-2.0
"""How far the clocks of hosts are apart, from messages between them: of hosts whose clocks are made up."""

from __future__ import annotations

import numpy as np
import pytest

from netpipe.profiles.trace.clocks import Bounds, Clocks, Line, clocks

LEAST_NS = 5_000  # that a message takes


def bounds_of(
    ahead: dict[str, Line], pairs: list[tuple[str, str]], messages: int, span_s: float = 10.0
) -> Bounds:
    """Of messages at random moments, both ways between each pair, whose delay has a long tail."""
    rng = np.random.default_rng(7)
    found = Bounds()
    for one, other in pairs:
        for source, target in ((one, other), (other, one)):
            for sent in rng.uniform(0, span_s * 1e9, messages).tolist():
                received = sent + LEAST_NS + rng.exponential(20_000)
                found.add(
                    source,
                    round(sent + ahead[source].at(sent)),
                    target,
                    round(received + ahead[target].at(received)),
                )
    return found


def most_wrong_ns(found: Clocks, ahead: dict[str, Line], span_s: float = 10.0) -> float:
    """By how much the moments of two hosts may be wrong between them, over the whole time."""
    wrong = []
    for sent in np.linspace(0, span_s * 1e9, 50).tolist():
        left = [found.corrected(host, round(sent + line.at(sent))) - sent for host, line in ahead.items()]
        wrong.append(max(left) - min(left))
    return max(wrong)


@pytest.mark.parametrize("drift", [0.0, 1e-7, -20e-6, 200e-6])
def test_clocks_are_set_to_half_of_the_shortest_round_trip(drift: float) -> None:
    ahead = {"a": Line(0, 0), "b": Line(3e6, drift)}
    found = clocks(["a", "b"], bounds_of(ahead, [("a", "b")], 2000))
    assert (found.set_by, found.apart) == ({"a": "a", "b": "a"}, 0)
    assert most_wrong_ns(found, ahead) <= 2 * LEAST_NS
    assert found.error_ns <= 2 * LEAST_NS


def test_few_messages_are_no_drift() -> None:
    """Two at about one moment would allow any."""
    found = clocks(
        ["a", "b"], bounds_of({"a": Line(0, 0), "b": Line(-4e6, 0)}, [("a", "b")], 1, span_s=0.001)
    )
    assert found.ahead["b"].drift == 0
    assert found.corrected("b", 60_000_000_000) == pytest.approx(60_004_000_000, abs=100_000)


def test_a_host_is_set_over_others() -> None:
    ahead = {"a": Line(0, 0), "b": Line(1e6, 1e-6), "c": Line(-2e6, -2e-6), "d": Line(5e6, 0)}
    found = clocks(list(ahead), bounds_of(ahead, [("a", "b"), ("b", "c"), ("c", "d")], 1000))
    assert set(found.set_by.values()) == {"a"}
    assert most_wrong_ns(found, ahead) <= found.error_ns
    assert found.error_ns <= 4 * 2 * LEAST_NS


def test_hosts_without_messages_between_them_are_apart() -> None:
    ahead = {name: Line(0, 0) for name in "abcd"}
    found = clocks(list(ahead), bounds_of(ahead, [("a", "b"), ("c", "d")], 10))
    assert found.set_by == {"a": "a", "b": "a", "c": "c", "d": "c"}
    assert found.apart == 1


def test_one_direction_tells_nothing() -> None:
    bounds = Bounds()
    bounds.add("a", 0, "b", 10)
    found = clocks(["a", "b"], bounds)
    assert found.apart == 1
    assert found.corrected("b", 10) == 10


def test_a_clock_that_was_set_in_the_middle_fits_no_line() -> None:
    before = bounds_of({"a": Line(0, 0), "b": Line(0, 0)}, [("a", "b")], 500, span_s=5)
    after = bounds_of({"a": Line(5e9, 0), "b": Line(5e9 + 50e6, 0)}, [("a", "b")], 500, span_s=5)
    for pair, found in after.found.items():
        before.found[pair] += found
    assert clocks(["a", "b"], before).apart == 1
