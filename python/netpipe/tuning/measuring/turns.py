# SPDX-License-Identifier: Apache-2.0
"""What cannot be measured with and without in one block (settings of the kernel, placement): launches take turns,
without, with each, and without again, and the series are compared as runs are (reading/across/between.py), with an
interval for what two runs may differ by themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from netpipe.reading import Reading
from netpipe.reading.across.between import Between
from netpipe.reading.across.merge import read as merged
from netpipe.session import Request, Session
from netpipe.tuning.measuring.ratios import Verdict, verdict

TURNS = 4  # launches of each series: fewer say nothing of how far launches lie apart
BEFORE, AGAIN = "before", "before-again"


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Series:
    """One launch of `request` in each turn, between `prepare` and `undo`."""

    name: str  # also of its run file
    request: Request
    prepare: Callable[[], None] = _nothing
    undo: Callable[[], None] = _nothing


def take_turns(
    base: Request,
    others: Sequence[Series],
    folder: Path,
    going_on: Callable[[], bool],
    say: Callable[[str], None],
) -> dict[str, Verdict]:
    """Each of `others` against `base`, by name. The series are run files in `folder`, which is made. Stops when
    `going_on()` is no longer true.
    """
    folder.mkdir(parents=True, exist_ok=True)
    series = [Series(BEFORE, base), *others, Series(AGAIN, base)]
    for turn in range(TURNS):
        say(f"{folder.name}: turn {turn + 1} of {TURNS}")
        for one in series:
            if not going_on():
                break
            try:
                one.prepare()
                Session(one.request).measure(_file(folder, one.name), onto=turn > 0)
            finally:
                one.undo()
    beside = _against_the_first(folder, AGAIN)
    copy = beside.overall if beside else None
    shown = [at.times.value for at in beside.sizes] if beside else []
    apart = math.exp(fmean(abs(math.log(one)) for one in shown)) if shown else 1.0
    found = {one.name: _against_the_first(folder, one.name) for one in others}
    return {name: verdict(one.overall, copy, apart) for name, one in found.items() if one is not None}


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name.replace(' ', '_').replace('/', '_')}.jsonl"


def _against_the_first(folder: Path, name: str) -> Between | None:
    """Times in this series over those in the first."""
    paths = [_file(folder, BEFORE), _file(folder, name)]
    if not all(path.is_file() for path in paths):
        return None
    found = Reading(merged(paths)).between
    return found[0] if found else None
