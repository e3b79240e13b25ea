# SPDX-License-Identifier: Apache-2.0
"""A suite whose runs are measured apart from each other, as by the tasks of an array of jobs: `netpipe suite run --run`
measures one of them, and `--gather` makes the figures, tables and the report of what is in the folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from netpipe.cli.suite import measure, state
from netpipe.cli.suite.planning import planned
from netpipe.failure import DONE, FAILED, UNAVAILABLE, USAGE, Failure
from netpipe.streams import say

if TYPE_CHECKING:
    from netpipe.cli.suite.parts import Suite
    from netpipe.cli.suite.runs.base import Site


def run_one(suite: Suite, name: str, folder: Path, quiet: bool, site: Site) -> int:
    """Measures the run `name` into the folder, unless it is complete there. Each run may be on a host of its own.
    Returns the exit code. Raises Failure: 2 for a run that the suite does not have, or a folder of something else.
    """
    if name not in (there := [one.name for one in suite.runs]):
        raise Failure(USAGE, f"{suite.name} has no run '{name}'; there are {', '.join(there)}")
    now = state.here(suite, site.recorded(), apart=True)
    if (folder / state.FILE).exists():
        state.check(folder, now)
    one = planned(suite, site)[name]
    measure.say_left_out(one)
    if not one.available:
        say(f"run {name} cannot be measured here: {one.reasons}")
        return UNAVAILABLE
    folder.mkdir(parents=True, exist_ok=True)
    state.write(folder, now)
    one.goes_on = True
    if one.found(folder) is not None:
        say(f"run {name} is complete in {folder}")
        return DONE
    came = one.measure(folder, quiet)
    if came.problem:
        say(f"run {name}: {came.problem}")
    return came.code


def gather(suite: Suite, folder: Path, quiet: bool, site: Site) -> int:
    """Figures, tables and the report of the runs in the folder; measures nothing. A run that is not complete there is
    named in the report, and the exit code is 4 then. Raises Failure (2) for a folder of something else.
    """
    from netpipe.cli.suite.runs.base import Done

    state.check(folder, state.here(suite, site.recorded(), apart=True), measuring=False)
    runs = planned(suite, site, build=False)
    outcome = measure.Outcome()
    for name, one in runs.items():
        there = one.found(folder)
        if there is not None or one.available:
            outcome.done[name] = there or Done(FAILED, f"it is not complete in {folder}")
    measure.write_results(suite, folder, runs, outcome, quiet)
    return outcome.exit_code
