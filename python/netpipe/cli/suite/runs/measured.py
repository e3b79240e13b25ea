# SPDX-License-Identifier: Apache-2.0
"""Runs of a suite that leave a run file: those of `netpipe run` and `netpipe memory`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netpipe.cli.suite.parts import MEMORY
from netpipe.cli.suite.runs.base import Done, Pairs, Planned, fault, layer_of
from netpipe.command import measuring
from netpipe.failure import DONE, UNAVAILABLE, USAGE, Failure, NotHere
from netpipe.streams import say

if TYPE_CHECKING:
    from rich.console import Console

    from netpipe.cli.suite.parts import Part
    from netpipe.cli.suite.runs.base import Site
    from netpipe.session import Result, Session


def session_of(run: Part, given: Mapping[str, Any]) -> Session:
    """Raises Failure."""
    if run.does != MEMORY:
        from netpipe.cli.run import planned as planned_run

        return planned_run(given)
    from netpipe.cli.memory import planned as planned_memory

    return planned_memory(given)


class Measured(Planned):
    """Without a session nothing of it is available here."""

    def __init__(self, run: Part, session: Session | None, left_out: Mapping[str, str]) -> None:
        super().__init__(run)
        self.session = session
        self.left_out = dict(left_out)

    @property
    def available(self) -> bool:
        return self.session is not None

    @property
    def pairs(self) -> Pairs:
        if self.session is None:
            return []
        return [(name, pattern) for name in self.session.variants for pattern in self.session.plan.patterns]

    @property
    def curves(self) -> list[Mapping[str, Any]]:
        return self.session.answer.get("curves", []) if self.session else []

    @property
    def longest_s(self) -> float | None:
        own = super().longest_s
        return own if own is not None or self.session is None else self.session.longest_s

    @property
    def bounded(self) -> bool:
        return self.run.minutes is None

    @property
    def starts(self) -> int:
        if self.session is None:
            return 0
        counts = max(1, len(self.session.request.process_counts))
        return self.session.request.launches * len(self.session.variants) * counts

    @property
    def file(self) -> str:
        return f"{self.run.name}.jsonl"

    def possible(self) -> Measured:
        try:
            if self.session is not None:
                self.session.check_libraries()
        except Failure as failure:
            return Measured(self.run, None, {**self.left_out, "all variants": failure.sentence})
        return self

    def print_plan(self, out: Console) -> None:
        from netpipe.render.terminal.plan import print_plan

        if self.session is not None:
            for note in self.session.notes:
                say(note)
            print_plan(out, self.session.plan, self.session.answer, self.session.request.launches)

    def measure(self, folder: Path, quiet: bool) -> Done:
        assert self.session is not None
        given = {"output": str(folder / self.file), "quiet": quiet, "as_json": False}
        try:
            if self.run.does == MEMORY:
                from netpipe.cli.memory import Starts

                request = self.session.request
                shown: Any = Starts(len(request.process_counts) * request.launches, quiet)
            else:
                shown = measuring.display(given, self.session)
            result = measuring.measure(self.session, given, shown)
        except Failure as failure:
            return Done(failure.exit_code, failure.sentence)
        nothing = not result.run.points and bool(result.run.errors or result.run.skipped)
        if result.path is None or nothing:
            return Done(result.exit_code, _why_nothing(result))
        done = _read(result.path)
        done.code = result.exit_code
        if not quiet:
            self._summary(done)
        return done

    def _summary(self, done: Done) -> None:
        from netpipe.render.terminal.summary import console, print_summary

        assert done.reading is not None
        out = console()
        out.print()
        out.print(f"run {self.run.name}", style="bold", markup=False)
        print_summary(out, done.reading)

    def found(self, folder: Path) -> Done | None:
        from netpipe.records import NotARun

        try:
            done = _read(folder / self.file)
        except (NotARun, OSError):
            return None
        assert done.reading is not None
        end = done.reading.run.end
        return done if end is not None and end.exit == DONE else None


def _read(path: Path) -> Done:
    """Raises NotARun or OSError."""
    from netpipe.reading import Reading
    from netpipe.records import Run

    run = Run.read(path, samples=False)
    errors: dict[str, str] = {}  # one for those of all launches that differ in numbers alone
    for error in run.errors:
        text = f"{error.variant or 'all variants'}: {error.message}"
        errors.setdefault(re.sub(r"\d+", "0", text), text)
    return Done(errors=tuple(errors.values()), files=(path.name,), reading=Reading(run))


def _why_nothing(result: Result) -> str:
    said = [one.message for one in result.run.errors] or [one.reason for one in result.run.skipped]
    return "; ".join(dict.fromkeys(said)) or "nothing was measured"


# ---------------------------------------------------------------------------------------------------------- planning


def planned(run: Part, site: Site) -> Measured:
    """Raises Failure: 2 with the run whose options are wrong, 3 if there is no worker."""
    from netpipe.launch.lists import expand

    given = {**run.given, **site.given()}
    try:
        return Measured(run, session_of(run, given), {})
    except Failure as failure:
        whole = failure
    if whole.exit_code not in (USAGE, UNAVAILABLE):
        raise whole
    variants = expand(run.given["variants"])
    left_out = {variant: why for variant in variants if (why := _why_unavailable(run, variant, given))}
    if not left_out and whole.exit_code == UNAVAILABLE:
        return Measured(run, None, {"all variants": whole.sentence})
    if not left_out:
        raise fault(run, whole)
    rest = tuple(variant for variant in variants if variant not in left_out)
    if not rest:
        return Measured(run, None, left_out)
    try:
        return Measured(run, session_of(run, {**given, "variants": rest}), left_out)
    except Failure as failure:
        raise fault(run, failure) from None


def _why_unavailable(run: Part, variant: str, given: Mapping[str, Any]) -> str | None:
    """Why this variant cannot be measured here; None if it can, or if the file is wrong about it."""
    from netpipe import native
    from netpipe.launch.variants import name_of
    from netpipe.libraries.adding import layers

    try:
        session_of(run, {**given, "variants": (variant,)})
    except Failure as failure:
        if failure.exit_code == UNAVAILABLE:
            return failure.sentence
        if given != run.given and _is_right_here(run, variant):
            return failure.sentence  # it is right on one host: a layer that does not reach others
        if isinstance(failure, NotHere):
            return failure.sentence
    name = name_of(variant)
    layer = layers.all_().get(layer_of(variant)) if layers.SEPARATOR in name else None
    if layer is None or name in {module["name"] for module in native.list_()["modules"]}:
        return None
    return f"{name} was not added; add it with '{layer.add_command()}'"


def _is_right_here(run: Part, variant: str) -> bool:
    try:
        session_of(run, {**run.given, "variants": (variant,)})
    except Failure:
        return False
    return True
