# SPDX-License-Identifier: Apache-2.0
"""netpipe report: writes a run, or several overlaid ones, as one HTML page."""

from __future__ import annotations

from pathlib import Path

import click

from netpipe.command.options import runs_argument


@click.command
@runs_argument
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The page. Default: the first RUN with the ending .html.",
)
@click.option("--title", metavar="TEXT", help="The title, instead of the names of the modules.")
def command(runs: tuple[Path, ...], output: Path | None, title: str | None) -> None:
    """Write RUN [run.jsonl] as one self-contained HTML page.

    It contains the results, plots, losses, points and findings. Several runs are overlaid: each
    variant then says where its ranks were (--pin, or several hosts), or which file it is from.
    """
    from netpipe.reading import Reading, merge
    from netpipe.render.page.page import write
    from netpipe.run_file import check_target
    from netpipe.streams import say

    files = runs or (Path("run.jsonl"),)
    target = output or files[0].with_suffix(".html")
    check_target(target)
    write(Reading(merge.read(files)), target, title)
    say(f"the report is in {target}")
