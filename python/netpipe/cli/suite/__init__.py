# SPDX-License-Identifier: Apache-2.0
"""netpipe suite: sets of runs with the figures and tables drawn from them. A suite is one file, see files.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from netpipe.cli.suite.parts import DEFAULT, SIZES
from netpipe.failure import USAGE, Failure

SCHEDULERS = ("slurm", "flux", "pbs")  # those of batch/scripts.py; a test holds them together


@click.group
def command() -> None:
    """Measure a named set of runs and draw its figures.

    A suite is one file. Some come with netpipe; docs/how-to/add-a-suite.md says how to write one.
    """


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


suite_argument = click.argument("suite", metavar="NAME|FILE", shell_complete=complete)
size_option = click.option(
    "--size",
    type=click.Choice(SIZES),
    default=DEFAULT,
    show_default=True,
    help="How much is measured; a suite may have fewer sizes.",
)


def site_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Where the processes are."""
    hosts = click.option(
        "--hosts",
        metavar="A,B",
        help="Hosts of the processes, as in netpipe run  [default: this host]",
    )
    return hosts(reach_options(function))


def reach_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """How the hosts are reached, and what else is different at each site."""
    for option in reversed(
        (
            click.option("--launcher", metavar="NAME", help="Start the processes with srun or ssh."),
            click.option("--remote-shell", metavar="COMMAND", help="How to reach other hosts."),
            click.option("--bind", metavar="ADDRESS", help="The address of this host that they connect to."),
            click.option(
                "--set",
                "settings",
                multiple=True,
                metavar="NAME=VALUE",
                help="What the suite leaves open, such as rails=eth0+eth1; suite show names it.",
            ),
        )
    ):
        function = option(function)
    return function


@command.command("list")
@click.option("--times", is_flag=True, help="Also say how long each takes here; asks for every plan.")
def list_(times: bool) -> int:
    """Show the suites that come with netpipe."""
    from netpipe.cli.suite.listing import print_list

    return print_list(times)


@command.command()
@suite_argument
@size_option
@site_options
def show(suite: str, size: str, **site: Any) -> int:
    """Show what is in a suite, and what of it can be made here.

    Each figure and table with what it is made from, and the reason where it cannot be; what stands for hardware that is
    gone; how long it takes.
    """
    from netpipe.cli.suite import files
    from netpipe.cli.suite.listing import show as print_suite
    from netpipe.cli.suite.runs.base import Site

    return print_suite(files.find(suite), size, Site(**site))


@command.command()
@suite_argument
@size_option
@site_options
@click.option(
    "-o",
    "--output",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where records, figures and the report go  [default: the suite's name, in this folder]",
)
@click.option(
    "--continue",
    "goes_on",
    is_flag=True,
    help="Keep the runs that are complete in FOLDER, and measure the others: the same suite on the same host.",
)
@click.option(
    "--run",
    "only",
    metavar="NAME",
    help="Measure this run of the suite alone, unless it is complete in FOLDER; draw nothing.",
)
@click.option("--gather", is_flag=True, help="Draw and report what is complete in FOLDER; measure nothing.")
@click.option("--dry-run", is_flag=True, help="Show the plans and what can be made here; measure nothing.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
def run(
    suite: str,
    size: str,
    output: Path | None,
    goes_on: bool,
    only: str | None,
    gather: bool,
    dry_run: bool,
    quiet: bool,
    **site: Any,
) -> int:
    """Measure a suite and write its figures, tables and report.

    NAME is a suite of netpipe suite list, FILE a path such as ./mine.toml. The whole file is checked first. What this
    machine does not have is left out, and named with the reason.
    """
    from netpipe.cli.suite import files, measure
    from netpipe.cli.suite.batch import gathering
    from netpipe.cli.suite.runs.base import Site

    if sum((goes_on or dry_run, only is not None, gather)) > 1:
        raise Failure(
            USAGE, "--run and --gather go with no other of --continue, --run, --gather and --dry-run"
        )
    loaded = files.load(files.find(suite), size)
    if dry_run:
        return measure.dry_run(loaded, Site(**site))
    folder = output or Path(loaded.name)
    if folder.exists() and not folder.is_dir():
        raise Failure(USAGE, f"{folder} is not a folder; name one with --output")
    if only is not None:
        return gathering.run_one(loaded, only, folder, quiet, Site(**site))
    if gather:
        return gathering.gather(loaded, folder, quiet, Site(**site))
    return measure.run(loaded, folder, quiet, Site(**site), goes_on)


@command.command()
@suite_argument
@size_option
@click.option(
    "--scheduler", type=click.Choice(SCHEDULERS), required=True, help="The scheduler of the cluster."
)
@click.option(
    "--nodes", type=click.IntRange(1, 100_000), default=1, show_default=True, metavar="N", help="Hosts."
)
@click.option(
    "--per-node",
    type=click.IntRange(1, 10_000),
    default=1,
    show_default=True,
    metavar="N",
    help="Processes of a library on each host.",
)
@click.option(
    "--minutes",
    type=click.IntRange(1, 100_000),
    metavar="N",
    help="Time of the job  [default: the suite's estimate, and half more]",
)
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="TEXT",
    help="More for the scheduler, such as --partition=short.",
)
@click.option(
    "-o",
    "--output",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help="As in suite run.",
)
@click.option(
    "--script",
    "target",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The script  [default: NAME.SCHEDULER.sh]",
)
@click.option(
    "--array", is_flag=True, help="A task for each run of the suite, and one for the report (Slurm)."
)
@click.option("--now", is_flag=True, help="Also submit it.")
@reach_options
def submit(
    suite: str,
    size: str,
    scheduler: str,
    nodes: int,
    per_node: int,
    minutes: int | None,
    options: tuple[str, ...],
    output: Path | None,
    target: Path | None,
    now: bool,
    array: bool,
    **reach: Any,
) -> int:
    """Write a job script that runs a suite, and submit it with --now.

    The job runs the suite on the hosts that the scheduler gives it, and goes on where an earlier job with the same
    folder was ended. With --array the runs of the suite are tasks of one array, which may be measured at the same time
    on different hosts, and a second job makes the report when the last one has ended.
    """
    from netpipe.cli.suite.batch import submitting
    from netpipe.cli.suite.runs.base import Site

    there = Site(**reach)
    return submitting.write(
        suite, size, there, scheduler, nodes, per_node, minutes, options, output, target, now, array
    )
