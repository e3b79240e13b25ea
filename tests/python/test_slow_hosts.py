# SPDX-License-Identifier: Apache-2.0
"""One slow host among many, by the times of its ranks and of its pairs: when it is named, and when nobody is."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import combinations

import pytest

from netpipe.findings import Finding, examples, judge
from netpipe.reading import Reading
from netpipe.reading.slow_hosts import slow_host
from netpipe.records import Cell, Rank, Run

SAMPLES = 1000


def ranks(times: Sequence[float]) -> list[Cell]:
    """Of each rank its time; those that take longest share the samples in which one is the slowest."""
    slowest = [place for place, ns in enumerate(times) if ns > 0.9 * max(times)]
    return [
        Cell(rank=place, median_ns=ns, slowest=SAMPLES // len(slowest) if place in slowest else 0)
        for place, ns in enumerate(times)
    ]


def block(of_each: int, hosts: int) -> dict[int, str]:
    """So many ranks on each host, one host after the other."""
    return {rank: f"node{rank // of_each}" for rank in range(of_each * hosts)}


def slow(times: Sequence[float], of_each: int = 4) -> str | None:
    found = slow_host(ranks(times), block(of_each, len(times) // of_each))
    return found.host if found else None


FOUR_SLOW = [100.0] * 8 + [142.0, 140.0, 139.0, 143.0] + [100.0] * 4


def test_a_host_all_of_whose_ranks_are_slow_is_found_though_none_of_them_stands_out() -> None:
    found = slow_host(ranks(FOUR_SLOW), block(4, 4))
    assert found is not None
    assert (found.host, found.cells, found.of, found.worst.rank, found.share) == ("node2", 4, 16, 11, 1.0)
    assert found.times == pytest.approx(1.41)
    assert found.chance == pytest.approx(4 / 1820)  # sixteen ranks have 1820 sets of four


@pytest.mark.parametrize(
    "times",
    [
        [100.0] * 8 + [141.0, 140.0, 139.0, 109.0] + [100.0] * 4,  # one of its ranks is as fast as others
        [100.0] * 8 + [141.0, 140.0, 139.0, 118.0] + [120.0] + [100.0] * 3,  # one of another host is slower
        [100.0] * 8 + [109.0, 108.0, 109.0, 107.0] + [100.0] * 4,  # slower by less than matters
        [100.0] * 15 + [200.0],  # a rank, not its host
    ],
)
def test_a_host_is_named_only_if_each_of_its_ranks_is_slower_than_all_others(times: list[float]) -> None:
    assert slow(times) is None


def test_of_two_hosts_nobody_is_the_odd_one() -> None:
    assert slow([100.0] * 4 + [140.0] * 4) is None
    assert slow([100.0] * 4 + [140.0] * 4 + [100.0] * 4) == "node1"


def test_the_slowest_rank_has_to_be_there_more_often_than_by_chance() -> None:
    cells = ranks(FOUR_SLOW)
    for cell in cells:
        cell.slowest = (
            125 if 8 <= cell.rank < 12 else 42
        )  # a half is a third of the way from chance to always
    assert slow_host(cells, block(4, 4)) is None
    cells[8].slowest = 130
    assert slow_host(cells, block(4, 4)) is not None


def test_what_the_clocks_may_make_is_no_difference() -> None:
    assert slow_host(ranks(FOUR_SLOW), block(4, 4), clock_error_ns=38) is not None
    assert slow_host(ranks(FOUR_SLOW), block(4, 4), clock_error_ns=40) is None


def test_hosts_that_are_alike_are_named_no_oftener_than_the_bound_says() -> None:
    """Each rank has a time of its own, as by its place in the machine: the slowest is mostly the same one."""
    draw = random.Random(7)
    hosts, fleets, named = block(2, 5), 2000, 0
    for _ in range(fleets):
        named += slow_host(ranks([draw.lognormvariate(5, 0.3) for _ in hosts]), hosts) is not None
    bound = 5 / 45  # H / C(10, 2)
    deviation = math.sqrt(bound * (1 - bound) / fleets)
    assert 0 < named / fleets < bound + 3 * deviation


# ------------------------------------------------------------------------------------------------------------ pairs


def pairs(who: Sequence[tuple[int, int]], hosts: dict[int, str], slow_one: str) -> list[Cell]:
    """Pairs of ranks, of which those that leave the slow host take twice as long."""
    late = [slow_one in (hosts[a], hosts[b]) and hosts[a] != hosts[b] for a, b in who]
    return [
        Cell(rank=a, peer=b, median_ns=200.0 if is_late else 100.0, slowest=SAMPLES // sum(late) * is_late)
        for (a, b), is_late in zip(who, late, strict=True)
    ]


def test_where_a_host_has_pairs_with_several_others_it_is_named_and_not_they() -> None:
    hosts = block(2, 4)
    found = slow_host(pairs(list(combinations(range(8), 2)), hosts, "node2"), hosts)
    assert found is not None
    # Each of its two ranks with each of six others; the pair within it is as fast as ever.
    assert (found.host, found.cells, found.of) == ("node2", 12, 24)
    assert found.times == 2.0


def test_where_all_pairs_of_a_host_are_with_one_other_nobody_can_tell_which_of_the_two_it_is() -> None:
    hosts = block(2, 6)
    halves = [(rank, rank + 6) for rank in range(6)]
    assert slow_host(pairs(halves, hosts, "node1"), hosts) is None


# ---------------------------------------------------------------------------------------------------------- the rule


def run(cells: list[Cell], hosts: dict[int, str]) -> Run:
    made = examples.run(
        *(examples.point("tcp", size, 1000.0, pattern="collective", cells=cells) for size in (8, 64))
    )
    for variant in made.variants:
        variant.ranks[:] = [Rank(rank=rank, host=host, settings={}) for rank, host in hosts.items()]
    return made


def found_in(made: Run) -> list[Finding]:
    return [one for one in judge(Reading(made)).findings if one.rule == "slowest-rank"]


def test_the_finding_names_the_host_and_how_rare_that_is_by_chance() -> None:
    (found,) = found_in(run(ranks(FOUR_SLOW), block(4, 4)))
    assert (found.title, found.host, found.size_bytes) == ("One host is slower", "node2", 8)
    assert found.what == (
        "tcp collective: one of the 4 ranks on node2 was the slowest of 16 ranks in 100 % of the operations at 8 B; "
        "each of them is slower than all others, with 1.41\u00d7 their median, and stood out at 2 of 2 sizes."
    )
    assert "by chance at 0.2 % of sizes" in found.certainty
    assert found.evidence["ranks of the host"].value == 4


def test_a_slow_host_is_named_and_not_the_slowest_of_its_ranks() -> None:
    times = [*FOUR_SLOW]
    times[9] = 300.0  # it stands out by itself as well
    (found,) = found_in(run(ranks(times), block(4, 4)))
    assert found.host == "node2"
    (alone,) = found_in(run(ranks(times), dict.fromkeys(range(16), "node0")))
    assert "rank 9 was the slowest of 16 ranks" in alone.what


def test_pairs_of_a_host_are_said_as_pairs() -> None:
    hosts = block(2, 4)
    (found,) = found_in(run(pairs(list(combinations(range(8), 2)), hosts, "node2"), hosts))
    assert "one of the 12 pairs with node2 was the slowest of 24 pairs" in found.what
