# SPDX-License-Identifier: Apache-2.0
"""Finds the libraries of this machine by looking where their compilers may be. It loads nothing and runs no `module`
command: it reads the files of environment modules.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from netpipe.failure import Failure
from netpipe.libraries import families
from netpipe.libraries.adding import compiler, layers
from netpipe.libraries.adding.added import Added
from netpipe.libraries.adding.layers import Layer

MOST = 400  # modulefiles that are read: a large site has thousands, and few of them matter here
PATIENCE_S = 10.0  # with each compiler


@dataclass(frozen=True, slots=True)
class Candidate:
    compiler: Path
    where: str  # in words: "PATH", "environment module openmpi/5.0"


@dataclass(frozen=True, slots=True)
class Found:
    """A library of this machine."""

    layer: str  # that it is one of: mpi, shmem
    compiler: Path
    where: str
    title: str  # "Open MPI 4.1.4"; "" if its compiler does not work
    problem: str | None  # why it cannot be added
    module: str | None  # mpi@NAME if it has been added
    command: str  # that adds it

    def as_json(self) -> dict[str, Any]:
        """`mpicc` is `compiler`, whatever its name: that is what it was called first."""
        return {
            "layer": self.layer,
            "compiler": str(self.compiler),
            "mpicc": str(self.compiler),
            "where": self.where,
            "title": self.title,
            "problem": self.problem,
            "module": self.module,
            "command": self.command,
        }


def find(there: Sequence[Added], project: Path) -> list[Found]:
    """Each once. `there` are the modules that were added, `project` is the current folder."""
    found: list[Found] = []
    for layer in layers.all_().values():
        if layer.stands_on_another:  # its compilers are those of the other one
            continue
        own = [each for each in there if each.name.startswith(layer.prefix)]
        known = {each.compiler.resolve(): each.name for each in own if each.compiler is not None}
        found += find_for(layer, known, project)
    return found


def find_for(layer: Layer, known: Mapping[Path, str], project: Path) -> list[Found]:
    found: dict[Path, Found] = {}
    for candidate in candidates(layer, project, os.environ):
        path = compiler.settle(candidate.compiler)
        real = path.resolve()
        if real in found and not better(path, found[real].compiler):
            continue
        where = found[real].where if real in found else candidate.where
        found[real] = judge(layer, Candidate(path, where), known)
    return list(found.values())


def better(path: Path, other: Path) -> bool:
    """mpicc.openmpi says more than mpicc."""
    return path.parent == other.parent and len(path.name) > len(other.name)


def compiler_here(layer: Layer) -> Path | None:
    """The first compiler that has a name of this layer's. It is not started, so it need not work."""
    first = next(candidates(layer, Path.cwd(), os.environ), None)
    return compiler.settle(first.compiler) if first else None


def judge(layer: Layer, candidate: Candidate, known: Mapping[Path, str]) -> Found:
    title, problem = "", None
    try:
        title = compiler.identify(layer, candidate.compiler, limit_s=PATIENCE_S).title
    except Failure as failure:
        problem = failure.sentence
    module = known.get(candidate.compiler.resolve())
    command = layer.add_command(candidate.compiler)
    return Found(layer.name, candidate.compiler, candidate.where, title, problem, module, command)


def candidates(layer: Layer, project: Path, environment: Mapping[str, str]) -> Iterator[Candidate]:
    """Every compiler of the layer's families, some more than once."""
    # Who compiles for a standard ABI has to choose a library, so those are not proposed.
    names = {name for family in families(layer.families) if not family.is_abi for name in family.compilers}
    pattern = re.compile(rf"(?:{'|'.join(map(re.escape, sorted(names)))})(\.[a-z0-9_.-]+)?")
    for place, where in [
        *((Path(one), "PATH") for one in environment.get("PATH", "").split(":") if one),
        *virtual_environments(project, environment),
        *environment_modules(environment),
        *spack(environment, sorted(names)),
        *usual_places(),
    ]:
        for path in compilers(place, pattern):
            yield Candidate(path, where)


def compilers(folder: Path, pattern: re.Pattern[str]) -> Iterator[Path]:
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if pattern.fullmatch(entry.name))
    except OSError:
        return
    for name in names:
        path = folder / name
        if os.access(path, os.X_OK) and path.is_file():
            yield path


# ------------------------------------------------------------------------------------------------------- places

Place = tuple[Path, str]


def virtual_environments(project: Path, environment: Mapping[str, str]) -> Iterator[Place]:
    """netpipe's own, the active one, and those in the project; in each also those below mpi/ (tools/setup.sh)."""
    roots = [Path(sys.prefix)]
    roots += [Path(environment[name]) for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if environment.get(name)]
    for pattern in ("*/pyvenv.cfg", "*/*/pyvenv.cfg"):
        roots += [path.parent for path in sorted(project.glob(pattern))]
    for root in dict.fromkeys(roots):
        if root == Path("/usr"):
            continue
        for place in [root, *sorted(root.glob("mpi/*"))]:
            yield place / "bin", f"virtual environment {place}"


def spack(environment: Mapping[str, str], names: Sequence[str]) -> Iterator[Place]:
    named = environment.get("SPACK_ROOT")
    for root in [*([Path(named)] if named else []), Path.home() / "spack"]:
        # opt/spack/PLATFORM/PACKAGE since version 1, opt/spack/ARCHITECTURE/COMPILER/PACKAGE before.
        for depth in ("*/*", "*/*/*"):
            for name in names:
                for path in sorted((root / "opt" / "spack").glob(f"{depth}/bin/{name}")):
                    yield path.parent, f"spack, {path.parent.parent.name}"


def usual_places() -> Iterator[Place]:
    for pattern in (
        *(place for family in families() for place in family.places),
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
    """What a modulefile puts into PATH, with the variables that it sets filled in."""
    variables = {name: value.strip("{}") for name, value in TCL_SET.findall(text)}
    return [one for one in (_filled(word, variables) for word in TCL_PATH.findall(text)) if one]


def lua_paths(text: str) -> list[str]:
    variables = dict(LUA_SET.findall(text))
    found = []
    for words in LUA_PATH.findall(text):
        # A literal, a variable, or several joined by pathJoin(..) or "..": quoted parts and names, in order.
        parts = [
            quoted or variables.get(name, "")
            for quoted, name in re.findall(r"[\"']([^\"']+)[\"']|\b(?!pathJoin\b)([A-Za-z_]\w*)", words)
        ]
        if parts and all(parts):
            found.append(re.sub("/+", "/", "/".join(parts)))
    return [one for one in found if one.startswith("/")]


def _filled(word: str, variables: Mapping[str, str]) -> str:
    """ "" for a word with a variable that is not known."""
    for _ in range(4):  # a variable may be set with another one
        word = re.sub(r"\$\{?(\w+)\}?", lambda found: variables.get(found.group(1), "$"), word)
    return word if word.startswith("/") and "$" not in word else ""
