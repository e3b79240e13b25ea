# SPDX-License-Identifier: Apache-2.0
"""The commands that measure the curves which a prediction lacks."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from netpipe.prediction.costs import FEWEST, OPERATIONS
from netpipe.prediction.lacking import between, fewer, with_ranks
from netpipe.prediction.runs import BETWEEN
from netpipe.prediction.unknown import near_and_far_curves
from netpipe.reading.across.merge import name_of

if TYPE_CHECKING:
    from netpipe.prediction.predict import Predicted
    from netpipe.profiles import Profile
    from netpipe.records import Run

OUTPUT = "predict.jsonl"  # where netpipe predict --measure writes unless told otherwise
FAR_OUTPUT = "far.jsonl"
SHARED_MEMORY = "transport=shm"  # of a variant that ends at the host


def measure_command(
    found: Predicted, files: Sequence[Path], run: Run, own: str | None, events: int | None = None
) -> str | None:
    """Ready to be pasted: over all variants, so that they can be compared. `files` are the profiles and runs that were
    given: `--measure` gets what these lack. `events`: how many were asked for. None where they lack nothing, or only
    curves between hosts, as it measures on one.
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
    if events is not None:
        words += ["--events", str(events)]
    for name in dict.fromkeys(name_of(one.variant) for one in found.variants):
        words += ["--measure", name]
    if Path(OUTPUT) in files:
        words += ["--output", f"more-{OUTPUT}"]
    return shlex.join(words)


def between_command(found: Predicted, profile: Profile, run: Run, files: Sequence[Path]) -> str | None:
    """Ready to be pasted: all curves between hosts that the program needs, over each variant that lacks some of them.
    None where nothing is lacking that can be measured. `profile` is the first one.
    """
    lacks = between(found, profile, run)
    names = dict.fromkeys(map(name_of, lacks.variants)) if lacks else ()
    variants = [one for one in names if SHARED_MEMORY not in one]
    if lacks is None or not variants:
        return None
    on = sorted({ranks for _, ranks in lacks.needs})
    words = ["netpipe", "run"]
    if on == [FEWEST]:
        words += [*variants, "--hosts", ",".join(host for host, _ in lacks.hosts)]
    else:
        words += [with_ranks(variant, ranks) for variant in variants for ranks in on]
        words += ["--hosts", ",".join(f"{host}:{count}" for host, count in lacks.hosts)]
    for pattern in dict.fromkeys(pattern for pattern, _ in lacks.needs):
        words += ["--pattern", pattern]
    sizes = fewer(sorted({size for some in lacks.needs.values() for size in some}))
    output = FAR_OUTPUT if Path(FAR_OUTPUT) not in files else f"more-{FAR_OUTPUT}"
    return shlex.join([*words, "--sizes", ",".join(map(str, sorted(sizes))), "--output", output])
