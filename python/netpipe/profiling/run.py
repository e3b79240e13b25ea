# SPDX-License-Identifier: Apache-2.0
"""Runs a command with the profiler's library loaded into every process, and makes one profile of what it leaves."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from netpipe.failure import FAILED, UNAVAILABLE, Failure
from netpipe.libraries.adding import programs
from netpipe.libraries.starting.scratch import Scratch
from netpipe.profiles import Profile, merge
from netpipe.profiles.lines import SCHEMA, End, Header
from netpipe.profiling.target import Target, understand
from netpipe.units import counted

FOLDERS = ".netpipe-profile-"  # how the folders of running profiles begin
DEFAULT_EVENTS = 1_000_000


@dataclass(frozen=True, slots=True)
class Request:
    """What to run, and how."""

    command: tuple[str, ...]
    folder: Path  # every host of the job must see it
    events: int = DEFAULT_EVENTS  # of each rank's trace at most; 0: no trace
    started: str = ""  # ISO 8601
    version: str = ""  # of netpipe


def profile(request: Request, output: int | None = None) -> tuple[Profile, int, list[str]]:
    """The profile, the exit code of the command, and sentences about what is missing.

    The command's streams are its own, unless `output` is a descriptor for its standard output. Raises Failure: 2 or 3
    for what cannot be profiled, 4 when the command ran and no rank left anything.
    """
    target = understand(request.command)
    library = programs.profiler(target.build)
    with Scratch(FOLDERS, request.folder) as folder:
        folder.chmod(0o755)
        variables = {
            "NETPIPE_PROFILE": str(folder),
            "NETPIPE_PROFILE_EVENTS": str(request.events),
            "LD_PRELOAD": ":".join(filter(None, [str(library), os.environ.get("LD_PRELOAD", "")])),
        }
        code, wall_s = _run(target, variables, output)
        found = merge.find(folder)
        if not found.parts:
            raise Failure(code or FAILED, _nothing(target, code, found.problems))
        header = Header(
            schema=SCHEMA,
            profile=uuid.uuid4().hex,
            netpipe=request.version or None,
            started=request.started or None,
            host=socket.gethostname(),
            processors=len(os.sched_getaffinity(0)),
            command=list(request.command),
            # What has the ABI names itself in the parts of its ranks.
            library=None if target.build.library.family.is_abi else target.build.title,
            module=target.module or None,
        )
        whole = merge.merge(found, header, End(exit_code=code, wall_s=round(wall_s, 3)))
    return whole, code, notes(whole, found.problems)


def with_variables(target: Target, variables: Mapping[str, str]) -> list[str]:
    """The command with the launcher's own way of giving its processes an environment."""
    command = list(target.command)
    if target.launcher is None:
        return command
    behind = target.at + 1
    return [*command[:behind], *target.launcher.passing(variables), *command[behind:]]


def _run(target: Target, variables: Mapping[str, str], output: int | None) -> tuple[int, float]:
    """The exit code, 128 + N after signal N, and the seconds that it took. An interrupt goes to the command, whose
    processes are in our process group, and what it left until then is kept.
    """
    command = with_variables(target, variables)
    began = time.monotonic()
    asked = signal.getsignal(signal.SIGINT)
    try:
        process = subprocess.Popen(command, env={**os.environ, **variables}, stdout=output)
    except OSError as error:
        raise Failure(UNAVAILABLE, f"cannot start {command[0]}: {error.strerror}") from None
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        code = process.wait()
    finally:
        signal.signal(signal.SIGINT, asked)
    return (128 - code if code < 0 else code), time.monotonic() - began


def _nothing(target: Target, code: int, problems: Mapping[int, str]) -> str:
    name = target.program or target.command[0]
    if problems:
        return f"there is no profile: {next(iter(problems.values()))}"
    if code:
        return f"there is no profile: {name} ended with exit code {code} before MPI_Init"
    return (
        f"there is no profile: no process called MPI_Init of {target.build.title}; is {name} an MPI program of that "
        "library, linked with its shared library?"
    )


def notes(whole: Profile, problems: Mapping[int, str]) -> list[str]:
    """Sentences about what the profile lacks."""
    said = []
    for state, words in (("unfinished", "did not reach MPI_Finalize"), ("aborted", "called MPI_Abort")):
        some = [one.rank for one in whole.ranks if one.state == state]
        if some:
            said.append(f"{ranks(some)} {words}; what was seen until then is in the profile")
    cut = [one.rank for one in whole.ranks if not one.events_complete]
    if cut:
        said.append(
            f"the trace of {ranks(cut)} ends early: --events takes more, and there must be room for them"
        )
    said += [f"rank {rank}: {problem}" for rank, problem in sorted(problems.items())]
    return said


def ranks(some: Sequence[int]) -> str:
    """rank 3, or ranks 1, 2 and 5, or 64 ranks (0, 1, 2, ...)."""
    if len(some) == 1:
        return f"rank {some[0]}"
    if len(some) <= 6:
        return f"ranks {', '.join(map(str, some[:-1]))} and {some[-1]}"
    return f"{counted(len(some), 'rank')} ({', '.join(map(str, some[:3]))}, ...)"
