# SPDX-License-Identifier: Apache-2.0
"""All cells of a plan in rounds, each round in a random order, so that what the machine does to a while it does to all
libraries. What ran is in the file at once.
"""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from netpipe.applications.plan import Planned
from netpipe.applications.running import Runner
from netpipe.failure import FAILED, INTERRUPTED, USAGE, Failure
from netpipe.kernels.lines import SCHEMA, End, Header, Result, are_applications, encode


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a session is."""

    done: int
    of: int
    left_s: float | None  # None: not known yet
    result: Result


def run(
    planned: Planned,
    launches: int,
    timeout_s: float,
    output: Path,
    header: Header,
    watch: Callable[[Progress], None] = lambda _: None,
    given_up: Callable[[], bool] = lambda: False,
) -> tuple[list[Result], int]:
    """The results and the exit code: 4 when a kernel did not run or did not verify, 130 when it was interrupted. Raises
    Failure (2) when `output` exists and holds something else.
    """
    if output.exists() and output.stat().st_size and not are_applications(output):
        raise Failure(USAGE, f"{output} exists and holds something else; choose another name with --output")
    header.schema = SCHEMA
    header.host = socket.gethostname()
    header.processors = len(os.sched_getaffinity(0))
    header.libraries = planned.libraries
    header.seed = header.seed if header.seed is not None else random.SystemRandom().getrandbits(32)
    order = random.Random(header.seed)  # noqa: S311  (an order, no secret)
    results: list[Result] = []
    began = time.monotonic()
    code = 0
    part = output.with_name(f"{output.name}.{os.getpid()}.part")
    try:
        with part.open("wb", buffering=0) as file, Runner(timeout_s, given_up) as runner:
            file.write(encode(header))
            spent: dict[tuple[str, str, str, int], float] = {}
            for launch in range(1, launches + 1):
                cells = list(planned.cells)
                order.shuffle(cells)
                for place, cell in enumerate(cells):
                    try:
                        result = runner.run(cell, launch)
                    except Failure as failure:
                        if failure.exit_code != INTERRUPTED:
                            raise
                        code = INTERRUPTED
                        break
                    file.write(encode(result))
                    results.append(result)
                    code = code or (0 if result.verified else FAILED)
                    spent[result.cell] = result.wall_s or 0.0
                    watch(
                        Progress(
                            len(results),
                            launches * len(cells),
                            _left(spent, len(cells), launches - launch, len(cells) - place - 1),
                            result,
                        )
                    )
                if code == INTERRUPTED:
                    break
            file.write(encode(End(exit_code=code, wall_s=round(time.monotonic() - began, 3))))
        if results or not output.exists():
            part.replace(output)
    finally:
        part.unlink(missing_ok=True)
    return results, code


def _left(spent: dict[tuple[str, str, str, int], float], cells: int, rounds: int, left: int) -> float | None:
    """Seconds, by what each cell took the last time; None until the first round is half done."""
    if 2 * len(spent) < cells:
        return None
    mean = sum(spent.values()) / len(spent)
    return mean * (rounds * cells + left)


__all__: Sequence[str] = ("Progress", "run")
