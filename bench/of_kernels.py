# SPDX-License-Identifier: Apache-2.0
"""Applications: Mop/s of each kernel, so that one that has become slower is noticed.

There is no peer and no target: the codes of NPB and Sweep3D themselves are not in this tree. `--against` a file of the
same machine says which kernels are slower by more than the intervals leave open. All kernels take turns, in an order by
lot, so a slow minute of the machine is shared by all.
"""

from __future__ import annotations

import os
import random

from measured import Result, interval, shown
from of_apps import (
    EP,
    EVERY,
    LEAST,
    TIMEOUT_S,
    asked_ranks,
    left_out,
    libraries,
    planned,
    problem_of,
    ran,
)

from netpipe.applications.plan import Task
from netpipe.applications.running import Runner
from netpipe.kernels import Cell
from netpipe.units import counted

RANKS = asked_ranks("1,2")
LONG = ("lu", "sp", "bt")  # take seconds in class W, where the others take tenths of one
SHORT_CLASS = "S"


def class_of(kernel: str) -> str:
    """That of of_apps.py; a smaller one of those that take long, unless one was asked for."""
    asked = "NETPIPE_BENCH_CLASS" in os.environ
    return SHORT_CLASS if kernel in LONG and not asked else problem_of(kernel)


def rate(runner: Runner, task: Task) -> float:
    """10^6 operations in a second, of all ranks together."""
    value = ran(runner, task).mops
    if value is None:
        raise RuntimeError(f"{task.cell}: the kernel has not said its Mop/s")
    return value


def row(cell: Cell, rates: list[float]) -> Result:
    middle, low, high = interval(rates)
    return Result(
        "kernels",
        f"{cell.kernel} {cell.problem}, {counted(cell.ranks, 'rank')} over {cell.variant}: Mop/s",
        shown(rates, 1),
        "",
        f"{low / middle - 1:+.0%} to {high / middle - 1:+.0%}",
        "none",
        True,
        rate=(middle, low, high),
    )


def kernels(rounds: int) -> list[Result]:
    """Each NAS kernel and Sweep3D over Open MPI in shared memory, on one rank and on two."""
    tasks, reasons = planned([f"{libraries()[0]}:transport=shm"], (*EVERY, EP), RANKS, class_of)
    rates: dict[Cell, list[float]] = {task.cell: [] for task in tasks}
    with Runner(TIMEOUT_S) as runner:
        for turn in range(max(LEAST, rounds)):
            order = list(tasks)
            random.Random(turn).shuffle(order)
            for task in order:
                rates[task.cell].append(rate(runner, task))
    return [*(row(cell, some) for cell, some in rates.items()), *left_out("kernels", reasons)]


COMPARISONS = {"kernels": kernels}
