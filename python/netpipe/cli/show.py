# SPDX-License-Identifier: Apache-2.0
"""netpipe show: run files on the terminal."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netpipe.cli._choices import complete_measured
from netpipe.failure import USAGE, Failure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from netpipe.reading import Reading
    from netpipe.reading.curves import Curve


@click.command
@click.argument("runs", metavar="[RUN]...", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--variant",
    multiple=True,
    metavar="VARIANT",
    shell_complete=complete_measured("variant"),
    help="Show the points of this variant, or of all variants of this module; may be repeated.",
)
@click.option(
    "--pattern",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_measured("pattern"),
    help="Only curves of this pattern; may be repeated.",
)
@click.option("--points", is_flag=True, help="Show the points of every curve.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print summary, losses, findings and states, and points if asked for, as JSON.",
)
def command(
    runs: tuple[Path, ...], variant: tuple[str, ...], pattern: tuple[str, ...], points: bool, as_json: bool
) -> None:
    """Show the summary of RUN [run.jsonl] and what each layer loses.

    With --variant or --points, shows every size. Several runs are overlaid: each variant then says where
    its ranks were, or which file it is from.
    """
    from netpipe.reading import Reading, merge

    reading = Reading(merge.read(runs or (Path("run.jsonl"),)))
    found = choose(reading.curves, variant, pattern)
    if as_json:
        click.echo(to_json(reading, found, points or bool(variant)))
        return
    from netpipe.render.terminal.summary import console, point_table, print_summary
    from netpipe.render.words import measured, when

    out = console()
    if variant or points:
        for place, curve in enumerate(found):
            if place:
                out.print()
            out.print(f"{curve.variant}, {curve.pattern}", style="bold", markup=False)
            out.print(point_table(curve))
        return
    out.print(" ".join(filter(None, [when(reading.run), measured(reading)])), markup=False)
    print_summary(out, reading)


def matching(
    variants: tuple[str, ...], patterns: tuple[str, ...], there: Iterable[tuple[str, str]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names as the run has them. `there` is (variant, pattern) of what it has. A name that is not there stands for
    all that begin with it and go on with settings: `tcp` for tcp:wait=poll, `mpi` for mpi@openmpi, `overlap` for
    overlap:computes=one. Raises Failure (2) for a name without a match.
    """
    pairs = list(there)
    found = []
    for what, asked, known in (
        ("variant", variants, list(dict.fromkeys(variant for variant, _ in pairs))),
        ("pattern", patterns, list(dict.fromkeys(pattern for _, pattern in pairs))),
    ):
        full: list[str] = []
        for name in asked:
            some = [one for one in known if one == name] or [
                one for one in known if one.startswith((f"{name}:", f"{name}@"))
            ]
            if not some:
                near = get_close_matches(name, known, n=1)
                hint = f"did you mean '{near[0]}'?" if near else f"it has {', '.join(known) or 'none'}"
                raise Failure(USAGE, f"the run has no points of {what} '{name}'; {hint}")
            full += some
        found.append(tuple(dict.fromkeys(full)))
    return found[0], found[1]


def choose(found: tuple[Curve, ...], variants: tuple[str, ...], patterns: tuple[str, ...]) -> list[Curve]:
    variants, patterns = matching(variants, patterns, ((curve.variant, curve.pattern) for curve in found))
    return [
        curve
        for curve in found
        if (not variants or curve.variant in variants) and (not patterns or curve.pattern in patterns)
    ]


def to_json(reading: Reading, found: list[Curve], points: bool) -> str:
    import msgspec

    from netpipe.findings import judge
    from netpipe.findings.floor import floors

    run, names = reading.run, {(curve.variant, curve.pattern) for curve in found}
    judgement = judge(reading)
    answer: dict[str, Any] = {
        "run": run.header.run if run.header else None,
        "end": run.end,
        "summaries": [one for one in reading.summaries if (one.variant, one.pattern) in names],
        "losses": [loss for loss in reading.losses if (loss.variant, loss.pattern) in names],
        "floors": [floor for floor in floors(reading) if (floor.variant, floor.pattern) in names],
        "findings": judgement.findings,
        "skipped_rules": judgement.skipped,
        "states": reading.states,
        "skipped": run.skipped,
        "errors": run.errors,
    }
    if points:
        answer["points"] = [record for curve in found for point in curve.points for record in point.by_launch]
    return msgspec.json.encode(answer).decode()
