# SPDX-License-Identifier: Apache-2.0
"""Archives that were compiled for programs, made fit for a module; and layers that stand on another one's libraries."""

from __future__ import annotations

import ctypes
import platform
import shutil
import struct
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fake_mpi import files, make_mpi, make_mpicc

from netpipe.failure import Failure
from netpipe.libraries.adding import discover, layers
from netpipe.libraries.adding.added import Added
from netpipe.libraries.adding.archives import movable
from netpipe.libraries.starting.description import Lines

if TYPE_CHECKING:
    from conftest import Netpipe

needs_tools = pytest.mark.skipif(
    platform.machine() != "x86_64" or not all(map(shutil.which, ("gcc", "ar"))),
    reason="it is for x86-64, and needs gcc and ar",
)


def run(*words: object, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*map(str, words)], cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Takes the address of data of another library, and calls a function of its own."""
    (tmp_path / "data.c").write_text("int foreign[4] = {7, 8, 9, 10};\n")
    (tmp_path / "one.c").write_text(
        "extern int foreign[]; static int own = 3; int third(void);\n"
        "int *where(void) { return foreign; }\nint sum(void) { return third() + own; }\n"
    )
    (tmp_path / "two.c").write_text(
        "extern int foreign[]; static int *kept; int third(void) { kept = foreign; return kept != 0 ? 108 : 0; }\n"
    )
    for words in (
        ("gcc", "-fPIC", "-shared", "-o", "libdata.so", "data.c"),
        ("gcc", "-fPIE", "-O0", "-c", "one.c"),
        ("gcc", "-fPIE", "-O0", "-c", "two.c"),
        ("ar", "rc", "libx.a", "one.o", "two.o"),
    ):
        assert run(*words, folder=tmp_path).returncode == 0
    return tmp_path / "libx.a"


LINK = (
    "gcc",
    "-shared",
    "-o",
    "x.so",
    "-Wl,--whole-archive",
    "libx.a",
    "-Wl,--no-whole-archive",
    "-Wl,-Bsymbolic",
)


@needs_tools
def test_it_links_into_a_module_and_finds_the_foreign_data(archive: Path) -> None:
    folder = archive.parent
    words = (*LINK, "-L.", "-ldata", f"-Wl,-rpath,{folder}", "-Wl,-z,defs")
    refused = run(*words, folder=folder)
    assert refused.returncode != 0
    assert "recompile with -fPIC" in refused.stderr
    before = archive.read_bytes()
    archive.write_bytes(movable(before))
    assert len(archive.read_bytes()) == len(before)
    done = run(*words, folder=folder)
    assert done.returncode == 0, done.stderr
    data = ctypes.CDLL(str(folder / "libdata.so"))
    module = ctypes.CDLL(str(folder / "x.so"))
    module.where.restype = ctypes.c_void_p
    assert module.where() == ctypes.addressof(ctypes.c_int.in_dll(data, "foreign"))
    assert module.sum() == 108 + 3


@needs_tools
def test_what_cannot_be_rewritten_is_left_to_the_linker(archive: Path) -> None:
    """two.c reads the foreign data itself, which takes one more instruction."""
    folder = archive.parent
    (folder / "two.c").write_text("extern int foreign; int third(void) { return foreign + 100; }\n")
    assert run("gcc", "-fPIE", "-O1", "-c", "two.c", folder=folder).returncode == 0
    assert run("ar", "rc", "libx.a", "two.o", folder=folder).returncode == 0
    archive.write_bytes(movable(archive.read_bytes()))
    done = run(*LINK, "-L.", "-ldata", folder=folder)
    assert done.returncode != 0
    assert "recompile with -fPIC" in done.stderr


@needs_tools
def test_made_fit_twice_is_made_fit_once(archive: Path) -> None:
    once = movable(archive.read_bytes())
    assert once != archive.read_bytes()
    assert movable(once) == once


def test_what_is_no_archive_of_this_processor_is_refused() -> None:
    with pytest.raises(Failure, match="not an archive"):
        movable(b"\x7fELF")
    elf = bytearray(b"\x7fELF\x02\x01" + bytes(122))
    struct.pack_into("<H", elf, 18, 183)  # AArch64
    member = b"x.o/".ljust(48) + b"128".ljust(10) + b"`\n"
    with pytest.raises(Failure, match="not for x86-64"):
        movable(b"!<arch>\n" + member + bytes(elf))
    struct.pack_into("<H", elf, 18, 62)
    struct.pack_into("<Q", elf, 40, 4096)  # sections behind its end
    struct.pack_into("<HH", elf, 58, 64, 3)
    with pytest.raises(Failure, match="cut off"):
        movable(b"!<arch>\n" + member + bytes(elf))
    assert movable(b"!<arch>\n") == b"!<arch>\n"


# ------------------------------------------------------------------------------------------------- on another layer


@pytest.fixture
def standing(modules: Path, tmp_path: Path) -> Path:
    """A layer over the libraries of mpi, beside mpi itself."""
    folder = tmp_path / "native/share/netpipe/modules/onmpi"
    folder.mkdir()
    (folder / "onmpi.c").write_text('#include "kit/shared.h"\n')
    (folder.parent / "kit").mkdir()
    (folder.parent / "kit" / "shared.h").write_text("/* */\n")
    (folder / "module.toml").write_text(
        'summary = "s"\nbuild = "library"\n[library]\ntitle = "ON"\nsource = "onmpi.c"\nheader = "onmpi.h"\n'
        'compiler = "mpicc"\nlauncher = "mpiexec"\nfamilies = "mpi"\narchives = "libon-FAMILY.a"\nflags = "-lm"\n'
        'get = "apt install libon-dev"\n'
    )
    return modules


def test_its_libraries_are_those_of_the_other_layer_and_its_archive_is_theirs(
    netpipe: Netpipe, standing: Path, tmp_path: Path
) -> None:
    mpicc = make_mpi(tmp_path / "opt", "mpich", '"4.0.2"')
    make_mpicc(mpicc, "mpich", '"4.0.2"', compiles='[ "${1#-print-file-name}" != "$1" ] && exit 0')
    said = netpipe("modules", "add", "onmpi", "--mpicc", str(mpicc))
    assert said.code == 3
    assert "there is no ON for MPICH 4.0.2: libon-mpich.a was not found; apt install libon-dev" in said.err
    assert files(standing) == []
    (tmp_path / "libon-mpich.a").write_bytes(b"!<arch>\n")
    prints = f'[ "$1" = -print-file-name=libon-mpich.a ] && {{ echo "{tmp_path}/libon-mpich.a"; exit 0; }}'
    make_mpicc(mpicc, "mpich", '"4.0.2"', compiles=f'{prints}; echo "$@" >"$0.call"')
    said = netpipe("modules", "add", "onmpi", "--mpicc", str(mpicc))
    assert said.code == 0, said.err
    assert files(standing) == ["onmpi@mpich.module", "onmpi@mpich.so"]
    words = (mpicc.parent / "mpicc.call").read_text().split()
    at = next(place for place, word in enumerate(words) if word.endswith("/libon-mpich.a"))
    assert words[at + 1 : at + 3] == ["-Wl,-Bsymbolic", "-lm"]
    assert f"{tmp_path}/libon-mpich.a" not in words  # a copy
    kit = [path.name for path in layers.sources(layers.one("onmpi"), []) if path.parent.name == "kit"]
    assert kit == ["shared.h"]


def test_it_is_not_proposed_beside_the_other_layer_and_its_modules_are_its_own(
    standing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert standing.is_dir()
    mpicc = make_mpicc(tmp_path / "bin" / "mpicc", "mpich", '"4.0.2"')
    monkeypatch.setenv("PATH", f"{mpicc.parent}:/usr/bin:/bin")
    lines = Lines({"compiler": str(mpicc)})
    there = [Added(tmp_path / f"{name}.module", lines) for name in ("onmpi@mpich", "mpi@mine")]
    (found,) = [one for one in discover.find(there, tmp_path) if one.compiler == mpicc]
    assert found.module == "mpi@mine"
    assert found.command.split()[:4] == ["netpipe", "modules", "add", "mpi"]
