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


MORE = 3  # times the rounds, at most, until an interval lies on one side of its target


def until_decided(
    rounds: int,
    ours: Callable[[], float],
    peer: Callable[[], float],
    ratio: Callable[[float, float], float],
    meets: Callable[[float], bool],
) -> tuple[list[float], list[float], list[float]]:
    """Both in turn, and their ratios: as many rounds more, twice at most, as it takes until both ends of the interval
    of the ratio meet the target, or neither does.
    """
    mine: list[float] = []
    theirs: list[float] = []
    ratios: list[float] = []
    for _ in range(MORE):
        one, other = in_turn(rounds, ours, peer)
        mine += one
        theirs += other
        ratios = [ratio(a, b) for a, b in zip(mine, theirs, strict=True)]
        _, low, high = interval(ratios)
        if meets(low) == meets(high):
            break
    return mine, theirs, ratios


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
