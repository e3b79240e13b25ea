# SPDX-License-Identifier: Apache-2.0
"""netpipe export: the points of a run for other programs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from netpipe.command.options import matching, pattern_option, variant_option
from netpipe.failure import USAGE, Failure
from netpipe.render.export import FORMATS, OF_ENDING, TABLES

if TYPE_CHECKING:
    from netpipe.records import Point, Run


@click.command
@click.argument("run", metavar="[RUN]", default="run.jsonl", type=click.Path())
@click.option(
    "--format", "form", type=click.Choice(FORMATS), help="[default: the ending of --output, or csv]"
)
@click.option("-o", "--output", metavar="FILE", help="The file to write.  [default: standard output]")
@variant_option
@pattern_option
@click.option("--launch", type=int, metavar="N", help="Only this launch, counted from 0.")
@click.option(
    "--table",
    "which",
    type=click.Choice(TABLES),
    default="points",
    show_default=True,
    help="One row per point, or one row per rank or pair with a time of its own.",
)
def command(
    run: str,
    form: str | None,
    output: str | None,
    variants: tuple[str, ...],
    patterns: tuple[str, ...],
    launch: int | None,
    which: str,
) -> None:
    """Write the points of RUN as np.out, CSV, Parquet or JSON.

    RUN is run.jsonl unless given. The measures of a pattern become columns. The np.out of NetPIPE 3 or 5 has no names:
    it holds one curve, which --variant, --pattern and --launch select.
    """
    from netpipe.records import Run
    from netpipe.run_file import check_target

    form = form or OF_ENDING.get(Path(output or "").suffix.lower(), "csv")
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


def exported(
    run: Run, form: str, variants: tuple[str, ...], patterns: tuple[str, ...], launch: int | None, which: str
) -> bytes:
    """The chosen points in a format. Raises Failure (2) when there are none, or the format cannot hold them."""
    from netpipe.reading import Reading
    from netpipe.render.export import npout, table

    points = choose(run, variants, patterns, launch)
    if which == "cells" and not any(point.cells for point in points):
        raise Failure(
            USAGE, "no chosen point has a time for each rank or pair, so there are no cells to export"
        )
    if form not in npout.FORMATS:
        return table.write(points, form, which)
    if which != "points":
        raise Failure(USAGE, f"np.out holds points only; export {which} as csv, parquet or json")
    one_curve(points)
    if len({point.launch for point in points}) > 1:
        name = (points[0].variant, points[0].pattern)
        points = [npout.of_all_launches(point) for point in Reading(run).by_name[name].points]
    return npout.write(points, form).encode()


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


def one_curve(points: list[Point]) -> None:
    """Raises Failure (2) where np.out would mix several curves."""
    for option, there in (
        ("variant", [point.variant for point in points]),
        ("pattern", [point.pattern for point in points]),
    ):
        names = list(dict.fromkeys(there))
        if len(names) > 1:
            raise Failure(USAGE, f"np.out holds one curve; choose with --{option}: {', '.join(names)}")
