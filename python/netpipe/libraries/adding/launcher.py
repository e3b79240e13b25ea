# SPDX-License-Identifier: Apache-2.0
"""The launcher that belongs to a library: the mpirun or mpiexec beside its mpicc."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from netpipe.failure import UNAVAILABLE, USAGE, Failure
from netpipe.libraries import Family, Launcher, can_start, launchers
from netpipe.libraries.adding.compiler import Library, run
from netpipe.libraries.adding.layers import Layer

PATIENCE_S = 20.0


@dataclass(frozen=True, slots=True)
class Found:
    kind: str  # the name of a Launcher
    path: Path


def kind_of(path: Path, environment: Mapping[str, str] | None = None) -> str:
    """The kind of this launcher, by what it says; "" if that is not known. Raises Failure (3) if it cannot run."""
    for question in ("--version", "-h"):  # LAM's does not know --version
        done = run([path, question], environment, PATIENCE_S)
        for name, kind in launchers().items():
            if re.search(kind.says, done.stdout + done.stderr):
                return name
    return ""


def beside(compiler: Path, family: Family) -> Iterator[Path]:
    """Launchers in the compiler's folder whose names end like its own: mpirun.lam for mpicc.lam."""
    names = "|".join(map(re.escape, sorted(family.compilers, key=len, reverse=True)))
    found = re.fullmatch(rf"(?:{names})(.*)", compiler.name)
    if found is None:  # a compiler with a name of its own, such as Cray's cc: its launcher is elsewhere
        return
    for name in (family.launcher or Launcher).programs:
        path = compiler.parent / f"{name}{found.group(1)}"
        if path.is_file() and os.access(path, os.X_OK):
            yield path


def on_path(family: Family) -> Iterator[Path]:
    for name in (family.launcher or Launcher).programs:
        path = shutil.which(name)
        if path is not None:
            yield Path(path)


def find(layer: Layer, library: Library, given: Path | None) -> Found:
    """The library's own launcher, or the given one. Raises Failure: 2 if that one is not a launcher, or is another
    library's, 3 where there is none.
    """
    family, known = library.family, launchers()
    own = family.launcher.name if family.launcher else ""
    option = f"--{layer.launcher}"
    if given is not None:
        path = given.absolute()
        if not path.is_file() or not os.access(path, os.X_OK):
            raise Failure(USAGE, f"{given} is not a program; name the launcher of {library.title}")
        kind = kind_of(path, library.environment) or own
        if not kind:
            titles = ", ".join(one.title for one in known.values())
            raise Failure(USAGE, f"{given} is not a launcher that netpipe knows; it knows those of {titles}")
        if not can_start(known[kind], family):
            raise Failure(
                USAGE,
                f"{given} is the launcher of {known[kind].title}, and {library.compiler} compiles for {library.title}: "
                f"each process would believe that it is alone; name the launcher of the same library with {option}",
            )
        return Found(kind, path)
    for path in beside(library.compiler, family) if layer.launcher else on_path(family):
        kind = kind_of(path, library.environment) or own
        if kind and can_start(known[kind], family):
            return Found(kind, path)
    remedy = f"install it, or name it with {option}" if layer.launcher else "install it"
    raise Failure(UNAVAILABLE, f"there is no launcher of {library.title} beside {library.compiler}; {remedy}")
