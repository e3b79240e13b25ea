# SPDX-License-Identifier: Apache-2.0
"""What it costs to look at a large run: processor time and memory of the commands that only read. No peer has such a
file, so the target is a number; and beside each command Python's own json reads every line and forgets it, which says
how fast the machine is at that moment.
"""

from __future__ import annotations

import os
import statistics
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
    "200,000 points as a run writes them": {
        "curves": 400,
        "sizes": 125,
        "launches": 4,
        "visits": 10,
        "buckets": 20,
    },
    "10,000 points with 10^6 samples": {"curves": 80, "sizes": 125, "samples": 10**6},
    # As netpipe run writes them: 91 % samples (one for each visit), 8 % points, 1 % yardsticks.
    "10^6 records in the proportion of a run": {
        "curves": 166,
        "sizes": 125,
        "launches": 4,
        "visits": 11,
        "buckets": 20,
        "samples": 909_000,
    },
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
READ_BY_JSON = "import json\nfor line in open('run.jsonl', 'rb'): json.loads(line)"


def used(folder: str, *words: str) -> tuple[float, int]:
    """Seconds of processor time and the largest resident memory in bytes, of Python with these arguments."""
    with Path(os.devnull).open("wb") as nothing:
        child = subprocess.Popen([sys.executable, *words], cwd=folder, stdout=nothing, stderr=nothing)
        _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"python {' '.join(words)} ended with {child.returncode}")
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
                    words = ("-m", "netpipe", command[0], "run.jsonl", *command[1:])
                    turns = min(rounds, 3) if part == 1 else 1
                    several = [(used(folder, *words), used(folder, "-c", READ_BY_JSON)) for _ in range(turns)]
                    seconds, by_json = [one[0][0] for one in several], [one[1][0] for one in several]
                    most = max(one[0][1] for one in several)
                    ratio = statistics.median(a / b for a, b in zip(seconds, by_json, strict=True))
                    what = f"netpipe {' '.join(command)}, {name}" + (f", 1/{part} of it" if part > 1 else "")
                    results.append(
                        Result(
                            "reading",
                            what,
                            shown(seconds, 2, " s"),
                            shown(by_json, 2, " s"),
                            f"{ratio:.2f}, {most / 2**30:.2f} GiB",
                            "<= 5 s and 1 GiB" if command[0] in GATED and part == 1 else "none",
                            max(seconds) <= MOST_S and most <= MOST_BYTES,
                        )
                    )
    return results


COMPARISONS = {"reading": reading}
