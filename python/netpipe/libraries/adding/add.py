# SPDX-License-Identifier: Apache-2.0
"""Adds a library: compiles the layer's source with the library's compiler, loads the result in a process of its own,
and puts both files into place. Until then everything happens in a temporary folder, so a failure changes nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from netpipe.failure import FAILED, UNAVAILABLE, USAGE, Failure
from netpipe.libraries import MPI, Family, families, family_of_version
from netpipe.libraries.adding import added, compiler, launcher, layers
from netpipe.libraries.adding.added import Added
from netpipe.libraries.adding.archives import movable
from netpipe.libraries.adding.compiler import Library
from netpipe.libraries.adding.layers import Layer
from netpipe.libraries.starting import description
from netpipe.libraries.starting.description import lines_of
from netpipe.libraries.starting.scratch import Scratch

# Where every loader looks by itself.
SYSTEM = re.compile(r"/(usr/)?lib(32|64)?(/[a-z0-9_]+-linux-[a-z0-9]+)?")
GOOD_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")
# Optimised like the modules that come with netpipe.
FLAGS = ("-std=gnu17", "-O3", "-fPIC", "-shared", "-fvisibility=hidden")


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for."""

    compiler: Path
    name: str | None = None
    launcher: Path | None = None
    abi: bool = False
    library: Path | None = None  # with abi: the folder of the library to run with
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None  # where the module goes; None: where added modules usually go
    replace: bool = False  # also hide a module of this name that is in another folder
    layer: str = MPI


@dataclass(frozen=True, slots=True)
class Build:
    """What is known before anything is compiled."""

    request: Request
    layer: Layer
    library: Library
    launcher: launcher.Found
    name: str  # mpi@openmpi
    folder: Path
    environment: Mapping[str, str]  # for the library and its launcher


def add(request: Request) -> Added:
    """Raises Failure that says what is wrong with the compiler, its library or the folder."""
    layer = layers.one(request.layer)
    library = compiler.identify(layer, request.compiler, request.environment)
    check_abi(request, layer, library)
    start = launcher.find(layer, library, request.launcher)
    folder = request.folder or added.target()
    name = choose_name(request, layer, library, start, folder)
    environment = {**needed(request, library, start), **library.environment}
    build = Build(request, layer, library, start, name, folder, environment)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with Scratch(".adding-", folder) as scratch:
            return make(build, scratch)
    except OSError as error:
        raise Failure(FAILED, f"cannot write to {folder}: {error.strerror}") from None


def make(build: Build, scratch: Path) -> Added:
    library = build.library
    file = scratch / f"{build.name}.so"
    final = build.folder.absolute() / file.name
    served = added.served_families(library.family)
    sources = layers.sources(build.layer, served)
    compile_(build, served, sources, file)
    try:
        table = added.describe(file, build.name, build.environment)
    except Failure as failure:
        words = failure.sentence.replace(str(file), final.name)
        raise Failure(
            failure.exit_code, f"{library.compiler} compiled the module, but it does not work: {words}"
        ) from None
    lines = [f"file {final}" if line.startswith("file ") else line for line in table.splitlines()]
    version = lines_of(table).facts.get("version", "")
    family = (family_of_version(version) if library.family.is_abi else None) or library.family
    lines += [f"family {family.name}", f"launcher {build.launcher.kind} {build.launcher.path}"]
    lines += [f"environment {key}={value}" for key, value in build.environment.items()]
    lines += [
        f"compiler {library.compiler}",
        f"library {library.title}",
        f"source {layers.digest(sources)}",
        f"added {datetime.now().astimezone():%Y-%m-%d}",
    ]
    described = scratch / f"{build.name}{added.ENDING}"
    described.write_text("\n".join([*lines, ""]))
    file.replace(final)
    done = build.folder / described.name
    described.replace(done)
    return Added(done, lines_of(done.read_text()))


def check_abi(request: Request, layer: Layer, library: Library) -> None:
    """Whether it is built against a standard ABI exactly if that was asked for."""
    if request.library is not None and not request.abi:
        raise Failure(
            USAGE, "--library is for --abi: every other module finds the library that it was built with"
        )
    if request.abi and not library.family.is_abi:
        raise Failure(
            USAGE,
            f"{request.compiler} compiles for {library.title} and not for the {layer.title} standard ABI; name an "
            f"{layer.compiler}_abi, or leave --abi out",
        )
    if library.family.is_abi and not layer.abi:
        raise Failure(
            USAGE,
            f"{request.compiler} compiles for the {library.title}, and {layer.title} is built for one library; name "
            f"that library's own {layer.compiler}",
        )
    if not request.abi and library.family.is_abi:
        raise Failure(
            USAGE,
            f"{request.compiler} compiles for the {layer.title} standard ABI, which several libraries have; add --abi, "
            f"and choose one of them with --library and --{layer.launcher}",
        )
    if request.library is not None and not any(request.library.glob(f"{layer.abi}*")):
        raise Failure(
            USAGE,
            f"there is no {layer.abi} in {request.library}; name the folder of a library that has the ABI",
        )


# -------------------------------------------------------------------------------------------------------- names


def choose_name(request: Request, layer: Layer, library: Library, start: launcher.Found, folder: Path) -> str:
    """LAYER@NAME. By default the name that this compiler's module already has, else the first that is free of openmpi,
    openmpi5, openmpi5.0.11. Raises Failure (2) for a bad name, or one of another library.
    """
    there = {each.short: each for each in added.all_([folder, *description.folders()], layer.name)}

    def same(each: Added) -> bool:
        return each.compiler == library.compiler and each.launcher == (start.kind, start.path)

    if request.name is not None:
        name = request.name.removeprefix(layer.prefix)
        if not GOOD_NAME.fullmatch(name):
            raise Failure(
                USAGE,
                f"'{request.name}' cannot be the name of a module; use lower-case letters, digits, '_', '-' and '.'",
            )
        check_taken(request, library, folder, there.get(name))
        return layer.prefix + name
    known = next((short for short, each in there.items() if same(each)), None)
    if known is not None:
        return layer.prefix + known
    base = library.family.module or library.family.name
    if library.family.is_abi:
        own = next((one for one in families(layer.families) if one.name == start.kind), None)
        base = (own.module or own.name if own else layer.name) + "-abi"
    major = library.version.partition(".")[0]
    several = (f"{base}{library.version}-{number}" for number in range(2, 1000))
    for name in (base, f"{base}{major}", f"{base}{library.version}", *several):
        if name not in there:
            return layer.prefix + name
    raise Failure(USAGE, f"there are too many modules called {base}; choose a name with --name")


def check_taken(request: Request, library: Library, folder: Path, other: Added | None) -> None:
    """A name of another library that works is not taken away, nor hidden by a file in another folder."""
    if other is None or other.compiler == library.compiler or added.problem(other) is not None:
        return
    if other.path.parent.absolute() == folder.absolute():
        raise Failure(
            USAGE,
            f"{other.short} already names {other.version} ({other.compiler}); choose another --name, or remove that "
            f"module first (netpipe modules remove {other.short})",
        )
    if not request.replace:
        raise Failure(
            USAGE,
            f"{other.short} already names {other.version} in {other.path.parent}, which a module in {folder} would "
            "hide; choose another --name, or add --replace to hide it",
        )


# ------------------------------------------------------------------------------------------------------ building


def needed(request: Request, library: Library, start: launcher.Found) -> dict[str, str]:
    """The environment without which the library or its launcher does not run."""
    found: dict[str, str] = {}
    own = next((one for one in families() if one.name == start.kind), None)
    if own is not None:
        found |= own.environment(start.path.parent.parent)
    folders = [request.library.absolute()] if request.library else library_folders(library)
    present = [Path(one) for one in os.environ.get("LD_LIBRARY_PATH", "").split(":") if one]
    paths = list(dict.fromkeys([*folders, *(path for path in present if path.is_dir())]))
    if paths:
        found["LD_LIBRARY_PATH"] = ":".join(map(str, paths))
    return found


def library_folders(library: Library) -> list[Path]:
    """Where the library is, as its compiler tells the linker; empty where the loader looks by itself."""
    words = compiler.shown(library)
    named = [word[2:] for word in words if word.startswith("-L") and len(word) > 2]
    named += [after for word, after in pairwise(words) if word == "-L"]
    folders = dict.fromkeys(Path(os.path.normpath(one)) for one in named)
    there = (one for one in folders if any(any(one.glob(each)) for each in library.family.files))
    return [one for one in there if not SYSTEM.fullmatch(str(one))]


def linked(layer: Layer, library: Library, scratch: Path) -> list[str]:
    """The layer's archives for this library, copied and made fit for a module. Raises Failure (3)."""
    found: list[str] = []
    for name in (one.replace("FAMILY", library.family.name) for one in layer.archives):
        done = compiler.run([library.compiler, f"-print-file-name={name}"], library.environment)
        path = Path(done.stdout.strip())
        if not path.is_file():
            raise Failure(
                UNAVAILABLE,
                f"there is no {layer.title} for {library.title}: {name} was not found"
                + (f"; {layer.get}" if layer.get else ""),
            )
        try:
            (scratch / name).write_bytes(movable(path.read_bytes()))
        except Failure as failure:
            raise Failure(
                failure.exit_code, f"{path} cannot be put into a module: {failure.sentence}"
            ) from None
        found.append(str(scratch / name))
    return [*found, "-Wl,-Bsymbolic"] if found else []


def without_rpath(words: Sequence[str]) -> list[str]:
    """A compiler's command without the folders where the loader is to look, so that one build serves several libraries.
    They are written as -Wl,-rpath,FOLDER, as -Wl,-rpath -Wl,FOLDER or as -Xlinker -rpath -Xlinker FOLDER.
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


def prepared(layer: Layer, served: Sequence[Family], folder: Path) -> list[str]:
    """Writes the table of these families into the folder. Returns how the layer's source is then compiled there."""
    (folder / f"{layer.name}_families.h").write_text(layers.family_table(layer, served))
    folders = [word for one in (*layers.includes(layer), folder) for word in ("-I", str(one))]
    return [*FLAGS, *folders]


def compile_(build: Build, served: Sequence[Family], sources: Sequence[Path], file: Path) -> None:
    """Raises Failure (3) with the compiler's first error."""
    layer, library = build.layer, build.library
    how = prepared(layer, served, file.parent)
    more = [str(path) for path in sources[1:] if path.suffix in (".c", ".a")]
    flags = [*library.family.flags(library.version), *linked(layer, library, file.parent), *layer.flags]
    words = [*how, "-o", str(file), str(sources[0]), *more, *flags]
    if build.request.abi:
        real, *behind = without_rpath(compiler.shown(library)) or [str(library.compiler)]
        words = [real, *words, *behind]  # libraries come after what needs them
    else:
        words = [str(library.compiler), *words]
        words += [f"-Wl,-rpath,{folder}" for folder in library_folders(library)]
    done = compiler.run(words, library.environment)
    if done.returncode != 0 or not file.is_file():
        raise Failure(
            UNAVAILABLE,
            f"{library.compiler} ({library.title}) cannot compile the module: {compiler.condensed(done.stderr)}",
        )
