# SPDX-License-Identifier: Apache-2.0
"""What `netpipe tune` can set of a library and how the library is told, as its family says it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a library that is known to matter, and that its module has no option for."""

    variable: str  # in the environment
    transports: str  # that obey it, as the option `transport` names them: auto|shm
    least: int
    most: int
    values: tuple[int, ...] = ()  # to try, where the library does not say what it is at present
    operation: str = ""  # the collective that obeys it, and only between hosts; "": messages do
    since: tuple[int, ...] = ()  # the first version of the library in which it matters

    def matters(self, version: tuple[int, ...], operations: Collection[str]) -> bool:
        """In this version of the library, with these collectives between hosts."""
        return version >= self.since and (not self.operation or self.operation in operations)


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which algorithm a collective operation is to use at which size, on a number of ranks."""

    operation: str
    ranks: int
    # in bytes, as the pattern counts it, the value that chooses it; "": as the library does
    by_size: Mapping[int, str]
    words: Mapping[str, str]  # the names of the algorithms by their values
    version: tuple[int, ...]  # of the library
    library: Path | None = None  # libmpi


@dataclass(frozen=True, slots=True)
class Rules:
    """The same, as a library is told: files by name, and variables that name them or say it themselves."""

    variables: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)


def by_operation(some: Sequence[Chosen]) -> dict[str, list[Chosen]]:
    """Each operation with what is chosen for it, by rising number of ranks; what has no algorithm is left out."""
    found: dict[str, list[Chosen]] = {}
    for one in sorted(some, key=lambda one: one.ranks):
        if any(one.by_size.values()):
            found.setdefault(one.operation, []).append(one)
    return found


def file_stem(some: Sequence[Chosen]) -> str:
    """What names of files of these rules begin with: the operation, or `collective` for several rules."""
    return some[0].operation if len(some) == 1 else "collective"


def steps_of(by_size: Mapping[int, str]) -> list[tuple[int, str]]:
    """(from so many bytes on, value), rising, the first from 0. Between two sizes that were measured the change is in
    the middle by logarithm; beyond twice the largest the library chooses, as nothing was measured there.
    """
    sizes = sorted(by_size)
    starts = [0, *(round(math.sqrt(a * b)) for a, b in pairwise(sizes)), 2 * sizes[-1]]
    kept: list[tuple[int, str]] = []
    for start, value in zip(starts, [*(by_size[size] for size in sizes), ""], strict=True):
        if not kept or kept[-1][1] != value:
            kept.append((start, value))
    return kept


# Of a library that says what it has by a program of its own: from the folder of its programs, the names of variables
# and the environment to what Library.ask of netpipe.tuning answers.
Ask = Callable[[Path, Sequence[str], Mapping[str, str]], dict[str, dict[str, Any]]]
# Whether such a library takes variables: from that folder, libmpi, the variables and the environment to each with what
# holds without it and with it, twice the same where it is ignored. Empty: the library could not be asked.
ReadBack = Callable[[Path, Path | None, Mapping[str, str], Mapping[str, str]], dict[str, tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class Tunables:
    """What `netpipe tune` can set of a library, and how the library is told. Values come from the library itself: by
    `ask`, or MPI_T (MPI 3.1, chapter 14.3).
    """

    prefix: str = ""  # of a control variable's name in the environment,
    bare: bool = False  # which MPI_T leaves out
    known: str = ""  # a variable that every version has: one that does not know it cannot be asked
    ask: Ask | None = None
    read_back: ReadBack | None = None
    parameters: tuple[Parameter, ...] = ()
    algorithm: Callable[[str], str] = lambda operation: ""  # noqa: ARG005  the variable of a collective; "": none
    # Rules by size for all of these together, whose files will be in the folder; None if one of them is an operation
    # that the library has no rules for.
    rules: Callable[[Sequence[Chosen], Path], Rules | None] | None = None
    unruled: frozenset[str] = frozenset()  # algorithms that rules cannot name
    # Of an operation and a version of the library (empty: not known), the variables without which the choice of an
    # algorithm is ignored.
    with_algorithm: Callable[[str, tuple[int, ...]], Mapping[str, str]] = lambda operation, version: {}  # noqa: ARG005
    settings_file: str = ""  # the name of a file of `name = value` that the library reads,
    settings_place: str = ""  # and where
