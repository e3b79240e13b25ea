# SPDX-License-Identifier: Apache-2.0
"""Several runs as one, to compare them: the same pattern in one socket and across sockets, before and after a change,
on two machines (Liu et al. 2003, section 3.6).

Each variant's name gets its run's label, and each launch a number of its own. So nothing is averaged over runs, and
losses stay within a run: points are compared within one launch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from netpipe.escapes import printable
from netpipe.records import End, Plan, Record, Run

MARK = " @"  # between a variant and its run; no variant has a blank in its name
DONE = "done"


def name_of(variant: str) -> str:
    """The name of a variant without the label of its run."""
    return variant.partition(MARK)[0]


def labels(runs: Sequence[Run]) -> tuple[str, ...]:
    """The shortest labels that tell the runs apart: where the ranks were placed, else the file, else a number."""
    for found in (
        [_placement(run) for run in runs],
        [printable(run.path.stem) if run.path else None for run in runs],
        [printable(str(run.path.with_suffix(""))) if run.path else None for run in runs],
    ):
        known = [label for label in found if label]
        if len(set(known)) == len(runs):
            return tuple(known)
    return tuple(f"run {number}" for number in range(1, len(runs) + 1))


def _placement(run: Run) -> str | None:
    """The placement that was asked for in all launches; "hosts" if the ranks of a variant were on several."""
    if any(len({rank.host for rank in opened.ranks}) > 1 for opened in run.variants):
        return "hosts"
    asked = {plan.placement for plan in run.plans}
    return asked.pop() if len(asked) == 1 else None


def merged(runs: Sequence[Run], named: Callable[[int, str], str] | None = None) -> Run:
    """All runs as one; a single run is returned as it is. `named`: the name of a variant of the run at this place, by
    default with the label of its run.
    """
    if len(runs) == 1:
        return runs[0]
    if named is None:
        texts = labels(runs)

        def named(place: int, variant: str) -> str:
            return f"{variant}{MARK}{texts[place]}"

    whole = Run()
    whole.header = runs[0].header
    if whole.header is not None and any(
        run.header is None or run.header.argv != whole.header.argv for run in runs
    ):
        whole.header = msgspec.structs.replace(whole.header, argv=[])  # no one command measured all of this
    first = 0  # the new number of the run's launch 0
    for place, run in enumerate(runs):
        last = -1
        for record in run.body():
            moved = _moved(record, partial(named, place), first)
            last = max(last, getattr(record, "launch", 0))
            whole.add(moved)
        first += last + 1
    ends = [run.end for run in runs]
    known = [end for end in ends if end is not None]
    if len(known) == len(ends):  # an incomplete run leaves the whole incomplete
        worst = next((end for end in known if end.reason != DONE), known[0])
        seconds = [end.seconds for end in known if end.seconds is not None]
        whole.end = End(exit=worst.exit, reason=worst.reason, seconds=sum(seconds) if seconds else None)
    return whole


def _moved(record: Record, named: Callable[[str], str], first: int) -> Record:
    changes: dict[str, Any] = {"launch": getattr(record, "launch", 0) + first}
    if (variant := getattr(record, "variant", None)) is not None:
        changes["variant"] = named(variant)
    if isinstance(record, Plan):
        changes["variants"] = [
            msgspec.structs.replace(
                planned,
                variant=named(planned.variant),
                copy_of=planned.copy_of and named(planned.copy_of),
            )
            for planned in record.variants
        ]
    return msgspec.structs.replace(record, **changes)


def read(paths: Sequence[Path]) -> Run:
    """Reads these files, without samples, and merges their runs. Raises NotARun or OSError."""
    return merged([Run.read(path, samples=False) for path in paths])
