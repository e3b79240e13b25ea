# SPDX-License-Identifier: Apache-2.0
"""The families, and the example of docs/how-to/add-a-family.md, which is added as one folder and recognised."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fake_mpi import needs_cc

from netpipe.libraries import can_start, families, family_of, launchers
from netpipe.libraries.adding import layers
from netpipe.libraries.starting.description import Description

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "add-a-family.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


# An mpi.h of Example MPI with just enough macros, so that no library is needed.
MACROS = {
    "EXAMPLE_MPI": 1,
    "EXAMPLE_MAJOR": 3,
    "EXAMPLE_MINOR": 7,
    "MPI_VERSION": 2,
    "MPI_SUBVERSION": 0,
    "MPI_Send": 0,
}
MPI_H = "".join(f"#define {name} {value}\n" for name, value in MACROS.items())
MPI_H += "int MPI_Init(int*, char***);\n"
SEE = """
import sys
from pathlib import Path
from netpipe.libraries import families, launchers
from netpipe.libraries.adding import compiler, launcher, layers
layer = layers.one("mpi")
library = compiler.identify(layer, Path(sys.argv[1]))
found = launcher.find(layer, library, None)
print(library.title, found.kind, found.path.name)
print(layers.family_table(layer, [library.family]))
"""


@needs_cc
def test_the_example_of_the_page_is_a_family(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "python", tmp_path / "python", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("src/modules/mpi", "src/modules/kit", "include"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (text,), (header,) = blocks("python"), blocks("c")
    folder = tmp_path / "python/netpipe/libraries/example"
    folder.mkdir()
    (folder / "__init__.py").write_text(text)
    (folder / "family.h").write_text(header)
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "mpi.h").write_text(MPI_H)
    for name, line in (("mpicc", f'exec cc -I "{bin_}" "$@"'), ("examplerun", "echo Example MPI 3.7")):
        (bin_ / name).write_text(f"#!/bin/sh\n{line}\n")
        (bin_ / name).chmod(0o755)
    # A process of its own that imports the copy: an editable installation would bring the checkout's package.
    main = f"import sys; sys.meta_path = [f for f in sys.meta_path if 'editable' not in type(f).__module__]\n{SEE}"
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; sys.path.insert(0, {str(tmp_path / 'python')!r})\n{main}",
            bin_ / "mpicc",
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    said, _, table = done.stdout.partition("\n")
    assert said == "Example MPI 3.7 example examplerun"
    assert "&example_family" in table
    # Its header compiles, and its tables are complete: with names and types of MPI that no library is needed for.
    program = tmp_path / "program.c"
    program.write_text(
        '#include "library/mpi_settings.h"\n' + table + "int main(void) { return families[0]->set == NULL || "
        'strcmp(families[0]->refusals[0].option, "eager") != 0 || families[1] != NULL; }\n'
    )
    folders = [
        word
        for one in (bin_, tmp_path / "src/modules/mpi", tmp_path / "src/modules", tmp_path / "include")
        for word in ("-I", one)
    ]
    built = subprocess.run(
        ["cc", "-std=gnu17", "-D_GNU_SOURCE", *folders, "-o", tmp_path / "program", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert built.returncode == 0, built.stderr
    assert subprocess.run([tmp_path / "program"], check=False, timeout=10).returncode == 0


def test_every_family_is_complete() -> None:
    for one in families():
        assert one.headers, one.name
        assert one.layer in layers.all_()
        assert one.launcher is None or launchers()[one.launcher.name] is one.launcher
        if one.header is not None:
            assert f"static const struct family {one.name}_family" in one.header.read_text()
        assert all((one.folder / source).is_file() for source in one.sources)
    for name, kind in launchers().items():
        assert kind.name == name
        assert re.compile(kind.says)
        assert kind.title


def test_the_machinery_knows_no_family_by_name() -> None:
    """Nor does the module's own source: what differs is in the folder of the family."""
    names = r"openmpi|\bmpich\b|mvapich|\bintel\b|\blam\b|smpi|simgrid|hydra|OMPI_|MPICH_|LAM_MPI|SMPI_H"
    files = [*(ROOT / "python/netpipe/libraries/adding").glob("*.py"), ROOT / "python/netpipe/launch/jobs.py"]
    for path in files:
        code = re.sub(r'"""[\s\S]*?"""|#.*', "", path.read_text())
        assert not re.search(names, code), path
    for path in (ROOT / "src/modules/mpi").rglob("*.[ch]"):
        code = re.sub(r"/\*[\s\S]*?\*/", "", path.read_text())
        assert not re.search(names, code), path


@pytest.mark.parametrize(
    ("family", "starts"),
    [
        ("openmpi", {"openmpi", "srun"}),
        ("mpich", {"mpich", "intel", "srun"}),
        ("mvapich", {"mpich", "intel", "srun"}),
        ("intel", {"mpich", "intel", "srun"}),
        ("lam", {"lam"}),
        ("smpi", {"smpi"}),
        ("abi", {"openmpi", "oshmem", "mpich", "intel", "lam", "smpi", "srun"}),
        ("oshmem", {"oshmem", "srun"}),
    ],
)
def test_which_launchers_start_which_family(family: str, starts: set[str]) -> None:
    (one,) = [each for each in families() if each.name == family]
    assert {name for name, kind in launchers().items() if can_start(kind, one)} == starts


@pytest.mark.parametrize(
    ("family", "version", "found"),
    [
        ("openmpi", "", "openmpi"),
        ("", "Open MPI 4.1.4", "openmpi"),  # an older description whose launcher is srun
        ("", "Intel MPI 2021.19", "intel"),
        ("", "Something else 1", None),
    ],
)
def test_a_description_says_whose_library_it_is(family: str, version: str, found: str | None) -> None:
    one = family_of(Description("mpi@x", Path("/x.so"), version, family, "srun", Path("/bin/srun")))
    assert (one.name if one else None) == found
