# SPDX-License-Identifier: Apache-2.0
"""Finds the MPI libraries of this machine, by looking where their mpicc may be. Nothing is loaded and no module command
is run: environment modules are read as the files that they are.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from netpipe.failure import Failure
from netpipe.libraries.adding import compiler
from netpipe.libraries.adding.added import Added

MOST = 400  # modulefiles that are read: a large site has thousands, and few of them are an MPI
PATIENCE_S = 10.0  # with each mpicc
COMPILER = re.compile(r"s?mpicc(\.[a-z0-9_.-]+)?")


@dataclass(frozen=True, slots=True)
class Candidate:
    mpicc: Path
    where: str  # in words: "PATH", "environment module openmpi/5.0"


@dataclass(frozen=True, slots=True)
class Found:
    """An MPI library of this machine."""

    mpicc: Path
    where: str
    title: str  # "Open MPI 4.1.4"; "" for one that does not work
    problem: str | None  # why it cannot be added
    module: str | None  # mpi@NAME, where it has been added
    command: str  # that adds it


def find(there: Sequence[Added], project: Path) -> list[Found]:
    """All of them, each once. `there` are the modules that were added, `project` the folder that is worked in."""
    known = {each.mpicc.resolve(): each.name for each in there if each.mpicc is not None}
    found: dict[Path, Found] = {}
    for candidate in candidates(project, os.environ):
        mpicc = compiler.settle(candidate.mpicc)
        real = mpicc.resolve()
        if real in found and not better(mpicc, found[real].mpicc):
            continue
        found[real] = judge(Candidate(mpicc, found[real].where if real in found else candidate.where), known)
    return list(found.values())


def better(mpicc: Path, other: Path) -> bool:
    """mpicc.openmpi says more than mpicc."""
    return mpicc.parent == other.parent and len(mpicc.name) > len(other.name)


def judge(candidate: Candidate, known: Mapping[Path, str]) -> Found:
    title, problem = "", None
    try:
        title = compiler.identify(candidate.mpicc, limit_s=PATIENCE_S).title
    except Failure as failure:
        problem = failure.sentence
    command = f"netpipe modules add mpi --mpicc {candidate.mpicc}"
    return Found(
        candidate.mpicc, candidate.where, title, problem, known.get(candidate.mpicc.resolve()), command
    )


def candidates(project: Path, environment: Mapping[str, str]) -> Iterator[Candidate]:
    """Every mpicc, some more than once."""
    for place, where in [
        *((Path(one), "PATH") for one in environment.get("PATH", "").split(":") if one),
        *virtual_environments(project, environment),
        *environment_modules(environment),
        *spack(environment),
        *usual_places(),
    ]:
        for mpicc in compilers(place):
            yield Candidate(mpicc, where)


def compilers(folder: Path) -> Iterator[Path]:
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if COMPILER.fullmatch(entry.name))
    except OSError:
        return
    for name in names:
        path = folder / name
        if os.access(path, os.X_OK) and path.is_file():
            yield path


# ------------------------------------------------------------------------------------------------------- places

Place = tuple[Path, str]


def virtual_environments(project: Path, environment: Mapping[str, str]) -> Iterator[Place]:
    """That of netpipe, the active one, and those in the project; in each also those below mpi/ (tools/setup.sh)."""
    roots = [Path(sys.prefix)]
    roots += [Path(environment[name]) for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if environment.get(name)]
    for pattern in ("*/pyvenv.cfg", "*/*/pyvenv.cfg"):
        roots += [path.parent for path in sorted(project.glob(pattern))]
    for root in dict.fromkeys(roots):
        if root == Path("/usr"):
            continue
        for place in [root, *sorted(root.glob("mpi/*"))]:
            yield place / "bin", f"virtual environment {place}"


def spack(environment: Mapping[str, str]) -> Iterator[Place]:
    named = environment.get("SPACK_ROOT")
    for root in [*([Path(named)] if named else []), Path.home() / "spack"]:
        # opt/spack/PLATFORM/PACKAGE since version 1, opt/spack/ARCHITECTURE/COMPILER/PACKAGE before.
        for depth in ("*/*", "*/*/*"):
            for path in sorted((root / "opt" / "spack").glob(f"{depth}/bin/mpicc")):
                yield path.parent, f"spack, {path.parent.parent.name}"


def usual_places() -> Iterator[Place]:
    for pattern in (
        "opt/intel/oneapi/mpi/*/bin",
        "opt/*/bin",
        "opt/*/*/bin",
        "usr/local/*/bin",
        "usr/lib64/*/bin",
        "usr/lib/*/bin",
    ):
        for path in sorted(Path("/").glob(pattern)):
            yield path, str(path.parent)


# ------------------------------------------------------------------------------------------- environment modules

# prepend-path PATH /opt/openmpi/bin, and prepend_path("PATH", pathJoin(base, "bin")) of Lmod.
TCL_PATH = re.compile(r"^\s*(?:pre|ap)pend-path\s+(?:-\S+\s+)*PATH\s+\"?([^\s\"]+)", re.MULTILINE)
TCL_SET = re.compile(r"^\s*set\s+(\w+)\s+\"?([^\s\"]+)", re.MULTILINE)
LUA_PATH = re.compile(r"^\s*(?:pre|ap)pend_path\s*\(\s*[\"']PATH[\"']\s*,\s*([^\n]+)", re.MULTILINE)
LUA_SET = re.compile(r"^\s*(?:local\s+)?(\w+)\s*=\s*[\"']([^\"'\n]+)[\"']", re.MULTILINE)


def environment_modules(environment: Mapping[str, str]) -> Iterator[Place]:
    for root in dict.fromkeys(Path(one) for one in environment.get("MODULEPATH", "").split(":") if one):
        for file in islice(module_files(root), MOST):
            try:
                text = file.read_text(errors="replace")
            except OSError:
                continue
            name = str(file.relative_to(root)).removesuffix(".lua")
            for folder in (lua_paths if file.suffix == ".lua" else tcl_paths)(text):
                yield Path(folder), f"environment module {name}"


def module_files(root: Path) -> Iterator[Path]:
    """Two levels deep, as `module avail` shows them: name, or name/version."""
    for path in [*sorted(root.glob("*")), *sorted(root.glob("*/*")), *sorted(root.glob("*/*/*"))]:
        if not path.name.startswith(".") and os.access(path, os.R_OK) and path.is_file():
            yield path


def tcl_paths(text: str) -> list[str]:
    """What a modulefile puts into PATH, with the variables that it sets itself put in."""
    variables = {name: value.strip("{}") for name, value in TCL_SET.findall(text)}
    return [one for one in (_filled(word, variables) for word in TCL_PATH.findall(text)) if one]


def lua_paths(text: str) -> list[str]:
    variables = dict(LUA_SET.findall(text))
    found = []
    for words in LUA_PATH.findall(text):
        # A literal, a variable, several joined by pathJoin(..) or "..": what is quoted and what is a name, in order.
        parts = [
            quoted or variables.get(name, "")
            for quoted, name in re.findall(r"[\"']([^\"']+)[\"']|\b(?!pathJoin\b)([A-Za-z_]\w*)", words)
        ]
        if parts and all(parts):
            found.append(re.sub("/+", "/", "/".join(parts)))
    return [one for one in found if one.startswith("/")]


def _filled(word: str, variables: Mapping[str, str]) -> str:
    """ "" for a word with a variable of which nothing is known."""
    for _ in range(4):  # a variable may be set with another one
        word = re.sub(r"\$\{?(\w+)\}?", lambda found: variables.get(found.group(1), "$"), word)
    return word if word.startswith("/") and "$" not in word else ""
