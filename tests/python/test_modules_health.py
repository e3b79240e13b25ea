# SPDX-License-Identifier: Apache-2.0
"""netpipe modules: which of the libraries that were added still work, and what is wrong with the others."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fake_mpi import files, listed, make_mpi, make_mpicc

from netpipe.libraries.adding import added
from netpipe.libraries.starting import description

if TYPE_CHECKING:
    from conftest import Netpipe


@pytest.fixture
def healthy(netpipe: Netpipe, modules: Path, tmp_path: Path) -> Path:
    """The prefix of a library whose module has been added."""
    assert netpipe("modules", "add", "mpi", "--mpicc", str(make_mpi(tmp_path / "opt"))).code == 0
    return tmp_path / "opt"


def ill(netpipe: Netpipe) -> str:
    (one,) = listed(netpipe)
    assert one["healthy"] is False
    said = netpipe("modules")
    assert said.code == 0
    assert f"✗ {one['name']}" in said.out
    assert one["problem"] in said.out
    sentence: str = one["problem"]
    return sentence


def test_a_library_that_was_removed(netpipe: Netpipe, healthy: Path) -> None:
    shutil.rmtree(healthy)
    assert "mpirun does not exist any more" in ill(netpipe)


def test_a_module_without_its_file(netpipe: Netpipe, healthy: Path, modules: Path) -> None:
    (modules / "mpi@openmpi.so").unlink()
    assert "mpi@openmpi.so does not exist any more" in ill(netpipe)


def test_a_library_that_cannot_be_loaded(netpipe: Netpipe, healthy: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("BROKEN", "1")
    assert "libmpi.so.12 is missing" in ill(netpipe)


def test_a_library_of_another_version(netpipe: Netpipe, healthy: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("VERSION", "openmpi 9")
    assert "was openmpi 4 1 4 when it was added and is now openmpi 9" in ill(netpipe)


def test_a_launch_loads_a_module_only_where_a_file_has_gone_that_was_loaded_with_it(
    healthy: Path, modules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, library = modules / "mpi@openmpi.module", tmp_path / "libmpi.so.12"
    path.write_text(f"{path.read_text()}loaded {library}\n")
    library.touch()
    monkeypatch.setenv("BROKEN", "1")  # it cannot be loaded
    assert added.lost(description.read(path)) is None
    library.unlink()
    why = added.lost(description.read(path)) or ""
    assert why.startswith(
        "libmpi.so.12 is missing; if the library was removed or replaced, add it again (netpipe "
    )
    monkeypatch.delenv("BROKEN")
    assert added.lost(description.read(path)) is None  # it is found elsewhere
    (modules / "mpi@openmpi.so").unlink()
    assert "mpi@openmpi.so does not exist any more; add it again" in (
        added.lost(description.read(path)) or ""
    )


def test_headers_of_another_version(netpipe: Netpipe, healthy: Path) -> None:
    make_mpicc(healthy / "bin" / "mpicc", "openmpi", "4 1 6")
    (one,) = listed(netpipe)
    assert one["healthy"] is True
    assert "now compiles for Open MPI 4.1.6" in one["advice"]
    assert "! mpi@openmpi" in netpipe("modules").out


def test_a_new_source(netpipe: Netpipe, healthy: Path, tmp_path: Path) -> None:
    (tmp_path / "native/share/netpipe/modules/mpi/mpi.c").write_text("/* better */\n")
    (one,) = listed(netpipe)
    assert one["healthy"] is True
    assert f"netpipe modules add mpi --mpicc {healthy}/bin/mpicc --name openmpi" in one["advice"]
    assert netpipe("modules", "add", "mpi", "--mpicc", str(healthy / "bin/mpicc")).code == 0
    assert listed(netpipe)[0]["advice"] is None


@pytest.mark.parametrize(
    "text", ["", "garbage\n", "netpipe-module 2\nname x\n", "netpipe-module 1\nname x\n", "\xff\xfe"]
)
def test_a_description_that_is_none(netpipe: Netpipe, healthy: Path, modules: Path, text: str) -> None:
    (modules / "mpi@openmpi.module").write_bytes(text.encode("latin-1"))
    assert "mpi@openmpi.module" in ill(netpipe)
    assert netpipe("modules", "remove", "openmpi").code == 0
    assert files(modules) == []


def test_the_recorded_environment_is_the_one_it_is_looked_at_in(
    netpipe: Netpipe, modules: Path, tmp_path: Path
) -> None:
    mpicc = make_mpi(tmp_path / "opt")
    assert netpipe("modules", "add", "mpi", "--mpicc", str(mpicc), "--env", "NEEDED=yes").code == 0
    assert "summary yes" in (modules / "mpi@openmpi.module").read_text()
    one = added.one("openmpi")
    assert "summary yes" in added.describe(one.file, one.name, {"NEEDED": "yes"})
    assert added.problem(one) is None


def test_a_name_that_was_not_added(netpipe: Netpipe, healthy: Path, modules: Path) -> None:
    said = netpipe("modules", "remove", "openmpi", "opnmpi")
    assert said.code == 2
    assert "did you mean 'openmpi'?" in said.err
    assert files(modules) != []  # all or nothing
    assert netpipe("modules", "--json", "remove", "openmpi").code == 2


def test_names_are_completed(healthy: Path) -> None:
    from netpipe.cli.modules import complete_added

    assert [item.value for item in complete_added("op")] == ["openmpi"]
    assert complete_added("x") == []
