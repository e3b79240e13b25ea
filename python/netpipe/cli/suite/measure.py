# SPDX-License-Identifier: Apache-2.0
"""A suite measured: a record for each run, the figures and tables, one report."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from netpipe.cli.suite.plans import absent, planned, why_not
from netpipe.command import measuring
from netpipe.failure import DONE, INTERRUPTED, UNAVAILABLE, Failure
from netpipe.streams import say

if TYPE_CHECKING:
    from rich.console import Console

    from netpipe.cli.suite.files import Part, Suite
    from netpipe.cli.suite.plans import Planned
    from netpipe.reading import Reading
    from netpipe.session import Result

MADE, NOT_MADE, PARTLY = ("✓", "green"), ("✗", "bold red"), ("!", "yellow")


@dataclass(slots=True)
class Outcome:
    """What came of the suite."""

    readings: dict[str, Reading] = field(default_factory=dict)  # of the runs that have results
    problems: dict[str, str] = field(default_factory=dict)  # of the runs that have none
    codes: list[int] = field(default_factory=list)  # of all runs

    @property
    def exit_code(self) -> int:
        """What is not available here only counts if it leaves nothing at all."""
        from netpipe.native import worst

        found = worst(code for code in self.codes if code != UNAVAILABLE)
        return UNAVAILABLE if found == DONE and not self.readings else found


def dry_run(suite: Suite) -> int:
    from netpipe.render.terminal.findings import print_paragraph
    from netpipe.render.terminal.plan import print_plan
    from netpipe.render.terminal.summary import console
    from netpipe.units import span_text

    runs = planned(suite)
    out = console()
    sessions = []
    for name, one in runs.items():
        out.print(f"run {name}", style="bold", markup=False)
        _say_left_out(one)
        if one.session is not None:
            sessions.append(one.session)
            for note in one.session.notes:
                say(note)
            print_plan(out, one.session.plan, one.session.answer, one.session.request.launches)
        out.print()
    for result in suite.results:
        why = why_not(result, runs[result.run])
        mark = MADE if why is None else NOT_MADE
        words = f"{result.name} ({result.file}), from the run {result.run}" + (f": {why}" if why else "")
        print_paragraph(out, *mark, words)
    longest = [session.longest_s for session in sessions]
    if sessions and None not in longest:
        out.print()
        out.print(f"In all at most {span_text(sum(filter(None, longest)))}.")
    return DONE if sessions else UNAVAILABLE


def run(suite: Suite, folder: Path, quiet: bool) -> int:
    runs = planned(suite)
    if not quiet:
        for one in runs.values():
            _say_left_out(one)
    folder.mkdir(parents=True, exist_ok=True)
    outcome = Outcome()
    for number, one in enumerate(runs.values(), start=1):
        if one.session is None:
            outcome.problems[one.run.name] = one.reasons
            continue
        if not quiet and len(runs) > 1:
            say(f"run {one.run.name}, {number} of {len(runs)}")
        _measure(one, folder, quiet, outcome)
        if INTERRUPTED in outcome.codes:
            say("no figure, table or report was written; netpipe plot and netpipe report take the records")
            return INTERRUPTED
    _write(suite, folder, runs, outcome, quiet)
    return outcome.exit_code


def _say_left_out(one: Planned) -> None:
    for variant, why in one.left_out.items():
        say(f"run {one.run.name} leaves out {variant}: {why}")


def _measure(one: Planned, folder: Path, quiet: bool, outcome: Outcome) -> None:
    from netpipe.reading import Reading
    from netpipe.records import Run

    session, name = one.session, one.run.name
    assert session is not None
    given = {"output": str(folder / f"{name}.jsonl"), "quiet": quiet, "as_json": False}
    try:
        result = measuring.measure(session, given, measuring.display(given, session))
    except Failure as failure:
        say(f"run {name}: {failure.sentence}")
        outcome.codes.append(failure.exit_code)
        outcome.problems[name] = failure.sentence
        return
    outcome.codes.append(result.exit_code)
    nothing = not result.run.points and bool(result.run.errors or result.run.skipped)
    if result.path is None or nothing:
        outcome.problems[name] = _why_nothing(result)
        return
    outcome.readings[name] = Reading(Run.read(result.path, samples=False))
    if not quiet:
        from netpipe.render.terminal.summary import console, print_summary

        out = console()
        out.print()
        out.print(f"run {name}", style="bold", markup=False)
        print_summary(out, outcome.readings[name])


def _why_nothing(result: Result) -> str:
    said = [one.message for one in result.run.errors] or [one.reason for one in result.run.skipped]
    return "; ".join(dict.fromkeys(said)) or "nothing was measured"


def _write(suite: Suite, folder: Path, runs: dict[str, Planned], outcome: Outcome, quiet: bool) -> None:
    """Figures, tables and the report, and the list of them."""
    from netpipe.reading import Reading
    from netpipe.reading.across import merge
    from netpipe.render.page.page import write
    from netpipe.render.terminal.findings import print_paragraph
    from netpipe.render.terminal.summary import console
    from netpipe.units import counted

    out = console()
    lines: list[tuple[tuple[str, str], str]] = []
    for result in suite.results:
        target = folder / result.file
        why, without = _made(result, runs[result.run], outcome, target)
        if why is not None:
            older = f"; {target} is from an earlier time" if target.exists() else ""
            lines.append((NOT_MADE, f"{result.name} was not made: {why}{older}"))
        elif without:
            lines.append((PARTLY, f"{target}: {result.name}, without {without}"))
        else:
            lines.append((MADE, f"{target}: {result.name}"))
    report = folder / "report.html"
    if outcome.readings:
        write(Reading(merge.merged([one.run for one in outcome.readings.values()])), report, suite.summary)
    if quiet:
        for words in (words for mark, words in lines if mark is NOT_MADE):
            say(words)
        return
    made = sum(mark is not NOT_MADE for mark, _ in lines)
    out.print()
    out.print(f"{made} of {counted(len(lines), 'figure or table', 'figures and tables')} made", style="bold")
    for mark, words in lines:
        print_paragraph(out, *mark, words)
    _print_missing(out, runs, outcome)
    if outcome.readings:
        records = ", ".join(str(folder / f"{name}.jsonl") for name in outcome.readings)
        out.print()
        out.print(f"The report is {report}. Records: {records}", soft_wrap=True)


def _print_missing(out: Console, runs: dict[str, Planned], outcome: Outcome) -> None:
    """What was not measured, each with its reason."""
    from netpipe.render.terminal.findings import print_paragraph

    for name, one in runs.items():
        for variant, why in one.left_out.items():
            print_paragraph(out, *PARTLY, f"run {name} leaves out {variant}: {why}")
    for name, why in outcome.problems.items():
        if runs[name].session is not None:
            print_paragraph(out, *NOT_MADE, f"run {name}: not measured: {why}")
    for name, reading in outcome.readings.items():
        for error in reading.run.errors:
            print_paragraph(out, *PARTLY, f"run {name}: {error.variant or 'all variants'}: {error.message}")


def _made(result: Part, run: Planned, outcome: Outcome, target: Path) -> tuple[str | None, str]:
    """Writes a figure or a table. Returns why it could not be, and what it lacks."""
    from netpipe.render.drawing.picture import NothingToDraw

    if result.run in outcome.problems:
        why = why_not(result, run) or f"the run {result.run} was not measured: {outcome.problems[result.run]}"
        return why, ""
    reading = outcome.readings[result.run]
    pairs = [*reading.by_name, *((opened.variant, "") for opened in reading.run.variants)]
    missing = [*absent(result.variants, pairs, 0), *absent(result.patterns, pairs, 1)]
    variants = tuple(name for name in result.variants if name not in missing)
    patterns = tuple(name for name in result.patterns if name not in missing)
    try:
        if bool(variants) < bool(result.variants) or bool(patterns) < bool(result.patterns):
            raise NothingToDraw(f"the run {result.run} has nothing of {', '.join(missing)}")
        _draw(result, reading, variants, patterns, target)
    except (NothingToDraw, Failure) as failure:
        return why_not(result, run) or str(failure), ""
    return None, ", ".join(missing if result.variants else [*run.left_out, *missing])


def _draw(
    result: Part, reading: Reading, variants: tuple[str, ...], patterns: tuple[str, ...], target: Path
) -> None:
    """Raises NothingToDraw, Failure or OSError."""
    from netpipe.cli import export, plot

    given = result.given
    if result.kind == "table":
        data = export.exported(
            reading.run, given["form"], variants, patterns, given["launch"], given["which"]
        )
        target.write_bytes(data)
        return
    figure, scale = given["figure"], given["scale"]
    scope = plot.scope_of((reading,), figure, variants, patterns, given["sizes"], given["measures"], scale)
    plot.write(scope, figure, target, given["file_format"], given["title"])
