# SPDX-License-Identifier: Apache-2.0
"""The description of a module with a launcher (`mpi@NAME.module`): its lines, and what starting its processes takes.

The worker reads the same file for the module's table and ignores the lines that are for Python: `family NAME`,
`launcher KIND PATH`, `environment NAME=VALUE` and `loaded FILE`, and those of `netpipe modules add` (adding/added.py).
Older descriptions have no `loaded`, and still older ones no `family`: there KIND is its name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from netpipe import native
from netpipe.failure import UNAVAILABLE, Failure

FORMAT = "1"
OWN = "netpipe"  # the family of netpipe's own layers, which are no library


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of a description, whatever it describes."""

    facts: Mapping[str, str] = field(default_factory=dict)  # `key value`; the first line of each key
    environment: Mapping[str, str] = field(default_factory=dict)
    loaded: tuple[Path, ...] = ()

    @property
    def launcher(self) -> tuple[str, Path] | None:
        """Its kind and its path; None where no absolute path is named."""
        kind, _, path = self.facts.get("launcher", "").partition(" ")
        return (kind, Path(path)) if kind and path.startswith("/") else None

    @property
    def family(self) -> str:
        kind = self.launcher[0] if self.launcher else ""
        return self.facts.get("family") or ("" if kind == "srun" else kind)


def lines_of(text: str) -> Lines:
    facts: dict[str, str] = {}
    environment: dict[str, str] = {}
    loaded: list[Path] = []
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == "environment" and "=" in value:
            name, _, of = value.partition("=")
            environment[name] = of
        elif key == "loaded":
            loaded.append(Path(value))
        elif "\t" not in key:
            facts.setdefault(key, value.strip())
    return Lines(facts, environment, tuple(loaded))


@dataclass(frozen=True, slots=True)
class Description:
    name: str  # mpi@openmpi
    file: Path  # the module itself
    version: str  # of the library, as it calls itself: "Open MPI 4.1.4"
    family: str  # of the library: openmpi, mpich, mvapich, ...; "" where it is not known
    launched_by: str  # the kind of its launcher: openmpi, mpich, intel, lam, smpi, srun
    launcher: Path
    environment: Mapping[str, str] = field(default_factory=dict)  # that the launcher and the ranks need
    path: Path | None = None  # of the description; None: netpipe's own layers
    loaded: tuple[Path, ...] = ()  # files that the loader found for the module when it was added

    @property
    def major(self) -> int:
        """The first number of the version; 0 where there is none."""
        found = re.search(r"\d+", self.version)
        return int(found.group()) if found else 0


def read(path: Path) -> Description:
    """Raises Failure (3) for a file that cannot be read, is not a description, or names no launcher."""
    try:
        lines = lines_of(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise Failure(UNAVAILABLE, f"cannot read {path}: {why}; {_remedy(path)}") from None
    said = lines.facts
    if said.get("netpipe-module") != FORMAT:
        raise Failure(
            UNAVAILABLE, f"{path} is not a module description that this netpipe can read; {_remedy(path)}"
        )
    if lines.launcher is None:
        raise Failure(UNAVAILABLE, f"{path} does not name the launcher of its processes; {_remedy(path)}")
    return Description(
        name=said.get("name", path.stem),
        file=Path(said.get("file", path.with_suffix(".so"))),
        version=said.get("version", ""),
        family=lines.family,
        launched_by=lines.launcher[0],
        launcher=lines.launcher[1],
        environment=lines.environment,
        path=path,
        loaded=lines.loaded,
    )


def _remedy(path: Path) -> str:
    layer, _, name = path.stem.partition("@")
    return f"add the library again: netpipe modules add {layer} --name {name or layer}"


def launched(listing: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The modules with a launcher in the listing of `netpipe-worker list`, by name."""
    return {module["name"]: module for module in listing["modules"] if module.get("launched")}


def find(name: str, files: Sequence[str] = ()) -> Description:
    """The description of an added module, or of one of these files (--module). Raises Failure (3) if there is none of
    that name.
    """
    path = launched(native.list_(files)).get(name, {}).get("description")
    for place in [Path(path)] if path else [folder / f"{name}.module" for folder in folders()]:
        if place.is_file():
            return read(place)
    raise Failure(
        UNAVAILABLE,
        f"there is no description of {name}; 'netpipe modules' shows what was added, 'netpipe modules add' adds more",
    )


def folders() -> dict[Path, str]:
    """Where the worker looks for modules, in its order, and the kind of each place: environment (NETPIPE_MODULE_PATH),
    installation or user.
    """
    return {Path(one["path"]): one["kind"] for one in native.keys()["module_directories"]}
