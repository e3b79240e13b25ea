# SPDX-License-Identifier: Apache-2.0
"""The lines of a file of application results: `applications` first, one `result` for each run in the order in which
they ran, `end` last. Times are seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from netpipe.contents import TABLE, contents

SCHEMA = 1
HEADER = "applications"  # the type of the first line
TYPES = {HEADER, "result", "end"}


# the processor of each rank; None: it may run on several. Empty: nothing is known
Pin = tuple[int | None, ...]


def bound(pin: Sequence[int | None]) -> bool:
    """Whether each rank is held on one processor."""
    return bool(pin) and None not in pin


class NotApplications(ValueError):  # noqa: N818  (it reads as what it says)
    """A file that holds no results of applications; the text names the file."""


class Line(msgspec.Struct, kw_only=True, tag_field="type", omit_defaults=True):
    """One line."""


class Header(Line, kw_only=True, tag=HEADER):
    schema: int
    netpipe: str | None = None
    started: str | None = None  # ISO 8601, UTC
    host: str | None = None
    processors: int | None = None  # that this process may use
    command: list[str] = []
    libraries: dict[str, str] = {}  # version by module
    seed: int | None = None
    hosts: list[str] = []  # of --hosts; empty: this one alone
    placement: str | None = None  # what was asked of the pinning: auto, none, smt, ..., or processors


class Check(msgspec.Struct, kw_only=True):
    """One value that the kernel compared with the published one."""

    what: str
    found: float | None = None
    expected: float | None = None
    tolerance: float = 0.0
    passed: bool = False


@dataclass(frozen=True, slots=True)
class Load:
    """What else ran on this host just before a launch, as docs/reference/environment.md has it; None: not known."""

    average_1: float | None = None  # of one minute; the launch before is in it too
    other_busy_processes: int | None = None  # that wanted to run, outside netpipe's process group


class Cell(NamedTuple):
    """What is run several times, and compared."""

    name: str  # sweep3d
    settings: str  # mk=10,mmi=3
    problem: str
    variant: str
    ranks: int
    mapping: str = ""  # of the ranks to hosts, block or cyclic; "": all on one

    @property
    def kernel(self) -> str:
        return f"{self.name}:{self.settings}" if self.settings else self.name

    @property
    def text(self) -> str:
        ranks = f"{self.ranks} rank{'' if self.ranks == 1 else 's'}"
        mapping = f", {self.mapping}," if self.mapping else ""
        return f"{self.kernel} class {self.problem} on {ranks}{mapping} over {self.variant}"


class Result(Line, kw_only=True, tag="result"):
    """One run of one kernel."""

    name: str  # cg
    problem: str  # its class: A
    variant: str  # mpi@openmpi:transport=tcp
    ranks: int
    hosts: int = 1
    # of the ranks to the hosts, as they have said themselves: block or cyclic; "": one host
    mapping: str = ""
    places: list[str] = []  # the name of each rank's host, where there are several
    launch: int = 1  # counts the runs of this cell from 1
    options: dict[str, int] = {}
    seconds: float | None = None  # of the timed region, as the kernel prints it
    mops: float | None = None  # 10^6 operations in a second, of all ranks together
    operations: str = ""
    verified: bool = False
    size: str = ""
    iterations: int | None = None
    wall_s: float | None = None  # with starting and ending
    pin: list[int | None] = []  # the processor of each rank at its end; None: it could run on several
    oversubscribed: bool = False  # ranks shared processors
    checks: list[Check] = []  # those that failed
    problem_text: str = ""  # why there is no result
    load: Load | None = None  # when it was started; None: not known

    @property
    def settings(self) -> str:
        """mk=10,mmi=3"""
        return ",".join(f"{name}={value}" for name, value in self.options.items())

    @property
    def cell(self) -> Cell:
        return Cell(self.name, self.settings, self.problem, self.variant, self.ranks, self.mapping)


class End(Line, kw_only=True, tag="end"):
    exit_code: int = 0
    wall_s: float = 0.0


AnyLine = Header | Result | End
_decoder = msgspec.json.Decoder(AnyLine)
_encoder = msgspec.json.Encoder()


class _About(msgspec.Struct):
    """What a line says of itself, whatever else is in it."""

    type: str = ""
    schema: int = 0
    started: str | None = None


def encode(line: Line) -> bytes:
    """One line, with its newline."""
    return _encoder.encode(line) + b"\n"


@dataclass(frozen=True, slots=True)
class Applications:
    """A file of results in memory."""

    header: Header
    results: list[Result]
    end: End | None  # None: the session was killed, or it still runs


def are_applications(path: Path) -> bool:
    """Whether the first line says so."""
    return _first(path).type == HEADER


def started(path: Path) -> str | None:
    """When the session of this file began, as its first line says; None where it does not."""
    return _first(path).started


def read(path: Path) -> Applications:
    """A torn last line is left out, and so are lines of a type that is not known. Raises NotApplications, OSError,
    Failure (2) for a device or a huge file.
    """
    first, *lines = contents(path, TABLE).split(b"\n")
    header = _line(path, first, 1)
    if not isinstance(header, Header):
        raise NotApplications(f"{path} holds no results of applications")
    results: list[Result] = []
    end = None
    for number, line in enumerate(lines[:-1], 2):
        found = _line(path, line, number)
        if isinstance(found, Result):
            results.append(found)
        elif isinstance(found, End):
            end = found
    return Applications(header, results, end)


def _line(path: Path, line: bytes, number: int) -> AnyLine | None:
    """None: of a type that is not known."""
    about = _about(line)
    if number == 1 and about.type == HEADER and about.schema > SCHEMA:
        raise NotApplications(
            f"{path} is of a newer netpipe (schema {about.schema}, this one reads {SCHEMA}); update netpipe"
        )
    try:
        found: AnyLine = _decoder.decode(line)
    except (ValueError, RecursionError) as error:
        if number > 1 and about.type and about.type not in TYPES:
            return None
        what = "holds no results of applications" if number == 1 else f"is damaged in line {number}"
        raise NotApplications(f"{path} {what}: {error}") from None
    return found


def _about(line: bytes) -> _About:
    try:
        return msgspec.json.decode(line, type=_About)
    except (ValueError, RecursionError):
        return _About()


def _first(path: Path) -> _About:
    try:
        with path.open("rb") as file:
            return _about(file.readline(1 << 20))
    except OSError:
        return _About()
