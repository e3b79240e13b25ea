# SPDX-License-Identifier: Apache-2.0
"""The libraries that `netpipe modules add` has added, and whether they still work.

A module is two files: `mpi@NAME.so`, and `mpi@NAME.module` that describes it, so that nobody has to load a library to
know its options (starting/description.py reads it). Lines of the second that only this file is about: `compiler`
(`mpicc` in older ones), `library`, `source`, `added`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from netpipe import native
from netpipe.failure import FAILED, USAGE, Failure, NotHere
from netpipe.libraries import Family, families
from netpipe.libraries.adding import compiler, layers
from netpipe.libraries.adding.layers import SEPARATOR
from netpipe.libraries.starting import description
from netpipe.libraries.starting.description import Description, Lines, lines_of

ENDING = ".module"


@dataclass(frozen=True, slots=True)
class Added:
    path: Path  # the description
    lines: Lines = field(default_factory=Lines)  # of an unreadable one: none

    @property
    def facts(self) -> Mapping[str, str]:
        return self.lines.facts

    @property
    def name(self) -> str:
        return self.path.name.removesuffix(ENDING)

    @property
    def short(self) -> str:
        return self.name.partition(SEPARATOR)[2]

    @property
    def file(self) -> Path:
        return self.path.with_suffix(".so")

    @property
    def version(self) -> str:
        return self.facts.get("version", "")

    @property
    def compiler(self) -> Path | None:
        said = self.facts.get("compiler") or self.facts.get("mpicc")
        return Path(said) if said else None

    @property
    def launcher(self) -> tuple[str, Path] | None:
        """Its kind and its path."""
        return self.lines.launcher


def target() -> Path:
    """Where the next module goes: to the installation, or to the user where that is read-only to them."""
    places = description.folders()
    installation = next(folder for folder, kind in places.items() if kind == "installation")
    if os.access(installation if installation.is_dir() else installation.parent, os.W_OK):
        return installation
    return next((folder for folder, kind in places.items() if kind == "user"), installation)


def all_(places: Sequence[Path] | None = None, layer: str = "*") -> list[Added]:
    """By name. Of two with one name the worker takes the first that it finds, and so does this."""
    found: dict[str, Added] = {}
    for folder in description.folders() if places is None else places:
        for path in sorted(folder.glob(f"{layer}{SEPARATOR}*{ENDING}")):
            text = path.read_text(errors="replace") if os.access(path, os.R_OK) else ""
            one = Added(path, lines_of(text))
            found.setdefault(one.name, one)
    return [found[name] for name in sorted(found)]


def one(name: str) -> Added:
    """By NAME or LAYER@NAME. Raises NotHere (2) if nothing was added under it, Failure (2) if several modules were."""
    there = all_()
    found = [each for each in there if name in (each.name, each.short)]
    if len(found) == 1:
        return found[0]
    if found:
        raise Failure(
            USAGE,
            f"'{name}' stands for several: {', '.join(each.name for each in found)}; give the whole name",
        )
    shorts = [each.short for each in there]
    near = get_close_matches(name.partition(SEPARATOR)[2] or name, shorts, n=1)
    hint = (
        f"did you mean '{near[0]}'?"
        if near
        else f"the modules that were added are {', '.join(shorts)}"
        if there
        else _how_to_add(name)
    )
    raise NotHere(USAGE, f"no module was added as '{name}'; {hint}")


def _how_to_add(name: str) -> str:
    layer, _, short = name.partition(SEPARATOR)
    found = layers.all_().get(layer)
    return f"add it with '{found.add_command(name=short)}'" if found else "none was added at all"


def remove(name: str) -> Added:
    """Removes its two files. A measurement that runs goes on: a loaded library stays loaded."""
    found = one(name)
    found.path.unlink()
    found.file.unlink(missing_ok=True)
    return found


# ------------------------------------------------------------------------------------------------------- health


def describe(file: Path, name: str, environment: Mapping[str, str] | None = None) -> str:
    """The description of a module, loaded in a process of its own. Raises Failure with the worker's sentence."""
    command = [str(native.worker()), "describe", str(file), "--as", name]
    done = compiler.run(command, environment)
    if done.returncode == 0 and done.stdout.startswith("netpipe-module "):
        return done.stdout
    words = native.said(done.stderr)
    if 0 < done.returncode <= FAILED and words:
        raise Failure(done.returncode, words)
    raise Failure(FAILED, f"cannot load {file}: {native.how_it_ended(done.returncode, done.stderr)}")


def problem(added: Added) -> str | None:
    """Why this module cannot be measured as what it is called, and what to do; None if it can."""
    try:
        known = description.read(added.path)
    except Failure as failure:
        return failure.sentence
    again = _again(added)
    if not known.file.is_file():
        return f"{known.file} does not exist any more; {again}"
    if not (known.launcher.is_file() and os.access(known.launcher, os.X_OK)):
        return f"its launcher {known.launcher} does not exist any more; if the library was removed, {again}"
    now, why = _version_now(added, known)
    if why is not None:
        return why
    if now != known.version:
        return f"its library was {known.version} when it was added and is now {now}; {again}"
    return None


def lost(known: Description) -> str | None:
    """Why its ranks cannot load this module, and what to do; None if nothing is known against it. That is asked before
    each launch, so the module is loaded, in a process of its own, only where a file has gone that was loaded with it.
    """
    if known.path is None:  # netpipe's own layers
        return None
    added = Added(known.path, lines_of(known.path.read_text(errors="replace")))
    if not known.file.is_file():
        return f"{known.file} does not exist any more; {_again(added)}"
    if all(file.exists() for file in known.loaded):
        return None
    return _version_now(added, known)[1]


def _version_now(added: Added, known: Description) -> tuple[str, str | None]:
    """Of the library that the loader finds now; or why the module cannot be loaded, and what to do."""
    try:
        return lines_of(describe(known.file, added.name, known.environment)).facts.get("version", ""), None
    except Failure as failure:
        return "", f"{failure.sentence}; if the library was removed or replaced, {_again(added)}"


def advice(added: Added) -> str | None:
    """Why a module that works should be built again; None if it should not."""
    again = _again(added)
    source, family = added.facts.get("source"), family_when_built(added)
    try:
        layer = layers.of_module(added.name)
        if source and family and source != layers.digest(layers.sources(layer, served_families(family))):
            return f"it was built from the source of another version of netpipe; {again}"
        library = added.facts.get("library")
        if added.compiler is None or library is None or not added.compiler.exists():
            return None  # what was built goes on without its compiler
        now = compiler.identify(layer, added.compiler, description.read(added.path).environment).title
    except Failure:  # an installation without sources, or a compiler that does not work any more
        return None
    return (
        None
        if now == library
        else f"it was built for {library}, and {added.compiler} now compiles for {now}; {again}"
    )


def family_when_built(added: Added) -> Family | None:
    """The family whose header its compiler had."""
    library = added.facts.get("library", "")
    return next((one for one in families() if library.startswith(f"{one.title} ")), None)


def served_families(family: Family) -> list[Family]:
    """Whose settings a build must know: those of its own family, or of all that have the binary interface."""
    return [one for one in families(family.layer) if one.has_abi] if family.is_abi else [family]


def _again(added: Added) -> str:
    family = family_when_built(added)
    if family is not None and family.is_abi:
        return f"add it again as before, with --name {added.short}, or remove it"
    try:
        layer = layers.of_module(added.name)
    except Failure:
        return f"remove it (netpipe modules remove {added.short})"
    path = added.compiler if added.compiler is not None and added.compiler.exists() else "PATH"
    return f"add it again ({layer.add_command(path, added.short)}) or remove it (netpipe modules remove {added.short})"


@dataclass(frozen=True, slots=True)
class Checked:
    """A module and what is wrong with it."""

    module: Added
    problem: str | None  # it cannot be measured
    advice: str | None  # it can, but should be built again

    def as_json(self) -> dict[str, Any]:
        launcher = self.module.launcher[1] if self.module.launcher else None
        return {
            "name": self.module.name,
            "version": self.module.version or None,
            "mpicc": str(self.module.compiler) if self.module.compiler else None,
            "family": self.module.lines.family or None,
            "launcher": str(launcher) if launcher else None,
            "file": str(self.module.file),
            "description": str(self.module.path),
            "added": self.module.facts.get("added"),
            "healthy": self.problem is None,
            "problem": self.problem,
            "advice": self.advice,
        }


def checked() -> Iterator[Checked]:
    """All of them, checked one after the other."""
    for each in all_():
        trouble = problem(each)
        yield Checked(each, trouble, None if trouble else advice(each))
