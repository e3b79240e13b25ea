# SPDX-License-Identifier: Apache-2.0
"""The lines of a file of application results: `applications` first, one `result` for each run in the order in which
they ran, `end` last. Times are seconds.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from netpipe.contents import TABLE, contents

SCHEMA = 1


class NotApplications(ValueError):  # noqa: N818  (it reads as what it says)
    """A file that holds no results of applications; the text names the file."""


class Line(msgspec.Struct, kw_only=True, tag_field="type", omit_defaults=True):
    """One line."""


class Header(Line, kw_only=True, tag="applications"):
    schema: int
    netpipe: str | None = None
    started: str | None = None  # ISO 8601, UTC
    host: str | None = None
    processors: int | None = None  # that this process may use
    command: list[str] = []
    libraries: dict[str, str] = {}  # version by module
    seed: int | None = None


class Check(msgspec.Struct, kw_only=True):
    """One value that the kernel compared with the published one."""

    what: str
    found: float | None = None
    expected: float | None = None
    tolerance: float = 0.0
    passed: bool = False


class Result(Line, kw_only=True, tag="result"):
    """One run of one kernel."""

    name: str  # cg
    problem: str  # its class: A
    variant: str  # mpi@openmpi:transport=tcp
    ranks: int
    hosts: int = 1
    launch: int = 1  # counts the runs of this cell from 1
    options: dict[str, int] = {}
    seconds: float | None = None  # of the timed region, as the kernel prints it
    mops: float | None = None  # 10^6 operations in a second, of all ranks together
    operations: str = ""
    verified: bool = False
    size: str = ""
    iterations: int | None = None
    wall_s: float | None = None  # with starting and ending
    checks: list[Check] = []  # those that failed
    problem_text: str = ""  # why there is no result

    @property
    def cell(self) -> tuple[str, str, str, int]:
        return self.name, self.problem, self.variant, self.ranks


class End(Line, kw_only=True, tag="end"):
    exit_code: int = 0
    wall_s: float = 0.0


AnyLine = Header | Result | End
_decoder = msgspec.json.Decoder(AnyLine)
_encoder = msgspec.json.Encoder()


def encode(line: Line) -> bytes:
    """One line, with its newline."""
    return _encoder.encode(line) + b"\n"


class Applications:
    """A file of results in memory."""

    def __init__(self, header: Header, results: list[Result], end: End | None) -> None:
        self.header = header
        self.results = results
        self.end = end


def are_applications(path: Path) -> bool:
    """Whether the first line says so."""
    try:
        with path.open("rb") as file:
            return b'"type":"applications"' in file.read(4096).partition(b"\n")[0]
    except OSError:
        return False


def read(path: Path) -> Applications:
    """A torn last line is left out. Raises NotApplications, OSError, Failure (2) for a device or a huge file."""
    text = contents(path, TABLE)
    found: list[AnyLine] = []
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        try:
            found.append(_decoder.decode(line))
        except (msgspec.DecodeError, RecursionError) as error:
            if number > 1 and not line.endswith(b"\n"):
                break
            what = "holds no results of applications" if number == 1 else f"is damaged in line {number}"
            raise NotApplications(f"{path} {what}: {error}") from None
    if not found or not isinstance(found[0], Header):
        raise NotApplications(f"{path} holds no results of applications")
    if found[0].schema > SCHEMA:
        raise NotApplications(
            f"{path} is of a newer netpipe (schema {found[0].schema}, this one reads {SCHEMA}); update netpipe"
        )
    results = [line for line in found if isinstance(line, Result)]
    return Applications(found[0], results, next((line for line in found if isinstance(line, End)), None))
