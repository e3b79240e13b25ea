# SPDX-License-Identifier: Apache-2.0
"""Does a comparison report a difference where there is none, and find one of 3 %? Real runs of the same command, each
pair of them through the code of `netpipe compare` and `netpipe check`: as they are, and with all visits of one side
made longer in memory. The same of the variants of one run, each beside a copy of itself, as `netpipe compare RUN
--variant tcp --variant tcp#2` compares them. No peer says anything about that, so the targets are numbers.

    python bench/compare.py comparison [--rounds N] [--noise ...]       46 runs at the usual 15 rounds
    python bench/compare.py comparison-longer                           8 runs of sixteen times as many launches
    python bench/of_comparison.py --keep DIR [--longer] [--rounds N]    and keep the runs
    python bench/of_comparison.py --again DIR                           judge what was kept, without measuring
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
from measured import Result

from netpipe.command.comparing import compared_runs
from netpipe.command.presets import PRESETS
from netpipe.reading.across.gate import Result as Outcome
from netpipe.reading.across.gate import gate
from netpipe.reading.blocks.beside import copies
from netpipe.reading.blocks.verdicts import Word
from netpipe.records import Point, Run, Visits

LAYERS = ("shm", "pipe", "tcp", "tcp:wait=poll")
SIZES = "8,64,512,4k,32k,256k,1M,4M"
# Of each variant, over four launches: as much for each size as the default run has (3 s for some 40 sizes).
BUDGET_S = 0.6
USUAL = "comparison"
LAUNCHES = int(PRESETS["default"]["launches"])
LONGER = 16  # times as many launches, each as long
USUAL_ROUNDS, USUAL_RUNS, USUAL_LONGER = 15, 46, 8  # 46 runs are 1035 pairs
SLOWER = 1.03
MOST_FALSE, LEAST_FOUND = 0.05, 0.95
LIMIT = {"all": 0.01}  # of the gate: `netpipe check --slower all=1%`, which 3 % exceed
PRECISE = 0.01  # half the width of an interval: the target of netpipe run unless it is told another


def measure(folder: Path, count: int, longer: int = 1) -> None:
    """So many runs, each of so many times the usual launches. Raises RuntimeError where one fails."""
    for number in range(count):
        path = folder / f"{number:03}.jsonl"
        words = ["run", "-q", "-o", str(path), "--schedule", "list", "--sizes", SIZES, "--aa"]
        words += ["--budget", f"{BUDGET_S * longer:g}", "--launches", str(LAUNCHES * longer), *LAYERS]
        command = [sys.executable, "-m", "netpipe", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300 * longer)
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)} ended with {done.returncode}: {done.stderr[-300:]}")


def slowed(run: Run, factor: float, variants: Sequence[str]) -> Run:
    """The run with all visits of these variants so many times as long."""
    found = Run(list(run.body()))
    found.path = run.path
    found.points[:] = [_slowed(point, factor) if point.variant in variants else point for point in run.points]
    return found


def _slowed(point: Point, factor: float) -> Point:
    times = {
        name: None if (value := getattr(point, name)) is None else value * factor
        for name in ("median_ns", "low_ns", "high_ns", "mean_ns", "min_ns", "max_ns")
    }
    visits: Any = point.visits  # JSON text in a run that was read without samples
    if isinstance(visits, msgspec.Raw):
        visits = msgspec.json.decode(visits, type=Visits)
    if visits is not None:
        longer = [one * factor for one in visits.median_ns]
        visits = msgspec.structs.replace(visits, median_ns=longer)
    return msgspec.structs.replace(point, visits=visits, **times)


@dataclass
class Counts:
    """What came of comparisons of one kind."""

    comparisons: int = 0  # calls of `netpipe compare`
    reported: int = 0  # of these, with a difference at any size or over all sizes of any curve
    failed: int = 0  # of these, failed by the gate
    curves: int = 0  # in all of them, with visits made longer
    found: int = 0  # of these, seen as slower over all sizes or at a size,
    over_all: int = 0  # over all sizes,
    by_gate: int = 0  # and by the gate
    precise: int = 0  # curves whose interval over all sizes is within the default target,
    precise_found: int = 0  # and of these, seen as slower over all sizes

    def add(self, equal: Sequence[Run], slower: Sequence[Run], variants: Sequence[str]) -> None:
        """One comparison as it was measured, and the same with what is held against the first made longer."""
        as_it_is = compared_runs(equal, tuple(variants), (), conventions=False).between
        self.comparisons += 1
        self.reported += any(one.differs for one in as_it_is)
        self.failed += any(one.result is Outcome.FAILED for one in gate(as_it_is, LIMIT))
        longer = compared_runs(slower, tuple(variants), (), conventions=False).between
        self.curves += len(longer)
        for one in longer:
            self.over_all += one.word is Word.SLOWER
            precise = one.overall.known and one.overall.high <= (1 + PRECISE) * one.overall.value
            self.precise += precise
            self.precise_found += precise and one.word is Word.SLOWER
            self.found += one.word is Word.SLOWER or bool(one.of(Word.SLOWER))
        self.by_gate += sum(one.result is Outcome.FAILED for one in gate(longer, LIMIT))


def between_runs(runs: Sequence[Run]) -> Counts:
    """Each pair of the runs, every other one with the later run first, so that a machine that gets slower counts in
    both directions.
    """
    counts = Counts()
    slower = [slowed(run, SLOWER, LAYERS) for run in runs]
    for a, b in combinations(range(len(runs)), 2):
        before, after = (a, b) if (a + b) % 2 else (b, a)
        counts.add((runs[before], runs[after]), (runs[before], slower[after]), LAYERS)
    return counts


def within_runs(runs: Sequence[Run]) -> Counts:
    """Each variant of each run and its copy, by turns the one against the other."""
    counts = Counts()
    for number, run in enumerate(runs):
        for copy, original in copies(run).items():
            two = (original, copy) if number % 2 else (copy, original)
            counts.add((run,), (slowed(run, SLOWER, two[1:]),), two)
    return counts


def rows(kind: str, counts: Counts, dependent: str, name: str = USUAL) -> Iterator[Result]:
    """kind: what was compared; dependent: why the comparisons are not independent; name: of the comparison."""

    def row(what: str, hits: int, of: int, target: str, met: bool) -> Result:
        share = f"{hits / of:.1%}" if of else "none"
        return Result(
            name, f"{kind}: {what}", share, "", f"{hits} of {of}; {dependent}", target, of > 0 and met
        )

    def most(what: str, hits: int) -> Result:
        of = counts.comparisons
        return row(what, hits, of, f"<= {MOST_FALSE:.0%}", hits <= MOST_FALSE * of)

    def least(what: str, hits: int) -> Result:
        return row(what, hits, counts.curves, f">= {LEAST_FOUND:.0%}", hits >= LEAST_FOUND * counts.curves)

    more, gated = f"{SLOWER - 1:.0%} more time", f"check --slower all={LIMIT['all']:.0%}"
    yield most("equal, and a difference is reported", counts.reported)
    yield most(f"equal, and {gated} fails", counts.failed)
    yield least(f"{more}, and it is found over all sizes or at one", counts.found)
    yield least(f"{more}, and it is found over all sizes", counts.over_all)
    yield least(f"{more}, and {gated} fails", counts.by_gate)
    yield row(
        f"{more}, and it is found over all sizes, of those within ±{PRECISE:.0%}",
        counts.precise_found,
        counts.precise,
        f">= {LEAST_FOUND:.0%}",
        counts.precise_found >= LEAST_FOUND * counts.precise,
    )


def judged(runs: Sequence[Run], name: str = USUAL) -> list[Result]:
    """The rows of these runs."""
    number = len(runs)
    return [
        *rows("two runs", between_runs(runs), f"pairs of {number} runs, which are not independent", name),
        *rows(
            "a variant beside itself in one run",
            within_runs(runs),
            f"{len(LAYERS)} of each of {number} runs, which share the state of the machine",
            name,
        ),
    ]


def read(folder: Path) -> list[Run]:
    return [Run.read(path, samples=False) for path in sorted(folder.glob("*.jsonl"))]


def count_of(rounds: int, usual: int = USUAL_RUNS) -> int:
    """Runs: in proportion to the rounds, at least two."""
    return max(2, round(usual * rounds / USUAL_ROUNDS))


def comparison(rounds: int) -> list[Result]:
    """Runs of a few layers that poll and that sleep, some 5 s each, against each other and beside themselves."""
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), count_of(rounds))
        return judged(read(Path(folder)))


def comparison_longer(rounds: int) -> list[Result]:
    """The same with sixteen times as many launches, 100 s a run: what launches decide has to be averaged."""
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), count_of(rounds, USUAL_LONGER), LONGER)
        return judged(read(Path(folder)), "comparison-longer")


COMPARISONS = {USUAL: comparison, "comparison-longer": comparison_longer}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--keep", type=Path, metavar="DIR", help="measure, and keep the runs there")
    where.add_argument("--again", type=Path, metavar="DIR", help="judge the runs that are there")
    parser.add_argument("--longer", action="store_true", help="fewer runs, each of more launches")
    parser.add_argument("--rounds", type=int, default=USUAL_ROUNDS)
    asked = parser.parse_args()
    folder = asked.keep or asked.again
    if asked.keep:
        folder.mkdir(parents=True, exist_ok=True)
        usual, longer = (USUAL_LONGER, LONGER) if asked.longer else (USUAL_RUNS, 1)
        measure(folder, count_of(asked.rounds, usual), longer)
    for row in judged(read(folder)):
        print(f"{row.verdict:<6} {row.what}: {row.ours} ({row.figure}; target {row.target})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
