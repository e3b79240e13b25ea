# SPDX-License-Identifier: Apache-2.0
"""Do the numbers of a default run hold for the next one? The same command again and again: how wide its intervals are,
how often the next run lies outside, how far losses differ from run to run, and what a variant beside itself shows. The
peer of a run is the run after it.
"""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median

from measured import Result, shown

from netpipe.reading import Reading
from netpipe.reading.losses import SizeLoss
from netpipe.records import Run

MOST_S = 60.0
LAYERS = ("memcpy", "shm", "pipe", "unix", "tcp", "tcp:wait=poll")


def measured(folder: str, number: int, *words: str) -> tuple[Reading, float]:
    """One run, and the seconds of its measurement."""
    path = Path(folder) / f"{number}.jsonl"
    command = [sys.executable, "-m", "netpipe", "run", "-q", "-o", str(path), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[2:])} ended with {done.returncode}: {done.stderr[-300:]}")
    run = Run.read(path, samples=False)
    return Reading(run), sum(launch.seconds or 0 for launch in run.launches)


def share(hits: list[bool]) -> float:
    return fmean(hits) if hits else math.nan


def runs(rounds: int) -> list[Result]:
    """The default run without options: all layers of this host."""
    count = max(2, min(rounds, 10))
    with tempfile.TemporaryDirectory() as folder:
        found = [measured(folder, number) for number in range(count)]
    seconds = [one for _, one in found]
    readings = [one for one, _ in found]
    widths = [p.time_ns.half_width for reading in readings for curve in reading.curves for p in curve.points]
    within = [share([width <= most for width in widths]) for most in (0.1, 0.2)]
    results = [
        Result(
            "runs",
            f"default run, {count} times: measurement",
            shown(seconds, 1, " s"),
            "",
            "",
            f"<= {MOST_S:g} s",
            max(seconds) <= MOST_S,
        ),
        Result(
            "runs",
            "sizes within ±20 %",
            f"{within[1]:.1%}",
            "",
            f"typical ±{median(widths):.1%}",
            ">= 90 %",
            within[1] >= 0.9,
        ),
        Result("runs", "sizes within ±10 %", f"{within[0]:.1%}", "", "", ">= 60 %", within[0] >= 0.6),
    ]
    for variant, outside, apart in next_runs(readings):
        results.append(
            Result(
                "runs",
                f"next run outside the interval: {variant}",
                f"{share(outside):.1%}",
                "",
                f"medians differ by {median(apart):.1%}",
                "<= 20 %",
                share(outside) <= 0.2,
            )
        )
    for place in ("8 B", "the largest size"):
        both = [abs(math.log(a.times.value / b.times.value)) for a, b in loss_pairs(readings, place)]
        if both:
            results.append(
                Result(
                    "runs",
                    f"losses at {place}, run to run",
                    f"{median(both):.1%}",
                    "",
                    "",
                    "<= 2 %",
                    median(both) <= 0.02,
                )
            )
    return results


def next_runs(readings: list[Reading]) -> Iterator[tuple[str, list[bool], list[float]]]:
    """Of each variant: does each size of a run contain that of the next one, and how far apart are they?"""
    outside: dict[str, list[bool]] = defaultdict(list)
    apart: dict[str, list[float]] = defaultdict(list)
    for one, following in pairwise(readings):
        for name, curve in one.by_name.items():
            then = {p.size_bytes: p.time_ns.value for p in following.by_name[name].points}
            for point in curve.points:
                if point.size_bytes in then and point.time_ns.known:
                    outside[curve.variant].append(not point.time_ns.covers(then[point.size_bytes]))
                    apart[curve.variant].append(abs(math.log(point.time_ns.value / then[point.size_bytes])))
    for variant, hits in outside.items():
        yield variant, hits, apart[variant]


def loss_pairs(readings: list[Reading], place: str) -> Iterator[tuple[SizeLoss, SizeLoss]]:
    """The same loss in one run and in the next."""
    for one, following in pairwise(readings):
        then = {(loss.variant, loss.below): loss for loss in following.losses}
        for loss in one.losses:
            other = then.get((loss.variant, loss.below))
            if other is None:
                continue
            pair = (loss.small, other.small) if place == "8 B" else (loss.sizes[-1], other.sizes[-1])
            if pair[0] is not None and pair[1] is not None:
                yield pair[0], pair[1]


def beside(rounds: int) -> list[Result]:
    """Every layer beside itself inside a default run."""
    count = max(1, min(rounds, 5))
    with tempfile.TemporaryDirectory() as folder:
        readings = [measured(folder, number, *LAYERS, "--aa")[0] for number in range(count)]
    floors = defaultdict(list)
    for reading in readings:
        for floor in reading.beside:
            floors[floor.variant].append(floor)
    results = []
    for variant, several in floors.items():
        typical, most = median(one.typical for one in several), median(one.most for one in several)
        holds = fmean(one.holds for one in several if one.holds is not None)
        results += [
            Result(
                "beside",
                f"{variant} beside itself: half of the sizes within",
                f"{typical:.2%}",
                "",
                f"90 % within {most:.2%}",
                "<= 1 %, 3 %",
                typical <= 0.01 and most <= 0.03,
            ),
            Result(
                "beside",
                f"{variant} beside itself: intervals that hold 1",
                f"{holds:.1%}",
                "",
                "",
                "92 to 98 %",
                0.92 <= holds <= 0.98,
            ),
        ]
    return results


COMPARISONS = {"runs": runs, "beside": beside}
