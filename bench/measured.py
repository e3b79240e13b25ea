# SPDX-License-Identifier: Apache-2.0
"""What comparisons share: netpipe as it is started here, statistics of rounds, and what a comparison found."""

from __future__ import annotations

import json
import math
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parent.parent
NATIVE = Path(os.environ.get("NETPIPE_NATIVE", ROOT / "build"))
WORKER = NATIVE / "bin" / "netpipe-worker"
PEERS = NATIVE / "bench"
LIMIT_S = 300


class MissingError(Exception):
    """A peer that is not installed."""


@dataclass(frozen=True)
class Result:
    name: str
    what: str
    ours: str
    peer: str
    figure: str  # the ratio or difference, with its interval
    target: str  # "none": the row is only said
    met: bool
    undecided: bool = False  # not met, and more starts could show either
    # What should not become less, with its interval; None: the row has no such number.
    rate: tuple[float, float, float] | None = None

    @property
    def verdict(self) -> str:
        if self.target == "none":
            return ""
        return "met" if self.met else "undecided" if self.undecided else "missed"


def peer_program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise MissingError(f"{name} is not installed")
    return found


def worker(*lines: str) -> list[dict[str, Any]]:
    """The records of one plan."""
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "run.jsonl"
        pin = [] if any(line.startswith("pin ") for line in lines) else ["pin 0,1"]
        plan = "\n".join(["netpipe-plan 1", f"record {record}", *pin, *lines, "end", ""])
        subprocess.run(
            [WORKER, "run"], input=plan, capture_output=True, text=True, check=True, timeout=LIMIT_S
        )
        return [json.loads(line) for line in record.read_text().splitlines()]


def points(records: Iterable[dict[str, Any]], variant: str | None = None) -> dict[int, dict[str, Any]]:
    return {r["size_bytes"]: r for r in records if r["type"] == "point" and variant in (None, r["variant"])}


def best_trials_ns(records: Iterable[dict[str, Any]]) -> dict[tuple[str, int], float]:
    """As the classic NetPIPE comes to its numbers: of each pattern and size the best of three trials. A visit, of which
    the mean counts, is a trial. In ns of an operation.
    """
    trials: dict[tuple[str, int], list[float]] = {}
    for r in records:
        if r["type"] == "sample" and r["pass"] >= 0 and r["ns"]:
            one = statistics.fmean(r["ns"]) / r["ops"]
            trials.setdefault((r["pattern"], r["size_bytes"]), []).append(one)
    return {key: min(ns[:3]) for key, ns in trials.items()}


def interval(values: list[float]) -> tuple[float, float, float]:
    """Median and its 95 % interval by order statistics (minimum and maximum below six values)."""
    ordered = sorted(values)
    n = len(ordered)
    reach = 1.96 * math.sqrt(n) / 2
    low = max(0, math.floor(n / 2 - reach))
    high = min(n - 1, math.ceil(n / 2 + reach))
    return statistics.median(ordered), ordered[low], ordered[high]


def shown(values: list[float], digits: int = 3, unit: str = "") -> str:
    middle, low, high = interval(values)
    return f"{middle:.{digits}f}{unit} [{low:.{digits}f} {high:.{digits}f}]"


Measured = TypeVar("Measured")


def in_turn(
    rounds: int, ours: Callable[[], Measured], peer: Callable[[], Measured]
) -> tuple[list[Measured], list[Measured]]:
    """Pairs; every other one begins with the peer, so that neither side is always the second."""
    mine: list[Measured] = []
    theirs: list[Measured] = []
    for i in range(rounds):
        if i % 2:
            theirs.append(peer())
            mine.append(ours())
        else:
            mine.append(ours())
            theirs.append(peer())
    return mine, theirs


@dataclass(frozen=True)
class Target:
    """What the median of a figure has to be, and when its interval shows that."""

    target: str  # as it is printed; "none": the row is only said
    least: float
    most: float
    equal: float = 1  # the figure of two that do not differ

    @property
    def width(self) -> float:
        """The interval that tells a met target from a missed one."""
        if self.target == "none":
            return math.inf
        if math.isfinite(self.least) and math.isfinite(self.most):
            return self.most - self.least
        return 2 * abs((self.most if math.isfinite(self.most) else self.least) - self.equal)

    def judged(self, middle: float, low: float, high: float) -> tuple[bool, bool]:
        """Of a median and its interval: is the target met, and is it undecided? Met if the median meets it and the
        interval is no wider than the target, or wholly within it; undecided if it is not met, and some of the interval
        meets it.
        """
        narrow = high - low <= self.width or self.least <= low <= high <= self.most
        met = narrow and self.least <= middle <= self.most
        return met, not met and low <= self.most and high >= self.least


NO_LONGER = Target("<= 1.02", -math.inf, 1.02)  # of times
NO_SLOWER = Target(">= 0.98", 0.98, math.inf)  # of rates
ONLY_SAID = Target("none", 0, math.inf)

MORE = 3  # times the rounds, at most, until a target is met or missed


def until_decided(
    rounds: int,
    ours: Callable[[], float],
    peer: Callable[[], float],
    ratio: Callable[[float, float], float],
    target: Target,
) -> tuple[list[float], list[float], list[float]]:
    """Both in turn, and their ratios: as many rounds more, twice at most, as it takes until the target is met or
    missed.
    """
    mine: list[float] = []
    theirs: list[float] = []
    ratios: list[float] = []
    for _ in range(MORE):
        one, other = in_turn(rounds, ours, peer)
        mine += one
        theirs += other
        ratios = [ratio(a, b) for a, b in zip(mine, theirs, strict=True)]
        _, undecided = target.judged(*interval(ratios))
        if not undecided:
            break
    return mine, theirs, ratios


@dataclass(frozen=True)
class Shown:
    """How a row prints times in ns of a message: as such, or as rates, of which the ratio is compared then."""

    digits: int
    unit: str
    of_ns: Callable[[float], float] = float
    rate: bool = False


def beside_a_tool(
    name: str,
    what: str,
    rounds: int,
    ours: Callable[[], float],
    peer: Callable[[], float],
    printed: Shown,
    wanted: bool = True,
) -> Result:
    """netpipe beside a tool that prints one figure at its end. Both measure ns of a message, in turn; not `wanted`:
    they do not do the same, so the row has no target.
    """
    target = ONLY_SAID if not wanted else NO_SLOWER if printed.rate else NO_LONGER

    def ratio(a: float, b: float) -> float:
        return b / a if printed.rate else a / b

    mine, theirs, ratios = until_decided(rounds, ours, peer, ratio, target)
    met, undecided = target.judged(*interval(ratios))
    we, they = (
        shown([printed.of_ns(ns) for ns in side], printed.digits, printed.unit) for side in (mine, theirs)
    )
    figure = f"{shown(ratios)}, {len(ratios)} starts"
    return Result(name, what, we, they, figure, target.target, met, undecided)


def through_the_command(*arguments: str) -> list[dict[str, Any]]:
    """The records of `netpipe run`, which starts the launchers of the MPIs. Its ranks are on the first two processors,
    unless an argument says otherwise.
    """
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "run.jsonl"
        words = ["run", "--quiet", "--launches", "1", "--pin", "0,1", "-o", str(record), *arguments]
        done = subprocess.run(
            [sys.executable, "-m", "netpipe", *words],
            check=False,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{shlex.join(words)} ended with {done.returncode}: {done.stderr.strip()}")
        return [json.loads(line) for line in record.read_text().splitlines()]
