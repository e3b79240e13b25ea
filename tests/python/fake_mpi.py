# SPDX-License-Identifier: Apache-2.0
"""MPI libraries whose compilers and launchers are shell scripts, and a worker that describes any file as a module."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from netpipe.libraries import families, launchers
from netpipe.libraries.adding import compiler

if TYPE_CHECKING:
    from conftest import Netpipe

SAYS = {
    "openmpi": "mpirun (Open MPI) 4.1.4",
    "mpich": "HYDRA build details:",
    "intel": "Intel(R) MPI Library for Linux* OS, Version 2021.19.0\nHYDRA build details:",
    "lam": "LAM was designed to be run by individual users",
    "srun": "slurm 22.05.8",
    "none": "hello",
}
FAMILIES = {one.module or one.name: one for one in families("mpi")}
MPI = Path(__file__).resolve().parents[2] / "src" / "modules" / "mpi"
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler (cc)")


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def make_mpicc(path: Path, kind: str, version: str, *, compiles: str = "", shows: str = "cc -lmpi") -> Path:
    """A compiler whose module is a text: the library's name and version. `compiles` runs before that."""
    return script(
        path,
        f"""
case "$1" in
  -E) echo 'int x;'; echo '{compiler.WORD} {FAMILIES[kind].name} {version}'; exit 0 ;;
  -show) echo '{shows}'; exit 0 ;;
esac
{compiles}
while [ $# != 0 ]; do [ "$1" = -o ] && echo '{kind} {version}' >"$2"; shift; done""",
    )


def make_mpi(prefix: Path, kind: str = "openmpi", version: str = "4 1 4") -> Path:
    """A library: its mpicc, with the launcher beside it."""
    own = FAMILIES[kind].launcher
    which = own.name if own else "mpich"
    for name in launchers()[which].programs:
        script(prefix / "bin" / name, f"echo '{SAYS[which]}'")
    return make_mpicc(prefix / "bin" / ("mpicc_abi" if kind == "abi" else "mpicc"), kind, version)


@pytest.fixture
def modules(fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of added modules, of a worker that finds in any file what its text says."""
    script(
        fake,
        f"""
if [ "$1" != describe ]; then exec "{sys.executable}" -S -E "{Path(__file__).with_name("fake_worker.py")}" "$@"; fi
[ -n "$BROKEN" ] && {{ echo "netpipe-worker: libmpi.so.12 is missing" >&2; exit 3; }}
printf 'netpipe-module 1\\nname %s\\nfile %s\\nversion %s\\n' "$4" "$2" "${{VERSION:-$(cat "$2")}}"
printf 'option\\tsndbuf\\tsize\\t0\\t0\\t9\\t\\tbytes\\tyes\\thelp\\n'
printf 'summary %s\\n' "$NEEDED" """,
    )
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    source = tmp_path / "native" / "share" / "netpipe" / "modules" / "mpi" / "mpi.c"
    header = tmp_path / "native" / "include" / "netpipe" / "module.h"
    for file in (source, header):
        file.parent.mkdir(parents=True)
        file.write_text("/* */\n")
    shutil.copy(MPI / "module.toml", source.parent)
    folder = tmp_path / "native" / "lib" / "netpipe" / "modules"
    folder.mkdir(parents=True)
    return folder


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def listed(netpipe: Netpipe) -> list[dict[str, Any]]:
    said = netpipe("modules", "--json")
    assert (said.code, said.err) == (0, "")
    found: list[dict[str, Any]] = json.loads(said.out)["modules"]
    return found
