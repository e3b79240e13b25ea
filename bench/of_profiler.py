# SPDX-License-Identifier: Apache-2.0
"""What the profiler costs a program: time for each call, memory of a rank, and its share of a kernel's time.

The peer is the same program without the profiler, in turn. A call is timed by the processor time of a loop
(bench/mpi/calls.c): a kernel's own time differs more from launch to launch than what is looked for. So a kernel's share
is also said as its calls times the cost of one, where the rows of whole kernels cannot tell.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from measured import LIMIT_S, ROOT, Result, in_turn, interval, shown
from of_apps import EP, EVENTS, EVERY, TIMEOUT_S, left_out, libraries, planned, profiled, seconds

from netpipe.applications.plan import Task
from netpipe.applications.running import Runner
from netpipe.libraries import Job, find_launcher
from netpipe.libraries.adding import added, programs
from netpipe.libraries.starting import description

CALLS = 20_000  # in a batch: all batches of all kinds fit into a trace of EVENTS
KINDS = ("Iprobe", "Send", "Isend+Wait")
MOST_NS = 50.0  # of a call
MOST_BYTES = 4 << 20  # of a rank without a trace
MOST_SHARE = 0.01  # of a kernel's time
AS_ROOT = {f"{kind}_ALLOW_RUN_AS_ROOT{more}": "1" for kind in ("OMPI", "PRTE") for more in ("", "_CONFIRM")}


def judged(low: float, high: float, most: float) -> tuple[bool, bool]:
    """Whether a target is met, and whether it is undecided, by the interval of what should be at most so much: met
    where all of it is, missed where none of it is.
    """
    return high <= most, low <= most < high


@dataclass(frozen=True)
class Loop:
    """bench/mpi/calls.c over one library."""

    module: str
    program: Path
    profiler: Path
    folder: Path

    @classmethod
    def built(cls, module: str, folder: Path) -> Loop:
        one = added.one(module)
        program = folder / f"calls-{module.replace('@', '-')}"
        subprocess.run(
            [str(one.compiler), "-O2", "-o", str(program), str(ROOT / "bench/mpi/calls.c")],
            env={**os.environ, **description.read(one.path).environment},
            check=True,
            capture_output=True,
            timeout=LIMIT_S,
        )
        return cls(module, program, programs.profiler(programs.builder(one)), folder)

    def run(self, events: int | None) -> dict[str, float]:
        """Nanoseconds of a call by kind, and `resident` in bytes. `events` of the trace; None: no profiler."""
        known = description.read(added.one(self.module).path)
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            output = Path(folder) / "said"
            more = AS_ROOT | (
                {}
                if events is None
                else {
                    "LD_PRELOAD": str(self.profiler),
                    "NETPIPE_PROFILE": folder,
                    "NETPIPE_PROFILE_EVENTS": str(events),
                }
            )
            words = (str(self.program), str(output), str(CALLS))
            job = Job(known, words, 1, (), {**known.environment, **more}, (), None, Path(folder))
            command = find_launcher(known, None)().command(job)
            done = subprocess.run(
                command.argv,
                env=command.whole_environment(),
                capture_output=True,
                text=True,
                check=False,
                timeout=LIMIT_S,
            )
            if done.returncode != 0 or (events is not None and not list(Path(folder).glob("0.part"))):
                raise RuntimeError(
                    f"{self.module}: bench/mpi/calls.c ended with {done.returncode}: {done.stderr}"
                )
            return dict(numbers(output.read_text()))


def numbers(text: str) -> list[tuple[str, float]]:
    return [(name, float(value)) for name, value in (line.split() for line in text.splitlines())]


Turns = list[tuple[dict[str, float], dict[str, float]]]  # with the profiler, and without


def turns(loop: Loop, rounds: int, events: int) -> Turns:
    return list(
        zip(*in_turn(max(3, rounds), partial(loop.run, events), partial(loop.run, None)), strict=True)
    )


def calls_rows(what: str, found: Turns) -> list[Result]:
    """How much longer a call takes, for each kind."""
    title = f"{what}: processor time of a call with the profiler / without"
    return [more_row(f"{kind} {title}", found, kind, " ns", 1.0, MOST_NS) for kind in KINDS]


def memory_row(what: str, found: Turns) -> Result:
    """How much larger the rank is at the end."""
    title = f"memory of a rank {what}: with the profiler / without"
    return more_row(title, found, "resident", " MiB", 1 << 20, MOST_BYTES / (1 << 20))


def more_row(title: str, found: Turns, key: str, unit: str, size: float, most: float) -> Result:
    """How much more of `key` there is with the profiler, in units of this size; at most `most` of them."""
    with_it, without = ([one[key] / size for one in side] for side in zip(*found, strict=True))
    more = [one - other for one, other in zip(with_it, without, strict=True)]
    _, low, high = interval(more)
    met, undecided = judged(low, high, most)
    return Result(
        "profiler",
        title,
        shown(with_it, 1, unit),
        shown(without, 1, unit),
        f"{shown(more, 2 if size > 1 else 1, unit)} more",
        f"<= {most:g}{unit}",
        met,
        undecided,
    )


def dearest(found: Turns) -> tuple[float, float, float]:
    """Nanoseconds that a call of the kind takes longer that suffers most: the middle, and its interval."""
    every = [interval([one[kind] - other[kind] for one, other in found]) for kind in KINDS]
    return max(every)


def share(
    calls: int, ns: tuple[float, float, float], took_s: tuple[float, float, float]
) -> tuple[float, float, float]:
    """The share of a kernel's seconds that so many calls take longer by so many ns each: the middle, and an interval
    from the least cost in the longest time to the most in the shortest.
    """
    at = calls * 1e-9
    return at * ns[0] / took_s[0], at * ns[1] / took_s[2], at * ns[2] / took_s[1]


def kernel_rows(
    task: Task,
    what: str,
    with_it: list[float],
    without: list[float],
    calls: int,
    ns: tuple[float, float, float],
) -> list[Result]:
    """Seconds of a kernel with and without, and the share by `calls` of one rank that take `ns` longer each."""
    ratios = [one / other for one, other in zip(with_it, without, strict=True)]
    _, low, high = interval(ratios)
    met, undecided = judged(low, high, 1 + MOST_SHARE)
    middle, least, most = share(calls, ns, interval(without))
    within, open_ = judged(least, most, MOST_SHARE)
    name = f"{task.cell.kernel} {task.cell.problem}, {task.cell.ranks} ranks {what}"
    return [
        Result(
            "profiler",
            f"{name}: with a trace / without the profiler",
            shown(with_it, 3, " s"),
            shown(without, 3, " s"),
            shown(ratios),
            f"<= {1 + MOST_SHARE}",
            met,
            undecided,
        ),
        Result(
            "profiler",
            f"{name}: {calls} calls of the rank with most, times {ns[0]:.0f} ns, of its time",
            f"{calls * ns[0] * 1e-6:.2f} ms",
            shown(without, 3, " s"),
            f"{middle:.2%} [{least:.2%} {most:.2%}]",
            f"<= {MOST_SHARE:.0%}",
            within,
            open_,
        ),
    ]


def watched(runner: Runner, task: Task) -> tuple[int, float]:
    """The calls of the rank that has most, and the kernel's seconds."""
    profile, took = profiled(runner, task)
    return max(rank.calls for rank in profile.ranks), took


def alone(runner: Runner, task: Task) -> tuple[int, float]:
    """The same without the profiler, which counts nothing then."""
    return 0, seconds(runner, task)


def profiler(rounds: int) -> list[Result]:
    """A loop of calls over both libraries, and each kernel with the profiler and its trace, and without."""
    results = []
    cost: dict[str, tuple[float, float, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for module in libraries():
            loop = Loop.built(module, Path(folder))
            counted, traced = (turns(loop, rounds, events) for events in (0, EVENTS))
            results += calls_rows(f"over {module}, counted", counted)
            results += calls_rows(f"over {module}, counted and traced", traced)
            results.append(memory_row(f"over {module}, without a trace", counted))
            cost[module] = dearest(traced)
    first = libraries()[0]
    tasks, reasons = planned([f"{first}:transport=shm"], (*EVERY, EP))
    with Runner(TIMEOUT_S) as runner:
        for task in tasks:
            with_it, without = in_turn(
                max(3, rounds), partial(watched, runner, task), partial(alone, runner, task)
            )
            calls = max(calls for calls, _ in with_it)
            times, others = ([took for _, took in side] for side in (with_it, without))
            results += kernel_rows(task, f"over {first}, shm", times, others, calls, cost[first])
    return [*results, *left_out("profiler", reasons)]


COMPARISONS = {"profiler": profiler}
