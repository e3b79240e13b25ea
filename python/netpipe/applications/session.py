# SPDX-License-Identifier: Apache-2.0
"""All tasks of a plan in rounds, each round in a random order, so that what the machine does to a while it does to all
libraries. What ran is in the file at once.
"""

from __future__ import annotations

import itertools
import os
import random
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from netpipe import native
from netpipe.applications.plan import Planned, Task
from netpipe.applications.running import Runner
from netpipe.failure import FAILED, INTERRUPTED, USAGE, Failure
from netpipe.kernels.lines import SCHEMA, Cell, End, Header, Load, Result, are_applications, encode, started
from netpipe.kernels.table import LEAST

DEFAULT_LAUNCHES = LEAST  # so that there are intervals
DEFAULT_TIMEOUT_S = 600.0
HOPELESS = 2  # failures of a task, and no result, after which it is not tried again


@dataclass(frozen=True, slots=True)
class Progress:
    """A task is about to run."""

    done: int  # runs
    of: int
    left_s: float | None  # None: not known yet
    task: Task


@dataclass(slots=True)
class Outcome:
    """What came of a session."""

    exit_code: int = 0  # 4: a kernel did not run or did not verify; 130: it was interrupted
    results: list[Result] = field(default_factory=list)
    output: Path | None = None  # None: nothing ran, so nothing was written
    kept: Path | None = None  # the new name of what was in the file before


def run(
    planned: Planned,
    launches: int,
    output: Path,
    header: Header,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    watch: Callable[[Progress], None] = lambda _: None,
    given_up: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Runs every task `launches` times. A task that fails twice and never had a result is not tried again. Raises
    Failure (2) when `output` exists and holds something else, OSError when nothing can be written there.
    """
    check_output(output)
    header.schema = SCHEMA
    header.host = socket.gethostname()
    header.processors = len(os.sched_getaffinity(0))
    header.libraries = dict(planned.libraries)
    header.placement = planned.placement
    header.seed = header.seed if header.seed is not None else random.SystemRandom().getrandbits(32)
    order = random.Random(header.seed)  # noqa: S311  (an order, no secret)
    outcome = Outcome()
    began = time.monotonic()
    header.hosts = list(planned.hosts)
    most = max((task.cell.ranks for task in planned.tasks), default=0)
    with _File(output, header) as file, Runner(timeout_s, given_up, most) as runner:
        rounds = _Rounds(planned.tasks, launches, order)
        try:
            for launch, task in rounds:
                watch(Progress(len(outcome.results), rounds.whole(), rounds.left_s(), task))
                load = load_now()
                result = runner.run(task, launch)
                result.load = load
                file.add(result)
                rounds.ran(result)
                outcome.results.append(result)
                if not result.verified:
                    outcome.exit_code = FAILED
        except Failure as failure:
            if failure.exit_code != INTERRUPTED:
                raise
            outcome.exit_code = INTERRUPTED
        file.end(End(exit_code=outcome.exit_code, wall_s=round(time.monotonic() - began, 3)))
        outcome.output, outcome.kept = (output if file.placed else None), file.kept
    return outcome


def load_now() -> Load | None:
    """Before a launch, when nothing of ours runs. A worker that cannot tell stops no session."""
    try:
        return msgspec.convert(native.environment().get("load"), Load | None)
    except (Failure, msgspec.ValidationError):
        return None


class _Rounds:
    """The tasks in the order in which they run, each with the number of its launch."""

    def __init__(self, tasks: Sequence[Task], launches: int, order: random.Random) -> None:
        self._tasks = list(tasks)
        self._launches = launches
        self._order = order
        self._launch = 0
        self._left: list[Task] = []  # of this round, the next one last
        self._done = 0
        self._failed: Counter[Cell] = Counter()
        self._spent: dict[Cell, float] = {}  # seconds, the last time

    def __iter__(self) -> _Rounds:
        return self

    def __next__(self) -> tuple[int, Task]:
        if not self._left:
            if self._launch == self._launches or not self._tasks:
                raise StopIteration
            self._launch += 1
            self._left = list(self._tasks)
            self._order.shuffle(self._left)
        self._current = self._left.pop()
        return self._launch, self._current

    def ran(self, result: Result) -> None:
        cell = result.cell
        self._done += 1
        self._spent[cell] = result.wall_s or 0.0
        self._failed[cell] += not result.verified
        if self._launch == self._failed[cell] == HOPELESS:
            self._tasks = [task for task in self._tasks if task.cell != cell]

    def whole(self) -> int:
        """All runs: those that are done, the one that is about to run, and those behind it."""
        return self._done + 1 + len(self._left) + (self._launches - self._launch) * len(self._tasks)

    def left_s(self) -> float | None:
        """Seconds, by what each took the last time, and the others on average; None until half of them have run."""
        if not self._spent or 2 * len(self._spent) < len(self._tasks):
            return None
        mean = sum(self._spent.values()) / len(self._spent)
        this = [self._current, *self._left]
        rounds = (self._launches - self._launch) * sum(self._spent.get(one.cell, mean) for one in self._tasks)
        return rounds + sum(self._spent.get(one.cell, mean) for one in this)


def check_output(path: Path) -> None:
    """Raises Failure (2) for a file that is not to be overwritten, and for a folder that is not there."""
    if path.is_dir():
        raise Failure(USAGE, f"{path} is a folder; choose another name with --output")
    if path.is_file() and path.stat().st_size and not are_applications(path):
        raise Failure(USAGE, f"{path} exists and holds something else; choose another name with --output")
    if not path.absolute().parent.is_dir():
        raise Failure(
            USAGE, f"there is no folder {path.absolute().parent}; make it, or choose another --output"
        )


class _File:
    """The results while they are written: beside `output` until the first one is there, then in its place. What was in
    `output` before is renamed, so that no result is ever lost. A device gets them as they come.
    """

    def __init__(self, output: Path, header: Header) -> None:
        self.output = output
        self.placed = output.exists() and not output.is_file()
        self.kept: Path | None = None
        self._part = output if self.placed else output.with_name(f"{output.name}.{os.getpid()}.part")
        self._file = self._part.open("wb", buffering=0)
        self._file.write(encode(header))

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        if not self.placed:
            self._part.unlink(missing_ok=True)

    def add(self, result: Result) -> None:
        self._file.write(encode(result))
        if not self.placed:
            if self.output.is_file() and self.output.stat().st_size:
                self.kept = next(one for one in _names(self.output) if not one.exists())
                self.output.rename(self.kept)
            self._part.replace(self.output)
            self.placed = True

    def end(self, line: End) -> None:
        self._file.write(encode(line))


def _names(path: Path) -> Iterator[Path]:
    """PATH-<start time>, PATH-<start time>-2, ..., as `netpipe run` names older runs."""
    when = "".join(character for character in started(path) or "older" if character.isalnum())[:16]
    for number in itertools.count(1):
        yield path.with_name(f"{path.stem}-{when}{f'-{number}' if number > 1 else ''}{path.suffix}")
