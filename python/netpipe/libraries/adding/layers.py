# SPDX-License-Identifier: Apache-2.0
"""The layers that `netpipe modules add` builds once per library: the folders of src/modules whose module.toml says
`build = "library"`. Its section [library] is all that this command knows of a layer:

    title = "MPI"               what such a library is called
    source = "mpi.c"            what is compiled, with every family's header that it may meet
    header = "mpi.h"            the library's header, whose macros say which library it is
    compiler = "mpicc"          the option that names the library's compiler: --mpicc PATH
    launcher = "mpiexec"        the option that names its launcher; without it the family's launcher is on PATH
    flags = ""                  more words for the compiler, behind the source: "-lpvm3 -lpthread"
    families = "mpi"            the layer whose libraries this one stands on; without it the layer has its own
    archives = "libx-FAMILY.a"  archives of each library's name that are made fit for a module and linked (archives.py)
    get = "apt install libx"    what installs the header and the archives
    abi = "libmpi_abi.so"       file of a binary interface that several libraries have; without it there is none
"""

from __future__ import annotations

import hashlib
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netpipe import native
from netpipe.failure import UNAVAILABLE, USAGE, Failure
from netpipe.libraries import Family

SEPARATOR = "@"
KIT = re.compile(r'^#include "(kit/[^"]+)"', re.MULTILINE)
BENEATH = ("identify", "through", "carry", "yield")  # of beneath.h (kit/libraries/mpi_beneath.h)


@dataclass(frozen=True, slots=True)
class Layer:
    name: str
    folder: Path
    summary: str
    title: str
    source: str
    header: str
    compiler: str
    launcher: str
    flags: tuple[str, ...]
    abi: str
    families: str  # the layer whose families it has
    archives: tuple[str, ...]
    get: str

    @property
    def stands_on_another(self) -> bool:
        """Whether its compilers are those of another layer."""
        return self.families != self.name

    @property
    def prefix(self) -> str:
        return self.name + SEPARATOR

    def add_command(self, path: object = "PATH", name: str = "") -> str:
        return f"netpipe modules add {self.name} --{self.compiler} {path}" + (
            f" --name {name}" if name else ""
        )

    @property
    def path_text(self) -> str:
        """What PATH is in that command, where `netpipe doctor` lists it under another layer: the end of a sentence."""
        return (
            f", where PATH is the compiler of a library for {self.families}" if self.stands_on_another else ""
        )


def folders() -> list[Path]:
    """Where the sources of layers are: in the installation, or in the checkout."""
    places = [prefix / "share" / "netpipe" / "modules" for prefix, _ in native.prefixes()]
    return [*places, Path(__file__).resolve().parents[4] / "src" / "modules"]


def all_() -> dict[str, Layer]:
    """By name."""
    found: dict[str, Layer] = {}
    for folder in folders():
        for path in sorted(folder.glob("*/module.toml")):
            said = _read(path)
            if said.get("build") == "library" and path.parent.name not in found:
                found[path.parent.name] = _layer(path, said)
    return found


def _layer(path: Path, said: Mapping[str, Any]) -> Layer:
    own = said.get("library", {})
    try:
        return Layer(
            name=path.parent.name,
            folder=path.parent,
            summary=said["summary"],
            title=own["title"],
            source=own["source"],
            header=own["header"],
            compiler=own["compiler"],
            launcher=own.get("launcher", ""),
            flags=tuple(shlex.split(own.get("flags", ""))),
            abi=own.get("abi", ""),
            families=own.get("families", path.parent.name),
            archives=tuple(own.get("archives", "").split()),
            get=own.get("get", ""),
        )
    except KeyError as error:
        raise Failure(UNAVAILABLE, f"{path} does not say {error}; install netpipe again") from None


def one(name: str) -> Layer:
    """Raises Failure: 2 for a layer that does not exist or comes with netpipe, 3 for one that comes with netpipe and is
    not available here.
    """
    layers = all_()
    if name in layers:
        return layers[name]
    places = [prefix / "lib" / "netpipe" / "modules" for prefix, _ in native.prefixes()]
    if any((place / f"{name}.so").is_file() for place in places):
        listed = {one["name"]: one for one in native.list_()["modules"]}.get(name, {"available": True})
        if not listed["available"]:
            raise Failure(
                UNAVAILABLE, f"{name} comes with netpipe, so there is nothing to add: {listed['reason']}"
            )
        raise Failure(USAGE, f"{name} comes with netpipe, so there is nothing to add: netpipe run {name}")
    for folder in folders():
        path = folder / name / "module.toml"
        get = _read(path).get("needs", {}).get("get", "") if path.is_file() else ""
        if get:
            raise Failure(
                UNAVAILABLE,
                f"{name} is built with netpipe itself, where its library is installed: {get}, then build netpipe again",
            )
    for place in places:
        if (place / f"{name}.absent").is_file():
            lines = (place / f"{name}.absent").read_text().splitlines()
            reason = next((line.partition(" ")[2] for line in lines if line.startswith("reason ")), "")
            raise Failure(UNAVAILABLE, f"{name} is built with netpipe itself: {reason}")
    raise Failure(
        USAGE, f"there is no layer '{name}' for libraries; choose one of {', '.join(layers) or 'none'}"
    )


@dataclass(frozen=True, slots=True)
class Without:
    """A layer of which no library was added, so that it cannot be measured yet."""

    name: str
    summary: str
    reason: str  # with the commands that get a library and add it


def without_library(
    listing: Mapping[str, Any], compiler: Callable[[Layer], Path | None] = lambda _: None
) -> list[Without]:
    """Such layers, by what the worker lists. `compiler`: one of this machine for a layer; the command then names it."""
    there = {module["name"].partition(SEPARATOR)[0] for module in listing["modules"]}
    found = []
    for layer in all_().values():
        if layer.name not in there:
            path = None if layer.stands_on_another else compiler(layer)
            get = f"{layer.get}, then " if layer.get else ""
            how = layer.add_command(path) if path else f"{get}{layer.add_command()}{layer.path_text}"
            found.append(Without(layer.name, layer.summary, f"no library for {layer.title} was added; {how}"))
    return found


def again(name: str) -> str:
    """The command that adds LAYER@NAME anew, with PATH for its compiler; "" where this netpipe lacks the layer."""
    of, _, short = name.partition(SEPARATOR)
    layer = all_().get(of)
    return layer.add_command(name=short) if layer else ""


def of_module(name: str) -> Layer:
    """The layer of LAYER@NAME."""
    return one(name.partition(SEPARATOR)[0])


def _read(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Failure(UNAVAILABLE, f"cannot read {path}: {error}; install netpipe again") from None


# ------------------------------------------------------------------------------------------------------ sources


def includes(layer: Layer) -> list[Path]:
    """Folders for the compiler to look into: the layer's own, that of the layers' common kit, that of the contract."""
    for parent in layer.folder.parents:
        if (parent / "include" / "netpipe" / "module.h").is_file():
            return [layer.folder, layer.folder.parent, parent / "include"]
    raise Failure(UNAVAILABLE, "netpipe/module.h was not found; install netpipe again")


def sources(layer: Layer, families: Sequence[Family]) -> list[Path]:
    """What a module is built from; the file to compile comes first. Raises Failure (3)."""
    if not (layer.folder / layer.source).is_file():
        raise Failure(UNAVAILABLE, f"{layer.folder / layer.source} does not exist; install netpipe again")
    found = [layer.folder / layer.source, *sorted(layer.folder.rglob("*.h")), *kit(layer)]
    found += sorted((includes(layer)[-1] / "netpipe").glob("*.h"))
    for family in families:
        found += [family.header] if family.header and not layer.stands_on_another else []
        found += [family.beneath] if family.beneath else []
        found += [family.folder / name for name in family.sources]
        found += [archive()] if family.simulates else []
    return found


def kit(layer: Layer) -> list[Path]:
    """The headers of the common kit that its sources include, themselves or through others of the kit."""
    folder = layer.folder.parent
    found: set[Path] = set()
    unread = sorted(layer.folder.rglob("*.[ch]"))
    while unread:
        text = unread.pop().read_text(errors="replace")
        new = {path for name in KIT.findall(text) if (path := folder / name).is_file()} - found
        found |= new
        unread += new
    return sorted(found)


def archive() -> Path:
    """netpipe's part of a rank on a simulated machine. Raises Failure (3) where it was not installed."""
    places = [prefix / "lib" / "netpipe" / "libnetpipe-simulated.a" for prefix, _ in native.prefixes()]
    for path in places:
        if path.is_file():
            return path
    raise Failure(UNAVAILABLE, f"{places[0]} does not exist; install netpipe again")


def digest(files: Sequence[Path]) -> str:
    """Of all that a module is built from."""
    whole = hashlib.sha256()
    for file in files:
        text = file.read_bytes()
        whole.update(f"{file.name} {len(text)}\n".encode())
        whole.update(text)
    return whole.hexdigest()[:16]


def family_table(layer: Layer, families: Sequence[Family]) -> str:
    """LAYER_families.h: includes the headers of these families, and lists the tables that they define. A layer that
    stands on another needs only what beneath.h knows.
    """
    if layer.stands_on_another:
        asked = [family for family in families if family.beneath]
        lines = [f'#include "{family.beneath}"' for family in asked]
        functions = [[f"{family.name}_{what}" for what in BENEATH] for family in asked]
        names = "".join(f"{{{', '.join(one)}}}, " for one in functions)
        return "\n".join([*lines, f"static const struct mpi_beneath families[] = {{{names}{{NULL}}}};", ""])
    known = [family for family in families if family.header]
    lines = [f'#include "{family.header}"' for family in known]
    names = "".join(f"&{family.name}_family, " for family in known)
    return "\n".join([*lines, f"static const struct family* const families[] = {{{names}NULL}};", ""])
