# SPDX-License-Identifier: Apache-2.0
"""netpipe show: run files on the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netpipe.command.options import matching, pattern_option, runs_argument, variant_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from netpipe.reading import Reading
    from netpipe.reading.curves import Curve


@click.command
@runs_argument
@variant_option
@pattern_option
@click.option("--points", is_flag=True, help="Show the points of every curve.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print summary, losses, findings and states, and points if asked for, as JSON.",
)
def command(
    runs: tuple[Path, ...], variants: tuple[str, ...], patterns: tuple[str, ...], points: bool, as_json: bool
) -> None:
    """Show the summary of RUN [run.jsonl] and what each layer loses.

    With --variant or --points, shows every size. Several runs are overlaid: each variant then says where
    its ranks were, or which file it is from.
    """
    from netpipe.reading import Reading, merge

    reading = Reading(merge.read(runs or (Path("run.jsonl"),)))
    found = choose(reading.curves, variants, patterns)
    if as_json:
        click.echo(to_json(reading, found, points or bool(variants)))
        return
    from netpipe.render.terminal.points import print_points
    from netpipe.render.terminal.summary import console, print_summary
    from netpipe.render.words import measured, when

    out = console()
    if variants or points:
        print_points(out, with_others(reading, found))
        return
    out.print(" ".join(filter(None, [when(reading.run), measured(reading)])), markup=False)
    print_summary(out, reading)


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


def to_json(reading: Reading, found: list[Curve], points: bool) -> str:
    import msgspec

    from netpipe.escapes import printable_json
    from netpipe.findings import judge
    from netpipe.findings.floor import floors
    from netpipe.reading.losses import Loss

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
        "floors": [floor for floor in floors(reading) if (floor.variant, floor.pattern) in names],
        "findings": judgement.findings,
        "skipped_rules": judgement.skipped,
        "states": reading.states,
        "in_states": [in_states(reading, name, points) for name in reading.in_states if name in names],
        "beside_themselves": reading.beside,
        "verdicts": [one for one in reading.verdicts if (one.variant, one.pattern) in names],
        "skipped": run.skipped,
        "errors": run.errors,
    }
    if points:
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
