# SPDX-License-Identifier: Apache-2.0
"""netpipe report: the whole run as one page."""

from __future__ import annotations

from pathlib import Path

import click


@click.command
@click.argument("run", metavar="[RUN]", default="run.jsonl", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to. Default: RUN with the ending .html.",
)
@click.option("--title", metavar="TEXT", help="Instead of the modules' names.")
def command(run: Path, output: Path | None, title: str | None) -> None:
    """Write RUN [run.jsonl] as one HTML page that needs nothing else: the answer, plots, losses, every point, what to
    distrust.
    """
    from netpipe import Run
    from netpipe.render.html import write

    target = output or run.with_suffix(".html")
    write(Run.read(run), target, title)
    click.echo(f"netpipe: the report is in {target}", err=True)
