# SPDX-License-Identifier: Apache-2.0
"""What a suite file says, checked: its runs, what is made of them, and what a paper published. files.py reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

QUICK, DEFAULT, FULL = "quick", "default", "full"
SIZES = (QUICK, DEFAULT, FULL)

# Kinds of runs. Those that leave a run file can be drawn, exported and checked.
RUN, MEMORY, APPS, PROFILE, NODES, PAIRS = "run", "memory", "apps", "profile", "nodes", "pairs"
RUN_FILES = (RUN, MEMORY)
DOCTOR = "doctor"  # the key of a check that is about the machine, in place of a baseline
FAR = "between_hosts"  # the key of a run for what is different between hosts


@dataclass(frozen=True, slots=True)
class Part:
    """One table of the file. `given` is what the command would be called with."""

    kind: str  # run, figure, table or check
    name: str  # of a run; else the title
    where: str  # how a sentence about it begins
    given: dict[str, Any]
    does: str = RUN  # of a run: its kind; of the others: that of their run
    # of a run whose time no plan bounds: what it took where the file was written
    minutes: float | None = None
    # Of a figure, a table or a check: its run, its file, and what of the run it chooses (nothing: all).
    run: str = ""
    file: str = ""
    variants: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    shows: str = ""  # a table of netpipe's own (tables.py), in place of a format of netpipe export
    each: bool = False  # a file for each curve: the format holds one
    far: dict[str, Any] | None = None  # of a run: `given` between hosts, where that is different
    optional: bool = False  # of a run: what of it cannot be measured is said, and fails nothing
    rounds: int | None = None  # of pairs of hosts: others that each meets at most; None: all


@dataclass(frozen=True, slots=True)
class Value:
    """A number that a paper printed, and how the same is found here."""

    what: str
    where: str  # in the paper
    paper: float
    unit: str
    run: str = ""  # empty: nothing here is its equal, and `why` says so
    # latency, peak, time, rate or a measure of a pattern; of other kinds: the column of their table
    of: str = ""
    variant: str = ""
    pattern: str = "pingpong"
    size: int | None = None  # bytes
    row: str = ""  # of the tables of kernels and profiles
    problem: str = ""  # the class that the paper ran
    ranks: int | None = None
    shows: str = ""
    why: str = ""
    listed: bool = True  # on the terminal; those of whole tables are in the report and in published.csv alone


@dataclass(frozen=True, slots=True)
class Suite:
    name: str
    path: Path
    digest: str  # of the file's bytes
    size: str  # of SIZES
    sizes: tuple[str, ...]  # that the file has
    summary: str
    source: str
    runs: tuple[Part, ...]
    results: tuple[Part, ...]  # figures, then tables, then checks
    published: tuple[Value, ...] = ()
    stands_for: tuple[tuple[str, str, str], ...] = ()  # in the paper, here, why
    not_measured: tuple[tuple[str, str], ...] = ()  # title, why
    # what variants of its runs leave open: names, each with what belongs there
    places: Mapping[str, str] = field(default_factory=dict)
