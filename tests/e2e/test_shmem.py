# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  (fixtures that are imported and then named as parameters)
"""OpenSHMEM under its own launcher: real bytes that are checked, settings that were in force, refusals, and faults."""

from __future__ import annotations

import os
import re
import subprocess
from functools import partial
from pathlib import Path

import pytest
from every_pattern import check_defaults, check_every_pattern, listed
from machines import TwoHosts, open_folder, slurm, two_hosts  # noqa: F401
from over_libraries import (
    ROOT,
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

from netpipe.libraries.adding import added, layers
from netpipe.libraries.adding.add import prepared

NAME = "shmem@openmpi"
SIZES = "0,1,9,4097,8191,8192,8193,300001"  # a cell has 8192 bytes, and so many are eager
TWO_SIDED = ["pingpong", "stream", "bidirectional", "burst", "window"]
OPERATIONS = ["add", "swap", "compare_swap", "fetch", "set"]  # and fetch_add, the default of pattern atomic


@pytest.fixture(scope="module")
def shmem(tmp_path_factory: pytest.TempPathFactory) -> Layered:
    return build("shmem", {"openmpi": "oshcc"}, tmp_path_factory.mktemp("shmem"))


def test_every_byte_of_messages_and_transfers_arrives(shmem: Layered, tmp_path: Path) -> None:
    variants = [f"{NAME}:transport=shm"]
    sizes = "1,9,4097,300001"
    patterns = ["pingpong", "window", "put", "get"]
    done = shmem.run(
        tmp_path / "run.jsonl", *variants, *asked(patterns), "--sizes", sizes, "--verify", "--budget", "0.02"
    )
    done.check_points(variants, patterns, sizes)
    settings = done.settings(variants[0])
    assert settings["transport_found"] == "shared memory"
    assert settings["heap_memory"].startswith(("/dev/shm/", "/SYSV"))
    assert settings["wait"] in ("poll", "yield")
    assert "UCX_TLS=posix,sysv,self" in settings["environment"]
    (opened,) = done.of("variant", variant=variants[0])
    assert (opened["below"], settings["below_stands_on"]) == ("ucx", "shm")
    assert settings["below_version"].startswith("UCX 1.")
    assert opened["version"].startswith("OpenSHMEM of Open MPI ")


def test_a_library_that_was_upgraded_after_the_module_was_added_is_found(
    shmem: Layered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = shmem.there["openmpi"]
    assert module.version.startswith("OpenSHMEM of Open MPI ")
    assert added.problem(module) is None
    (tmp_path / "newer.c").write_text(
        "#include <string.h>\n"
        "int MPI_Get_library_version(char* text, int* length) {\n"
        '  strcpy(text, "Open MPI v99.1.2, package: none");\n'
        "  *length = (int)strlen(text);\n"
        "  return 0;\n"
        "}\n"
    )
    command = ["cc", "-shared", "-fPIC", "-o", tmp_path / "newer.so", tmp_path / "newer.c"]
    subprocess.run(command, check=True, timeout=60)
    monkeypatch.setenv("LD_PRELOAD", str(tmp_path / "newer.so"))
    problem = added.problem(module) or ""
    assert (
        f"its library was {module.version} when it was added and is now OpenSHMEM of Open MPI 99.1.2; "
        in problem
    )


@pytest.mark.parametrize(
    ("variant", "words"),
    [
        ("eager=64k,op=put", "every message goes straight to its place"),
        ("await=until", "more to watch than one flag"),
        ("transport=rdma", "transport"),
        ("op=get", "op"),
    ],
)
def test_what_it_cannot_do_is_refused_before_anything_starts(
    shmem: Layered, tmp_path: Path, variant: str, words: str
) -> None:
    done = shmem.run(tmp_path / "run.jsonl", f"{NAME}:{variant}", "--sizes", "8")
    assert done.code == 2
    assert words in done.sentence
    assert not done.of("point")


@pytest.mark.deep
@pytest.mark.parametrize(
    "settings",
    [
        "op=put",
        "op=put,order=quiet,flag=atomic,await=until",
        "eager=0",
        "eager=1M",
        "order=quiet",
        "order=none",
        "flag=atomic",
        "transport=posix",
        "transport=sysv",
        "scoll=basic",
    ],
)
def test_every_byte_arrives_with_every_setting(shmem: Layered, tmp_path: Path, settings: str) -> None:
    """Also with order=none: the processors of x86-64 keep stores to shared memory in order."""
    variant = f"{NAME}:{settings}" + ("" if "transport" in settings else ",transport=shm")
    done = shmem.run(
        tmp_path / "run.jsonl", variant, *asked(TWO_SIDED), "--sizes", SIZES, "--verify", "--budget", "0.05"
    )
    (opened,) = done.of("variant")
    done.check_points([opened["variant"]], TWO_SIDED, SIZES)
    found = done.settings(opened["variant"])
    if "posix" in settings:
        assert found["heap_memory"].startswith("/dev/shm/")
    if "sysv" in settings:
        assert found["heap_memory"].startswith("/SYSV")
    order = re.search(r"order=(\w+)", settings)
    assert found["order"] == (order[1] if order else "fence")


@pytest.mark.check
def test_each_pattern_with_its_defaults(
    shmem: Layered, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    check_defaults(partial(shmem.run, tmp_path / "run.jsonl"), request, listed(NAME, shmem.environment))


@pytest.mark.deep
@pytest.mark.row
def test_every_byte_arrives_under_every_pattern_or_the_reason_why_not_is_named(
    shmem: Layered, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    lacks = {"accumulate", "cast", "collective_overlap", "itself", "partitioned", "threads"}
    module = listed(NAME, shmem.environment)
    ran = check_every_pattern(partial(shmem.run, tmp_path / "run.jsonl"), request, module, lacks)
    assert {"signal", "strided", "atomic", *(f"atomic:op={op}" for op in OPERATIONS)} <= ran


@pytest.mark.deep
def test_transfers_that_are_only_begun_arrive(shmem: Layered, tmp_path: Path) -> None:
    """nbi=yes: what completes them is the flush or the fence of the pattern."""
    variant = f"{NAME}:nbi=yes,transport=shm"
    patterns = ["put", "put:in_flight=7", "put:sync=fence", "get", "get:in_flight=7", "get:sync=fence"]
    sizes = "1,4097,65537"
    done = shmem.run(
        tmp_path / "run.jsonl", variant, *asked(patterns), "--sizes", sizes, "--verify", "--budget", "0.02"
    )
    done.check_points([variant], patterns, sizes)


@pytest.mark.deep
def test_over_tcp_its_puts_go_through_sockets(shmem: Layered, tmp_path: Path) -> None:
    variant = f"{NAME}:transport=tcp"
    patterns = ["pingpong", "put", "get", "collective:what=bcast"]
    done = shmem.run(
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
    settings = done.settings(variant)
    assert settings["transport_found"] == "TCP"
    assert int(settings["connections"]) >= 1
    assert "heap_memory" not in settings  # the heap is memory of one process


@pytest.mark.deep
def test_four_ranks_send_to_whom_they_like(shmem: Layered, tmp_path: Path) -> None:
    patterns = ["pingpong", "window", "incast", "outcast", "congestion"]
    variant = f"{NAME}:transport=shm"
    done = shmem.run(
        tmp_path / "run.jsonl",
        *(
            variant,
            *asked(patterns),
            "--ranks",
            "4",
            "--sizes",
            "1,4097,65537",
            "--verify",
            "--budget",
            "0.2",
        ),
    )
    done.check_points([variant], patterns, "1,4097,65537")


@pytest.mark.deep
@pytest.mark.parametrize("scoll", ["mpi", "basic"])
def test_its_collectives_give_what_they_should(shmem: Layered, tmp_path: Path, scoll: str) -> None:
    patterns = [f"collective:what={what}" for what in ("bcast", "allgather", "alltoall")]
    variant = f"{NAME}:transport=shm,scoll={scoll}"
    sizes = "1,7,8,4100"
    done = shmem.run(
        tmp_path / "run.jsonl",
        *(variant, *asked(patterns), "--ranks", "3", "--sizes", sizes, "--verify", "--budget", "0.2"),
    )
    done.check_points([variant], patterns, sizes)
    more = ["collective", "collective:what=barrier", "collective:what=reduce"]
    done = shmem.run(
        tmp_path / "more.jsonl",
        *(variant, *asked(more), "--ranks", "3", "--sizes", "8,4096", "--verify", "--budget", "0.2"),
    )
    done.check_points([variant], ["collective"], "8,4096")
    assert done.of("point", pattern="collective:what=barrier")
    (skipped,) = done.of("skipped", pattern="collective:what=reduce")
    assert "has no reduce" in skipped["reason"]


@pytest.mark.deep
@pytest.mark.parametrize("scoll", ["mpi", "basic"])
def test_its_strided_and_bitwise_collectives_give_what_they_should(
    shmem: Layered, tmp_path: Path, scoll: str
) -> None:
    bitwise = [
        f"collective:datatype={datatype},reduction={reduction}"
        for datatype in ("int64", "int32")
        for reduction in ("and", "or", "xor")
    ]
    strided = [
        "collective:what=alltoalls",
        "collective:what=alltoalls,stride=1",
        "collective:what=alltoalls,datatype=int32,stride=3",
    ]
    variant = f"{NAME}:transport=shm,scoll={scoll}"
    patterns = [*bitwise, *strided, "collective:reduction=xor"]
    done = shmem.run(
        tmp_path / "run.jsonl",
        *(variant, *asked(patterns), "--ranks", "3", "--sizes", "8,4096", "--verify", "--budget", "0.2"),
    )
    (skipped,) = done.of("skipped")
    assert "has a bitwise reduction: choose datatype=int64 or datatype=int32" in skipped["reason"]
    done.check_points([variant], [*bitwise, *strided], "8,4096")


@pytest.mark.deep
@pytest.mark.parametrize(
    "settings", [("transport=shm",), ("transport=shm", "nbi=yes"), ("transport=tcp", "times=20")]
)
def test_every_one_sided_operation_does_what_it_should(
    shmem: Layered, tmp_path: Path, settings: tuple[str, ...]
) -> None:
    added = shmem.there["openmpi"]
    tool = program("launched_module.c", tmp_path)
    done = launch(added, 2, str(tool), str(added.file), *settings)
    assert done.returncode == 0, done.stderr
    said = done.stdout.split("\n")
    for operation in (
        "put get",
        "put_strided get_strided",
        "put_signal await_signal",
        "add",
        "compare_swap",
        "close",
    ):
        assert operation in said, done.stdout


def warnings() -> list[str]:
    """Those that the project compiles with."""
    (options,) = re.findall(
        r"^add_compile_options\((-W[^)]*)\)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE
    )
    return [*options.split(), "-Werror"]


def test_put_with_signal_of_openshmem_1_5_carries_its_signals(tmp_path: Path) -> None:
    """Open MPI has 1.4: in place of a library of 1.5 stands one that reaches two processes of this host."""
    layer, stand_in = layers.one("shmem"), Path(__file__).with_name("newer_shmem")
    how = [*prepared(layer, [], tmp_path), *warnings(), "-I", str(stand_in)]
    library, module, heap = (tmp_path / name for name in ("newer_shmem.so", "shmem.so", "heap"))
    sources = {
        library: [stand_in / "newer_shmem.c", "-fvisibility=default"],
        module: [layer.folder / layer.source, library],
    }
    for made, words in sources.items():
        subprocess.run(["cc", *how, "-o", made, *words], check=True, timeout=300)
    heap.touch()
    tool = program("launched_module.c", tmp_path)
    ranks = [
        subprocess.Popen(
            [tool, module, "times=3000"],
            env={**os.environ, "NEWER_SHMEM": str(heap), "NEWER_SHMEM_PE": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in (0, 1)
    ]
    try:
        said = [rank.communicate(timeout=100)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], said
    assert {"put get", "put_strided get_strided", "put_signal await_signal", "close"} <= set(
        said[0].splitlines()
    )
    # Each way in turn, and then from one to the other alone.
    assert "process 0 made 6000 puts with a signal\n" in said[0]
    assert "process 1 made 3000 puts with a signal\n" in said[1]


@pytest.mark.deep
def test_a_heap_that_is_too_small_says_so(shmem: Layered, tmp_path: Path) -> None:
    done = shmem.run(tmp_path / "run.jsonl", f"{NAME}:transport=shm,heap=4M", "--sizes", "8M")
    assert done.code != 0
    assert "heap=SIZE" in done.sentence
    assert not done.of("point")


@pytest.mark.deep
def test_memory_that_is_not_symmetric_is_sent_but_not_reached(shmem: Layered, tmp_path: Path) -> None:
    variant = f"{NAME}:transport=shm"
    done = shmem.run(
        tmp_path / "run.jsonl",
        *(
            variant,
            "--pattern",
            "pingpong",
            "--buffers",
            "fresh",
            "--sizes",
            "9,65537",
            "--verify",
            "--budget",
            "0.1",
        ),
    )
    done.check_points([variant], ["pingpong"], "9,65537")
    done = shmem.run(
        tmp_path / "put.jsonl",
        *(f"{NAME}:op=put,transport=shm", "--pattern", "pingpong", "--buffers", "fresh", "--sizes", "9"),
    )
    assert "fresh buffers do not" in done.sentence, done.said
    assert not done.of("point")


@pytest.mark.deep
def test_two_ranks_on_one_processor_still_meet(shmem: Layered, tmp_path: Path) -> None:
    variant = f"{NAME}:transport=shm"
    done = shmem.run(
        tmp_path / "run.jsonl",
        variant,
        "--pin",
        "0,0",
        "--sizes",
        "1,4097,65537",
        "--verify",
        "--budget",
        "0.3",
    )
    done.check_points([variant], ["pingpong"], "1,4097,65537")
    assert done.settings(variant)["wait"] == "yield"


@pytest.mark.deep
def test_ranks_on_two_hosts(shmem: Layered, two_hosts: TwoHosts, tmp_path: Path) -> None:
    check_two_hosts(shmem, two_hosts, f"{NAME}:transport=tcp", tmp_path)


@pytest.mark.deep
def test_four_ranks_on_two_hosts_send_and_reach_and_reduce(
    shmem: Layered, two_hosts: TwoHosts, tmp_path: Path
) -> None:
    patterns = ["pingpong", "window", "incast", "put", "get", "collective", "collective:what=bcast"]
    check_two_hosts(shmem, two_hosts, f"{NAME}:transport=tcp", tmp_path, patterns, each=2)


@pytest.mark.deep
def test_slurm_starts_its_ranks(shmem: Layered, slurm: Path, tmp_path: Path) -> None:
    variants = [f"{NAME}:transport={transport}" for transport in ("shm", "tcp")]
    check_srun(shmem, slurm, variants, ["pingpong", "put", "get", "collective"], tmp_path)


@pytest.mark.deep
def test_an_interrupt_ends_all_ranks(shmem: Layered, tmp_path: Path) -> None:
    check_interrupt(shmem, shmem.there["openmpi"], tmp_path)


@pytest.mark.deep
def test_a_killed_rank_is_named_and_ends_the_run(shmem: Layered, tmp_path: Path) -> None:
    check_killed_rank(shmem, shmem.there["openmpi"], tmp_path)
