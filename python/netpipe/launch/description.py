# SPDX-License-Identifier: Apache-2.0
"""The description of a launched module (`mpi@NAME.module`), as far as starting its processes needs it.

The worker reads the same file for the table of the module. What launches it stands in lines of its own, which the
worker passes over: `launcher FAMILY PATH` and `environment NAME=VALUE`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from netpipe import native
from netpipe.failure import UNAVAILABLE, Failure

FORMAT = "1"
SIMULATOR = "smpi"  # the family whose ranks are one process, on a machine that does not exist


@dataclass(frozen=True, slots=True)
class Description:
    name: str  # mpi@openmpi
    file: Path  # the module itself
    version: str  # of the library, as it calls itself: "Open MPI 4.1.4"
    family: str  # whose launcher it is: openmpi, mpich, intel, lam, smpi
    launcher: Path
    environment: Mapping[str, str] = field(default_factory=dict)  # that the launcher and the ranks need

    @property
    def major(self) -> int:
        """The first number of the version; 0 where there is none."""
        found = re.search(r"\d+", self.version)
        return int(found.group()) if found else 0


def read(path: Path) -> Description:
    """Raises Failure (3) for a file that cannot be read, is none, or does not say how its processes are started."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise Failure(UNAVAILABLE, f"{path} cannot be read: {why}; {_remedy(path)}") from None
    said: dict[str, str] = {}
    environment: dict[str, str] = {}
    for line in lines:
        key, _, value = line.partition(" ")
        if key == "environment" and "=" in value:
            name, _, text = value.partition("=")
            environment[name] = text
        elif "\t" not in key:
            said.setdefault(key, value.strip())
    if said.get("netpipe-module") != FORMAT:
        raise Failure(
            UNAVAILABLE, f"{path} is no description of a module that is known here; {_remedy(path)}"
        )
    family, _, launcher = said.get("launcher", "").partition(" ")
    if not family or not launcher.startswith("/"):
        raise Failure(UNAVAILABLE, f"{path} does not say what launches its processes; {_remedy(path)}")
    return Description(
        name=said.get("name", path.stem),
        file=Path(said.get("file", path.with_suffix(".so"))),
        version=said.get("version", ""),
        family=family,
        launcher=Path(launcher),
        environment=environment,
    )


def _remedy(path: Path) -> str:
    name = path.stem.partition("@")[2] or path.stem
    return f"add the library again: netpipe modules add mpi --mpicc PATH --name {name}"


def launched(listing: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The launched modules of `netpipe-worker list`, by name."""
    return {module["name"]: module for module in listing["modules"] if module.get("launched")}


def find(name: str) -> Description:
    """Of an added module. Raises Failure (3) where there is none of that name."""
    path = launched(native.list_()).get(name, {}).get("description")
    for place in [Path(path)] if path else [folder / f"{name}.module" for folder in folders()]:
        if place.is_file():
            return read(place)
    raise Failure(
        UNAVAILABLE,
        f"there is no description of {name}; netpipe modules shows what was added, netpipe modules add adds more",
    )


def folders() -> list[Path]:
    """Where added modules are: those of NETPIPE_MODULE_PATH, the installation's folder, the user's."""
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    more = [Path(folder) for folder in os.environ.get("NETPIPE_MODULE_PATH", "").split(":") if folder]
    own = [prefix / "lib" / "netpipe" / "modules" for prefix, _ in native.prefixes()]
    return [*more, *own, data / "netpipe" / "modules"]
