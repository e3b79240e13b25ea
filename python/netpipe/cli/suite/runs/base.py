# SPDX-License-Identifier: Apache-2.0
"""What every kind of run of a suite is: planned, measured into a folder, or found there whole."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netpipe.cli.suite import settings
from netpipe.command.options import matching
from netpipe.failure import DONE, Failure

if TYPE_CHECKING:
    from rich.console import Console

    from netpipe.cli.suite.parts import Part
    from netpipe.cli.suite.runs.judged import Fleet
    from netpipe.kernels.lines import Result
    from netpipe.kernels.table import Row
    from netpipe.profiles.tables import Tables
    from netpipe.reading import Reading

Pairs = list[tuple[str, str]]  # of variant and pattern


@dataclass(frozen=True, slots=True)
class Site:
    """Where the runs of the suite have their processes: options of `netpipe suite run`."""

    hosts: str | None = None
    launcher: str | None = None
    remote_shell: str | None = None
    bind: str | None = None
    settings: tuple[str, ...] = ()  # NAME=VALUE, of what the suite leaves open (settings.py)

    @property
    def several(self) -> bool:
        """Whether they are on several hosts. Raises Failure (2) for hosts that are no list."""
        from netpipe.libraries.starting.hosts import parse

        return self.hosts is not None and len(parse(self.hosts).names) > 1

    def given(self) -> dict[str, Any]:
        """As options of a run; those that were not given are not in it."""
        said = {
            "hosts": self.hosts,
            "launcher": self.launcher,
            "remote_shell": self.remote_shell,
            "bind": self.bind,
        }
        return {key: value for key, value in said.items() if value is not None}

    def recorded(self) -> dict[str, Any]:
        """What has to be the same when the suite goes on."""
        said = self.given()
        return {**said, "set": " ".join(self.settings)} if self.settings else said

    def words(self) -> list[str]:
        """As a command line, without the hosts and what the suite leaves open."""
        said = self.given()
        said.pop("hosts", None)
        return [word for key, value in said.items() for word in (f"--{key.replace('_', '-')}", value)]


@dataclass(slots=True)
class Done:
    """What came of a run."""

    code: int = DONE
    problem: str = ""  # why there is nothing of it
    errors: tuple[str, ...] = ()  # what of it failed
    files: tuple[str, ...] = ()  # its records, by their names in the folder
    # One of these, by the kind of the run:
    reading: Reading | None = None
    rows: list[Row] | None = None
    results: list[Result] = field(default_factory=list)  # that the rows are made from
    profiles: dict[str, Tables] = field(default_factory=dict)  # by the label of the kernel
    fleet: Fleet | None = None


class Planned:
    """A run of the suite, planned. Its subclasses are the kinds of runs."""

    def __init__(self, run: Part) -> None:
        self.run = run
        self.left_out: dict[str, str] = {}  # variants, each with its reason
        self.goes_on = False  # what is whole in the folder is kept

    @property
    def available(self) -> bool:
        """Whether anything of it can be measured here."""
        raise NotImplementedError

    @property
    def pairs(self) -> Pairs:
        """The variants and patterns that it will measure, the skipped among them; of kinds without a run file none."""
        return []

    @property
    def curves(self) -> list[Mapping[str, Any]]:
        """What the worker says of each of them."""
        return []

    @property
    def longest_s(self) -> float | None:
        """Seconds at most, as the plan bounds them; else what the file says that it took; None: nobody knows."""
        return None if self.run.minutes is None else 60.0 * self.run.minutes

    @property
    def starts(self) -> int:
        """How many times a layer is started, whose time `longest_s` has not."""
        return 0

    @property
    def bounded(self) -> bool:
        """Whether `longest_s` is a bound."""
        return False

    @property
    def reasons(self) -> str:
        """Why variants are left out."""
        return "; ".join(dict.fromkeys(self.left_out.values()))

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about what is left out of it, and what is not known yet."""
        return ()

    def possible(self) -> Planned:
        """Itself; or a run of which nothing is available, where `measure` would say before it starts anything that a
        library has gone.
        """
        return self

    def print_plan(self, out: Console) -> None:
        raise NotImplementedError

    def measure(self, folder: Path, quiet: bool) -> Done:
        """Measures into the folder. What goes wrong is in the result. Raises OSError."""
        raise NotImplementedError

    def found(self, folder: Path) -> Done | None:
        """What an earlier time has left whole in the folder; None: nothing, or not all of it."""
        raise NotImplementedError


def spelled(names: Iterable[str], pairs: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """`mpi:transport=tcp` is that of every library that was added, and `tcp:rails={rails}` what it became; other names
    stay as they are.
    """
    known = dict.fromkeys(variant for variant, _ in pairs)
    found: list[str] = []
    for name in names:
        layer, colon, options = name.partition(":")
        some = [
            one
            for one in known
            if colon and "@" not in layer and one.startswith(f"{layer}@") and one.partition(":")[2] == options
        ]
        if settings.places((name,)):
            some = [one for one in known if settings.became(name, one)]
        found += some or [name]
    return tuple(dict.fromkeys(found))


def fault(run: Part, failure: Failure) -> Failure:
    return Failure(failure.exit_code, f"{run.where}: {failure.sentence}")


def layer_of(variant: str) -> str:
    """mpi, of mpi@openmpi:transport=tcp"""
    return re.split("[:@]", variant, maxsplit=1)[0]


def absent(asked: Iterable[str], pairs: Pairs, which: int) -> dict[str, str]:
    """Of these variants (which = 0) or patterns (1) those that are not among the pairs, with the sentence about it."""
    found = {}
    for name in asked:
        try:
            matching((name,) if which == 0 else (), (name,) if which == 1 else (), pairs)
        except Failure as failure:
            found[name] = failure.sentence
    return found
