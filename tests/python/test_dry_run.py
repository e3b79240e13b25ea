# SPDX-License-Identifier: Apache-2.0
"""netpipe run --dry-run refuses what a run refuses before it starts anything. test_cli_run.py has more of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Netpipe


def test_a_dry_run_refuses_a_library_whose_launcher_has_gone(netpipe: Netpipe, tmp_path: Path) -> None:
    description = tmp_path / "native" / "lib" / "netpipe" / "modules" / "mpi@one.module"
    description.parent.mkdir(parents=True)
    mpirun, module = tmp_path / "mpirun", tmp_path / "mpi@one.so"
    for file in (mpirun, module):
        file.touch()
    mpirun.chmod(0o755)
    description.write_text(f"netpipe-module 1\nname mpi@one\nfile {module}\nlauncher openmpi {mpirun}\n")
    words = ("run", "mpi@one", "--sizes", "8")
    assert netpipe(*words, "--dry-run", fake="libraries").code == 0
    for file, says in (
        (mpirun, "mpirun, does not exist any more"),
        (module, "mpi@one.so does not exist any more"),
    ):
        file.rename(tmp_path / "away")
        said = netpipe(*words, "--dry-run", fake="libraries")
        assert said.code == 3
        assert says in said.err
        assert said.err.endswith(netpipe(*words, fake="libraries").err), "the same sentence"
        (tmp_path / "away").rename(file)
