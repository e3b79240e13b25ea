# SPDX-License-Identifier: Apache-2.0
"""How worker processes are started. A starter is one file in this folder with one function, from an assignment to the
command of its worker:

    @starter("local", "all ranks on this host")
    def local(assignment: Assignment) -> Command: ...

Whatever it starts speaks the worker's protocol (docs/reference/worker.md) on standard input and output.

A *launch* is the number of a start within a run (`--launches 3` makes three). A *launcher* is what a library brings to
start its processes, such as mpirun.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from netpipe.failure import USAGE, Failure
from netpipe.launch.plan import Plan


@dataclass(frozen=True, slots=True)
class Assignment:
    """What one worker process is to do."""

    plan: Plan
    record: int  # a descriptor of the run file that it appends to
    record_name: str  # the same file in sentences
    launch: int
    wanted: tuple[str, ...] = ()  # lines of the plan's key: where earlier launches looked closer

    def text(self) -> str:
        """What is written to the worker's standard input."""
        plan = Plan((*self.plan.lines, *(("wanted", one) for one in self.wanted)))
        return plan.text(record=self.record_path, launch=str(self.launch), paced="yes")

    @property
    def record_path(self) -> str:
        """Leads to the file in a process that has inherited the descriptor, whatever the file's name is by then."""
        return f"/proc/self/fd/{self.record}"


@dataclass(frozen=True, slots=True)
class Command:
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)  # added to the environment of this process


Start = Callable[[Assignment], Command]


@dataclass(frozen=True, slots=True)
class Starter:
    name: str
    summary: str
    command: Start


_starters: dict[str, Starter] = {}


def starter(name: str, summary: str) -> Callable[[Start], Start]:
    """Registers a starter under its name."""

    def register(function: Start) -> Start:
        _starters[name] = Starter(name, summary, function)
        return function

    return register


def starters() -> Mapping[str, Starter]:
    """All starters by name. Loads every file of this folder once."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return _starters


def find(name: str) -> Starter:
    """Raises Failure (2) for an unknown name."""
    known = starters()
    if name not in known:
        raise Failure(
            USAGE, f"'{name}' does not start netpipe's own layers; choose one of {', '.join(sorted(known))}"
        )
    return known[name]
