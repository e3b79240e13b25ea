# SPDX-License-Identifier: Apache-2.0
"""A suite measured: a record for each run, the figures and tables, one report."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from netpipe.cli.suite import results, state
from netpipe.cli.suite.parts import RUN_FILES
from netpipe.cli.suite.planning import planned, spelled_out, why_not
from netpipe.cli.suite.runs.base import Site
from netpipe.failure import DONE, FAILED, GATE, INTERRUPTED, UNAVAILABLE
from netpipe.streams import say

if TYPE_CHECKING:
    from netpipe.cli.suite.parts import Suite
    from netpipe.cli.suite.published import Beside
    from netpipe.cli.suite.results import Made
    from netpipe.cli.suite.runs.base import Done, Planned

MADE, NOT_MADE, PARTLY = ("✓", "green"), ("✗", "bold red"), ("!", "yellow")


@dataclass(slots=True)
class Outcome:
    """What came of the suite."""

    done: dict[str, Done] = field(default_factory=dict)  # by the name of the run
    made: list[Made] = field(default_factory=list)
    beside: list[Beside] = field(default_factory=list)

    @property
    def something(self) -> bool:
        return any(not one.problem for one in self.done.values())

    @property
    def exit_code(self) -> int:
        """What is not available here only counts if it leaves nothing at all."""
        from netpipe.native import worst

        codes = [one.code for one in self.done.values() if one.code != UNAVAILABLE]
        found = worst(codes)
        if found == DONE and not self.something:
            return UNAVAILABLE
        gates = [one.code for one in self.made if one.code != DONE]
        gates += [GATE for one in self.done.values() if one.fleet is not None and one.fleet.slow]
        return found if found != DONE else max(gates, default=DONE)


def dry_run(suite: Suite, site: Site) -> int:
    from netpipe.cli.suite.listing import print_estimate
    from netpipe.render.terminal.rows import console, print_paragraph

    runs = {name: one.possible() for name, one in planned(suite, site).items()}
    out = console()
    for name, one in runs.items():
        out.print(f"run {name}", style="bold", markup=False)
        say_left_out(one)
        if one.available:
            one.print_plan(out)
        out.print()
    for part in suite.results:
        result = spelled_out(part, runs[part.run])
        why = why_not(result, runs[result.run])
        mark = MADE if why is None else NOT_MADE
        file = f" ({result.file})" if result.file else ""
        words = f"{result.name}{file}, from the run {result.run}" + (f": {why}" if why else "")
        print_paragraph(out, *mark, words)
    print_estimate(out, list(runs.values()))
    return DONE if any(one.available for one in runs.values()) else UNAVAILABLE


def run(suite: Suite, folder: Path, quiet: bool, site: Site, goes_on: bool) -> int:
    now = state.here(suite, site.recorded())
    if goes_on:
        state.check(folder, now)
    runs = planned(suite, site)
    if not quiet:
        for one in runs.values():
            say_left_out(one)
    folder.mkdir(parents=True, exist_ok=True)
    state.write(folder, now)
    outcome = Outcome()
    for number, (name, one) in enumerate(runs.items(), start=1):
        if not one.available:
            continue
        one.goes_on = goes_on
        there = one.found(folder) if goes_on else None
        if there is not None:
            if not quiet:
                say(f"run {name} is complete in {folder}")
            outcome.done[name] = there
            continue
        if not quiet and len(runs) > 1:
            say(f"run {name}, {number} of {len(runs)}")
        outcome.done[name] = came = one.measure(folder, quiet)
        if one.run.optional and came.code == FAILED:
            came.code = UNAVAILABLE
        if came.problem:
            say(f"run {name}: {came.problem}")
        if came.code == INTERRUPTED:
            say(
                "no figure, table or report was written; 'netpipe suite run' with --continue goes on from here, and "
                "netpipe plot and netpipe report take the records"
            )
            return INTERRUPTED
    write_results(suite, folder, runs, outcome, quiet)
    return outcome.exit_code


def say_left_out(one: Planned) -> None:
    """On standard error."""
    for variant, why in one.left_out.items():
        say(f"run {one.run.name} leaves out {variant}: {why}")


# ---------------------------------------------------------------------------------------------------- what is written


def write_results(
    suite: Suite, folder: Path, runs: dict[str, Planned], outcome: Outcome, quiet: bool
) -> None:
    """Figures, tables and the report into `folder`, and the list of them on standard output. Raises OSError."""
    from netpipe.cli.suite import published
    from netpipe.cli.suite.runs.base import Done

    for part in suite.results:
        run = runs[part.run]
        result = spelled_out(part, run)
        done = outcome.done.get(part.run) or Done(problem=run.reasons)
        outcome.made.append(results.made(result, run, done, folder))
    checked = {one.part.run for one in outcome.made if "baseline" in one.part.given and not one.why_not}
    for name in checked:
        why = results.remember(folder / outcome.done[name].files[0])
        if why:
            say(why)
    outcome.beside = published.beside(suite.published, runs, outcome.done)
    if outcome.beside:
        (folder / published.FILE).write_bytes(published.grid(outcome.beside).csv())
    if outcome.something:
        _report(suite, folder, runs, outcome)
    if quiet:
        for one in outcome.made:
            if one.why_not:
                say(f"{one.part.name} was not made: {one.why_not}{_older(one, folder)}")
            elif one.code != DONE:
                say(f"{one.part.name}: {one.said}")
        for name, done in outcome.done.items():
            if done.fleet is not None:
                for sentence in done.fleet.slow_texts():
                    say(f"run {name}: {sentence}")
        return
    _print(suite, folder, runs, outcome)


def _older(one: Made, folder: Path) -> str:
    target = folder / one.part.file
    return f"; {target} is from an earlier time" if one.part.file and target.exists() else ""


def _print(suite: Suite, folder: Path, runs: dict[str, Planned], outcome: Outcome) -> None:
    from netpipe.cli.suite import published
    from netpipe.render.terminal.rows import console, print_paragraph
    from netpipe.units import counted

    out = console()
    for done in outcome.done.values():
        if done.fleet is not None:
            done.fleet.print(out)
    published.print_listed(out, outcome.beside)
    drawn = [one for one in outcome.made if one.part.kind != "check"]
    count = sum(not one.why_not for one in drawn)
    out.print()
    if drawn:
        words = counted(len(drawn), "figure or table", "figures and tables")
        out.print(f"{count} of {words} made", style="bold")
    for one in outcome.made:
        files = ", ".join(str(folder / name) for name in one.files)
        if one.why_not:
            print_paragraph(
                out, *NOT_MADE, f"{one.part.name} was not made: {one.why_not}{_older(one, folder)}"
            )
        elif one.part.kind == "check":
            print_paragraph(out, *(MADE if one.code == DONE else NOT_MADE), f"{one.part.name}: {one.said}")
        elif one.without:
            print_paragraph(out, *PARTLY, f"{files}: {one.part.name}, without {one.without}")
        else:
            print_paragraph(out, *MADE, f"{files}: {one.part.name}")
    for title, why in suite.not_measured:
        print_paragraph(out, *PARTLY, f"{title}: not part of the suite: {why}")
    for mark, words in _missing(runs, outcome):
        print_paragraph(out, *mark, words)
    whole = [one for one in outcome.beside if not one.value.listed and one.here is not None]
    if whole:
        out.print()
        out.print(
            f"{counted(len(whole), 'value')} of the paper's tables have an equal here: {folder / published.FILE}",
            soft_wrap=True,
        )
    if outcome.something:
        records = ", ".join(str(folder / file) for one in outcome.done.values() for file in one.files)
        out.print()
        out.print(f"The report is {folder / 'report.html'}. Records: {records}", soft_wrap=True)


def _missing(runs: dict[str, Planned], outcome: Outcome) -> list[tuple[tuple[str, str], str]]:
    """What was not measured, each with its reason."""
    found = []
    for name, one in runs.items():
        found += [
            (PARTLY, f"run {name} leaves out {variant}: {why}") for variant, why in one.left_out.items()
        ]
    for name, done in outcome.done.items():
        if done.problem:
            mark = PARTLY if runs[name].run.optional else NOT_MADE
            found.append((mark, f"run {name}: not measured: {done.problem}"))
        found += [(PARTLY, f"run {name}: {error}") for error in done.errors]
    return found


def _report(suite: Suite, folder: Path, runs: dict[str, Planned], outcome: Outcome) -> None:
    """One page. Raises OSError."""
    from netpipe.cli.suite import published
    from netpipe.reading import Reading
    from netpipe.reading.across import merge
    from netpipe.render.page.suite import Check, Content, Drawn, write

    figures, tables, missing = [], [], [words for _, words in _missing(runs, outcome)]
    for one in outcome.made:
        if one.why_not:
            missing.append(f"{one.part.name} was not made: {one.why_not}")
        elif one.grid is not None:
            tables.append(
                Drawn(one.part.name, one.without, (), one.grid.columns, one.grid.rows, one.grid.note)
            )
        elif one.part.kind == "figure":
            figures.append(Drawn(one.part.name, one.without, tuple(folder / name for name in one.files)))
    missing += [f"{title}: {why}" for title, why in suite.not_measured]
    grid = published.shown(outcome.beside)
    content = Content(
        title=suite.summary,
        source=suite.source,
        size=f"Suite {suite.name}, size {suite.size}.",
        figures=tuple(figures),
        tables=tuple(tables),
        published=(grid.columns, grid.rows, grid.note),
        stands_for=suite.stands_for,
        checks=tuple(
            Check(one.part.name, one.said, one.code != DONE)
            for one in outcome.made
            if one.part.kind == "check" and one.said
        ),
        fleet=tuple(
            text for done in outcome.done.values() if done.fleet is not None for text in done.fleet.texts()
        ),
        missing=tuple(missing),
    )
    readings = [
        done.reading
        for name, done in outcome.done.items()
        if runs[name].run.does in RUN_FILES and done.reading is not None
    ]
    merged = Reading(merge.merged([one.run for one in readings])) if readings else None
    write(content, merged, folder / "report.html")
