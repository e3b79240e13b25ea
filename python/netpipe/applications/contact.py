# SPDX-License-Identifier: Apache-2.0
"""What the first message between two ranks takes over a variant. No benchmark sees it, as it happens once in a launch:
so the smallest kernel is launched several times under the profiler.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from netpipe.applications.plan import Request, Task, Tell, plan
from netpipe.applications.running import Runner
from netpipe.failure import FAILED, Failure
from netpipe.libraries import find_launcher
from netpipe.libraries.adding import added, programs
from netpipe.profiles import merge
from netpipe.profiles.contact import first_ns
from netpipe.profiles.lines import SCHEMA, End, Header
from netpipe.units import launch_text

KERNEL, CLASS, RANKS = "is", "S", 2
LAUNCHES = 5
TIMEOUT_S = 60.0


def first_contacts(variants: Sequence[str], tell: Tell = lambda _: None) -> dict[str, list[int]]:
    """Nanoseconds of each launch, by variant. Raises Failure."""
    tasks = plan(Request([KERNEL], variants, (CLASS,), (RANKS,)), tell).tasks
    found: dict[str, list[int]] = {task.cell.variant: [] for task in tasks}
    with Runner(TIMEOUT_S) as runner:
        for launch in range(LAUNCHES):
            tell(f"what the first message takes: {launch_text(launch + 1, LAUNCHES)}")
            for task in tasks:
                library = programs.profiler(programs.builder(added.one(task.description.name)))
                with tempfile.TemporaryDirectory(prefix="netpipe-contact-") as folder:
                    _give(folder, task)
                    under = {
                        **task.environment,
                        "NETPIPE_PROFILE": folder,
                        "NETPIPE_PROFILE_EVENTS": "1000",
                        "LD_PRELOAD": str(library),
                    }
                    result = runner.run(replace(task, environment=under), launch + 1)
                    if result.problem_text:
                        raise Failure(FAILED, f"{task.cell.variant}: {result.problem_text}")
                    parts = merge.find(Path(folder))
                    if not parts.parts:
                        raise Failure(FAILED, _nothing(task, parts.why))
                    header = Header(schema=SCHEMA, profile="", module=task.description.name)
                    took = first_ns(merge.merge(parts, header, End()))
                if took is not None:
                    found[task.cell.variant].append(took)
    return found


def _give(folder: str, task: Task) -> None:
    """LAM's ranks run as another user where we are root, and each writes into the folder. Raises Failure."""
    user = find_launcher(task.description, task.launching.launcher)().user()
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)


def _nothing(task: Task, why: str) -> str:
    return (
        f"{task.cell.variant}: what its first message takes is not known, because the kernel {KERNEL} left no profile: "
        f"{why or 'no rank called MPI_Init under the profiler'}"
    )
