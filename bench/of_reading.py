# SPDX-License-Identifier: Apache-2.0
"""What it costs to look at a large run: processor time and memory of the commands that only read. No peer has such a
file, so the target is a number.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from measured import ROOT, Result, shown

sys.path.insert(0, str(ROOT / "tests" / "python"))
import large  # type: ignore[import-not-found]

MOST_S, MOST_BYTES = 5.0, 1 << 30
SHAPES: dict[str, dict[str, int]] = {
    "200,000 points of 1600 curves": {"curves": 1600, "sizes": 125},
    "200,000 points of 16 curves": {"curves": 16, "sizes": 12_500},
    "200,000 points of 100 launches": {"curves": 16, "sizes": 125, "launches": 100},
    "200,000 points with 10 visits each": {"curves": 1600, "sizes": 125, "visits": 10},
    "200,000 points with distributions": {"curves": 1600, "sizes": 125, "buckets": 50},
    "10,000 points with 10^6 samples": {"curves": 80, "sizes": 125, "samples": 10**6},
}
COMMANDS = (
    ("show",),
    ("show", "--points"),
    ("show", "--json"),
    ("report", "-o", "x.html"),
    ("plot", "-o", "x.svg"),
    ("export", "-o", "x.csv"),
    ("export", "-o", "x.json"),
)
GATED = ("show", "report")


def used(folder: str, *words: str) -> tuple[float, int]:
    """Seconds of processor time and the largest resident memory in bytes."""
    with Path(os.devnull).open("wb") as nothing:
        child = subprocess.Popen(
            [sys.executable, "-m", "netpipe", *words], cwd=folder, stdout=nothing, stderr=nothing
        )
        _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"netpipe {' '.join(words)} ended with {child.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def reading(rounds: int) -> list[Result]:
    """Each command on each shape, and once on a half and a quarter of it: the cost grows with the points. One start is
    much like another, so a few rounds are enough.
    """
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for name, shape in SHAPES.items():
            grows = "samples" if "samples" in shape else max(shape, key=shape.__getitem__)
            for part in (4, 2, 1):
                large.write(Path(folder) / "run.jsonl", **{**shape, grows: shape[grows] // part})
                for command in COMMANDS:
                    several = [
                        used(folder, *command[:1], "run.jsonl", *command[1:])
                        for _ in range(min(rounds, 3) if part == 1 else 1)
                    ]
                    seconds, most = [one[0] for one in several], max(one[1] for one in several)
                    what = f"netpipe {' '.join(command)}, {name}" + (f", 1/{part} of it" if part > 1 else "")
                    target = "<= 5 s and 1 GiB" if command[0] in GATED and part == 1 else "none"
                    met = max(seconds) <= MOST_S and most <= MOST_BYTES
                    time = shown(seconds, 2, " s")
                    results.append(Result("reading", what, time, "", f"{most / 2**30:.2f} GiB", target, met))
    return results


COMPARISONS = {"reading": reading}
