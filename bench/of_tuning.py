# SPDX-License-Identifier: Apache-2.0
"""Does `netpipe tune` find what an exhaustive search finds, with how little of its measurements, and does it call
nothing a gain that is none? Its peer is the exhaustive search over the same settings.

A measurement is one variant at one size in one launch. An exhaustive search measures every combination of the values
that the tuner may try, over the whole curve, once; it is run here at the sizes of the goal alone, and what the whole
would have taken is counted from that. Where there are more combinations than MOST_COMBINATIONS, a random sample of so
many stands for them, and the row says so: its best may then be less than the best of all.
"""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from statistics import median
from typing import Any

from measured import MissingError, Result

from netpipe import native
from netpipe.libraries.adding import added
from netpipe.reading.estimate import Estimate
from netpipe.session import Request
from netpipe.tuning.goals import OCTAVES, goal
from netpipe.tuning.library import library
from netpipe.tuning.library.parameters import texts_here
from netpipe.tuning.measuring import Bench
from netpipe.tuning.space import Space, space
from netpipe.tuning.variants import START, Changes, Start

MOST_COMBINATIONS = 150
TUNE_S = 60.0
FALSE_RUNS = 20
EACH_S = 0.3  # of a curve of the exhaustive search
AGAIN = 5  # of its best
LIMIT_S = 900


@dataclass(frozen=True)
class Case:
    name: str
    variant: str
    goal: str
    only: str  # settings of both searches
    more: tuple[str, ...] = ()


def tuned(case: Case, folder: str, seconds: float = TUNE_S) -> dict[str, Any]:
    """The outcome of the command."""
    words = [
        case.variant,
        "--goal",
        case.goal,
        "--time",
        f"{seconds:g}",
        "-o",
        f"{folder}/tune",
        "--json",
        *case.more,
    ]
    words += ["--only", case.only] if case.only else []
    done = subprocess.run(
        [sys.executable, "-m", "netpipe", "tune", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    if done.returncode != 0:
        raise RuntimeError(
            f"netpipe tune {' '.join(words)} ended with {done.returncode}: {done.stderr[-300:]}"
        )
    (outcome,) = json.loads(done.stdout)["outcomes"]
    found: dict[str, Any] = outcome
    return found


def combinations(of: Space) -> list[Changes]:
    """Every one of them, the start among them."""
    each = [[None, *knob.values] for knob in of.knobs]
    return [
        Changes.of(
            {knob.name: value for knob, value in zip(of.knobs, values, strict=True) if value is not None}
        )
        for values in product(*each)
    ]


def exhaustive(case: Case, winner: dict[str, str]) -> tuple[float, int, bool]:
    """How much of the speed of the best combination `winner` has, the measurements of a whole search, and whether all
    combinations were measured. Those that were fastest are measured again, longer: the least of many numbers is low
    by chance.
    """
    start = Start.of(case.variant)
    listed = {one["name"]: one for one in native.list_()["modules"]}
    there = space(listed[start.module]["options"], start, texts_here(), (), case.only.split(","))
    every = combinations(there)
    some = every if len(every) <= MOST_COMBINATIONS else random.Random(1).sample(every, MOST_COMBINATIONS)
    chosen = Changes.of(winner)
    bench = Bench(
        start, goal(case.goal), Request([case.variant], settings={"timeout": "5"}), "@" in start.module
    )
    # Against the winner and not the start, which may be a thousand times as slow.
    with bench.guard:
        candidates = [one for one in dict.fromkeys(some) if one != chosen]
        told, _, _ = bench.round(chosen, candidates, False, EACH_S, bench.clock() + LIMIT_S)
        times = {one: told_of.value for one, told_of in told.items() if isinstance(told_of, Estimate)}
        best = sorted(times, key=lambda one: times[one])[:AGAIN]
        again, _, _ = bench.round(chosen, best, False, 10 * EACH_S, bench.clock() + LIMIT_S)
    ratios = [one.value for one in again.values() if isinstance(one, Estimate)]
    return min([1.0, *ratios]), len(every) * len(OCTAVES), len(some) == len(every)


def row(case: Case) -> list[Result]:
    """One provoked case."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = tuned(case, folder)
    reached, whole, all_ = exhaustive(case, outcome["settings"])
    share = outcome["measurements"] / whole
    times = outcome["times_as_fast"] or {"value": math.nan, "low": math.nan, "high": math.nan}
    gain = (
        f"{times['value']:.3g} [{times['low'] or math.nan:.3g} {times['high'] or math.nan:.3g}] times as fast"
    )
    of = "all combinations" if all_ else f"a sample of {MOST_COMBINATIONS} combinations"
    settings = ",".join(f"{name}={value}" for name, value in outcome["settings"].items()) or "nothing"
    return [
        Result(
            "tuning",
            f"{case.name} ({case.variant}, {case.goal}): {settings}",
            gain,
            f"best of {of}",
            f"{reached:.1%} of its speed",
            ">= 95 %",
            outcome["gains"] and reached >= 0.95,
        ),
        Result(
            "tuning",
            f"{case.name}: measurements of a size",
            str(outcome["measurements"]),
            f"{whole} (every combination, every octave)",
            f"{share:.1%}",
            "<= 5 %",
            share <= 0.05,
        ),
    ]


def provoked() -> list[Case]:
    found = [
        Case("8 KiB socket buffers", "tcp:sndbuf=8k", "throughput", "sndbuf,rcvbuf,nodelay,quickack"),
        Case("PVM's daemon route", "pvm", "latency", "route,encoding,fragment"),
    ]
    module = next((one.name for one in added.all_() if one.version.startswith("Open MPI")), None)
    if module is not None:
        found += [
            Case("wrong transport", f"{module}:transport=tcp", "latency", "transport,eager,single_copy"),
            Case(
                "1 KiB eager limit", f"{module}:transport=tcp,eager=1k", "curve", "eager,rndv,sndbuf,rcvbuf"
            ),
        ]
    there = {one["name"] for one in native.list_()["modules"] if one["available"]}
    return [case for case in found if case.variant.partition(":")[0] in there]


def tuning(_rounds: int) -> list[Result]:
    """Provoked cases, against an exhaustive search."""
    return [result for case in provoked() for result in row(case)]


def no_false_gain(rounds: int) -> list[Result]:
    """A start that is the best of its own settings: the only setting that is searched does nothing to these layers."""
    cases = (
        # `busy_poll` asks a device, and the loopback has none.
        Case("nothing to gain", "tcp", "latency", "busy_poll"),
        Case("nothing to gain", "tcp", "throughput", "busy_poll"),
    )
    results = []
    for case in cases:
        gains, seen = [], []
        for _ in range(max(2, min(rounds, FALSE_RUNS))):
            with tempfile.TemporaryDirectory() as folder:
                outcome = tuned(case, folder, 10.0)
            gains.append(outcome["gains"])
            seen.append(outcome["least_gain_seen"] or math.inf)
        results.append(
            Result(
                "no_false_gain",
                f"{case.variant}, {case.goal}, {len(gains)} times: called a gain",
                f"{sum(gains)} of {len(gains)}",
                "",
                f"would have seen {median(seen) - 1:.1%}",
                "0",
                not any(gains),
            )
        )
    return results


def defaults(_rounds: int) -> list[Result]:
    """What could be gained over the defaults of the libraries that were added, collectives and point to point."""
    names = [one.name for one in added.all_() if one.name.startswith("mpi@")]
    listed = {one["name"]: one for one in native.list_()["modules"]}
    known: Sequence[str] = [name for name in names if name in listed and library(listed[name]).tunables.known]
    if not known:
        raise MissingError("no Open MPI or MPICH was added: netpipe modules add")
    results = []
    for name in known:
        for what in ("latency", "throughput", "collective=allreduce", "collective=bcast"):
            with tempfile.TemporaryDirectory() as folder:
                outcome = tuned(Case("defaults", name, what, ""), folder)
            times = outcome["times_as_fast"]
            settings = ",".join(f"{key}={value}" for key, value in outcome["settings"].items())
            shown = "nothing to gain"
            if outcome["gains"] and times:
                shown = f"{times['value']:.3g} [{times['low']:.3g} {times['high']:.3g}] times as fast"
            seen = outcome["least_gain_seen"]
            results.append(
                Result(
                    "defaults",
                    f"{name}, {what}: {settings or START}",
                    shown,
                    "",
                    f"would have seen {seen - 1:.1%}" if seen else "",
                    "none",
                    True,
                )
            )
    return results


COMPARISONS = {"tuning": tuning, "no_false_gain": no_false_gain, "tunable_defaults": defaults}
