# SPDX-License-Identifier: Apache-2.0
"""`netpipe suite submit`: from the options of the command to scripts in files, and to the scheduler."""

from __future__ import annotations

import math
from pathlib import Path

import click

from netpipe.cli.suite import files
from netpipe.cli.suite.batch.scripts import Job, number_of, own_variables, own_words, script, submit
from netpipe.cli.suite.parts import Suite
from netpipe.cli.suite.runs.base import Planned, Site
from netpipe.failure import DONE, USAGE, Failure
from netpipe.streams import say

MORE = 1.5  # than the estimate: figures and the report take time too
START_S = 5.0  # that a library may take to start with its processes, and to end
LEAST_MIN = 10
ARRAYS = "slurm"  # the scheduler whose arrays are known here
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
    array: bool,
) -> int:
    """Raises Failure."""
    if array and (scheduler != ARRAYS or nodes > 1):
        raise Failure(
            USAGE, "--array is for Slurm, and for suites on one host: leave out --nodes, or --array"
        )
    path = files.find(suite)
    loaded = files.load(path, size)
    named = suite if path.parent == files.FOLDER else str(path.absolute())
    folder = (output or Path(loaded.name)).absolute()
    job = Job(
        loaded.name,
        (*own_words(named, size), *site.words(), *(f"--set={one}" for one in site.settings)),
        folder,
        nodes,
        per_node,
        minutes or estimated_minutes(loaded, array, site.settings),
        options,
        own_variables(),
        tuple(one.name for one in loaded.runs) if array else (),
    )
    file = target or Path(f"{loaded.name}.{scheduler}.sh")
    report = file.with_name(f"{file.stem}.report{file.suffix}")
    texts = {file: script(scheduler, job)}
    if array:
        texts[report] = script(scheduler, job, gathers=True)
    for path, text in texts.items():
        if path.exists() and not path.read_text(errors="replace").startswith(FIRST):
            raise Failure(USAGE, f"{path} exists and is not a script; choose another name with --script")
        path.write_text(text)
        path.chmod(0o755)
    if array:
        return _submit_array(file, report, job, now)
    if not now:
        click.echo(
            f"{file}: {job.minutes} minutes on {nodes} host{'' if nodes == 1 else 's'}; submit it with --now"
        )
        return DONE
    say(submit(scheduler, file))
    return DONE


def _submit_array(file: Path, report: Path, job: Job, now: bool) -> int:
    """The array, and after its last task the report."""
    if not now:
        click.echo(
            f"{file}: {len(job.runs)} tasks of {job.minutes} minutes; submit it, and {report} after it "
            "(sbatch --dependency=afterany:JOB), or both with --now"
        )
        return DONE
    said = submit(ARRAYS, file)
    say(said)
    say(submit(ARRAYS, report, f"--dependency=afterany:{number_of(said, file)}"))
    return DONE


def estimated_minutes(suite: Suite, array: bool = False, settings: tuple[str, ...] = ()) -> int:
    """Of the plans of this machine, of all runs, or of the longest one in an array. What nobody knows is asked for.
    Raises Failure (2).
    """
    from netpipe.cli.suite.planning import planned

    there = [one for one in planned(suite, Site(settings=settings), build=False).values() if one.available]
    known = [_seconds(one) for one in there]
    if not known or None in known:
        raise Failure(USAGE, f"how long {suite.name} takes is not known here; give --minutes")
    seconds = list(filter(None, known))
    whole_s = max(seconds, default=0.0) if array else sum(seconds)
    return max(LEAST_MIN, math.ceil(MORE * whole_s / 60))


def _seconds(run: Planned) -> float | None:
    return None if run.longest_s is None else run.longest_s + START_S * run.starts
