# SPDX-License-Identifier: Apache-2.0
"""Two programs that measure the same thing, in turn every few hundredths of a second: while one measures the other is
stopped (SIGSTOP). What the machine does to both, such as moving its virtual processors apart and together every few
seconds, then cancels in the ratio of two slices that lie side by side, which it does not in that of two whole runs.

A program must write what it measured into a file while it goes on. What appears there during its slice counts; a
sample that was cut by the stop is one long value in a median.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from measured import Result, Target, interval, shown

PAIRS = 24  # of slices, of one launch
MORE = 3  # times as many launches at most as were asked for, where those do not decide
FEWEST = 1  # netpipe ends early where it has all the samples that it keeps, or all are alike
SLICE_S = 0.02
NEAR = 1.08  # the two speeds of Open MPI's shared memory are 1.15 and more apart
START_S = 60  # until the first sample is there
LONGEST_SLICE_S = 5
MEASURE_S = 60  # what both are told to go on for at most


def from_records(line: str) -> list[float]:
    """Of a line of a run file: the samples of a visit, in ns per operation."""
    record = json.loads(line)
    if record["type"] != "sample" or record["pass"] < 0:
        return []
    return [ns / record["ops"] for ns in record["ns"]]


def from_measure(name: str) -> Callable[[str], list[float]]:
    """Of a line of a run file: what each sample of a visit says of this measure, in its own unit."""

    def values(line: str) -> list[float]:
        record = json.loads(line)
        if record["type"] != "sample" or record["pass"] < 0:
            return []
        found: list[float] = record["measures"].get(name, [])
        return found

    return values


def from_numbers(line: str) -> list[float]:
    return [float(word) for word in line.split()]


Speed = Callable[[list[list[float]]], float]  # what the lines of a slice come to


def usual(lines: list[list[float]]) -> float:
    return statistics.median(value for line in lines for value in line)


def of_the_fast(lines: list[list[float]]) -> float:
    """Where a library goes at one of two speeds for thousands of messages: the faster one. The usual line of those
    near the fastest, not a low percentile of all: that would be lower where there are more lines.
    """
    medians = [statistics.median(line) for line in lines]
    return statistics.median(one for one in medians if one < NEAR * min(medians))


def in_the_middle(lines: list[list[float]]) -> float:
    """The mean of all but the fastest and the slowest tenth, for operations that take one of two times in turn:
    their median would be one of the two by chance.
    """
    values = sorted(value for line in lines for value in line)
    tenth = len(values) // 10
    return statistics.fmean(values[tenth : len(values) - tenth])


@dataclass
class Program:
    argv: Sequence[str]
    output: Path
    values: Callable[[str], list[float]]
    environment: dict[str, str] | None = None
    speed: Speed = usual


def children_of_all() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it has ended
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                found.setdefault(parent, []).append(int(entry.name))
    return found


@dataclass
class Running:
    """A program and the processes that it has started, stopped but for its slices."""

    program: Program
    process: subprocess.Popen[bytes]
    tree: list[int] = field(default_factory=list)  # parents before their children
    at: int = 0  # how much of the output was read
    first: list[list[float]] = field(default_factory=list)  # what it had when it was first stopped

    @classmethod
    def start(cls, program: Program) -> Running:
        with program.output.with_suffix(".said").open("wb") as out:
            process = subprocess.Popen(
                program.argv,
                env=program.environment,
                cwd=program.output.parent,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        started = cls(program, process)
        try:
            deadline = time.monotonic() + START_S
            while not (lines := started.read()):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{' '.join(program.argv)} measured nothing: {started.said()}")
                time.sleep(0.01)
            started.tree = started.descendants()
            started.signal(signal.SIGSTOP)
            started.first = lines
        except BaseException:
            started.end()
            raise
        return started

    def said(self) -> str:
        return self.program.output.with_suffix(".said").read_text()[-2000:]

    def descendants(self) -> list[int]:
        children = children_of_all()
        tree = [self.process.pid]
        for parent in tree:
            tree.extend(children.get(parent, []))
        return tree

    def signal(self, what: signal.Signals) -> None:
        for pid in self.tree if what == signal.SIGSTOP else reversed(self.tree):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, what)

    def read(self) -> list[list[float]]:
        """The samples of each whole line that has been added since the last call."""
        if not self.program.output.exists():
            return []
        with self.program.output.open("rb") as file:
            file.seek(self.at)
            whole = file.read().rpartition(b"\n")[0]
        if not whole:
            return []
        self.at += len(whole) + 1
        lines = (self.program.values(line) for line in whole.decode().splitlines())
        return [values for values in lines if values]

    def slice(self, seconds: float) -> list[list[float]]:
        """Lets it go on for so long, and until there is a line: netpipe's visits of long messages last longer."""
        self.signal(signal.SIGCONT)
        deadline = time.monotonic() + LONGEST_SLICE_S
        time.sleep(seconds)
        lines, self.first = self.first + self.read(), []
        while not lines and self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(seconds / 4)
            lines = self.read()
        self.signal(signal.SIGSTOP)
        return lines + self.read()

    def end(self) -> None:
        """Both a job's launcher and netpipe end what they have started when they are told to."""
        self.tree = self.tree or self.descendants()
        self.signal(signal.SIGCONT)
        if self.process.poll() is None:
            self.process.terminate()  # SIGINT is ignored by what a shell has put into the background
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            self.process.wait(20)


@dataclass(frozen=True)
class Sliced:
    """Medians over the slices of one launch of each."""

    ours_ns: float
    peer_ns: float
    ratio: float


Start = Callable[[Path], Program]  # from the file that it is to write


def netpipe(
    variant: str,
    size: int,
    pattern: str = "pingpong",
    speed: Speed = usual,
    values: Callable[[str], list[float]] = from_records,
) -> Start:
    """One size of one variant, for as long as it is let."""

    def program(output: Path) -> Program:
        words = [
            "run",
            variant,
            "--launches",
            "1",
            "--pattern",
            pattern,
            "--sizes",
            str(size),
            "--target",
            "0.001%",
        ]
        words += ["--budget", str(MEASURE_S), "--quiet", "--pin", "0,1", "-o", str(output)]
        return Program([sys.executable, "-m", "netpipe", *words], output, values, speed=speed)

    return program


def beside(rounds: int, ours: Start, peer: Start, first: int = 0) -> list[Sliced]:
    """So many launches of each. Every other time the peer starts first, which decides what memory each finds."""
    return [
        one_launch(ours, peer, (peer, ours) if i % 2 else (ours, peer)) for i in range(first, first + rounds)
    ]


def ratio_of(one: Sliced) -> float:
    return one.ratio


def difference_ns(one: Sliced) -> float:
    """By how many ns ours is slower, from the ratio: its slices met the same seconds."""
    return (one.ratio - 1) * one.peer_ns


@dataclass(frozen=True)
class Bounds(Target):
    """What the median of the launches' figures has to be."""

    figure: Callable[[Sliced], float] = ratio_of
    digits: int = 3
    unit: str = ""

    def figures(self, found: list[Sliced]) -> list[float]:
        return [self.figure(one) for one in found]


def within(part: float) -> Bounds:
    return Bounds(f"within {part:.0%}", 1 - part, 1 + part)


def at_most(ratio: float) -> Bounds:
    return Bounds(f"<= {ratio:g}", -math.inf, ratio)


def at_most_ns(more: float) -> Bounds:
    """Of how many ns netpipe takes longer than its peer."""
    return Bounds(f"<= {more:g} ns", -math.inf, more, 0, difference_ns, digits=1, unit=" ns")


SAID = Bounds("none", 0, math.inf)


def compared(
    name: str, what: str, rounds: int, ours: Start, peer: Start, bounds: Bounds, digits: int = 1
) -> Result:
    """`rounds` launches of each, and up to MORE times as many until the interval of the median figure is as narrow as
    the target. Where that did not decide it, two copies of the peer show what this machine could decide.
    """
    found = beside(rounds, ours, peer)
    while too_wide(found, bounds) and len(found) < MORE * rounds:
        found += beside(2, ours, peer, len(found))
    row = result(name, what, found, bounds, digits)
    if row.verdict != "undecided":
        return row
    copies = bounds.figures(beside(len(found), partial(peer), peer))
    return replace(
        row, figure=f"{row.figure}; two copies of the peer {shown(copies, bounds.digits, bounds.unit)}"
    )


def too_wide(found: list[Sliced], bounds: Bounds) -> bool:
    _, low, high = interval(bounds.figures(found))
    return high - low > bounds.width and not bounds.least <= low <= high <= bounds.most


def result(name: str, what: str, found: list[Sliced], bounds: Bounds, digits: int = 1) -> Result:
    """Of several launches."""
    figures = bounds.figures(found)
    met, undecided = bounds.judged(*interval(figures))
    return Result(
        name,
        what,
        shown([one.ours_ns for one in found], digits, " ns"),
        shown([one.peer_ns for one in found], digits, " ns"),
        f"{shown(figures, bounds.digits, bounds.unit)}, {len(found)} starts",
        bounds.target,
        met,
        undecided,
    )


def one_launch(ours: Start, peer: Start, starts: tuple[Start, Start]) -> Sliced:
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as both:
        started: dict[Start, Running] = {}
        for make in starts:
            started[make] = Running.start(make(Path(folder) / str(len(started))))
            both.callback(started[make].end)
        found = []
        for i in range(PAIRS):
            order = (peer, ours) if i % 2 else (ours, peer)
            lines = {make: started[make].slice(SLICE_S) for make in order}
            if all(lines.values()):
                mine, theirs = (started[make].program.speed(lines[make]) for make in (ours, peer))
                found.append((mine, theirs))
            if any(one.process.poll() is not None for one in started.values()):
                break
        said = " ".join(one.said() for one in started.values())
    if len(found) < FEWEST:
        what = " ".join(started[ours].program.argv)
        raise RuntimeError(f"{what}: {len(found)} of {PAIRS} slices had samples of both. {said}")
    return Sliced(
        statistics.median(mine for mine, _ in found),
        statistics.median(theirs for _, theirs in found),
        statistics.median(mine / theirs for mine, theirs in found),
    )
