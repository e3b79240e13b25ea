# SPDX-License-Identifier: Apache-2.0
"""What of a suite can be had on this machine, before anything is measured."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from netpipe.command.options import matching
from netpipe.failure import UNAVAILABLE, USAGE, Failure

if TYPE_CHECKING:
    from netpipe.cli.suite.files import Part, Suite
    from netpipe.session import Session

Pairs = list[tuple[str, str]]  # of variant and pattern


@dataclass(slots=True)
class Planned:
    """A run of the suite. Without a session nothing of it is available here."""

    run: Part
    session: Session | None = None
    left_out: dict[str, str] = field(default_factory=dict)  # variants, each with its reason

    @property
    def pairs(self) -> Pairs:
        """What it will measure, the skipped among them."""
        if self.session is None:
            return []
        return [(name, pattern) for name in self.session.variants for pattern in self.session.plan.patterns]

    @property
    def reasons(self) -> str:
        """Why variants are left out."""
        return "; ".join(dict.fromkeys(self.left_out.values()))


def planned(suite: Suite) -> dict[str, Planned]:
    """Every run by its name. Raises Failure: 2 with the run whose options are wrong, or the figure or table that
    chooses what its run does not have; 3 if there is no worker.
    """
    found = {run.name: _planned(run) for run in suite.runs}
    for result in suite.results:
        _check_choice(result, found[result.run])
    return found


def _planned(run: Part) -> Planned:
    from netpipe.cli.run import planned as session_of
    from netpipe.launch.lists import expand

    try:
        return Planned(run, session_of(run.given))
    except Failure as failure:
        whole = failure
    if whole.exit_code not in (USAGE, UNAVAILABLE):
        raise whole
    variants = expand(run.given["variants"])
    left_out = {variant: why for variant in variants if (why := _why_unavailable(run, variant))}
    if not left_out and whole.exit_code == UNAVAILABLE:
        return Planned(run, None, {"all variants": whole.sentence})
    if not left_out:
        raise _fault(run, whole)
    rest = tuple(variant for variant in variants if variant not in left_out)
    if not rest:
        return Planned(run, None, left_out)
    try:
        return Planned(run, session_of({**run.given, "variants": rest}), left_out)
    except Failure as failure:
        raise _fault(run, failure) from None


def _fault(run: Part, failure: Failure) -> Failure:
    return Failure(failure.exit_code, f"{run.where}: {failure.sentence}")


def _why_unavailable(run: Part, variant: str) -> str | None:
    """Why this variant cannot be measured here; None if it can, or if the file is wrong about it."""
    from netpipe import native
    from netpipe.cli.run import planned as session_of
    from netpipe.launch.variants import name_of
    from netpipe.libraries.adding import layers

    try:
        session_of({**run.given, "variants": (variant,)})
    except Failure as failure:
        if failure.exit_code == UNAVAILABLE:
            return failure.sentence
    name = name_of(variant)
    layer = layers.all_().get(layer_of(variant)) if layers.SEPARATOR in name else None
    if layer is None or name in {module["name"] for module in native.list_()["modules"]}:
        return None
    return f"{name} was not added; add it with '{layer.add_command()}'"


def layer_of(variant: str) -> str:
    """mpi, of mpi@openmpi:transport=tcp"""
    return re.split("[:@]", variant, maxsplit=1)[0]


def absent(asked: Iterable[str], pairs: Pairs, which: int) -> dict[str, str]:
    """Of these variants (which = 0) or patterns (1) those that are not among the pairs, with the sentence about it."""
    found = {}
    for name in asked:
        try:
            matching((name,) if which == 0 else (), (name,) if which == 1 else (), pairs)
        except Failure as failure:
            found[name] = failure.sentence
    return found


def _check_choice(result: Part, run: Planned) -> None:
    """A layer that the run does not name, and a pattern that it does not have, are mistakes in the file; a library
    that is not here is none.
    """
    from netpipe.libraries.adding import layers

    if run.session is None:
        return
    named = run.run.given["variants"]
    here = {layer_of(one) for one in (*named, *run.session.variants, *run.left_out)}
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
    if run.session is None:
        return run.reasons
    missing = absent(result.variants, run.pairs, 0)
    kept = tuple(name for name in result.variants if name not in missing)
    if missing and not kept:
        return run.reasons or "; ".join(missing.values())
    kept, patterns = matching(kept, result.patterns, run.pairs)
    reasons = [
        curve.get("reason")
        for curve in run.session.answer.get("curves", [])
        if (not kept or curve["variant"] in kept) and (not patterns or curve["pattern"] in patterns)
    ]
    return "; ".join(dict.fromkeys(filter(None, reasons))) if reasons and all(reasons) else None
