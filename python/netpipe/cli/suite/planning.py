# SPDX-License-Identifier: Apache-2.0
"""What of a suite can be had on this machine, before anything is measured."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from netpipe.cli.suite import settings
from netpipe.cli.suite.parts import APPS, MEMORY, NODES, PAIRS, PROFILE, RUN, RUN_FILES
from netpipe.cli.suite.runs import fleet, kernels, measured
from netpipe.cli.suite.runs.base import Planned, Site, absent, layer_of, spelled
from netpipe.command.options import matching
from netpipe.failure import USAGE, Failure
from netpipe.remembered import remembered

if TYPE_CHECKING:
    from collections.abc import Callable

    from netpipe.cli.suite.parts import Part, Suite


def planned(suite: Suite, site: Site | None = None, build: bool = True) -> dict[str, Planned]:
    """Every run by its name. Without `build` no kernel is compiled. Raises Failure: 2 with the run whose options are
    wrong, the figure or table that chooses what its run does not have, or the setting that the suite does not leave
    open; 3 if there is no worker.
    """
    of_kernels = partial(kernels.planned, build=build)
    kinds: dict[str, Callable[[Part, Site], Planned]] = {
        RUN: measured.planned,
        MEMORY: measured.planned,
        APPS: of_kernels,
        PROFILE: of_kernels,
        NODES: fleet.planned,
        PAIRS: fleet.planned,
    }
    there = site or Site()
    values = settings.given(there.settings, suite.places, suite.name)

    def plan(run: Part) -> Planned:
        given = run.far if run.far and there.several else run.given
        variants = given.get("variants") or ()
        if why := settings.lacking(variants, suite.places, values):
            return measured.Measured(replace(run, given=given), None, {"all variants": why})
        if settings.places(variants):
            given = {**given, "variants": settings.filled(variants, values)}
        return kinds[run.does](replace(run, given=given), there)

    with remembered():
        found = {run.name: plan(run) for run in suite.runs}
    for result in suite.results:
        _check_choice(spelled_out(result, found[result.run]), found[result.run])
    return found


def spelled_out(result: Part, run: Planned) -> Part:
    """With the variants that its run has for `mpi:transport=tcp`."""
    return replace(result, variants=spelled(result.variants, run.pairs))


def _check_choice(result: Part, run: Planned) -> None:
    """A layer that the run does not name, and a pattern that it does not have, are mistakes in the file; a library
    that is not here is none.
    """
    from netpipe.libraries.adding import layers

    if not run.available or result.does not in RUN_FILES:
        return
    named = run.run.given["variants"]
    here = {layer_of(one) for one in (*named, *(variant for variant, _ in run.pairs), *run.left_out)}
    here |= set() if named else set(layers.all_())
    for kind, name, why in (
        *(("variant", *one) for one in absent(result.variants, run.pairs, 0).items()),
        *(("pattern", *one) for one in absent(result.patterns, run.pairs, 1).items()),
    ):
        if kind == "variant" and layer_of(name) in here:
            continue
        raise Failure(
            USAGE, f"{result.where} {kind}: {why.replace('the run has', f'[[run]] {result.run!r} has')}"
        )


def why_not(result: Part, run: Planned) -> str | None:
    """Why a figure or a table cannot be made here, as far as the plan shows it."""
    if not run.available:
        return run.reasons
    if result.does not in RUN_FILES:
        return None
    missing = absent(result.variants, run.pairs, 0)
    kept = tuple(name for name in result.variants if name not in missing)
    if missing and not kept:
        return run.reasons or "; ".join(missing.values())
    kept, patterns = matching(kept, result.patterns, run.pairs)
    reasons = [
        curve.get("reason")
        for curve in run.curves
        if (not kept or curve["variant"] in kept) and (not patterns or curve["pattern"] in patterns)
    ]
    return "; ".join(dict.fromkeys(filter(None, reasons))) if reasons and all(reasons) else None
