# SPDX-License-Identifier: Apache-2.0
"""Collectives of neighbours over a graph, blocking, non-blocking and persistent: every block comes from the rank that
the graph names, the degree is recorded, and what the ranks or the library do not have is refused.
"""

from __future__ import annotations

from typing import Any

import pytest
from conftest import Netpipe, Outcome
from mpi import Mpis

pytestmark = pytest.mark.module("mpi")

LIBRARIES = (
    "mpich",
    "openmpi",
    *(pytest.param(name, marks=pytest.mark.deep) for name in ("openmpi4", "mpich4")),
)
PERSISTENT = ("mpich", "openmpi")  # libraries of MPI-4
WHAT = tuple(f"neighbor_{name}" for name in ("allgather", "alltoall", "allgatherv", "alltoallv", "alltoallw"))


def graphs(ranks: int) -> dict[str, int]:
    """Patterns, and the degree that each has."""
    blocking = {
        f"collective:what={what},topology=graph,degree={degree}": degree
        for what in WHAT[:2]
        for degree in range(1, ranks)
    }
    started = {
        f"collective:what={what},call=request,topology=graph,degree={ranks - 1}": ranks - 1 for what in WHAT
    }
    # What a rank gets from each is then not what it sends to each.
    uneven = {
        f"collective:what={what},counts={counts},topology=graph,degree=2": 2
        for what in WHAT[2:]
        for counts in ("linear", "last")
    }
    return {**blocking, **started, **uneven}


def run(netpipe: Netpipe, patterns: list[str], ranks: int, *variants: str) -> Outcome:
    asked = [word for pattern in patterns for word in ("--pattern", pattern)]
    more = ("--verify", "--sizes", "8,4099", "--budget", "0.01", "--launches", "1")
    return netpipe(*variants, *asked, "--ranks", str(ranks), *more)


def degree_of(point: dict[str, Any]) -> list[float]:
    return [measure["median"] for measure in point["measures"] if measure["name"] == "degree"]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("ranks", [3, 4])
def test_every_block_comes_from_the_neighbour_that_the_graph_names(
    netpipe: Netpipe, with_mpis: Mpis, library: str, ranks: int
) -> None:
    with_mpis.need(library)
    # A persistent request of one degree must not be started for another.
    variants = [f"mpi@{library}", *([f"mpi@{library}:op=persistent"] if library in PERSISTENT else [])]
    patterns = graphs(ranks)
    done = run(netpipe, list(patterns), ranks, *variants)
    assert done.code == 0, done.said
    assert not done.of("skipped")
    for variant in variants:
        for pattern, degree in patterns.items():
            points = done.of("point", variant=variant, pattern=pattern)
            assert {point["size_bytes"] for point in points} == {8, 4099}, (variant, pattern)
            for point in points:
                assert point["verified_bytes"] > 0, (variant, pattern)
                assert degree_of(point) == [degree], (variant, pattern)


@pytest.mark.parametrize("library", LIBRARIES)
def test_without_a_degree_a_rank_has_two_neighbours_or_the_only_one_there_is(
    netpipe: Netpipe, with_mpis: Mpis, library: str
) -> None:
    with_mpis.need(library)
    patterns = [
        "collective:what=neighbor_alltoall",
        "collective:what=neighbor_alltoall,topology=graph",
        "collective_overlap:what=neighbor_alltoall,topology=graph",
    ]
    for ranks, degree in ((2, 1), (3, 2)):
        done = run(netpipe, patterns, ranks, f"mpi@{library}")
        assert done.code == 0, done.said
        found = {(point["pattern"], *degree_of(point)) for point in done.of("point")}
        assert found == {(patterns[0],), (patterns[1], degree), (patterns[2], degree)}
        assert all(point["verified_bytes"] > 0 for point in done.of("point"))


def test_a_degree_that_the_ranks_do_not_have_is_refused(netpipe: Netpipe, with_mpis: Mpis) -> None:
    with_mpis.need("mpich")
    refused = {
        "collective:what=neighbor_alltoall,topology=graph,degree=2": "needs more than 2 ranks, because a rank has 2 "
        "different neighbours; there are 2",
        "collective:what=neighbor_alltoall,degree=1": "has the neighbours of a grid: degree is for topology=graph",
        "collective:topology=graph": "has no neighbours: dims, topology and degree are for the operations whose",
        "collective:what=neighbor_alltoall,counts=last": "counts is for operations with v or w",
    }
    done = run(netpipe, ["collective:what=bcast", *refused], 2, "mpi@mpich")
    assert done.code == 0, done.said
    reasons = {one["pattern"]: one["reason"] for one in done.of("skipped")}
    assert set(reasons) == set(refused)
    for pattern, words in refused.items():
        assert words in reasons[pattern]
    assert {point["pattern"] for point in done.of("point")} == {"collective:what=bcast"}


@pytest.mark.deep
def test_a_library_of_mpi_2_has_none(netpipe: Netpipe, with_mpis: Mpis) -> None:
    with_mpis.need("lam")
    pattern = "collective:what=neighbor_allgather,topology=graph"
    done = run(netpipe, [pattern, "collective:what=bcast"], 3, "mpi@lam")
    assert done.code == 0, done.said
    reasons = {one["reason"] for one in done.of("skipped", pattern=pattern)}
    assert len(reasons) == 1
    assert "has no neighbor_allgather" in reasons.pop()
    assert not done.of("point", pattern=pattern)
