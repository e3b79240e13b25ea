# SPDX-License-Identifier: Apache-2.0
"""The command that measures the curves which a prediction lacks."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from netpipe.prediction.costs import OPERATIONS
from netpipe.prediction.runs import BETWEEN
from netpipe.prediction.unknown import near_and_far_curves
from netpipe.reading.across.merge import name_of

if TYPE_CHECKING:
    from netpipe.prediction.predict import Predicted
    from netpipe.records import Run

OUTPUT = "predict.jsonl"  # where netpipe predict --measure writes unless told otherwise


def measure_command(found: Predicted, files: Sequence[Path], run: Run, own: str | None) -> str | None:
    """Ready to be pasted: over all variants, so that they can be compared. `files` are the profiles and runs that were
    given: `--measure` gets what these lack. None where they lack nothing, or only curves between hosts, as it measures
    on one.
    """
    lacking = any(
        one.beyond
        or not all(pattern.endswith(BETWEEN) for pattern in one.guessed)
        or any(name in OPERATIONS for name, _ in one.missing)
        for one in found.variants
    )
    if not lacking or any(near_and_far_curves(run, one.variant) == (False, True) for one in found.variants):
        return None
    words = ["netpipe", "predict", *map(str, files)]
    if own is not None:
        words += ["--own", name_of(own)]
    for name in dict.fromkeys(name_of(one.variant) for one in found.variants):
        words += ["--measure", name]
    if Path(OUTPUT) in files:
        words += ["--output", f"more-{OUTPUT}"]
    return shlex.join(words)
