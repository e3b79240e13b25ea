# SPDX-License-Identifier: Apache-2.0
"""netpipe apps: application kernels over the MPI libraries that were added."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import click

from netpipe.command.choices import complete_variants
from netpipe.failure import USAGE, Failure
from netpipe.streams import say

if TYPE_CHECKING:
    from netpipe.applications.plan import Planned
    from netpipe.applications.session import Progress
    from netpipe.kernels.lines import Result

TIMEOUT_S = 600.0


@click.command()
@click.argument("kernels", nargs=-1, metavar="[KERNEL]...")
@click.option(
    "--on",
    "variants",
    multiple=True,
    metavar="VARIANT",
    shell_complete=complete_variants,
    help="An MPI library with settings, such as mpi@openmpi:transport=tcp; repeatable  [every one that was added]",
)
@click.option("--class", "classes", default="S", metavar="S,A,...", help="Problem classes  [S]")
@click.option("--ranks", default="2,4", metavar="N,N,...", help="Numbers of processes  [2,4]")
@click.option(
    "--launches",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="How often each is run; an interval needs six  [6]",
)
@click.option(
    "--timeout",
    type=click.FloatRange(1),
    default=TIMEOUT_S,
    metavar="SECONDS",
    help="The longest that one run may take  [600]",
)
@click.option("--seed", type=click.IntRange(0), metavar="N", help="Of the random order in which they run.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("apps.jsonl"),
    metavar="FILE",
    help="Where the results go  [apps.jsonl]",
)
@click.option("--dry-run", is_flag=True, help="Print what would run, and run nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the table as one JSON object.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but the table.")
def command(
    kernels: tuple[str, ...],
    variants: tuple[str, ...],
    classes: str,
    ranks: str,
    launches: int | None,
    timeout: float,
    seed: int | None,
    output: Path,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Run application KERNELs over MPI libraries.

    The kernels are the NAS parallel benchmarks is, ep, cg, mg, ft, lu, sp, bt and the particle transport sweep3d, or
    all of them; sweep3d:mk=10,mmi=3 sets what a kernel has besides its class. Each is verified by its published
    result. They run in random order, several times. Without a KERNEL: what there is.
    """
    from netpipe.libraries.adding import programs

    if not kernels:
        for name in programs.applications():
            click.echo(name)
        return 0
    from netpipe import version
    from netpipe.applications.plan import DEFAULT_LAUNCHES, Request, plan
    from netpipe.applications.session import run
    from netpipe.kernels.lines import Header
    from netpipe.kernels.table import rows
    from netpipe.launch.interrupt import Interrupt
    from netpipe.render.terminal.apps import failures, print_table
    from netpipe.render.terminal.rows import console

    launches = launches or DEFAULT_LAUNCHES
    request = Request(kernels, variants, _words(classes), _numbers(ranks), launches)
    planned = plan(request)
    if not quiet:
        for note in planned.notes:
            say(note)
    if dry_run:
        return _show_plan(planned, launches, as_json)
    header = Header(
        schema=0,
        netpipe=version(),
        started=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        command=["netpipe", *sys.argv[1:]],
        seed=seed,
    )
    with Interrupt() as interrupt:
        results, code = run(
            planned,
            launches,
            timeout,
            output,
            header,
            _silent if quiet else _progress,
            lambda: interrupt.count > 0,
        )
    if sys.stderr.isatty() and not quiet:
        click.echo("\r\x1b[K", err=True, nl=False)
    found = rows(results)
    if as_json:
        click.echo(json.dumps({"rows": [asdict(row) for row in found], "exit_code": code}))
    else:
        print_table(console(), found, header.processors)
    for sentence in failures(found):
        say(sentence)
    if not quiet:
        say(f"The results are in {output}")
    return code


def _words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def _numbers(text: str) -> tuple[int, ...]:
    """Raises Failure (2)."""
    words = _words(text)
    if not words or not all(word.isdecimal() and 0 < int(word) <= 1 << 20 for word in words):
        raise Failure(
            USAGE,
            f"--ranks takes numbers of processes with commas between them, such as 2,4, and not '{text}'",
        )
    return tuple(int(word) for word in words)


def _show_plan(planned: Planned, launches: int, as_json: bool) -> int:
    from netpipe.units import size_text

    if as_json:
        cells = [
            {
                "kernel": cell.name,
                "class": cell.problem,
                "ranks": cell.ranks,
                "variant": cell.variant,
                "memory_bytes": cell.memory_bytes,
                "environment": dict(cell.environment),
                "options": dict(cell.options),
            }
            for cell in planned.cells
        ]
        click.echo(json.dumps({"cells": cells, "launches": launches}))
        return 0
    for cell in planned.cells:
        click.echo(f"{cell.text}, {size_text(cell.memory_bytes)}, {launches} times")
    return 0


def _silent(_: Progress) -> None:
    pass


def _progress(progress: Progress) -> None:
    """One line that is written over, on a terminal; elsewhere one for each result."""
    from netpipe.units import span_text, time_text

    one: Result = progress.result
    took = time_text(1e9 * one.seconds) if one.seconds is not None else "no result"
    left = f", about {span_text(progress.left_s)} left" if progress.left_s is not None else ""
    text = f"{progress.done} of {progress.of}{left}: {one.name} {one.problem}, {one.ranks} ranks, {one.variant}: {took}"
    if sys.stderr.isatty():
        width = 79
        click.echo(f"\r\x1b[K{text[:width]}", err=True, nl=False)
    else:
        click.echo(text, err=True)
