# SPDX-License-Identifier: Apache-2.0
"""Does a run that is continued reach what the first one offered? A short run, then the command that its last line
prints, as a user would paste it: how wide its intervals are then, and how long it took. Its peer is its own promise.

    python bench/compare.py continuing [--rounds N]     some seconds a round
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from measured import Result, shown

from netpipe.reading import Reading
from netpipe.records import Run

LAYERS = ("pipe", "tcp:wait=poll")
FIRST = ("--schedule", "list", "--sizes", "8,1k,64k,1M", "--budget", "0.5")
OFFER = re.compile(r", ±(\S+) % takes about .* more: netpipe (run --continue .*)$", re.MULTILINE)
LIMIT_S = 1200
MOST_WIDE = 1.25  # times as wide as offered: the spread between four launches is known no better
MOST_LONG = 1.25  # times as long


@dataclass(frozen=True)
class Kept:
    """An offer, and what came of it."""

    offered: float  # half of the intervals are narrower than this, relative
    reached: float
    first_s: float  # a launch of the first run
    later_s: float  # a launch that was added


def netpipe(*words: str) -> str:
    """What it prints. Raises RuntimeError where it fails."""
    command = [sys.executable, "-m", "netpipe", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    if done.returncode:
        raise RuntimeError(f"netpipe {' '.join(words)} ended with {done.returncode}: {done.stderr[-300:]}")
    return done.stdout


def typical(path: Path) -> float:
    return float(median(Reading(Run.read(path, samples=False)).half_widths.tolist()))


def seconds(path: Path) -> list[float]:
    """Of each launch."""
    return [launch.seconds or 0.0 for launch in Run.read(path, samples=False).launches]


def kept(path: Path) -> Kept | None:
    """None: the first run was precise enough, or so wide that nothing was offered."""
    said = netpipe("run", "-o", str(path), *FIRST, *LAYERS)
    offer = OFFER.search(said)
    if offer is None:
        return None
    before = seconds(path)
    netpipe(*shlex.split(offer[2]), "-q")
    after = seconds(path)[len(before) :]
    return Kept(float(offer[1]) / 100, typical(path), median(before), median(after))


def continuing(rounds: int) -> list[Result]:
    """The command that a run prints, and what it came to."""
    with tempfile.TemporaryDirectory() as folder:
        tried = [kept(Path(folder) / f"{number}.jsonl") for number in range(max(1, rounds))]
    found = [one for one in tried if one is not None]
    if not found:
        return [Result("continuing", "runs that offered to go on", "none", "", "", "one at least", False)]
    wide = [one.reached / one.offered for one in found]
    long = [one.later_s / one.first_s for one in found]
    return [
        Result(
            "continuing",
            f"typical interval of {len(found)} runs that went on as they had offered",
            shown([100 * one.reached for one in found], 2, " %"),
            shown([100 * one.offered for one in found], 2, " %") + " offered",
            shown(wide),
            f"<= {MOST_WIDE}",
            median(wide) <= MOST_WIDE,
        ),
        Result(
            "continuing",
            "seconds of a launch that was added",
            shown([one.later_s for one in found], 2, " s"),
            shown([one.first_s for one in found], 2, " s") + " in the first run",
            shown(long),
            f"<= {MOST_LONG}",
            median(long) <= MOST_LONG,
        ),
    ]


COMPARISONS = {"continuing": continuing}
