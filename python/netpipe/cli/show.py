# SPDX-License-Identifier: Apache-2.0
"""netpipe show: run files and profiles on the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netpipe.command.options import matching, pattern_option, refuse, runs_argument, variant_option
from netpipe.failure import USAGE, Failure
from netpipe.streams import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from netpipe.reading import Reading
    from netpipe.reading.curves import Curve

OF_PROFILES = ("rank", "ranks_per_host", "phase", "events")  # parameters


@click.command
@runs_argument
@variant_option
@pattern_option
@click.option("--points", is_flag=True, help="Show the points of every curve.")
@click.option(
    "--fit",
    "fitted",
    is_flag=True,
    help="Show latency and rate by pieces, and the sizes at which they change.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print summary, losses, findings and states, and sizes and points if asked for, as JSON; for a profile all "
    "tables.",
)
@click.option(
    "--rank",
    type=click.IntRange(0),
    metavar="R",
    help="With a profile: the rank to show beside all ranks together  [default: 0]",
)
@click.option(
    "--ranks-per-host",
    type=click.IntRange(1),
    metavar="N",
    help="With a profile: take each N consecutive ranks for one host, wherever they were.",
)
@click.option(
    "--phase",
    type=int,
    metavar="N",
    help="With a profile: only the calls of phase N, which MPI_Pcontrol(N) begins  [default: all]",
)
@click.option(
    "--events",
    type=click.IntRange(1),
    metavar="N",
    help="With a profile: judge waiting on at most N events of its trace, or of the phase  [default: 200000]",
)
def command(
    runs: tuple[Path, ...],
    variants: tuple[str, ...],
    patterns: tuple[str, ...],
    points: bool,
    fitted: bool,
    as_json: bool,
    rank: int | None,
    ranks_per_host: int | None,
    phase: int | None,
    events: int | None,
) -> None:
    """Show the summary of RUN [run.jsonl] and what each layer loses.

    With --variant or --points, shows every size; with --fit, the latency and rate of each curve by pieces.
    Several runs are overlaid: each variant then says where its ranks were, or which file it is from.

    RUN may also be a profile, of netpipe profile: then shows what the program's messages were, and where
    its time went.
    """
    from netpipe.kernels.lines import are_applications
    from netpipe.profiles.lines import is_profile

    files = runs or (Path("run.jsonl"),)
    if kernels := [path for path in files if are_applications(path)]:
        if len(files) > 1:
            raise Failure(
                USAGE, f"{kernels[0]} has results of kernels, which are shown alone; leave the others out"
            )
        words = f"{kernels[0]} has results of kernels, not a run"
        refuse(("variants", "patterns", "points", "fitted", *OF_PROFILES), words)
        show_kernels(kernels[0], as_json)
        return
    if profiles := [path for path in files if is_profile(path)]:
        if len(files) > 1:
            raise Failure(
                USAGE, f"{profiles[0]} is a profile, which is shown alone; leave the other files out"
            )
        refuse(("variants", "patterns", "points", "fitted"), f"{profiles[0]} is a profile, not a run")
        show_profile(profiles[0], rank, ranks_per_host, phase, events, as_json)
        return
    from netpipe.reading import Reading
    from netpipe.reading.across import merge

    reading = Reading(merge.read(files))
    refuse(OF_PROFILES, f"{files[0]} is a run, not a profile")
    found = choose(reading.curves, variants, patterns)
    if as_json:
        click.echo(to_json(reading, found, points or bool(variants), fitted))
        return
    from netpipe.render.terminal.points import print_points
    from netpipe.render.terminal.summary import console, print_summary
    from netpipe.render.words import measured, when

    out = console()
    if fitted:
        from netpipe.render.terminal.pieces import print_fits

        fits = [fit for curve in found if (fit := reading.fit_of(curve)) is not None]
        if not fits:
            raise Failure(USAGE, f"no chosen curve of {files[0]} has two sizes, so there is nothing to fit")
        print_fits(out, reading, fits)
        return
    if variants or points:
        print_points(out, with_others(reading, found))
        return
    # Of a run without a curve the summary begins with the same sentence.
    first = [when(reading.run), measured(reading) if reading.curves or reading.openings else ""]
    out.print(" ".join(filter(None, first)), markup=False)
    print_summary(out, reading)


def show_kernels(path: Path, as_json: bool) -> None:
    """Raises Failure (2) for a damaged file."""
    from netpipe.kernels import NotApplications, read
    from netpipe.kernels.table import rows
    from netpipe.render.terminal.apps import failures, print_table
    from netpipe.render.terminal.rows import console

    try:
        whole = read(path)
    except NotApplications as error:
        raise Failure(USAGE, str(error)) from None
    found = rows(whole.results)
    if as_json:
        import json
        from dataclasses import asdict

        click.echo(json.dumps({"rows": [asdict(row) for row in found]}))
        return
    print_table(console(), found, whole.header.processors)
    for sentence in failures(found):
        say(sentence)


def show_profile(
    path: Path,
    rank: int | None,
    ranks_per_host: int | None,
    phase: int | None,
    events: int | None,
    as_json: bool,
) -> None:
    """Raises Failure (2) for a damaged profile, and for a rank or phase of which there is nothing."""
    from netpipe.profiles import NotAProfile, read
    from netpipe.profiles.tables import NotThere, tables
    from netpipe.profiles.trace.waiting import MOST_EVENTS

    try:
        made = tables(read(path), rank, ranks_per_host, phase, MOST_EVENTS if events is None else events)
    except NotAProfile as error:
        raise Failure(USAGE, str(error)) from None
    except NotThere as error:
        raise Failure(USAGE, f"{path}: {error}; choose another {error.option}") from None
    if as_json:
        import msgspec

        from netpipe.escapes import printable_json

        click.echo(printable_json(msgspec.json.encode(made).decode()))
        return
    from netpipe.render.terminal.profile import print_profile
    from netpipe.render.terminal.rows import console

    print_profile(console(), made)


def choose(found: tuple[Curve, ...], variants: tuple[str, ...], patterns: tuple[str, ...]) -> list[Curve]:
    variants, patterns = matching(variants, patterns, ((curve.variant, curve.pattern) for curve in found))
    return [
        curve
        for curve in found
        if (not variants or curve.variant in variants) and (not patterns or curve.pattern in patterns)
    ]


def with_others(reading: Reading, found: list[Curve]) -> Iterator[Curve]:
    """The curves, and behind each that comes in states what it is in the other ones."""
    from dataclasses import replace

    from netpipe.findings.machine_state import other_text

    for curve in found:
        yield curve
        name = (curve.variant, curve.pattern)
        for other, there in reading.other_states.get(name, ()):
            state = other_text(reading.in_states[name], other)
            yield replace(there, variant=f"{curve.variant} {state}")


def to_json(reading: Reading, found: list[Curve], points: bool, fitted: bool = False) -> str:
    import msgspec

    from netpipe.escapes import printable_json
    from netpipe.findings import judge, most_important
    from netpipe.findings.floor import floors
    from netpipe.findings.trust import trust
    from netpipe.reading.losses import Loss
    from netpipe.render.collectives import of_curves
    from netpipe.render.export import whole
    from netpipe.render.export.table import size_rows
    from netpipe.render.next_step import next_step

    run, names = reading.run, {(curve.variant, curve.pattern) for curve in found}
    judgement = judge(reading)
    answer: dict[str, Any] = {
        "run": run.header.run if run.header else None,
        "end": run.end,
        "summaries": [one for one in reading.summaries if (one.variant, one.pattern) in names],
        "losses": [
            {name: getattr(loss, name) for name in Loss.__slots__} | {"sizes": list(loss.sizes)}
            for loss in reading.losses
            if (loss.variant, loss.pattern) in names
        ],
        "collectives": of_curves(reading.collectives, names.__contains__),
        "floors": [floor for floor in floors(reading) if (floor.variant, floor.pattern) in names],
        "next_step": next_step(reading, judgement.findings),
        "trust": trust(reading, judgement.findings),
        "findings": judgement.findings,
        "most_important": [judgement.findings.index(one) for one in most_important(judgement.findings)],
        "withdrawn": judgement.withdrawn,
        "skipped_rules": judgement.skipped,
        "states": reading.states,
        "in_states": [in_states(reading, name, points) for name in reading.in_states if name in names],
        "beside_themselves": reading.beside,
        "verdicts": [one for one in reading.verdicts if (one.variant, one.pattern) in names],
        "skipped": run.skipped,
        "errors": run.errors,
    }
    if fitted:
        answer["fits"] = [fit for curve in found if (fit := reading.fit_of(curve)) is not None]
    if points:
        answer["sizes"] = [row for curve in found for row in size_rows(whole.points(reading, curve))]
        answer["points"] = [record for curve in found for point in curve.points for record in point.by_launch]
    return printable_json(msgspec.json.encode(answer).decode())


def in_states(reading: Reading, name: tuple[str, str], points: bool) -> dict[str, Any]:
    """A curve that comes in states, and what it is in the other ones."""
    import msgspec

    from netpipe.reading.summary import summarise

    said: dict[str, Any] = msgspec.to_builtins(reading.in_states[name])
    for other, (_, curve) in zip(said["others"], reading.other_states[name], strict=True):
        other["summary"] = summarise(curve)
        if points:
            other["points"] = [
                {"size_bytes": at.size_bytes, "time_ns": at.time_ns, "bytes_per_s": at.rate_bytes_per_s}
                for at in curve.points
            ]
    return said
