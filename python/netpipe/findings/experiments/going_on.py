# SPDX-License-Identifier: Apache-2.0
"""Going on with a run: whether `netpipe run --continue` adds launches to it, as far as its records tell, and the
command. What differs now from how it was measured is asked by `netpipe.command.continued`.
"""

from __future__ import annotations

import os
import shlex
import socket

from netpipe.records import SCHEMA, Run

NOT_SAID = "it was imported or measured by another program, and does not say how"
INTERRUPTED = "interrupted"  # why a run ended, and why there are no more visits of a point


def not_by_run(run: Run) -> str | None:
    """Why there is no command line of `netpipe run` that measured this run; None, if there is one."""
    if run.header is None or not run.plans or not run.header.argv:
        return NOT_SAID
    command = run.header.argv[0]
    return None if command == "run" else f"it was measured by netpipe {command}, not by netpipe run"


def not_continued(run: Run) -> str | None:
    """Why the run cannot be continued anywhere; None, if nothing in it speaks against that."""
    if why := not_by_run(run):
        return why
    old = run.header is not None and run.header.schema != SCHEMA
    if old or any(point.visits is None for point in run.points):
        return "it was measured by an older netpipe, whose points have no visits"
    return None


def command(path: str | os.PathLike[str], launches: int | None = None) -> str:
    """That adds so many launches, or as many as the command had that began the run."""
    words = ["netpipe", "run", "--continue", os.fspath(path)]
    return shlex.join([*words, *([] if launches is None else ["--launches", str(launches)])])


def command_here(run: Run, launches: int | None = None) -> str | None:
    """The same for a run in a file that was measured on this host; None for others, which cannot be continued here."""
    if run.path is None or not_continued(run):
        return None
    here = run.header is not None and run.header.host == socket.gethostname()
    return command(run.path, launches) if here else None


def lacking(run: Run) -> int | None:
    """How many launches of its command an interrupted run lacks; None: all of them, or the record does not tell."""
    if not run.plans:
        return None
    first = run.plans[0]
    had, variants = first.launches or 1, [one.variant for one in first.variants]
    if any([one.variant for one in plan.variants] != variants for plan in run.plans):
        return None  # numbers of ranks in turn, or a launch that was made up for: launches are not counted so
    cut = {point.launch for point in run.points if point.stop == INTERRUPTED}
    number = had - len({one.launch for one in run.launches} - cut)
    return number if 0 < number < had else None
