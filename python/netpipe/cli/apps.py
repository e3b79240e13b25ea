# SPDX-License-Identifier: Apache-2.0
"""netpipe apps: application kernels over the MPI libraries that were added."""

from __future__ import annotations

import os
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from netpipe.command.choices import complete_variants
from netpipe.command.measuring import MeasuringCommand, launcher_options
from netpipe.failure import DONE, INTERRUPTED, USAGE, Failure
from netpipe.streams import say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from netpipe.applications.plan import Planned, Request
    from netpipe.applications.session import Outcome, Progress
    from netpipe.launch.jobs import Settings
    from netpipe.libraries.starting.hosts import Hosts

MOST_RANKS = 1 << 20


def complete_kernels(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from netpipe.applications.listing import kernels

    try:
        known = kernels()
    except Failure:
        return []
    words = {name: one.summary for name, one in known.items()} | {"all": "every one of them"}
    return [
        CompletionItem(name, help=summary) for name, summary in words.items() if name.startswith(incomplete)
    ]


@click.command(cls=MeasuringCommand, plan_options=("pin",), texts={})
@click.argument("kernels", nargs=-1, metavar="[KERNEL]...", shell_complete=complete_kernels)
@click.option(
    "--on",
    "variants",
    multiple=True,
    metavar="VARIANT",
    shell_complete=complete_variants,
    help="An MPI library with settings, such as mpi@openmpi:transport=tcp; may be repeated  [default: every one "
    "that was added, over shared memory and over TCP]",
)
@click.option(
    "--class", "classes", metavar="A,B", help="Sizes of the problem  [default: the smallest of each kernel]"
)
@click.option(
    "--ranks",
    metavar="N,N",
    help="Numbers of processes  [default: powers of two from 2, one for each processor at most]",
)
@launcher_options
@click.option(
    "--map",
    "mapping",
    metavar="block|cyclic",
    help="With --hosts: consecutive ranks on one host (block), or on one host after the other (cyclic); both with a "
    "comma  [default: block]",
)
@click.option(
    "--launches",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Run each this many times; an interval needs 6  [default: 6]",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="The longest that one run may take  [default: 600]",
)
@click.option("--seed", type=click.IntRange(0), metavar="N", help="Seed for the random order of the runs.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("apps.jsonl"),
    metavar="FILE",
    help="Where the results go  [default: apps.jsonl]",
)
@click.option(
    "--dry-run", is_flag=True, help="Show what would run, with its memory and its command; run nothing."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but the table and errors.")
def command(**given: Any) -> int:
    """Run application KERNELs over MPI libraries.

    The kernels are the NAS parallel benchmarks and the particle transport code Sweep3D; all stands for every one.
    A kernel may have settings: sweep3d:mk=10,mmi=3, and 'sweep3d:mk=1|10' is two. Each run is verified by the
    published result. The runs are in random order, so that all libraries see the same machine. Each rank is bound to a
    processor of its own, where there are enough. With --hosts, ranks are on several hosts, and --map says on which.

    Without a KERNEL: which there are, and what ranks and classes they can have.
    """
    if not given["kernels"]:
        return show_kernels(given["as_json"])
    from netpipe.applications.plan import plan
    from netpipe.applications.session import DEFAULT_LAUNCHES, DEFAULT_TIMEOUT_S, check_output, run
    from netpipe.kernels.lines import Header
    from netpipe.launch.interrupt import Interrupt
    from netpipe.launch.jobs import settings
    from netpipe.libraries.starting.hosts import parse
    from netpipe.render.terminal.apps import Line
    from netpipe.render.terminal.rows import console

    launches = given["launches"] or DEFAULT_LAUNCHES
    hosts = parse(given["hosts"])
    launching = settings(hosts, given["launcher"], given["launcher_args"], given["remote_shell"])
    request = request_of(given, launching)
    check_output(given["output"])
    line = Line(console(sys.stderr), say)
    show = (lambda _: None) if given["quiet"] else line.show
    try:
        planned = plan(request, show)
    finally:
        line.close()
    if not given["quiet"]:
        for note in planned.notes:
            say(note)
    if given["dry_run"]:
        return show_plan(planned, launches, given["as_json"])
    header = Header(
        schema=0,
        netpipe=version(),
        started=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        command=["netpipe", *(click.get_current_context().obj or ())],
        seed=given["seed"],
    )
    with Interrupt() as interrupt:
        try:
            outcome = run(
                planned,
                launches,
                given["output"],
                header,
                given["timeout"] or DEFAULT_TIMEOUT_S,
                lambda progress: show(progress_text(progress)),
                lambda: interrupt.count > 0,
            )
        finally:
            line.close()
    show_results(outcome, header.processors, given["as_json"], given["quiet"])
    return outcome.exit_code


def version() -> str:
    from netpipe import version

    return version()


def request_of(given: Mapping[str, Any], launching: Settings) -> Request:
    """From the texts of the options, or of a suite. Raises Failure (2)."""
    from netpipe.applications.plan import PLACEMENT, Request

    return Request(
        given["kernels"],
        given["variants"],
        words(given["classes"] or ""),
        ranks_of(given["ranks"], launching.hosts),
        given["pin"] or PLACEMENT,
        launching,
        mappings_of(given["mapping"], launching.hosts),
    )


def words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))


def ranks_of(text: str | None, hosts: Hosts | None = None) -> tuple[int, ...]:
    """What was asked for, or as many as there are processors, on each of several hosts: with more, libraries that poll
    take minutes. Raises Failure (2).
    """
    if text is not None:
        return numbers(text)
    names = hosts.names if hosts is not None else ()
    if hosts is not None and any(count is not None for _, count in hosts.given):
        return (hosts.ranks() or len(names),)
    processors = len(os.sched_getaffinity(0)) * max(len(names), 1)
    powers = (1 << power for power in range(1, 5))
    some = tuple(one for one in powers if one <= processors and one % max(len(names), 1) == 0)
    return some or (max(len(names), 2),)


def mappings_of(text: str | None, hosts: Hosts) -> tuple[str, ...]:
    """Raises Failure (2)."""
    from netpipe.libraries.starting.hosts import BLOCK, MAPPINGS

    if text is None:
        return (BLOCK,)
    some = words(text)
    if not some or not set(some) <= set(MAPPINGS):
        raise Failure(USAGE, f"--map takes {' or '.join(MAPPINGS)}, or both with a comma; not '{text}'")
    if not hosts.given:
        raise Failure(
            USAGE, "--map deals ranks to hosts, and all run on this one; name the hosts with --hosts"
        )
    return some


def numbers(text: str) -> tuple[int, ...]:
    """Raises Failure (2)."""
    some = words(text)
    if not some or not all(one.isdecimal() and len(one) < 9 and 0 < int(one) <= MOST_RANKS for one in some):
        raise Failure(USAGE, f"--ranks takes numbers of processes, separated by commas: 2,4; not '{text}'")
    return tuple(dict.fromkeys(map(int, some)))


def show_kernels(as_json: bool) -> int:
    """Raises Failure (2) for options that are for runs."""
    from dataclasses import asdict

    from netpipe.applications.listing import kernels

    known = kernels()
    context = click.get_current_context()
    for option in context.command.get_params(context):
        name = option.name or ""
        if name != "as_json" and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise Failure(
                USAGE,
                f"which kernels should run with {option.opts[-1]}? Name some of {', '.join(known)}, or all",
            )
    if as_json:
        print_json({"kernels": [asdict(one) for one in known.values()]})
        return DONE
    from netpipe.render.terminal.apps import print_kernels
    from netpipe.render.terminal.rows import console

    print_kernels(console(), list(known.values()))
    return DONE


def show_plan(planned: Planned, launches: int, as_json: bool) -> int:
    from netpipe.applications.plan import memory_text
    from netpipe.applications.running import by_hand
    from netpipe.render.terminal.apps import placed_text
    from netpipe.units import counted, listed

    if as_json:
        tasks = [
            {
                **task.cell._asdict(),
                "memory_bytes": task.memory_bytes,
                "pin": task.pin,
                "oversubscribed": task.oversubscribed,
                "hosts": [task.hosts[place].name for place in task.order],
                "environment": dict(task.environment),
                "command": by_hand(task),
            }
            for task in planned.tasks
        ]
        print_json(
            {
                "tasks": tasks,
                "launches": launches,
                "placement": planned.placement,
                "notes": planned.notes,
            }
        )
        return DONE
    times = counted(launches, "time")
    for task in planned.tasks:
        where = placed_text(task.pin, task.oversubscribed)
        if task.hosts:
            where += f", ranks on {listed(task.hosts[place].name for place in task.order)}"
        click.echo(f"{task.cell.text}: {memory_text(task.memory_bytes)} of memory, {times}, {where}")
        click.echo(f"    {by_hand(task)}")
    return DONE


def progress_text(progress: Progress) -> str:
    """3 of 24 done, about 40 s left: cg class A on 4 ranks over mpi@openmpi"""
    from netpipe.units import span_text

    left = f", about {span_text(progress.left_s)} left" if progress.left_s is not None else ""
    return f"{progress.done} of {progress.of} done{left}: {progress.task.cell.text}"


def show_results(outcome: Outcome, processors: int | None, as_json: bool, quiet: bool) -> None:
    from dataclasses import asdict

    from netpipe.kernels.table import rows
    from netpipe.render.terminal.apps import failures, print_table
    from netpipe.render.terminal.rows import console

    found = rows(outcome.results)
    if as_json:
        flat = [
            {**row.cell._asdict(), **{k: v for k, v in asdict(row).items() if k != "cell"}} for row in found
        ]
        print_json({"rows": flat, "processors": processors, "exit_code": outcome.exit_code})
    elif found:
        print_table(console(), found, processors)
    for sentence in failures(found):
        say(sentence)
    if outcome.exit_code == INTERRUPTED:
        say("interrupted" if found else "interrupted before the first result")
    if not quiet and outcome.output is not None:
        older = f"; the older ones are in {outcome.kept}" if outcome.kept else ""
        say(f"the results are in {outcome.output}{older}")


def print_json(made: Any) -> None:
    import msgspec

    from netpipe.escapes import printable_json

    click.echo(printable_json(msgspec.json.encode(made).decode()))
