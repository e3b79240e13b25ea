# SPDX-License-Identifier: Apache-2.0
"""Several runs as one, to lay them over each other: the same pattern in one socket and across sockets, before and after
a change, on two machines (Liu et al. 2003, section 3.6).

Each variant gets its run's label behind its name, and each launch a number of its own. So nothing is averaged over
runs, and a loss is still read within one: points are compared within one launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from netpipe.records import End, Plan, Record, Run

MARK = " @"  # between a variant and its run; no name of a variant has a blank
DONE = "done"


def name_of(variant: str) -> str:
    """Of a variant, without the run that it is of."""
    return variant.partition(MARK)[0]


def labels(runs: Sequence[Run]) -> tuple[str, ...]:
    """What tells the runs apart, in the shortest words: where the ranks were, else the file, else a number."""
    for found in (
        [_placement(run) for run in runs],
        [run.path.stem if run.path else None for run in runs],
        [str(run.path.with_suffix("")) if run.path else None for run in runs],
    ):
        known = [label for label in found if label]
        if len(set(known)) == len(runs):
            return tuple(known)
    return tuple(f"run {number}" for number in range(1, len(runs) + 1))


def _placement(run: Run) -> str | None:
    """As it was asked for, the same in all launches; "hosts" where the ranks of a variant were on several."""
    if any(len({rank.host for rank in opened.ranks}) > 1 for opened in run.variants):
        return "hosts"
    asked = {plan.placement for plan in run.plans}
    return asked.pop() if len(asked) == 1 else None


def merged(runs: Sequence[Run]) -> Run:
    """One run is itself."""
    if len(runs) == 1:
        return runs[0]
    whole = Run()
    whole.header = runs[0].header
    first = 0  # the number that the run's launch 0 gets
    for run, label in zip(runs, labels(runs), strict=True):
        last = -1
        for record in _records(run):
            moved = _moved(record, label, first)
            last = max(last, getattr(record, "launch", 0))
            whole.add(moved)
        first += last + 1
    ends = [run.end for run in runs]
    known = [end for end in ends if end is not None]
    if len(known) == len(ends):  # one that was cut off leaves the whole without an end
        worst = next((end for end in known if end.reason != DONE), known[0])
        seconds = [end.seconds for end in known if end.seconds is not None]
        whole.end = End(exit=worst.exit, reason=worst.reason, seconds=sum(seconds) if seconds else None)
    return whole


def _records(run: Run) -> list[Record]:
    return [
        *run.plans,
        *run.environments,
        *run.variants,
        *run.yardsticks,
        *run.samples,
        *run.points,
        *run.counters,
        *run.skipped,
        *run.errors,
        *run.launches,
    ]


def _moved(record: Record, label: str, first: int) -> Record:
    changes: dict[str, Any] = {"launch": getattr(record, "launch", 0) + first}
    if (variant := getattr(record, "variant", None)) is not None:
        changes["variant"] = f"{variant}{MARK}{label}"
    if isinstance(record, Plan):
        changes["variants"] = [
            msgspec.structs.replace(planned, variant=f"{planned.variant}{MARK}{label}")
            for planned in record.variants
        ]
    return msgspec.structs.replace(record, **changes)


def read(paths: Sequence[Path]) -> Run:
    """The runs of these files as one. Raises NotARun, or OSError."""
    return merged([Run.read(path) for path in paths])
