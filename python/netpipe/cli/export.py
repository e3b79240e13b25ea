# SPDX-License-Identifier: Apache-2.0
"""netpipe export: the points of a run, or the trace of a profile, for other programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from netpipe.command.options import matching, pattern_option, refuse, variant_option
from netpipe.failure import USAGE, Failure
from netpipe.render.export import FORMATS, GOAL, IMB, OF_ENDING, OSU, TABLES

if TYPE_CHECKING:
    from netpipe.reading import Reading
    from netpipe.records import Point, Run


@click.command
@click.argument("run", metavar="[RUN]", default="run.jsonl", type=click.Path())
@click.option(
    "--format",
    "form",
    type=click.Choice((*FORMATS, OSU, IMB, GOAL)),
    help="[default: the ending of --output, or csv; for a profile goal]",
)
@click.option("-o", "--output", metavar="FILE", help="The file to write  [default: standard output]")
@variant_option
@pattern_option
@click.option("--launch", type=int, metavar="N", help="Only this launch, counted from 0.")
@click.option(
    "--table",
    "which",
    type=click.Choice(TABLES),
    default="points",
    show_default=True,
    help="One row per size and launch with its own interval (points), per size with the numbers of the whole run and "
    "their interval for the next run (sizes), per rank or pair with a time of its own (cells), or per size, launch "
    "and counter of the layer (counters).",
)
@click.option(
    "--events",
    metavar="N",
    type=click.IntRange(1),
    help="Of a profile: at most N events of its traces, from the beginning of the program on  [default: 1000000]",
)
def command(
    run: str,
    form: str | None,
    output: str | None,
    variants: tuple[str, ...],
    patterns: tuple[str, ...],
    launch: int | None,
    which: str,
    events: int | None,
) -> None:
    """Write RUN as CSV, Parquet, JSON, np.out, OSU or IMB table.

    The points of RUN, which is run.jsonl unless given: a row for each size and launch. Their intervals are those inside
    a single launch, too narrow for what the next run finds. For error bars take --table sizes: a row for each size,
    with the interval for the next run.

    The measures of a pattern become columns. The np.out of NetPIPE 3 or 5 and the table of an OSU benchmark have no
    names: they hold one curve, which --variant and --pattern select.

    RUN may also be a profile, of netpipe profile: then this writes its trace as a GOAL schedule, the input of the
    simulators LogGOPSim and ATLAHS and of LLAMP. None of them has been tried with one yet.
    """
    from netpipe.profiles.lines import is_profile
    from netpipe.records import Run
    from netpipe.run_file import check_target

    ending = Path(output or "").suffix.lower()
    if is_profile(Path(run)):
        refuse(("variants", "patterns", "launch", "which"), f"{run} is a profile, not a run")
        form = form or OF_ENDING.get(ending, GOAL)
        if form != GOAL:
            raise Failure(USAGE, f"{run} is a profile, which is exported as {GOAL}, not as {form}")
        export_profile(Path(run), output, events)
        return
    if events is not None:
        raise Failure(USAGE, f"{run} is a run, and --events is of profiles; leave it out")
    if form == GOAL or (form is None and ending == f".{GOAL}"):
        raise Failure(
            USAGE, f"{run} is not a profile; only what netpipe profile writes is exported as {GOAL}"
        )
    form = form or OF_ENDING.get(ending, "csv")
    if output is not None:
        check_target(Path(output))
    elif form == "parquet" and sys.stdout.isatty():
        raise Failure(
            USAGE, "Parquet is a binary format and is not printed on a terminal; name a file with --output"
        )
    data = exported(Run.read(run, samples=False), form, variants, patterns, launch, which)
    if output is None:
        sys.stdout.buffer.write(data)
    else:
        Path(output).write_bytes(data)


def export_profile(path: Path, output: str | None, most_events: int | None) -> None:
    """Its traces as GOAL, line by line; of longer ones about the first `most_events` (None: MOST_EVENTS) of all ranks
    together. Raises Failure (2) without a trace.
    """
    from netpipe.profiles import NotAProfile, read
    from netpipe.profiles.missing import lost_texts
    from netpipe.profiles.trace.calls import calls
    from netpipe.profiles.trace.chosen import MOST_EVENTS, events, first_events
    from netpipe.profiles.trace.first_part import PROFILER_NS
    from netpipe.render.export.goal import NoSchedule, schedule
    from netpipe.streams import say, while_read

    try:
        whole = read(path)
        made = calls(whole, PROFILER_NS / 2, first_events(whole, most_events or MOST_EVENTS))
        if output is None:
            sys.stdout.writelines(while_read(schedule(made, whole)))
        else:
            write_lines(schedule(made, whole), Path(output))
    except (NotAProfile, NoSchedule) as error:
        raise Failure(USAGE, f"{path}: {str(error).removeprefix(f'{path} ')}") from None
    if made.events < (there := events(whole)):
        say(
            f"the schedule is of the first {made.events:,} of {there:,} events in the traces; netpipe export "
            "--events N writes more"
        )
    for text in lost_texts(whole):
        say(f"{path}: {text}")
    if made.truncated:
        ranks = ", ".join(map(str, made.truncated))
        say(
            f"the trace ends early (rank {ranks}), and so does the schedule; profile again with more --events"
        )
    elif made.unmatched:
        calls_lack = "call has" if made.unmatched == 1 else "calls have"
        say(f"{made.unmatched} {calls_lack} no other half in the trace: calculations in the schedule")


def write_lines(lines: Iterable[str], path: Path) -> None:
    """The file appears whole or not at all. Raises Failure (2) where a run or a profile would be lost."""
    from netpipe.profiles.lines import is_profile
    from netpipe.run_file import check_target, is_stream

    check_target(path)
    if is_profile(path):
        raise Failure(USAGE, f"{path} is a profile and is not overwritten; choose another name")
    if is_stream(path):
        with path.open("w", encoding="ascii") as file:
            file.writelines(lines)
        return
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="ascii") as file:
            file.writelines(lines)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def exported(
    run: Run, form: str, variants: tuple[str, ...], patterns: tuple[str, ...], launch: int | None, which: str
) -> bytes:
    """The chosen points in a format. Raises Failure (2) when there are none, or the format cannot hold them."""
    from netpipe.reading import Reading
    from netpipe.render.export import counters, npout, table, whole

    points = choose(run, variants, patterns, launch)
    if which == "sizes":
        if launch is not None:
            raise Failure(USAGE, "the table sizes is of all launches together; leave --launch or --table out")
        if form in table.FORMATS:
            return table.write(whole.sizes(Reading(run), points), form, which)
    if which == "cells" and not any(point.cells for point in points):
        raise Failure(
            USAGE, "no chosen point has a time for each rank or pair, so there are no cells to export"
        )
    if which == "counters" and form in table.FORMATS:
        if not any(point.counters for point in points):
            raise Failure(USAGE, "no chosen point has counters: its layer counts nothing, or it was imported")
        return counters.write(run, points, form)
    if form == OSU:
        one_curve(points, "an OSU table")
        return osu_table(Reading(run), points[0], which)
    if form == IMB:
        return imb_tables(Reading(run), points, which)
    if form not in npout.FORMATS:
        return table.write(points, form, which)
    if which != "points":
        raise Failure(USAGE, f"np.out holds points only; export {which} as csv, parquet or json")
    one_curve(points, "np.out")
    if len({point.launch for point in points}) > 1:
        name = (points[0].variant, points[0].pattern)
        points = [whole.point(at) for at in Reading(run).by_name[name].points]
    return npout.write(points, form).encode()


def osu_table(reading: Reading, point: Point, which: str) -> bytes:
    """The curve of this point, its launches merged."""
    from netpipe.render.export import osu

    if which != "points":
        raise Failure(USAGE, f"an OSU table holds points only; export {which} as csv, parquet or json")
    curve = reading.by_name[point.variant, point.pattern]
    options = {mode.pattern: mode.options for plan in reading.run.plans for mode in plan.modes}
    named = dict(one.partition("=")[::2] for one in point.pattern.partition(":")[2].split(",") if one)
    ranks = {one.variant: len(one.ranks) for one in reading.run.variants if one.ranks}.get(point.variant, 2)
    return osu.write(
        curve.points,
        point.pattern,
        {**named, **options.get(point.pattern, {})},
        f"by netpipe: {point.variant}",
        ranks,
    ).encode()


def imb_tables(reading: Reading, points: list[Point], which: str) -> bytes:
    """The tables of one variant, a benchmark each. Raises Failure (2) where IMB has none of its patterns."""
    from netpipe.reading.sweeps import COLLECTIVE, OVERLAP, operations
    from netpipe.render.export import imb

    if which != "points":
        raise Failure(USAGE, f"IMB tables hold points only; export {which} as csv, parquet or json")
    names = list(dict.fromkeys(point.variant for point in points))
    if len(names) > 1:
        raise Failure(USAGE, f"IMB tables are of one variant; choose with --variant: {', '.join(names)}")
    chosen = dict.fromkeys((point.variant, point.pattern) for point in points)
    named = operations(reading.run, (COLLECTIVE, OVERLAP))
    ranks = max((len(one.ranks) for one in reading.run.variants if one.variant == names[0]), default=2)
    try:
        curves = [reading.by_name[name] for name in chosen]
        return imb.write(curves, names[0], named, ranks).encode()
    except imb.NotThere as why:
        raise Failure(USAGE, str(why)) from None


def choose(run: Run, variants: tuple[str, ...], patterns: tuple[str, ...], launch: int | None) -> list[Point]:
    pairs = [(point.variant, point.pattern) for point in run.points]
    variants, patterns = matching(variants, patterns, pairs)
    points = [
        point
        for point in run.points
        if (not variants or point.variant in variants)
        and (not patterns or point.pattern in patterns)
        and (launch is None or point.launch == launch)
    ]
    if not points:
        which = f" of launch {launch}" if launch is not None and run.points else ""
        raise Failure(USAGE, f"the run has no points{which}, so there is nothing to export")
    return points


def one_curve(points: list[Point], holder: str) -> None:
    """Raises Failure (2) where a format without names would mix several curves."""
    for option, there in (
        ("variant", [point.variant for point in points]),
        ("pattern", [point.pattern for point in points]),
    ):
        names = list(dict.fromkeys(there))
        if len(names) > 1:
            raise Failure(USAGE, f"{holder} holds one curve; choose with --{option}: {', '.join(names)}")
