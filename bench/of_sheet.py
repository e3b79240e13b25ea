# SPDX-License-Identifier: Apache-2.0
"""How long the whole sheet of a host takes: every module that is available here at the powers of two."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from measured import LIMIT_S, MissingError, Result, shown

from netpipe.libraries.adding import layers
from netpipe.native import list_
from netpipe.records import Run

SHEET = ("run", "all", "--schedule", "powers")
MOST_S = 240


def sheet(rounds: int) -> list[Result]:
    """The command as a user types it, with everything that it does. A variant that failed is named."""
    seconds, failed, variants = [], set(), set()
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "run.jsonl"
        for _ in range(max(1, min(rounds, 3))):
            begin = time.monotonic()
            done = subprocess.run(
                [sys.executable, "-m", "netpipe", *SHEET, "--quiet", "--output", str(record)],
                capture_output=True,
                text=True,
                check=False,
                timeout=2 * LIMIT_S,
            )
            seconds.append(time.monotonic() - begin)
            if done.returncode not in (0, 4):
                raise RuntimeError(f"{' '.join(SHEET)} ended with {done.returncode}: {done.stderr[-300:]}")
            run = Run.read(record, samples=False)
            variants |= {point.variant for point in run.points}
            failed |= {error.variant or "?" for error in run.errors}
    modules = {name.partition(":")[0] for name in variants}
    if not modules:
        raise MissingError("no module is available here")
    whole = f"{len(variants)} variants of {len(modules)} modules and libraries"
    if lacking := not_there(list_()):
        whole += f" (not there: {', '.join(lacking)})"
    return [
        Result(
            "sheet",
            f"netpipe {' '.join(SHEET)}: {whole}{', failed: ' + ', '.join(sorted(failed)) if failed else ''}",
            shown(seconds, 0, " s"),
            "",
            "",
            f"<= {MOST_S} s, none failed",
            max(seconds) <= MOST_S and not failed,
        )
    ]


def not_there(listing: dict[str, Any]) -> list[str]:
    """Layers that are not in the sheet of this host: what cannot run here, and those of which no library was added."""
    unable = [one["name"] for one in listing["modules"] if one["reason"] is not None]
    return sorted(unable + [one.name for one in layers.without_library(listing)])


COMPARISONS = {"sheet": sheet}
