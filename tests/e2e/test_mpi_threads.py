# SPDX-License-Identifier: Apache-2.0
"""Several threads of each rank over an MPI, and collectives in place, with uneven counts and among neighbours: every
byte is checked, and what cannot be in force is refused with a sentence.
"""

from __future__ import annotations

import pytest
from conftest import Netpipe
from mpi import Mpis

from netpipe.launch.variants import refusal

pytestmark = pytest.mark.module("mpi")

LIBRARIES = (
    "mpich",
    *(pytest.param(name, marks=pytest.mark.deep) for name in ("openmpi", "openmpi4", "mpich4")),
)
THREADS = ("threads", "threads:traffic=window", "threads:threads=3,processors=rank")
UNEVEN = tuple(
    f"collective:what={what},counts={counts}"
    for what in ("gatherv", "scatterv", "allgatherv", "alltoallv", "alltoallw", "reduce_scatter")
    for counts in ("linear", "last")
)
IN_PLACE = tuple(
    f"collective:what={what},in_place=yes"
    for what in (
        "reduce",
        "gather",
        "allgather",
        "scatter",
        "reduce_scatter",
        "alltoall",
        "scan",
        "exscan",
        "alltoallv",
    )
)
NEIGHBOURS = tuple(
    f"collective:what=neighbor_{what},dims=2" for what in ("allgather", "alltoall", "alltoallw")
)
NEIGHBOURS += ("collective:what=neighbor_alltoallv,dims=2,counts=linear",)
BEHIND = ("collective_overlap", "collective_overlap:what=alltoall,in_place=yes")


def patterns(*names: str) -> list[str]:
    return [word for name in names for word in ("--pattern", name)]


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_byte_of_every_thread_arrives(netpipe: Netpipe, with_mpis: Mpis, library: str) -> None:
    with_mpis.need(library)
    done = netpipe(
        f"mpi@{library}:thread=multiple",
        *patterns(*THREADS),
        *("--verify", "--sizes", "0,8,65536", "--budget", "0.02", "--launches", "1"),
    )
    assert done.code == 0, done.said
    assert not done.of("skipped")
    for pattern in THREADS:
        points = sorted(done.of("point", pattern=pattern), key=lambda point: point["size_bytes"])
        assert [point["size_bytes"] for point in points] == [0, 8, 65536], pattern
        assert all(point["verified_bytes"] > 0 for point in points if point["size_bytes"] > 0), pattern
        # Both threads (or all three) count.
        threads = 3 if "threads=3" in pattern else 2
        for point in points[1:]:
            rate = threads * point["size_bytes"] * 1e9 / point["median_ns"]
            assert point["bytes_per_s"] == pytest.approx(rate), pattern


def test_threads_that_would_not_be_in_force_are_refused(netpipe: Netpipe, with_mpis: Mpis) -> None:
    with_mpis.need("mpich")
    done = netpipe(
        *("mpi@mpich", "mpi@mpich:op=bsend,thread=multiple", "mpi@mpich:thread=multiple"),
        *patterns("pingpong", "threads"),
        *("--sizes", "8", "--budget", "0.02", "--launches", "1"),
    )
    assert done.code == 0, done.said
    reasons = {one["variant"]: one["reason"] for one in done.of("skipped")}
    assert "choose thread=multiple" in reasons["mpi@mpich"]
    assert "leave out op=bsend" in reasons["mpi@mpich:op=bsend,thread=multiple"]
    assert set(reasons) == {"mpi@mpich", "mpi@mpich:op=bsend,thread=multiple"}


IN_PARTS = ("partitioned", "partitioned:threads=4,fill=no", "partitioned:threads=4,by=send")


@pytest.mark.parametrize("library", ["mpich", "openmpi", pytest.param("mpich4", marks=pytest.mark.deep)])
def test_every_byte_of_every_part_arrives(netpipe: Netpipe, with_mpis: Mpis, library: str) -> None:
    with_mpis.need(library)
    variants = [
        f"mpi@{library}:op=partitioned,{reuse}partitions=8,thread=multiple" for reuse in ("", "reuse=no,")
    ]
    done = netpipe(
        *variants,
        *patterns(*IN_PARTS),
        *("--verify", "--sizes", "0,8,6,65536", "--budget", "0.02", "--launches", "1"),
    )
    assert done.code == 0, done.said
    assert {(one["size_bytes"], one["reason"]) for one in done.of("skipped")} == {
        (6, "no multiple of 4 bytes")
    }
    for variant in variants:
        for pattern in IN_PARTS:
            points = done.of("point", variant=variant, pattern=pattern)  # in the order in which they ended
            sizes = [0, 8, 65536] if "threads=4" in pattern else [0, 6, 8, 65536]
            assert sorted(point["size_bytes"] for point in points) == sizes, (variant, pattern)
            for point in points:
                if point["size_bytes"] == 0:
                    continue
                assert point["verified_bytes"] > 0, (variant, pattern)
                assert point["bytes_per_s"] == pytest.approx(point["size_bytes"] * 1e9 / point["median_ns"])


def test_parts_that_would_not_be_in_force_are_refused(netpipe: Netpipe, with_mpis: Mpis) -> None:
    with_mpis.need("openmpi")
    refused = {
        "mpi@openmpi:thread=multiple": "this variant has op=send",
        "mpi@openmpi:op=partitioned": "choose thread=multiple",
        "mpi@openmpi:op=partitioned,partitions=3,thread=multiple": "cannot share the parts of a message evenly",
    }
    done = netpipe(
        *(*refused, "tcp"),
        *patterns("partitioned", "partitioned:by=send"),
        *("--sizes", "8", "--budget", "0.02", "--launches", "1"),
    )
    assert done.code == 0, done.said
    reasons = {one["variant"]: one["reason"] for one in done.of("skipped")}
    assert reasons.pop("tcp") == (
        "pattern partitioned needs isend_parts and part_ready, which module tcp lacks; by=send needs neither"
    )
    assert set(reasons) == set(refused)
    for variant, words in refused.items():
        assert words in reasons[variant]
    assert {(one["variant"], one["pattern"]) for one in done.of("point")} == {
        (variant, "partitioned:by=send") for variant in (*refused, "tcp")
    }


@pytest.mark.deep
def test_a_library_without_such_threads_is_refused(netpipe: Netpipe, with_mpis: Mpis) -> None:
    with_mpis.need("lam")
    done = netpipe("mpi@lam", *patterns("pingpong", "threads"), "--sizes", "8", "--budget", "0.05")
    (skipped,) = done.of("skipped")
    assert "has no calls by several threads at once" in skipped["reason"]
    # The level is refused before anything is launched.
    why = refusal("mpi@lam:thread=multiple")
    assert "cannot take thread=multiple: one thread at a time may be in it: choose thread=serialized" in why
    assert refusal("mpi@lam:thread=serialized") == ""


@pytest.mark.parametrize("library", LIBRARIES)
def test_collectives_of_every_shape_come_to_the_right_bytes(
    netpipe: Netpipe, with_mpis: Mpis, library: str
) -> None:
    with_mpis.need(library)
    every = (*UNEVEN, *IN_PLACE, *NEIGHBOURS, *BEHIND)
    done = netpipe(
        f"mpi@{library}",
        *patterns(*every),
        *("--ranks", "4", "--verify", "--sizes", "24", "--budget", "0.01", "--launches", "1"),
    )
    assert done.code == 0, done.said
    assert not done.of("skipped")
    points = done.of("point")
    assert len(points) == len(every)
    assert all(point["verified_bytes"] > 0 for point in points)


@pytest.mark.parametrize("library", LIBRARIES[:2])
def test_threads_of_four_ranks_send_in_pairs(netpipe: Netpipe, with_mpis: Mpis, library: str) -> None:
    with_mpis.need(library)
    variant = f"mpi@{library}:thread=multiple,transport=shm"
    more = ("--ranks", "4", "--verify", "--sizes", "8,4097", "--budget", "0.02", "--launches", "1")
    done = netpipe(variant, *patterns(*THREADS[:2]), *more)
    assert done.code == 0, done.said
    assert not done.of("skipped")
    for pattern in THREADS[:2]:
        points = done.of("point", pattern=pattern)
        assert sorted(point["size_bytes"] for point in points) == [8, 4097], pattern
        for point in points:
            # Four threads that send, of two pairs, each of two ranks with two threads.
            assert len(point["cells"]) == 2, pattern
            assert point["verified_bytes"] > 0, pattern


REFUSED = {
    "collective:what=bcast,in_place=yes": "has nothing to be in place",
    "collective:what=alltoallv,in_place=yes,counts=last": "cannot be in place with these counts",
    "collective:counts=linear": "has the same count for all ranks",
    "collective:dims=2": "has no neighbours",
    "collective:what=neighbor_alltoall,dims=3": "grid of 3 dimensions, as 8, 12 or 18; there are 2",
    "collective_overlap:what=barrier": "needs an operation that moves something",
}


def test_shapes_that_an_operation_does_not_have_are_refused(netpipe: Netpipe, with_mpis: Mpis) -> None:
    with_mpis.need("mpich")
    done = netpipe(
        "mpi@mpich",
        *patterns("collective", *REFUSED),
        *("--sizes", "8", "--budget", "0.02", "--launches", "1"),
    )
    assert done.code == 0, done.said
    reasons = [one["reason"] for one in done.of("skipped")]
    assert len(reasons) == len(REFUSED)
    for reason in REFUSED.values():
        assert any(reason in one for one in reasons), reason
