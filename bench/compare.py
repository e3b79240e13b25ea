#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""netpipe beside its peers, in turn and in one call. Machines are shared and change: only ratios of what was measured
within the same seconds mean something, so every comparison alternates its sides and reports the median of the ratios
with its 95 % interval. A row is met if the median meets the target and the interval is no wider than the target,
missed if the whole interval lies outside, and else undecided. Comparisons are in the files of_*.py beside this one; a
new one needs nothing else.

    python bench/compare.py [NAME ...] [--rounds N] [--noise steal=0.2,...] [--congestion reno]
                            [--json FILE] [--gate] [--against FILE]

Needs a build with -DNETPIPE_BENCH=ON (and -DNETPIPE_TESTS=ON for `overlap`, `overhead`, `loggp` and `gap`; make bench
does both) and, for `curve` and `peak`, NPtcp (Debian netpipe-tcp) and iperf3. A comparison whose peer is not installed
is skipped, and says so. The exit code is 1 when one broke off, with --gate when a target is missed, and with --against,
a file that --json wrote earlier, when one is missed that was met there, or a rate is lower by more than the intervals
leave open.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import noise
from alone import alone, congestion
from measured import MissingError, Result

from netpipe.reading.across.between import wider
from netpipe.reading.estimate import Estimate, ratio

THERE = "NETPIPE_BENCH_CONGESTION"  # set in the namespace of --congestion

COMPARISONS: dict[str, Callable[[int], list[Result]]] = {}
for file in sorted(Path(__file__).parent.glob("of_*.py")):
    COMPARISONS.update(importlib.import_module(file.stem).COMPARISONS)


def under(text: str, compare: Callable[[int], list[Result]], rounds: int) -> list[Result]:
    """A comparison on a machine that is disturbed so; its rows say it."""
    with noise.made(text) as did:
        found = compare(rounds)
    print(did, flush=True)
    return [replace(row, what=f"{row.what}, under noise {text}") for row in found]


def table(results: list[Result]) -> list[str]:
    rows = [f"| {r.what} | {r.ours} | {r.peer} | {r.figure} | {r.target} | {r.verdict} |" for r in results]
    return ["| what | netpipe | peer | ratio or difference | target | |", "|---|---|---|---|---|---|", *rows]


def changes(before: list[Result], now: list[Result]) -> dict[str, list[Result]]:
    """Rows whose verdict is another one than before, by how: "met, now missed". A row is known by what it says."""
    were = {(r.name, r.what): r.verdict for r in before}
    found: dict[str, list[Result]] = {}
    for r in now:
        was = were.get((r.name, r.what), r.verdict)
        if was != r.verdict:
            found.setdefault(f"{was or 'said'}, now {r.verdict or 'said'}", []).append(r)
    return found


def slower(before: list[Result], now: list[Result]) -> list[tuple[Result, Estimate]]:
    """Rows whose rate is surely lower than before, with the rate over the one before. The interval of that is as wide
    as that of two runs: the machine is not the same a minute later.
    """
    were = {(r.name, r.what): Estimate(*r.rate) for r in before if r.rate}
    found = []
    for r in now:
        was = were.get((r.name, r.what))
        if r.rate and was:
            times = wider(ratio(Estimate(*r.rate), was))
            if times.high < 1:
                found.append((r, times))
    return found


def results_of(path: Path) -> list[Result]:
    """Raises ValueError if it is no such file, OSError if there is none."""
    try:
        return [Result(**one) for one in json.loads(path.read_text())]
    except (TypeError, ValueError) as wrong:
        raise ValueError(f"{path} is no file that --json wrote: {wrong}") from None


def keep(results: list[Result], arguments: argparse.Namespace) -> None:
    """As --json and --table ask."""
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(r) for r in results], indent=1) + "\n")
    if arguments.table:
        arguments.table.write_text("".join(f"{line}\n" for line in table(results)))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(COMPARISONS)}; default all")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument(
        "--noise",
        metavar="NAME=VALUE,...",
        help="disturb the machine meanwhile, as bench/noise.c can: steal=0.2,bandwidth=0.5,wakeups=1000,seed=1",
    )
    parser.add_argument(
        "--congestion",
        metavar="NAME",
        help="in a network namespace of its own whose TCP is under this congestion control, whatever the machine has",
    )
    parser.add_argument("--json", type=Path, help="write the results there as well")
    parser.add_argument("--table", type=Path, help="and there as a table in Markdown")
    parser.add_argument("--gate", action="store_true", help="exit 1 when a target is missed")
    parser.add_argument(
        "--against",
        type=Path,
        metavar="FILE",
        help="say what changed since --json wrote this; 1 if a target is lost or a rate is lower",
    )
    arguments = parser.parse_args()
    before: list[Result] = []
    if arguments.against:
        try:
            before = results_of(arguments.against)
        except (OSError, ValueError) as wrong:
            parser.error(str(wrong))
    unknown = [name for name in arguments.names if name not in COMPARISONS]
    if unknown:
        parser.error(f"there is no comparison {', '.join(unknown)}; there are {', '.join(COMPARISONS)}")
    if arguments.noise:
        try:
            noise.words(arguments.noise)
        except ValueError as wrong:
            parser.error(str(wrong))
    if arguments.congestion and arguments.congestion != os.environ.get(THERE):
        try:
            again = alone([sys.executable, *sys.argv], congestion(arguments.congestion))
        except (ValueError, MissingError) as wrong:
            parser.error(str(wrong))
        os.execvpe(again[0], again, {**os.environ, THERE: arguments.congestion})
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what is stopped is ended with us
    results: list[Result] = []
    broken: list[str] = []
    for name in arguments.names or COMPARISONS:
        try:
            compare = COMPARISONS[name]
            found = (
                under(arguments.noise, compare, arguments.rounds)
                if arguments.noise
                else compare(arguments.rounds)
            )
        except MissingError as missing:
            print(f"{name}: skipped, {missing}", flush=True)
            continue
        except (RuntimeError, subprocess.SubprocessError) as problem:  # the others go on
            print(f"{name}: broke off, {problem}", flush=True)
            broken.append(name)
            continue
        if arguments.congestion:
            found = [replace(row, what=f"{row.what}, under {arguments.congestion}") for row in found]
        for r in found:
            print(f"{r.verdict or 'said':<9} {r.name}: {r.what}", flush=True)
            print(f"          ours {r.ours} | peer {r.peer} | {r.figure} (target {r.target})", flush=True)
        results += found
        keep(results, arguments)  # at once: whoever ends a long call keeps what it has measured
    missed = [r for r in results if r.verdict == "missed"]
    undecided = sum(r.verdict == "undecided" for r in results)
    print(f"{sum(r.verdict == 'met' for r in results)} met, {len(missed)} missed, {undecided} undecided")
    changed = changes(before, results)
    for how, rows in changed.items():
        for r in rows:
            print(f"{how}: {r.name}: {r.what}: {r.figure} (target {r.target})")
    less = slower(before, results)
    for r, times in less:
        print(
            f"slower: {r.name}: {r.what}: {r.ours}, "
            f"{times.value:.2f} [{times.low:.2f} {times.high:.2f}] times what it was"
        )
    if before:
        same = sum((r.name, r.what) in {(one.name, one.what) for one in before} for r in results)
        print(
            f"{same} rows were measured before; of {sum(map(len, changed.values()))} the verdict is another one, "
            f"and {len(less)} {'is' if len(less) == 1 else 'are'} slower"
        )
    lost = less or "met, now missed" in changed
    return 1 if broken or (missed and arguments.gate) or lost else 0


if __name__ == "__main__":
    sys.exit(main())
