# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  (fixtures that are imported and then named as parameters)
"""Messages and global operations of TCGMSG over Open MPI and MPICH: bytes that are checked, and what it lacks."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from every_pattern import check_defaults, check_every_pattern, listed
from machines import TwoHosts, open_folder, slurm, two_hosts  # noqa: F401
from over_libraries import (
    Layered,
    asked,
    build,
    check_interrupt,
    check_killed_rank,
    check_srun,
    check_two_hosts,
)

from netpipe.libraries.adding.add import Request, add
from netpipe.reading import Reading
from netpipe.reading.layers import Below
from netpipe.records import Run

LIBRARIES = ("openmpi", "mpich")
# It has SND and RCV, and nothing that is only begun.
LACKS = {
    *("accumulate", "atomic", "bidirectional", "burst", "cast", "collective_overlap"),
    *("congestion", "exchange", "get", "halo", "incast", "itself", "outcast", "overhead", "overlap"),
    *("partitioned", "put", "ring", "signal", "strided", "threads", "window"),
}


@pytest.fixture(scope="module")
def tcgmsg(tmp_path_factory: pytest.TempPathFactory) -> Layered:
    folder = tmp_path_factory.mktemp("tcgmsg")
    return build("tcgmsg", {name: f"mpicc.{name}" for name in LIBRARIES}, folder)


def need(layer: Layered, library: str) -> str:
    if library not in layer.there:
        pytest.skip(f"there is no TCGMSG for {library}")
    return layer.there[library].name


def test_every_byte_arrives(tcgmsg: Layered, tmp_path: Path) -> None:
    variants = [f"{added.name}:transport=shm" for added in tcgmsg.there.values()]
    sizes = "0,1,4097,300001"
    done = tcgmsg.run(tmp_path / "run.jsonl", *variants, "--sizes", sizes, "--verify", "--budget", "0.02")
    done.check_points(variants, ["pingpong"], sizes)
    for variant in variants:
        assert done.settings(variant)["transport_found"] == "shared memory"
        (opened,) = done.of("variant", variant=variant)
        assert opened["below"] == "mpi"
        said = opened["ranks"][0]["settings"]
        assert said["below_stands_on"] == "shm"
        assert said["below_version"].startswith(("Open MPI ", "MPICH "))
        assert opened["version"].startswith("TCGMSG over ")


@pytest.mark.deep
def test_it_stands_on_the_mpi_below_and_that_on_the_library_in_force(
    tcgmsg: Layered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = need(tcgmsg, "openmpi")
    mpi = add(Request(Path("/usr/bin/mpicc.openmpi"), "below", folder=tcgmsg.folder)).name
    for variable, value in {
        "OMPI_MCA_pml": "ucx",
        "OMPI_MCA_opal_common_ucx_tls": "any",
        "OMPI_MCA_opal_common_ucx_devices": "any",
    }.items():
        monkeypatch.setenv(variable, value)
    done = tcgmsg.run(
        tmp_path / "run.jsonl", "memcpy", "shm", "ucx", mpi, name, "--sizes", "8", "--budget", "0.02"
    )
    assert done.code == 0, done.said
    run = Run.read(tmp_path / "run.jsonl")
    (opened,) = (one for one in run.variants if one.variant == name)
    assert Below(run).down(opened) == (mpi, "ucx", "shm", "memcpy")
    below = {loss.variant: loss.below for loss in Reading(run).losses}
    assert (below[name], below[mpi], below["ucx"]) == (mpi, "ucx", "shm")


@pytest.mark.deep
@pytest.mark.parametrize("library", LIBRARIES)
def test_every_byte_arrives_whether_or_not_its_calls_wait(
    tcgmsg: Layered, tmp_path: Path, library: str
) -> None:
    name = need(tcgmsg, library)
    variants = [f"{name}:sync=no,transport=shm", f"{name}:transport=shm", f"{name}:transport=tcp"]
    sizes = "1,9,4097,300001"
    done = tcgmsg.run(
        tmp_path / "run.jsonl",
        *(
            *variants,
            "--pattern",
            "pingpong",
            "--pattern",
            "stream",
            "--sizes",
            sizes,
            "--verify",
            "--budget",
            "0.2",
        ),
    )
    done.check_points(variants, ["pingpong", "stream"], sizes)
    for variant in variants:
        wanted = "TCP" if variant.endswith("tcp") else "shared memory"
        assert done.settings(variant)["transport_found"] == wanted


@pytest.mark.check
def test_each_pattern_with_its_defaults(
    tcgmsg: Layered, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    for added in tcgmsg.there.values():
        module = listed(added.name, tcgmsg.environment)
        check_defaults(partial(tcgmsg.run, tmp_path / "run.jsonl"), request, module)


@pytest.mark.deep
@pytest.mark.parametrize("library", [pytest.param("openmpi", marks=pytest.mark.row), "mpich"])
def test_every_byte_arrives_under_every_pattern_or_the_reason_why_not_is_named(
    tcgmsg: Layered, request: pytest.FixtureRequest, tmp_path: Path, library: str
) -> None:
    module = listed(need(tcgmsg, library), tcgmsg.environment)
    ran = check_every_pattern(partial(tcgmsg.run, tmp_path / "run.jsonl"), request, module, LACKS)
    assert {"cast:by=sends", "partitioned:by=send"} <= ran


@pytest.mark.deep
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("ranks", ["4", "6"])
def test_many_ranks_are_pairs(tcgmsg: Layered, tmp_path: Path, library: str, ranks: str) -> None:
    variant = f"{need(tcgmsg, library)}:transport=shm"
    done = tcgmsg.run(
        tmp_path / "run.jsonl", variant, "--ranks", ranks, "--sizes", "1,4097", "--verify", "--budget", "0.3"
    )
    done.check_points([variant], ["pingpong"], "1,4097")
    (opened,) = done.of("variant", variant=variant)
    assert len(opened["ranks"]) == int(ranks)


# The library reduces 65536 elements at a time, which has no other threshold: a message is one of its MPI.
AROUND = ",".join(str(8 * elements) for elements in (1, 65536, 65537))
OPERATIONS = [
    "collective",
    "collective:in_place=yes",
    "collective:datatype=int64,reduction=or",
    *(f"collective:what=bcast{root}" for root in ("", ",rotate=yes")),
]
REDUCTIONS = [
    *(f"collective:reduction={how}" for how in ("min", "max", "prod")),
    *(f"collective:datatype=int64,reduction={how}" for how in ("min", "max", "prod", "and")),
]


@pytest.mark.deep
@pytest.mark.parametrize("library", LIBRARIES)
def test_its_global_operations_give_what_they_should(tcgmsg: Layered, tmp_path: Path, library: str) -> None:
    variant = f"{need(tcgmsg, library)}:transport=shm"
    barrier = ("--pattern", "collective:what=barrier")
    for patterns, sizes, budget in ((OPERATIONS, AROUND, "0.1"), (REDUCTIONS, "8", "0.02")):
        more = (*barrier, "--sizes", sizes, "--budget", budget, "--verify")
        done = tcgmsg.run(tmp_path / "run.jsonl", variant, *asked(patterns), *more)
        done.check_points([variant], patterns, sizes)
        assert done.of("point", pattern="collective:what=barrier")


@pytest.mark.deep
def test_global_operations_that_it_lacks_are_skipped_with_the_reason(tcgmsg: Layered, tmp_path: Path) -> None:
    variant = f"{next(iter(tcgmsg.there.values())).name}:transport=shm"
    lacking = {
        "collective:what=allgather": "BRDCST, SYNCH, and reductions of doubles (DGOP)",
        "collective:datatype=int32": "of 64-bit integers (IGOP)",
        "collective:datatype=int64,reduction=xor": "BRDCST, SYNCH",
        "collective:call=request": "end in their call",
    }
    more = ("--pattern", "collective", "--sizes", "8", "--budget", "0.02")
    done = tcgmsg.run(tmp_path / "run.jsonl", variant, *asked(list(lacking)), *more)
    assert {one["pattern"] for one in done.of("point")} == {"collective"}
    reasons = {one["pattern"]: one["reason"] for one in done.of("skipped")}
    assert set(reasons) == set(lacking)
    assert all(words in reasons[pattern] for pattern, words in lacking.items()), reasons


@pytest.mark.deep
def test_what_it_does_not_have_is_skipped_with_that_reason(tcgmsg: Layered, tmp_path: Path) -> None:
    variant = f"{next(iter(tcgmsg.there.values())).name}:transport=shm"
    done = tcgmsg.run(
        tmp_path / "run.jsonl",
        variant,
        "--pattern",
        "pingpong",
        "--pattern",
        "window",
        "--pattern",
        "put",
        "--sizes",
        "8",
    )
    reasons = {one["pattern"]: one["reason"] for one in done.of("skipped")}
    assert "isend" in reasons["window"]
    assert "put" in reasons["put"]


@pytest.mark.deep
@pytest.mark.parametrize("library", LIBRARIES)
def test_ranks_on_two_hosts(tcgmsg: Layered, two_hosts: TwoHosts, tmp_path: Path, library: str) -> None:
    check_two_hosts(tcgmsg, two_hosts, f"{need(tcgmsg, library)}:transport=tcp", tmp_path)


@pytest.mark.deep
@pytest.mark.parametrize("library", LIBRARIES)
def test_four_ranks_on_two_hosts_send_and_reduce(
    tcgmsg: Layered, two_hosts: TwoHosts, tmp_path: Path, library: str
) -> None:
    patterns = ["pingpong", "stream", "collective", "collective:what=bcast"]
    variant = f"{need(tcgmsg, library)}:transport=tcp"
    check_two_hosts(tcgmsg, two_hosts, variant, tmp_path, patterns, each=2)


@pytest.mark.deep
@pytest.mark.parametrize("library", LIBRARIES)
def test_slurm_starts_its_ranks(tcgmsg: Layered, slurm: Path, tmp_path: Path, library: str) -> None:
    variants = [f"{need(tcgmsg, library)}:transport={transport}" for transport in ("shm", "tcp")]
    check_srun(tcgmsg, slurm, variants, ["pingpong", "stream", "collective"], tmp_path)


@pytest.mark.deep
@pytest.mark.parametrize("library", LIBRARIES)
def test_an_interrupt_and_a_killed_rank_end_all_ranks(tcgmsg: Layered, tmp_path: Path, library: str) -> None:
    need(tcgmsg, library)
    for check, name in ((check_interrupt, "interrupt"), (check_killed_rank, "killed")):
        (tmp_path / name).mkdir()
        check(tcgmsg, tcgmsg.there[library], tmp_path / name)
