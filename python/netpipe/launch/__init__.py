# SPDX-License-Identifier: Apache-2.0
"""How worker processes come to life. A launcher is one file in this folder with one function: from a job to the command
that starts its worker.

    @launcher("local", "both ranks on this host")
    def local(job: Job) -> Command: ...

Whatever it starts speaks the worker's protocol (docs/reference/worker.md) on its standard input and output.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from netpipe.failure import USAGE, Failure
from netpipe.launch.plan import Plan


@dataclass(frozen=True, slots=True)
class Job:
    """One worker, to be started once."""

    plan: Plan
    record: Path
    launch: int  # its number in the run file

    def text(self) -> str:
        """What is written to its standard input."""
        return self.plan.text(record=str(self.record), launch=str(self.launch), paced="yes")


@dataclass(frozen=True, slots=True)
class Command:
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)  # added to that of this process


Launcher = Callable[[Job], Command]


@dataclass(frozen=True, slots=True)
class Registered:
    name: str
    summary: str
    command: Launcher


_launchers: dict[str, Registered] = {}


def launcher(name: str, summary: str) -> Callable[[Launcher], Launcher]:
    """Registers a launcher under its name."""

    def register(function: Launcher) -> Launcher:
        _launchers[name] = Registered(name, summary, function)
        return function

    return register


def launchers() -> Mapping[str, Registered]:
    """All of them, by name: every file of this folder is loaded once."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return _launchers


def find(name: str) -> Registered:
    """Raises Failure (2) for a name that there is not."""
    known = launchers()
    if name not in known:
        raise Failure(USAGE, f"there is no launcher '{name}'; there are {', '.join(sorted(known))}")
    return known[name]
