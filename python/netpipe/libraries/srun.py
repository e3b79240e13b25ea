# SPDX-License-Identifier: Apache-2.0
"""srun of Slurm, which starts processes in place of a library's own launcher. A launcher alone: no library."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from netpipe.failure import FAILED, INTERRUPTED, UNAVAILABLE, Failure
from netpipe.libraries import ANY_INTERFACE, Command, Job, Launcher, family_of, launcher
from netpipe.libraries.starting.condense import condense
from netpipe.libraries.starting.description import OWN, Description
from netpipe.libraries.starting.own import under_srun

DEFAULT_INTERFACE = "pmi2"  # of a library of no known family
ALLOCATE_S = 45  # to wait for nodes: the worker waits a minute for the processes


@launcher
class Srun(Launcher):
    """srun of Slurm. All jobs of a run exist at the same time, so they are steps of one allocation and share its
    processors: the allocation in which netpipe itself runs, or one that it requests.
    """

    name = "srun"
    title = "Slurm"
    says = r"(?i)\bslurm"
    precedence = -1  # Hydra lists it among those that it can use
    starts = ("pmi2", "pmix", "none")
    replaces_others = True
    shared = True

    def __init__(self) -> None:
        self._allocation: str | None = None  # that we requested

    def boot(self, job: Job, given_up: Callable[[], bool]) -> None:
        if self._allocation is not None or os.environ.get("SLURM_JOB_ID"):
            return
        argv = ["salloc", "--no-shell", "--job-name=netpipe", "--exclusive", "--overcommit"]
        argv += [f"--immediate={ALLOCATE_S}", f"--ntasks={job.ranks}"]
        if job.hosts:
            argv += [f"--nodes={len(job.hosts)}", f"--nodelist={','.join(host.name for host in job.hosts)}"]
        said = waited_for(Command(tuple(argv), job.variables), job.scratch / "salloc.log", given_up)
        found = re.search(r"Granted job allocation (\d+)", said)
        if found is None:
            raise Failure(
                FAILED,
                f"Slurm gave no nodes within {ALLOCATE_S} s: {condense(said) or 'it said nothing'}; get an allocation "
                "with salloc and run netpipe in it",
            )
        self._allocation = found.group(1)

    def halt(self) -> None:
        if self._allocation is not None:
            subprocess.run(
                ["scancel", self._allocation],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=30,
                check=False,
            )
            self._allocation = None

    def check(self, description: Description, program: tuple[str, ...]) -> None:  # noqa: ARG002
        if interface(description) not in self.starts:
            raise Failure(
                UNAVAILABLE,
                f"srun cannot start {description.name}; run it without --launcher srun, with its own launcher",
            )
        if shutil.which(srun(description)) is None:
            raise Failure(UNAVAILABLE, "srun was not found; leave --launcher out, or load Slurm")

    def command(self, job: Job) -> Command:
        description = job.description
        argv = [srun(description), f"--mpi={interface(description)}", f"--ntasks={job.ranks}"]
        # No binding: the worker pins itself. A rank that fails ends the job, as under the libraries' own launchers.
        argv += [
            "--overlap",
            "--overcommit",
            "--cpu-bind=none",
            "--export=ALL",
            "--input=none",
            "--kill-on-bad-exit=1",
        ]
        environment = dict(job.variables)
        if self._allocation is not None:
            argv.append(f"--jobid={self._allocation}")
        if job.hosts:
            lines = [f"{job.hosts[place].name}\n" for place in job.order]
            environment["SLURM_HOSTFILE"] = str(job.file("srun-hosts", "".join(lines)))
            argv += ["--distribution=arbitrary", f"--nodes={len(job.hosts)}"]
        family = family_of(description)
        if family is not None:
            environment |= family.slurm()
        program = under_srun(job.program) if description.family == OWN else job.program
        return Command((*argv, *job.extra, *program), environment)


def waited_for(command: Command, log: Path, given_up: Callable[[], bool]) -> str:
    """What a command wrote until it ended or its time was up. Raises Failure if the user gave up."""
    with log.open("wb") as output:
        process = command.popen(subprocess.DEVNULL, output)
    deadline = time.monotonic() + ALLOCATE_S + 5
    while process.poll() is None and time.monotonic() < deadline and not given_up():
        time.sleep(0.02)
    if process.poll() is None:
        process.send_signal(signal.SIGINT)  # it returns what it was about to get
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if given_up():
        raise Failure(INTERRUPTED, "interrupted while waiting for nodes of Slurm")
    return log.read_text(errors="replace")


def interface(description: Description) -> str:
    """The process management interface that the library uses; "" where it knows none. Our own layers use none."""
    if description.family == OWN:
        return "none"
    family = family_of(description)
    return DEFAULT_INTERFACE if family is None or family.interface == ANY_INTERFACE else family.interface


def srun(description: Description) -> str:
    return str(description.launcher) if description.launched_by == "srun" else "srun"
