# SPDX-License-Identifier: Apache-2.0
"""The modules that `netpipe modules add` has added, and whether they still work.

A module is two files: `mpi@NAME.so`, and `mpi@NAME.module` that says what is in it, so that nobody has to load a
library to know its options. Lines of the second that are ours alone: `mpicc`, `library`, `source`, `added`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from netpipe import native
from netpipe.failure import FAILED, UNAVAILABLE, USAGE, Failure
from netpipe.launch import description
from netpipe.libraries.adding import compiler

ENDING = ".module"
PREFIX = "mpi@"


@dataclass(frozen=True, slots=True)
class Added:
    path: Path  # the description
    facts: Mapping[str, str] = field(default_factory=dict)  # its lines that stand there once

    @property
    def name(self) -> str:
        return self.path.name.removesuffix(ENDING)

    @property
    def short(self) -> str:
        return self.name.removeprefix(PREFIX)

    @property
    def file(self) -> Path:
        return self.path.with_suffix(".so")

    @property
    def version(self) -> str:
        return self.facts.get("version", "")

    @property
    def mpicc(self) -> Path | None:
        said = self.facts.get("mpicc")
        return Path(said) if said else None

    @property
    def launcher(self) -> tuple[str, Path] | None:
        family, _, path = self.facts.get("launcher", "").partition(" ")
        return (family, Path(path)) if path else None


def facts_of(text: str) -> dict[str, str]:
    """The lines `key value`; of a key that stands there more than once the first."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, blank, value = line.partition(" ")
        if blank and "\t" not in key:
            found.setdefault(key, value.strip())
    return found


def folders() -> list[Path]:
    """Where modules may have been added, in the order in which the worker looks."""
    named = [Path(one) for one in os.environ.get("NETPIPE_MODULE_PATH", "").split(":") if one]
    return [*named, installed(), own()]


def installed() -> Path:
    """Of the installation: beside the modules that came with it. Raises Failure (3) where there is no worker."""
    return native.worker().resolve().parent.parent / "lib" / "netpipe" / "modules"


def own() -> Path:
    """Of this user, for an installation that he cannot write to."""
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "netpipe" / "modules"


def target() -> Path:
    """Where the next one goes."""
    folder = installed()
    return folder if os.access(folder if folder.is_dir() else folder.parent, os.W_OK) else own()


def all_(places: Sequence[Path] | None = None) -> list[Added]:
    """By name. Of two of one name the worker takes the first that it finds, and so do we."""
    found: dict[str, Added] = {}
    for folder in folders() if places is None else places:
        for path in sorted(folder.glob(f"{PREFIX}*{ENDING}")):
            text = path.read_text(errors="replace") if os.access(path, os.R_OK) else ""
            one = Added(path, facts_of(text))
            found.setdefault(one.name, one)
    return [found[name] for name in sorted(found)]


def one(name: str) -> Added:
    """Raises Failure (2) for a name that there is not."""
    there = {each.short: each for each in all_()}
    short = name.removeprefix(PREFIX)
    if short in there:
        return there[short]
    near = get_close_matches(short, there, n=1)
    hint = (
        f"did you mean '{near[0]}'?"
        if near
        else f"there are {', '.join(there)}"
        if there
        else "none was added"
    )
    raise Failure(USAGE, f"no module was added as '{name}'; {hint}")


def remove(name: str) -> Added:
    """Its two files. What is measured just now goes on: a loaded library stays loaded."""
    found = one(name)
    found.path.unlink()
    found.file.unlink(missing_ok=True)
    return found


# ------------------------------------------------------------------------------------------------------- health


def describe(file: Path, name: str, environment: Mapping[str, str] | None = None) -> str:
    """What is in a module, by loading it in a process of its own. Raises Failure with the worker's sentence."""
    command = [str(native.worker()), "describe", str(file), "--as", name]
    done = compiler.run(command, environment)
    if done.returncode == 0 and done.stdout.startswith("netpipe-module "):
        return done.stdout
    words = native.said(done.stderr)
    if 0 < done.returncode <= FAILED and words:
        raise Failure(done.returncode, words)
    raise Failure(FAILED, f"{file} cannot be loaded: {native.how_it_ended(done.returncode, done.stderr)}")


def problem(added: Added) -> str | None:
    """Why this module cannot be measured as it is, and what to do; None where it can."""
    try:
        known = description.read(added.path)
    except Failure as failure:
        return failure.sentence
    again = _again(added)
    if not known.file.is_file():
        return f"{known.file} is not there any more; {again}"
    if not (known.launcher.is_file() and os.access(known.launcher, os.X_OK)):
        return f"its launcher {known.launcher} is not there any more: was the library removed? If so, {again}"
    try:
        now = facts_of(describe(known.file, added.name, known.environment)).get("version", "")
    except Failure as failure:
        return f"{failure.sentence}; if its library was removed or is another one now, {again}"
    if now != known.version:
        return f"its library was {known.version} when it was added and is {now} now; {again}"
    return None


def advice(added: Added) -> str | None:
    """Of a module that can be measured: what it was built from is not there any more in that form."""
    again = _again(added)
    source = added.facts.get("source")
    family, _ = added.launcher or ("", None)
    try:
        if source and source != digest(sources(family)):
            return f"it was built from the source of another version of netpipe; {again}"
    except Failure:  # an installation without sources
        return None
    mpicc, library = added.mpicc, added.facts.get("library")
    if mpicc is None or library is None or not mpicc.exists():
        return None  # what was built goes on without its compiler
    try:
        now = compiler.identify(mpicc, description.read(added.path).environment).title
    except Failure:
        return None
    return (
        None if now == library else f"it was built for {library}, and {mpicc} compiles for {now} now; {again}"
    )


def _again(added: Added) -> str:
    mpicc = added.mpicc
    if added.facts.get("library", "").startswith("MPI standard ABI"):
        return f"add it again as it was added, with --name {added.short}, or remove it"
    compile_with = mpicc if mpicc is not None and mpicc.exists() else "PATH"
    return (
        f"add it again (netpipe modules add mpi --mpicc {compile_with} --name {added.short}) or remove it "
        f"(netpipe modules remove {added.short})"
    )


# ------------------------------------------------------------------------------------------------------ sources


def sources(family: str = "") -> list[Path]:
    """mpi.c and what it includes, mpi.c first; the folder with netpipe/module.h is that of include(). For a simulator
    also what makes it a program, with netpipe's own part as an archive.
    """
    places = [prefix / "share" / "netpipe" / "modules" / "mpi" for prefix, _ in native.prefixes()]
    places.append(Path(__file__).resolve().parents[4] / "src" / "modules" / "mpi")  # in a checkout
    for folder in places:
        if (folder / "mpi.c").is_file():
            found = [
                folder / "mpi.c",
                *sorted(folder.glob("mpi_*.h")),
                include(folder) / "netpipe" / "module.h",
            ]
            return found if family != description.SIMULATOR else [*found, folder / "mpi_simgrid.c", archive()]
    looked = " nor in ".join(map(str, places))
    raise Failure(
        UNAVAILABLE, f"the source of the MPI module, mpi.c, is not in {looked}; install netpipe again"
    )


def archive() -> Path:
    """Of a rank on a simulated machine. Raises Failure (3) where there is none."""
    places = [prefix / "lib" / "netpipe" / "libnetpipe-simulated.a" for prefix, _ in native.prefixes()]
    for path in places:
        if path.is_file():
            return path
    raise Failure(
        UNAVAILABLE,
        f"what a rank on a simulated machine is made of is not there ({places[0]}); install netpipe again",
    )


def include(folder: Path) -> Path:
    """The include folder that belongs to the sources in `folder`."""
    return next(
        parent / "include"
        for parent in folder.parents
        if (parent / "include" / "netpipe" / "module.h").is_file()
    )


def digest(files: Sequence[Path]) -> str:
    """Of all that the module is built from."""
    whole = hashlib.sha256()
    for file in files:
        text = file.read_bytes()
        whole.update(f"{file.name} {len(text)}\n".encode())
        whole.update(text)
    return whole.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Checked:
    """A module with what is wrong with it; None where nothing is."""

    module: Added
    problem: str | None  # it cannot be measured
    advice: str | None  # it can, but should be built again

    def as_json(self) -> dict[str, Any]:
        family, launcher = self.module.launcher or (None, None)
        return {
            "name": self.module.name,
            "version": self.module.version or None,
            "mpicc": str(self.module.mpicc) if self.module.mpicc else None,
            "family": family,
            "launcher": str(launcher) if launcher else None,
            "file": str(self.module.file),
            "description": str(self.module.path),
            "added": self.module.facts.get("added"),
            "healthy": self.problem is None,
            "problem": self.problem,
            "advice": self.advice,
        }


def checked() -> Iterator[Checked]:
    """All of them, looked at one after the other."""
    for each in all_():
        trouble = problem(each)
        yield Checked(each, trouble, None if trouble else advice(each))
