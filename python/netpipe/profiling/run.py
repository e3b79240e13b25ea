# SPDX-License-Identifier: Apache-2.0
"""Runs a command with the profiler's library loaded into every process, and makes one profile of what it leaves."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from netpipe.failure import FAILED, UNAVAILABLE, Failure
from netpipe.launch.interrupt import Interrupt
from netpipe.libraries.adding import programs
from netpipe.libraries.starting.scratch import Scratch
from netpipe.profiles import Profile, merge
from netpipe.profiles.lines import SCHEMA, End, Header
from netpipe.profiles.merge import Parts
from netpipe.profiles.missing import code_text
from netpipe.profiling.left import FOLDERS, Save, has_parts, note, offer, remedy
from netpipe.profiling.target import Target, understand
from netpipe.units import counted

DEFAULT_EVENTS = 1_000_000
END_S = 10.0  # that the command may take to end after a signal, before what is there is saved
LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class Request:
    """What to run, and how."""

    command: tuple[str, ...]
    folder: Path  # every host of the job must see it
    events: int = DEFAULT_EVENTS  # of each rank's trace at most; 0: no trace
    started: str = ""  # ISO 8601
    version: str = ""  # of netpipe


def profile(request: Request, save: Save, output: int | None = None) -> tuple[Profile, int, list[str]]:
    """The profile, which `save` has put where it belongs; the exit code of the command, or 128 + N where signal N was
    to end it; and sentences about what is missing.

    The command's streams are its own, unless `output` is a descriptor for its standard output. Raises OSError of
    `save`, and Failure: 2 or 3 for what cannot be profiled, 4 when the command ran and no rank left anything.
    """
    target = understand(request.command)
    library = programs.profiler(target.build)
    scratch = Scratch(FOLDERS, request.folder, has_parts)
    # Until the profile is saved the folder is all that there is of the job.
    with Interrupt(children=True) as interrupt, scratch as folder:
        folder.chmod(0o755)
        variables = {
            "NETPIPE_PROFILE": str(folder),
            "NETPIPE_PROFILE_EVENTS": str(request.events),
            "LD_PRELOAD": ":".join(filter(None, [str(library), os.environ.get("LD_PRELOAD", "")])),
        }
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
        note(folder, header)
        began = time.monotonic()

        def gather(code: int | None) -> tuple[Parts, Profile | None]:
            end = End(exit_code=code, wall_s=round(time.monotonic() - began, 3))
            found = merge.find(folder)
            if not found.parts:
                return found, None
            made = merge.merge(found, header, end)
            save(made)
            return found, made

        def keep() -> None:
            with contextlib.suppress(OSError):
                gather(None)

        ended = _run(with_variables(target, variables), {**os.environ, **variables}, output, interrupt, keep)
        code = 128 + interrupt.last if interrupt.last else ended
        try:
            found, whole = gather(ended)
        except OSError as error:
            scratch.leave()
            why = f"cannot write the profile: {error.strerror or error}"
            raise Failure(FAILED, f"{why}; {folder} has what was recorded, and {remedy(folder)}") from None
        if whole is None:
            raise Failure(code or FAILED, _nothing(target, ended, found))
    return whole, code, [*notes(whole, found), *map(offer, scratch.kept)]


def with_variables(target: Target, variables: Mapping[str, str]) -> list[str]:
    """The command with the launcher's own way of giving its processes an environment."""
    command = list(target.command)
    if target.launcher is None:
        return command
    behind = target.at + 1
    return [*command[:behind], *target.launcher.with_variables(command[behind:], variables)]


def _run(
    command: Sequence[str],
    environment: Mapping[str, str],
    output: int | None,
    interrupt: Interrupt,
    keep: Callable[[], None],
) -> int:
    """The exit code, 128 + N after signal N. The command gets SIGTERM and SIGHUP from us, SIGINT from the terminal,
    because its processes are in our process group. It may take as long to end as it would without us; but whoever
    sends a signal may kill us soon, so `keep` is called when it takes longer than END_S.
    """
    try:
        process = subprocess.Popen(command, env=environment, stdout=output)
    except OSError as error:
        raise Failure(UNAVAILABLE, f"cannot start {command[0]}: {error.strerror}") from None
    passed, deadline = 0, float("inf")
    while process.poll() is None:
        if interrupt.count > passed:
            if passed == 0:
                deadline = time.monotonic() + END_S
            passed = interrupt.count
            if interrupt.last != signal.SIGINT:
                process.send_signal(interrupt.last)
        if time.monotonic() >= deadline:
            deadline = float("inf")
            keep()
        left_s = max(deadline - time.monotonic(), 0.0)
        select.select([interrupt], [], [], min(LOOK_S, left_s))
        interrupt.drain()
    code = process.returncode
    return 128 - code if code < 0 else code


def _nothing(target: Target, code: int, found: Parts) -> str:
    name = target.program or target.command[0]
    if not found.problems and found.foreign:
        return f"there is no profile: {found.foreign}; start it with the launcher of its own library"
    if found.why:
        return f"there is no profile: {found.why}"
    how = f"{name} ended with {code_text(code)}, and " if code else ""
    return (
        f"there is no profile: {how}no process called MPI_Init of {target.build.title}; is {name} an MPI program of "
        "that library, linked with its shared library?"
    )


def notes(whole: Profile, found: Parts) -> list[str]:
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
    said += [f"rank {rank}: {problem}" for rank, problem in sorted(found.problems.items())]
    if found.foreign:
        said.append(f"{found.foreign}; what it did is not in the profile")
    return said


def ranks(some: Sequence[int]) -> str:
    """rank 3, or ranks 1, 2 and 5, or 64 ranks (0, 1, 2, ...)."""
    if len(some) == 1:
        return f"rank {some[0]}"
    if len(some) <= 6:
        return f"ranks {', '.join(map(str, some[:-1]))} and {some[-1]}"
    return f"{counted(len(some), 'rank')} ({', '.join(map(str, some[:3]))}, ...)"
