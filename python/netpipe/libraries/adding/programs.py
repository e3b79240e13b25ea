# SPDX-License-Identifier: Apache-2.0
"""What is built with a library's compiler when it is first needed: the applications (src/apps) and the library that
profiles (src/profiler). What was built stays, and is built again when its source, the compiler or the processor
changes.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from netpipe import native
from netpipe.failure import FAILED, UNAVAILABLE, Failure
from netpipe.libraries import MPI
from netpipe.libraries.adding import compiler, layers
from netpipe.libraries.adding.add import library_folders
from netpipe.libraries.adding.added import Added
from netpipe.libraries.adding.compiler import Library
from netpipe.libraries.starting.description import read
from netpipe.libraries.starting.scratch import Scratch

PROGRAM = ("-std=gnu11", "-O3", "-march=native")
SHARED = ("-std=gnu17", "-O3", "-fPIC", "-fvisibility=hidden")
# It names no library that it needs, because it is loaded into programs without one, and only looks for a function when
# it is called.
LINKED = ("-shared", "-Wl,-z,lazy", "-lpthread", "-ldl")


@dataclass(frozen=True, slots=True)
class Builder:
    """A library's compiler, and where what it builds is kept."""

    library: Library
    name: str  # of the folder for what is built
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return self.library.title


def builder(added: Added) -> Builder:
    """Of a library that was added. Raises Failure (3) if its compiler is not there any more."""
    known = read(added.path)
    if added.compiler is None or not added.compiler.exists():
        raise Failure(
            UNAVAILABLE,
            f"the compiler of {added.name}, {added.compiler or 'which its description does not name'}, does not exist "
            f"any more; add the library again, or: netpipe modules remove {added.short}",
        )
    library = compiler.identify(layers.one(MPI), added.compiler, known.environment)
    return Builder(library, added.name, _place(added.path.parent), known.environment)


def builder_of(path: Path) -> Builder:
    """Of a compiler that nobody has added. Raises Failure: 2 if it does not compile MPI, 3 if it does not work."""
    library = compiler.identify(layers.one(MPI), path)
    name = hashlib.sha256(str(library.compiler).encode()).hexdigest()[:16]
    return Builder(library, name, _place(None), library.environment)


def _place(beside: Path | None) -> Path:
    """Beside the module; else where this user keeps what can be made again."""
    if beside is not None and os.access(beside, os.W_OK):
        return beside / "built"
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(cache) if cache.startswith("/") else Path.home() / ".cache") / "netpipe" / "built"


# ------------------------------------------------------------------------------------------------------ sources


def source_folder(name: str) -> Path:
    """`apps` or `profiler`: in the installation, or in the checkout. Raises Failure (3)."""
    places = [prefix / "share" / "netpipe" / name for prefix, _ in native.prefixes()]
    for place in (*places, Path(__file__).resolve().parents[4] / "src" / name):
        if place.is_dir():
            return place
    raise Failure(UNAVAILABLE, f"{places[0]} does not exist; install netpipe again")


def applications() -> list[str]:
    """The names of all applications: the C files of their folder."""
    return sorted(path.stem for path in source_folder("apps").glob("*.c"))


# ----------------------------------------------------------------------------------------------------- building


def application(build: Builder, name: str) -> Path:
    """The program. Raises Failure (3) with the compiler's first error."""
    sources, words = _application(name)

    def make(target: Path, _: Path) -> None:
        rpath = [f"-Wl,-rpath,{one}" for one in library_folders(build.library)]
        _run(build, [str(build.library.compiler), *words, "-o", str(target), "-lm", *rpath], name)

    return _built(build, name, sources, [*words, _processor()], make)


def built_application(build: Builder, name: str) -> Path | None:
    """The program, if it was built before."""
    sources, words = _application(name)
    target = _target(build, name, sources, [*words, _processor()])
    return target if target.is_file() else None


def _application(name: str) -> tuple[list[Path], list[str]]:
    """Its sources, and what the compiler is told."""
    folder = source_folder("apps")
    sources = [folder / f"{name}.c", *sorted(folder.glob("*.h"))]
    return sources, [*PROGRAM, "-I", str(folder), str(sources[0])]


def profiler(build: Builder) -> Path:
    """The library to put under an application. Raises Failure (3) with the compiler's first error."""
    folder = source_folder("profiler")
    files = sorted(folder.glob("*.c"))
    words = [*SHARED, f"-I{folder}"]

    def make(target: Path, scratch: Path) -> None:
        objects = [str(scratch / f"{file.stem}.o") for file in files]

        def compile_(file: Path, made: str) -> None:
            _run(build, [str(build.library.compiler), *words, "-c", str(file), "-o", made], "the profiler")

        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as several:
            list(several.map(compile_, files, objects))
        real = (compiler.shown(build.library) or ["cc"])[0]
        _run(build, [real, "-o", str(target), *objects, *LINKED], "the profiler")

    return _built(build, "profiler.so", [*files, *sorted(folder.glob("*.h"))], [*words, *LINKED], make)


def _target(build: Builder, name: str, sources: Sequence[Path], words: Sequence[str]) -> Path:
    """Where what is built of these sources by this compiler is kept."""
    whole = hashlib.sha256(layers.digest(sources).encode())
    for word in (*words, str(build.library.compiler), build.library.title):
        whole.update(f"\n{word}".encode())
    return build.folder / build.name / f"{whole.hexdigest()[:12]}-{name}"


def _built(
    build: Builder,
    name: str,
    sources: Sequence[Path],
    words: Sequence[str],
    make: Callable[[Path, Path], None],
) -> Path:
    target = _target(build, name, sources, words)
    if target.is_file():
        return target
    folder = target.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with Scratch(".building-", folder) as scratch:
            made = scratch / name
            make(made, scratch)
            if not made.is_file():
                raise Failure(UNAVAILABLE, f"{build.library.compiler} made no {name}, and gave no reason")
            made.replace(target)
    except OSError as error:
        raise Failure(FAILED, f"cannot write to {folder}: {error.strerror}") from None
    for old in folder.glob(f"*-{name}"):  # of other sources
        if old != target:
            old.unlink(missing_ok=True)
    return target


def _run(build: Builder, words: Sequence[str], what: str) -> None:
    done = compiler.run(words, build.environment)
    if done.returncode != 0:
        raise Failure(
            UNAVAILABLE,
            f"{words[0]} ({build.title}) cannot compile {what}: {compiler.condensed(done.stderr)}",
        )


def _processor() -> str:
    """What programs are compiled for: of several hosts with one folder each has its own."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    found = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", text, re.MULTILINE)
    return f"{platform.machine()} {found.group(1) if found else ''}"
