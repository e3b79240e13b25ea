# SPDX-License-Identifier: Apache-2.0
"""`netpipe suite submit`: from the options of the command to a script in a file, and to the scheduler."""

from __future__ import annotations

import math
from pathlib import Path

import click

from netpipe.cli.suite import files
from netpipe.cli.suite.parts import Suite
from netpipe.cli.suite.runs.base import Site
from netpipe.cli.suite.scripts import Job, own_variables, own_words, script, submit
from netpipe.failure import DONE, USAGE, Failure
from netpipe.streams import say

MORE = 1.5  # than the estimate: figures and the report take time too
START_S = 5.0  # that a library may take to start with its processes, and to end
LEAST_MIN = 10
FIRST = "#!/bin/sh\n"


def write(
    suite: str,
    size: str,
    site: Site,
    scheduler: str,
    nodes: int,
    per_node: int,
    minutes: int | None,
    options: tuple[str, ...],
    output: Path | None,
    target: Path | None,
    now: bool,
) -> int:
    """Raises Failure."""
    path = files.find(suite)
    loaded = files.load(path, size)
    named = suite if path.parent == files.FOLDER else str(path.absolute())
    folder = (output or Path(loaded.name)).absolute()
    job = Job(
        loaded.name,
        (*own_words(named, size), *site.words()),
        folder,
        nodes,
        per_node,
        minutes or estimated_minutes(loaded),
        options,
        own_variables(),
    )
    file = target or Path(f"{loaded.name}.{scheduler}.sh")
    if file.exists() and not file.read_text(errors="replace").startswith(FIRST):
        raise Failure(USAGE, f"{file} exists and is not a script; choose another name with --script")
    file.write_text(script(scheduler, job))
    file.chmod(0o755)
    if not now:
        click.echo(
            f"{file}: {job.minutes} minutes on {nodes} host{'' if nodes == 1 else 's'}; submit it with --now"
        )
        return DONE
    say(submit(scheduler, file))
    return DONE


def estimated_minutes(suite: Suite) -> int:
    """Of the plans of this machine. What nobody knows is asked for. Raises Failure (2)."""
    from netpipe.cli.suite.planning import planned

    there = [one for one in planned(suite, build=False).values() if one.available]
    known = [one.longest_s for one in there]
    if not known or None in known:
        raise Failure(USAGE, f"how long {suite.name} takes is not known here; give --minutes")
    starting_s = START_S * sum(one.starts for one in there)
    return max(LEAST_MIN, math.ceil(MORE * (sum(filter(None, known)) + starting_s) / 60))
