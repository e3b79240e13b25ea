# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  (fixtures that are imported and then named as parameters)
"""ARMCI over Open MPI and MPICH: real bytes that are checked, every operation of its table, settings and refusals."""

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
    launch,
    program,
)

LIBRARIES = ("openmpi", "mpich")
SIZES = "0,1,9,4097,8191,8192,8193,300001"  # a cell has 8192 bytes, and so many are eager
TWO_SIDED = ["pingpong", "stream", "bidirectional", "burst", "window"]


@pytest.fixture(scope="module")
def armci(tmp_path_factory: pytest.TempPathFactory) -> Layered:
    folder = tmp_path_factory.mktemp("armci")
    return build("armci", {name: f"mpicc.{name}" for name in LIBRARIES}, folder)


def need(layer: Layered, library: str) -> str:
    if library not in layer.there:
        pytest.skip(f"there is no ARMCI for {library}")
    return layer.there[library].name


def test_every_byte_of_messages_and_transfers_arrives(armci: Layered, tmp_path: Path) -> None:
    variants = [f"{added.name}:transport=shm" for added in armci.there.values()]
    patterns = ["pingpong", "put", "get"]
    sizes = "1,4097,300001"
    done = armci.run(
        tmp_path / "run.jsonl", *variants, *asked(patterns), "--sizes", sizes, "--verify", "--budget", "0.02"
    )
    done.check_points(variants, patterns, sizes)
    for variant in variants:
        settings = done.settings(variant)
        assert settings["transport_found"] == "shared memory"
        assert settings["wait"] in ("poll", "yield")
        (opened,) = done.of("variant", variant=variant)
        assert opened["below"] == "mpi"
        said = opened["ranks"][0]["settings"]
        assert said["below_stands_on"] == "shm"
        assert said["below_version"].startswith(("Open MPI ", "MPICH "))
        assert opened["version"].startswith("ARMCI over ")


@pytest.mark.deep
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("settings", ["op=put,transport=shm", "eager=0,transport=shm", "transport=shm"])
def test_every_byte_arrives_with_every_setting(
    armci: Layered, tmp_path: Path, library: str, settings: str
) -> None:
    variant = f"{need(armci, library)}:{settings}"
    done = armci.run(
        tmp_path / "run.jsonl", variant, *asked(TWO_SIDED), "--sizes", SIZES, "--verify", "--budget", "0.05"
    )
    done.check_points([variant], TWO_SIDED, SIZES)


@pytest.mark.check
def test_each_pattern_with_its_defaults(
    armci: Layered, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    for added in armci.there.values():
        module = listed(added.name, armci.environment)
        check_defaults(partial(armci.run, tmp_path / "run.jsonl"), request, module)


@pytest.mark.deep
@pytest.mark.parametrize("library", [pytest.param("openmpi", marks=pytest.mark.row), "mpich"])
def test_every_byte_arrives_under_every_pattern_or_the_reason_why_not_is_named(
    armci: Layered, request: pytest.FixtureRequest, tmp_path: Path, library: str
) -> None:
    lacks = {"cast", "collective", "collective_overlap", "itself", "partitioned", "threads"}
    module = listed(need(armci, library), armci.environment)
    ran = check_every_pattern(partial(armci.run, tmp_path / "run.jsonl"), request, module, lacks)
    operations = {pattern for pattern in ran if pattern.startswith("atomic")}
    assert operations == {"atomic", "atomic:op=swap", "atomic:target=own"}
    assert {"accumulate", "accumulate:sync=fence", "signal", "strided", "strided:direction=get"} <= ran


@pytest.mark.parametrize("library", [pytest.param("openmpi", marks=pytest.mark.deep), "mpich"])
def test_transfers_with_handles_bring_every_byte(armci: Layered, tmp_path: Path, library: str) -> None:
    variants = [f"{need(armci, library)}:transport={name}" for name in ("shm", "tcp")]
    patterns = [f"{way}:sync=wait{more}" for way in ("put", "get") for more in ("", ",in_flight=7")]
    more = ("--sizes", "1,4097,65537", "--verify", "--budget", "0.05")
    done = armci.run(tmp_path / "run.jsonl", *variants, *asked(patterns), *more)
    done.check_points(variants, patterns, "1,4097,65537")


@pytest.mark.deep
@pytest.mark.parametrize("library", LIBRARIES)
def test_over_tcp_its_transfers_go_through_sockets(armci: Layered, tmp_path: Path, library: str) -> None:
    variant = f"{need(armci, library)}:transport=tcp"
    patterns = ["pingpong", "put", "get"]
    done = armci.run(
        tmp_path / "run.jsonl",
        variant,
        *asked(patterns),
        "--sizes",
        "1,4097,65537",
        "--verify",
        "--budget",
        "0.5",
    )
    done.check_points([variant], patterns, "1,4097,65537")
    assert done.settings(variant)["transport_found"] == "TCP"
    assert int(done.settings(variant)["connections"]) >= 1


@pytest.mark.deep
@pytest.mark.parametrize("library", LIBRARIES)
def test_every_one_sided_operation_does_what_it_should(armci: Layered, tmp_path: Path, library: str) -> None:
    need(armci, library)
    tool = program("launched_module.c", tmp_path)
    for settings in (
        ["transport=shm"],
        ["transport=shm", "strided=DIRECT"],
        ["transport=shm", "strided=IOV"],
        ["transport=tcp", "times=20"],
    ):
        done = launch(armci.there[library], 2, str(tool), str(armci.there[library].file), *settings)
        assert done.returncode == 0, (settings, done.stderr)
        said = done.stdout.split("\n")
        for operation in (
            *(
                "put get",
                "iput iget",
                "put_strided get_strided",
                "put_signal await_signal",
                "fetch_add",
                "swap",
                "accumulate",
            ),
            "close",
        ):
            assert operation in said, (settings, done.stdout)
        assert "compare_swap" not in said  # which ARMCI does not have


@pytest.mark.deep
@pytest.mark.parametrize("library", LIBRARIES)
def test_four_ranks_send_to_whom_they_like(armci: Layered, tmp_path: Path, library: str) -> None:
    variant = f"{need(armci, library)}:transport=shm"
    patterns = ["pingpong", "window", "incast"]
    done = armci.run(
        tmp_path / "run.jsonl",
        *(variant, *asked(patterns), "--ranks", "4", "--sizes", "1,65537", "--verify", "--budget", "0.2"),
    )
    done.check_points([variant], patterns, "1,65537")


def test_a_setting_that_makes_no_sense_is_refused(armci: Layered, tmp_path: Path) -> None:
    name = next(iter(armci.there.values())).name
    done = armci.run(tmp_path / "run.jsonl", f"{name}:op=put,eager=64k", "--sizes", "8")
    assert done.code == 2
    assert "every message goes straight to its place" in done.sentence
    assert not done.of("point")


@pytest.mark.deep
@pytest.mark.parametrize("library", LIBRARIES)
def test_every_block_arrives_however_armci_makes_a_strided_transfer(
    armci: Layered, tmp_path: Path, library: str
) -> None:
    name = need(armci, library)
    variants = [f"{name}:strided={method},transport=shm" for method in ("DIRECT", "IOV")]
    patterns = [f"strided:{one}" for one in ("block=64,stride=200", "direction=get,stride=8", "in_flight=5")]
    done = armci.run(
        tmp_path / "run.jsonl",
        *variants,
        *asked(patterns),
        "--sizes",
        "64,65536",
        "--verify",
        "--budget",
        "0.1",
    )
    done.check_points(variants, patterns, "64,65536")
    for variant, method in zip(variants, ("DIRECT", "IOV"), strict=True):
        assert f"ARMCI_STRIDED_METHOD={method}" in done.settings(variant)["environment"]


def test_a_setting_of_strided_transfers_labels_no_put(armci: Layered, tmp_path: Path) -> None:
    name = next(iter(armci.there.values())).name
    done = armci.run(tmp_path / "run.jsonl", f"{name}:strided=IOV", *asked(["put", "get"]), "--sizes", "8")
    assert done.code != 0
    assert f"does not obey strided=IOV of module {name}: measure it without that setting" in done.sentence
    assert not done.of("point")
    lines = (armci.folder / f"{name}.module").read_text().splitlines()
    (option,) = (line.split("\t") for line in lines if line.startswith("option\tstrided\t"))
    assert (option[8], option[10]) == ("no", "strided")  # tunable, applies_to


@pytest.mark.deep
@pytest.mark.parametrize("library", LIBRARIES)
def test_ranks_on_two_hosts(armci: Layered, two_hosts: TwoHosts, tmp_path: Path, library: str) -> None:
    check_two_hosts(armci, two_hosts, f"{need(armci, library)}:transport=tcp", tmp_path)


@pytest.mark.deep
@pytest.mark.parametrize("library", LIBRARIES)
def test_four_ranks_on_two_hosts_send_and_reach(
    armci: Layered, two_hosts: TwoHosts, tmp_path: Path, library: str
) -> None:
    patterns = ["pingpong", "incast", "put", "get", "accumulate"]
    variant = f"{need(armci, library)}:transport=tcp"
    check_two_hosts(armci, two_hosts, variant, tmp_path, patterns, each=2)


@pytest.mark.deep
@pytest.mark.parametrize("library", LIBRARIES)
def test_slurm_starts_its_ranks(armci: Layered, slurm: Path, tmp_path: Path, library: str) -> None:
    variants = [f"{need(armci, library)}:transport={transport}" for transport in ("shm", "tcp")]
    check_srun(armci, slurm, variants, ["pingpong", "put", "get", "accumulate"], tmp_path)


@pytest.mark.deep
@pytest.mark.parametrize("library", LIBRARIES)
def test_an_interrupt_and_a_killed_rank_end_all_ranks(armci: Layered, tmp_path: Path, library: str) -> None:
    need(armci, library)
    for check, name in ((check_interrupt, "interrupt"), (check_killed_rank, "killed")):
        (tmp_path / name).mkdir()
        check(armci, armci.there[library], tmp_path / name)
