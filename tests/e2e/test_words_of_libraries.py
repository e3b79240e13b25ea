# SPDX-License-Identifier: Apache-2.0
"""The variables that findings name are those that the modules set: each family's `settings` beside its header."""

from __future__ import annotations

import json
import subprocess

import pytest
from conftest import WORKER
from mpi import SIX, Mpis

from netpipe.libraries import family_of_version
from netpipe.libraries.adding.added import Added
from netpipe.libraries.settings import Setting

pytestmark = [
    pytest.mark.module("mpi"),
    pytest.mark.skipif(not WORKER.is_file(), reason="netpipe-worker was not built"),
]

# Option, value, what carries the messages as the option `transport` names it, and as a variant records it.
SETTINGS = (
    ("transport", "shm", "shm", "shm"),
    ("eager", "65536", "shm", "shm"),
    ("eager", "65536", "tcp", "tcp"),
    ("eager", "65536", "ucx_tcp", "ucx"),
    ("eager", "65536", "ofi_tcp", "libfabric"),
    ("rndv", "65536", "tcp", "tcp"),
    ("sndbuf", "65536", "tcp", "tcp"),
    ("rcvbuf", "65536", "tcp", "tcp"),
    ("sndbuf", "65536", "ucx_tcp", "ucx"),
    ("single_copy", "cma", "shm", "shm"),
    ("single_copy", "cma", "ucx_shm", "ucx"),
    ("single_copy", "none", "shm", "shm"),
    ("single_copy", "none", "ucx_shm", "ucx"),
    ("yield", "yes", "shm", "shm"),
)
OWN_TCP = ("openmpi", "openmpi4", "lam")  # in the others TCP is that of UCX or libfabric
LEFT_OUT = (
    ("lam", "eager", "shm"),  # it has two kinds of shared memory, and a run does not say which was used
    ("mpich", "yield", "shm"),  # device ch4 polls all the same, so no finding names it
    ("mpich4", "yield", "shm"),
    ("mpich4", "single_copy", "shm"),  # it has no such variable: a run with it is refused after MPI_Init
)
LEAST = {"openmpi": 12, "mpich": 5, "openmpi4": 12, "mpich4": 4, "impi": 5, "lam": 3}  # that are compared


def environment(library: Added, settings: str) -> dict[str, str] | None:
    """What the worker says; None: this build cannot be told so."""
    words = [WORKER, "settings", str(library.file), f"{library.name}:{settings}", "2"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    found: dict[str, str] = json.loads(done.stdout)["environment"] if done.returncode == 0 else {}
    return found if done.returncode == 0 else None


@pytest.mark.parametrize("library", SIX)
def test_the_environment_of_a_setting_is_what_the_finding_says(with_mpis: Mpis, library: str) -> None:
    (added,) = with_mpis.need(library)
    family = family_of_version(added.version)
    assert family is not None
    compared = 0
    for name, value, transport, below in SETTINGS:
        if transport == "tcp" and library not in OWN_TCP:
            continue
        said = family.settings(Setting(name, value, added.version, below))
        plain = environment(added, f"transport={transport}")
        whole = plain if name == "transport" else environment(added, f"transport={transport},{name}={value}")
        if plain is None or whole is None or (library, name, transport) in LEFT_OUT:
            continue
        assert said.items() <= whole.items(), name
        assert whole.items() - plain.items() <= said.items(), name
        compared += bool(said)
    assert compared >= LEAST[library], compared
