# SPDX-License-Identifier: Apache-2.0
"""netpipe's own layers with any number of ranks on three hosts of a lab, which its own ssh reaches, and a stand-in for
Slurm's srun.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Outcome, parse

COMMAND = (sys.executable, "-m", "netpipe")
LIMIT_S = 120.0
QUICK = ("--sizes", "1,8,65536", "--budget", "0.1", "--launches", "1", "--verify")

Run = Callable[..., Outcome]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """run("tcp", ranks=6): one measurement on the three hosts, started from the first of them. after=1: without that
    one.
    """
    folder = tmp_path_factory.mktemp("lab")
    name = f"m{secrets.token_hex(2)}h"  # a lab begins and ends with a letter
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "TERM": "dumb", "COLUMNS": "160"}

    def call(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, "lab", *words],
            cwd=folder,
            env={**environment, **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )

    made = call("up", "--name", name, "--hosts", "3", "--json")
    if made.returncode == 3:
        pytest.skip(made.stderr.strip())
    assert made.returncode == 0, made.stderr
    hosts = [host["name"] for host in json.loads(made.stdout)["hosts"]]

    def measure(*arguments: str, ranks: int = 6, only: int = 3, after: int = 0, **more: str) -> Outcome:
        path = folder / "run.jsonl"
        path.unlink(missing_ok=True)
        given = ("--hosts", ",".join(hosts[after:][:only]), "--ranks", str(ranks))
        words = ("exec", hosts[0], "--", *COMMAND, "run", *arguments, *QUICK, *given, "-o", str(path))
        done = call(*words, **more)
        records = parse(path.read_text()) if path.exists() else []
        return Outcome(done.returncode, done.stderr + done.stdout, [], records)

    try:
        yield measure
    finally:
        gone = call("down", name)
        assert gone.returncode == 0, gone.stderr


def placed(opened: dict[str, Any]) -> list[str]:
    return [rank["host"][-1] for rank in opened["ranks"]]


def why_not(listing: dict[str, Any], variant: str) -> str:
    """Why the module of this variant cannot be measured here; "": it can."""
    name = variant.partition(":")[0]
    module = next((one for one in listing["modules"] if one["name"] == name), {})
    return "" if module.get("available") else str(module.get("reason") or f"{name} is not built")


@pytest.mark.module("tcp")
def test_six_ranks_on_three_hosts_by_every_pattern_that_has_more_than_two(run: Run) -> None:
    patterns = ("pingpong", "ring", "incast", "pairs")
    done = run("tcp", "tcp:wait=poll", *(word for one in patterns for word in ("--pattern", one)))
    assert done.code == 0, done.said
    assert {(p["variant"], p["pattern"]) for p in done.of("point")} == {
        (variant, pattern) for variant in ("tcp", "tcp:wait=poll") for pattern in patterns
    }
    assert all(p["verified_bytes"] > 0 for p in done.of("point") if p["pattern"] != "pairs")
    for opened in done.of("variant"):
        assert placed(opened) == ["1", "1", "2", "2", "3", "3"]
        local = [rank["settings"]["local"].split()[0] for rank in opened["ranks"]]
        assert len(set(local)) == 3, "each host talks from its own address"
    assert [one["rank"] for one in done.of("environment")] == [0, 2, 4]


@pytest.mark.parametrize(
    "variant",
    [
        pytest.param("udp", marks=pytest.mark.module("udp")),
        pytest.param("zmq", marks=pytest.mark.module("zmq")),
        pytest.param("nng", marks=pytest.mark.module("nng")),
        pytest.param("grpc", marks=pytest.mark.module("grpc")),
        pytest.param("grpc:security=tls", marks=pytest.mark.module("grpc")),
        pytest.param("ucx:tls=tcp+self", marks=pytest.mark.module("ucx")),
        pytest.param("libfabric:provider=tcp;ofi_rxm", marks=pytest.mark.module("libfabric")),
        pytest.param("pvm", marks=pytest.mark.module("pvm")),
        pytest.param("pvm:route=direct", marks=pytest.mark.module("pvm")),
    ],
)
def test_other_layers_between_hosts(run: Run, listing: dict[str, Any], variant: str) -> None:
    if why := why_not(listing, variant):
        pytest.skip(why)
    done = run(variant, ranks=4, only=2)
    assert done.code == 0, done.said
    assert len(done.of("point")) + len(done.of("skipped")) == 3
    assert done.of("point")
    assert all(p["verified_bytes"] > 0 for p in done.of("point"))
    (opened,) = done.of("variant")
    assert placed(opened) == ["1", "1", "2", "2"]


@pytest.mark.module("udp")
def test_a_cast_reaches_the_ranks_of_all_hosts(run: Run, listing: dict[str, Any]) -> None:
    if not any(one["name"] == "udp" and one["available"] for one in listing["modules"]):
        pytest.skip("udp is not available")
    patterns = ("cast", "cast:by=sends")
    done = run("udp", *(word for one in patterns for word in ("--pattern", one)))
    assert done.code == 0, done.said
    assert {(p["pattern"], p["size_bytes"]) for p in done.of("point")} == {
        (pattern, size) for pattern in patterns for size in (1, 8, 65536)
    }
    assert all(p["verified_bytes"] > 0 for p in done.of("point"))
    (opened,) = done.of("variant")
    assert placed(opened) == ["1", "1", "2", "2", "3", "3"]
    groups = {rank["settings"]["cast_group"] for rank in opened["ranks"]}
    assert len(groups) == 1
    assert groups.pop().startswith("239.255.")


def without_pvm(listing: dict[str, Any]) -> bool:
    return not any(one["name"] == "pvm" and one["available"] for one in listing["modules"])


@pytest.mark.module("pvm")
def test_daemons_of_three_hosts_know_each_other(run: Run, listing: dict[str, Any]) -> None:
    if without_pvm(listing):
        pytest.skip("pvm is not available")
    done = run("pvm", "pvm:route=direct", "--pattern", "incast")
    assert done.code == 0, done.said
    assert len(done.of("point")) == 2 * 3
    assert all(p["verified_bytes"] > 0 for p in done.of("point"))
    for opened in done.of("variant"):
        assert placed(opened) == ["1", "1", "2", "2", "3", "3"]
        assert len({rank["settings"]["local_address"] for rank in opened["ranks"]}) == 3


@pytest.mark.module("pvm")
def test_daemons_are_started_on_hosts_that_are_all_others(run: Run, listing: dict[str, Any]) -> None:
    """The first one runs where netpipe does, and carries nothing."""
    if without_pvm(listing):
        pytest.skip("pvm is not available")
    done = run("pvm", "pvm:route=direct", ranks=2, only=2, after=1)
    assert done.code == 0, done.said
    assert [opened["below"] for opened in done.of("variant")] == ["udp", "tcp"]
    for opened in done.of("variant"):
        assert placed(opened) == ["2", "3"]
        near, far = (rank["settings"] for rank in opened["ranks"])
        assert near["local_address"] == far["peer_address"]
        assert near["peer_address"] == far["local_address"]
    assert all(p["verified_bytes"] > 0 for p in done.of("point"))


@pytest.mark.module("tcp")
def test_a_host_far_away_may_have_all_ranks(run: Run) -> None:
    done = run("tcp", ranks=2, only=1)
    assert done.code == 0, done.said
    assert placed(done.of("variant")[0]) == ["1", "1"]


# ------------------------------------------------------------------------------------------------------------- srun

# As srun with --distribution=arbitrary and --export=ALL: a task for each line of SLURM_HOSTFILE, on that host. The ssh
# of a lab begins with a clean environment, so the variables stand in the command.
SRUN = """#!{python}
import os, pathlib, shlex, subprocess, sys
words = sys.argv[1:]
with open(sys.argv[0] + ".called", "a") as log:
    log.write(" ".join(words) + "\\n")
while words[0].startswith("--"):
    del words[0]
known = [name + "=" + value for name, value in os.environ.items()]
hosts = pathlib.Path(os.environ["SLURM_HOSTFILE"]).read_text().split()
tasks = [
    subprocess.Popen(
        ["ssh", host, shlex.join(["env", *known, "SLURM_PROCID=" + str(task), *words])],
        stdin=subprocess.DEVNULL,
    )
    for task, host in enumerate(hosts)
]
sys.exit(max(task.wait() for task in tasks))
"""


@pytest.mark.module("tcp", "zmq", "nng", "grpc")
def test_srun_starts_the_ranks_of_layers_on_three_hosts(
    run: Run, listing: dict[str, Any], tmp_path: Path
) -> None:
    srun = tmp_path / "srun"
    srun.write_text(SRUN.format(python=sys.executable))
    srun.chmod(0o755)
    variants = [one for one in ("tcp", "zmq", "nng", "grpc") if not why_not(listing, one)]
    patterns = ("pingpong", "ring")
    path = f"{tmp_path}:{os.environ['PATH']}"
    words = (word for one in patterns for word in ("--pattern", one))
    done = run(*variants, *words, SLURM_JOB_ID="7", PATH=path)
    assert done.code == 0, done.said
    assert {(p["variant"], p["pattern"], p["size_bytes"]) for p in done.of("point")} == {
        (variant, pattern, size) for variant in variants for pattern in patterns for size in (1, 8, 65536)
    }
    assert all(p["verified_bytes"] > 0 for p in done.of("point"))
    placements = [placed(opened) for opened in done.of("variant")]
    assert placements == [["1", "1", "2", "2", "3", "3"]] * len(variants)
    (call,) = srun.with_suffix(".called").read_text().splitlines()  # one step for all variants
    assert "--mpi=none --ntasks=6" in call
    assert "--nodes=3" in call
    assert "NETPIPE_JOIN_SECRET" not in call
