# SPDX-License-Identifier: Apache-2.0
"""netpipe show: what run files say, on the terminal."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netpipe.failure import USAGE, Failure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from netpipe.reading import Reading
    from netpipe.reading.curves import Curve


@click.command
@click.argument("runs", metavar="[RUN]...", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--variant", multiple=True, metavar="VARIANT", help="The points of this variant; may be repeated."
)
@click.option(
    "--pattern", multiple=True, metavar="NAME", help="Only curves of this pattern; may be repeated."
)
@click.option("--points", is_flag=True, help="The points of every curve.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Summary, losses, findings and states as JSON; points if asked for.",
)
def command(
    runs: tuple[Path, ...], variant: tuple[str, ...], pattern: tuple[str, ...], points: bool, as_json: bool
) -> None:
    """Show the summary of RUN [run.jsonl] and what each layer loses; with --variant or --points, every size.

    Several runs are laid over each other: each variant says where its ranks were, else which file it is from.
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


def check_names(
    variants: tuple[str, ...], patterns: tuple[str, ...], there: Iterable[tuple[str, str]]
) -> None:
    """Raises Failure (2) for a name that the run does not have. `there` is (variant, pattern) of what it has."""
    pairs = list(there)
    for what, asked, known in (
        ("variant", variants, [variant for variant, _ in pairs]),
        ("pattern", patterns, [pattern for _, pattern in pairs]),
    ):
        for name in asked:
            if name not in known:
                near = get_close_matches(name, known, n=1)
                hint = (
                    f"did you mean '{near[0]}'?" if near else f"there are {', '.join(dict.fromkeys(known))}"
                )
                raise Failure(USAGE, f"the run has no points of {what} '{name}'; {hint}")


def choose(found: tuple[Curve, ...], variants: tuple[str, ...], patterns: tuple[str, ...]) -> list[Curve]:
    check_names(variants, patterns, ((curve.variant, curve.pattern) for curve in found))
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
