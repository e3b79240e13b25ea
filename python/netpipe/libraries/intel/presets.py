# SPDX-License-Identifier: Apache-2.0
"""Presets of Intel MPI's collectives: which there are, and rules by size. And whether the library takes them, or any
other of its variables.

    I_MPI_ADJUST_ALLREDUCE="2:0-1024@4-4;5:1025-1048576@4-4"     preset, bytes and ranks, from and to

impi_info says how many presets an operation has, and no more. MPI_T (seen in 2021.19) knows these variables and has no
value for them, and a preset that does not exist is ignored in silence. With I_MPI_DEBUG the library names, in MPI_Init,
what it ignores, so one process of its own asks it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from netpipe.libraries.tunables import Chosen, Rules, by_operation, steps_of

ADJUST = "I_MPI_ADJUST_"
ANSWER_S = 20.0
MOST_PRESETS = 64
# Whose sizes are counted as netpipe counts them: one buffer of each rank.
RULED = frozenset({"allreduce", "bcast", "reduce"})
_DESCRIPTION = re.compile(r"Description:\n {4}(\S.*(?:\n {3}\S.*)*)")
_RANGE = re.compile(r"range:\s*(\d+)-(\d+)")
_IGNORED = re.compile(r"Incorrect .*: (\w+)=(.*), will be ignored")
_TAKEN = re.compile(r"(I_MPI_\w+)=(.*)")
SAYS_WHAT_IT_TAKES = {"I_MPI_DEBUG": "6", "I_MPI_FABRICS": "shm"}


def ask(programs: Path, names: Sequence[str], environment: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Of each variable that it knows: what it is for, and the presets of an operation; not what it is set to."""
    found = {}
    for name in names:
        said = _said([str(programs / "impi_info"), "-v", name], environment)
        if said.split()[:1] == [name]:
            found[name] = {"value": "", "help": _about(said), "choices": _presets(said)}
    return found


def _about(said: str) -> str:
    """Without the breaks within words that impi_info puts into long lines."""
    about = _DESCRIPTION.search(said)
    return re.sub(r"\n {3}", "", about.group(1)).strip() if about else ""


def _presets(said: str) -> dict[str, int]:
    span = _RANGE.search(said)
    if span is None:
        return {}
    first, last = map(int, span.groups())
    return {f"preset {n}": n for n in range(first, min(last, first + MOST_PRESETS) + 1)}


def rules(some: Sequence[Chosen], folder: Path) -> Rules | None:  # noqa: ARG001  variables say it all
    """For the sizes and the numbers of ranks that were measured; elsewhere the library chooses."""
    if any(one.operation not in RULED for one in some):
        return None
    return Rules(
        {
            f"{ADJUST}{operation.upper()}": ";".join(part for one in each for part in _parts(one))
            for operation, each in by_operation(some).items()
        }
    )


def _parts(chosen: Chosen) -> list[str]:
    steps = [*steps_of(chosen.by_size), (0, "")]
    return [
        f"{value}:{start}-{end - 1}@{chosen.ranks}-{chosen.ranks}"
        for (start, value), (end, _) in pairwise(steps)
        if value
    ]


def read_back(
    programs: Path,  # noqa: ARG001
    library: Path | None,
    variables: Mapping[str, str],
    environment: Mapping[str, str],
) -> dict[str, tuple[str, str]]:
    """What the library says of each while it starts."""
    if library is None:
        return {}
    words = [sys.executable, "-m", "netpipe.libraries.intel.starting", str(library)]
    said = _said(words, {**environment, **variables, **SAYS_WHAT_IT_TAKES})
    ignored = {f"{ADJUST}{name}" for name, _ in _IGNORED.findall(said)}
    taken = dict(_TAKEN.findall(said))
    found = {}
    for name, value in variables.items():
        if name in ignored:
            found[name] = ("ignored by the library",) * 2
        elif taken.get(name, "").strip() == value:
            found[name] = ("not set", value)
    return found


def _said(words: Sequence[str], environment: Mapping[str, str]) -> str:
    """By a program of the library; "" where it cannot be started or does not end."""
    try:
        done = subprocess.run(
            words,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_S,
            check=False,
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr
