# SPDX-License-Identifier: Apache-2.0
"""The page of results of application kernels: one HTML file that needs no other file, no network and no scripts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from netpipe.kernels.lines import Applications, Result
from netpipe.kernels.table import LEAST, Row, rows
from netpipe.render import figures
from netpipe.render.drawing.picture import NothingToDraw
from netpipe.render.drawing.scope import Scope
from netpipe.render.page.programs.chart import Chart, charts
from netpipe.render.page.tables import Column, Table
from netpipe.render.page.template import template, text_of
from netpipe.render.terminal.apps import (
    behind_text,
    failures,
    in_order,
    kernel_text,
    load_alarm,
    notes,
    time_text,
)
from netpipe.units import UNKNOWN, counted, digits, listed, sentence, span_text

MOST_RUNS = 2000  # in the table of every run


def write(found: Applications, path: Path, title: str | None = None, source: Path | None = None) -> None:
    """Writes the page to `path`. `source` is the file of the results. Raises OSError from the file system."""
    path.write_text(page(found, title, source), encoding="utf-8")


def page(found: Applications, title: str | None = None, source: Path | None = None) -> str:
    """The page as one text."""
    every = rows(found.results)
    processors = found.header.processors
    scope = Scope((), kernels=tuple(every))
    runs = found.results[:MOST_RUNS]
    return template("apps.html").render(
        css=text_of("report.css") + text_of("chart.css"),
        title=title or _title(found, every),
        facts=list(_facts(found, every)),
        answers=list(answers(every)),
        alarms=[sentence(one) for one in (*filter(None, [load_alarm(every, processors)]), *failures(every))],
        ended=found.end is not None,
        figures=_drawn(scope),
        subtitle=scope.subtitle if every else "",
        times=_times(every) if every else None,
        notes=notes(every, processors),
        verified=_verified(found.results) if found.results else None,
        checks=_checks(found.results),
        runs=_runs(runs) if runs else None,
        runs_left_out=len(found.results) - len(runs),
        about=_about(found, source),
    )


def _drawn(scope: Scope) -> list[tuple[str, list[Chart]]]:
    """The figures for which there are times, with their titles."""
    found = []
    for one in figures.every(figures.KERNELS):
        try:
            panels = one.panels(scope)
        except NothingToDraw:
            continue
        found.append((panels[0].title, charts(panels)))
    return found


# ------------------------------------------------------------------------------------------------------ what it says


def answers(every: Sequence[Row]) -> Iterator[str]:
    """Of each kernel with its class, on the most ranks: what is the fastest, if anything is known to be."""
    problems: dict[str, list[Row]] = {}
    for row in every:
        problems.setdefault(kernel_text(row), []).append(row)
    for name, some in problems.items():
        timed = [row for row in some if row.seconds is not None]
        if not timed:
            yield f"{name} has no result."
            continue
        most = max(row.cell.ranks for row in timed)
        there = sorted((row for row in timed if row.cell.ranks == most), key=_seconds)
        first, on = there[0], counted(most, "rank")
        if len(there) == 1:
            yield f"{name} takes {time_text(first)} on {on} over {_what(first)}."
        elif first.tied:
            yield f"{name} on {on}: undecided which is the fastest; {_what(first)} takes {time_text(first)}."
        else:
            second = there[1]
            times = digits(second.behind) if second.behind is not None else UNKNOWN
            yield (
                f"{name} on {on}: {_what(first)} is the fastest with {time_text(first)}; {_what(second)} takes "
                f"{times} times as long."
            )


def _seconds(row: Row) -> float:
    return row.seconds.value if row.seconds is not None else float("inf")


def _what(row: Row) -> str:
    return f"{row.cell.variant}, {row.cell.mapping}," if row.cell.mapping else row.cell.variant


def _title(found: Applications, every: Sequence[Row]) -> str:
    what = listed(dict.fromkeys(kernel_text(row) for row in every)) or "No kernel"
    hosts = found.header.hosts
    where = listed(hosts) if hosts else found.header.host
    return f"{what} on {where}" if where else what


def _facts(found: Applications, every: Sequence[Row]) -> Iterator[str]:
    header = found.header
    libraries = listed(f"{version} ({name})" for name, version in header.libraries.items())
    if libraries:
        yield f"Over {libraries}."
    launches = max((row.launches for row in every), default=0)
    verified = sum(row.verified for row in every)
    runs = len(found.results)
    if runs:
        each = "Each was launched" if len(every) > 1 else "It was launched"
        most = "at most " if any(row.launches != launches for row in every) else ""
        yield f"{each} {most}{counted(launches, 'time')}, in random order."
        if verified < runs:
            yield f"{verified} of {counted(runs, 'run')} matched the published values; the others count for nothing."
        else:
            yield f"{'Every' if runs > 1 else 'The'} run matched the published values."
    if 0 < launches < LEAST:
        yield f"An interval needs {LEAST} launches that verify."


# --------------------------------------------------------------------------------------------------------- the tables


def _times(every: Sequence[Row]) -> Table:
    mapped = any(row.cell.mapping for row in every)
    columns = (
        Column("kernel", left=True),
        Column("ranks"),
        *([Column("mapping", left=True)] if mapped else []),
        Column("over", left=True),
        Column("time"),
        Column("Mop/s"),
        Column("speed-up"),
        Column("to the fastest"),
        Column("verified"),
    )
    some = in_order(every)
    made = tuple(
        (
            kernel_text(row),
            str(row.cell.ranks),
            *([row.cell.mapping or UNKNOWN] if mapped else []),
            row.cell.variant,
            time_text(row),
            UNKNOWN if row.mops is None else digits(row.mops),
            UNKNOWN if row.speedup is None else f"{digits(row.speedup)} \u00d7",
            behind_text(row),
            f"{row.verified} of {row.launches}",
        )
        for row in some
    )
    return Table(columns, made, tuple(row.seconds is None for row in some))


def _verified(results: Sequence[Result]) -> Table:
    """What was verified, for each kernel with its class."""
    problems: dict[tuple[str, str], list[Result]] = {}
    for one in results:
        problems.setdefault((one.cell.kernel, one.problem), []).append(one)
    columns = (
        Column("kernel", left=True),
        Column("class", left=True),
        Column("size", left=True),
        Column("iterations"),
        Column("counts", left=True),
        Column("runs"),
        Column("verified"),
    )
    made = []
    for (name, problem), some in problems.items():
        known = next((one for one in some if one.size), some[0])
        made.append(
            (
                name,
                problem,
                known.size or UNKNOWN,
                UNKNOWN if known.iterations is None else str(known.iterations),
                known.operations or UNKNOWN,
                str(len(some)),
                str(sum(one.verified for one in some)),
            )
        )
    return Table(columns, tuple(made))


def _checks(results: Sequence[Result]) -> Table | None:
    """The values that were not the published ones."""
    made = tuple(
        (
            one.cell.text,
            str(one.launch),
            check.what,
            _number(check.found),
            _number(check.expected),
            f"{check.tolerance:g}",
        )
        for one in results
        for check in one.checks
    )
    columns = (
        Column("run", left=True),
        Column("launch"),
        Column("value", left=True),
        Column("found"),
        Column("published"),
        Column("relative tolerance"),
    )
    return Table(columns, made) if made else None


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.13g}"


def _runs(results: Sequence[Result]) -> Table:
    """In the order in which they ran."""
    placed = any(one.places for one in results)
    columns = (
        Column("kernel", left=True),
        Column("ranks"),
        *([Column("hosts of the ranks", left=True)] if placed else []),
        Column("over", left=True),
        Column("launch"),
        Column("time", "s"),
        Column("Mop/s"),
        Column("with start and end", "s"),
        Column("processors", left=True),
        Column("result", left=True),
    )
    made = tuple(
        (
            f"{one.cell.kernel} {one.problem}",
            str(one.ranks),
            *([" ".join(one.places) or UNKNOWN] if placed else []),
            one.variant,
            str(one.launch),
            UNKNOWN if one.seconds is None else digits(one.seconds),
            UNKNOWN if one.mops is None else digits(one.mops),
            UNKNOWN if one.wall_s is None else digits(one.wall_s),
            " ".join("any" if cpu is None else str(cpu) for cpu in one.pin) or UNKNOWN,
            "verified" if one.verified else one.problem_text or "not verified",
        )
        for one in results
    )
    return Table(columns, made, tuple(not one.verified for one in results))


def _about(found: Applications, source: Path | None) -> list[tuple[str, str]]:
    """What identifies the session."""
    header = found.header
    lines = [
        ("measured by", f"netpipe {header.netpipe}" if header.netpipe else None),
        (
            "started",
            f"{header.started}{f' on {header.host}' if header.host else ''}" if header.started else None,
        ),
        ("command", " ".join(header.command)),
        ("hosts", ", ".join(header.hosts)),
        ("processors", str(header.processors) if header.processors is not None else None),
        ("placement", header.placement),
        ("seed", str(header.seed) if header.seed is not None else None),
        ("took", span_text(found.end.wall_s) if found.end is not None else None),
        ("ended", f"exit code {found.end.exit_code}" if found.end is not None else None),
        ("file", source.name if source else None),
    ]
    return [(name, text) for name, text in lines if text]
