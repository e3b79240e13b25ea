# SPDX-License-Identifier: Apache-2.0
"""Reads a user's command line: what launches, what is launched, which MPI library that is linked with."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from netpipe.failure import UNAVAILABLE, USAGE, Failure
from netpipe.libraries import MPI, Launcher, can_start, families, launchers
from netpipe.libraries.adding import added, layers, programs
from netpipe.libraries.adding.added import Added
from netpipe.libraries.adding.launcher import kind_of
from netpipe.libraries.adding.programs import Builder
from netpipe.libraries.starting.description import read
from netpipe.profiling import scripts
from netpipe.profiling.elf import is_elf, is_static
from netpipe.profiling.scripts import ASSIGNMENT, LAUNCHER_NAME

LDD_S = 20.0
FILES = ("libmpi*.so*", "liblam.so*")  # the latter is LAM's
LIBRARY = re.compile(r"^\s*((?:libmpi[\w.+-]*|liblam)\.so[\w.]*) => (/\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Target:
    """What the command line is."""

    command: tuple[str, ...]
    launcher: type[Launcher] | None  # None: the program starts without one, or something else starts it
    program: Path | None  # the executable that MPI is linked into; None: not found on the command line
    build: Builder  # for the library that it uses
    module: str  # the module of the same library; "" where none was added
    at: int = 0  # the place in the command of the launcher, or of the program where none starts it


def understand(command: Sequence[str]) -> Target:
    """Raises Failure: 2 for a command that cannot be profiled as it stands, 3 where a library is missing."""
    at = _behind_env(command)
    first = _find(command[at])
    if first is None:
        raise Failure(
            USAGE, f"there is no program '{command[at]}'; give the command as you would without netpipe"
        )
    kind = kind_of(first) if LAUNCHER_NAME.fullmatch(first.name) or _is_known_launcher(first) else ""
    launcher = launchers()[kind] if kind else None
    program, library = _program(command[at + 1 :] if launcher else command[at:])
    libraries = added.all_(layer=MPI)
    if library is not None:
        linked = {one.name: _libmpi(one.file) for one in libraries}
        owners = [one for one in libraries if _same(linked[one.name], library)]
        # With LD_LIBRARY_PATH the modules of MPICH and Intel MPI, say, find the library of one of them.
        owner = min(
            owners, key=lambda one: (not _starts(one, first), not _loaded(one, library)), default=None
        )
        # The standard ABI is the same whatever library has it, so a profiler that was built for another one fits.
        others = (one for one in libraries if _is_abi(library) and _is_abi(linked[one.name]))
        fits = owner or next(others, None)
        build = programs.builder(fits) if fits is not None else _builder_near(library, first)
    elif launcher is not None:
        owner = next((one for one in libraries if _starts(one, first)), None)
        build = programs.builder(owner) if owner is not None else _builder_beside(first)
    else:
        files = (path for word in command[at:] if (path := _find(word) or Path(word)).is_file())
        if (
            found := next(((path, lines) for path in files if (lines := scripts.launches(path))), None)
        ) is not None:
            raise Failure(USAGE, scripts.sentence(*found))
        shell, commands = scripts.launches_of_words(command[at:])
        if commands:
            raise Failure(USAGE, scripts.sentence_of_words(shell, commands))
        raise Failure(
            USAGE,
            f"{command[at]} is not linked with an MPI library, and is no launcher of one; give the launcher's command: "
            "netpipe profile -- mpirun -n 4 ./app",
        )
    if launcher is not None and not can_start(launcher, build.library.family):
        raise Failure(
            USAGE,
            f"{first} is the launcher of {launcher.title}, and {program or 'the program'} is linked with "
            f"{build.title} ({library}): each process would believe that it is alone; "
            "use the launcher of the same library",
        )
    return Target(tuple(command), launcher, program, build, owner.name if owner is not None else "", at)


def _behind_env(command: Sequence[str]) -> int:
    """The place of what `env NAME=VALUE ...` starts, as `netpipe apps --dry-run` prints commands; 0 without env."""
    if Path(command[0]).name != "env":
        return 0
    place = next((at for at, word in enumerate(command) if at and not ASSIGNMENT.match(word)), 0)
    return 0 if command[place].startswith("-") else place


def _find(word: str) -> Path | None:
    found = shutil.which(word)
    return Path(found).absolute() if found else None


def _is_known_launcher(path: Path) -> bool:
    """One with a name of its own that a module was added with."""
    return any(_starts(one, path) for one in added.all_(layer=MPI))


def _starts(one: Added, path: Path) -> bool:
    return one.launcher is not None and _same(one.launcher[1], path)


def _loaded(one: Added, library: Path) -> bool:
    """Whether it is the library that the module was added with; srun and no launcher tell nothing."""
    return any(_same(path, library) for path in one.lines.loaded)


def _same(one: Path | None, other: Path | None) -> bool:
    try:
        return one is not None and other is not None and one.samefile(other)
    except OSError:
        return False


def _program(words: Sequence[str]) -> tuple[Path | None, Path | None]:
    """The first word that is a program with an MPI library, and that library; the program alone where it cannot be
    told (a script). Raises Failure (2) for one that nothing can be put under.
    """
    others: list[Path] = []
    for word in words:
        path = _find(word) if not word.startswith("-") else None
        if path is None or not path.is_file():
            continue
        library = _libmpi(path)
        if library is not None:
            if path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
                raise Failure(
                    USAGE,
                    f"{path} runs with the rights of its owner (setuid), so the system loads nothing under it; profile "
                    "a copy without that bit (cp does not keep it)",
                )
            return path, library
        others.append(path)
    for path in others:
        if is_static(path) and _mentions_mpi(path):
            raise Failure(
                USAGE,
                f"{path} is linked statically, so nothing can be put under it; link it with the shared MPI library",
            )
    return (others[0] if others else None), None


def _libmpi(path: Path) -> Path | None:
    """The MPI library that an executable or a module is linked with, if it is any."""
    if not is_elf(path):
        return None
    try:
        done = subprocess.run(
            ["ldd", str(path)], capture_output=True, text=True, errors="replace", timeout=LDD_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = LIBRARY.search(done.stdout)
    return Path(found.group(2)) if found else None


def _is_abi(library: Path | None) -> bool:
    """Whether it is the MPI standard ABI, which several libraries have, rather than a library's own interface."""
    return library is not None and library.name.startswith(layers.one(MPI).abi)


def _mentions_mpi(path: Path) -> bool:
    with path.open("rb") as file:
        return b"MPI_COMM_WORLD" in file.read(64 << 20)


def _builder_near(library: Path, launcher: Path) -> Builder:
    """The compiler of a library that nobody has added: beside the launcher, or in bin beside the library's folder.
    Programs that are linked with the standard ABI need the compiler for that, which stands beside the library's own.
    """
    abi = _is_abi(library)
    of_abi = {name for one in families(MPI) if one.is_abi for name in one.compilers}
    for folder in (launcher.parent, library.parent.parent / "bin", library.resolve().parent.parent / "bin"):
        for path in sorted(folder.glob("mpicc*")):
            if not os.access(path, os.X_OK) or (path.name in of_abi) != abi:
                continue
            try:
                build = programs.builder_of(path)
            except Failure:
                continue
            if abi:
                return build
            linked = [one for place in _folders(build) for name in FILES for one in place.glob(name)]
            if any(_same(one, library) for one in linked) or library.parent in _folders(build):
                return build
    raise Failure(
        UNAVAILABLE,
        f"no compiler of the library {library} was found, which the profiler is built with; add the library first: "
        f"netpipe modules add mpi {'--abi ' if abi else ''}--mpicc PATH{'/mpicc_abi' if abi else ''}",
    )


def _folders(build: Builder) -> list[Path]:
    from netpipe.libraries.adding import compiler

    words = compiler.shown(build.library)
    return [Path(word[2:]) for word in words if word.startswith("-L") and len(word) > 2]


def _builder_beside(launcher: Path) -> Builder:
    """The compiler beside a launcher, whose name ends alike: mpicc.openmpi for mpirun.openmpi."""
    path = launcher
    for _ in range(16):
        ending = LAUNCHER_NAME.fullmatch(path.name)
        beside = path.parent / f"mpicc{ending.group(2) or '' if ending else ''}"
        if beside.is_file() and os.access(beside, os.X_OK):
            return programs.builder_of(beside)
        if not path.is_symlink():
            break
        path = Path(os.path.normpath(path.parent / path.readlink()))
    raise Failure(
        UNAVAILABLE,
        f"there is no mpicc beside {launcher}, which the profiler is built with; add the library first: "
        "netpipe modules add mpi --mpicc PATH",
    )


def environment_of(target: Target) -> dict[str, str]:
    """What the library needs to run, where it is one that was added."""
    if not target.module:
        return {}
    return dict(read(added.one(target.module).path).environment)
