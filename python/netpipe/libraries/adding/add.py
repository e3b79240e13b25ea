# SPDX-License-Identifier: Apache-2.0
"""Adds one MPI library: compiles mpi.c with its mpicc, looks at what came of it, and puts both files into place. Until
the very end everything happens in a folder of its own, so what was there before stays when anything fails.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from netpipe.failure import FAILED, UNAVAILABLE, USAGE, Failure
from netpipe.launch.description import SIMULATOR
from netpipe.libraries.adding import added, compiler, starter
from netpipe.libraries.adding.added import PREFIX, Added
from netpipe.libraries.adding.compiler import Library
from netpipe.libraries.adding.starter import Starter

# Where every loader looks by itself.
SYSTEM = re.compile(r"/(usr/)?lib(32|64)?(/[a-z0-9_]+-linux-[a-z0-9]+)?")
GOOD_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")
# Optimised as the modules that come with netpipe are.
FLAGS = ("-std=gnu17", "-O3", "-fPIC", "-shared", "-fvisibility=hidden")
ABI = "abi"  # the kind of library that is only headers and a promise
# What a rank of a simulated machine gets from its simulator (mpi_simgrid.c).
WRAPPED = ("clock_gettime", "gethostname")


@dataclass(frozen=True, slots=True)
class Wish:
    mpicc: Path
    name: str | None = None
    mpiexec: Path | None = None
    abi: bool = False
    library: Path | None = None  # with abi: the folder of the libmpi_abi.so to run with
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None  # where it goes, unless it is where added modules always go


def add(wish: Wish) -> Added:
    """Raises Failure with what is wrong with this mpicc, its library or the place to write to."""
    library = compiler.identify(wish.mpicc, wish.environment)
    check_abi(wish, library)
    start = starter.find(library, wish.mpiexec)
    folder = wish.folder or added.target()
    folders = [folder] if wish.folder else added.folders()
    name = choose_name(wish, library, start, added.all_(folders))
    environment = {**needed(wish, library, start), **library.environment}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".adding-", dir=folder) as room:
            return _add(wish, library, start, environment, name, Path(room), folder)
    except OSError as error:
        raise Failure(FAILED, f"{folder} cannot be written to: {error.strerror}") from None


def _add(
    wish: Wish,
    library: Library,
    start: Starter,
    environment: Mapping[str, str],
    name: str,
    room: Path,
    folder: Path,
) -> Added:
    file = room / f"{name}.so"
    final = folder.absolute() / file.name
    sources = added.sources(library.kind.family)
    build(library, sources, file, abi=wish.abi)
    try:
        table = added.describe(file, name, environment)
    except Failure as failure:
        words = failure.sentence.replace(str(file), final.name)
        raise Failure(
            failure.exit_code, f"{library.mpicc} compiled the module, but it does not work: {words}"
        ) from None
    lines = [f"file {final}" if line.startswith("file ") else line for line in table.splitlines()]
    lines.append(f"launcher {start.family} {start.path}")
    lines += [f"environment {key}={value}" for key, value in environment.items()]
    lines += [
        f"mpicc {library.mpicc}",
        f"library {library.title}",
        f"source {added.digest(sources)}",
        f"added {datetime.now().astimezone():%Y-%m-%d}",
    ]
    description = room / f"{name}{added.ENDING}"
    description.write_text("\n".join([*lines, ""]))
    file.replace(final)
    done = folder / description.name
    description.replace(done)
    return Added(done, added.facts_of(done.read_text()))


def check_abi(wish: Wish, library: Library) -> None:
    """Is it built against the standard ABI exactly where that was asked for?"""
    if wish.library is not None and not wish.abi:
        raise Failure(
            USAGE, "--library is for --abi: every other module finds the library that it was built with"
        )
    if wish.abi and library.kind.name != ABI:
        raise Failure(
            USAGE,
            f"{wish.mpicc} compiles for {library.title} and not for the MPI standard ABI; name an mpicc_abi, "
            "or leave --abi out",
        )
    if not wish.abi and library.kind.name == ABI:
        raise Failure(
            USAGE,
            f"{wish.mpicc} compiles for the MPI standard ABI, which several libraries have; say --abi, and with "
            "--library and --mpiexec which one it shall be",
        )
    if wish.library is not None and not any(wish.library.glob("libmpi_abi.so*")):
        raise Failure(
            USAGE,
            f"there is no libmpi_abi.so in {wish.library}; name the folder of a library that has the ABI",
        )


# -------------------------------------------------------------------------------------------------------- names


def choose_name(wish: Wish, library: Library, start: Starter, there: Sequence[Added]) -> str:
    """mpi@NAME. Without a wish that of this mpicc when it was added before, else one that is free: openmpi, openmpi5,
    openmpi5.0.11. Raises Failure (2) for a wish that is no name or belongs to another library.
    """
    taken = {each.short: each for each in there}

    def mine(each: Added) -> bool:
        return each.mpicc == library.mpicc and each.launcher == (start.family, start.path)

    if wish.name is not None:
        name = wish.name.removeprefix(PREFIX)
        if not GOOD_NAME.fullmatch(name):
            raise Failure(
                USAGE, f"'{wish.name}' is no name for a module; take small letters, digits, '_', '-' and '.'"
            )
        if name in taken and taken[name].mpicc != library.mpicc and added.problem(taken[name]) is None:
            raise Failure(
                USAGE,
                f"{name} is {taken[name].version} already ({taken[name].mpicc}); take another --name, or remove that "
                f"one first (netpipe modules remove {name})",
            )
        return PREFIX + name
    known = next((short for short, each in taken.items() if mine(each)), None)
    if known is not None:
        return PREFIX + known
    base = library.kind.name
    if base == ABI:
        base = {"intel": "impi", "srun": "mpi"}.get(start.family, start.family) + "-abi"
    major = library.version.partition(".")[0]
    several = (f"{base}{library.version}-{number}" for number in range(2, 1000))
    for name in (base, f"{base}{major}", f"{base}{library.version}", *several):
        if name not in taken:
            return PREFIX + name
    raise Failure(USAGE, f"there are too many modules of the name {base}; choose one with --name")


# ------------------------------------------------------------------------------------------------------ building


def needed(wish: Wish, library: Library, start: Starter) -> dict[str, str]:
    """The environment without which the library, its launcher or both do not run where they are."""
    found: dict[str, str] = {}
    if start.family == "intel":
        found["I_MPI_ROOT"] = str(start.path.parent.parent)
    folders = [wish.library.absolute()] if wish.library else library_folders(library)
    present = [Path(one) for one in os.environ.get("LD_LIBRARY_PATH", "").split(":") if one]
    paths = list(dict.fromkeys([*folders, *(path for path in present if path.is_dir())]))
    if paths:
        found["LD_LIBRARY_PATH"] = ":".join(map(str, paths))
    return found


def library_folders(library: Library) -> list[Path]:
    """Where the library itself is, as its mpicc tells the linker; nothing where the loader looks by itself."""
    words = compiler.shown(library)
    named = [word[2:] for word in words if word.startswith("-L") and len(word) > 2]
    named += [after for word, after in pairwise(words) if word == "-L"]
    folders = dict.fromkeys(Path(os.path.normpath(one)) for one in named)
    files = ("libmpi*.so*", "libsimgrid.so*")
    there = (one for one in folders if any(any(one.glob(each)) for each in files))
    return [one for one in there if not SYSTEM.fullmatch(str(one))]


def without_rpath(words: Sequence[str]) -> list[str]:
    """A compiler's command without the folders where the loader is to look: one build then serves several libraries.
    It is written as -Wl,-rpath,FOLDER, as -Wl,-rpath -Wl,FOLDER or as -Xlinker -rpath -Xlinker FOLDER.
    """
    kept: list[str] = []
    folder_follows = False
    for word in (word for word in words if word != "-Xlinker"):
        if folder_follows:
            folder_follows = False
        elif word in ("-Wl,-rpath", "-rpath"):
            folder_follows = True
        elif not word.startswith(("-Wl,-rpath,", "-Wl,-rpath=")):
            kept.append(f"-Wl,{word}" if word == "--enable-new-dtags" else word)
    return kept


def build(library: Library, sources: Sequence[Path], file: Path, *, abi: bool) -> None:
    """Raises Failure (3) with the compiler's first error."""
    head = added.include(sources[0].parent)
    words: list[str | Path] = [*FLAGS, "-I", head, "-o", file, sources[0]]
    if library.kind.family == SIMULATOR:
        # The module is the whole program as well. smpicc would replace malloc, whose memory others then free.
        parts = [path for path in sources if path.suffix in (".c", ".a")][1:]
        words += ["-DSMPI_NO_OVERRIDE_MALLOC", *parts, *(f"-Wl,--wrap={name}" for name in WRAPPED)]
        words += ["-Wl,-Bsymbolic", "-lstdc++"]
    if abi:
        real, *more = without_rpath(compiler.shown(library)) or [str(library.mpicc)]
        words = [real, *words, *more]  # libraries behind what needs them
    else:
        words = [library.mpicc, *words, *(f"-Wl,-rpath,{folder}" for folder in library_folders(library))]
    done = compiler.run(words, library.environment)
    if done.returncode != 0 or not file.is_file():
        raise Failure(
            UNAVAILABLE,
            f"{library.mpicc} ({library.title}) does not compile the MPI module: {compiler.condensed(done.stderr)}",
        )
