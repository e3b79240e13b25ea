# SPDX-License-Identifier: Apache-2.0
"""netpipe suite: sets of runs with the figures and tables drawn from them. A suite is one file, see files.py."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem

from netpipe.failure import DONE, USAGE, Failure


@click.group
def command() -> None:
    """Measure a named set of runs and draw its figures.

    A suite is one file. Some come with netpipe; docs/how-to/add-a-suite.md says how to write one.
    """


@command.command("list")
def list_() -> int:
    """Show the suites that come with netpipe."""
    from rich.text import Text

    from netpipe.cli.suite import files
    from netpipe.render.terminal.summary import Rows, console
    from netpipe.streams import say

    code = DONE
    made = Rows(("suite", "name"), ("what it measures", "left"))
    for name in files.names():
        try:
            said = files.texts(files.find(name))
        except Failure as failure:
            say(failure.sentence)
            code = failure.exit_code
            continue
        made.add_row(name, Text(said["summary"]))
        made.add_row("", Text(said["source"], style="dim"))
    out = console()
    out.print(made)
    out.print()
    out.print("netpipe suite run NAME measures one, netpipe suite run ./FILE.toml one of your own.")
    return code


def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names, and files where none begins so."""
    from netpipe.cli.suite import files

    found = []
    for name in files.names():
        if name.startswith(incomplete):
            try:
                found.append(CompletionItem(name, help=files.texts(files.find(name))["summary"]))
            except Failure:
                continue
    return found or [CompletionItem(incomplete, type="file")]


@command.command()
@click.argument("suite", metavar="NAME|FILE", shell_complete=complete)
@click.option(
    "-o",
    "--output",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where records, figures and the report go.  [default: the suite's name, in this folder]",
)
@click.option("--dry-run", is_flag=True, help="Show the plans and what can be made here; measure nothing.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
def run(suite: str, output: Path | None, dry_run: bool, quiet: bool) -> int:
    """Measure a suite and write its figures, tables and report.

    NAME is a suite of netpipe suite list, FILE a path such as ./mine.toml. The whole file is checked first. What this
    machine does not have is left out, and named with the reason.
    """
    from netpipe.cli.suite import files, measure

    loaded = files.load(files.find(suite))
    if dry_run:
        return measure.dry_run(loaded)
    folder = output or Path(loaded.name)
    if folder.exists() and not folder.is_dir():
        raise Failure(USAGE, f"{folder} is not a folder; name one with --output")
    return measure.run(loaded, folder, quiet)
