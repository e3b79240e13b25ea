# SPDX-License-Identifier: Apache-2.0
"""A machine with two MPI libraries for `netpipe apps`: descriptions without a library behind them, and kernels that are
scripts, which say what they need.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from netpipe import native
from netpipe.applications import plan
from netpipe.applications.plan import Planned, Request
from netpipe.failure import USAGE, Failure
from netpipe.libraries.adding import programs

KERNELS = {
    "cg": "Ranks: a power of two\n * Classes: S W A",
    "sweep3d": "Ranks: any number\n * Classes: 20 50\n * Settings: mk planes of a block, mmi angles",
    "sp": "Ranks: a square\n * Classes: S W A",
}
# Takes what a kernel takes: --class X --plan N [--mk N]. One rank of class A has a gigabyte, of the others a megabyte.
SCRIPT = """#!/bin/sh
name=${0##*-}
case "$name" in
  sp) [ "$4" = 4 ] || why='it needs a square number of ranks' ;;
  *) [ $(($4 & ($4 - 1))) = 0 ] || why='it needs a power of two of ranks' ;;
esac
[ "$6" = 99 ] && why='mk must be at most the number of planes'
echo "$@" >>"$0.asked"
[ "$2" = A ] && bytes=1073741824 || bytes=1048576
[ -n "$why" ] && fits=false || fits=true
echo "{\\"fits\\":$fits,\\"why\\":\\"$why\\",\\"memory_bytes\\":$bytes}"
"""
MODULE = """netpipe-module 1
name {name}
file {name}.so
version {version}
family {family}
launcher {family} {launcher}
compiler {launcher}
"""


@dataclass
class Here:
    """A machine with two libraries."""

    folder: Path
    built: list[tuple[str, str]] = field(default_factory=list)  # kernel and module
    broken: dict[str, Failure] = field(default_factory=dict)  # modules whose compiler fails
    free: int = 8 << 30
    processors: int = 4  # that ranks can be bound to
    said: list[str] = field(default_factory=list)

    def plan(self, *kernels: str, on: tuple[str, ...] = (), **more: Any) -> Planned:
        return plan.plan(Request(kernels, on, **more), self.said.append)

    def texts(self, *kernels: str, **more: Any) -> list[str]:
        return [task.cell.text for task in self.plan(*kernels, **more).tasks]

    def write(self, name: str, **fields: str) -> None:
        usual = {"version": "Open MPI 5.0.11", "family": "openmpi", "launcher": "/bin/true"}
        (self.folder / f"{name}.module").write_text(MODULE.format(name=name, **usual | fields))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    folder, sources = tmp_path / "modules", tmp_path / "apps"
    for one in (folder, sources):
        one.mkdir()
    machine = Here(folder)
    machine.write("mpi@one")
    machine.write("mpi@two", version="MPICH 5.0.2", family="mpich")
    for name, lines in KERNELS.items():
        (sources / f"{name}.c").write_text(f"/* In Short\n * In short: {name} itself\n * {lines}\n *\n */\n")

    def listed() -> dict[str, Any]:
        options = [{"name": "transport", "choices": ["auto", "shm", "tcp"]}, {"name": "op", "choices": []}]
        return {
            "modules": [
                {"name": path.stem, "launched": True, "description": str(path), "options": options}
                for path in sorted(folder.glob("*.module"))
            ],
            "variant_options": [{"name": "ranks"}],
        }

    def build(builder: Any, name: str) -> Path:
        if builder.name in machine.broken:
            raise machine.broken[builder.name]
        machine.built.append((name, builder.name))
        path = tmp_path / f"{builder.name}-{name}"
        path.write_text(SCRIPT)
        path.chmod(0o755)
        return path

    def settings(_: Any, variant: str, ranks: int, pin: str) -> dict[str, str]:
        if "op=" in variant:
            raise Failure(USAGE, "op=isend says how netpipe calls the library; a program makes its own calls")
        return {"SETTING": f"{variant} {ranks}" + ("" if pin == "auto" else f" {pin}")}

    def place(pin: str, ranks: int) -> dict[str, Any]:
        """As the worker: auto binds no rank where ranks would share a processor."""
        shared = ranks > machine.processors
        some: list[int | None] = list(range(ranks))
        if pin == "none" or (pin == "auto" and shared):
            some = [None] * ranks
        elif pin != "auto":
            some = [int(one) for one in pin.split(",")][:ranks]
            if len(some) < ranks:
                raise Failure(USAGE, f"pin {pin} names {len(some)} processors for {ranks} ranks")
            shared = shared or len(set(some)) < ranks
        return {"placement": pin, "pin": some, "oversubscribed": shared}

    monkeypatch.setattr(programs, "source_folder", lambda _: sources)

    def built(builder: Any, name: str) -> Path | None:
        return tmp_path / f"{builder.name}-{name}" if (name, builder.name) in machine.built else None

    monkeypatch.setattr(programs, "application", build)
    monkeypatch.setattr(programs, "built_application", built)
    monkeypatch.setattr(programs, "builder", lambda one: SimpleNamespace(name=one.name, environment={}))
    monkeypatch.setattr(native, "list_", listed)
    monkeypatch.setattr(native, "worker", lambda: Path("/bin/true"))
    pin = {"option": "pin", "repeatable": False, "default": "auto", "help": "made-up pin", "metavar": "CPUS"}
    monkeypatch.setattr(
        native,
        "keys",
        lambda: {
            "module_directories": [{"path": str(folder), "kind": "installation"}],
            "plan_keys": [{**pin, "name": "pin", "type": "processors", "choices": ["auto", "none"]}],
        },
    )
    monkeypatch.setattr(native, "plan", lambda _: {})
    monkeypatch.setattr(native, "place", place)
    monkeypatch.setattr(
        native,
        "environment",
        lambda: {
            "memory": {"available_bytes": 1 << 62},
            "limits": {"cgroup": {"memory_max_bytes": machine.free}},
        },
    )
    monkeypatch.setattr(plan, "settings", settings)
    return machine


def refused(code: int, call: Callable[[], object]) -> str:
    with pytest.raises(Failure) as caught:
        call()
    assert caught.value.exit_code == code
    return caught.value.sentence
