# SPDX-License-Identifier: Apache-2.0
"""The runs whose curves a prediction uses, as one run.

A variant keeps its name where one run has it; where several have it, each one is a variant of its own, with the label
of its run. A run that completes others (`netpipe predict --measure`) is no such other run: its curves are read with
those of the run that has the variant already.

Collectives cost what they cost on so many ranks, so one variant may have been measured on several numbers of them:
mpi@x, mpi@x:ranks=4. For a program these are one. So are its curves within a host and those between hosts, of which the
recorded hosts of the ranks tell which is which, if there is one set of each.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from netpipe.reading.across.merge import MARK, labels, merged
from netpipe.records import Run

BETWEEN = " between hosts"  # behind what is not that within a host
FAR = f"{MARK}{BETWEEN.strip()}"  # behind a variant, where it has curves within a host too
_RANKS = re.compile(r"([:,])ranks=\d+(,?)")


def without_ranks(variant: str) -> str:
    """mpi@x:transport=shm,ranks=4 as mpi@x:transport=shm."""
    return _RANKS.sub(lambda found: found[1] if found[2] else "", variant)


def of_program(variant: str) -> str:
    """The name of a variant in a prediction: on any number of ranks, within a host and between hosts."""
    return without_ranks(variant).removesuffix(FAR)


def between_hosts(run: Run) -> set[str]:
    """The names of the variants whose ranks were on several hosts."""
    return {one.variant for one in run.variants if len({rank.host for rank in one.ranks if rank.host}) > 1}


def read_runs(paths: Sequence[Path]) -> Run:
    """Reads these files, without samples, as one run. Raises NotARun or OSError."""
    return one_run([Run.read(path, samples=False) for path in paths])


def one_run(runs: Sequence[Run]) -> Run:
    """At least one run."""
    far = [between_hosts(run) for run in runs]
    # What each run has: variants, and whether between hosts.
    there = [
        {(without_ranks(point.variant), point.variant in between) for point in run.points}
        for run, between in zip(runs, far, strict=True)
    ]
    places = {run.header.run: place for place, run in enumerate(runs) if run.header is not None}

    def first(place: int, one: tuple[str, bool]) -> int:
        """The place of the run whose variant this one completes; its own if none."""
        seen = {place}
        while True:
            header = runs[place].header
            others = [places[name] for name in (header.completes if header else ()) if name in places]
            found = [other for other in others if other not in seen and one in there[other]]
            if not found:
                return place
            place = found[0]
            seen.add(place)

    runs_of: dict[str, set[tuple[int, bool]]] = {}
    for place, some in enumerate(there):
        for variant, between in some:
            runs_of.setdefault(variant, set()).add((first(place, (variant, between)), between))
    # One set of curves, or one within a host and one between hosts.
    alone = {
        variant for variant, some in runs_of.items() if len(some) == len({between for _, between in some})
    }
    shared = [some for variant, some in runs_of.items() if variant not in alone]
    several = sorted({place for some in shared for place, _ in some})
    label = dict(zip(several, labels([runs[place] for place in several]), strict=True))

    def named(place: int, variant: str) -> str:
        plain, between = without_ranks(variant), variant in far[place]
        if plain in alone:
            return f"{variant}{FAR}" if between and len(runs_of[plain]) > 1 else variant
        text = label.get(first(place, (plain, between)))
        return variant if text is None else f"{variant}{MARK}{text}"

    return merged(runs, named)
