# SPDX-License-Identifier: Apache-2.0
"""netpipe run: measures. What is measured is for the worker to understand; texts are passed on as they were given."""

from __future__ import annotations

import os
import socket
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netpipe.cli import _lists, _token
from netpipe.cli._choices import complete_patterns, complete_variants
from netpipe.cli._config import config_option
from netpipe.failure import DONE, FAILED, INTERRUPTED, UNSTABLE, Failure

if TYPE_CHECKING:
    from netpipe.launch.jobs import Site
    from netpipe.launch.measure import Progress
    from netpipe.launch.plan import Plan
    from netpipe.records import End, Run
    from netpipe.records import Plan as ResolvedPlan
    from netpipe.render.terminal.live import Display

# Every layer of one host above the one that it stands on, with the waiting of each that a layer above it needs.
DEFAULT_VARIANTS = (
    "null",
    "memcpy",
    "shm",
    "shm:wait=block",
    "pipe",
    "unix",
    "unix:wait=poll",
    "tcp",
    "tcp:wait=poll",
)
# What an option becomes where it was not given; `default` is the worker's own.
PRESETS: dict[str, dict[str, str]] = {
    "quick": {"schedule": "powers", "target": "2%", "budget": "1"},
    "default": {},
    "thorough": {"target": "0.5%", "budget": "20", "launches": "3"},
}
# Options whose text goes into the plan as it is: (name, metavar, help); the keys are those of docs/reference/worker.md.
PASSED_ON = (
    ("schedule", "KIND", "classic (as NetPIPE), powers of two, or list  [classic]"),
    ("sizes", "SIZES", "The sizes of the list, with commas: 8,1k,1M."),
    ("start", "SIZE", "Smallest size  [1]"),
    ("end", "SIZE", "Largest size  [8M]"),
    ("perturbation", "BYTES", "Sizes that far below and above are measured too, 0 for none  [3]"),
    ("buffers", "POLICY", "warm, or cold: each message from and to memory out of the caches  [warm]"),
    ("send-offset", "BYTES", "Where messages start, from a page boundary  [0]"),
    ("recv-offset", "BYTES", "Where messages land, from a page boundary  [0]"),
    (
        "target",
        "WIDTH",
        "Relative half width of the 95 % interval at which a point is done: 1% or 0.01  [1%]",
    ),
    ("budget", "SECONDS", "Longest time for one curve  [3]"),
    ("timeout", "SECONDS", "Longest time that any wait may last  [10]"),
    ("seed", "NUMBER", "Of the random order of the sizes  [1]"),
    (
        "pin",
        "CPUS",
        "Processors, one per rank: 0,1; auto, none; or how near: smt, cache, socket, sockets  [auto]",
    ),
    ("ranks", "N", "Processes of a variant whose library starts its own, such as mpi  [2]"),
    ("bind", "ADDRESS", "Where processes on --hosts reach this host  [found out]"),
    ("host", "HOST", "The host where netpipe serve runs; without it both ranks are here."),
    ("port", "PORT", "Of the server  [5002]"),
    ("token-file", "FILE", "What the server must be told; see netpipe serve."),
)
PLAN_KEYS = {"end": "end-size"}
REASONS = {DONE: "done", INTERRUPTED: "interrupted", UNSTABLE: "unstable"}


def passed_on(function: Any) -> Any:
    for name, metavar, text in reversed(PASSED_ON):
        function = click.option(f"--{name}", metavar=metavar, help=text)(function)
    return function


@click.command
@click.argument(
    "variants",
    nargs=-1,
    metavar="[VARIANT]...",
    envvar="NETPIPE_RUN_VARIANTS",
    shell_complete=complete_variants,
)
@click.option(
    "--pattern",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_patterns,
    help="May be repeated; 'window:in_flight=1|4|16' is three  [pingpong]",
)
@passed_on
@click.option("--hosts", metavar="A,B", help="Where these processes are, A:2,B:2 for two on each  [here]")
@click.option(
    "--launcher",
    metavar="NAME",
    help="srun, or ssh to the hosts, instead of the way that the library takes itself.",
)
@click.option("--launcher-args", metavar="WORDS", help="More options for mpirun, mpiexec or srun.")
@click.option("--remote-shell", metavar="COMMAND", help="How other hosts are reached: 'ssh -p 2222'.")
@click.option("--verify", is_flag=True, help="Check every byte that arrives, outside the timed region.")
@click.option("--launches", type=click.IntRange(1, 10_000), metavar="N", help="Start everything N times  [1]")
@click.option(
    "--module",
    "module",
    multiple=True,
    metavar="FILE",
    help="A module outside the installation; may be repeated.",
)
@click.option(
    "--preset",
    type=click.Choice(list(PRESETS)),
    default="default",
    help="What options are where they are not given.",
)
@click.option(
    "-o",
    "--output",
    default="run.jsonl",
    metavar="FILE",
    help="The run file; an older run there is renamed  [run.jsonl]",
)
@click.option("--report", metavar="FILE", help="Also make the report: one HTML page.")
@click.option("--dry-run", is_flag=True, help="Show the plan and how long it will take; measure nothing.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but what went wrong.")
@click.option("--json", "as_json", is_flag=True, help="Records to standard output as they come.")
@click.option("--strict", is_flag=True, help="Exit with 5 if any point did not reach its target.")
@config_option
def command(**given: Any) -> int:
    """Measure variants, each a module with its settings: tcp, or tcp:sndbuf=512k,wait=poll. Several values of a setting
    are several variants: 'tcp:sndbuf=64k|1M', and 0..64:8 for 0, 8 and so on to 64.

    Without any: all layers of this host, from memcpy to tcp, with blocking and with polling waits, and every MPI
    library that was added (netpipe modules), over shared memory and over TCP: they are also what mpi stands for.
    netpipe list shows the modules and their options. The records go to the run file as they are measured: an
    interrupted run is a valid shorter one.
    """
    from netpipe import native

    said = {key.replace("_", "-"): value for key, value in given.items() if value not in (None, False, ())}
    settings = {**PRESETS[given["preset"]], **({"schedule": "list"} if "sizes" in said else {}), **said}
    site = make_site(settings)
    settings["pattern"] = _lists.expand(settings.get("pattern", ()))
    plan = make_plan(settings, each_library(_lists.expand(given["variants"])) or available(DEFAULT_VARIANTS))
    answer = native.plan(plan.text())
    if given["dry_run"]:
        return dry_run(answer, int(settings.get("launches", 1)), given["as_json"])
    output = Path(given["output"])
    display = make_display(given["quiet"], resolve(answer))
    run, code = execute(
        plan,
        resolve(answer),
        output,
        int(settings.get("launches", 1)),
        display,
        given["as_json"],
        given["strict"],
        site,
    )
    if not given["quiet"]:
        conclude(run, output, given["as_json"])
    if given["report"]:
        make_report(output, Path(given["report"]), given["quiet"])
    return code


def make_plan(settings: dict[str, Any], variants: tuple[str, ...]) -> Plan:
    from netpipe.launch.plan import Plan

    lines = [("variant", variant) for variant in variants]
    lines += [("pattern", pattern) for pattern in settings.get("pattern", ())]
    lines += [("module-file", str(Path(file).absolute())) for file in settings.get("module", ())]
    lines += [
        (PLAN_KEYS.get(name, name), str(settings[name])) for name, _, _ in PASSED_ON if name in settings
    ]
    unsaid = settings.get("host") and not settings.get("token-file") and _token.VARIABLE not in os.environ
    if unsaid and _token.default_path().is_file():
        lines.append(("token-file", str(_token.default_path())))
    if settings.get("verify"):
        lines.append(("verify", "yes"))
    return Plan(tuple(lines))


def make_site(settings: dict[str, Any]) -> Site:
    """How processes of libraries with launchers of their own are started; `settings` gets how many there are, and
    where they find us."""
    from netpipe.launch import jobs
    from netpipe.launch.hosts import own_address

    hosts = jobs.parse_hosts(settings.get("hosts"), settings.get("ranks"))
    if "ranks" not in settings and hosts.ranks() is not None:
        settings["ranks"] = hosts.ranks()
    if "bind" not in settings and (address := own_address(hosts)) is not None:
        settings["bind"] = address
    words = (settings.get(name) for name in ("launcher", "launcher-args", "remote-shell"))
    return jobs.Site(jobs.settings(hosts, *words))


def each_library(variants: tuple[str, ...]) -> tuple[str, ...]:
    """`mpi` as every MPI library that was added."""
    from netpipe import native
    from netpipe.cli import say
    from netpipe.launch.variants import expand, wants_expansion

    if not wants_expansion(variants):
        return variants
    found, notes = expand(variants, native.list_())
    for note in notes:
        say(note)
    return found


def available(variants: tuple[str, ...]) -> tuple[str, ...]:
    """Those whose module can be used here, and the MPI libraries that were added. What the user names himself is not
    filtered: it fails with its reason.
    """
    from netpipe import native
    from netpipe.launch.variants import added

    listing = native.list_()
    here = {module["name"] for module in listing["modules"] if module["available"]}
    return (*(variant for variant in variants if variant.partition(":")[0] in here), *added(listing))


def resolve(answer: dict[str, Any]) -> ResolvedPlan:
    import msgspec

    from netpipe.records import Plan

    try:
        return msgspec.convert(answer, Plan)
    except msgspec.ValidationError as error:
        raise Failure(
            FAILED, f"the worker resolved the plan to what is none ({error}); is it of this version?"
        ) from None


def dry_run(answer: dict[str, Any], launches: int, as_json: bool) -> int:
    if as_json:
        import json

        click.echo(json.dumps({**answer, "launches": launches}))
        return DONE
    from netpipe.render.terminal.plan import print_plan
    from netpipe.render.terminal.summary import console

    print_plan(console(), resolve(answer), answer, launches)
    return DONE


def make_display(quiet: bool, plan: ResolvedPlan) -> Display:
    from netpipe.cli import say
    from netpipe.render.terminal import live

    if quiet:
        return live.Silent(say)
    if sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        from netpipe.render.terminal.summary import console

        return live.LiveTable(console(sys.stderr), plan)
    return live.Lines(say)


def execute(
    plan: Plan,
    resolved: ResolvedPlan,
    output: Path,
    launches: int,
    display: Display,
    as_json: bool,
    strict: bool,
    site: Site,
    others: tuple[Plan, ...] = (),
) -> tuple[Run, int]:
    """Measures, and puts the first and the last line around it. The run and the exit code."""
    from netpipe import launch, version
    from netpipe.cli import say
    from netpipe.launch.interrupt import Interrupt
    from netpipe.launch.measure import Measurement
    from netpipe.records import End, Header
    from netpipe.run_file import append, make_room, now

    def watch(progress: Progress) -> None:
        if as_json:
            sys.stdout.buffer.writelines(line for line, _ in progress.lines)
            sys.stdout.flush()
        display.show(progress)

    try:
        kept = make_room(output)
        header = Header(
            schema=1,
            run=uuid.uuid4().hex,
            netpipe=version(),
            started=now(),
            host=socket.gethostname(),
            argv=click.get_current_context().obj,
        )
        append(output, header)
        measurement = Measurement(
            plan, resolved, output, launch.find("local"), launches, watch, site=site, others=others
        )
        code = FAILED
        began = time.monotonic()
        try:
            with Interrupt() as interrupt:
                code = measurement.measure(interrupt)
            if code == DONE and strict and loose_points(measurement.run):
                code = UNSTABLE
        except Failure as failure:
            code = failure.exit_code
            raise
        finally:
            if measurement.run.plans:
                seconds = round(time.monotonic() - began, 3)
                code = finish(output, End(exit=code, reason=REASONS.get(code, "failed"), seconds=seconds))
            else:
                put_back(output, kept)
        measurement.finish()
        if kept is not None:
            display.say(f"the run that was in {output} is now in {kept}")
    finally:
        display.close()
    if code == UNSTABLE:
        loose, points = loose_points(measurement.run), len(measurement.run.points)
        say(f"{loose} of {points} points did not reach the target; give more --budget, or see netpipe doctor")
    if code == INTERRUPTED:
        say(f"interrupted; what was measured until then is in {output}")
    return measurement.run, code


def put_back(output: Path, kept: Path | None) -> None:
    """As it was before a run that was never begun: a wrong token moves nothing."""
    if output.is_file():  # and no device
        output.unlink()
        if kept is not None:
            kept.rename(output)


def loose_points(run: Run) -> int:
    return sum(point.converged is False for point in run.points)


def finish(output: Path, end: End) -> int:
    """Writes the last line. The exit code; where the disk is full the run file stays without it, and valid."""
    from netpipe.cli import say
    from netpipe.run_file import append

    try:
        append(output, end)
    except OSError as error:
        say(f"{output}: {error.strerror}; what was measured so far is kept, free some space")
        return FAILED
    return end.exit


def conclude(run: Run, output: Path, as_json: bool) -> None:
    from netpipe.reading import Reading
    from netpipe.render.terminal.summary import console, print_summary

    out = console(sys.stderr if as_json else sys.stdout)
    print_summary(out, Reading(run))
    out.print()
    out.print(
        f"{len(run.points)} points are in {output}; netpipe report {output} makes a page of them.",
        soft_wrap=True,
    )


def make_report(output: Path, report: Path, quiet: bool) -> None:
    from netpipe.cli import say
    from netpipe.reading import Reading
    from netpipe.records import Run
    from netpipe.render.page.page import write

    write(Reading(Run.read(output)), report)
    if not quiet:
        say(f"the report is in {report}")
