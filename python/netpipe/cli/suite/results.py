# SPDX-License-Identifier: Apache-2.0
"""The figures, tables and checks of a suite, made from what its runs have left."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from netpipe.cli.suite.files import IMB
from netpipe.cli.suite.parts import DOCTOR, RUN_FILES
from netpipe.cli.suite.planning import why_not
from netpipe.cli.suite.runs.base import absent
from netpipe.failure import DONE, FAILED, GATE, USAGE, Failure

if TYPE_CHECKING:
    from netpipe.cli.suite.parts import Part
    from netpipe.cli.suite.runs.base import Done, Planned
    from netpipe.cli.suite.tables import Grid
    from netpipe.reading import Reading


@dataclass(slots=True)
class Made:
    """What became of one of them."""

    part: Part
    files: list[str] = field(default_factory=list)  # names in the folder
    why_not: str = ""  # it was not made
    without: str = ""  # what it lacks
    grid: Grid | None = None
    said: str = ""  # of a check: its outcome
    code: int = DONE


@dataclass(frozen=True, slots=True)
class Chosen:
    """What of a run file it is made from."""

    reading: Reading
    done: Done
    variants: tuple[str, ...]
    patterns: tuple[str, ...]
    folder: Path


def made(part: Part, run: Planned, done: Done, folder: Path) -> Made:
    """Writes it. Never raises but OSError: the result says why there is none."""
    from netpipe.records import NotARun
    from netpipe.render.drawing.picture import NothingToDraw
    from netpipe.render.export.imb import NotThere

    came = Made(part)
    if done.problem:
        came.why_not = why_not(part, run) or f"the run {part.run} was not measured: {done.problem}"
        return came
    try:
        if part.does not in RUN_FILES:
            _of_others(came, done, folder)
            came.without = "; ".join(done.errors)
            return came
        assert done.reading is not None
        reading = done.reading
        pairs = [*reading.by_name, *((opened.variant, "") for opened in reading.run.variants)]
        missing = [*absent(part.variants, pairs, 0), *absent(part.patterns, pairs, 1)]
        variants = tuple(name for name in part.variants if name not in missing)
        patterns = tuple(name for name in part.patterns if name not in missing)
        if bool(variants) < bool(part.variants) or bool(patterns) < bool(part.patterns):
            raise NothingToDraw(f"the run {part.run} has nothing of {', '.join(missing)}")
        _OF_RUN[part.kind](came, Chosen(reading, done, variants, patterns, folder))
        came.without = ", ".join(missing if part.variants else [*run.left_out, *missing])
    except (NothingToDraw, Failure, NotARun, NotThere) as failure:
        came.why_not = why_not(part, run) or str(failure)
        came.code = FAILED if part.kind == "check" else DONE  # a gate that was not closed is not an open one
    return came


def _of_others(came: Made, done: Done, folder: Path) -> None:
    """Raises NothingToDraw or OSError."""
    from netpipe.cli.suite import drawings, tables

    part = came.part
    if part.kind == "figure":
        drawings.write(part, done, folder / part.file)
    else:
        came.grid = tables.made(part, done, part.variants, part.patterns)
        (folder / part.file).write_bytes(came.grid.csv())
    came.files.append(part.file)


def _figure(came: Made, chosen: Chosen) -> None:
    """Raises NothingToDraw, Failure or OSError."""
    from netpipe.cli import plot
    from netpipe.cli.suite import drawings

    part, given = came.part, came.part.given
    figure, scale = given["figure"], given["scale"]
    scope = plot.scope_of(
        (chosen.reading,), figure, chosen.variants, chosen.patterns, given["sizes"], given["measures"], scale
    )
    plot.write(
        scope, figure, chosen.folder / part.file, given["file_format"], drawings.fitting(given["title"])
    )
    came.files.append(part.file)


def _table(came: Made, chosen: Chosen) -> None:
    """Raises NothingToDraw, Failure or OSError."""
    from netpipe.cli import export
    from netpipe.cli.suite import tables
    from netpipe.command.options import matching

    part, given, reading, folder = came.part, came.part.given, chosen.reading, chosen.folder
    variants, patterns = chosen.variants, chosen.patterns
    if part.shows:
        names = matching(variants, patterns, list(reading.by_name))
        came.grid = tables.made(part, chosen.done, *names)
        (folder / part.file).write_bytes(came.grid.csv())
        came.files.append(part.file)
        return
    if not part.each:
        data = export.exported(
            reading.run, given["form"], variants, patterns, given["launch"], given["which"]
        )
        (folder / part.file).write_bytes(data)
        came.files.append(part.file)
        return
    for name, data in one_each(reading, given["form"], variants, patterns, part.file):
        (folder / name).write_bytes(data)
        came.files.append(name)
    if not came.files:
        raise Failure(USAGE, f"the run {part.run} has no points for it")


def one_each(
    reading: Reading, form: str, variants: tuple[str, ...], patterns: tuple[str, ...], file: str
) -> list[tuple[str, bytes]]:
    """A file for each curve of a format that holds one; of IMB one for each variant, with all its benchmarks."""
    from netpipe.cli import export
    from netpipe.command.options import matching
    from netpipe.reading.sweeps import COLLECTIVE, OVERLAP, operations
    from netpipe.render.export import imb

    named = operations(reading.run, (COLLECTIVE, OVERLAP))
    variants, patterns = matching(variants, patterns, list(reading.by_name))
    curves = [
        curve
        for name, curve in reading.by_name.items()
        if (not variants or name[0] in variants)
        and (not patterns or name[1] in patterns)
        and len(curve.points)
    ]
    names = list(dict.fromkeys(curve.variant for curve in curves))
    several = len(names) > 1
    found = []
    for name in names:
        some = [curve for curve in curves if curve.variant == name]
        if form == IMB:
            ranks = {one.variant: len(one.ranks) for one in reading.run.variants if one.ranks}
            texts = [imb.write(some, name, named, ranks.get(name, 2))]
        else:
            texts = [
                export.osu_table(reading, next(iter(curve.points)).by_launch[0], "points").decode()
                for curve in some
            ]
        for number, text in enumerate(texts):
            stem, _, ending = file.rpartition(".")
            of = [re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")] if several else []
            of += [str(number + 1)] if len(texts) > 1 else []
            found.append((".".join([stem, *of, ending]), text.encode()))
    return found


def _doctor(came: Made, chosen: Chosen) -> None:
    """The gate of `netpipe doctor --strict`, by what the run has recorded of its hosts."""
    from netpipe.findings import MACHINE, SEVERE, judge
    from netpipe.reading import Reading
    from netpipe.records import Run

    found = judge(Reading(Run(chosen.reading.run.environments)), about=MACHINE).findings
    severe = dict.fromkeys(one.what for one in found if one.severity == SEVERE)
    came.code = GATE if severe else DONE
    came.said = " ".join(severe) or "nothing disturbs measurements here severely"


def _check(came: Made, chosen: Chosen) -> None:
    """The gate of `netpipe check`. Without an earlier run in the history nothing is checked, and it says so."""
    if DOCTOR in came.part.given:
        _doctor(came, chosen)
        return
    from netpipe.cli.check import Limits, checked, of_history
    from netpipe.reading.across.gate import Result
    from netpipe.render.terminal.gate import failures
    from netpipe.units import counted

    given, path = came.part.given, chosen.folder / chosen.done.files[0]
    limits = Limits.of(given["slower"], given["faster"])
    try:
        file, name = of_history(given["baseline"], path)
    except Failure as failure:
        if given["baseline"] not in ("last", "best") or failure.exit_code != USAGE:
            raise
        came.said = f"there is no earlier run to check against: {failure.sentence.partition(';')[0]}"
        return
    try:
        against = checked(file, path, chosen.variants, chosen.patterns, limits, name)
    except OSError as error:
        raise Failure(USAGE, f"{file}: {error.strerror}") from None
    came.code = against.exit_code(given["strict"])
    if came.code == GATE:
        said = failures(against.metrics, against.measures, against.gone)
        came.said = f"failed against {name or file}: {'; '.join(said)}"
    else:
        counts = against.results()
        undecided = counts[Result.UNDECIDED]
        rest = f", {undecided} of them cannot be told" if undecided else ""
        came.said = f"{counted(counts.total(), 'metric')} checked against {name or file}{rest}; none failed"


_OF_RUN: dict[str, Callable[..., None]] = {"figure": _figure, "table": _table, "check": _check}


def remember(path: Path) -> str:
    """Adds a run to the history of its host; a sentence of what went wrong, or nothing."""
    from netpipe.history import History

    try:
        with History.open(create=True) as history:
            history.add(path)
    except (Failure, OSError) as error:
        return f"{path} was not added to the history: {error}"
    return ""
