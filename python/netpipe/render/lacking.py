# SPDX-License-Identifier: Apache-2.0
"""The command that measures the curves which a prediction lacks."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from netpipe.prediction.unknown import hosts_of
from netpipe.reading.across.merge import name_of

if TYPE_CHECKING:
    from netpipe.prediction.predict import Predicted
    from netpipe.records import Run


def measure_command(
    found: Predicted, profiles: Sequence[Path], run: Run, own: str | None, ranks: int
) -> str | None:
    """Ready to be pasted: over all variants, so that they can be compared. None where no curve is lacking that it would
    get: `--measure` measures collectives of all `ranks` of the program, on one host.
    """
    lacking = any(
        one.guessed or one.beyond or any(there == ranks for _, there in one.missing) for one in found.variants
    )
    if not lacking or any(len(hosts_of(run, one.variant)) > 1 for one in found.variants):
        return None
    words = ["netpipe", "predict", *map(str, profiles)]
    if own is not None:
        words += ["--own", name_of(own)]
    for name in dict.fromkeys(name_of(one.variant) for one in found.variants):
        words += ["--measure", name]
    return shlex.join(words)
