# SPDX-License-Identifier: Apache-2.0
"""netpipe explain: the findings of a run at length, and the experiments that confirm them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netpipe.command.options import matching, pattern_option, variant_option
from netpipe.streams import say

if TYPE_CHECKING:
    from netpipe.findings import Confirmed, Finding


@click.command
@click.argument("run", metavar="[RUN]", default="run.jsonl", type=click.Path(path_type=Path))
@variant_option
@pattern_option
@click.option(
    "--confirm",
    is_flag=True,
    help="Run the experiments: each variant beside itself with the remedy. Findings are then confirmed or withdrawn.",
)
@click.option(
    "--budget",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    metavar="SECONDS",
    help="With --confirm: for each experiment  [default: 5]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def command(
    run: Path,
    variants: tuple[str, ...],
    patterns: tuple[str, ...],
    confirm: bool,
    budget: float,
    as_json: bool,
) -> int:
    """Explain RUN: what costs time, why, and what to do.

    Prints the findings about the curves of RUN, which is run.jsonl unless given, each with its evidence, how sure it
    is, its likely cause, the remedy and the experiment that would confirm it.

    With --confirm the experiments are run, and their runs are kept beside RUN (run.confirm-1.jsonl).
    """
    from netpipe.findings import MACHINE, judge, rules
    from netpipe.reading import Reading
    from netpipe.records import Run

    reading = Reading(Run.read(run, samples=False))
    chosen = matching(variants, patterns, list(reading.by_name))
    known = rules()
    found = [
        one
        for one in judge(reading).findings
        if known[one.rule].about != MACHINE
        and (not chosen[0] or one.variant in chosen[0])
        and (not chosen[1] or one.pattern in chosen[1])
    ]
    outcomes = experiments(run, found, f"{budget:g}") if confirm else {}
    if as_json:
        click.echo(to_json(found, outcomes))
        return 0
    from netpipe.render.terminal.explain import print_explained
    from netpipe.render.terminal.rows import console

    print_explained(console(), found, outcomes, confirm)
    return 0


def experiments(run: Path, found: list[Finding], budget: str) -> dict[int, Confirmed]:
    """Place of a finding -> what its experiment came to. The same experiment runs once."""
    from netpipe.command import confirming

    outcomes: dict[int, Confirmed] = {}
    done: dict[str, Confirmed] = {}
    wanted = [(place, one) for place, one in enumerate(found) if one.confirm is not None]
    for place, one in wanted:
        assert one.confirm is not None
        name = one.experiment or ""
        if name not in done:
            say(f"{len(done) + 1} of at most {len(wanted)}: {name}")
            target = run.with_name(f"{run.stem}.confirm-{len(done) + 1}.jsonl")
            done[name] = confirming.run(one.confirm, target, budget)
        outcomes[place] = done[name]
    return outcomes


def to_json(found: list[Finding], outcomes: dict[int, Confirmed]) -> str:
    import msgspec

    from netpipe.escapes import printable_json

    answer: list[dict[str, Any]] = []
    for place, one in enumerate(found):
        said: dict[str, Any] = msgspec.to_builtins(one)
        if place in outcomes:
            said["outcome"] = msgspec.to_builtins(outcomes[place])
        answer.append(said)
    return printable_json(msgspec.json.encode(answer).decode())
