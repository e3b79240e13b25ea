# SPDX-License-Identifier: Apache-2.0
"""Runs read to be held against the first of them: what `netpipe compare` and `netpipe check` have in common."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from netpipe.command.options import matching
from netpipe.failure import USAGE, Failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netpipe.reading.across.compared import Compared
    from netpipe.records import Run


def compared(paths: tuple[Path, ...], variants: tuple[str, ...], patterns: tuple[str, ...]) -> Compared:
    """Raises NotARun, OSError, or Failure (2) where there is nothing to compare."""
    from netpipe.records import Run

    return compared_runs([Run.read(path, samples=False) for path in paths], variants, patterns)


def compared_runs(runs: Sequence[Run], variants: tuple[str, ...], patterns: tuple[str, ...]) -> Compared:
    """The same of runs that were read or measured already."""
    from netpipe.reading import Reading
    from netpipe.reading.across import merge
    from netpipe.reading.across.compared import Compared
    from netpipe.reading.across.differences import differences, paces

    for run in runs:
        if not run.points:
            raise Failure(USAGE, f"{run.path or 'a run'} has no points, so there is nothing to compare")
    labels = merge.labels(runs)
    reading = Reading(merge.merged(runs))
    there = [(merge.name_of(variant), pattern) for variant, pattern in reading.by_name]
    chosen = matching(variants, patterns, there)
    found = reading.between_of(*chosen)
    if not found:
        raise Failure(
            USAGE, nothing_common([sorted({point.variant for point in run.points}) for run in runs])
        )
    others = tuple(
        (label, differences(runs[0], run), paces(runs[0], run))
        for label, run in zip(labels[1:], runs[1:], strict=True)
    )
    first, *rest = map(_curves, runs)
    missing = tuple(tuple(name for name in first if name not in curves) for curves in rest)
    if any(one.label not in labels or one.against not in labels for one in found):
        missing = tuple(() for _ in missing)  # one curve each, compared whatever their names are
    return Compared(labels[0], others, found, missing)


def _curves(run: Run) -> dict[str, None]:
    return dict.fromkeys(f"{point.variant} {point.pattern}" for point in run.points)


def nothing_common(variants: list[list[str]]) -> str:
    first, *rest = (", ".join(names[:6]) + (" …" if len(names) > 6 else "") for names in variants)
    return (
        "the runs have no size of one variant and pattern in common, so there is nothing to compare: the first has "
        f"{first}; the others {'; '.join(rest)}"
    )
