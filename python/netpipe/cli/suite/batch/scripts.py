# SPDX-License-Identifier: Apache-2.0
"""Job scripts that run a suite: `netpipe suite submit`. A script is for one scheduler; it names the hosts that the
scheduler has given it, and continues where an earlier job with the same output folder was ended. Of an array each task
measures one run of the suite.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from netpipe.failure import FAILED, UNAVAILABLE, Failure

GATHER_MIN = 10  # minutes that figures, tables and the report may take
SUBMIT_S = 60.0  # that the scheduler may take to answer


@dataclass(frozen=True, slots=True)
class Job:
    """What the script says."""

    name: str
    words: tuple[str, ...]  # of netpipe, without hosts
    folder: Path  # where the suite writes
    nodes: int
    per_node: int  # processes of a library on each
    minutes: int
    options: tuple[str, ...] = ()  # more lines for the scheduler, such as --partition=short
    variables: Mapping[str, str] | None = None  # that the job needs
    runs: tuple[str, ...] = ()  # of the suite, a task of an array for each; none: all in one job


@dataclass(frozen=True, slots=True)
class Scheduler:
    title: str
    submit: str  # the command that takes the script
    prefix: str  # of a line that is for the scheduler
    lines: Callable[[Job], list[str]]
    hosts: str  # shell: the names of the hosts with commas between them


def script(scheduler: str, job: Job, *, gathers: bool = False) -> str:
    """The text of the script. `gathers`: that of the job which makes the report after an array."""
    of = SCHEDULERS[scheduler]
    if gathers:
        job = replace(job, name=f"{job.name}-report", nodes=1, per_node=1, minutes=GATHER_MIN)
    lines = ["#!/bin/sh"]
    lines += [
        f"{of.prefix} {line}" for line in (*of.lines(replace(job, runs=()) if gathers else job), *job.options)
    ]
    lines += [
        "",
        f"# {'Reports' if gathers else 'Runs'} a suite of netpipe under {of.title}."
        + ("" if gathers else " Submit it again to go on where it was ended."),
        "set -u",
    ]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in sorted((job.variables or {}).items())]
    output = shlex.quote(str(job.folder))
    words = shlex.join(job.words)
    if gathers:
        return "\n".join([*lines, f"exec {words} --output {output} --gather", ""])
    if job.runs:
        lines.append('case "$SLURM_ARRAY_TASK_ID" in')
        lines += [f"{number}) run={shlex.quote(name)} ;;" for number, name in enumerate(job.runs)]
        lines += ["esac", f'exec {words} --output {output} --run "$run"', ""]
        return "\n".join(lines)
    lines += [f"goes_on=; [ -f {shlex.quote(str(job.folder / 'suite.json'))} ] && goes_on=--continue"]
    if job.nodes > 1:
        lines += [f"hosts=$({of.hosts})", f'exec {words} --output {output} --hosts "$hosts" $goes_on']
    else:
        lines += [f"exec {words} --output {output} $goes_on"]
    return "\n".join(lines) + "\n"


def _time(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}:00"


def _slurm(job: Job) -> list[str]:
    return [
        f"--job-name=netpipe-{job.name}",
        f"--nodes={job.nodes}",
        f"--ntasks-per-node={job.per_node}",
        f"--time={_time(job.minutes)}",
        "--exclusive",
        *([f"--array=0-{len(job.runs) - 1}"] if job.runs else []),
        f"--output={job.folder.name}-{'%A-%a' if job.runs else '%j'}.log",
    ]


def _flux(job: Job) -> list[str]:
    return [
        f"--job-name=netpipe-{job.name}",
        f"--nodes={job.nodes}",
        f"--time-limit={job.minutes}m",
        "--exclusive",
        f"--output={job.folder.name}-{{{{id}}}}.log",
    ]


def _pbs(job: Job) -> list[str]:
    return [
        f"-N netpipe-{job.name}"[:15],
        f"-l select={job.nodes}:mpiprocs={job.per_node}",
        f"-l walltime={_time(job.minutes)}",
        "-l place=scatter:excl",
        "-j oe",
        f"-o {job.folder.name}.log",
    ]


SCHEDULERS = {
    "slurm": Scheduler(
        "Slurm",
        "sbatch",
        "#SBATCH",
        _slurm,
        'scontrol show hostnames "$SLURM_JOB_NODELIST" | paste -s -d , -',
    ),
    "flux": Scheduler(
        "Flux", "flux", "# flux:", _flux, "flux resource list -n -o '{nodelist}' | flux hostlist -e -d , -"
    ),
    "pbs": Scheduler(
        "PBS", "qsub", "#PBS", _pbs, 'cd "$PBS_O_WORKDIR" && sort -u "$PBS_NODEFILE" | paste -s -d , -'
    ),
}


def own_words(suite: str, size: str) -> tuple[str, ...]:
    """netpipe as it runs now, by absolute paths: a job has another PATH."""
    return (sys.executable, "-m", "netpipe", "suite", "run", suite, "--size", size)


def own_variables() -> dict[str, str]:
    """What this environment says about netpipe."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith("NETPIPE_") or name == "PYTHONPATH"
    }


def command_of(scheduler: str, path: Path, *options: str) -> Sequence[str]:
    words = ["flux", "batch"] if scheduler == "flux" else [SCHEDULERS[scheduler].submit]
    return [*words, *options, str(path)]


def number_of(said: str, path: Path) -> str:
    """Of the job, as `sbatch` says it: Submitted batch job 7. Raises Failure (4) where it is not there."""
    found = re.search(r"Submitted batch job (\d+)", said)
    if found is None:
        raise Failure(FAILED, f"sbatch did not say the number of the job of {path}: {said}")
    return found.group(1)


def submit(scheduler: str, path: Path, *options: str) -> str:
    """What the scheduler said. Raises Failure: 3 where there is no such scheduler, 4 where it refused."""
    of = SCHEDULERS[scheduler]
    if shutil.which(of.submit) is None:
        raise Failure(
            UNAVAILABLE,
            f"there is no {of.submit} here, so {path} was not submitted; submit it where {of.title} is",
        )
    try:
        done = subprocess.run(
            command_of(scheduler, path, *options),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SUBMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Failure(
            FAILED, f"{of.submit} did not answer within {SUBMIT_S:.0f} s; {path} was written"
        ) from None
    said = " ".join((done.stdout + done.stderr).split())
    if done.returncode != 0:
        raise Failure(FAILED, f"{of.submit} refused {path}: {said or f'exit code {done.returncode}'}")
    return said
