# SPDX-License-Identifier: Apache-2.0
"""Cross-memory attach that the system refuses, for real: under a filter of system calls, as the seccomp profiles of
some containers are (bench/refusing.py).
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, WORKER
from mpi import Mpis

sys.path.insert(0, str(ROOT / "bench"))

from refusing import CALLS, refusing

pytestmark = [
    pytest.mark.skipif(not WORKER.is_file(), reason="netpipe-worker was not built"),
    pytest.mark.skipif(os.uname().machine not in CALLS, reason="no filter of calls for this processor"),
]

REFUSED = "Operation not permitted"


def call(words: list[str], folder: Path) -> str:
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=120, cwd=folder, check=False, env=os.environ
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def answer(words: list[str], folder: Path) -> str:
    """What the worker records of process_vm_readv."""
    facts: dict[str, Any] = json.loads(call(words, folder))
    found: str = facts["limits"]["process_vm_readv"]
    return found


def run(folder: Path, *words: str, refused: bool = True) -> list[dict[str, Any]]:
    """The findings of a short run."""
    netpipe = [sys.executable, "-m", "netpipe"]
    measured = [*netpipe, "run", *words, "-q", "-o", "run.jsonl"]
    call(refusing(measured) if refused else measured, folder)
    found: list[dict[str, Any]] = json.loads(call([*netpipe, "show", "--json"], folder))["findings"]
    return found


@pytest.fixture
def allowed(tmp_path: Path) -> None:
    """Skips where this machine refuses it by itself: there nothing can be told apart."""
    said = answer([str(WORKER), "environment"], tmp_path)
    if said != "allowed":
        pytest.skip(f"this machine refuses process_vm_readv: {said}")


@pytest.mark.usefixtures("allowed")
def test_the_facts_of_a_host_say_whether_the_call_is_allowed(tmp_path: Path) -> None:
    assert answer(refusing([str(WORKER), "environment"]), tmp_path) == REFUSED


@pytest.mark.usefixtures("allowed")
@pytest.mark.module("mpi")
def test_a_library_that_may_not_copy_once_is_named_with_the_reason(with_mpis: Mpis, tmp_path: Path) -> None:
    library = "mpi@openmpi:transport=shm"
    with_mpis.need("openmpi")
    words = ("shm", library, "--sizes", "64k,256k,1M", "--budget", "0.3", "--launches", "3")
    found = run(tmp_path, *words)
    (one,) = [one for one in found if one["rule"] == "extra-copy"]
    assert one["variant"] == library, "shm has its memory mapped"
    assert f"refuses process_vm_readv ({REFUSED})" in one["what"]
    assert "--cap-add=SYS_PTRACE" in one["remedy"]
    assert "restricted-ptrace" in {one["rule"] for one in found}
    allowed_found = {one["rule"] for one in run(tmp_path, *words, refused=False)}
    assert not allowed_found & {"extra-copy", "restricted-ptrace"}


@pytest.mark.usefixtures("allowed")
@pytest.mark.module("shm")
def test_shm_copies_what_is_not_in_its_own_memory_twice(tmp_path: Path) -> None:
    words = ("shm", "--sizes", "64k", "--budget", "0.1", "--buffers", "fresh", "--launches", "1")
    (one,) = [one for one in run(tmp_path, *words) if one["rule"] == "extra-copy"]
    assert "of them at 64 KiB" in one["what"]
    assert one["evidence"]["messages"]["value"] > 0
    assert not [one for one in run(tmp_path, *words, refused=False) if one["rule"] == "extra-copy"]


@pytest.mark.usefixtures("allowed")
@pytest.mark.module("mpi")
def test_a_library_that_stops_there_is_told_to_copy_twice(with_mpis: Mpis, tmp_path: Path) -> None:
    """MPICH 5.0.2 does not notice the refusal, and waits for ever."""
    with_mpis.need("mpich")
    netpipe = [sys.executable, "-m", "netpipe"]
    words = ["mpi@mpich", "--sizes", "8,1M", "--budget", "0.2", "--launches", "1", "--timeout", "8"]
    measured = [*netpipe, "run", *words, "-q", "-o", "run.jsonl"]
    done = subprocess.run(
        refusing(measured), capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False
    )
    assert done.returncode == 4, done.stderr
    found = json.loads(call([*netpipe, "show", "--json"], tmp_path))["findings"]
    (one,) = [one for one in found if one["rule"] == "measurement-failed"]
    assert f"refuses process_vm_readv ({REFUSED})" in one["cause"]
    assert one["remedy"].startswith("single_copy=none (MPICH: MPIR_CVAR_CH4_CMA_ENABLE=0)")
    experiment = shlex.split(one["experiment"])
    assert experiment[:3] == ["netpipe", "run", "mpi@mpich:single_copy=none"]
    call(refusing([*netpipe, *experiment[1:], "--budget", "0.2", "--launches", "1"]), tmp_path)
