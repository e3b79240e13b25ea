# SPDX-License-Identifier: Apache-2.0
"""Collective operations under pattern `collective`: the slowest rank counts, and it is named."""

from __future__ import annotations

from statistics import median
from typing import Any

import pytest
from conftest import Netpipe, Outcome, Runner
from mpi import Mpis
from test_faults import module

OPERATIONS = [
    "bcast",
    "reduce",
    "allreduce",
    "gather",
    "allgather",
    "scatter",
    "reduce_scatter",
    "reduce_scatter_block",
    "alltoall",
    "scan",
    "exscan",
    "gatherv",
    "scatterv",
    "allgatherv",
    "alltoallv",
    "alltoallw",
    "neighbor_allgather",
    "neighbor_alltoall",
    "neighbor_allgatherv",
    "neighbor_alltoallv",
    "neighbor_alltoallw",
    "barrier",
]


def lagging(measure: Runner, settings: str, *lines: str) -> Outcome:
    return measure(
        module("lagging"), f"variant lagging:{settings}", "ranks 4", "schedule list", "sizes 64", *lines
    )


@pytest.mark.parametrize("what", [pytest.param("bcast", marks=pytest.mark.deep), "allreduce"])
def test_a_late_rank_is_in_the_maximum_and_not_in_the_others(measure: Runner, what: str) -> None:
    late_us = 50_000  # longer than a rank waits for a processor, also in a build with sanitizers
    done = lagging(measure, f"late=2,late_us={late_us}", f"pattern collective:what={what}", "budget 2")
    assert done.code == 0, done.said
    (point,) = done.of("point")
    cells = {cell["rank"]: cell for cell in point["cells"]}
    assert sorted(cells) == [0, 1, 2, 3]
    assert all(cell["peer"] is None for cell in cells.values())
    assert point["median_ns"] >= late_us * 1000
    assert cells[2]["median_ns"] >= late_us * 1000
    # Four ranks share two processors, so no bound on the others but that of the rank that is late.
    others = median(cells[rank]["median_ns"] for rank in (0, 1, 3))
    assert others < cells[2]["median_ns"] / 2
    assert cells[2]["slowest"] > sum(cells[rank]["slowest"] for rank in (0, 1, 3))
    assert measures(point)["first_out"] < cells[2]["median_ns"] / 2


def measures(point: dict[str, Any]) -> dict[str, float]:
    return {measure["name"]: measure["median"] for measure in point["measures"]}


def test_ranks_of_one_host_have_one_clock_and_the_start_is_measured(measure: Runner) -> None:
    done = lagging(measure, "late=-1", "pattern collective", "budget 0.3")
    (point,) = done.of("point")
    said = measures(point)
    assert said["clock_error"] == 0
    assert said["start_skew"] >= 0
    assert 0 < said["first_out"] <= point["median_ns"] * 1.01
    assert point["single"]
    assert all(len(sample["measures"]["start_skew"]) == len(sample["ns"]) for sample in done.of("sample"))


def test_after_a_barrier_each_rank_has_a_start_of_its_own(measure: Runner) -> None:
    late_us = 50_000
    done = lagging(
        measure, f"late=2,late_us={late_us}", "pattern collective:start=barrier", "budget 2", "verify yes"
    )
    assert done.code == 0, done.said
    (point,) = done.of("point")
    said = measures(point)
    assert said["start_skew"] >= 0
    assert point["median_ns"] >= said["rank_mean"]  # from the earliest start to the latest end
    assert point["median_ns"] >= late_us * 1000
    # One rank of four is late in its own operation, and the others wait for nobody: a quarter of that is the mean.
    assert late_us * 1000 / 4 <= said["rank_mean"] < late_us * 1000
    assert said["first_out"] < late_us * 1000 / 2


def test_a_rank_that_stalls_in_a_collective_is_named(measure: Runner) -> None:
    done = lagging(measure, "stalls=3", "pattern collective", "budget 1", "timeout 1")
    assert done.code == 4
    (error,) = done.of("error")
    assert "did not complete within" in error["message"]
    assert "the others waited for rank 3, which did not come back from operation" in error["message"]
    assert not done.of("point")


def test_a_rank_that_never_comes_back_from_a_collective_is_ended_and_named(measure: Runner) -> None:
    done = lagging(measure, "stalls=3,deaf=yes", "pattern collective", "budget 1", "timeout 1")
    assert done.code == 4
    assert any("rank 3" in error["message"] or error["rank"] == 3 for error in done.of("error"))
    assert not done.of("point")


def test_every_sum_and_every_byte_of_what_the_module_gets_wrong_is_found(measure: Runner) -> None:
    done = lagging(measure, "late=-1", "pattern collective:what=gather", "budget 0.3", "verify yes")
    assert {one["reason"] for one in done.of("skipped")} == {"rank 0: module lagging: it has no gather"}
    done = lagging(measure, "late=-1", "pattern collective:what=bcast,root=3", "budget 0.3", "verify yes")
    assert done.code == 0, done.said
    assert all(point["verified_bytes"] > 0 for point in done.of("point"))


def test_sums_take_whole_doubles_and_a_barrier_has_no_size(measure: Runner) -> None:
    done = measure(
        module("lagging"),
        "variant lagging",
        "schedule list",
        "sizes 8,12,16",
        "pattern collective",
        "budget 0.2",
    )
    assert {point["size_bytes"] for point in done.of("point")} == {8, 16}
    (skipped,) = done.of("skipped", pattern="collective")
    assert (skipped["size_bytes"], skipped["reason"]) == (12, "no multiple of 8 bytes")


@pytest.mark.parametrize("ranks", [2, pytest.param(3, marks=pytest.mark.deep)])
@pytest.mark.every_library
def test_every_operation_of_every_library_gives_the_right_result(
    netpipe: Netpipe, with_mpis: Mpis, ranks: int
) -> None:
    patterns = [
        f"collective:what={what}{how}"
        for what in OPERATIONS
        for how in ("", f",call=request,root={ranks - 1}")
    ]
    names = [one.name for one in with_mpis.some()]
    done = netpipe(
        *names,
        "--ranks",
        str(ranks),
        *(word for pattern in patterns for word in ("--pattern", pattern)),
        *("--sizes", "8,4099"),
        *("--budget", "0.01", "--verify"),
    )
    assert done.code in (0, 3), done.said
    for name in names:
        refused = {
            one["pattern"]
            for one in done.of("skipped", variant=name)
            if one["reason"] != "no multiple of 8 bytes"
        }
        seen = {point["pattern"] for point in done.of("point", variant=name)}
        # A library of MPI-2 has no operation that is only started, and not those of MPI-3; all others have every one.
        assert all(any(word in pattern for word in ("request", "block", "neighbor")) for pattern in refused)
        assert not refused or name == "mpi@lam"
        assert len(seen) + len(refused) == len(patterns), (name, refused)
        for point in done.of("point", variant=name):
            assert point["verified_bytes"] > 0 or "barrier" in point["pattern"]
            assert len(point["cells"]) == ranks


def test_a_size_that_no_rank_takes_is_left_out_and_the_others_are_measured(measure: Runner) -> None:
    done = measure(
        module("lagging"),
        *("variant lagging:late=-1", "ranks 4", "schedule list", "sizes 64,4096,2097152"),
        *("pattern collective", "pattern collective:what=allgather", "budget 0.2"),
    )
    assert done.code == 0, done.said
    assert [point["size_bytes"] for point in done.of("point", pattern="collective")] == [64, 4096]
    (large,) = done.of("skipped", pattern="collective")
    assert large["size_bytes"] == 2097152
    (lacking,) = done.of("skipped", pattern="collective:what=allgather")
    assert lacking["size_bytes"] is None, "two sizes were refused: it has no such operation"
    assert not done.of("point", pattern="collective:what=allgather")
