# SPDX-License-Identifier: Apache-2.0
"""netpipe run: measures. The worker interprets what is to be measured; texts are passed on as they were given."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from netpipe.command import measuring
from netpipe.command.choices import complete_patterns
from netpipe.command.presets import PRESETS, preset, preset_text
from netpipe.failure import DONE, UNAVAILABLE, UNSTABLE, USAGE, Failure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from netpipe.reading import Reading
    from netpipe.reading.curves import CurvePoint
    from netpipe.records import Run
    from netpipe.session import Result, Session


@measuring.measuring_command(
    output="run.jsonl",
    defaults=PRESETS["default"],
    more=(
        click.option(
            "--pattern",
            multiple=True,
            metavar="NAME",
            shell_complete=complete_patterns,
            help="What the processes do; may be repeated. 'window:in_flight=1|4|16' is three  [default: pingpong]",
        ),
        click.option(
            "--preset",
            type=click.Choice(list(PRESETS)),
            default="default",
            help="Defaults for options that are not given. "
            + "; ".join(f"{name}: {preset_text(name)}" for name in PRESETS if PRESETS[name])
            + "  [default: default]",
        ),
        click.option(
            "--aa",
            is_flag=True,
            help="Measure every variant beside itself as well: shows which differences a comparison can tell.",
        ),
        click.option(
            "--continue",
            "onto",
            metavar="FILE",
            help="Measure the run in FILE again on the same host, and add the new launches to it. --launches is how "
            "many, and --budget the time for each curve; without them as many and as long as in FILE.",
        ),
        click.option("--report", metavar="FILE", help="Also write the report, one HTML page."),
        click.option(
            "--dry-run", is_flag=True, help="Show the plan and how long it will take; measure nothing."
        ),
        click.option(
            "--strict",
            is_flag=True,
            help="Exit with 5 if any point of the whole run is not within the target.",
        ),
    ),
)
def command(**given: Any) -> int:
    """Measure VARIANTs: modules with their settings.

    A variant is tcp, or tcp:sndbuf=512k,wait=poll. Several values of a setting are several variants:
    'tcp:sndbuf=64k|1M', or 0..64:8 for 0 to 64 in steps of 8. netpipe list shows the modules and their settings.

    Without a VARIANT: all layers of this host, from memcpy to tcp, with blocking and with polling waits, and every MPI
    library that was added (netpipe modules) over shared memory and over TCP. mpi stands for these libraries, and all
    for these layers and every other module that is available here.

    Records are written to the run file as they are measured: an interrupted run is a valid shorter one.
    """
    from netpipe.run_file import check_output, check_target

    if given["onto"]:
        given = continued(given)
    report = Path(given["report"]) if given["report"] else None
    if report is not None:
        if report.absolute() == Path(given["output"]).absolute():
            raise Failure(USAGE, f"--report {report} is the run file; choose another name")
        check_target(report)  # and again before it is written: it may have become this run
    session = planned(given)
    if given["onto"]:
        check_continued(session, given["run"])
    if given["dry_run"]:
        if not given["onto"] and given["output"] != "-":
            check_output(Path(given["output"]))
        return dry_run(session, given["as_json"])
    from netpipe.command.continued import check_started

    check = partial(check_started, given["run"]) if given["onto"] else None
    result = measuring.measure(session, given, measuring.display(given, session), given["strict"], check)
    if result.exit_code == UNSTABLE:
        from netpipe.streams import say

        say(unsettled_text(result.reading))
    if not given["quiet"]:
        measuring.print_result(result, given, points_text(result), more_text(result))
    if report is not None:
        check_target(report)
        make_report(result, report, given["quiet"])
    return result.exit_code


# What may stand beside --continue; all else is as it was.
BESIDE_CONTINUE = frozenset({"onto", "launches", "budget", "report", "dry_run", "strict", "quiet", "as_json"})


def continued(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the run that is continued, with those that say how long. Raises Failure (2)."""
    from netpipe.command.continued import recorded_words
    from netpipe.records import NotARun, Run

    context = click.get_current_context()
    for name in given:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE and name not in BESIDE_CONTINUE:
            option = "VARIANT" if name == "variants" else f"--{name.replace('_', '-')}"
            raise Failure(USAGE, f"--continue repeats the plan of the run; leave {option} out")
    path = given["onto"]
    try:
        run = Run.read(path, samples=False)
    except NotARun as error:
        raise Failure(USAGE, f"{error}; it cannot be continued") from None
    before = context.command.make_context("run", list(recorded_words(run)), parent=context.parent).params
    had = run.plans[0].launches or 1
    launches = given["launches"] or had
    budget = given["budget"] or f"{(run.plans[0].budget_s or 0.0) / had * launches:g}"
    own = {name: given[name] for name in BESIDE_CONTINUE - {"launches", "budget"}}
    return {**before, **own, "output": path, "launches": launches, "budget": budget, "run": run}


def check_continued(session: Session, run: Run) -> None:
    """Raises Failure (2) where the plan is not that of the run any more."""
    from netpipe import native, version
    from netpipe.command.continued import check_same

    listed = native.list_([str(Path(file).absolute()) for file in session.request.modules])["modules"]
    versions = {one["name"]: one.get("version") for one in listed}
    check_same(run, session.plan, version(), native.environment(), versions)


def session_of(words: Sequence[str]) -> Session:
    """The checked plan of a command line, given as the words after `netpipe run`. Raises Failure, and ClickException
    for words that are not valid.
    """
    root = click.get_current_context().find_root()
    return planned(command.make_context("run", list(words), parent=root).params)


def planned(given: Mapping[str, Any]) -> Session:
    """The checked plan of these options. Raises Failure."""
    from netpipe.session import Session

    settings, usual = preset(given["preset"], {name for name, value in given.items() if value})
    launches = given["launches"] or usual
    return Session(
        measuring.request(
            given, settings, patterns=given["pattern"], launches=launches, beside_itself=given["aa"]
        )
    )


def points_text(result: Result) -> str:
    """30 points are in FILE, where one launch settled all; 30 points, 28 of them settled, half of their intervals
    within ±0.9 %, are in FILE; or 30 points of 4 launches, half of their intervals within ±5.0 %, are in FILE (the same
    half as that of the finding target-missed). A continued run has intervals for another one of as many launches; what
    they are for one of as few as the first command had stands beside.
    """
    from netpipe.units import counted, width_text

    reading = result.reading
    points = [point for curve in reading.curves for point in curve.points]
    launches = len({point.launch for point in result.run.points})
    settled = sum(point.converged is True for point in points)
    widths = reading.half_widths.tolist()
    if widths and (launches > 1 or settled < len(points)):
        typical = median(widths)
        within = f"within {width_text(typical)}" if typical <= 1 else "wider than ±100 %"
        within += _of_the_command(result.run, points, typical)
        of = f" of {launches} launches" if launches > 1 else f", {settled} of them settled" if settled else ""
        whose = "half of their intervals" if len(points) > 1 else "its interval"
        which = f"{of}, {whose} {within},"
    else:
        which = "" if settled == len(points) else f", {settled} of them settled,"
    return f"{counted(len(points), 'point')}{which} {'is' if len(points) == 1 else 'are'} in {result.path}"


def _of_the_command(run: Run, points: Sequence[CurvePoint], typical: float) -> str:
    """How wide the interval of a continued run is for a run of as many launches as the command has that began it; empty
    for other runs.
    """
    from netpipe.reading.blocks.visits import width_for
    from netpipe.units import counted, width_text

    had = run.plans[0].launches if run.plans else None
    has = max((len(point.by_launch) for point in points), default=0)
    if not had or has <= had:
        return ""
    width = typical * width_for(had, has)
    if width > 1:
        return ""
    return f" for a run of as many ({width_text(width)} for one of {counted(had, 'launch', 'launches')})"


def unsettled_text(reading: Reading) -> str:
    """3 of 30 points are not within the target of ±1.0 %; the widest is tcp at 64 KiB, ±14 %; ..."""
    from netpipe.reading.curves import target_of
    from netpipe.units import counted, percent_text, size_text, width_text

    points = [(curve, point) for curve in reading.curves for point in curve.points]
    loose = [(curve, point) for curve, point in points if point.converged is False]
    curve, worst = max(loose, key=lambda one: one[1].time_ns.half_width)
    pattern = f" ({curve.pattern})" if len(reading.patterns) > 1 else ""
    where = f"{curve.variant}{pattern} at {size_text(worst.size_bytes)}"
    known = worst.time_ns.half_width < math.inf
    widest = (
        f"the widest is {where}, {width_text(worst.time_ns.half_width)}"
        if known
        else f"{where} has too few samples for an interval"
    )
    target = target_of(reading.run)
    return (
        f"{len(loose)} of {counted(len(points), 'point')} {'is' if len(loose) == 1 else 'are'} not within the target"
        f"{f' of ±{percent_text(target)}' if target else ''}; {widest}; give more --budget, or see netpipe doctor"
    )


def more_text(result: Result) -> str | None:
    """What narrower intervals would take, and the command, with nothing behind it: it is there to be copied. Where
    half of the intervals say nothing, why that cannot be told.
    """
    from netpipe.findings.experiments import going_on
    from netpipe.reading.blocks.more import no_offer, offer
    from netpipe.units import span_text, width_text

    widths = result.reading.half_widths.tolist()
    if why := no_offer(result.run, widths):
        return f"What more launches would bring cannot be estimated: {why}."
    offered = offer(result.run, widths)
    if offered is None or result.path is None:
        return None
    return (
        f"If the machine stays like this, {width_text(offered.width)} takes about {span_text(offered.seconds)} more: "
        f"{going_on.command(result.path, offered.launches)}"
    )


def dry_run(session: Session, as_json: bool) -> int:
    """Raises Failure (3) where a library has gone or the run would measure nothing, as it would itself."""
    launches = session.request.launches
    if as_json:
        import json

        click.echo(json.dumps({**session.answer, **session.started, "launches": launches}))
    else:
        from netpipe.render.terminal.plan import print_plan
        from netpipe.render.terminal.rows import console
        from netpipe.streams import say

        for note in session.notes:
            say(note)
        print_plan(console(), session.plan, {**session.answer, **session.started}, launches)
    session.check_libraries()
    curves = session.answer.get("curves", [])
    if curves and all(one.get("reason") for one in curves):
        reasons = dict.fromkeys(str(one["reason"]) for one in curves)
        raise Failure(UNAVAILABLE, f"nothing could be measured: {'; '.join(reasons)}")
    return DONE


def make_report(result: Result, report: Path, quiet: bool) -> None:
    from netpipe.render.page.page import write
    from netpipe.streams import say

    write(result.reading, report)
    if not quiet:
        say(f"the report is in {report}")
