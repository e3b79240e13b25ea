# SPDX-License-Identifier: Apache-2.0
"""Which library a compiler is for, and where libraries that can be added are found."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fake_mpi import make_mpi, make_mpicc, needs_cc, script

from netpipe.failure import Failure
from netpipe.libraries.adding import add, added, compiler, discover, launcher, layers

if TYPE_CHECKING:
    from conftest import Netpipe


# ------------------------------------------------------------------------------------------- what a compiler is


@needs_cc
@pytest.mark.parametrize(
    ("macros", "title"),
    [
        (
            {"OMPI_MAJOR_VERSION": "4", "OMPI_MINOR_VERSION": "1", "OMPI_RELEASE_VERSION": "4"},
            "Open MPI 4.1.4",
        ),
        ({"MPICH_VERSION": '"4.0.2"'}, "MPICH 4.0.2"),
        ({"MPICH_VERSION": '"3.4a2"', "I_MPI_VERSION": '"2021.19.0"'}, "Intel MPI 2021.19.0"),
        ({"MPICH_VERSION": '"3.4"', "MVAPICH2_VERSION": '"2.3.7"'}, "MVAPICH 2.3.7"),
        (
            {"LAM_MPI": "1", "LAM_MAJOR_VERSION": "7", "LAM_MINOR_VERSION": "1", "LAM_RELEASE_VERSION": "4"},
            "LAM/MPI 7.1.4",
        ),
        ({"MPI_ABI_VERSION": "1", "MPI_ABI_SUBVERSION": "0", "MPI_VERSION": "5"}, "MPI standard ABI 1.0"),
        ({"MPI_VERSION": "3", "MPI_SUBVERSION": "1"}, "an unknown implementation of MPI 3.1"),
    ],
)
def test_the_header_says_whose_it_is(tmp_path: Path, macros: dict[str, str], title: str) -> None:
    (tmp_path / "mpi.h").write_text("".join(f"#define {name} {value}\n" for name, value in macros.items()))
    mpicc = script(tmp_path / "mpicc", f'exec cc -I "{tmp_path}" "$@"')
    assert compiler.identify(layers.one("mpi"), mpicc).title == title


@needs_cc
def test_a_simulators_version_is_in_another_header_that_the_compiler_takes_for_the_systems(
    tmp_path: Path,
) -> None:
    (tmp_path / "simgrid").mkdir()
    (tmp_path / "mpi.h").write_text("#define SMPI_H\n#define MPI_VERSION 3\n")
    (tmp_path / "simgrid" / "version.h").write_text(
        "#define SIMGRID_VERSION_MAJOR 3\n#define SIMGRID_VERSION_MINOR 32\n"
    )
    smpicc = script(tmp_path / "smpicc", f'exec cc -isystem "{tmp_path}" "$@"')
    library = compiler.identify(layers.one("mpi"), smpicc)
    assert (library.title, library.family.name) == ("SimGrid 3.32", "smpi")
    smpirun = script(tmp_path / "smpirun", "echo 'SimGrid version 3.32'")
    assert launcher.find(layers.one("mpi"), library, None) == launcher.Found("smpi", smpirun)


@needs_cc
def test_a_header_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "mpi.h").write_text("int not_that_mpi;\n")
    with pytest.raises(Failure, match="is not a compiler for MPI"):
        compiler.identify(layers.one("mpi"), script(tmp_path / "mpicc", f'exec cc -I "{tmp_path}" "$@"'))


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "mpicc").symlink_to("mpicc.a")
    (tmp_path / "mpicc.a").symlink_to("mpicc")
    assert compiler.settle(tmp_path / "mpicc").parent == tmp_path
    with pytest.raises(Failure, match="does not exist"):
        compiler.identify(layers.one("mpi"), tmp_path / "mpicc")


def test_folders_for_the_loader_are_left_out_in_every_spelling() -> None:
    words = ["cc", "-L/m", "-Wl,-rpath", "-Wl,/m", "-Wl,--enable-new-dtags", "-lmpi", "-Wl,-rpath=/n", "-Xlinker",
             "--enable-new-dtags", "-Xlinker", "-rpath", "-Xlinker", "/n", "-Wl,-rpath,/o"]  # fmt: skip
    assert add.without_rpath(words) == [
        "cc", "-L/m", "-Wl,--enable-new-dtags", "-lmpi", "-Wl,--enable-new-dtags"
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------------------ finding


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any MPI; the folder of the project in it."""
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "MODULEPATH", "SPACK_ROOT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(discover.sys, "prefix", str(tmp_path / "python"))
    monkeypatch.setattr(discover, "usual_places", lambda: iter(()))
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def found(project: Path, there: tuple[added.Added, ...] = ()) -> list[tuple[str, str]]:
    return [(str(one.compiler), one.where) for one in discover.find(there, project)]


def test_there_is_none(nowhere: Path) -> None:
    assert found(nowhere) == []


def test_on_path_each_once_by_its_own_name(nowhere: Path, tmp_path: Path, monkeypatch: Any) -> None:
    folder = make_mpi(tmp_path / "usr").parent
    (folder / "mpicc").rename(folder / "mpicc.openmpi")
    (folder / "mpicc").symlink_to("mpicc.openmpi")
    make_mpicc(folder / "mpicc.mpich", "mpich", '"4.0.2"')
    script(folder / "mpicc_abi", "")
    (folder / "mpicc.txt").touch()
    (tmp_path / "bin").symlink_to(folder)
    monkeypatch.setenv("PATH", f"{folder}:{tmp_path / 'bin'}:/nowhere")
    assert found(nowhere) == [
        (str(folder / "mpicc.openmpi"), "PATH"),
        (str(folder / "mpicc.mpich"), "PATH"),
    ]


def test_in_virtual_environments(nowhere: Path, tmp_path: Path, monkeypatch: Any) -> None:
    places = [
        tmp_path / "python",
        tmp_path / "python/mpi/mpich",
        tmp_path / "active",
        nowhere / ".venv/mpi/openmpi",
    ]
    for place in places:
        make_mpi(place)
    (nowhere / ".venv/pyvenv.cfg").touch()
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "active"))
    assert found(nowhere) == [(f"{place}/bin/mpicc", f"virtual environment {place}") for place in places]


def test_in_environment_modules(nowhere: Path, tmp_path: Path, monkeypatch: Any) -> None:
    tcl, lua, joined, other = (make_mpi(tmp_path / name) for name in ("tcl", "lua", "joined", "other"))
    (tmp_path / "modulefiles/openmpi").mkdir(parents=True)
    (tmp_path / "modulefiles/openmpi/5.0").write_text(
        f"#%Module\nset base {{{tmp_path}}}\nset root $base/tcl\n"
        'prepend-path PATH "${root}/bin"\nprepend-path PATH $env(X)/bin\n'
    )
    (tmp_path / "modulefiles/mpich.lua").write_text(f'prepend_path("PATH", "{lua.parent}")\n')
    (tmp_path / "modulefiles/joined.lua").write_text(
        f'local base = "{tmp_path}/joined"\n'
        'prepend_path("PATH", pathJoin(base, "bin"))\nprepend_path("PATH", unknown)\n'
    )
    (tmp_path / "modulefiles/gcc").write_text(
        f"prepend-path MANPATH {other.parent}\nprepend-path PATH /nowhere\n"
    )
    monkeypatch.setenv("MODULEPATH", f"{tmp_path / 'modulefiles'}:/nowhere")
    assert sorted(found(nowhere)) == [
        (str(joined), "environment module joined"),
        (str(lua), "environment module mpich"),
        (str(tcl), "environment module openmpi/5.0"),
    ]


def test_in_spack_trees(nowhere: Path, tmp_path: Path, monkeypatch: Any) -> None:
    old = make_mpi(tmp_path / "home/spack/opt/spack/linux-x/gcc-12/mpich-5-abc")
    new = make_mpi(tmp_path / "tree/opt/spack/linux/openmpi-5-def")
    monkeypatch.setenv("SPACK_ROOT", str(tmp_path / "tree"))
    assert found(nowhere) == [(str(new), "spack, openmpi-5-def"), (str(old), "spack, mpich-5-abc")]


def test_one_that_does_not_work_is_found_with_its_reason(
    nowhere: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    script(tmp_path / "bin/mpicc", "echo 'mpicc: error: no compiler' >&2; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (one,) = discover.find([], nowhere)
    assert one.title == ""
    assert one.problem is not None
    assert "no compiler" in one.problem


def test_the_doctor_names_the_layer_of_each_library(
    netpipe: Netpipe, nowhere: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    oshcc = make_mpicc(tmp_path / "bin/oshcc", "openmpi", "4 1 4")
    monkeypatch.setenv("PATH", f"{oshcc.parent}:/usr/bin:/bin")
    monkeypatch.setenv("COLUMNS", "300")
    look = discover.compilers
    monkeypatch.setattr(
        discover,
        "compilers",
        lambda folder, names: look(folder, names) if folder == oshcc.parent else iter(()),
    )
    out = netpipe("doctor", "--no-yardstick").out
    assert "No MPI library was found" in out, "an OpenSHMEM is none"
    assert re.search(r"^libraries *$", out, re.MULTILINE)
    assert "(shmem; PATH): " in out
    (library,) = json.loads(netpipe("doctor", "--no-yardstick", "--json").out)["libraries"]
    assert (library["layer"], library["compiler"]) == ("shmem", str(oshcc))
    assert library["mpicc"] == library["compiler"], "its name in earlier versions"
    of_another = "netpipe modules add armci --mpicc PATH, where PATH is the compiler of a library for mpi"
    assert of_another in out
    said = netpipe("run", "armci")
    assert said.code == 3
    assert (
        "where PATH is the compiler of a library for mpi ('netpipe doctor' shows those of this machine)"
        in said.err
    )


def test_the_doctor_says_which_command_adds_each(
    netpipe: Netpipe, modules: Path, nowhere: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    said = netpipe("doctor", "--no-yardstick")
    assert "No MPI library was found" in said.out
    mpicc = make_mpi(tmp_path / "opt")
    monkeypatch.setenv("PATH", f"{mpicc.parent}:/usr/bin:/bin")
    monkeypatch.setattr(
        discover, "compilers", lambda folder, _: iter([mpicc] if folder == mpicc.parent else [])
    )
    monkeypatch.setenv("COLUMNS", "300")
    command = f"netpipe modules add mpi --mpicc {mpicc}"
    said = netpipe("doctor", "--no-yardstick")
    assert f"→ {command}\n" in "\n".join(line.rstrip() for line in said.out.splitlines()) + "\n"
    assert netpipe(*command.split()[1:]).code == 0
    assert "✓ Open MPI 4.1.4 is mpi@openmpi" in netpipe("doctor", "--no-yardstick").out
    answer = json.loads(netpipe("doctor", "--no-yardstick", "--json").out)
    assert ("mpi@openmpi", str(mpicc)) in {(one["module"], one["mpicc"]) for one in answer["mpi"]}
    assert answer["libraries"] == answer["mpi"]
    monkeypatch.setenv("BROKEN", "1")
    assert "mpi@openmpi: libmpi.so.12 is missing" in netpipe("doctor", "--no-yardstick").out
