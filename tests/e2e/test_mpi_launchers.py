# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  (fixtures that are imported and then named as parameters)
"""Every launcher, for real: all ranks come up, with what they must know, wherever they are, and none of them stays."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from machines import TwoHosts, jobs_of, open_folder, slurm, two_hosts  # noqa: F401
from mpi import SIX, Mpis, mpis  # noqa: F401

from netpipe.libraries.starting.description import read
from netpipe.libraries.starting.processes import all_with

pytestmark = pytest.mark.deep

HERE = Path(__file__).parent
MANY = 8  # more than there are processors
Launched = dict[str, Any]
Launch = Callable[..., Launched]


@pytest.fixture(scope="session")
def joiners(mpis: Mpis, open_folder: Path) -> Callable[[str], Path]:
    """joins.c, compiled by that library's mpicc."""

    def make(name: str) -> Path:
        (added,) = mpis.need(name)
        program = open_folder / f"joins-{name}"
        if not program.exists():
            assert added.compiler is not None
            command = [
                str(added.compiler),
                "-Wall",
                "-Wextra",
                "-O1",
                "-o",
                str(program),
                str(HERE / "joins.c"),
            ]
            environment = {**os.environ, **read(added.path).environment}
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=90, check=False
            )
            assert done.returncode == 0, done.stderr
        return program

    return make


@pytest.fixture
def launch(mpis: Mpis, joiners: Callable[[str], Path]) -> Launch:
    """launch("openmpi", ranks=8): one job of joins.c, and what came of it."""

    def start(
        name: str,
        *words: str,
        inside: Callable[..., list[str]] = lambda *command: list(command),
        more: dict[str, str] | None = None,
        **wish: Any,
    ) -> Launched:
        (added,) = mpis.need(name)
        given = {
            "ranks": MANY,
            "program": [str(joiners(name)), *words],
            "description": str(added.path),
            **wish,
        }
        mark = secrets.token_hex(16)
        done = subprocess.run(
            inside(sys.executable, str(HERE / "launch_job.py")),
            input=json.dumps(given),
            env={**os.environ, "NETPIPE_TEST_MARK": mark, **(more or {})},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        came: Launched = json.loads(done.stdout)
        assert came["left"] == []
        assert list(all_with(mark)) == [], "something that was started here outlived its job"
        assert came["kept"] == [], "shared memory that nobody has any more"
        assert not came["seen"], "the secret was on a command line"
        return came

    return start


def all_are_there(came: Launched, ranks: int = MANY) -> None:
    assert came["failed"] == []
    assert sorted(int(one["rank"]) for one in came["joined"]) == list(range(ranks))
    assert {(one["size"], one["job"]) for one in came["joined"]} == {(str(ranks), "7")}
    assert {one["secret"] for one in came["joined"]} == {came["secret"]}
    assert {int(one["cpus"]) for one in came["joined"]} == {len(os.sched_getaffinity(0))}, (
        "the launcher binds"
    )


# ---------------------------------------------------------------------------------------------------- on this host


@pytest.mark.parametrize("name", SIX)
def test_all_ranks_come_up_unbound_and_know_who_wants_them(launch: Launch, name: str) -> None:
    came = launch(name)
    all_are_there(came)
    if name == "lam" and os.geteuid() == 0:
        assert "0" not in {one["uid"] for one in came["joined"]}


@pytest.mark.parametrize("name", SIX)
@pytest.mark.parametrize("then", ["stop", "interrupt"])
def test_nothing_stays_of_a_job_whose_ranks_do_not_leave_by_themselves(
    launch: Launch, name: str, then: str
) -> None:
    came = launch(name, then=then)
    all_are_there(came)


@pytest.mark.parametrize("name", SIX)
def test_a_rank_that_dies_takes_the_job_along_and_is_told(launch: Launch, name: str) -> None:
    came = launch(name, "die")
    (sentence,) = came["failed"]
    assert f"of mpi@{name} ended with exit code" in sentence
    assert len(sentence) < 700
    assert any(word in sentence for word in ("signal 6", "signal 15", "ended with code", "Aborted")), sentence


@pytest.mark.parametrize("name", SIX)
def test_what_a_rank_says_is_what_is_told(launch: Launch, name: str) -> None:
    (sentence,) = launch(name, "fail")["failed"]
    assert sentence.endswith(": there is no such module"), sentence


@pytest.mark.parametrize("name", SIX)
def test_a_program_that_is_not_there_is_told(launch: Launch, name: str) -> None:
    (sentence,) = launch(name, program=["/nowhere/netpipe-worker", "join"])["failed"]
    assert "/nowhere/netpipe-worker" in sentence, sentence


def test_lam_cannot_run_what_its_user_cannot_read(launch: Launch, mpis: Mpis, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("an ordinary user runs LAM himself")
    mpis.need("lam")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "worker").write_text("#!/bin/sh\n")
    (closed / "worker").chmod(0o755)
    (sentence,) = launch("lam", program=[str(closed / "worker")])["failed"]
    assert sentence.startswith("LAM refuses root, and user nobody, who runs it instead, cannot read")
    (sentence,) = launch("lam", more={"NETPIPE_LAM_USER": "no-such-user"})["failed"]
    assert "user 'no-such-user' does not exist" in sentence
    (sentence,) = launch("lam", more={"NETPIPE_LAM_USER": "root"})["failed"]
    assert "name an ordinary user" in sentence


def test_more_words_reach_the_launcher(launch: Launch) -> None:
    (sentence,) = launch("openmpi", arguments="--no-such-option")["failed"]
    assert "no-such-option" in sentence


# -------------------------------------------------------------------------------------------------- on other hosts


@pytest.mark.parametrize("name", SIX)
@pytest.mark.parametrize("then", ["release", "stop"])
def test_ranks_on_two_hosts(launch: Launch, two_hosts: TwoHosts, name: str, then: str) -> None:
    came = launch(
        name,
        inside=two_hosts.inside,
        more={"NETPIPE_LAM_USER": two_hosts.user},
        ranks=4,
        bind="10.78.0.1",
        hosts=f"{two_hosts.near}:2,{two_hosts.far}:2",
        launcher="ssh",
        remote_shell=two_hosts.ssh,
        then=then,
    )
    all_are_there(came, 4)
    there = {int(one["rank"]): one["host"] for one in came["joined"]}
    assert there == {0: two_hosts.near, 1: two_hosts.near, 2: two_hosts.far, 3: two_hosts.far}
    deadline = time.monotonic() + 10
    while two_hosts.left() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert two_hosts.left() == []


@pytest.mark.parametrize("name", SIX)
def test_a_host_that_cannot_be_reached_is_told(launch: Launch, two_hosts: TwoHosts, name: str) -> None:
    came = launch(
        name,
        inside=two_hosts.inside,
        more={"NETPIPE_LAM_USER": two_hosts.user},
        ranks=2,
        bind="10.78.0.1",
        hosts=f"{two_hosts.near},no-such-host",
        launcher="ssh",
        remote_shell=two_hosts.ssh,
    )
    (sentence,) = came["failed"]
    assert "no-such-host" in sentence, sentence


# ----------------------------------------------------------------------------------------------------- under Slurm


@pytest.mark.parametrize("name", [name for name in SIX if name != "lam"])
@pytest.mark.parametrize("then", ["release", "stop"])
def test_slurm_starts_the_ranks(launch: Launch, slurm: Path, name: str, then: str) -> None:
    came = launch(name, launcher="srun", more={"SLURM_CONF": str(slurm)}, then=then)
    all_are_there(came)


def test_slurm_tells_what_a_rank_said_and_that_one_died(launch: Launch, slurm: Path) -> None:
    (sentence,) = launch("openmpi", "fail", launcher="srun", more={"SLURM_CONF": str(slurm)})["failed"]
    assert sentence == "srun of mpi@openmpi ended with exit code 4: there is no such module"
    (sentence,) = launch("mpich", "die", launcher="srun", more={"SLURM_CONF": str(slurm)})["failed"]
    assert "task 1: Aborted" in sentence


def test_nodes_that_slurm_does_not_have_are_told(launch: Launch, slurm: Path) -> None:
    came = launch(
        "mpich", ranks=2, hosts="no-such-node,nor-this", launcher="srun", more={"SLURM_CONF": str(slurm)}
    )
    (sentence,) = came["failed"]
    assert "Slurm gave no nodes" in sentence
    assert "node" in sentence.partition(": ")[2]


# --------------------------------------------------------------------------------------------------- netpipe run


@pytest.fixture
def netpipe(mpis: Mpis, worker: Path, tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """netpipe("run", "mpi"): the command line, in a folder of its own and with the modules of the six."""

    def start(
        *arguments: str,
        inside: Callable[..., list[str]] = lambda *command: list(command),
        **more: str,
    ) -> subprocess.Popen[str]:
        native = {
            "NETPIPE_NATIVE": str(worker.parents[1]),
            "NETPIPE_MODULE_PATH": str(mpis.folder),
            "TERM": "dumb",
        }
        return subprocess.Popen(
            inside(sys.executable, "-m", "netpipe", *arguments),
            cwd=tmp_path,
            env={**os.environ, **native, **more},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


def points(folder: Path) -> set[tuple[str, int]]:
    with (folder / "run.jsonl").open() as file:
        records = [json.loads(line) for line in file]
    return {(one["variant"], one["size_bytes"]) for one in records if one["type"] == "point"}


def test_one_command_measures_every_library(
    netpipe: Callable[..., subprocess.Popen[str]],
    mpis: Mpis,
    tmp_path: Path,
) -> None:
    there = [f"mpi@{name}" for name in mpis.there]
    if not there:
        pytest.skip("no MPI library is here")
    with netpipe(
        "run", "--launches", "1", "mpi", "tcp", "--sizes", "8,4k", "--budget", "0.2", "--verify"
    ) as process:
        _, said = process.communicate(timeout=90)
    assert process.returncode == 0, said
    measured = {(variant.partition(":")[0], size) for variant, size in points(tmp_path)}
    assert measured == {(name, size) for name in [*there, "tcp"] for size in (8, 4096)}


def test_netpipe_measures_between_two_hosts(
    netpipe: Callable[..., subprocess.Popen[str]],
    mpis: Mpis,
    two_hosts: TwoHosts,
    tmp_path: Path,
) -> None:
    there = ["tcp", *(f"mpi@{name}:transport=tcp" for name in mpis.there)]  # ssh starts the ranks of tcp
    command = (
        "run",
        "--launches",
        "1",
        *there,
        *two_hosts.options,
        "--sizes",
        "8,4k",
        "--budget",
        "0.2",
        "--verify",
    )
    with netpipe(*command, inside=two_hosts.inside, NETPIPE_LAM_USER=two_hosts.user) as process:
        _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert points(tmp_path) == {(name, size) for name in there for size in (8, 4096)}
    with (tmp_path / "run.jsonl").open() as file:
        variants = [one for one in map(json.loads, file) if one["type"] == "variant"]
    for variant in variants:
        assert [rank["host"] for rank in variant["ranks"]] == [two_hosts.near, two_hosts.far], variant[
            "variant"
        ]


def test_slurm_starts_what_netpipe_measures(
    netpipe: Callable[..., subprocess.Popen[str]],
    mpis: Mpis,
    slurm: Path,
    tmp_path: Path,
) -> None:
    mpis.need("openmpi", "mpich")
    command = (
        "run",
        "--launches",
        "1",
        "mpi@openmpi",
        "mpi@mpich",
        "--launcher",
        "srun",
        "--sizes",
        "8,4k",
        "--budget",
        "0.2",
    )
    with netpipe(*command, SLURM_CONF=str(slurm)) as process:
        _, said = process.communicate(timeout=90)
    assert process.returncode == 0, said
    assert len(points(tmp_path)) == 4


@pytest.mark.module("tcp", "udp", "ucx", "libfabric")
def test_slurm_starts_the_ranks_of_layers_that_are_no_mpi(
    listing: dict[str, Any], slurm: Path, tmp_path: Path
) -> None:
    here = {one["name"] for one in listing["modules"] if one["available"]}
    layers = [one for one in ("tcp", "udp", "ucx", "libfabric") if one in here]
    before = jobs_of(slurm)
    command = (
        *(sys.executable, "-m", "netpipe", "run", *layers),
        *("--launcher", "srun", "--hosts", f"{socket.gethostname()}:2"),
        *("--pattern", "pingpong", "--pattern", "stream", "--sizes", "8,4k"),
        *("--budget", "0.05", "--launches", "1", "--verify", "-o", "run.jsonl"),
    )
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "TERM": "dumb", "SLURM_CONF": str(slurm)},
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    assert len(jobs_of(slurm) - before) == 1, "one allocation for all of them"
    records = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    points = [one for one in records if one["type"] == "point"]
    assert {(one["variant"], one["pattern"], one["size_bytes"]) for one in points} == {
        (layer, pattern, size) for layer in layers for pattern in ("pingpong", "stream") for size in (8, 4096)
    }
    assert all(one["verified_bytes"] > 0 for one in points)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_no_process(
    netpipe: Callable[..., subprocess.Popen[str]],
    mpis: Mpis,
    tmp_path: Path,
    number: signal.Signals,
) -> None:
    there = [f"mpi@{name}" for name in mpis.there]
    if not there:
        pytest.skip("no MPI library is here")
    mark = secrets.token_hex(16)
    with netpipe("run", "--launches", "1", *there, "--budget", "60", NETPIPE_TEST_MARK=mark) as process:
        record = tmp_path / "run.jsonl"
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None:
            with contextlib.suppress(OSError):
                if '"type":"sample"' in record.read_text():
                    break
            time.sleep(0.05)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert list(all_with(mark)) == []
    records = [json.loads(line) for line in record.read_text().splitlines()]
    assert {one["variant"] for one in records if one["type"] == "sample"} <= set(there)
    assert records[-1]["type"] == "end"
    assert records[-1]["reason"] == "interrupted"
