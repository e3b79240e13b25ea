# SPDX-License-Identifier: Apache-2.0
"""Runs read to be held against the first of them, or variants of one run: what `netpipe compare` and `netpipe check`
have in common.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from netpipe.command.options import matching
from netpipe.failure import USAGE, Failure

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from netpipe.reading.across.compared import Compared
    from netpipe.records import Run

MOST = 6  # curves that an error lists of each run


def compared_runs(
    runs: Sequence[Run], variants: tuple[str, ...], patterns: tuple[str, ...], conventions: bool = True
) -> Compared:
    """Of one run its variants against the first that is named. Raises Failure (2) where there is nothing to compare.
    `conventions`: may patterns that are compared differ in these?
    """
    from netpipe.reading import Reading
    from netpipe.reading.across import merge
    from netpipe.reading.across.compared import Compared
    from netpipe.reading.across.differences import differences, paces

    for run in runs:
        if not run.points:
            raise Failure(USAGE, f"{run.path or 'a run'} has no points, so there is nothing to compare")
    if len(runs) == 1:
        return _compared_variants(runs[0], variants, patterns)
    labels = merge.labels(runs)
    reading = Reading(merge.merged(runs))
    there = [(merge.name_of(variant), pattern) for variant, pattern in reading.by_name]
    chosen = matching(variants, patterns, there)
    found = reading.between_of(*chosen, conventions)
    if not found:
        raise Failure(USAGE, nothing_common(list(map(_curves, runs))))
    others = tuple(
        (label, differences(runs[0], run), paces(runs[0], run))
        for label, run in zip(labels[1:], runs[1:], strict=True)
    )
    first, *rest = map(_curves, runs)
    missing = tuple(
        tuple(name for name, sizes in first.items() if sizes.isdisjoint(curves.get(name, ())))
        for curves in rest
    )
    if any(one.variants_differ for one in found):
        missing = tuple(() for _ in missing)  # one curve each, compared whatever their names are
    seen = {one.variant for one in found} | {merge.name_of(one.label) for one in found}
    return Compared(labels[0], others, found, missing, tuple(_sources(runs, labels, seen)))


def worse_of_measures() -> dict[str, str | None]:
    """Which is worse of each measure, "more" or "less", as the tables of patterns and modules say; None: neither."""
    from netpipe import native

    listing = native.list_()
    return {
        one["name"]: one["worse"]
        for kind in ("patterns", "modules")
        for of in listing[kind]
        for one in of.get("measures", ())
    }


def _compared_variants(run: Run, variants: tuple[str, ...], patterns: tuple[str, ...]) -> Compared:
    from netpipe.reading import Reading
    from netpipe.reading.across.compared import Compared

    reading = Reading(run)
    names, chosen = matching(variants, patterns, reading.by_name)
    if len(names) < 2:
        raise Failure(
            USAGE,
            "name a second run; or, to compare variants of one run with the first of them, at least two: "
            "--variant tcp --variant unix",
        )
    found = reading.within_of(names, chosen)
    if not found:
        raise Failure(
            USAGE,
            f"the run did not measure {names[0]} by turns with {' or '.join(names[1:])} under one pattern, so nothing "
            "pairs them",
        )
    return Compared(names[0], (), found, ())


def _sources(runs: Sequence[Run], labels: Sequence[str], variants: Collection[str]) -> Iterator[str]:
    """What the numbers of imported curves are, as `netpipe import` recorded it."""
    for run, label in zip(runs, labels, strict=True):
        for opened in run.variants:
            source = opened.ranks[0].settings.get("source") if opened.ranks else None
            if source and opened.variant in variants:
                yield f"{opened.variant} in {label} is imported; {source}"


def _curves(run: Run) -> dict[str, set[int]]:
    """Each curve with its sizes."""
    found: dict[str, set[int]] = {}
    for point in run.points:
        found.setdefault(f"{point.variant} {point.pattern}", set()).add(point.size_bytes)
    return found


def nothing_common(curves: Sequence[Collection[str]]) -> str:
    first, *rest = (", ".join(sorted(of)[:MOST]) + (" …" if len(of) > MOST else "") for of in curves)
    return (
        "the runs have no size of one variant and pattern in common, so there is nothing to compare: the first has "
        f"{first}; the others have {'; '.join(rest)}"
    )
