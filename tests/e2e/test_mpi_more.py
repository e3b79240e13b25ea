# SPDX-License-Identifier: Apache-2.0
"""Words, sums, signals and exchanges over every MPI library: with values that are checked, through the calls that were
asked for, and refused with a sentence where they cannot be.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Netpipe
from mpi import EVERYDAY, SIX_WITH_ONE_EVERYDAY, Mpis
from shims import shim

from netpipe.reading import Reading
from netpipe.records import Run

pytestmark = pytest.mark.module("mpi")

WORDS = ("atomic", *(f"atomic:op={op}" for op in ("add", "swap", "compare_swap", "fetch", "set")))
FETCHING = ("accumulate:fetch=yes", "accumulate:in_flight=8,fetch=yes", "accumulate:sync=fence,fetch=yes")
SUMS = ("accumulate", "accumulate:in_flight=8", *FETCHING, "signal")
EXCHANGES = ("ring", "exchange", "random", "random:traffic=both")


def patterns(*names: str) -> list[str]:
    return [word for name in names for word in ("--pattern", name)]


@pytest.mark.parametrize("library", SIX_WITH_ONE_EVERYDAY)
def test_every_word_sum_and_byte_is_right(netpipe: Netpipe, with_mpis: Mpis, library: str) -> None:
    with_mpis.need(library)
    done = netpipe(
        f"mpi@{library}",
        *patterns(*WORDS, *SUMS, *EXCHANGES),
        "--verify",
        "--sizes",
        "8,65536",
        "--budget",
        "0.05",
    )
    assert done.code == 0, done.said
    skipped = {one["pattern"]: one["reason"] for one in done.of("skipped")}
    # LAM is an MPI-2: it has none of these operations outside of fences.
    assert set(skipped) == ({*WORDS, *SUMS} if library == "lam" else set())
    for pattern in {*WORDS, *SUMS, *EXCHANGES} - set(skipped):
        points = done.of("point", pattern=pattern)
        assert len(points) == (1 if pattern in WORDS else 2), pattern
        assert all(point["verified_bytes"] > 0 for point in points), pattern


@pytest.mark.parametrize(
    "window",
    [pytest.param(one, marks=pytest.mark.deep) for one in ("create", "allocate", "dynamic", "shared")],
)
def test_any_window_has_words_and_signals(netpipe: Netpipe, with_mpis: Mpis, window: str) -> None:
    variants = [f"{added.name}:window={window}" for added in with_mpis.need("openmpi", "mpich")]
    done = netpipe(
        *variants,
        *patterns("atomic", "atomic:op=add", *SUMS),
        "--verify",
        "--sizes",
        "8,4096",
        "--budget",
        "0.1",
    )
    assert done.code == 0, done.said
    assert not done.of("skipped")
    assert len(done.of("point")) == len(variants) * (2 + 2 * len(SUMS))  # a word has no size
    assert all(point["verified_bytes"] > 0 for point in done.of("point"))


@pytest.mark.parametrize("settings", ["flush=all", "flush=local", "atomics=get_accumulate"])
def test_what_completes_and_what_fetches_can_be_chosen(
    netpipe: Netpipe, with_mpis: Mpis, settings: str
) -> None:
    """Also after local flushes everything has arrived where the ranks have met."""
    with_mpis.need("mpich")
    done = netpipe(
        f"mpi@mpich:{settings}",
        *patterns("atomic", "put", "put:in_flight=8", "get", "accumulate", "accumulate:fetch=yes"),
        "--verify",
        "--sizes",
        "8,4096",
        "--budget",
        "0.1",
    )
    assert done.code == 0, done.said
    assert not done.of("skipped")
    assert len(done.of("point")) == 11
    assert all(point["verified_bytes"] > 0 for point in done.of("point"))


@pytest.mark.parametrize("library", SIX_WITH_ONE_EVERYDAY)
def test_transfers_with_requests_bring_every_byte(netpipe: Netpipe, with_mpis: Mpis, library: str) -> None:
    with_mpis.need(library)
    names = [f"{way}:sync=wait{more}" for way in ("put", "get") for more in ("", ",in_flight=7")]
    # LAM is an MPI-2: it has neither these calls nor memory of its own for windows.
    more = ["transport=tcp", *(() if library == "lam" else ("type=vector", "window=shared,transport=shm"))]
    variants = [f"mpi@{library}", *(f"mpi@{library}:{settings}" for settings in more)]
    more = ["--verify", "--sizes", "1,65536", "--budget", "0.3"]
    done = netpipe(*variants, *patterns("pingpong", *names), *more)
    assert done.code == 0, done.said
    skipped = {(one["variant"], one["pattern"]): one["reason"] for one in done.of("skipped")}
    assert len(skipped) == (len(variants) * len(names) if library == "lam" else 0)
    assert all("needs iput, which" in one or "needs iget, which" in one for one in skipped.values())
    for variant in variants:
        for name in {"pingpong", *names} - {pattern for _, pattern in skipped}:
            points = done.of("point", variant=variant, pattern=name)
            assert {point["size_bytes"] for point in points} == {1, 65536}, (variant, name)
            assert all(point["verified_bytes"] > 0 for point in points), (variant, name)


def test_transfers_with_requests_of_two_pairs(netpipe: Netpipe, with_mpis: Mpis) -> None:
    variants = [f"{added.name}:transport=shm" for added in with_mpis.need("openmpi", "mpich")]
    names = ["put:sync=wait,in_flight=4", "get:sync=wait"]
    more = ("--ranks", "4", "--verify", "--sizes", "8,4097", "--budget", "0.05")
    done = netpipe(*variants, *patterns(*names), *more)
    assert done.code == 0, done.said
    assert len(done.of("point")) == 2 * 2 * 2
    assert all(point["verified_bytes"] > 0 for point in done.of("point"))


REFUSED = {
    ("flush=local", "signal"): "flush=local does not tell when the bytes are there",
    ("flush=all", "put:sync=fence"): "flush=all: this pattern fences and does not flush",
    ("flush=all", "put:sync=wait"): "flush=all: this pattern waits for requests and does not flush",
    ("flush=local", "get:sync=wait"): "flush=local: this pattern waits for requests and does not flush",
    ("atomics=get_accumulate", "atomic:op=compare_swap"): "has op=fetch_add, swap and fetch",
    ("type=vector", "atomic"): "on whole numbers, and not on a derived datatype",
    ("type=vector", "accumulate"): "on whole numbers, and not on a derived datatype",
    ("type=vector", "accumulate:fetch=yes"): "on whole numbers, and not on a derived datatype",
    ("flush=all", "accumulate:sync=fence,fetch=yes"): "flush=all: this pattern fences and does not flush",
    ("flush=all", "pingpong"): "does not obey flush=all of module mpi@mpich",
    ("op=put", "signal"): "does not obey op=put of module mpi@mpich",
}


def test_what_cannot_be_in_force_is_skipped_on_all_ranks(netpipe: Netpipe, with_mpis: Mpis) -> None:
    """None of them waits for another: the run goes on with what can be measured."""
    with_mpis.need("mpich")
    variants = sorted({f"mpi@mpich:{settings}" for settings, _ in REFUSED})
    done = netpipe(
        *variants,
        *patterns("ring", *dict.fromkeys(pattern for _, pattern in REFUSED)),
        "--sizes",
        "8",
        "--budget",
        "0.05",
    )
    assert done.code == 0, done.said
    for (settings, pattern), reason in REFUSED.items():
        (skipped,) = done.of("skipped", variant=f"mpi@mpich:{settings}", pattern=pattern)
        assert reason in skipped["reason"]


@pytest.mark.parametrize("library", ["mpich", pytest.param("openmpi", marks=pytest.mark.deep)])
def test_four_ranks_exchange_and_meet_at_one_word(netpipe: Netpipe, with_mpis: Mpis, library: str) -> None:
    with_mpis.need(library)
    done = netpipe(
        f"mpi@{library}",
        *patterns("atomic:op=add", "atomic:op=compare_swap,target=own", "signal", "halo", "exchange", "ring"),
        *patterns("accumulate:fetch=yes"),
        "--ranks",
        "4",
        "--verify",
        "--sizes",
        "8",
        "--budget",
        "0.02",
    )
    assert done.code == 0, done.said
    assert not done.of("skipped")
    assert len(done.of("point")) == 7
    assert all(point["verified_bytes"] > 0 for point in done.of("point"))
    for point in done.of("point", pattern="halo"):
        assert [cell["rank"] for cell in point["cells"]] == [0, 1, 2, 3]


def test_empty_messages_go_round_the_ring(netpipe: Netpipe, with_mpis: Mpis) -> None:
    with_mpis.need("mpich")
    done = netpipe(
        "mpi@mpich", *patterns("ring", "exchange", "random"), "--sizes", "0,8", "--verify", "--budget", "0.05"
    )
    assert done.code == 0, done.said
    assert {(p["pattern"], p["size_bytes"]) for p in done.of("point")} == {
        (pattern, size) for pattern in ("ring", "exchange", "random") for size in (0, 8)
    }


@pytest.mark.parametrize("library", EVERYDAY)
def test_a_ring_makes_one_call_for_both_messages(
    netpipe: Netpipe, with_mpis: Mpis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    (added,) = with_mpis.need(library)
    assert added.compiler is not None
    noted = tmp_path / "noted"
    notes = shim(added.compiler, "notes_calls.c", tmp_path / "notes.so", f'-DNOTED="{noted}"')
    monkeypatch.setenv("LD_PRELOAD", str(notes))
    sizes, variants = (0, 4097), (f"mpi@{library}", f"mpi@{library}:type=vector,ranks=2")
    few = ("--sizes", ",".join(map(str, sizes)), "--budget", "0.1")
    done = netpipe(*variants, *patterns("ring:call=sendrecv"), "--ranks", "3", "--verify", *few)
    assert done.code == 0, done.said
    assert noted.with_suffix(".MPI_Sendrecv").exists()
    assert done.of("skipped") == []
    assert {(p["variant"], p["size_bytes"]) for p in done.of("point", pattern="ring:call=sendrecv")} == {
        (variant, size) for variant in variants for size in sizes
    }
    assert all(p["verified_bytes"] > 0 for p in done.of("point") if p["size_bytes"] > 0)


@pytest.mark.parametrize("library", EVERYDAY)
def test_a_sum_that_fetches_is_one_call(
    netpipe: Netpipe, with_mpis: Mpis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    """And one that does not is another: a get and a sum would bring the same numbers."""
    (added,) = with_mpis.need(library)
    assert added.compiler is not None
    for pattern, call in (("accumulate", "MPI_Accumulate"), ("accumulate:fetch=yes", "MPI_Get_accumulate")):
        folder = tmp_path / call
        folder.mkdir()
        noted = folder / "noted"
        notes = shim(added.compiler, "notes_calls.c", folder / "notes.so", f'-DNOTED="{noted}"')
        monkeypatch.setenv("LD_PRELOAD", str(notes))
        done = netpipe(
            f"mpi@{library}", *patterns(pattern), "--sizes", "8,4096", "--verify", "--budget", "0.05"
        )
        assert done.code == 0, done.said
        assert len(done.of("point", pattern=pattern)) == 2
        assert [path.suffix for path in folder.glob("noted.*")] == [f".{call}"]


@pytest.mark.parametrize("library", EVERYDAY)
def test_an_exchange_receives_by_calls(
    netpipe: Netpipe, with_mpis: Mpis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    (added,) = with_mpis.need(library)
    assert added.compiler is not None
    counted = {}
    for call in ("requests", "recv"):
        noted = tmp_path / call
        notes = shim(added.compiler, "notes_calls.c", tmp_path / f"{call}.so", f'-DNOTED="{noted}"')
        monkeypatch.setenv("LD_PRELOAD", str(notes))
        pattern = f"exchange:call={call}" if call == "recv" else "exchange"
        few = ("--sizes", "0,9,65537", "--budget", "0.1", "--verify")
        done = netpipe(f"mpi@{library}", *patterns(pattern), "--ranks", "3", *few)
        assert done.code == 0, done.said
        assert {one["size_bytes"] for one in done.of("point", pattern=pattern)} == {0, 9, 65537}
        assert all(p["verified_bytes"] > 0 for p in done.of("point") if p["size_bytes"] > 0)
        counted[call] = noted.with_suffix(".MPI_Irecv").exists()
    assert counted == {"requests": True, "recv": False}


def test_a_ring_without_that_call_is_skipped_with_the_reason(netpipe: Netpipe, with_mpis: Mpis) -> None:
    with_mpis.need("mpich")
    modes = patterns("ring:call=sendrecv", "pingpong")
    done = netpipe(
        "shm", "mpi@mpich:op=isend", "mpi@mpich:waitall=yes", *modes, "--sizes", "8", "--budget", "0.02"
    )
    assert done.code == 0, done.said
    reasons = {one["variant"]: one["reason"] for one in done.of("skipped", pattern="ring:call=sendrecv")}
    assert "needs sendrecv, which module shm lacks; call=requests does not" in reasons["shm"]
    assert "op=isend: one call for both directions is MPI_Sendrecv" in reasons["mpi@mpich:op=isend"]
    assert "does not obey waitall=yes" in reasons["mpi@mpich:waitall=yes"]
    done = netpipe("tcp", *patterns("exchange:call=recv"), "--sizes", "8", "--budget", "0.02")
    assert "needs sendrecv, which module tcp lacks" in done.of("skipped")[0]["reason"]


REDUCTIONS = tuple(
    f"collective:what={what},datatype={datatype},reduction={reduction}"
    for what, datatype, reduction in (
        ("allreduce", "float", "max"),
        ("reduce", "int32", "min"),
        ("scan", "int64", "prod"),
        ("reduce_scatter", "float", "sum"),
        ("allreduce", "int32", "xor"),
        ("scan", "int64", "and"),
        ("reduce", "int64", "or"),
    )
)
ROTATING = tuple(f"collective:what={what},rotate=yes" for what in ("bcast", "reduce", "gather", "scatter"))


def test_reductions_of_any_datatype_and_roots_in_turn(netpipe: Netpipe, with_mpis: Mpis) -> None:
    with_mpis.need("mpich")
    done = netpipe(
        "mpi@mpich",
        *patterns(*REDUCTIONS, *ROTATING, "collective:rotate=yes", "collective:what=bcast,datatype=float"),
        "--ranks",
        "3",
        "--verify",
        "--sizes",
        "8,12",
        "--budget",
        "0.02",
    )
    assert done.code == 0, done.said
    reasons = {one["pattern"]: one["reason"] for one in done.of("skipped") if one["size_bytes"] is None}
    assert "has no root that could rotate" in reasons["collective:rotate=yes"]
    assert "reduces nothing" in reasons["collective:what=bcast,datatype=float"]
    assert len(reasons) == 2
    measured = {(point["pattern"], point["size_bytes"]) for point in done.of("point")}
    # 12 bytes are no whole number of 8.
    eight = {
        "collective:what=scan,datatype=int64,reduction=prod",
        "collective:what=scan,datatype=int64,reduction=and",
        "collective:what=reduce,datatype=int64,reduction=or",
        "collective:what=reduce,rotate=yes",
    }
    assert measured == {
        (pattern, size) for pattern in (*names(REDUCTIONS), *ROTATING) for size in (8, 12)
    } - {(pattern, 12) for pattern in eight}
    assert all(point["verified_bytes"] > 0 for point in done.of("point"))


def names(modes: tuple[str, ...]) -> list[str]:
    """As they are recorded: without what is the default."""
    return [
        mode.replace("what=allreduce,", "").replace(",reduction=sum", "").replace(",datatype=double", "")
        for mode in modes
    ]


@pytest.mark.deep
def test_collective_operations_are_held_against_messages_of_the_library(
    netpipe: Netpipe, with_mpis: Mpis, tmp_path: Path
) -> None:
    with_mpis.need("mpich")
    asked = ("pingpong", "collective", "collective:what=bcast", "collective:what=barrier")
    done = netpipe("mpi@mpich", *patterns(*asked), "--ranks", "2", "--sizes", "8,65536", "--budget", "0.5")
    assert done.code == 0, done.said
    (of,) = Reading(Run.read(tmp_path / "run.jsonl")).collectives
    assert (of.variant, of.ranks, of.message) == ("mpi@mpich", 2, "pingpong")
    sizes = {one.operation: {size.size_bytes: size for size in one.sizes} for one in of.each}
    assert {name: set(of) for name, of in sizes.items()} == {
        "allreduce": {8, 65536},
        "bcast": {8, 65536},
        "barrier": {8},
    }
    assert all(size.messages.value > 0 for of in sizes.values() for size in of.values())
    assert {of[8].least for of in sizes.values()} == {1.0}
    assert "collectives of 2 ranks" in done.said
