# SPDX-License-Identifier: Apache-2.0
"""netpipe history: runs of this host over time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from netpipe.command.options import matching, patterns_of, variants_of
from netpipe.failure import USAGE, Failure
from netpipe.streams import say

if TYPE_CHECKING:
    from netpipe.command.choices import Completer
    from netpipe.history import History


@click.group
def command() -> None:
    """Keep runs, and show how their numbers changed.

    The run files are kept without their samples, in the folder NETPIPE_HISTORY or netpipe/history of the user's data
    folder. 'netpipe check --baseline last' compares a new run with them.
    """


@command.command
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
def add(runs: tuple[Path, ...]) -> None:
    """Keep these runs; one that is there already changes nothing."""
    from netpipe.history import History
    from netpipe.units import counted

    added = 0
    with History.open(create=True) as history:
        for path in runs:
            new = history.add(path)
            added += new
            if not new:
                say(f"{path} is in the history already")
        place = history.place
    say(f"{counted(added, 'run')} added to {place}")


@command.command
@click.argument("run", metavar="ID")
def remove(run: str) -> None:
    """Forget a run; its first letters are enough."""
    from netpipe.history import History

    with History.open() as history:
        history.remove(run)


@command.command("list")
@click.option("--host", metavar="NAME", help="Only the runs of this host.")
@click.option("--json", "as_json", is_flag=True, help="Print the runs as JSON.")
def list_(host: str | None, as_json: bool) -> None:
    """Show the runs that are kept."""
    from netpipe.history import History

    with History.open() as history:
        runs = history.runs(host)
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(runs, enc_hook=str))
        return
    from netpipe.render.terminal.history import print_runs
    from netpipe.render.terminal.rows import console

    print_runs(console(), runs)


def complete_kept(place: int) -> Completer:
    """Completes the variants (0) or the patterns (1) of the runs that are kept, of the host that is named before."""

    def complete(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from netpipe.history import History

        try:
            with History.open() as history:
                there = history.curves(context.params.get("host") or last_host(history))
        except (Failure, OSError):
            return []
        names = dict.fromkeys(curve[place] for curve in there)
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]

    return complete


@command.command
@click.option("--host", metavar="NAME", help="The host  [default: that of the last run]")
@variants_of(complete_kept(0))
@patterns_of(complete_kept(1))
@click.option("--json", "as_json", is_flag=True, help="Print every number and change as JSON.")
def show(host: str | None, variants: tuple[str, ...], patterns: tuple[str, ...], as_json: bool) -> None:
    """Show how latency and throughput changed from run to run.

    A change is a moment from which the numbers lie on another level, as a rank test of all runs before and after it
    says. It takes three runs on each side to see one.
    """
    from netpipe.history import History
    from netpipe.history.trends import trends

    with History.open() as history:
        where = host or last_host(history)
        there = history.curves(where)
        if not there:
            raise Failure(USAGE, f"the history has no run of host {where}; it has {hosts(history)}")
        variants, patterns = matching(variants, patterns, there)
        chosen = [
            (variant, pattern)
            for variant, pattern in there
            if (not variants or variant in variants) and (not patterns or pattern in patterns)
        ]
        found = trends(history, where, chosen)
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode({"host": where, "trends": found}))
        return
    from netpipe.render.terminal.history import print_trends
    from netpipe.render.terminal.rows import console

    print_trends(console(), where, found)


def last_host(history: History) -> str:
    runs = history.runs()
    if not runs:
        raise Failure(USAGE, "the history is empty; add runs with 'netpipe history add run.jsonl'")
    return runs[-1].host


def hosts(history: History) -> str:
    return ", ".join(sorted({run.host for run in history.runs()})) or "none"
