# SPDX-License-Identifier: Apache-2.0
"""The runs whose curves a prediction uses, as one run.

A variant keeps its name where one run has it; where several have it, each one is a variant of its own, with the label
of its run. A run that completes others (`netpipe predict --measure`) is no such other run: its curves are read with
those of the run that has the variant already.

Collectives cost what they cost on so many ranks, so one variant may have been measured on several numbers of them:
mpi@x, mpi@x:ranks=4. For a program these are one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from netpipe.reading.across.merge import MARK, labels, merged
from netpipe.records import Run

_RANKS = re.compile(r"([:,])ranks=\d+(,?)")


def without_ranks(variant: str) -> str:
    """mpi@x:transport=shm,ranks=4 as mpi@x:transport=shm."""
    return _RANKS.sub(lambda found: found[1] if found[2] else "", variant)


def read_runs(paths: Sequence[Path]) -> Run:
    """Reads these files, without samples, as one run. Raises NotARun or OSError."""
    return one_run([Run.read(path, samples=False) for path in paths])


def one_run(runs: Sequence[Run]) -> Run:
    """At least one run."""
    there = [{without_ranks(point.variant) for point in run.points} for run in runs]
    places = {run.header.run: place for place, run in enumerate(runs) if run.header is not None}

    def first(place: int, variant: str) -> int:
        """The place of the run whose variant this one completes; its own if none."""
        seen = {place}
        while True:
            header = runs[place].header
            others = [places[one] for one in (header.completes if header else ()) if one in places]
            found = [one for one in others if one not in seen and variant in there[one]]
            if not found:
                return place
            place = found[0]
            seen.add(place)

    runs_of: dict[str, set[int]] = {}
    for place, variants in enumerate(there):
        for variant in variants:
            runs_of.setdefault(variant, set()).add(first(place, variant))
    several = sorted({place for some in runs_of.values() if len(some) > 1 for place in some})
    label = dict(zip(several, labels([runs[place] for place in several]), strict=True))

    def named(place: int, variant: str) -> str:
        plain = without_ranks(variant)
        one_run = len(runs_of.get(plain, ())) < 2
        return variant if one_run else f"{variant}{MARK}{label[first(place, plain)]}"

    return merged(runs, named)
